"""The rules that a partition's trace is checked against, and how far each replica's log reached.

Acks, high watermarks and ISR changes are compared with the most that a replica can have had of what
the leader of an epoch wrote while it took part in that epoch. That is known only after the whole
trace.
"""

from __future__ import annotations

from dataclasses import dataclass

from ackproof_model.kafka.epoch_cache import assign, epoch_for_offset
from ackproof_model.replication.isr import join_offset
from ackproof_model.replication.leader import high_watermark
from ackproof_model.validation.partition_trace import OPEN, Acked, Election, Log


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationRules:
    """The partition's settings, and one flag for each rule; False drops the rule.

    min_isr: min(min.insync.replicas, replication factor). freeze: see `Profile.hw_freeze`.

    elected_leads: a broker leads and follows only as the controller elected it.
    start_at_end: a leader epoch begins at its leader's log end offset (`Partition.makeLeader`).
    follower_keeps: a log gets shorter only where a broker reports a truncation.
    stop_keeps: a shutdown and a SIGKILL leave the log as it was.
    loss_shortens: after a power loss a log is a prefix of what it was.
    truncate_agreed: a follower truncates to where it agrees with its leader, by epoch.
    fetch_agreed: a follower appends only after the prefix that it shares with its leader.
    leader_wrote: no replica holds more of an epoch than its leader wrote.
    leader_holds: a record is acked only by a leader that holds it.
    isr_holds: with acks=all, every member of the ISR holds it
        (`Partition.checkEnoughReplicasReachOffset`).
    enough_in_sync: with acks=all, the ISR is not below min_isr.
    watermark_held: every member of some ISR held what is below the high watermark
        (`Partition.maybeIncrementLeaderHW`).
    joins_at_start: a replica joins the ISR only once it has reached the epoch's start offset
        (`Partition.isFollowerInSync`).
    end_follows: what a disk holds in the end is what the steps lead to.
    """

    min_isr: int = 1
    freeze: bool = True
    elected_leads: bool = True
    start_at_end: bool = True
    follower_keeps: bool = True
    stop_keeps: bool = True
    loss_shortens: bool = True
    truncate_agreed: bool = True
    fetch_agreed: bool = True
    leader_wrote: bool = True
    leader_holds: bool = True
    isr_holds: bool = True
    enough_in_sync: bool = True
    watermark_held: bool = True
    joins_at_start: bool = True
    end_follows: bool = True


class HeldOffsets:
    """By leader epoch: the leader, its log, and how far each replica has held it."""

    def __init__(self, elections: tuple[Election, ...], rules: ReplicationRules) -> None:
        self._elections = elections
        self._rules = rules
        self._reached: dict[tuple[int, int], int] = {}
        #: What the leader of each epoch holds, without an end: it may append more.
        self.written: dict[int, Log] = {}
        self.leaders: dict[int, int] = {}

    def begin(self, epoch: int, leader: int, log: Log) -> None:
        """Let an epoch begin at the end of its leader's log."""
        self.leaders[epoch] = leader
        self.written[epoch] = Log(assign(log.epochs, epoch, log.end), OPEN)

    def note(self, broker: int, epoch: int, end: int) -> None:
        """Record that a replica held what the leader of an epoch wrote, up to `end`."""
        self._reached[broker, epoch] = max(end, self._most(broker, epoch))

    def _most(self, broker: int, epoch: int) -> int:
        return self._reached.get((broker, epoch), -1)

    def unwritten(self, epoch: int, end: int) -> str | None:
        """Return why a leader cannot have written its epoch up to `end`; None if it may have."""
        leader = self.leaders[epoch]
        wrote = self._most(leader, epoch)
        return None if wrote >= end else f"broker {leader}, which led in it, {_reach(wrote)}"

    def not_joining(self, election: Election, broker: int) -> str | None:
        """Return why a replica cannot have joined the ISR of an election; None if it may have."""
        epoch = election.epoch
        if epoch not in self.written:
            return f"nobody asks for another ISR before a leader begins epoch {epoch}"
        start = self.written[epoch].epochs[-1][1]
        held = self._most(broker, epoch)
        if held >= join_offset(high_watermark=0, epoch_start=start):
            return None
        return (
            f"broker {broker} joins only once it has reached {start}, where the epoch begins; "
            f"it {_reach(held)}"
        )

    def watermark_refusal(self, offset: int, epoch: int) -> str | None:
        """Return why no ISR up to `epoch` can have moved the high watermark to `offset`."""
        refusals = []
        for election in self._elections:
            if election.epoch > epoch:
                break
            refusal = self._isr_lacks(election, offset)
            if refusal is None:
                return None
            refusals.append(refusal)
        return "; ".join(dict.fromkeys(refusals)) or "no ISR held anything"

    def ack_refusals(self, ack: Acked) -> tuple[str, ...]:
        """Return why each election that an ack may lie in refuses it; nothing if one does not."""
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
            return "nobody led"
        epoch = epoch_for_offset(self.written[election.epoch].epochs, ack.offset)
        if not ack.fits(epoch):
            return f"it would have written that offset in epoch {epoch}"
        held = self._most(election.leader, election.epoch)
        if self._rules.leader_holds and held <= ack.offset:
            return f"broker {election.leader} {_reach(held)}"
        return self._isr_refusal(election, ack.offset) if ack.everyone else None

    def _isr_refusal(self, election: Election, offset: int) -> str | None:
        if self._rules.enough_in_sync and not any(
            len(other.isr) >= self._rules.min_isr
            for other in self._elections
            if other.epoch == election.epoch
        ):
            return f"fewer than {self._rules.min_isr} in sync"
        return self._watermark_below(election, offset + 1) if self._rules.isr_holds else None

    def _led(self, election: Election) -> bool:
        return election.leader >= 0 and election.epoch in self.written

    def _isr_lacks(self, election: Election, end: int) -> str | None:
        refusal = self._watermark_below(election, end) if self._led(election) else "nobody led"
        return None if refusal is None else f"{election}: {refusal}"

    def _watermark_below(self, election: Election, end: int) -> str | None:
        """Return why the high watermark did not reach `end` under an ISR; None if it may have."""
        rules = self._rules
        held = {broker: self._most(broker, election.epoch) for broker in sorted(election.isr)}
        watermark = high_watermark(
            held.values(),
            isr_size=len(held),
            min_isr=rules.min_isr,
            freeze=rules.freeze and rules.enough_in_sync,
        )
        if watermark is None:
            return f"fewer than {rules.min_isr} in sync"
        if watermark >= end:
            return None
        lacking = {broker: most for broker, most in held.items() if most < end}
        return ", ".join(f"broker {broker} {_reach(most)}" for broker, most in lacking.items())


def _reach(end: int) -> str:
    return f"reached {end}" if end >= 0 else "did not take part"
