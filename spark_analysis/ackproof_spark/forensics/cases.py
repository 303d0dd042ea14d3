"""The known cases of loss, and the evidence that identifies each.

The numbers are those of docs/explanation/forensics.md. The first rule that matches gives the
case. A loss that no rule matches is `unexplained`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ackproof_spark.forensics.terms import Election, Term


class Case(StrEnum):
    B1 = "B1"
    B2 = "B2"
    B3 = "B3"
    B4 = "B4"
    B5 = "B5"
    B6 = "B6"
    B7 = "B7"
    B8 = "B8"
    B9 = "B9"
    B10 = "B10"
    B12 = "B12"
    B13 = "B13"
    B31 = "B31"
    B55 = "B55"
    B56 = "B56"
    B57 = "B57"
    B58 = "B58"
    RECREATED = "recreated"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that decide what an ack means.

    acks_refused: the client may report a batch as acked that a leader has refused.
    """

    acks: str
    kafka_version: str
    acks_refused: bool = False

    def before(self, major: int, minor: int) -> bool:
        """Return whether the brokers have an older Kafka; an unknown version is older than all."""
        match = re.match(r"(\d+)\.(\d+)", self.kafka_version)
        return not match or (int(match[1]), int(match[2])) < (major, minor)

    @property
    def apply_late_responses(self) -> bool:
        """Whether a follower truncates on a fetch response of an older leader epoch."""
        affected = not self.before(2, 8) and self.before(3, 9)
        return affected or self.kafka_version in ("3.9.0", "4.0.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """The properties of a fault that stories need; the caller passes them, as faults are plugins.

    hit_by: returns the target in words from the stored parameters; None if the targets are nodes.
    past_tense: the effect on a broker that it stopped or damaged ("was killed"), else ''.
    takes_bytes: a broker's log may be shorter afterwards. control: the fault does nothing.
    """

    hit_by: Callable[[str], str | None] = lambda _: None
    past_tense: str = ""
    takes_bytes: bool = False
    control: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault window; `until` is None if it never ended.

    hit: the client or the topic that it hit, in words; then `nodes` is empty.
    """

    window: int
    fault: str
    nodes: tuple[int, ...]
    injected_at: datetime
    until: datetime | None
    kind: FaultKind = FaultKind()
    hit: str = ""

    @classmethod
    def of_window(cls, row: Mapping[str, Any], kind: FaultKind) -> Fault:
        """Return the fault of a row of `tables.FAULT_WINDOWS` with the column `until`."""
        hit = kind.hit_by(row["parameters"])
        return cls(
            window=row["window"],
            fault=row["fault"],
            nodes=tuple(row["nodes"]) if hit is None else (),
            injected_at=row["injected_at"],
            until=row["until"],
            kind=kind,
            hit=hit or "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The circumstances that a group of lost records shares.

    acked: the term in which they were acked, None if unknown. isr: the ISR at that time. next: the
    first later term whose log lacks them, None if there is none. offsets: first and last, None
    with acks=0. zombie: sent after `next` had begun, and acked by the former leader. older: the
    next leader's log was longer, but had records of an older epoch at their offsets. standing:
    other records or markers are at their offsets. held_by: brokers whose logs still have those
    offsets in the epoch of the ack. aborted: a marker of the same producer epoch ended their
    transaction. hung: their transaction was committed and lacked its COMMIT marker, and the harness
    aborted it after the run; then `acked`, `isr` and `next` are those of the marker. skipped: it
    hung, and a coordinator skipped a marker of the partition after they were sent. recreated: their
    topic was created again after the ack. truncated: the next leader truncated them after the
    ack and before its election. truncated_before: it had truncated them before the ack, while the
    leader that acked missed an epoch. timely: sent during a fault, or near a leader change. faults:
    in force between the first send and the next term.
    """

    settings: Settings
    acked: Term | None
    isr: tuple[int, ...]
    next: Term | None
    offsets: tuple[int, int] | None
    zombie: bool = False
    older: bool = False
    standing: bool = True
    held_by: tuple[int, ...] = ()
    aborted: bool = False
    hung: bool = False
    skipped: bool = False
    recreated: bool = False
    truncated: bool = False
    truncated_before: bool = False
    timely: bool = True
    faults: tuple[Fault, ...] = field(default=())

    @property
    def replaced(self) -> bool:
        """Whether a later leader's log lacked all of these offsets, or had older records there.

        If the transaction hung, whether the next leader's log may have lacked the marker. Where it
        was is unknown.
        """
        if self.next is None or self.offsets is None or self.unread:
            return False
        if self.hung:
            return self.election is Election.UNCLEAN or _lost_bytes(self, self.next.leader)
        start = self.next.start
        return self.older or (start is not None and start <= self.offsets[0])

    @property
    def unread(self) -> bool:
        """Whether replicas still have these records, although no reader returned them."""
        return bool(self.held_by) and not (self.standing or self.hung)

    @property
    def election(self) -> Election | None:
        return None if self.next is None else self.next.election

    @property
    def next_had_them(self) -> bool:
        """Whether the next leader was in the ISR at the ack, so that it had the records."""
        return self.next is not None and self.next.leader in self.isr

    @property
    def same_leader(self) -> bool:
        """Whether the broker that acked leads again with a shorter log."""
        return (
            self.acked is not None
            and self.next is not None
            and self.acked.leader == self.next.leader
        )

    @property
    def undated(self) -> bool:
        """Whether the next leader's log end is unknown, and no fault took bytes.

        Before 0.11 batches have no leader epoch. The lost records were then missing in the next
        leader's log, or it truncated them.
        """
        return (
            self.settings.before(0, 11)
            and self.acked is not None
            and not (self.zombie or self.unread)
            and self.next is not None
            and not any(fault.kind.takes_bytes for fault in self.faults)
        )

    @property
    def alone(self) -> bool:
        """Whether the leader that acked was the only member of the ISR."""
        return self.acked is not None and self.isr == (self.acked.leader,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A case, the condition that identifies it, and the beginning of its sentence.

    `headline` may have the fields `acks`, `leader`, `struck` and `isr` (`sentences.cause`).
    """

    case: Case
    title: str
    headline: str
    fits: Callable[[Circumstances], bool]


#: In order of precedence.
RULES = (
    Rule(
        case=Case.RECREATED,
        title="topic deleted and created again",
        headline="a topic of the same name was created after they were acked, with an empty log",
        fits=lambda c: c.recreated,
    ),
    # A marker has no author and no reason, so the segments cannot distinguish B13 from B15. In both
    # it has the epoch of the records: a coordinator that ends a transaction by itself raises it.
    Rule(
        case=Case.B13,
        title="a late abort marker ended a committed transaction",
        headline="read_committed does not return the records of a committed transaction: a marker "
        "of an earlier one aborted them",
        fits=lambda c: c.unread and c.aborted,
    ),
    # `TransactionMarkerChannelManager` says in the coordinator's log which markers it skips.
    Rule(
        case=Case.B58,
        title="the coordinator skipped the marker of a partition without a leader",
        headline="{acks}: the partition had no leader, and the coordinator skipped the COMMIT "
        "marker of their transaction",
        fits=lambda c: c.skipped,
    ),
    Rule(
        case=Case.B1,
        title="acks=0 blackout",
        headline="{acks}: {struck} before it received them or others fetched them",
        fits=lambda c: c.settings.acks == "0" and c.timely and not c.unread,
    ),
    # The ack of a later batch was taken for theirs, so it has no offset of theirs.
    Rule(
        case=Case.B55,
        title="a refused batch was reported as acked (librdkafka)",
        headline="{acks}: librdkafka took the ack of a later batch for theirs, so they were acked "
        "without an offset: a broker had refused them",
        fits=lambda c: c.settings.acks_refused and c.offsets is None and not c.unread,
    ),
    # `Partition.makeLeader` keeps the followers' log ends of the term before the missed epoch.
    Rule(
        case=Case.B56,
        title="a leader that missed an epoch acked what a follower had truncated",
        headline="{acks}: {leader} had led before, did not learn that another led in between, and "
        "acked what the next leader had truncated in that epoch",
        fits=lambda c: c.replaced and c.settings.acks == "all" and c.truncated_before,
    ),
    # `PartitionChangeBuilder.maybePopulateTargetElr` keeps replicas that are not assigned any more.
    Rule(
        case=Case.B57,
        title="an eligible replica that a reassignment had removed was elected",
        headline="{acks}: the next leader was eligible from before a reassignment removed it, and "
        "its log was deleted then",
        fits=lambda c: c.replaced and c.next is not None and c.next.removed_while_eligible,
    ),
    # With acks=all, a zombie leader must have been alone in its ISR.
    Rule(
        case=Case.B3,
        title="zombie leader",
        headline="{acks}: {leader} acked them after another had been elected (zombie leader)",
        fits=lambda c: c.replaced and c.zombie and (c.settings.acks == "1" or c.alone),
    ),
    Rule(
        case=Case.B4,
        title="unclean leader election",
        headline="{acks}: {struck}, and a replica that was not in sync was elected",
        fits=lambda c: (c.replaced or c.undated) and c.election is Election.UNCLEAN,
    ),
    Rule(
        case=Case.B5,
        title="sole in-sync replica lost its bytes",
        headline="{acks}: the leader was alone in the ISR; {struck} and led again with a shorter "
        "log",
        fits=lambda c: c.replaced and c.same_leader and c.alone,
    ),
    Rule(
        case=Case.B7,
        title="last known leader lost its bytes and was elected again",
        headline="{acks}: {struck} and led again with a shorter log, as the last known leader: no "
        "replica was in sync or eligible",
        fits=lambda c: c.replaced and c.same_leader and c.election is Election.LAST_KNOWN,
    ),
    Rule(
        case=Case.B6,
        title="last replica standing lost its bytes",
        headline="{acks}: the ISR had shrunk from {isr} to the leader alone; {struck} and led "
        "again with a shorter log",
        fits=lambda c: (
            c.replaced
            and c.same_leader
            and c.next is not None
            and c.next.isr_before == (c.next.leader,)
        ),
    ),
    Rule(
        case=Case.B2,
        title="acks=1, leader lost before replication",
        headline="{acks}: {struck} before the next leader fetched them",
        fits=lambda c: (
            c.settings.acks == "1"
            and not c.same_leader
            and (c.replaced or (c.undated and c.election is Election.CLEAN))
        ),
    ),
    # The ISR was not shrunk to the last member that stopped, as KRaft's controller does.
    Rule(
        case=Case.B8,
        title="the whole ISR stopped, and the replica that lost its bytes led first",
        headline="{acks}: the ISR was {isr}, and all of it stopped; {struck}, and a replica that "
        "had lost bytes was elected before one that had not was back",
        fits=lambda c: (
            c.replaced
            and c.election is Election.CLEAN
            and c.next is not None
            and c.next_had_them
            and _lost_bytes(c, c.next.leader)
            and all(_stopped(c, broker) for broker in c.next.isr_before)
            and any(broker in c.isr and not _lost_bytes(c, broker) for broker in c.next.isr_before)
        ),
    ),
    Rule(
        case=Case.B9,
        title="a replica of the ISR lost its bytes and was elected",
        headline="{acks}: the ISR was {isr}; {struck}, and a replica that had lost bytes was "
        "elected",
        fits=lambda c: (
            c.replaced and c.next is not None and c.next_had_them and _lost_bytes(c, c.next.leader)
        ),
    ),
    # Before 0.11 a follower of a new leader truncates to the high watermark that it knows.
    Rule(
        case=Case.B10,
        title="a follower truncated to its high watermark and was elected (KIP-101)",
        headline="{acks}: the ISR was {isr}; {struck}, and one of the others truncated what was "
        "committed and was elected",
        fits=lambda c: (
            c.undated and c.election is Election.CLEAN and c.settings.acks == "all" and not c.alone
        ),
    ),
    Rule(
        case=Case.B12,
        title="a follower truncated committed records on a late fetch response (KAFKA-18991)",
        headline="{acks}: the ISR was {isr}; {struck}, and a follower that had truncated what was "
        "committed was elected",
        fits=lambda c: (
            c.replaced
            and c.truncated
            and c.settings.acks == "all"
            and c.election is Election.CLEAN
            and c.next_had_them
            and c.settings.apply_late_responses
        ),
    ),
    # After an unclean restart, brokers before 3.5 let such a replica join.
    Rule(
        case=Case.B31,
        title="stale replica rejoined the ISR (KIP-903)",
        headline="{acks}: the ISR was {isr}; {struck}, and a replica that had joined it since, "
        "without them, was elected",
        fits=lambda c: c.replaced and not c.next_had_them and c.settings.before(3, 5),
    ),
)

#: The cases in which a replica led that a fault had taken bytes from.
OF_LOST_BYTES = frozenset({Case.B5, Case.B6, Case.B7, Case.B8, Case.B9})

TITLES = {rule.case: rule.title for rule in RULES} | {Case.UNEXPLAINED: "unexplained"}


def classify(circumstances: Circumstances) -> tuple[Case, str]:
    """Return the case and its headline."""
    for rule in RULES:
        if rule.fits(circumstances):
            return rule.case, rule.headline
    return Case.UNEXPLAINED, f"unexplained: {_why_not(circumstances)}"


_HUNG = (
    "their transaction was committed and hung without its COMMIT marker, and no unclean election "
    "or lost disk after the commit removed it: the coordinator may have lost the transaction"
)
_UNREAD = "their offsets still stand in the replicas' segments, but were not read"


def _why_not(c: Circumstances) -> str:
    """Return why the loss cannot be explained."""
    if c.hung or c.unread:
        return _HUNG if c.hung else _UNREAD
    if c.acked is None:
        now = "other records are" if c.standing else "nothing is"
        there = f"{now} at their offsets, and " if c.offsets else ""
        return f"{there}the controller's log does not say who led when they were acked"
    if c.settings.acks == "0":
        return "no fault was in force and no leader changed when they were sent"
    if c.next is None:
        return "no later leader's log begins before them: nothing is known to have removed them"
    if c.next.start is None:
        return f"where the log of broker {c.next.leader} ended when it was elected is not known"
    return "none of the known cases fits what is known"


def _lost_bytes(c: Circumstances, broker: int) -> bool:
    return any(fault.kind.takes_bytes and broker in fault.nodes for fault in c.faults)


def _stopped(c: Circumstances, broker: int) -> bool:
    """Whether a fault stopped or damaged a broker."""
    return any(fault.kind.past_tense and broker in fault.nodes for fault in c.faults)
