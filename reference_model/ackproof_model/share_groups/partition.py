"""A share partition at its leader: which records it gives to whom, how often, and until when.

The rules are those of `kafka.server.share.SharePartition` with `InFlightState` and `InFlightBatch`
(KIP-932, KIP-1222). Time is a number that the caller moves. What stays out: dead letters
(KIP-1191), aborted transactions, `share.acquire.mode=record_limit` (KIP-1206), and offsets without
a record, as in compacted topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Literal, NamedTuple

from ackproof_model.share_groups.coordinator import UNINITIALIZED, Batch, as_batches

INVALID_RECORD_STATE = "INVALID_RECORD_STATE"
INVALID_REQUEST = "INVALID_REQUEST"

#: A record whose number of deliveries is at least this is given with fewer others.
_LEAST_THROTTLED = 2
#: With this limit or a lower one no record is given alone on its last delivery.
_NEVER_ALONE = 2


class State(IntEnum):
    """The state of a record, by its number in `__share_group_state` (`RecordState`)."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


FINAL = frozenset({State.ACKNOWLEDGED, State.ARCHIVED})

#: What a consumer may answer to a record.
Acknowledgement = Literal["accept", "release", "reject", "renew"]

#: What an acknowledgement makes of an acquired record; a renewed one stays acquired (KIP-1222).
RENEW = "renew"
ACKNOWLEDGES = {
    "gap": State.ARCHIVED,
    "accept": State.ACKNOWLEDGED,
    "release": State.AVAILABLE,
    "reject": State.ARCHIVED,
}


class Settings(NamedTuple):
    """Its limit of deliveries, the most records in flight, and how long a lock lasts."""

    limit: int
    locks: int
    lock: int


class Delivery(NamedTuple):
    """A record in flight (`InFlightState`).

    lock: when its lock expires. before: state and member to which it returns if the write of its
    new state fails; None if no write is on its way. removed: retention removed the record.
    """

    state: State
    deliveries: int
    member: str = ""
    lock: int | None = None
    before: tuple[State, str] | None = None
    removed: bool = False

    @property
    def available(self) -> bool:
        return self.state is State.AVAILABLE and self.before is None

    @property
    def done(self) -> bool:
        return self.state in FINAL and self.before is None


class InFlight(NamedTuple):
    """Consecutive records that were acquired together (`InFlightBatch`)."""

    first: int
    records: tuple[Delivery, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.records) - 1

    @property
    def numbered(self) -> Iterator[tuple[int, Delivery]]:
        """Its records with their offsets."""
        return enumerate(self.records, self.first)


class Partition(NamedTuple):
    """The memory of a share partition's leader.

    start, end: the first offset that may be delivered, and the last one that was acquired. seek:
    some record in flight may be available. gap: (end, offset) while offsets from there on, up to
    this end, may be missing in what the coordinator had stored.
    """

    start: int
    end: int
    batches: tuple[InFlight, ...] = ()
    seek: bool = False
    gap: tuple[int, int] | None = None

    @property
    def in_flight(self) -> int:
        """How many records count against `Settings.locks` (`numInFlightRecords`)."""
        return self.end - self.start + 1 if self.batches else 0

    @property
    def complete(self) -> int:
        """The records of final states that the group's lag leaves out (KIP-1226)."""
        every = (one for batch in self.batches for one in batch.numbered)
        return sum(offset >= self.start and record.state in FINAL for offset, record in every)

    @property
    def filling(self) -> bool:
        return self.gap is not None and self.gap[0] == self.end

    def floor(self, offset: int) -> InFlight | None:
        """Return the last batch that begins at or before an offset."""
        return next((one for one in reversed(self.batches) if one.first <= offset), None)


def start_offset(stored: int, reset: str, *, log_start: int, log_end: int) -> int:
    """Return where a leader begins (`startOffsetDuringInitialization`).

    reset: `share.auto.offset.reset`, earliest or latest.
    """
    if stored != UNINITIALIZED:
        return stored
    return log_start if reset == "earliest" else log_end


