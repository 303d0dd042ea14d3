"""Tells the shortest way to a loss in an operator's words: failures, who is in sync, who leads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from ackproof_model.adversary.state import AdversaryModel, Budgets, State, initial
from ackproof_model.adversary.successors import lost, successors
from ackproof_model.replication.state import NOBODY, Label, members, name
from ackproof_model.worst_case.minima import LOSE_POWER, Minimum, Question

#: A power loss of which the story tells that the disk, or the container, was replaced.
_LOSE_DISK, _LOSE_CONTAINER = "lose disk", "lose container"
_MOVE_LEADER = "move leader"
#: Sentences of the failures, with the broker (and the follower that lags).
_FAILURES = {
    "kill": "{0} crashes; its log stays.",
    LOSE_POWER: "{0} loses power, and its log loses what was not flushed.",
    _LOSE_DISK: "{0} ends, and its disk is replaced by an empty one.",
    _LOSE_CONTAINER: "{0} ends, and a new one starts with an empty log.",
    "stop": "{0} is shut down cleanly.",
    "shrink": "{1} does not keep up with {0}.",
    "cut off": "{0} loses its session with the controller, and runs on.",
    _MOVE_LEADER: "{0} is made the leader by a planned election.",
    "restart": "{0} starts again.",
    "balance": "{0}, the first replica, is elected by itself.",
    "delete": "{0} deletes its replica, which was moved away.",
    "cancel": "The move is cancelled.",
}
#: The replicas of a story; others have no part in it (`failure_sets`).
_TOLD = 3
_OTHERS = {
    True: "The {more} other followers fall behind first and leave the ISR.",
    False: "The {more} other followers have not fetched the newest records.",
}
#: Steps in which the broker is not named as the leader.
_ELECTED = (_MOVE_LEADER, "balance", "delete", "cancel")
_KEEPING_POWER = "{0} loses power; its log stays."


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The way to a loss, one sentence a step. at_risk: which records it may lose."""

    sentences: tuple[str, ...]
    at_risk: str


def replay(question: Question, found: Minimum) -> Iterator[tuple[Label | None, State]]:
    """Yield each step of a loss with the state after it, and first the state in which it begins."""
    moves = bool(found.counts.reassignments)
    levels = [
        _states(question, found.steps[:number], moves=moves)
        for number in range(len(found.steps) + 1)
    ]
    state = next(state for state in levels[-1] if lost(state))
    way = [state]
    for level in reversed(levels[1:]):
        before = level[way[-1]]
        assert before is not None
        way.append(before)
    yield from zip((None, *found.steps), reversed(way), strict=True)


#: As much as any stored loss needs.
_AMPLE = Budgets(
    kills=7, power_losses=7, clean_stops=7, shrinks=7, fencings=7, leader_moves=7, in_all=7
)
_AMPLE_MOVES = replace(_AMPLE, reassignments=7)


_WRITES = ("write", "ack")


@cache
def _states(
    question: Question, steps: tuple[Label, ...], *, moves: bool
) -> dict[State, State | None]:
    """Return the states to which these steps lead, each with the state before its last step.

    moves: replicas may move to one more broker.
    """
    model = question.model(budgets=_AMPLE)
    if moves:
        model = question.model(
            budgets=_AMPLE_MOVES, spare_brokers=1, misses_epochs=True, balanced=True
        )
    if not steps:
        return {initial(model): None}
    after: dict[State, State | None] = {}
    for state in _states(question, steps[:-1], moves=moves):  # several steps may have one label
        for one in _after(model, state, steps[-1]):
            after.setdefault(one, state)
    return after


def _after(model: AdversaryModel, state: State, step: Label) -> Iterator[State]:
    """Yield the states after a step; writes come first, then the others by their brokers."""
    wanted, *wanted_numbers = step
    for label, after in successors(model, state):
        action, *numbers = label
        if action not in _WRITES and (wanted in _WRITES or numbers[0] > wanted_numbers[0]):
            return
        if label == step:
            yield after


