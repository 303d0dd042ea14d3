"""What may happen to a record of a share group: the search over leader, coordinator and members.

One record, a group with two members that acknowledge it with one word, or with any, at each
delivery, and perturbations within `ShareModel.most`. A lock has no length here: it expires if
nobody works on the record, or within the budget while somebody does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from ackproof_model.breadth_first import SearchResult, explore
from ackproof_model.configuration import Profile
from ackproof_model.share_groups import coordinator, partition
from ackproof_model.share_groups.coordinator import UNINITIALIZED, Shard
from ackproof_model.share_groups.partition import Partition

#: In the words of `docs/reference/anomalies.md`, about a group that is at rest.
ANOMALIES = (
    "undelivered",
    "over-delivered",
    "delivered-after-accept",
    "archived-unprocessed",
    "redelivered",
    "reprocessed",
    "dead-letter-missing",
)

#: The word of members that acknowledge each delivery with any of the others.
ANY = "any"
_WORDS = ("accept", "release", "reject")

MAX_STATES = 200_000

#: `share.coordinator.snapshot.update.records.per.snapshot`: no state depends on it.
_SNAPSHOT_AFTER = 500
#: Any time: a lock that expires is due then.
_LOCK = 1


#: What disturbs a group. slow: a lock expires while its member works. crashes: a member ends before
#: it acknowledges. leader_moves: another broker leads the share partition, and reads what is
#: stored. unstored: the coordinator does not answer a write. state_losses: `__share_group_state`
#: loses its newest records before another leader reads it. log_losses: the topic loses the record,
#: and another one takes its offset.
KINDS = ("slow", "crashes", "leader_moves", "unstored", "state_losses", "log_losses")


@dataclass(frozen=True, kw_only=True)
class ShareModel:
    """A share group, and what may disturb it.

    word: how each delivery of the record is acknowledged, or `ANY`. limit:
    share.delivery.count.limit. reset: share.auto.offset.reset; any other than earliest counts as
    latest. added: the record is written to a partition that was added to the topic, before the
    group gets it. letters_fail: the group has a dead-letter topic, and a write to it may be
    refused; then the leader does not try again (KIP-1191, `SharePartition`). most: of each of
    `KINDS`, how often it happens at most; without a number, never.
    """

    kafka_version: str
    word: str = "accept"
    limit: int = 5
    reset: Literal["earliest", "latest"] = "earliest"
    added: bool = False
    letters_fail: bool = False
    most: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.word not in (*_WORDS, ANY):
            words = ", ".join((*_WORDS, ANY))
            raise ValueError(f"word {self.word!r} is not one of {words}")
        if not self.profile.share_groups:
            raise ValueError(
                f"kafka_version {self.kafka_version} has no share groups: use 4.2 or later"
            )

    @property
    def words(self) -> tuple[str, ...]:
        return _WORDS if self.word == ANY else (self.word,)

    @cached_property
    def profile(self) -> Profile:
        return Profile.of(self.kafka_version)

    @cached_property
    def settings(self) -> partition.Settings:
        return partition.Settings(limit=self.limit, locks=1, lock=_LOCK)


class Member(NamedTuple):
    """holds: it has the record, and has not acknowledged it. processed: it has processed it."""

    holds: bool = False
    processed: bool = False


class State(NamedTuple):
    """One state of the search.

    shard: what the coordinator knows. earlier: what it knew before, if it may lose records.
    deliveries, effects: how often the record was delivered, and processed (at most 2). said: the
    last answered acknowledgement. seen: the anomalies of the last step. left: what is left of
    `ShareModel.most`.
    """

    partition: Partition
    shard: Shard
    earlier: frozenset[Shard]
    members: tuple[Member, Member]
    deliveries: int
    effects: int
    said: str
    seen: frozenset[str]
    left: tuple[float, ...]


Step = tuple[str, State]


def initial_start(profile: Profile, *, known_topic: bool) -> int:
    """Return the start offset of a partition that a group is given.

    known_topic: the group has other partitions of it. From 4.4 on it gets an added one from its
    begin (KAFKA-20742, `GroupMetadataManager.buildInitializeShareGroupStateRequest`).
    """
    return 0 if known_topic and profile.added_share_partitions_from_begin else UNINITIALIZED


def initial(model: ShareModel) -> State:
    """Return the state in which the group is given the partition."""
    start = initial_start(model.profile, known_topic=model.added)
    _, record = coordinator.initialize(Shard(), 0, start)
    assert record is not None
    shard = coordinator.replay(Shard(), record, snapshot_after=_SNAPSHOT_AFTER)
    state = State(
        partition=Partition(0, 0),
        shard=shard,
        earlier=frozenset(),
        members=(Member(), Member()),
        deliveries=0,
        effects=0,
        said="",
        seen=frozenset(),
        left=tuple(model.most.get(kind, 0) for kind in KINDS),
    )
    # Only to an added partition is the record written before the group gets it.
    return _led(model, state, log_end=int(model.added))


def _led(model: ShareModel, state: State, *, log_end: int = 1) -> State:
    """Return the state after a new leader has read what is stored.

    Leader epochs stay what they are: an older leader is gone here.
    """
    stored = state.shard.stored
    assert stored is not None
    start = partition.start_offset(stored.start, model.reset, log_start=0, log_end=log_end)
    loaded = partition.load(start, stored.batches)
    assert loaded is not None
    return state._replace(partition=loaded)


def successors(model: ShareModel, state: State) -> Iterator[Step]:
    """Yield every step from a state, as (name, state after it)."""
    state = state._replace(seen=frozenset())
    for number, member in enumerate(state.members):
        if not member.holds:
            yield from _polling(model, state, number)
        elif "accept" in model.words and not member.processed:
            after = state._replace(effects=min(2, state.effects + 1))
            yield f"member {number} processes it", _with(after, number, Member(True, True))
        for word in model.words:
            if member.holds and (member.processed or word != "accept"):
                yield from _acknowledging(model, state, number, word)
        if member.holds and _left(state, "crashes"):
            ended = _spent(_with(state, number, Member()), "crashes")
            label = f"member {number} ends before it acknowledges"
            yield label, ended
            # Its session ends, or the lock of its record expires later.
            free, change = partition.release(ended.partition, model.settings, f"{number}")
            if change.offsets:
                stored = _stored(model, ended._replace(partition=free), change.batches)
                released = partition.answered(free, model.settings, change, 0, stored=True)
                yield f"{label}, and its session", stored._replace(partition=released)
    yield from _expiring(model, state)
    if _left(state, "leader_moves"):
        yield "another broker leads the share partition", _spent(_led(model, state), "leader_moves")
    if _left(state, "state_losses"):
        for shard in sorted(state.earlier):
            before = state._replace(shard=shard)
            label = "another broker leads, and __share_group_state has lost its newest records"
            yield label, _spent(_led(model, before), "state_losses")
    if _left(state, "log_losses"):
        label = "the topic loses the record, and another one takes its offset"
        other = state._replace(deliveries=0, effects=0, said="", members=(Member(), Member()))
        yield label, _spent(other, "log_losses")


def _polling(model: ShareModel, state: State, number: int) -> Iterator[Step]:
    offset, after = partition.next_fetch_offset(state.partition)
    if offset != 0:
        return
    fetched = partition.Fetched(f"{number}", 0, ((0, 0),), most=1, batch=1)
    after, acquired = partition.acquire(after, model.settings, fetched, 0)
    if not acquired:
        return
    deliveries, seen = state.deliveries + 1, set[str]()
    if state.said == "accept":
        seen.add("delivered-after-accept")
    elif state.deliveries and state.said != "release":
        seen.add("redelivered")
    if deliveries > model.limit:
        seen.add("over-delivered")
    said = state.said if state.said == "accept" else ""
    given = state._replace(
        partition=after,
        deliveries=min(deliveries, model.limit + 1),
        said=said,
        seen=frozenset(seen),
    )
    yield f"member {number} gets it: delivery {deliveries}", _with(given, number, Member(True))


def _acknowledging(model: ShareModel, state: State, number: int, word: str) -> Iterator[Step]:
    words = partition.Words(f"{number}", 0, (word,))
    error, after, change = partition.acknowledge(state.partition, model.settings, words, 0)
    done = _with(state, number, Member())
    if error:
        yield f"the {word} of member {number} is refused", done
        return
    before = done._replace(partition=after)
    if _left(state, "unstored"):
        failed = partition.answered(after, model.settings, change, 0, stored=False)
        label = f"the {word} of member {number} cannot be stored"
        yield label, _spent(before._replace(partition=failed), "unstored")
    stored = _stored(model, before, change.batches)
    answered = partition.answered(after, model.settings, change, 0, stored=True)
    # A late answer about a record that the group has passed changes nothing.
    said = word if change.offsets and state.said != "accept" else state.said
    yield f"the {word} of member {number} is stored", stored._replace(partition=answered, said=said)


def _expiring(model: ShareModel, state: State) -> Iterator[Step]:
    after, written = partition.expire(state.partition, model.settings, _LOCK)
    if not written:
        return
    working = any(member.holds for member in state.members)
    if working and not _left(state, "slow"):
        return
    expired = state._replace(partition=after)
    expired = _spent(expired, "slow") if working else expired
    yield "its lock expires", _stored(model, expired, written)
    if _left(expired, "unstored"):
        yield "its lock expires, which cannot be stored", _spent(expired, "unstored")


def _stored(model: ShareModel, state: State, batches: tuple[coordinator.Batch, ...]) -> State:
    """Return the state after the leader's write (`ShareCoordinatorShard.writeState`)."""
    shard, known = state.shard, state.partition
    write = coordinator.Write(0, 0, known.start, known.complete, batches)
    _, record = coordinator.write(model.profile, shard, write, snapshot_after=_SNAPSHOT_AFTER)
    assert record is not None
    after = coordinator.replay(shard, record, snapshot_after=_SNAPSHOT_AFTER)._replace(updates=0)
    earlier = state.earlier | {shard} if _left(state, "state_losses") else frozenset()
    return state._replace(shard=after, earlier=earlier)


