"""The steps of a group's members, the commits that it accepts, and the search for anomalies."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from ackproof_model.breadth_first import SearchResult, explore
from ackproof_model.consumer_groups.model import OffsetBudgets, OffsetModel


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

    offset: the committed offset, None for none. earlier: those before it, as far as the remaining
    budgets need them. pending: member and offset of an open transaction. effects: how often each
    record was processed, at most 2. end: the end of the log. flight: delayed commits, as
    (generation, offset). left: what is left of the budgets.
    """

    generation: int
    offset: int | None
    earlier: tuple[int | None, ...]
    pending: tuple[int, int] | None
    members: tuple[Member, ...]
    effects: tuple[int, ...]
    end: int
    flight: frozenset[tuple[int, int]]
    left: tuple[int, ...]


Step = tuple[str, State]

_OFFSET_LOSSES = OffsetBudgets.KINDS.index("offset_losses")


def initial(model: OffsetModel) -> State:
    """Return the initial state: the first member owns the partition, from offset 0 on."""
    budgets = model.budgets
    return State(
        generation=0,
        offset=None,
        earlier=(),
        pending=None,
        members=(Member(True, 0, 0, 0, 0),),
        effects=(0,) * budgets.records,
        end=budgets.records,
        flight=frozenset(),
        left=budgets.left,
    )


def begin(model: OffsetModel, state: State, committed: int | None) -> int:
    """Return where a new member begins: by auto.offset.reset if no committed offset is valid."""
    if committed is not None and committed <= state.end:
        return committed
    return 0 if model.reset == "earliest" else state.end


def successors(model: OffsetModel, state: State) -> Iterator[Step]:
    """Yield every step from a state, as (name, state after it)."""
    for label, after in _steps(model, state):
        yield label, _with_earlier(state, after)


def _may_return(state: State) -> bool:
    return bool(left(state, "stale_fetches") or left(state, "offset_losses"))


def _with_earlier(before: State, after: State) -> State:
    """Return the state with earlier committed offsets, if a perturbation may restore them."""
    if not _may_return(after):
        return after._replace(earlier=())
    lost = after.left[_OFFSET_LOSSES] < before.left[_OFFSET_LOSSES]
    if after.offset == before.offset or lost:
        return after
    return after._replace(earlier=(*before.earlier, before.offset))


def _steps(model: OffsetModel, state: State) -> Iterator[Step]:
    if model.killed_in_poll and state.members[0].alive:
        yield from _until_killed(model, state)
        return
    for number, member in enumerate(state.members):
        if member.alive:
            yield from _polling(model, state, number, member)
            yield from _processing(model, state, number, member)
            if model.commit == "transaction":
                yield from _in_transactions(model, state, number, member)
            else:
                yield from _committing(model, state, number, member)
    for generation, offset in state.flight:
        arrived = state._replace(flight=state.flight - {(generation, offset)})
        if _accepted(state, generation):
            yield f"the late commit of {offset} arrives", arrived._replace(offset=offset)
    holder = len(state.members) - 1  # the member that joined last owns the partition
    if state.members[holder].generation < state.generation:
        yield from _joining(model, state)
    elif not state.members[holder].alive:
        yield "the group notices", state._replace(generation=state.generation + 1)
    else:
        yield from _departures(state, holder)
    if state.end < model.budgets.records:
        yield "others take the offsets of lost records", state._replace(end=model.budgets.records)
    yield from _coordinator_moves(state)
    yield from _log_losses(model, state)


def _departures(state: State, holder: int) -> Iterator[Step]:
    """Yield the steps by which the owner is killed, or removed from the group."""
    if left(state, "crashes"):
        killed = _with(state, holder, state.members[holder]._replace(alive=False))
        yield f"member {holder} is killed", spent(killed, "crashes")
    if left(state, "rebalances"):
        out = state._replace(generation=state.generation + 1)
        yield f"member {holder} is removed from the group", spent(out, "rebalances")


def _coordinator_moves(state: State) -> Iterator[Step]:
    """Yield failovers of the coordinator: the next one loads `__consumer_offsets`."""
    if left(state, "failovers"):
        moved = spent(state, "failovers")
        yield "the coordinator fails over", moved
    if left(state, "offset_losses"):
        for kept, offset in enumerate(state.earlier):
            label = "no offset" if offset is None else f"offset {offset}"
            lost = state._replace(offset=offset, earlier=state.earlier[:kept])
            yield f"the coordinator fails over and loads {label}", spent(lost, "offset_losses")


def _log_losses(model: OffsetModel, state: State) -> Iterator[Step]:
    """Yield losses of readable records; members that run may notice them.

    A transaction in progress ends before or afterwards.
    """
    open_now = any(member.alive and member.open for member in state.members)
    if not left(state, "log_losses") or open_now:
        return
    for end in range(state.end):
        effects = tuple(times if n < end else 0 for n, times in enumerate(state.effects))
        label = f"the log keeps {end} of its records"
        lost = spent(state._replace(end=end, effects=effects), "log_losses")
        if model.notices_truncation:
            yield label, lost._replace(members=tuple(_back(one, end) for one in state.members))
            continue
        yield label, lost
        # A fetch beyond the log end is out of range.
        reset = begin(model, lost, None)
        beyond = [one.alive and one.polled > end for one in state.members]
        if any(beyond):
            members = tuple(
                one._replace(position=reset, polled=reset) if out else one
                for one, out in zip(state.members, beyond, strict=True)
            )
            yield f"{label}, and a member begins at {reset}", lost._replace(members=members)


