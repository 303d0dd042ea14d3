"""The kinds of conditions: on sends, acks, time, logs, other faults, and a partition."""

from __future__ import annotations

from abc import abstractmethod
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
        now: int = getattr(observation.sends, self.outcome)
        before: int = getattr(observation.reference.sends, self.outcome) if self.more else 0
        return now - before >= self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquiredIs(SimpleCondition):
    """Consumers of share groups got at least `count` records, in all or (`more`) since the mark."""

    TEXT: ClassVar = "{count}{more} acquired"
    FORMS: ClassVar = ("'N acquired'", "'N more acquired'")

    count: Number
    more: Annotated[bool, _MORE]

    def holds(self, observation: Observation) -> bool:
        before = observation.reference.sends.acquired if self.more else 0
        return observation.sends.acquired - before >= self.count


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
        every = observation.metadata.broker_ids() if self.broker is None else [self.broker]
        since, history = observation.reference.at, observation.history
        return any(history.log_contains(broker, self.text, since) for broker in every)


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
        time = {"began": "verified_at", "ended": "healed_at", "recovered": "recovered_at"}
        return any(
            getattr(window, time[self.event]) is not None
            for fault_id, window in observation.windows
            if self.fault in (fault_id, window.fault)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCondition(SimpleCondition):
    """A condition on one partition."""

    topic: Annotated[str, Token(TOPIC)]
    partition: Number

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.partition

    def known(self, observation: Observation) -> bool:
        return observation.metadata.isr(*self.place) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIs(PartitionCondition):
    """Broker `broker` leads the partition (``!=``: another broker); None stands for no leader."""

    TEXT: ClassVar = "leader of {topic}-{partition} {op} {broker}"
    FORMS: ClassVar = ("'leader of TOPIC-N == BROKER' (or none)",)

    op: Annotated[Literal["==", "!="], Token("==|!=")]
    broker: Annotated[int | None, _LEADER]

    def holds(self, observation: Observation) -> bool:
        if self.broker is None and self.op == "==":
            return observation.metadata.leaderless(*self.place)
        leader = observation.metadata.leader(*self.place)
        if self.broker is None:
            return leader is not None
        return compares(leader, self.op, self.broker)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChanges(PartitionCondition):
    """The partition has another leader than at the mark."""

    TEXT: ClassVar = "leader of {topic}-{partition} changed"
    FORMS: ClassVar = ("'leader of TOPIC-N changed'",)

    def holds(self, observation: Observation) -> bool:
        before = observation.reference.leaders.get(self.place)
        now = observation.metadata.leader(*self.place)
        return None not in (before, now) and before != now


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrIsExactly(PartitionCondition):
    """The committed ISR has exactly these members."""

    TEXT: ClassVar = "isr of {topic}-{partition} is {members}"
    FORMS: ClassVar = ("'isr of TOPIC-N is {1, 2}'",)

    members: Annotated[tuple[int, ...], _MEMBERS]

    def holds(self, observation: Observation) -> bool:
        isr = observation.metadata.isr(*self.place)
        return isr is not None and set(isr) == set(self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElrCondition(PartitionCondition):
    """A condition on state that only the controllers of a KRaft cluster log (KIP-966)."""

    def known(self, observation: Observation) -> bool:
        return observation.metadata.elr(*self.place) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElrIsExactly(ElrCondition):
    """The eligible leader replicas are exactly these."""

    TEXT: ClassVar = "elr of {topic}-{partition} is {members}"
    FORMS: ClassVar = ("'elr of TOPIC-N is {1, 2}'",)

    members: Annotated[tuple[int, ...], _ANY_MEMBERS]

    def holds(self, observation: Observation) -> bool:
        elr = observation.metadata.elr(*self.place)
        return elr is not None and set(elr) == set(self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastKnownLeaderIs(ElrCondition):
    """The ISR is empty, and broker `broker` led last."""

    TEXT: ClassVar = "last known leader of {topic}-{partition} == {broker}"
    FORMS: ClassVar = ("'last known leader of TOPIC-N == BROKER'",)

    broker: Number

    def holds(self, observation: Observation) -> bool:
        return observation.metadata.last_known_leader(*self.place) == self.broker


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkStuck(PartitionCondition):
    """The high watermark has not moved for `seconds`."""

    TEXT: ClassVar = "hw of {topic}-{partition} stuck for {seconds}"
    FORMS: ClassVar = ("'hw of TOPIC-N stuck for 2s'",)

    seconds: Seconds

    def holds(self, observation: Observation) -> bool:
        unchanged_s = observation.history.high_watermark_unchanged_s(*self.place)
        return unchanged_s is not None and unchanged_s >= self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(PartitionCondition):
    """A number of the partition is compared with another one."""

    op: Operator
    number: Number

    @abstractmethod
    def value(self, observation: Observation) -> int | None:
        """Return the number now, None if it is unknown."""

    def holds(self, observation: Observation) -> bool:
        return compares(self.value(observation), self.op, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrIs(Comparison):
    """The size of the committed ISR."""

    TEXT: ClassVar = "isr of {topic}-{partition} {op} {number}"
    FORMS: ClassVar = ("'isr of TOPIC-N == K'",)

    def value(self, observation: Observation) -> int | None:
        isr = observation.metadata.isr(*self.place)
        return None if isr is None else len(isr)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochIs(Comparison):
    """The leader epoch."""

    TEXT: ClassVar = "epoch of {topic}-{partition} {op} {number}"
    FORMS: ClassVar = ("'epoch of TOPIC-N >= K'",)

    def value(self, observation: Observation) -> int | None:
        log_end = observation.metadata.log_end(*self.place)
        return None if log_end is None else log_end[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class LagIs(Comparison):
    """The lag of a consumer group: the records below the high watermark that it did not commit."""

    TEXT: ClassVar = "lag of {group} on {topic}-{partition} {op} {number}"
    FORMS: ClassVar = ("'lag of GROUP on TOPIC-N > K'",)

    group: Annotated[str, Token(r"\S+")]

    def value(self, observation: Observation) -> int | None:
        committed = observation.metadata.committed(self.group, *self.place)
        log_end = observation.metadata.log_end(*self.place)
        return None if committed is None or log_end is None else log_end[0] - committed


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLagIs(Comparison):
    """The number of records that the leader's log has after the end of a broker's own."""

    TEXT: ClassVar = "lag of broker {broker} on {topic}-{partition} {op} {number}"
    FORMS: ClassVar = ("'lag of broker N on TOPIC-N == K'",)

    broker: Number

    def known(self, observation: Observation) -> bool:
        return self.value(observation) is not None

    def value(self, observation: Observation) -> int | None:
        leader = observation.metadata.leader(*self.place)
        if leader is None:
            return None
        # The leader's log is read last, so that a copy never seems more complete than it is.
        log_end = observation.cluster.volumes.log_end
        own, whole = (log_end(broker, *self.place) for broker in (self.broker, leader))
        return None if own is None or whole is None else whole - own


#: In the order in which a message about a wrong condition lists their forms.
KINDS: tuple[type[SimpleCondition], ...] = (
    ProgressIs,
    IsrIs,
    LeaderChanges,
    After,
    LeaderIs,
    IsrIsExactly,
    ElrIsExactly,
    LastKnownLeaderIs,
    EpochIs,
    HighWatermarkStuck,
    LagIs,
    ReplicaLagIs,
    AcquiredIs,
    LogSays,
    FaultHas,
)