def _with(state: State, number: int, member: Member) -> State:
    first, second = state.members
    return state._replace(members=(first, member) if number else (member, second))


def _left(state: State, kind: str) -> float:
    return state.left[KINDS.index(kind)]


def _spent(state: State, kind: str) -> State:
    at = KINDS.index(kind)
    left = tuple(number - (n == at) for n, number in enumerate(state.left))
    return state._replace(left=left)


def anomalies(model: ShareModel, state: State) -> Iterator[str]:
    """Yield what has happened to the record, and what its group's rest makes certain."""
    yield from state.seen
    if state.effects > 1:
        yield "reprocessed"
    at_rest = not state.partition.batches and state.partition.start > 0
    if not at_rest or any(member.holds for member in state.members):
        return
    if not state.deliveries:
        yield "undelivered"
        return
    if not state.effects and "reject" not in (model.word, state.said):
        yield "archived-unprocessed"
    if model.letters_fail and state.said != "accept":
        yield "dead-letter-missing"


def search(
    model: ShareModel, *, until: Collection[str] = (), max_states: int = MAX_STATES
) -> SearchResult[str, State]:
    """Search all states, or until all anomalies of `until` are found."""
    return explore(
        initial(model),
        lambda state: successors(model, state),
        lambda state: anomalies(model, state),
        until=until,
        max_states=max_states,
    )