def load(start: int, stored: Sequence[Batch]) -> Partition | None:
    """Return what a new leader has read from the coordinator; None if it refuses to begin.

    Records that were acquired are available again, with the count that was last stored
    (`maybeInitialize`).
    """
    if any(one.first < start or one.last < one.first for one in stored):
        return None
    if not stored:
        return Partition(start, start)
    batches = tuple(
        InFlight(
            one.first, (Delivery(State(one.state), one.deliveries),) * (one.last - one.first + 1)
        )
        for one in stored
    )
    end = batches[-1].last
    before = (start - 1, *(one.last for one in batches))
    gaps = (last + 1 for last, one in zip(before, batches, strict=False) if one.first > last + 1)
    gap = next(((end, offset) for offset in gaps), None)
    return _advanced(Partition(start, end, batches, seek=True, gap=gap))


def next_fetch_offset(partition: Partition) -> tuple[int, Partition]:
    """Return the offset to read from (`nextFetchOffset`)."""
    if not partition.batches or partition.start > partition.batches[-1].last:
        return partition.end, partition._replace(seek=False)
    if not partition.seek:
        return partition.end + 1, partition
    gap = partition.gap[1] if partition.gap else 0
    for batch in partition.batches:
        if partition.filling:
            if batch.first > gap:
                return gap, partition
            gap = max(batch.last + 1, gap)
        for offset, record in batch.numbered:
            if record.available:
                return offset, partition
    return partition.end + 1, partition._replace(seek=False)


class Fetched(NamedTuple):
    """A read of the log for a member: its batches as (base, last) offsets.

    most: the most records that the member takes. batch: the size of an acquired batch.
    """

    member: str
    offset: int
    batches: tuple[tuple[int, int], ...]
    most: int
    batch: int


def acquire(
    partition: Partition, settings: Settings, fetched: Fetched, now: int
) -> tuple[Partition, tuple[int, ...]]:
    """Return the partition and the offsets that a member acquired (`acquire`)."""
    (first, _), last = fetched.batches[0], fetched.batches[-1][1]
    room = min(fetched.most, settings.locks - partition.in_flight)
    if last < partition.start:
        return partition, ()
    if room <= 0:
        if fetched.offset > partition.end:
            return partition, ()
        # Records that are in flight already may be given again.
        room = min(fetched.most, partition.end - fetched.offset + 1)
        last = min(last, partition.end)
    floor = partition.floor(first)
    base = max(first, partition.start) if floor is None else first
    if floor is not None and floor.last >= first:
        base = floor.first
    touched = [one for one in partition.batches if min(first, base) <= one.first <= last]
    lock = now + settings.lock
    if not touched:
        return _acquire_new(partition, fetched, (base, last), room, lock)
    offsets: tuple[int, ...] = ()
    for batch in touched:
        if partition.filling:
            if base < batch.first and len(offsets) < room:
                gap, left = (base, batch.first - 1), room - len(offsets)
                partition, new = _acquire_new(partition, fetched, gap, left, lock)
                offsets += new
            base = batch.last + 1
        if len(offsets) >= room:
            break
        given, throttled = _given(batch, first, last, settings.limit)
        if throttled and offsets:
            room = 0
            break
        taken = {
            offset: Delivery(State.ACQUIRED, record.deliveries + 1, fetched.member, lock)
            for offset, record in batch.numbered
            if offset in given
        }
        partition = _changed(partition, taken)
        offsets += tuple(taken)
        if throttled:
            room = 0
            break
    if len(offsets) < room and touched[-1].last < last:
        rest, left = (touched[-1].last + 1, last), room - len(offsets)
        partition, new = _acquire_new(partition, fetched, rest, left, lock)
        offsets += new
    return (_filled(partition, offsets[-1] + 1) if offsets else partition), offsets


