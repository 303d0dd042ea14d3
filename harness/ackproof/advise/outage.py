"""A past outage: who led when, who truncated, and which acknowledged offsets may be gone.

The evidence: the controllers' metadata log, the leader epochs in the logs on the disks, and the
lines of brokers' logs. The logs of each partition are compared with the leader's: another log may
still have offsets that the leader's lacks, and a log line may report offsets that no disk has now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, pairwise

from ackproof.advise.dead_cluster import Settings, rules_of
from ackproof.advise.disks import NodeDisks, sent
from ackproof.observation import metadata_log
from ackproof.observation.broker_log import BrokerEvent, Kind
from ackproof.observation.metadata_log import PartitionState
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.advice import Offsets, ReplicaLog
from ackproof_model.configuration import Acks
from ackproof_spark.forensics import cases, sentences
from ackproof_spark.forensics.terms import Election, Term, lives_of, terms

#: The end of a log that is not given.
_OPEN = 2**62
_ENDS = (Kind.LEADER, Kind.FOLLOWER, Kind.FETCHING, Kind.LOADED)
#: Brokers' clocks may differ by so much from the controllers'.
_SLACK = timedelta(seconds=1)
_POWER_LOSS = cases.FaultKind(past_tense="lost power", takes_bytes=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """A truncation of a broker's log.

    end: where its log ended before, None if unknown. epoch: the last leader epoch in which the
    broker had a role before; None if no line shows it. high_watermark: the broker's, which the
    truncation was below; None if no line says so.
    """

    at: datetime
    broker: int
    to: int
    end: int | None
    epoch: int | None
    high_watermark: int | None = None

    @property
    def as_cause(self) -> sentences.Cut:
        return sentences.Cut(broker=self.broker, to=self.to, at=self.at, below=self.high_watermark)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """Offsets of a leader epoch that the partition's log lacks.

    acks: producers with these acks may have received an acknowledgement; empty if none has.
    committed: a replica that has them had advanced its high watermark past them. disks: brokers
    whose logs still have all of them. times: about when the first and the last were sent, if a disk
    has that.
    """

    offsets: Offsets
    epoch: int
    reason: str
    acks: tuple[Acks, ...]
    committed: bool
    disks: tuple[int, ...]
    times: tuple[datetime, datetime] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The past of a partition.

    leader: at the end, -1 without one. compared: the broker with whose log the others were
    compared; None if no disk has a usable one. undecided: what the evidence does not show, in
    sentences. silent: epochs that began with a clean election, for which no disk and no log line
    shows whether the former leader had more records, acknowledged with acks=1.
    """

    replicas: tuple[int, ...]
    leader: int
    compared: int | None
    terms: tuple[Term, ...]
    truncations: tuple[Truncation, ...]
    gone: tuple[Gone, ...]
    undecided: tuple[str, ...]
    silent: tuple[int, ...] = ()

    @property
    def compared_is_stale(self) -> bool:
        """Whether the compared log is not the leader's, which may have more."""
        return self.compared != self.leader


def outages(
    nodes: Mapping[int, NodeDisks],
    dump: str,
    events: Sequence[BrokerEvent],
    settings: Settings,
) -> dict[TopicPartition, Outage]:
    """Return the past of each partition. Raises ValueError if the dump is damaged."""
    log = metadata_log.parse(dump)
    settings = replace(settings, kafka=rules_of(settings.kafka, dump))
    states = list(map(asdict, log.partitions))
    # Of a state from a snapshot it is not known when its topic began.
    begun = {
        place: lives[-1][0]["at"] - _SLACK
        for place, lives in lives_of(states).items()
        if lives[-1][0]["partition_epoch"] == 0
    }
    ids = {(state.topic, state.partition): state.topic_id for state in log.latest}
    strangers: defaultdict[TopicPartition, list[int]] = defaultdict(list)
    starts: dict[tuple[str, int, int], int] = {}
    for number, node in nodes.items():
        for place, replica in node.logs.items():
            if node.topic_ids.get(place) not in (None, ids.get(place)):
                strangers[place].append(number)
                continue
            for epoch, start in replica.epochs:
                key = (*place, epoch)
                starts[key] = min(start, starts.get(key, start))
    of_place: defaultdict[TopicPartition, list[BrokerEvent]] = defaultdict(list)
    for event in events:
        place = event.topic or "", -1 if event.partition is None else event.partition
        if place in ids and event.at >= begun.get(place, event.at):
            of_place[place].append(event)
    unclean = {one.broker for one in events if one.kind is Kind.UNCLEAN_START}
    unclean |= {number for number, node in nodes.items() if not node.clean}
    of_topics = chain.from_iterable(of_place.values())
    lines = [asdict(one) for one in of_topics if one.kind in (Kind.LEADER, Kind.LOADED)]
    led = terms(states, starts, lines)
    return {
        (state.topic, state.partition): _Past(
            state=state,
            nodes=nodes,
            strangers=strangers[state.topic, state.partition],
            settings=settings,
            events=of_place[state.topic, state.partition],
            unclean=frozenset(unclean),
            terms=list(led.get((state.topic, state.partition), ())),
        ).outage()
        for state in sorted(log.latest, key=lambda one: (one.topic, one.partition))
    }


