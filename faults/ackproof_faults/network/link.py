"""One kind of Kafka request or response, to brokers or controllers, is held, lost or repeated.

A producer whose Produce response is lost sends the batch again: without idempotence it is then in
the log twice. It needs a listener whose clients are led through ackproof's proxy
(`cluster.proxied`), and a workload that uses it (`workload.listener`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.errors import FaultError
from ackproof_faults.fault import Cluster, Fault
from ackproof_faults.interfaces.kafka_proxy import (
    Action,
    Api,
    Direction,
    Rule,
)

#: So many of the messages that were hit are named in the evidence.
_NAMED = 3


class LinkFault(Fault):
    """Hold, delay, drop, duplicate or cut one kind of request or response of the targets."""

    name: ClassVar[str] = "link"
    proof: ClassVar[str] = "the proxy counts messages of that kind that met it"
    disables: ClassVar[bool] = False
    fault: Literal["link"] = "link"
    api: Api = Field(description="the kind of message, by Kafka's name")
    direction: Direction = Field(description="what the targets are sent, or what they answer")
    action: Action = Field(
        description="hold: until healed, with all behind it; delay; drop; duplicate; "
        "cut: close the connection instead"
    )
    delay: Duration | None = Field(default=None, gt=0, description="for delay: how long")
    count: int | None = Field(default=None, ge=1, description="only so many messages")
    client: str = Field(
        default="",
        description="only clients whose client.id begins so: broker-2-fetcher for what broker 2 "
        "fetches, 2 for what broker 2 asks controllers",
        examples=["broker-2-fetcher"],
    )
    within: Duration = Field(
        default=10.0, gt=0, description="how long to wait for the first such message"
    )

    @model_validator(mode="after")
    def _delay_belongs_to_delay(self) -> Self:
        if (self.action == "delay") != (self.delay is not None):
            raise ValueError("delay is for action: delay, which needs it")
        return self

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Add the rule."""
        cluster.link().add(self._rule(nodes))

    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Wait for the first message that it hits: nothing else shows that it is in the path."""
        hits = cluster.link().hits(self._rule(nodes), at_least=1, within_s=self.within)
        if not hits:
            raise FaultError(
                f"no {self.api} {self.direction} came by at broker "
                f"{', '.join(map(str, nodes))} within {self.within:g} s"
            )
        more = f" and {len(hits) - _NAMED} more" if len(hits) > _NAMED else ""
        return f"{self.action}: {'; '.join(hits[:_NAMED])}{more}"

    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Remove the rule and let go what is held."""
        cluster.link().remove(self._rule(nodes))

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether nothing is held any more."""
        return cluster.link().held(self._rule(nodes)) == 0

    def _rule(self, nodes: Sequence[int]) -> Rule:
        return Rule(
            api=self.api,
            direction=self.direction,
            action=self.action,
            brokers=frozenset(nodes),
            client=self.client,
            delay_s=self.delay or 0.0,
            count=self.count,
        )
