"""Checks the observations of a partition's replicas against the rules of replication.

Elections, the brokers' log lines about their replicas, acks, and the logs on disk at the end are
observed (`partition_trace`). Appends and fetches are not. These silent steps only extend a log by
records of an epoch's leader, so one search step covers all of them up to the next observation of
that replica.

The search is depth-first without backtracking: a step that fits now also fits later, with the same
effect. Acks, high watermarks and ISR changes are checked after all steps (`replication_rules`).

Sources: KIP-101, KIP-279, KIP-595 (truncation by epoch); KIP-497 (ISR); KAFKA-15583 (the high
watermark stands still below min.insync.replicas); KAFKA-7128 (who may join the ISR).
(Trace validation: Cirstea, Kuppe, Loillier, Merz 2024; Howard and others, CCF, NSDI 2025.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ackproof_model.replication.log_truncation import truncation_offset
from ackproof_model.validation.mismatch import Mismatch
from ackproof_model.validation.partition_trace import (
    OPEN,
    Election,
    Ends,
    Fetches,
    Follows,
    Leads,
    Loads,
    Log,
    Shrinks,
    Step,
    Trace,
    Truncates,
    common,
)
from ackproof_model.validation.replication_rules import (
    ReachedOffsets,
    ReplicationRules,
    elected,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The explained part of a trace: the kind of each explained step.

    total: the number of steps. mismatch: the first unexplained step, None if all are explained.
    """

    steps: tuple[str, ...]
    total: int
    mismatch: Mismatch | None

    @property
    def explained(self) -> int:
        return len(self.steps)

    @property
    def coverage(self) -> dict[str, int]:
        return dict(sorted(Counter(self.steps).items()))


def replay(trace: Trace, rules: ReplicationRules) -> Replay:
    """Explain a whole trace, or its longest explainable beginning."""
    run = _Run(trace, rules)
    total = len(trace.elections) + sum(map(len, trace.brokers.values())) + len(trace.acks)
    mismatch = run.take_all()
    return Replay(steps=tuple(run.steps), total=total, mismatch=mismatch)


_EMPTY = Log()


@dataclass(slots=True)
class _Replica:
    """A replica after the steps so far.

    epoch: the epoch in which it leads or follows, None while it does neither. fetching: its fetcher
    has begun. late: the epoch whose fetcher may still append a received response.
    """

    log: Log = _EMPTY
    epoch: int | None = None
    leads: bool = False
    fetching: bool = False
    late: int | None = None

    @property
    def leading(self) -> int | None:
        """The epoch in which it leads, None if it does not."""
        return self.epoch if self.leads else None

    def __str__(self) -> str:
        role = ""
        if self.epoch is not None:
            role = f", {'leading' if self.leads else 'following'} in epoch {self.epoch}"
        return f"{self.log}{role}"


class _NotYet(Exception):  # noqa: N818 - no error: another step comes first
    """A step must wait for the controller or another broker."""


class _NoLeaderYet(_NotYet):
    """A step must wait for a leader to begin its epoch."""


class _Refused(Exception):  # noqa: N818 - the answer of the rules
    """A step does not fit, now or later; the message says what would."""