@dataclass(slots=True, kw_only=True)
class _Past:
    state: PartitionState
    nodes: Mapping[int, NodeDisks]
    #: Nodes with the log of another topic of this name.
    strangers: Sequence[int]
    settings: Settings
    events: Sequence[BrokerEvent]
    #: Brokers that did not stop cleanly.
    unclean: frozenset[int]
    terms: list[Term]

    @property
    def place(self) -> TopicPartition:
        return self.state.topic, self.state.partition

    def outage(self) -> Outage:
        compared, undecided = self._compared()
        undecided += [
            f"broker {one} has the log of another topic of this name, which is not compared"
            for one in self.strangers
        ]
        truncations = tuple(self._truncations())
        gone: tuple[Gone, ...] = ()
        reference = self._by_lines() if compared is None else self.nodes[compared].logs[self.place]
        if reference is not None:
            if self.terms and self.terms[-1].start is None:
                self.terms[-1] = replace(self.terms[-1], start=reference.end)
            gone = tuple(self._gone(reference, truncations))
            undecided += self._untold(gone)
        return Outage(
            replicas=self.state.replicas,
            leader=self.state.leader,
            compared=compared,
            terms=tuple(self.terms),
            truncations=truncations,
            gone=gone,
            undecided=tuple(undecided),
            silent=tuple(self._silent(gone)),
        )

    def _compared(self) -> tuple[int | None, list[str]]:
        """Return the broker whose log the others are compared with, and the doubts about it."""
        have = [one for one in self.state.replicas if one in self._logs()]
        leader = self.state.leader
        if leader in have:
            return leader, []
        state = self.state
        able = [one for one in (*state.isr, *state.elr, *state.last_known_elr) if one in have]
        if not able:
            who = f"of leader {leader}" if leader >= 0 else "of a replica that may lead"
            return None, [
                f"no log directory {who} or of another in-sync replica was given; broker log "
                "lines are used where they exist"
            ]
        best = max(able, key=lambda one: (self._logs()[one].epochs[-1:], self._logs()[one].end))
        why = "there is no leader" if leader < 0 else f"the log of leader {leader} is not given"
        return best, [f"{why}: compared with the log of broker {best}"]

    def _by_lines(self) -> ReplicaLog | None:
        """Return the epochs of the partition's log, as its leaders' lines show them; no end."""
        if not self.terms or self.terms[-1].start is None:
            return None
        return ReplicaLog(end=_OPEN, epochs=_epochs(self.terms))

    def _logs(self) -> dict[int, ReplicaLog]:
        place = self.place
        return {
            one: node.logs[place]
            for one, node in self.nodes.items()
            if place in node.logs and one in self.state.replicas and one not in self.strangers
        }

    def _truncations(self) -> Iterator[Truncation]:
        ends: dict[int, int] = {}
        epochs: defaultdict[int, list[int]] = defaultdict(list)
        for event in self.events:
            if event.leader_epoch is not None and event.leader_epoch not in epochs[event.broker]:
                epochs[event.broker].append(event.leader_epoch)
            if event.offset is None:
                continue
            if event.kind in _ENDS:
                ends[event.broker] = event.offset
            elif event.kind in (Kind.TRUNCATED, Kind.RECOVERY_TRUNCATED):
                end = ends.get(event.broker)
                end = None if end is not None and end < event.offset else end
                yield Truncation(
                    at=event.at,
                    broker=event.broker,
                    to=event.offset,
                    end=end,
                    epoch=next(iter(epochs[event.broker][-2:-1]), None),
                    high_watermark=self._warned(event),
                )
                ends[event.broker] = event.offset

    def _warned(self, cut: BrokerEvent) -> int | None:
        """Return the high watermark that a truncation was below, by the broker's own warning."""
        warnings = (
            one.high_watermark
            for one in self.events
            if one.kind is Kind.BELOW_HIGH_WATERMARK
            and (one.broker, one.offset) == (cut.broker, cut.offset)
            and abs(one.at - cut.at) <= _SLACK
        )
        return next(warnings, None)

    def _gone(self, reference: ReplicaLog, truncations: Sequence[Truncation]) -> Iterator[Gone]:
        """Yield the offsets that other logs have or had and the compared log lacks."""
        kept = {epoch: after for epoch, _, after in reference.pieces(0)}
        spans: defaultdict[int, list[tuple[int, int, int | None]]] = defaultdict(list)
        logs = self._logs()
        for broker, log in logs.items():
            for epoch, first, after in log.pieces(reference.begin):
                if max(first, kept.get(epoch, 0)) < after:
                    spans[epoch].append((max(first, kept.get(epoch, 0)), after, broker))
        for one in truncations:
            for epoch, first, after in self._cut_off(one, reference.begin):
                if max(first, kept.get(epoch, 0)) < after:
                    spans[epoch].append((max(first, kept.get(epoch, 0)), after, None))
        for epoch, of_epoch in sorted(spans.items()):
            # Checkpoints lag behind: all below was committed, and what is above may have been.
            marks = [
                min(logs[broker].high_watermark, after)
                for first, after, broker in of_epoch
                if broker is not None and first < logs[broker].high_watermark
            ]
            marks += [
                one.high_watermark
                for one in truncations
                for first, after, broker in of_epoch
                if broker is None and one.high_watermark and one.to <= first < one.high_watermark
            ]
            committed = max(marks, default=0)
            for offsets, disks in _by_holders(of_epoch, committed):
                yield self._explained(epoch, offsets, disks, truncations, committed)

    def _cut_off(self, one: Truncation, begin: int) -> Iterator[tuple[int, int, int]]:
        """Yield what a truncation removed: epoch, first offset, the offset after the last."""
        before = [term for term in self.terms if term.elected_at <= one.at]
        # Without a line of its own, a broker had the epoch before the last one.
        tail = one.epoch if one.epoch is not None else next((t.epoch for t in before[-2:-1]), None)
        if one.end is None or tail is None:
            return
        # It had the records of the last epoch that it led, also where no line says that it led.
        tail = max([tail, *(term.epoch for term in before[:-1] if term.leader == one.broker)])
        epochs = _epochs([term for term in before if term.epoch <= tail])
        if not epochs or epochs[-1][0] < tail:
            epochs = (*epochs, (tail, max([one.to, *(start for _, start in epochs)])))
        yield from ReplicaLog(end=one.end, epochs=epochs).pieces(max(one.to, begin))

    def _explained(
        self,
        epoch: int,
        offsets: Offsets,
        disks: tuple[int, ...],
        truncations: Sequence[Truncation],
        committed: int,
    ) -> Gone:
        acked = next((term for term in self.terms if term.epoch == epoch), None)
        late = self._late(acked, offsets)
        acked = late or acked
        since = epoch if late is None else late.epoch
        following = next(
            (
                term
                for term in self.terms
                if term.epoch > since and term.start is not None and term.start <= offsets.first
            ),
            None,
        )
        cut = next(
            (one for one in truncations if one.to <= offsets.first and (one.end or 0) > one.to),
            None,
        )
        reasons: dict[Acks, str] = {}
        both: tuple[Acks, ...] = ("1", "all")
        for acks in both:
            found = cases.Circumstances(
                settings=cases.Settings(acks=acks, kafka_version=self.settings.kafka),
                acked=acked,
                isr=acked.changes[-1][1] if acked else (),
                next=following,
                offsets=(offsets.first, offsets.last),
                truncated_before=_truncated_meanwhile(late, following, offsets, truncations),
                faults=tuple(self._power_losses()),
            )
            case, _ = cases.classify(found)
            if case is not cases.Case.UNEXPLAINED:
                title = f"{cases.TITLES[case]} ({case})"
                truncated = cut.as_cause if cut else None
                reasons[acks] = sentences.cause(replace(found, faults=()), title, truncated)
        # A leader that is elected cleanly has every record acked with acks=all, unless its machine
        # lost power. One in between that wrote nothing may have been elected uncleanly.
        clean = following is not None and all(
            term.election is Election.CLEAN
            for term in self.terms
            if epoch < term.epoch <= following.epoch
        )
        acks_of = tuple(reasons) if clean and not committed else both
        reason = reasons.get("all") or reasons.get("1") or "no known case explains it"
        if acked and acked.leader in self.unclean:
            reason += (
                f"; broker {acked.leader} did not stop cleanly: if its machine lost power, it had "
                "more than these"
            )
        return Gone(
            offsets=offsets,
            epoch=epoch,
            reason=reason,
            acks=acks_of,
            committed=offsets.last < committed,
            disks=disks,
            times=self._times(offsets, disks),
        )

    def _late(self, acked: Term | None, offsets: Offsets) -> Term | None:
        """Return a later term of the leader that had these offsets, and then missed an epoch.

        It may have acked them in that term (`Partition.makeLeader`).
        """
        later = (
            term
            for term in self.terms
            if acked and term.epoch > acked.epoch and term.leader == acked.leader
        )
        return next(
            (
                term
                for term in later
                if term.missed_since and term.start is not None and term.start > offsets.first
            ),
            None,
        )

    def _power_losses(self) -> Iterator[cases.Fault]:
        for broker in sorted(self.settings.power_lost):
            yield cases.Fault(
                window=0,
                fault="power_loss",
                nodes=(broker,),
                injected_at=self.state.at,
                until=None,
                kind=_POWER_LOSS,
            )

    def _times(self, offsets: Offsets, disks: tuple[int, ...]) -> tuple[datetime, datetime] | None:
        found = (sent(self.nodes[one].times.get(self.place, ()), offsets) for one in disks)
        return next((times for times in found if times), None)

    def _untold(self, gone: Sequence[Gone]) -> Iterator[str]:
        """Yield a sentence for each election that may have lost records and left no evidence."""
        for before, after in self._without_evidence(gone):
            if after.election is not Election.CLEAN:
                where = "unknown" if after.start is None else f"{after.start:,}"
                yield (
                    f"broker {after.leader} was elected {sentences.how(after.election)} in epoch "
                    f"{after.epoch}, its log ended at {where}: no disk and no log line tells how "
                    f"far the log of broker {before.leader} went"
                )

    def _silent(self, gone: Sequence[Gone]) -> Iterator[int]:
        """Yield the epochs after clean elections for which the former leader left no evidence."""
        for before, after in self._without_evidence(gone):
            log = self._logs().get(before.leader)
            stands = log is not None and log.epochs and log.epochs[-1][0] <= before.epoch
            told = any(
                event.broker == before.leader and event.at >= after.elected_at
                for event in self.events
            )
            if after.election is Election.CLEAN and not (stands or told):
                yield after.epoch

    def _without_evidence(self, gone: Sequence[Gone]) -> Iterator[tuple[Term, Term]]:
        for before, after in pairwise(self.terms):
            if not any(one.epoch == before.epoch for one in gone):
                yield before, after


