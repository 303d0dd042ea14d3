"""The state of a partition in the middle of an outage, and the model's state for it.

Consecutive offsets that the same replicas have, in one leader epoch, are one record of the model.
Replicas are numbered in assignment order there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ackproof_model.adversary.state import AdversaryModel, Budgets, State, Writes
from ackproof_model.configuration import Acks, Profile
from ackproof_model.replication.state import (
    DOWN,
    NOBODY,
    UP,
    Broker,
    Controller,
    Log,
    entry,
    record_of,
)

#: The most replicas that the model has.
_REPLICAS = 5
#: How many records a model's state can hold; one is for a record that is still to be written.
_RECORDS = 15


@dataclass(frozen=True, slots=True, order=True)
class Offsets:
    """The offsets from `first` to `last`, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first:,}" if self.first == self.last else f"{self.first:,} to {self.last:,}"

    @property
    def count(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """A replica's log on its disk.

    begin: the log start offset. end: the log end offset. epochs: each leader epoch and its first
    offset, ascending (`leader-epoch-checkpoint`). high_watermark: the last checkpoint of it.
    """

    begin: int = 0
    end: int
    epochs: tuple[tuple[int, int], ...]
    high_watermark: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.begin <= self.end:
            raise ValueError(f"a log from offset {self.begin} to {self.end} is not possible")
        if list(self.epochs) != sorted(self.epochs):
            raise ValueError(f"leader epochs {self.epochs} are not ascending")
        if self.begin < self.end and not self.epochs:
            raise ValueError("a log with records has no leader epoch")

    def pieces(self, begin: int) -> Iterator[tuple[int, int, int]]:
        """Yield (epoch, first offset, offset after it) from the offset `begin` on."""
        ends = [*(start for _, start in self.epochs[1:]), self.end][: len(self.epochs)]
        for number, ((epoch, start), end) in enumerate(zip(self.epochs, ends, strict=True)):
            first = max(begin, self.begin if number == 0 else start)
            if first < min(end, self.end):
                yield epoch, first, min(end, self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A broker and its replica.

    running: its process runs, and has the latest metadata. fenced: the controller has fenced it.
    clean: its last process ended by controlled shutdown (`.kafka_cleanshutdown`). power_lost: its
    machine lost power, so that the end of its log may be gone.
    """

    broker: int
    log: ReplicaLog
    running: bool = False
    fenced: bool = False
    clean: bool = False
    power_lost: bool = False


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One partition: settings, the controller's state, and the replicas in assignment order.

    leader: None without one. last_known_leader: KIP-966, None if none is recorded. acks: of the
    producers that wrote. elr: whether the feature eligible.leader.replicas.version is on, None for
    the version's default. running: the running brokers, None if all without a replica run.

    Raises ValueError for a state that no cluster can have.
    """

    kafka_version: str
    acks: Acks
    min_insync_replicas: int
    unclean_election: bool
    replicas: tuple[Replica, ...]
    leader: int | None
    leader_epoch: int
    isr: frozenset[int]
    elr_members: frozenset[int] = frozenset()
    last_known_leader: int | None = None
    elr: bool | None = None
    running: frozenset[int] | None = None

    def __post_init__(self) -> None:
        brokers = {one.broker for one in self.replicas}
        named = self.isr | self.elr_members
        if len(brokers) > _REPLICAS:
            raise ValueError(f"it has {len(brokers)} replicas: at most {_REPLICAS} are judged")
        if len(brokers) < len(self.replicas):
            raise ValueError(f"a broker has two replicas: {[r.broker for r in self.replicas]}")
        if strangers := sorted(named - brokers):
            raise ValueError(
                f"brokers {strangers} are in the ISR or eligible, and have no replica: "
                f"{sorted(brokers)} have"
            )
        if self.leader is not None and self.leader not in self.isr:
            raise ValueError(f"leader {self.leader} is not in the ISR {sorted(self.isr)}")
        if len(self._records) > _RECORDS:
            raise ValueError(f"the logs differ in {len(self._records)} ranges of offsets")

    @cached_property
    def numbers(self) -> Mapping[int, int]:
        """The model's number of each broker."""
        return {one.broker: number for number, one in enumerate(self.replicas)}

    @property
    def records(self) -> int:
        """The number of the model's records."""
        return len(self._records)

    @property
    def committed(self) -> int:
        """The largest checkpointed high watermark: all offsets below it were committed."""
        return max(one.log.high_watermark for one in self.replicas)

    @property
    def gone(self) -> Offsets | None:
        """The committed offsets that no disk has any more."""
        end = max(one.log.end for one in self.replicas)
        return Offsets(end, self.committed - 1) if self.committed > end else None

    @cached_property
    def _begin(self) -> int:
        return max(one.log.begin for one in self.replicas if one.log.end) if self._written else 0

    @property
    def _written(self) -> bool:
        return any(one.log.end for one in self.replicas)

    @cached_property
    def _records(self) -> Mapping[tuple[int, int], Offsets]:
        """The records of the model by epoch and first offset, in the order of their offsets."""
        logs = [one.log for one in self.replicas]
        cuts = {at for log in logs for _, *ends in log.pieces(self._begin) for at in ends}
        if self.acks == "all":
            shortest = min(
                (one.log.end for one in self.replicas if one.broker in self._in_sync), default=0
            )
            watermarks = {min(log.high_watermark, log.end) for log in logs}
            cuts |= {at for at in watermarks if at > shortest}
        found = {
            (epoch, start): Offsets(start, end - 1)
            for one in self.replicas
            for epoch, start, end in _cut(one.log.pieces(self._begin), sorted(cuts))
        }
        return dict(sorted(found.items(), key=lambda item: (item[0][1], item[0][0])))

    def offsets(self, records: int) -> tuple[Offsets, ...]:
        """Return the offsets of a set of the model's records; neighbours are joined."""
        return joined(
            one for number, one in enumerate(self._records.values()) if records >> number & 1
        )

    def with_target(self, broker: int) -> Situation:
        """Return the state with an empty replica on a broker (a reassignment begins)."""
        runs = self.running is None or broker in self.running
        target = Replica(broker=broker, log=ReplicaLog(end=0, epochs=()), running=runs)
        return replace(self, replicas=(*self.replicas, target))

    def _log(self, log: ReplicaLog) -> Log:
        cuts = sorted({at for one in self._records.values() for at in (one.first, one.last + 1)})
        numbers = {key: number for number, key in enumerate(self._records)}
        return tuple(
            entry(self._epochs.index(epoch), numbers[epoch, start])
            for epoch, start, _ in _cut(log.pieces(self._begin), cuts)
        )

    @cached_property
    def _epochs(self) -> Sequence[int]:
        """All leader epochs, ascending. The rules compare them only, so the model counts them."""
        return sorted({self.leader_epoch, *(epoch for epoch, _ in self._records)})

    @cached_property
    def acked(self) -> int:
        """The set of records that may have been acked.

        With acks=all a record is acked once every member of the ISR has it, and the high watermark
        does not move while the ISR is below min.insync.replicas, so each member of ISR and ELR has
        it, unless the end of its log was lost: its machine lost power, or the log ends below its
        own high watermark. A record below the high watermark of a replica that has it was acked,
        too. With acks=1 any leader may have acked it.
        """
        logs = {one.broker: self._set(one.log) for one in self.replicas}
        everything = (1 << len(self._records)) - 1
        if self.acks != "all":
            return everything
        records, committed = everything, 0
        for one in self.replicas:
            watermark = one.log.high_watermark
            if one.broker in self._in_sync and not one.power_lost and watermark <= one.log.end:
                records &= logs[one.broker]
            below = enumerate(offsets.last < watermark for offsets in self._records.values())
            committed |= logs[one.broker] & sum(is_below << number for number, is_below in below)
        return records | committed

    @property
    def _in_sync(self) -> frozenset[int]:
        """The brokers that had every record once it was acked with acks=all."""
        members = self.isr | self.elr_members
        if members or self.last_known_leader is None:
            return members
        return frozenset({self.last_known_leader})

    def _set(self, log: ReplicaLog) -> int:
        return sum(1 << record_of(one) for one in self._log(log))

    @cached_property
    def kind(self) -> Kind:
        key = self.model(), tuple(self.numbers), self.running
        return _KINDS.setdefault(key, Kind(self))

    def model(self, *, writes: int = 0) -> AdversaryModel:
        """Return the model with this state as its start; `writes` more records may be written."""
        if writes not in self._models:
            self._models[writes] = self._model(writes)
        return self._models[writes]

    @cached_property
    def _models(self) -> dict[int, AdversaryModel]:
        return {}

    def _model(self, writes: int) -> AdversaryModel:
        profile = Profile.of(self.kafka_version)
        return AdversaryModel(
            kafka_version=self.kafka_version,
            acks="1" if self.acks == "0" else self.acks,
            min_insync_replicas=self.min_insync_replicas,
            replicas=len(self.replicas),
            unclean_election=profile.elects_uncleanly(self.unclean_election),
            elr_enabled=self.elr,
            budgets=Budgets(records=len(self._records) + writes),
            reduction=False,
            start=self._state(),
        )

    def _state(self) -> State:
        leader = NOBODY if self.leader is None else self.numbers[self.leader]
        last = self.last_known_leader
        controller = Controller(
            leader,
            self._epochs.index(self.leader_epoch),
            self._mask(self.isr),
            self._mask(self.elr_members),
            NOBODY if last is None else self.numbers[last],
            self._mask(one.broker for one in self.replicas if one.fenced),
            0,
        )
        brokers = tuple(self._broker(one, leader) for one in self.replicas)
        return State(controller, brokers, Writes(len(self._records), self.acked), Budgets().left)

    def _mask(self, brokers: Iterable[int]) -> int:
        return sum(1 << self.numbers[broker] for broker in brokers)

    def _broker(self, one: Replica, leader: int) -> Broker:
        log = self._log(one.log)
        if not one.running:
            return Broker(DOWN, one.clean, log, NOBODY, 0)
        epoch = self._epochs.index(self.leader_epoch)
        follower = Broker(UP, False, log, leader, epoch)
        if leader != self.numbers[one.broker]:
            return follower
        ends = tuple(len(self._log(other.log)) for other in self.replicas)
        in_sync = [ends[self.numbers[broker]] for broker in self.isr]
        return follower._replace(isr=self._mask(self.isr), remote=ends, hw=min(in_sync))


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Situations that differ in their offsets only; `first` is any one. Compared by identity."""

    first: Situation


_KINDS: dict[Hashable, Kind] = {}


def joined(ranges: Iterable[Offsets]) -> tuple[Offsets, ...]:
    """Return ascending ranges with neighbours joined."""
    found: list[Offsets] = []
    for one in ranges:
        if found and one.first <= found[-1].last + 1:
            found[-1] = Offsets(found[-1].first, max(found[-1].last, one.last))
        else:
            found.append(one)
    return tuple(found)


def _cut(
    pieces: Iterable[tuple[int, int, int]], cuts: Iterable[int]
) -> Iterator[tuple[int, int, int]]:
    """Yield the pieces, divided at the offsets `cuts`."""
    for epoch, first, after in pieces:
        inside = [at for at in cuts if first < at < after]
        for start, end in zip([first, *inside], [*inside, after], strict=True):
            yield epoch, start, end