def _back(member: Member, end: int) -> Member:
    """Return a member that went back to where its log and the leader's diverge."""
    return member._replace(
        committed=min(member.committed, end),
        position=min(member.position, end),
        polled=min(member.polled, end),
    )


def _until_killed(model: OffsetModel, state: State) -> Iterator[Step]:
    """Yield the steps of the first member until it is killed in the middle of its first poll."""
    member, last = state.members[0], model.budgets.records
    if member.polled < last:
        yield f"member 0 polls up to {last}", _with(state, 0, member._replace(polled=last))
        return
    if member.position == 0:
        yield from _processing(model, state, 0, member)
    if model.commit in {"before", "auto"}:
        yield from _committing(model, state, 0, member)
    if member.position > 0:
        killed = _with(state, 0, member._replace(alive=False))
        yield "member 0 is killed", killed._replace(generation=state.generation + 1)


def _joining(model: OffsetModel, state: State) -> Iterator[Step]:
    """Yield the steps by which a new member becomes the owner, at the committed offset.

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
    yield _joined(model, state, state.offset)
    if left(state, "stale_fetches"):
        for committed in state.earlier:
            label, joined = _joined(model, state, committed)
            yield f"{label}, from a deposed coordinator", spent(joined, "stale_fetches")


def _joined(model: OffsetModel, state: State, committed: int | None) -> Step:
    offset = begin(model, state, committed)
    number = len(state.members)
    member = Member(True, state.generation, offset, offset, offset)
    return f"member {number} begins at {offset}", state._replace(members=(*state.members, member))


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
    for end in range(member.polled + 1, state.end + 1):
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
    if left(state, "failed_effects"):
        failed = _with(after, number, member)
        yield f"member {number} processes {record}, which fails", spent(failed, "failed_effects")


def _committing(model: OffsetModel, state: State, number: int, member: Member) -> Iterator[Step]:
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
    if left(state, "failed_commits") and model.continues_after_refused_commit:
        failed = _with(state, number, member._replace(committed=offset))
        yield f"member {number}'s commit of {offset} fails", spent(failed, "failed_commits")
    if left(state, "delays"):
        delayed = state._replace(flight=state.flight | {(member.generation, offset)})
        yield f"member {number}'s commit of {offset} is late", spent(delayed, "delays")


def _accepted(state: State, generation: int) -> bool:
    """Whether the group accepts a commit (`ClassicGroup.validateOffsetCommit`)."""
    return generation == state.generation


def _committed(model: OffsetModel, state: State, number: int, offset: int) -> tuple[State, bool]:
    """Return the state after a member's commit, and whether it was accepted.

    A member whose commit is refused has lost the partition: it stops, unless
    `continues_after_refused_commit`.
    """
    member = state.members[number]
    if not _accepted(state, member.generation):
        if model.continues_after_refused_commit:
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


def _effected(state: State, first: int, end: int) -> State:
    effects = tuple(
        min(2, times + (first <= record < end)) for record, times in enumerate(state.effects)
    )
    return state._replace(effects=effects)


def _with(state: State, number: int, member: Member) -> State:
    members = state.members
    return state._replace(members=(*members[:number], member, *members[number + 1 :]))


def left(state: State, kind: str) -> int:
    """Return how many perturbations of this kind are left."""
    return state.left[OffsetBudgets.KINDS.index(kind)] if state.left[-1] else 0


def spent(state: State, kind: str) -> State:
    return state._replace(left=OffsetBudgets.spend(state.left, kind))


#: unprocessed: no member has processed or will process a record: the at-most-once gap.
#: reprocessed: a record was processed twice: the at-least-once duplicate.
ANOMALIES = ("unprocessed", "reprocessed")

#: The most states that a search stores.
MAX_STATES = 1_000_000


def search(
    model: OffsetModel,
    *,
    until: Collection[str] = (),
    certain: bool = False,
    max_states: int = MAX_STATES,
) -> SearchResult[str, State]:
    """Search all states, or until all anomalies of `until` are found.

    certain: search the certain anomalies, too. A state is final if only perturbations can follow.
    """
    return explore(
        initial(model),
        lambda state: successors(model, state),
        lambda state: anomalies(model, state),
        final=_is_final if certain else None,
        until=until,
        max_states=max_states,
    )


def _is_final(state: State, after: Collection[State]) -> bool:
    return all(one.left != state.left for one in after)


def anomalies(model: OffsetModel, state: State) -> Iterator[str]:
    if any(times > 1 for times in state.effects):
        yield "reprocessed"
    owner = state.members[-1]
    if not owner.alive or owner.generation < state.generation:
        return
    # A transaction's records take effect at its end.
    passed = owner.committed if model.commit == "transaction" else owner.position
    for record in range(min(passed, state.end)):
        if not state.effects[record] and not any(
            # A removed member still processes its polled records.
            member.alive and member.position <= record < member.polled
            for member in state.members[:-1]
        ):
            yield "unprocessed"