def _epochs(terms: Sequence[Term]) -> tuple[tuple[int, int], ...]:
    """Return each leader epoch that the log of the last leader has, and its first offset."""
    found: list[tuple[int, int]] = []
    for term in terms:
        if term.start is not None:
            found = [one for one in found if one[1] < term.start]
            found.append((term.epoch, term.start))
    return tuple(found)


def _truncated_meanwhile(
    late: Term | None, following: Term | None, offsets: Offsets, truncations: Sequence[Truncation]
) -> bool:
    """Whether the next leader had truncated offsets in the epoch that the late leader missed."""
    if late is None or late.missed_since is None or following is None:
        return False
    since = late.missed_since - _SLACK
    return any(
        one.broker == following.leader
        and since <= one.at <= following.elected_at
        and one.to <= offsets.first
        for one in truncations
    )


def _by_holders(
    spans: Sequence[tuple[int, int, int | None]], cut: int
) -> list[tuple[Offsets, tuple[int, ...]]]:
    """Return the union of spans, divided at `cut` and where the brokers with the offsets change."""
    cuts = sorted({cut, *(at for first, after, _ in spans for at in (first, after))})
    parts: list[tuple[Offsets, tuple[int, ...]]] = []
    for first, after in pairwise(cuts):
        over = {who for low, high, who in spans if low <= first and after <= high}
        disks = tuple(sorted(who for who in over if who is not None))
        if not over:
            continue
        if parts and parts[-1][1] == disks and parts[-1][0].last == first - 1 and first != cut:
            parts[-1] = Offsets(parts[-1][0].first, after - 1), disks
        else:
            parts.append((Offsets(first, after - 1), disks))
    return parts
