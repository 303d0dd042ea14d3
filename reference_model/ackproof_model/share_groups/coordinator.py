"""The share coordinator: what `__share_group_state` stores of a share partition (KIP-932).

The rules are those of `org.apache.kafka.coordinator.share`: `ShareCoordinatorShard` (which requests
it accepts, which record it writes, how it replays records) and `PersisterStateBatchCombiner`. One
share partition: a group and a partition of a topic. Records of the topic are snapshots, updates of
the last snapshot, and tombstones. What stays out: time, topics that do not exist, and which records
of the topic are redundant, and requests without an epoch, which no leader sends.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ackproof_model.configuration import Profile

#: A partition that no leader has initialized yet begins by `share.auto.offset.reset`.
UNINITIALIZED = -1
#: A write with this number keeps the stored start offset; before 4.4.
_KEEPS = -1

FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
FENCED_STATE_EPOCH = "FENCED_STATE_EPOCH"
INVALID_REQUEST = "INVALID_REQUEST"


class Batch(NamedTuple):
    """The stored state of consecutive records: `state` is a number of `delivery.State`."""

    first: int
    last: int
    state: int
    deliveries: int


class Stored(NamedTuple):
    """What is stored of a share partition (`ShareGroupOffset`).

    start: the share-partition start offset. complete: how many records from there on are in a final
    state.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start: int
    complete: int
    batches: tuple[Batch, ...] = ()


class Record(NamedTuple):
    """A record of `__share_group_state`: a snapshot, or an update; a tombstone without `stored`."""

    stored: Stored | None
    update: bool = False


class Shard(NamedTuple):
    """The coordinator's memory of a share partition.

    leader_epoch, state_epoch: the highest so far. updates: those since the last snapshot.
    """

    stored: Stored | None = None
    leader_epoch: int | None = None
    state_epoch: int | None = None
    updates: int = 0


class Write(NamedTuple):
    """A request of a share partition's leader to store states (WriteShareGroupState)."""

    state_epoch: int
    leader_epoch: int
    start: int
    complete: int
    batches: tuple[Batch, ...] = ()


def combine(stored: Iterable[Batch], new: Iterable[Batch], start: int) -> tuple[Batch, ...]:
    """Return the states of records from `start` on: of two, that with more deliveries.

    With as many, the higher state (`PersisterStateBatchCombiner.combineStateBatches`). Kafka may
    split the result in other places.
    """
    best: dict[int, tuple[int, int]] = {}
    for batch in (*stored, *new):
        for offset in range(max(batch.first, start), batch.last + 1):
            best[offset] = max(best.get(offset, (0, 0)), (batch.deliveries, batch.state))
    return as_batches((offset, state, count) for offset, (count, state) in sorted(best.items()))


def as_batches(records: Iterable[tuple[int, int, int]]) -> tuple[Batch, ...]:
    """Return the batches of records (offset, state, count) in order of their offsets."""
    batches: list[Batch] = []
    for offset, state, count in records:
        if batches and batches[-1] == (batches[-1].first, offset - 1, state, count):
            batches[-1] = batches[-1]._replace(last=offset)
        else:
            batches.append(Batch(offset, offset, state, count))
    return tuple(batches)


def refused(shard: Shard, request: Write) -> str:
    """Return the error of a write; '' if it is accepted (`maybeGetWriteStateError`)."""
    if shard.stored is None:
        return INVALID_REQUEST
    if _older(request.leader_epoch, shard.leader_epoch):
        return FENCED_LEADER_EPOCH
    return FENCED_STATE_EPOCH if _older(request.state_epoch, shard.state_epoch) else ""


def _older(epoch: int, newest: int | None) -> bool:
    return newest is not None and newest > epoch


def write(
    profile: Profile, shard: Shard, request: Write, *, snapshot_after: int
) -> tuple[str, Record | None]:
    """Return the error of a write and the record that it makes (`writeState`).

    snapshot_after: `share.coordinator.snapshot.update.records.per.snapshot`.
    """
    if error := refused(shard, request):
        return error, None
    assert shard.stored is not None
    return "", _record(profile, shard, request, shard.stored.leader_epoch, snapshot_after)


def read(
    profile: Profile, shard: Shard, leader_epoch: int, *, snapshot_after: int
) -> tuple[str, Record | None]:
    """Return the error of a new leader's read, and the record that stores its leader epoch.

    The read itself returns `shard.stored` (`readStateAndMaybeUpdateLeaderEpoch`).
    """
    if shard.stored is None:
        return INVALID_REQUEST, None
    if _older(leader_epoch, shard.leader_epoch):
        return FENCED_LEADER_EPOCH, None
    if leader_epoch == shard.leader_epoch:
        return "", None
    known = shard.stored
    request = Write(known.state_epoch, leader_epoch, known.start, known.complete)
    return "", _record(profile, shard, request, leader_epoch, snapshot_after)


def initialize(shard: Shard, state_epoch: int, start: int) -> tuple[str, Record | None]:
    """Return the error and the record of the group coordinator's request (`initializeState`).

    start: an offset, or `UNINITIALIZED`. It forgets all states of records.
    """
    if _older(state_epoch, shard.state_epoch):
        return FENCED_STATE_EPOCH, None
    epoch = 0 if shard.stored is None else shard.stored.snapshot_epoch + 1
    complete = UNINITIALIZED if start == UNINITIALIZED else 0
    return "", Record(Stored(epoch, state_epoch, 0, start, complete))


def _record(
    profile: Profile, shard: Shard, request: Write, leader_epoch: int, snapshot_after: int
) -> Record:
    """Return the update, or a snapshot after enough updates (`generateShareStateRecord`)."""
    known = shard.stored
    assert known is not None
    start, complete = request.start, request.complete
    if profile.share_start_only_moves_on:
        start = max(start, known.start)
        if request.start == known.start:
            complete = max(complete, known.complete)
        elif request.start < known.start:
            complete = known.complete
    if shard.updates < snapshot_after:
        new = combine((), request.batches, start)
        return Record(Stored(known.snapshot_epoch, 0, leader_epoch, start, complete, new), True)
    start = known.start if start == _KEEPS else start
    batches = combine(known.batches, request.batches, start)
    epochs = known.snapshot_epoch + 1, known.state_epoch, leader_epoch
    return Record(Stored(*epochs, start, complete, batches))


def replay(shard: Shard, record: Record, *, snapshot_after: int) -> Shard:
    """Return the memory after a record of the topic, as a new coordinator reads it (`replay`)."""
    new = record.stored
    if new is None:
        return Shard()
    leader_epoch = _highest(shard.leader_epoch, new.leader_epoch)
    if not record.update:
        updates = 0 if shard.updates >= snapshot_after else shard.updates
        return Shard(new, leader_epoch, _highest(shard.state_epoch, new.state_epoch), updates)
    assert shard.stored is not None  # each topic begins with a snapshot of the share partition
    return Shard(_merged(shard.stored, new), leader_epoch, shard.state_epoch, shard.updates + 1)


def _highest(known: int | None, epoch: int) -> int:
    return epoch if known is None else max(known, epoch)


def _merged(known: Stored, new: Stored) -> Stored:
    """Return the state after an update (`ShareCoordinatorShard.merge`)."""
    start = known.start if new.start == _KEEPS else new.start
    return known._replace(
        start=start,
        complete=new.complete,
        leader_epoch=new.leader_epoch,
        batches=combine(known.batches, new.batches, start),
    )