def _given(batch: InFlight, first: int, last: int, limit: int) -> tuple[set[int], bool]:
    """Return the offsets of a batch that are given, and whether it is throttled.

    A record that was delivered half as often as the limit comes with fewer others, and alone for
    the last time (`shouldThrottleRecordsDelivery`, `acquireSubsetBatchRecords`).
    """
    throttled_from = max(_LEAST_THROTTLED, -(-limit // 2))
    free = [
        (n, record.deliveries)
        for n, record in batch.numbered
        if first <= n <= last and record.available
    ]
    if max((count for _, count in free), default=0) < throttled_from:
        return {offset for offset, _ in free}, False
    given: set[int] = set()
    most = None
    for offset, count in free:
        final = limit > _NEVER_ALONE and count == limit - 1
        if final and given:
            break
        if count >= throttled_from and most is None:
            most = max(1, len(batch.records) >> (count - throttled_from + 1))
        given.add(offset)
        if final or len(given) == most:
            break
    return given, True


def _acquire_new(
    partition: Partition, fetched: Fetched, offsets: tuple[int, int], room: int, lock: int
) -> tuple[Partition, tuple[int, ...]]:
    """Acquire offsets that are not in flight, up to the end of a batch of the log.

    `acquireNewBatchRecords`, `createBatches`.
    """
    first, last = offsets
    if not partition.batches:
        first = max(first, partition.end)
    stop = last
    if room < last - first + 1:
        wanted = first + room - 1
        stop = next((end for base, end in fetched.batches if base <= wanted <= end), wanted)
        if partition.filling:
            stop = min(stop, last)
    cuts = [first]
    if stop - first + 1 > fetched.batch:
        for base, _ in fetched.batches:
            if base <= stop and base - cuts[-1] >= fetched.batch:
                cuts.append(base)
    delivery = Delivery(State.ACQUIRED, 1, fetched.member, lock)
    new = [
        InFlight(begin, (delivery,) * (end - begin))
        for begin, end in zip(cuts, (*cuts[1:], stop + 1), strict=True)
    ]
    batches = tuple(sorted((*partition.batches, *new), key=lambda one: one.first))
    start = first if batches[0].first == first else partition.start
    after = partition._replace(batches=batches, start=start, end=max(partition.end, stop))
    return _filled(after, stop + 1), tuple(range(first, stop + 1))


def _filled(partition: Partition, offset: int) -> Partition:
    """Return it with no gap before an offset (`maybeUpdatePersisterGapWindowStartOffset`)."""
    if not partition.filling or offset > partition.end:
        return partition._replace(gap=None)
    return partition._replace(gap=(partition.end, offset))


class Change(NamedTuple):
    """New states that the leader writes to the coordinator; they are final once it answers.

    offsets: the records that wait for the answer. batches: what is written.
    """

    offsets: tuple[int, ...]
    batches: tuple[Batch, ...]


NOTHING = Change((), ())


class Words(NamedTuple):
    """What a member says of consecutive records: of `ACKNOWLEDGES`, or `RENEW`."""

    member: str
    first: int
    words: tuple[str, ...]


def acknowledge(
    partition: Partition, settings: Settings, said: Words, now: int
) -> tuple[str, Partition, Change]:
    """Return the answer to a member's words for consecutive records ('' without an error).

    A record below the start is ignored. After an error only locks that were renewed have changed
    (`acknowledge`).
    """
    first, last = said.first, said.first + len(said.words) - 1
    if last < partition.start:
        return "", partition, NOTHING
    floor = partition.floor(first)
    if floor is None and first < partition.start:
        floor = partition.floor(partition.start)
    if floor is None:
        return INVALID_RECORD_STATE, partition, NOTHING
    touched = [one for one in partition.batches if floor.first <= one.first <= last]
    if not first <= last <= touched[-1].last:
        return INVALID_REQUEST, partition, NOTHING
    changed: dict[int, Delivery] = {}
    for offset, record in (one for batch in touched for one in batch.numbered):
        if not max(first, partition.start) <= offset <= last:
            continue
        if record.state is not State.ACQUIRED or record.member != said.member:
            renewed = {n: one for n, one in changed.items() if one.before is None}
            return INVALID_RECORD_STATE, _changed(partition, renewed), NOTHING
        word = said.words[offset - first]
        if word == RENEW:
            changed[offset] = record._replace(lock=now + settings.lock)
        else:
            changed[offset] = _pending(record, ACKNOWLEDGES[word], settings.limit)
    return "", _changed(partition, changed), _change(changed)


def release(partition: Partition, settings: Settings, member: str) -> tuple[Partition, Change]:
    """Release what a member has acquired, as its session ends (`releaseAcquiredRecords`)."""
    changed = {
        offset: _pending(record, _freed(partition, offset), settings.limit)
        for batch in partition.batches
        for offset, record in batch.numbered
        if record.state is State.ACQUIRED and record.member == member
    }
    return _changed(partition, changed), _change(changed)


def answered(
    partition: Partition, settings: Settings, change: Change, now: int, *, stored: bool
) -> Partition:
    """Return it after the coordinator's answer to a write (`rollbackOrProcessStateUpdates`)."""
    changed = {
        offset: _completed(record, settings.limit, now, stored=stored)
        for batch in partition.batches
        for offset, record in batch.numbered
        if offset in change.offsets
    }
    seek = any(one.state is State.AVAILABLE for one in changed.values())
    after = _changed(partition, changed)._replace(seek=partition.seek or seek)
    return _advanced(after) if stored else after


def expire(
    partition: Partition, settings: Settings, now: int
) -> tuple[Partition, tuple[Batch, ...]]:
    """Free the records whose lock has expired; return them and what is written.

    They are free whatever becomes of the write (`releaseAcquisitionLockOnTimeout`).
    """
    changed = {
        offset: Delivery(
            _limited(_freed(partition, offset), record.deliveries, settings.limit),
            record.deliveries,
        )
        for batch in partition.batches
        for offset, record in batch.numbered
        if record.state is State.ACQUIRED and record.lock is not None and record.lock <= now
    }
    seek = any(one.state is State.AVAILABLE for one in changed.values())
    after = _changed(partition, changed)._replace(seek=partition.seek or seek)
    return (_advanced(after) if changed else after), _change(changed).batches


def log_start_moved(partition: Partition, log_start: int) -> Partition:
    """Return it after retention has removed records (`updateCacheAndOffsets`).

    Records that are acquired stay so until they are acknowledged, or their lock expires.
    """
    if log_start <= partition.start:
        return partition
    if not partition.batches:
        return partition._replace(start=log_start, end=log_start)
    removed = {
        offset: record._replace(state=State.ARCHIVED, member="", lock=None, removed=True)
        for batch in partition.batches
        for offset, record in batch.numbered
        if partition.start <= offset < log_start and record.state is State.AVAILABLE
    }
    return _changed(partition, removed)._replace(
        start=log_start,
        end=max(partition.end, log_start),
        seek=partition.seek or bool(removed),
    )


def _freed(partition: Partition, offset: int) -> State:
    """Return what a record becomes that nobody holds any more."""
    return State.ARCHIVED if offset < partition.start else State.AVAILABLE


def _limited(state: State, count: int, limit: int) -> State:
    """Return the state with the limit of deliveries (`InFlightState.tryUpdateState`)."""
    return State.ARCHIVED if state is State.AVAILABLE and count >= limit else state


def _pending(record: Delivery, state: State, limit: int) -> Delivery:
    after = _limited(state, record.deliveries, limit)
    return record._replace(state=after, member="", before=(record.state, record.member))


def _completed(record: Delivery, limit: int, now: int, *, stored: bool) -> Delivery:
    """Return a record after the answer to its write (`InFlightState.completeStateTransition`)."""
    if stored or record.removed or record.before is None:
        return record._replace(before=None, lock=None)
    if record.lock is not None and record.lock <= now:
        state = _limited(State.AVAILABLE, record.deliveries, limit)
        return record._replace(state=state, member="", before=None, lock=None)
    state, member = record.before
    return record._replace(state=state, member=member, before=None)


def _change(changed: dict[int, Delivery]) -> Change:
    written = {n: one for n, one in changed.items() if one.state is not State.ACQUIRED}
    batches = as_batches((n, int(one.state), one.deliveries) for n, one in written.items())
    return Change(tuple(written), batches)


def _changed(partition: Partition, records: dict[int, Delivery]) -> Partition:
    def after(batch: InFlight) -> InFlight:
        return InFlight(batch.first, tuple(records.get(n, one) for n, one in batch.numbered))

    if not records:
        return partition
    return partition._replace(batches=tuple(map(after, partition.batches)))


def _advanced(partition: Partition) -> Partition:
    """Move the start over records in final states (`maybeUpdateCachedStateAndOffsets`)."""
    floor = partition.floor(partition.start)
    if floor is None or floor.last < partition.start:
        return partition
    if not floor.records[partition.start - floor.first].done:
        return partition
    last = _last_done(partition)
    if last is None:
        return partition
    if last == partition.batches[-1].last:
        return partition._replace(start=last + 1, end=last + 1, batches=())
    left = tuple(one for one in partition.batches if one.last > last)
    start = max(partition.start, last + 1 if left[0].first <= last else left[0].first)
    if left[0].first > last and partition.filling and partition.gap is not None:
        start = min(partition.gap[1], start)
    return partition._replace(start=start, batches=left)


def _last_done(partition: Partition) -> int | None:
    """Return the last offset of the records in final states that nothing else precedes.

    `findLastOffsetAcknowledgedAndMetadata`.
    """
    found = None
    for batch in partition.batches:
        if partition.filling and partition.gap is not None and batch.last >= partition.gap[1]:
            return found
        for offset, record in batch.numbered:
            if not record.done:
                return found
            found = offset
    return found
