"""The kinds of conditions: on sends, acks, time, logs, other faults, and a partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from ackproof_faults.conditions.condition import (
    Number,
    Operator,
    Seconds,
    SimpleCondition,
    Token,
    compares,
)
from ackproof_faults.conditions.observation import FaultEvent, Observation
from ackproof_faults.conditions.targets import TOPIC

_MORE = Token("(?: more)?", bool, lambda more: " more" if more else "")
_QUOTED = Token("'[^']+'", lambda text: text.strip("'"), lambda text: f"'{text}'")
_ANY_BROKER = Token(
    "(?: [0-9]+)?",
    lambda text: int(text) if text else None,
    lambda broker: "" if broker is None else f" {broker}",
)
_LEADER = Token(
    "[0-9]+|none",
    lambda text: None if text == "none" else int(text),
    lambda broker: "none" if broker is None else str(broker),
)
_MEMBERS = Token(
    r"\{[0-9]+(?:, ?[0-9]+)*\}",
    lambda text: tuple(sorted({int(one) for one in text.strip("{}").split(",") if one})),
    lambda members: f"{{{', '.join(map(str, members))}}}",
)
_ANY_MEMBERS = replace(_MEMBERS, pattern=r"\{(?:[0-9]+(?:, ?[0-9]+)*)?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressIs(SimpleCondition):
    """At least `count` sends are acked or handed over, in all or (`more`) since the mark."""

    TEXT: ClassVar = "{count}{more} {outcome}"
    FORMS: ClassVar = ("'N acked'", "'N more acked'", "'N sent'", "'N more sent'")

    count: Number
    outcome: Annotated[Literal["acked", "sent"], Token("acked|sent")]
    more: Annotated[bool, _MORE]

    def holds(self, observation: Observation) -> bool:
        return observation.count(self.outcome, more=self.more) >= self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class After(SimpleCondition):
    """`seconds` have passed since the mark."""

    TEXT: ClassVar = "after {seconds}"
    FORMS: ClassVar = ("'after 5s'",)

    seconds: Seconds

    def holds(self, observation: Observation) -> bool:
        return observation.elapsed_s() >= self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSays(SimpleCondition):
    """A broker (None: any broker) has logged a line with `text` since the mark."""

    TEXT: ClassVar = "log of broker{broker} says {text}"
    FORMS: ClassVar = ("\"log of broker 1 says 'TEXT'\"",)

    broker: Annotated[int | None, _ANY_BROKER]
    text: Annotated[str, _QUOTED]

    def holds(self, observation: Observation) -> bool:
        return observation.log_contains(self.broker, self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultHas(SimpleCondition):
    """A fault with this name or id began, ended (was healed) or recovered.

    Faults that began before the innermost sequence, or before the loop's turn, do not count.
    """

    TEXT: ClassVar = "{fault} {event}"
    FORMS: ClassVar = ("'FAULT began'", "'FAULT ended'", "'FAULT recovered'")

    fault: Annotated[str, Token("[a-z][a-z0-9_-]*")]
    event: Annotated[FaultEvent, Token("began|ended|recovered")]

    def holds(self, observation: Observation) -> bool:
        return observation.fault_event(self.fault, self.event)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCondition(SimpleCondition):
    """A condition on one partition."""

    topic: Annotated[str, Token(TOPIC)]
    partition: Number

    def known(self, observation: Observation) -> bool:
        return observation.metadata.isr(self.topic, self.partition) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIs(PartitionCondition):
    """Broker `broker` leads the partition (``!=``: another broker); None stands for no leader."""

    TEXT: ClassVar = "leader of {topic}-{partition} {op} {broker}"
    FORMS: ClassVar = ("'leader of TOPIC-N == BROKER' (or none)",)

    op: Annotated[Literal["==", "!="], Token("==|!=")]
    broker: Annotated[int | None, _LEADER]

    def holds(self, observation: Observation) -> bool:
        if self.broker is None and self.op == "==":
            return observation.metadata.leaderless(self.topic, self.partition)
        leader = observation.metadata.leader(self.topic, self.partition)
        if self.broker is None:
            return leader is not None
        return compares(leader, self.op, self.broker)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChanges(PartitionCondition):
    """The partition has another leader than at the mark."""

    TEXT: ClassVar = "leader of {topic}-{partition} changed"
    FORMS: ClassVar = ("'leader of TOPIC-N changed'",)

    def holds(self, observation: Observation) -> bool:
        return observation.leader_changed(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrIs(PartitionCondition):
    """The size of the committed ISR is compared with `size`."""

    TEXT: ClassVar = "isr of {topic}-{partition} {op} {size}"
    FORMS: ClassVar = ("'isr of TOPIC-N == K'",)

    op: Operator
    size: Number

    def holds(self, observation: Observation) -> bool:
        isr = observation.metadata.isr(self.topic, self.partition)
        return compares(None if isr is None else len(isr), self.op, self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrIsExactly(PartitionCondition):
    """The committed ISR has exactly these members."""

    TEXT: ClassVar = "isr of {topic}-{partition} is {members}"
    FORMS: ClassVar = ("'isr of TOPIC-N is {1, 2}'",)

    members: Annotated[tuple[int, ...], _MEMBERS]

    def holds(self, observation: Observation) -> bool:
        isr = observation.metadata.isr(self.topic, self.partition)
        return isr is not None and set(isr) == set(self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElrCondition(PartitionCondition):
    """A condition on state that only the controllers of a KRaft cluster log (KIP-966)."""

    def known(self, observation: Observation) -> bool:
        return observation.metadata.elr(self.topic, self.partition) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElrIsExactly(ElrCondition):
    """The eligible leader replicas are exactly these."""

    TEXT: ClassVar = "elr of {topic}-{partition} is {members}"
    FORMS: ClassVar = ("'elr of TOPIC-N is {1, 2}'",)

    members: Annotated[tuple[int, ...], _ANY_MEMBERS]

    def holds(self, observation: Observation) -> bool:
        elr = observation.metadata.elr(self.topic, self.partition)
        return elr is not None and set(elr) == set(self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastKnownLeaderIs(ElrCondition):
    """The ISR is empty, and broker `broker` led last."""

    TEXT: ClassVar = "last known leader of {topic}-{partition} == {broker}"
    FORMS: ClassVar = ("'last known leader of TOPIC-N == BROKER'",)

    broker: Number

    def holds(self, observation: Observation) -> bool:
        return observation.metadata.last_known_leader(self.topic, self.partition) == self.broker


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochIs(PartitionCondition):
    """The leader epoch is compared with `epoch`."""

    TEXT: ClassVar = "epoch of {topic}-{partition} {op} {epoch}"
    FORMS: ClassVar = ("'epoch of TOPIC-N >= K'",)

    op: Operator
    epoch: Number

    def holds(self, observation: Observation) -> bool:
        return compares(observation.epoch(self.topic, self.partition), self.op, self.epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkStuck(PartitionCondition):
    """The high watermark has not moved for `seconds`."""

    TEXT: ClassVar = "hw of {topic}-{partition} stuck for {seconds}"
    FORMS: ClassVar = ("'hw of TOPIC-N stuck for 2s'",)

    seconds: Seconds

    def holds(self, observation: Observation) -> bool:
        unchanged_s = observation.high_watermark_unchanged_s(self.topic, self.partition)
        return unchanged_s is not None and unchanged_s >= self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LagIs(PartitionCondition):
    """The lag of a consumer group on the partition is compared with `records`."""

    TEXT: ClassVar = "lag of {group} on {topic}-{partition} {op} {records}"
    FORMS: ClassVar = ("'lag of GROUP on TOPIC-N > K'",)

    group: Annotated[str, Token(r"\S+")]
    op: Operator
    records: Number

    def holds(self, observation: Observation) -> bool:
        lag = observation.lag(self.group, self.topic, self.partition)
        return compares(lag, self.op, self.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLagIs(PartitionCondition):
    """The number of records that the leader's log has after the end of a broker's own."""

    TEXT: ClassVar = "lag of broker {broker} on {topic}-{partition} {op} {records}"
    FORMS: ClassVar = ("'lag of broker N on TOPIC-N == K'",)

    broker: Number
    op: Operator
    records: Number

    def known(self, observation: Observation) -> bool:
        return observation.replica_lag(self.broker, self.topic, self.partition) is not None

    def holds(self, observation: Observation) -> bool:
        lag = observation.replica_lag(self.broker, self.topic, self.partition)
        return compares(lag, self.op, self.records)