def story(question: Question, found: Minimum, *, disks: int = 0, containers: int = 0) -> Story:
    """Return the sentences of a loss, without steps that change nothing for a reader.

    disks: how many logs lose records because their disks are replaced; containers: how many because
    their pods or containers are, before those.
    """
    if (more := question.replicas - _TOLD) > 0:
        few = replace(question, replicas=_TOLD)
        told = story(few, found, disks=disks, containers=containers)
        others = _OTHERS[question.acks == "all"].format(more=more)
        return replace(told, sentences=(told.sentences[0], others, *told.sentences[1:]))
    steps = list(replay(question, found))
    before = steps[0][1]
    sentences = [_roles(question.replicas)]
    at_risk = ""
    emptied = [at for at, (step, _) in enumerate(steps) if step and step[0] == LOSE_POWER]
    replaced = emptied[len(emptied) - min(disks, len(emptied)) :]
    left = emptied[: len(emptied) - len(replaced)]
    ended = left[len(left) - min(containers, len(left)) :]
    for at, (step, (_, after)) in enumerate(zip(found.steps, steps[1:], strict=True), start=1):
        failure = step
        if at in replaced or at in ended:
            failure = (_LOSE_DISK if at in replaced else _LOSE_CONTAINER, *step[1:])
        sentences += _sentences(question, failure, before, after)
        if after.writes.acked & ~before.writes.acked and not at_risk:
            at_risk = _at_risk(question, after, disks + containers)
            if found.counts.reassignments:
                at_risk = "every record that a moved replica had not copied again"
        before = after
    leader = name(before.controller.leader)
    sentences.append(f"{leader} leads without the acked record: it is lost.")
    return Story(sentences=tuple(sentences), at_risk=at_risk)


def _roles(replicas: int) -> str:
    followers = _and([name(one) for one in range(1, replicas)])
    if not followers:
        return "Broker A has the only replica."
    many = replicas > 2
    return (
        f"Broker A leads; {followers} {'are its followers' if many else 'is its follower'}, and "
        "all are in the ISR."
    )


def _sentences(question: Question, step: Label, before: State, after: State) -> Iterator[str]:
    action, *numbers = step
    broker = numbers[0]
    if action == "reassign":
        yield f"The replicas are moved to {_and([name(one) for one in numbers])}."
    if action in _FAILURES:
        kept = action == LOSE_POWER and before.brokers[broker].log == after.brokers[broker].log
        sentence = _KEEPING_POWER if kept else _FAILURES[action]
        leads = before.controller.leader == broker and action not in _ELECTED
        names = [name(one) for one in numbers]
        names[0] += ", the leader," if leads and action not in ("restart", "shrink") else ""
        yield sentence.format(*names).replace(",;", ";").replace(",,", ",")
    if acked := after.writes.acked & ~before.writes.acked:
        having = [n for n, one in enumerate(after.brokers) if one.records & acked]
        alone = "has" if len(having) == 1 else "have"
        only = "only " if len(having) < len(after.brokers) else ""
        behind = _NOT_LEARNED if _knows_a_wider_isr(question, broker, after) else ""
        who = _and(list(map(name, having)))
        yield f"{name(broker)} acks a record{behind}; {only}{who} {alone} it."
    yield from _changes(before, after)


_NOT_LEARNED = ", because it has not learned of the new ISR yet"


def _knows_a_wider_isr(question: Question, leader: int, state: State) -> bool:
    """Whether a leader may only ack because the ISR that it knows is wider than the controller's.

    The controller has fewer members than min.insync.replicas, which the leader learns by the
    response to its AlterPartition (`Partition.tryAppendRecordsToLeader`).
    """
    isr = state.controller.isr
    too_few = question.acks == "all" and isr.bit_count() < question.min_insync_replicas
    return too_few and bool(state.brokers[leader].maximal & ~isr)


def _changes(before: State, after: State) -> Iterator[str]:
    """Yield what the controller has changed: the ISR, the leader."""
    old, new = before.controller, after.controller
    parts = []
    if old.isr != new.isr:
        parts.append(f"the ISR is now {_set(new.isr)}")
    if old.elr != new.elr and new.elr:
        parts.append(f"{_set(new.elr)} may still be elected (ELR)")
    if old.leader != new.leader:
        parts.append(
            "the partition has no leader" if new.leader == NOBODY else f"{name(new.leader)} leads"
        )
    if parts:
        text = ", ".join(parts)
        yield f"{text[0].upper()}{text[1:]}."


def _set(replicas: int) -> str:
    return _and([name(one) for one in members(replicas)]) or "empty"


def _and(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _at_risk(question: Question, acked: State, disks: int) -> str:
    """Return which records may be lost, from the state in which the lost record was acked."""
    having = sum(bool(one.records & acked.writes.acked) for one in acked.brokers)
    isr = acked.controller.isr.bit_count()
    if question.replicas == 1:
        return "all records" if disks else "records that were not flushed to the disk"
    if question.acks != "all":
        return "records that the leader acked before a follower had fetched them"
    if having == 1 and isr == 1:
        return "records that were acked while the leader was alone in the ISR"
    if having < question.replicas:
        return f"records that were acked while {having} of {question.replicas} replicas had them"
    return "records that no replica had flushed to its disk"
