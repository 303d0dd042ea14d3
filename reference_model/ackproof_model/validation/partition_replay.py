"""Holds what was seen of a partition's replicas against the rules of replication.

Seen are elections, what brokers said of their logs, acks, and what the disks hold in the end
(`partition_trace`). Not seen is what happens between: a leader appends, a follower fetches, a
record at a time. Such silent steps only make a log longer along what the leader of an epoch wrote,
so a search step is all of them up to the next thing seen of that replica, and costs the same for a
record or a million.

The search is depth-first, and need not go back: a step that fits at one time fits later too (logs
of other replicas only become longer, elections only more), and what it makes of its replica is the
same. So the first order that is found does for all, and where none is found, the longest part that
fits is the same in every order. What an ack or a high watermark needs of the replicas is held
against the most that each can have held in that epoch.

Sources: KIP-101, KIP-279, KIP-595 (truncation by epoch); KIP-497 (ISR); KAFKA-15583 (the high
watermark stands still below min.insync.replicas); KAFKA-7128 (who may join the ISR).
(Trace validation: Cirstea, Kuppe, Loillier, Merz 2024; Howard and others, CCF, NSDI 2025.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ackproof_model.kafka.epoch_cache import assign, epoch_for_offset
from ackproof_model.validation.partition_log import (
    OPEN,
    Log,
    common,
    truncation,
)
from ackproof_model.validation.partition_trace import (
    Acked,
    Election,
    Ends,
    Fetches,
    Follows,
    Leads,
    Loads,
    Shrinks,
    Step,
    Trace,
    Truncates,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationRules:
    """What is promised, and one flag for each guard; False takes it away.

    min_isr: min(min.insync.replicas, replication factor). freeze: see `Profile.hw_freeze`.

    elected_leads: a broker leads and follows only as the controller said.
    start_at_end: an epoch begins where its leader's log ends (`Partition.makeLeader`).
    follower_keeps: a log gets shorter only where a broker says that it truncates.
    stop_keeps: a shutdown and a SIGKILL leave the log as it was.
    loss_shortens: what is left of a log after a power loss is its beginning.
    truncate_agreed: a follower truncates to where it agrees with its leader, by epoch.
    fetch_agreed: a follower appends only after what it shares with its leader.
    leader_wrote: nobody holds more of an epoch than its leader wrote.
    leader_holds: a record is acked only by a leader that holds it.
    isr_holds: with acks=all, every member of the ISR holds it
        (`Partition.checkEnoughReplicasReachOffset`).
    enough_in_sync: with acks=all, the ISR is not below min_isr.
    watermark_held: every member of some ISR held what is below the high watermark
        (`Partition.maybeIncrementLeaderHW`).
    joins_at_start: a replica joins the ISR only once it has reached the epoch's start
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """The first step that does not fit: what was seen of a partition, and what the rules allow."""

    partition: str
    seen: str
    before: str
    expected: tuple[str, ...]

    def __str__(self) -> str:
        rules = "; ".join(self.expected) or "nothing"
        state = f" (it was {self.before})" if self.before else ""
        return f"{self.partition}: {self.seen}{state}; by the rules: {rules}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """How far a trace can be explained: the kind of each step that fits, from the beginning on.

    total: how many steps there are. mismatch: the first that does not fit, None if all do.
    """

    steps: tuple[str, ...]
    total: int
    mismatch: Mismatch | None

    @property
    def explained(self) -> int:
        """How many steps fit, from the beginning on."""
        return len(self.steps)

    @property
    def coverage(self) -> dict[str, int]:
        """How often each kind of step was taken."""
        return dict(sorted(Counter(self.steps).items()))


#: Every kind of step that the rules know.
KINDS = (
    "ack by all in sync",
    "ack by the leader alone",
    "elected, or the ISR changed",
    "fetcher begins",
    "fetcher begins after a late append of the one before",
    "follows",
    "follows nobody",
    "leads",
    "log in the end",
    "log loaded",
    "log loaded, shorter after a power loss",
    "shrinks the ISR",
    "truncates by epoch",
)


def replay(trace: Trace, rules: ReplicationRules) -> Replay:
    """Explain all that was seen of a partition, or the longest part that can be."""
    run = _Run(trace, rules)
    total = len(trace.elections) + sum(map(len, trace.brokers.values())) + len(trace.acks)
    mismatch = run.take_all()
    return Replay(steps=tuple(run.steps), total=total, mismatch=mismatch)


_EMPTY = Log()


@dataclass(slots=True)
class _Replica:
    """A replica as the steps so far have left it.

    epoch: in which it leads or follows, None while it does neither. fetching: its fetcher has
    begun. late: the epoch whose fetcher may still append what it was sent before it goes.
    """

    log: Log = _EMPTY
    epoch: int | None = None
    leads: bool = False
    fetching: bool = False
    late: int | None = None

    def __str__(self) -> str:
        role = ""
        if self.epoch is not None:
            role = f", {'leading' if self.leads else 'following'} in epoch {self.epoch}"
        return f"{self.log}{role}"


class _Waits(Exception):  # noqa: N818 - no error: it is another's turn
    """A step must wait, for the controller or another broker."""


class _WaitsForLeader(_Waits):
    """It must wait for one that others may be waiting for, too."""


class _Refused(Exception):  # noqa: N818 - the answer of the rules
    """A step does not fit, now or later; the words say what would."""


class _Run:
    """A replay under way."""

    def __init__(self, trace: Trace, rules: ReplicationRules) -> None:
        self.trace = trace
        self.rules = rules
        self.steps: list[str] = []
        self.replicas = {broker: _Replica() for broker in trace.brokers}
        #: What the leader of each epoch has, without an end: it may write on.
        self.written: dict[int, Log] = {}
        self.leaders: dict[int, int] = {}
        #: The most that a broker can have had of what an epoch's leader has, while in that epoch.
        self.reached: dict[tuple[int, int], int] = {}
        self.elected = 0
        #: The epochs in which somebody leads, sooner or later.
        self.begin = {
            step.epoch
            for steps in trace.brokers.values()
            for step in steps
            if isinstance(step, Leads)
        }
        #: Brokers of which nobody knows what their disks hold in the end.
        self.open = {
            broker
            for broker, steps in trace.brokers.items()
            if not steps or not isinstance(steps[-1], Ends)
        }
        #: What must hold in the end for a step to fit: how many steps fit before it, and the check.
        self.claims: list[tuple[int, Callable[[], Mismatch | None]]] = []

    def take_all(self) -> Mismatch | None:
        """Take step after step; return the first that does not fit."""
        if mismatch := self._take_seen():
            return mismatch
        for before, claim in self.claims:
            if broken := claim():
                del self.steps[before:]
                return broken
        for ack in self.trace.acks:
            if refusals := self._unheld(ack):
                return Mismatch(
                    partition=self.trace.name, seen=str(ack), before="", expected=refusals
                )
            self.steps.append(f"ack by {'all in sync' if ack.everyone else 'the leader alone'}")
        return None

    def _take_seen(self) -> Mismatch | None:
        left = {broker: list(reversed(steps)) for broker, steps in self.trace.brokers.items()}
        while self.elected < len(self.trace.elections) or any(left.values()):
            heads: list[Step | Election] = [steps[-1] for steps in left.values() if steps]
            heads += self.trace.elections[self.elected : self.elected + 1]
            waiting: list[tuple[Step | Election, _Waits]] = []
            for head in sorted(heads, key=lambda one: one.at):
                try:
                    kind = self._take(head)
                except _Waits as reason:
                    waiting.append((head, reason))
                    continue
                except _Refused as reason:
                    return self._mismatch(head, str(reason))
                self.steps.append(kind)
                if isinstance(head, Election):
                    self.elected += 1
                else:
                    left[head.broker].pop()
                break
            else:
                root, why = min(waiting, key=lambda one: isinstance(one[1], _WaitsForLeader))
                return self._mismatch(root, str(why))
        return None

    def _mismatch(self, step: Step | Election, reason: str) -> Mismatch:
        before = "" if isinstance(step, Election) else str(self.replicas[step.broker])
        return Mismatch(
            partition=self.trace.name, seen=str(step), before=before, expected=(reason,)
        )

    def _take(self, step: Step | Election) -> str:
        """Apply a step; return its kind. Raises _Waits or _Refused, and then changes nothing."""
        takers: dict[type, Callable[[Any], str]] = {
            Election: self._election,
            Leads: self._leads,
            Follows: self._follows,
            Fetches: self._fetches,
            Truncates: self._truncates,
            Shrinks: self._shrinks,
            Loads: self._loads,
            Ends: self._ends,
        }
        return takers[type(step)](step)

    def _election(self, now: Election) -> str:
        before = self.trace.elections[self.elected - 1] if self.elected else now
        if before.epoch == now.epoch and self.rules.joins_at_start:
            joined = set(now.isr) - set(before.isr)
            self._claim(now, (self._joined(now, broker) for broker in sorted(joined)))
        return "elected, or the ISR changed"

    def _joined(self, now: Election, broker: int) -> Callable[[], str | None]:
        def check() -> str | None:
            if now.epoch not in self.written:
                return f"nobody asks for another ISR before a leader begins epoch {now.epoch}"
            start = self.written[now.epoch].epochs[-1][1]
            had = self._most(broker, now.epoch)
            if had >= start:
                return None
            return (
                f"broker {broker} joins only once it has reached {start}, where the epoch begins; "
                f"it {_reach(had)}"
            )

        return check

    def _leads(self, step: Leads) -> str:
        if self.rules.elected_leads and not any(
            one.epoch == step.epoch and one.leader == step.broker and set(one.isr) == set(step.isr)
            for one in self._elections
        ):
            raise _Waits("it leads only as the controller has elected it, with that ISR")
        if step.epoch in self.written:
            raise _Refused(f"epoch {step.epoch} has begun, led by {self.leaders[step.epoch]}")
        log = self._pinned(step, keeps=self.rules.start_at_end)
        self._settle(step.broker, log)
        self.replicas[step.broker] = _Replica(log=log, epoch=step.epoch, leads=True)
        self.leaders[step.epoch] = step.broker
        self.written[step.epoch] = Log(assign(log.epochs, step.epoch, log.end), OPEN)
        # Told before it is moved: it comes from an earlier epoch.
        self._watermark(step, step.high_watermark, step.epoch - 1)
        return "leads"

    def _follows(self, step: Follows) -> str:
        if self.rules.elected_leads and not any(
            one.epoch == step.epoch and one.leader == step.leader for one in self._elections
        ):
            raise _Waits("it follows only whom the controller has elected")
        log = self._pinned(step, keeps=self.rules.follower_keeps)
        self._settle(step.broker, log)
        before = self.replicas[step.broker]
        late = before.epoch if before.fetching else before.late
        self.replicas[step.broker] = _Replica(log=log, epoch=step.epoch, late=late)
        self._watermark(step, step.high_watermark, step.epoch)
        return "follows nobody" if step.leader < 0 else "follows"

    def _fetches(self, step: Fetches) -> str:
        replica = self.replicas[step.broker]
        if replica.epoch != step.epoch or replica.leads:
            raise _Refused(f"it fetches only as a follower in epoch {step.epoch}")
        log = self._pinned(step, keeps=self.rules.follower_keeps)
        self._settle(step.broker, log)
        kind = "fetcher begins"
        if log.end > replica.log.end and not replica.fetching:
            kind += " after a late append of the one before"
        self.replicas[step.broker] = _Replica(log=log, epoch=step.epoch, fetching=True)
        return kind

    def _truncates(self, step: Truncates) -> str:
        replica = self.replicas[step.broker]
        if replica.epoch is None or not replica.fetching:
            raise _Refused("only a follower that fetches truncates")
        log = replica.log
        kept = truncation(self._of_leader(replica.epoch), log)
        if self.rules.truncate_agreed and kept != step.end:
            leaders = self._of_leader(replica.epoch)
            raise _Refused(f"its leader has {leaders}, with which it agrees up to {kept}")
        replica.log = log.cut(step.end)
        return "truncates by epoch"

    def _shrinks(self, step: Shrinks) -> str:
        replica = self.replicas[step.broker]
        if not replica.leads or replica.epoch is None:
            raise _Refused("only a leader asks for another ISR")
        log = self._pinned(step, keeps=self.rules.follower_keeps)
        self._settle(step.broker, log)
        replica.log = log
        self._watermark(step, step.high_watermark, replica.epoch)
        return "shrinks the ISR"

    def _loads(self, step: Loads) -> str:
        replica = self.replicas[step.broker]
        kind = "log loaded"
        if not step.lossy:
            log = self._pinned(step, keeps=self.rules.stop_keeps)
            self._settle(step.broker, log)
        else:
            kind += ", shorter after a power loss"
            least = max(step.end, replica.log.end) if step.before is None else step.before
            held = self._grown(step.broker, least, keeps=self.rules.stop_keeps)
            self._settle(step.broker, held, open_end=step.before is None)
            if step.end > held.end and self.rules.loss_shortens:
                raise _Refused(f"a beginning of what it held: {held}")
            if step.end > held.end:
                held = self._grown(step.broker, step.end, keeps=False)
            log = held.cut(step.end)
        self.replicas[step.broker] = _Replica(log=log)
        return kind

    def _ends(self, step: Ends) -> str:
        log = self._pinned(step, keeps=self.rules.end_follows)
        if log != step.log and self.rules.end_follows:
            raise _Refused(str(log))
        self._settle(step.broker, log)
        self.replicas[step.broker].log = log
        return "log in the end"

    @property
    def _elections(self) -> tuple[Election, ...]:
        return self.trace.elections[: self.elected]

    def _of_leader(self, epoch: int) -> Log:
        """Return what the leader of an epoch has; it must have begun."""
        if epoch not in self.written:
            raise _WaitsForLeader(f"nobody has begun to lead in epoch {epoch}")
        return self.written[epoch]

    def _pinned(self, step: Step, *, keeps: bool) -> Log:
        """Return a replica's log after the silent steps that lead to where it is seen to end."""
        return self._grown(step.broker, step.end, keeps=keeps)

    def _grown(self, broker: int, end: int, *, keeps: bool) -> Log:
        replica = self.replicas[broker]
        log = replica.log
        if end <= log.end:
            if end < log.end and keeps:
                raise _Refused(f"its log ends at {log.end} at least")
            return log.cut(end)
        if replica.leads and replica.epoch is not None:
            return log.written(replica.epoch, end)
        source = replica.epoch if replica.fetching else replica.late
        if source is None:
            raise _Refused(f"it has nobody to fetch from, and its log ends at {log.end}")
        leaders = self._of_leader(source)
        agreed = common(leaders, log)
        if agreed < log.end and self.rules.fetch_agreed:
            raise _Refused(f"it appends nothing before it has truncated to {agreed}")
        return leaders.cut(end)

    def _settle(self, broker: int, log: Log, *, open_end: bool = False) -> None:
        """Note how much of its leader's log a replica has had; its leader must have had as much."""
        replica = self.replicas[broker]
        if replica.leads and replica.epoch is not None:
            self._note(broker, replica.epoch, OPEN if open_end else log.end)
            return
        sources = (replica.epoch if replica.fetching else None, replica.late)
        leaders = {
            epoch: self._of_leader(epoch)
            for epoch in sources
            if epoch is not None and epoch in self.begin
        }
        for epoch, leader in leaders.items():
            if common(leader, log) == log.end:
                self._note(broker, epoch, OPEN if open_end else log.end)
                if self.rules.leader_wrote and log.end > leader.epochs[-1][1]:
                    self.claims.append((len(self.steps), self._wrote(broker, epoch, log.end)))

    def _note(self, broker: int, epoch: int, end: int) -> None:
        self.reached[broker, epoch] = max(end, self.reached.get((broker, epoch), -1))

    def _wrote(self, broker: int, epoch: int, end: int) -> Callable[[], Mismatch | None]:
        def check() -> Mismatch | None:
            leader = self.leaders[epoch]
            wrote = self._most(leader, epoch)
            if wrote >= end:
                return None
            return Mismatch(
                partition=self.trace.name,
                seen=f"broker {broker} holds epoch {epoch} up to {end}",
                before="",
                expected=(f"broker {leader}, which led in it, {_reach(wrote)}",),
            )

        return check

    def _most(self, broker: int, epoch: int) -> int:
        """Return the most that a broker can have had of what the leader of an epoch has."""
        if broker in self.open:
            replica = self.replicas[broker]
            if epoch in (replica.epoch, replica.late):
                return OPEN
        return self.reached.get((broker, epoch), -1)

    def _claim(self, seen: object, checks: Iterable[Callable[[], str | None]]) -> None:
        """Require something of the whole trace for a step to fit."""
        for check in checks:
            self.claims.append((len(self.steps), self._claimed(str(seen), check)))

    def _claimed(self, seen: str, check: Callable[[], str | None]) -> Callable[[], Mismatch | None]:
        def claim() -> Mismatch | None:
            reason = check()
            if reason is None:
                return None
            return Mismatch(partition=self.trace.name, seen=seen, before="", expected=(reason,))

        return claim

    def _watermark(self, step: Step, offset: int, epoch: int) -> None:
        """Require that some ISR held what is below a high watermark that was told in an epoch."""
        if offset == 0 or not self.rules.watermark_held:
            return

        def check() -> str | None:
            refusals = []
            for one in self.trace.elections:
                if one.epoch > epoch:
                    break
                refusal = self._isr_lacks(one, offset)
                if refusal is None:
                    return None
                refusals.append(refusal)
            return "; ".join(dict.fromkeys(refusals)) or "no ISR held anything"

        self._claim(step, [check])

    def _isr_lacks(self, one: Election, end: int) -> str | None:
        """Return why a high watermark did not reach an offset under an ISR; None if it may have."""
        if one.leader < 0 or one.epoch not in self.written:
            return f"{one}: nobody led"
        if self.rules.freeze and self.rules.enough_in_sync and len(one.isr) < self.rules.min_isr:
            return f"{one}: fewer than {self.rules.min_isr} in sync"
        lacking = {
            broker: had
            for broker in sorted(one.isr)
            if (had := self._most(broker, one.epoch)) < end
        }
        if not lacking:
            return None
        return f"{one}: " + ", ".join(
            f"broker {broker} {_reach(had)}" for broker, had in lacking.items()
        )

    def _unheld(self, ack: Acked) -> tuple[str, ...]:
        """Return why each election that an ack may lie in refuses it; nothing if one does not."""
        refusals = []
        last = len(self.trace.elections) if ack.last is None else ack.last + 1
        for one in self.trace.elections[ack.first : last]:
            if one.leader < 0 or one.epoch not in self.written:
                refusals.append(f"{one}: nobody led")
                continue
            epoch = epoch_for_offset(self.written[one.epoch].epochs, ack.offset)
            if not ack.fits(epoch):
                refusals.append(f"{one}: it would have written that offset in epoch {epoch}")
                continue
            refusal = self._leader_lacks(one, ack) or (
                self._not_in_sync(one, ack) if ack.everyone else None
            )
            if refusal is None:
                return ()
            refusals.append(refusal)
        return tuple(dict.fromkeys(refusals)) or ("no leader could have acked it then",)

    def _leader_lacks(self, one: Election, ack: Acked) -> str | None:
        had = self._most(one.leader, one.epoch)
        if had > ack.offset or not self.rules.leader_holds:
            return None
        return f"{one}: broker {one.leader} {_reach(had)}"

    def _not_in_sync(self, one: Election, ack: Acked) -> str | None:
        if self.rules.enough_in_sync and not any(
            len(other.isr) >= self.rules.min_isr
            for other in self.trace.elections
            if other.epoch == one.epoch
        ):
            return f"{one}: fewer than {self.rules.min_isr} in sync"
        return self._isr_lacks(one, ack.offset + 1) if self.rules.isr_holds else None


def _reach(end: int) -> str:
    return f"reached {end}" if end >= 0 else "did not take part"
