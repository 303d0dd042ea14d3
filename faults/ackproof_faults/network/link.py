"""One kind of Kafka request or response, to brokers or controllers, is held, lost or repeated.

A producer whose Produce response is lost sends the batch again; without idempotence it is then in
the log twice. The same happens if the response reports an error, as a leader does that was deposed
after its append (NOT_LEADER_OR_FOLLOWER, KAFKA-13574). To have a request refused, the proxy
replaces its acks by invalid ones, and the error code of the broker's own answer. The fault needs a
listener behind ackproof's Kafka proxy (`cluster.proxied`), and a workload that uses it
(`workload.listener`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.interfaces.kafka_proxy import (
    BETWEEN_BROKERS,
    ONE_ERROR,
    REFUSALS,
    TO_CONTROLLERS,
    Action,
    Api,
    Direction,
    ErrorName,
    Rule,
    errors_of,
)
from ackproof_model.effects import Effects, Intercepts

#: How many of the messages are named in the evidence.
_NAMED = 3


class LinkFault(Fault):
    """Hold, delay, drop, duplicate, cut or falsify one kind of request or response."""

    requires = ("proxy",)
    disables = False
    explained = True
    traceless = True
    fault: Literal["link"] = "link"
    proof = "the proxy counts messages of that kind to which it applied the action"
    api: Api = Field(description="the kind of message, by Kafka's name")
    direction: Direction = Field(
        description="request: what the targets receive; response: what they answer"
    )
    action: Action = Field(
        description="hold: until healed, with everything behind it; delay; drop; duplicate; "
        "cut: close the connection instead; error: report an error. With direction: response the "
        "broker has carried out the request, with direction: request it refuses it"
    )
    delay: Duration | None = Field(default=None, gt=0, description="for delay: how long")
    error: ErrorName | None = Field(
        default=None,
        description="for error: Kafka's name of the error",
    )
    count: int | None = Field(
        default=None, ge=1, description="apply the action to this many messages only"
    )
    client: str = Field(
        default="",
        description="only clients whose client.id begins with this: broker-2-fetcher for what "
        "broker 2 fetches, 2 for what broker 2 sends to controllers",
        examples=["broker-2-fetcher"],
    )
    within: Duration = Field(
        default=10.0,
        gt=0,
        description="how long to wait for the first such message. The faults after it do not wait",
    )

    @property
    def effects(self) -> Effects:
        return (
            Intercepts(
                api=self.api,
                direction=self.direction,
                action=self.action,
                by=self.delay or None,
                client=self.client,
                count=self.count,
                error=self.error or "",
                denies=self.error in REFUSALS and self.direction == "response",
            ),
        )

    def problems(self, shape: Shape) -> Iterator[Problem]:
        legal = errors_of(self.api, self.direction)
        if self.action != "error":
            if self.error is not None:
                yield "error", "only action: error has an error"
        elif not legal:
            yield (
                "action",
                "error is for api: Produce, and with direction: response for "
                f"{', '.join(ONE_ERROR)}",
            )
        elif self.error not in legal:
            given = f", not {self.error}" if self.error else ""
            yield "error", f"for {self.api} it must be {', '.join(legal)}{given}"
        if (
            shape.unacked
            and self.api == "Produce"
            and (self.direction == "response" or self.action == "error")
        ):
            yield "api", "brokers send no response to Produce with acks: 0; set acks to 1 or all"
        of_controllers, to_controllers = self.target.of_controllers, self.api in TO_CONTROLLERS
        if not shape.proxied:
            yield (
                "fault",
                "'link' needs a listener behind the Kafka proxy: name one in cluster.listeners, "
                "cluster.proxied and workload.listener",
            )
            return
        if self.api in BETWEEN_BROKERS and "INTERNAL" not in shape.proxied:
            yield "api", f"{self.api} needs INTERNAL in cluster.proxied"
        if (of_controllers or to_controllers) and "CONTROLLER" not in shape.proxied:
            yield "api", f"{self.api} to controllers needs CONTROLLER in cluster.proxied"
        elif to_controllers and not of_controllers:
            yield "target", f"{self.api} is sent to controllers: write 'active controller'"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        cluster.proxy.add(self._rule(nodes))

    @property
    def patience_s(self) -> float:
        return self.within

    def await_message(self, cluster: Cluster, nodes: Sequence[int], *, within_s: float) -> bool:
        return bool(cluster.proxy.hits(self._rule(nodes), at_least=1, within_s=within_s))

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        """Return the first messages, which prove that the proxy is in the path."""
        hits = cluster.proxy.hits(self._rule(nodes), at_least=1, within_s=0)
        if not hits:
            raise FaultError(
                f"no {self.api} {self.direction} passed broker "
                f"{', '.join(map(str, sorted(nodes)))} within {self.within:g} s"
            )
        more = f" and {len(hits) - _NAMED} more" if len(hits) > _NAMED else ""
        return Evidence(text=f"{self.error or self.action}: {'; '.join(hits[:_NAMED])}{more}")

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        cluster.proxy.remove(self._rule(nodes))

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        return cluster.proxy.held(self._rule(nodes)) == 0

    def _rule(self, nodes: Sequence[int]) -> Rule:
        return Rule(
            api=self.api,
            direction=self.direction,
            action=self.action,
            brokers=frozenset(nodes),
            client=self.client,
            delay_s=self.delay or 0.0,
            error=self.error or "",
            count=self.count,
        )
