"""The rules of a partition's trace, and the log end offset that each replica reached.

Acks, high watermarks and ISR changes are checked against the largest log end offset that a replica
can have reached in an epoch. It is known only after the whole trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from ackproof_model.kafka.epoch_cache import assign, epoch_for_offset
from ackproof_model.replication.isr import join_offset
from ackproof_model.replication.leader import high_watermark
from ackproof_model.validation.partition_trace import OPEN, Acked, Election, Log


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationRules:
    """The partition's settings that the rules read.

    min_isr: min(min.insync.replicas, replication factor). freeze: see `Profile.hw_freeze`.
    """

    min_isr: int = 1
    freeze: bool = True


def elected(elections: Iterable[Election], epoch: int, leader: int) -> Iterator[Election]:
    """Yield the elections of a leader: a broker leads and follows only as it was elected."""
    return (one for one in elections if one.epoch == epoch and one.leader == leader)


class ReachedOffsets:
    """By leader epoch: the leader, its log, and the end that each replica reached."""

    def __init__(self, elections: tuple[Election, ...], rules: ReplicationRules) -> None:
        self._elections = elections
        self._rules = rules
        self._reached: dict[tuple[int, int], int] = {}
        #: The log of each epoch's leader, without an end: it may append more.
        self.written: dict[int, Log] = {}
        self.leaders: dict[int, int] = {}
        #: The highest high watermark that a leader logged in an epoch or before it.
        self._watermarks: dict[int, int] = {}
        #: Whether bytes were removed from a disk: then a member of the ISR may lack some.
        self.lossy = False

    def begin(self, epoch: int, leader: int, log: Log) -> None:
        """Begin an epoch at the end of its leader's log."""
        self.leaders[epoch] = leader
        self.written[epoch] = Log(assign(log.epochs, epoch, log.end), OPEN)

    def note(self, broker: int, epoch: int, end: int) -> None:
        """Record that a replica had the log of an epoch's leader up to `end`."""
        self._reached[broker, epoch] = max(end, self._most(broker, epoch))

    def _most(self, broker: int, epoch: int) -> int:
        return self._reached.get((broker, epoch), -1)

    def unwritten(self, epoch: int, end: int) -> str | None:
        """Return why a leader cannot have written its epoch up to `end`; None if it may have."""
        leader = self.leaders[epoch]
        wrote = self._most(leader, epoch)
        return None if wrote >= end else f"broker {leader}, which led in it, {_reach(wrote)}"

    def not_joining(self, election: Election, broker: int) -> str | None:
        """Return why a replica cannot have joined the ISR of an election; None if it may have.

        It joins only once it has reached the epoch's start offset (`Partition.isFollowerInSync`).
        """
        epoch = election.epoch
        if epoch not in self.written:
            return f"no leader has begun epoch {epoch}, so the ISR cannot change"
        start = self.written[epoch].epochs[-1][1]
        end = self._most(broker, epoch)
        if end >= join_offset(high_watermark=0, epoch_start=start):
            return None
        return (
            f"broker {broker} joins only once it has reached {start}, where the epoch begins; "
            f"it {_reach(end)}"
        )

    def note_watermark(self, epoch: int, offset: int) -> None:
        """Record a high watermark that a leader had in an epoch at the latest."""
        self._watermarks[epoch] = max(offset, self._watermarks.get(epoch, 0))

    def below_watermark(self, broker: int, epoch: int, end: int) -> str | None:
        """Return why a replica's log cannot end there in an epoch; None if it may.

        What is below a leader's high watermark is in every log of the ISR, then and later, until a
        leader from outside the ISR is elected. So no member fetches below it in a later epoch.
        """
        isrs = [set(one.isr) for one in self._elections if one.epoch == epoch]
        if self.lossy or not all(broker in isr for isr in isrs):
            return None
        since = max((one for one in self._unclean if one <= epoch), default=0)
        for earlier, offset in sorted(self._watermarks.items()):
            if since <= earlier < epoch and end < offset:
                return (
                    f"it is in the ISR, and has all below {offset}, the high watermark of a leader "
                    f"in epoch {earlier}"
                )
        return None

    @property
    def _unclean(self) -> list[int]:
        """The epochs whose leader was not in the ISR before, uncleanly elected or as eligible."""
        pairs = pairwise(self._elections)
        return [now.epoch for before, now in pairs if now.leader not in (-1, *before.isr)]

    def watermark_refusal(self, offset: int, epoch: int) -> str | None:
        """Return why no ISR up to `epoch` can have moved the high watermark to `offset`.

        Every member of some ISR had all records below it (`Partition.maybeIncrementLeaderHW`).
        """
        refusals = []
        for election in self._elections:
            if election.epoch > epoch:
                break
            refusal = self._isr_lacks(election, offset)
            if refusal is None:
                return None
            refusals.append(refusal)
        return "; ".join(dict.fromkeys(refusals)) or "no ISR had any records"

    def ack_refusals(self, ack: Acked) -> tuple[str, ...]:
        """Return why each election in the range of an ack excludes it; () if one allows it."""
        refusals = []
        last = len(self._elections) if ack.last is None else ack.last + 1
        for election in self._elections[ack.first : last]:
            refusal = self._ack_refusal(election, ack)
            if refusal is None:
                return ()
            refusals.append(f"{election}: {refusal}")
        return tuple(dict.fromkeys(refusals)) or ("no leader could have acked it then",)

    def _ack_refusal(self, election: Election, ack: Acked) -> str | None:
        if not self._led(election):
            return "no leader"
        epoch = epoch_for_offset(self.written[election.epoch].epochs, ack.offset)
        if not ack.fits(epoch):
            return f"it would have written that offset in epoch {epoch}"
        if refusal := self._leader_lacks(election, ack.offset):
            return refusal
        if not ack.everyone:
            return None
        return self._below_min_isr(election) or self._isr_behind(election, ack.offset)

    def _leader_lacks(self, election: Election, offset: int) -> str | None:
        """Return why the leader cannot have acked a record; None if it has it."""
        end = self._most(election.leader, election.epoch)
        return f"broker {election.leader} {_reach(end)}" if end <= offset else None

    def _below_min_isr(self, election: Election) -> str | None:
        """Return why acks=all is refused for the size of the ISR; None if it is large enough."""
        enough = any(
            len(other.isr) >= self._rules.min_isr
            for other in self._elections
            if other.epoch == election.epoch
        )
        return None if enough else f"fewer than {self._rules.min_isr} in sync"

    def _isr_behind(self, election: Election, offset: int) -> str | None:
        """Return which ISR members lack a record (`Partition.checkEnoughReplicasReachOffset`)."""
        return self._watermark_below(election, offset + 1)

    def _led(self, election: Election) -> bool:
        return election.leader >= 0 and election.epoch in self.written

    def _isr_lacks(self, election: Election, end: int) -> str | None:
        refusal = self._watermark_below(election, end) if self._led(election) else "no leader"
        return None if refusal is None else f"{election}: {refusal}"

    def _watermark_below(self, election: Election, end: int) -> str | None:
        """Return why the high watermark did not reach `end` under an ISR; None if it may have."""
        rules = self._rules
        ends = {broker: self._most(broker, election.epoch) for broker in sorted(election.isr)}
        watermark = high_watermark(
            ends.values(),
            isr_size=len(ends),
            min_isr=rules.min_isr,
            freeze=rules.freeze,
        )
        if watermark is None:
            return f"fewer than {rules.min_isr} in sync"
        if watermark >= end:
            return None
        lacking = {broker: most for broker, most in ends.items() if most < end}
        return ", ".join(f"broker {broker} {_reach(most)}" for broker, most in lacking.items())


def _reach(end: int) -> str:
    return f"reached {end}" if end >= 0 else "did not take part"