class _Run:
    def __init__(self, trace: Trace, rules: ReplicationRules) -> None:
        self.trace = trace
        self.steps: list[str] = []
        self.replicas = {broker: _Replica() for broker in trace.brokers}
        self.reached = ReachedOffsets(trace.elections, rules)
        self.elected = 0
        #: The epochs in which a broker leads at some time.
        self.led = {
            step.epoch
            for steps in trace.brokers.values()
            for step in steps
            if isinstance(step, Leads)
        }
        #: Checks of the whole trace: the number of steps before, the observation, and a function
        #: that returns the reason if the observation does not fit.
        self.claims: list[tuple[int, str, Callable[[], str | None]]] = []

    def take_all(self) -> Mismatch | None:
        """Take step after step; return the first that does not fit."""
        if mismatch := self._take_observed():
            return mismatch
        for broker, steps in self.trace.brokers.items():
            if not steps or not isinstance(steps[-1], Ends):  # its final log is unknown
                for epoch in {self.replicas[broker].epoch, self.replicas[broker].late} - {None}:
                    self.reached.note(broker, epoch, OPEN)  # type: ignore[arg-type]
        for before, observed, check in self.claims:
            if reason := check():
                del self.steps[before:]
                return self._mismatch(observed, reason)
        for ack in self.trace.acks:
            if refusals := self.reached.ack_refusals(ack):
                return self._mismatch(str(ack), *refusals)
            self.steps.append(f"ack by {'all in sync' if ack.everyone else 'the leader alone'}")
        return None

    def _take_observed(self) -> Mismatch | None:
        left = {broker: list(reversed(steps)) for broker, steps in self.trace.brokers.items()}
        while self.elected < len(self.trace.elections) or any(left.values()):
            heads: list[Step | Election] = [steps[-1] for steps in left.values() if steps]
            heads += self.trace.elections[self.elected : self.elected + 1]
            waiting: list[tuple[Step | Election, _NotYet]] = []
            for head in sorted(heads, key=lambda one: one.at):
                try:
                    kind = self._take(head)
                except _NotYet as reason:
                    waiting.append((head, reason))
                    continue
                except _Refused as reason:
                    return self._refused(head, reason)
                self.steps.append(kind)
                if isinstance(head, Election):
                    self.elected += 1
                else:
                    left[head.broker].pop()
                break
            else:
                return self._refused(
                    *min(waiting, key=lambda one: isinstance(one[1], _NoLeaderYet))
                )
        return None

    def _refused(self, step: Step | Election, reason: Exception) -> Mismatch:
        before = "" if isinstance(step, Election) else str(self.replicas[step.broker])
        return self._mismatch(str(step), str(reason), before=before)

    def _mismatch(self, observed: str, *expected: str, before: str = "") -> Mismatch:
        return Mismatch(where=self.trace.name, observed=observed, before=before, expected=expected)

    def _take(self, step: Step | Election) -> str:
        """Apply a step; return its kind. Raises _NotYet or _Refused, and then changes nothing."""
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
        if before.epoch == now.epoch:
            for broker in sorted(set(now.isr) - set(before.isr)):
                self._claim(now, partial(self.reached.not_joining, now, broker))
        return "elected, or the ISR changed"

    def _leads(self, step: Leads) -> str:
        elections = elected(self._elections, step.epoch, step.broker)
        if not any(set(election.isr) == set(step.isr) for election in elections):
            raise _NotYet("it leads only as the controller has elected it, with that ISR")
        if step.epoch in self.reached.written:
            return self._leads_again(step)
        log = self._settled(step)
        self.replicas[step.broker] = _Replica(log=log, epoch=step.epoch, leads=True)
        self.reached.begin(step.epoch, step.broker, log)
        self._keeps_committed(step, step.epoch)
        self.reached.note_watermark(step.epoch, step.high_watermark)
        # A broker logs its high watermark before it moves it: it comes from an earlier epoch.
        self._watermark(step, step.high_watermark, step.epoch - 1)
        return "leads"

    def _leads_again(self, step: Leads) -> str:
        """Continue the epoch of a leader that restarted before a controller fenced it.

        This happens if all brokers and controllers end and start together.
        """
        leader, replica = self.reached.leaders[step.epoch], self.replicas[step.broker]
        if leader != step.broker or replica.epoch is not None:
            raise _Refused(f"epoch {step.epoch} has begun, led by {leader}")
        log = self._settled(step)
        start = self.reached.written[step.epoch].epochs[-1][1]
        if log.end < start:
            raise _Refused(f"epoch {step.epoch} has begun at {start}, which its log lacks")
        self.replicas[step.broker] = _Replica(log=log, epoch=step.epoch, leads=True)
        self._watermark(step, step.high_watermark, step.epoch)
        return "leads again after a restart"

    def _follows(self, step: Follows) -> str:
        if not any(elected(self._elections, step.epoch, step.leader)):
            raise _NotYet("it follows only the leader that the controller has elected")
        log = self._settled(step)
        before = self.replicas[step.broker]
        late = before.epoch if before.fetching else before.late
        self.replicas[step.broker] = _Replica(log=log, epoch=step.epoch, late=late)
        self._watermark(step, step.high_watermark, step.epoch)
        return "follows nobody" if step.leader < 0 else "follows"

    def _fetches(self, step: Fetches) -> str:
        replica = self.replicas[step.broker]
        if replica.epoch != step.epoch or replica.leads:
            raise _Refused(f"it fetches only as a follower in epoch {step.epoch}")
        log = self._settled(step)
        kind = "fetcher begins"
        if log.end > replica.log.end and not replica.fetching:
            kind += " after a late append of the one before"
        self.replicas[step.broker] = _Replica(log=log, epoch=step.epoch, fetching=True)
        self._keeps_committed(step, step.epoch)
        return kind

    def _truncates(self, step: Truncates) -> str:
        replica = self.replicas[step.broker]
        if replica.epoch is None or not replica.fetching:
            raise _Refused("only a follower that fetches truncates")
        leader, log = self._of_leader(replica.epoch), replica.log
        agreed = truncation_offset(leader.epochs, leader.end, log.epochs, log.end)
        if agreed != step.end:
            raise _Refused(f"its leader has {leader}, with which it agrees up to {agreed}")
        replica.log = log.cut(step.end)
        self._keeps_committed(step, replica.epoch)
        return "truncates by epoch"

    def _shrinks(self, step: Shrinks) -> str:
        replica = self.replicas[step.broker]
        if replica.leading is None:
            raise _Refused("only a leader asks for another ISR")
        replica.log = self._settled(step)
        self.reached.note_watermark(replica.leading, step.high_watermark)
        self._watermark(step, step.high_watermark, replica.leading)
        return "shrinks the ISR"

    def _loads(self, step: Loads) -> str:
        self.reached.lossy |= step.lossy
        if not step.lossy:
            log = self._settled(step)
            self.replicas[step.broker] = _Replica(log=log)
            return "log loaded"
        replica = self.replicas[step.broker]
        least = max(step.end, replica.log.end) if step.before is None else step.before
        log = self._grown(step.broker, least)
        self._settle(step.broker, log, open_end=step.before is None)
        if step.end > log.end:
            raise _Refused(f"a beginning of what it held: {log}")
        self.replicas[step.broker] = _Replica(log=log.cut(step.end))
        return "log loaded, shorter after a power loss"

    def _ends(self, step: Ends) -> str:
        log = self._grown(step.broker, step.end)
        if log != step.log:
            raise _Refused(str(log))
        self._settle(step.broker, log)
        self.replicas[step.broker].log = log
        return "log in the end"

    @property
    def _elections(self) -> tuple[Election, ...]:
        return self.trace.elections[: self.elected]

    def _of_leader(self, epoch: int) -> Log:
        """Return the log of an epoch's leader; raises _NoLeaderYet before the epoch has begun."""
        if epoch not in self.reached.written:
            raise _NoLeaderYet(f"no leader has begun epoch {epoch}")
        return self.reached.written[epoch]

    def _settled(self, step: Step) -> Log:
        """Return a replica's log after the silent steps that lead to its observed end."""
        log = self._grown(step.broker, step.end)
        self._settle(step.broker, log)
        return log

    def _grown(self, broker: int, end: int) -> Log:
        """Return a replica's log once it ends at `end`; silent steps never make it shorter."""
        replica = self.replicas[broker]
        log = replica.log
        if end < log.end:
            raise _Refused(f"its log ends at {log.end} at least")
        if end == log.end:
            return log
        if replica.leading is not None:
            return log.written(replica.leading, end)
        source = replica.epoch if replica.fetching else replica.late
        if source is None:
            raise _Refused(f"it has no leader to fetch from, and its log ends at {log.end}")
        leader = self._of_leader(source)
        agreed = common(leader, log)
        if agreed < log.end:
            raise _Refused(f"it appends nothing before it has truncated to {agreed}")
        return leader.cut(end)

    def _settle(self, broker: int, log: Log, *, open_end: bool = False) -> None:
        """Record how far a replica had its leader's log; the leader must have written as much."""
        replica = self.replicas[broker]
        end = OPEN if open_end else log.end
        if replica.leading is not None:
            self.reached.note(broker, replica.leading, end)
            return
        sources = (replica.epoch if replica.fetching else None, replica.late)
        leaders = {
            epoch: self._of_leader(epoch)
            for epoch in sources
            if epoch is not None and epoch in self.led
        }
        for epoch, leader in leaders.items():
            if common(leader, log) == log.end:
                self.reached.note(broker, epoch, end)
                if log.end > leader.epochs[-1][1]:
                    self._claim(
                        f"broker {broker} holds epoch {epoch} up to {log.end}",
                        partial(self.reached.unwritten, epoch, log.end),
                    )

    def _watermark(self, step: Step, offset: int, epoch: int) -> None:
        """Require that some ISR had all records below a high watermark logged in an epoch."""
        if offset:
            self._claim(step, partial(self.reached.watermark_refusal, offset, epoch))

    def _keeps_committed(self, step: Step, epoch: int) -> None:
        """Require that a member of the ISR has all records below earlier high watermarks."""
        self._claim(step, partial(self.reached.below_watermark, step.broker, epoch, step.end))

    def _claim(self, observed: object, check: Callable[[], str | None]) -> None:
        """Add a check of the whole trace on which an observation depends."""
        self.claims.append((len(self.steps), str(observed), check))
