"""The steps of a group's members, and the commits that the group accepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ackproof_model.consumer_groups.bounds import PERTURBATIONS, OffsetModel


class Member(NamedTuple):
    """One member.

    position: the next record to process. polled: the end of the polled records. committed: the
    offset that it committed last, or began at. open: its transaction has the offsets of the polled
    records.
    """

    alive: bool
    generation: int
    committed: int
    position: int
    polled: int
    open: bool = False


class State(NamedTuple):
    """One state of the search.

    offset: the committed offset, None for none. pending: member and offset of an open transaction.
    effects: how often each record was processed, at most 2. flight: delayed commits, as
    (generation, offset). left: the remaining budgets, in the order of `PERTURBATIONS`.
    """

    generation: int
    offset: int | None
    pending: tuple[int, int] | None
    members: tuple[Member, ...]
    effects: tuple[int, ...]
    flight: frozenset[tuple[int, int]]
    left: tuple[int, ...]


Step = tuple[str, State]


def initial(model: OffsetModel) -> State:
    """Return the initial state: the first member owns the partition, from offset 0 on."""
    budgets = model.budgets
    return State(
        generation=0,
        offset=None,
        pending=None,
        members=(Member(True, 0, 0, 0, 0),),
        effects=(0,) * budgets.records,
        flight=frozenset(),
        left=tuple(getattr(budgets, kind) for kind in PERTURBATIONS),
    )


def begin(model: OffsetModel, state: State) -> int:
    """Return the offset at which a new member begins."""
    if state.offset is not None:
        return state.offset
    return 0 if model.reset == "earliest" else model.budgets.records


def successors(model: OffsetModel, state: State) -> Iterator[Step]:
    """Yield every step from a state, as (name, state after it)."""
    left = dict(zip(PERTURBATIONS, state.left, strict=True))
    for number, member in enumerate(state.members):
        if member.alive:
            yield from _polling(model, state, number, member)
            yield from _processing(model, state, number, member)
            if model.commit == "transaction":
                yield from _in_transactions(model, state, number, member)
            else:
                yield from _committing(model, state, number, member, late=left["delays"] > 0)
    for generation, offset in state.flight:
        arrived = state._replace(flight=state.flight - {(generation, offset)})
        if _accepted(model, state, generation):
            yield f"the late commit of {offset} arrives", arrived._replace(offset=offset)
    holder = len(state.members) - 1  # the member that joined last owns the partition
    if state.members[holder].generation < state.generation:
        yield from _joining(model, state)
    elif not state.members[holder].alive:
        yield "the group notices", state._replace(generation=state.generation + 1)
    else:
        if left["crashes"]:
            killed = _with(state, holder, state.members[holder]._replace(alive=False))
            yield f"member {holder} is killed", _spent(killed, "crashes")
        if left["rebalances"]:
            out = state._replace(generation=state.generation + 1)
            yield f"member {holder} is removed from the group", _spent(out, "rebalances")
    if left["offset_losses"] and state.offset is not None:
        yield "the offsets are lost", _spent(state._replace(offset=None), "offset_losses")


def _joining(model: OffsetModel, state: State) -> Iterator[Step]:
    """Yield that a new member becomes the owner of the partition, at the committed offset.

    An open transaction with offsets of the partition is fenced by a new member with the same
    transactional.id, or awaited until it times out (KIP-447), or ignored.
    """
    if state.pending is not None:
        if model.fences_ids:
            yield from _joining(model, _fenced(state))
            return
        if model.waits:
            yield "the transaction times out", _fenced(state)
            return
    offset = begin(model, state)
    number = len(state.members)
    member = Member(True, state.generation, offset, offset, offset)
    yield f"member {number} begins at {offset}", state._replace(members=(*state.members, member))


def _fenced(state: State) -> State:
    """Return the state after the open transaction was aborted and its member fenced."""
    if state.pending is None:
        return state
    number = state.pending[0]
    out = state.members[number]._replace(alive=False, open=False)
    return _with(state, number, out)._replace(pending=None)


def _polling(model: OffsetModel, state: State, number: int, member: Member) -> Iterator[Step]:
    """Yield polls, once the polled records are processed, and committed if the mode says so."""
    done = member.position == member.polled
    if not done and not model.asynchronous:
        return
    if model.commit in {"after", "transaction"} and member.committed < member.polled:
        return
    for end in range(member.polled + 1, model.budgets.records + 1):
        polled = _with(state, number, member._replace(polled=end))
        yield f"member {number} polls up to {end}", polled
        if model.commit == "auto-on-poll" and member.polled > member.committed:
            committed, ok = _committed(model, polled, number, member.polled)
            if ok:
                yield f"member {number} polls up to {end}, and commits", committed


def _processing(model: OffsetModel, state: State, number: int, member: Member) -> Iterator[Step]:
    record = member.position
    if record == member.polled or (model.commit == "before" and member.committed < member.polled):
        return
    after = _with(state, number, member._replace(position=record + 1))
    if model.commit != "transaction":
        after = _effected(after, record, record + 1)
    yield f"member {number} processes {record}", after


def _committing(
    model: OffsetModel, state: State, number: int, member: Member, *, late: bool
) -> Iterator[Step]:
    due = {
        "before": member.position < member.polled,
        "after": member.position == member.polled,
        "auto": True,
    }.get(model.commit, False)
    offset = member.polled
    if not due or member.committed >= offset:
        return
    committed, _ = _committed(model, state, number, offset)
    yield f"member {number} commits {offset}", committed
    if late:
        held = state._replace(flight=state.flight | {(member.generation, offset)})
        yield f"member {number}'s commit of {offset} is late", _spent(held, "delays")


def _accepted(model: OffsetModel, state: State, generation: int) -> bool:
    """Whether the group accepts a commit (`ClassicGroup.validateOffsetCommit`)."""
    return generation == state.generation or not model.checks.generation_check


def _committed(model: OffsetModel, state: State, number: int, offset: int) -> tuple[State, bool]:
    """Return the state after a member's commit, and whether it was accepted.

    A member whose commit is refused has lost the partition: it stops, unless it is heedless.
    """
    member = state.members[number]
    if not _accepted(model, state, member.generation):
        if model.heedless:
            return _with(state, number, member._replace(committed=offset)), False
        return _with(state, number, member._replace(alive=False)), False
    informed = member._replace(committed=offset)
    return _with(state, number, informed)._replace(offset=offset), True


def _in_transactions(
    model: OffsetModel, state: State, number: int, member: Member
) -> Iterator[Step]:
    """Yield the steps of a transaction: its offsets take effect with its records, at its end.

    `transactions` specifies how transactions end; here they end in one step, or not at all.
    """
    offset = member.polled
    if member.position < offset or member.committed >= offset:
        return
    if not member.open:
        old = member.generation < state.generation and model.checks_transactions
        succeeded = number < len(state.members) - 1 and model.fences_ids
        if old or succeeded:
            out = _with(state, number, member._replace(alive=False))
            yield f"member {number} is refused", out
            return
        sent = _with(state, number, member._replace(open=True))
        yield f"member {number} sends offset {offset}", sent._replace(pending=(number, offset))
        return
    if state.pending is not None and state.pending[0] != number:
        mine = state  # a later transaction of another id has offsets, too
    else:
        mine = state._replace(pending=None)
    ended = _with(mine, number, member._replace(committed=offset, open=False))
    effects = _effected(ended, member.committed, offset)
    yield f"member {number} commits up to {offset}", effects._replace(offset=offset)
    if not model.checks.atomic and dict(zip(PERTURBATIONS, state.left, strict=True))["crashes"]:
        killed = _with(mine, number, member._replace(alive=False, open=False))
        halfway = _effected(killed, member.committed, offset)
        yield f"member {number} is killed between records and offsets", _spent(halfway, "crashes")


def _effected(state: State, first: int, end: int) -> State:
    effects = tuple(
        min(2, times + (first <= record < end)) for record, times in enumerate(state.effects)
    )
    return state._replace(effects=effects)


def _with(state: State, number: int, member: Member) -> State:
    members = state.members
    return state._replace(members=(*members[:number], member, *members[number + 1 :]))


def _spent(state: State, kind: str) -> State:
    spent = PERTURBATIONS.index(kind)
    return state._replace(left=tuple(n - (spent == k) for k, n in enumerate(state.left)))
