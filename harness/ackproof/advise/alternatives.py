"""Compares the sequences of steps that an operator may take, over all partitions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeVar

from ackproof.advise.dead_cluster import ClusterState
from ackproof.errors import ScenarioError
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model import advice
from ackproof_model.configuration import Acks

Verdict = Literal["keeps everything", "may lose", "loses", "not decided"]


_Answer = TypeVar("_Answer")
#: The possible states of each partition; partitions may share them.
States = Mapping[TopicPartition, Sequence[advice.Situation]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """When a partition can be written again, for certain.

    after: the number of steps after which it can be, 0 for now, None for never. fenced_first:
    brokers that the controllers must fence first, which takes up to a session timeout.
    """

    after: int | None
    fenced_first: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Steps and their outcome for each partition, from these states."""

    steps: tuple[advice.Step, ...]
    outcomes: Mapping[TopicPartition, advice.Outcome]
    states: States = field(default_factory=dict, compare=False, repr=False)

    def writes_return(self, place: TopicPartition) -> Return:
        """Return when a partition can be written again while these steps are carried out."""
        return self._returns.get(place, Return(after=None))

    @cached_property
    def _returns(self) -> Mapping[TopicPartition, Return]:
        return of_each(self.states, self._return)

    def _return(self, possible: Sequence[advice.Situation]) -> Return:
        after = None
        for done in range(len(self.steps), -1, -1):
            if any(
                advice.writes_after(one, self.steps[:done]) is not advice.Ability.YES
                for one in possible
            ):
                break
            after = done
        if not after:
            return Return(after=after)
        started = {broker for step in self.steps[:after] for broker in brokers_of(step)}
        replicas = [one for situation in possible for one in situation.replicas]
        alive = {
            one.broker
            for one in replicas
            if not (one.running or one.fenced or one.broker in started)
        }
        return Return(after=after, fenced_first=tuple(sorted(alive)))

    @cached_property
    def at_risk(self) -> int:
        """How many acked offsets may be lost."""
        return sum(one.at_risk for one in self.outcomes.values())

    @cached_property
    def certain(self) -> int:
        """How many acked offsets are lost in every order of events."""
        return sum(offsets.count for one in self.outcomes.values() for offsets in one.loses)

    @cached_property
    def unavailable(self) -> tuple[TopicPartition, ...]:
        """The partitions that may not be written in the end."""
        return tuple(
            place for place, one in self.outcomes.items() if one.writes is not advice.Ability.YES
        )

    @property
    def decided(self) -> bool:
        """Whether every order of events was searched."""
        return all(one.complete for one in self.outcomes.values())

    @property
    def verdict(self) -> Verdict:
        if not self.decided:
            return "not decided"
        if not self.at_risk:
            return "keeps everything"
        return "loses" if self.certain == self.at_risk else "may lose"

    @property
    def rank(self) -> tuple[bool, int, int, int, bool, int]:
        started = sum(len(getattr(step, "brokers", ())) for step in self.steps)
        elects = any(isinstance(step, advice.Elect) for step in self.steps)
        return (
            not self.decided,
            len(self.unavailable),
            self.at_risk,
            -started,
            elects,
            len(self.steps),
        )


def alternatives(states: States) -> list[Alternative]:
    """Return the alternatives, the best first.

    First come those after which all partitions can be written again. Among these, an alternative
    is better if it keeps more acked records, then if it starts more brokers, then if it has fewer
    steps. If too few replicas are in sync for acks=all in the end, lowering min.insync.replicas is
    one more step.
    """
    down = advice.down_brokers(tuple(one for possible in states.values() for one in possible))
    judged = [judge(states, steps) for steps in advice.sequences(down)]
    best = min(judged, key=lambda one: one.rank)
    minima = {states[place][0].min_insync_replicas for place in best.unavailable}
    lower = range(1, max(minima, default=1))
    judged += [judge(states, (*best.steps, advice.MinIsr(value))) for value in lower]
    return sorted(judged, key=lambda one: one.rank)


def with_acks(cluster: ClusterState, acks: Acks) -> States:
    """Return the states of a cluster whose producers use these acks."""
    return of_each(
        cluster.situations,
        lambda possible: [replace(one, acks=acks, running=cluster.running) for one in possible],
    )


def judge(states: States, steps: tuple[advice.Step, ...]) -> Alternative:
    """Return the outcome of steps for each partition."""
    return Alternative(
        steps=steps,
        outcomes=of_each(
            states, lambda one: advice.merged([advice.outcome(state, steps) for state in one])
        ),
        states=states,
    )


def of_each(
    states: States, answer: Callable[[Sequence[advice.Situation]], _Answer]
) -> dict[TopicPartition, _Answer]:
    """Return the answer for each partition; partitions with the same states are searched once."""
    distinct = {id(possible): possible for possible in states.values()}
    answers = {number: answer(possible) for number, possible in distinct.items()}
    return {place: answers[id(possible)] for place, possible in states.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One more failure during the steps; the broker starts again in the end.

    losing, unavailable: how many partitions may lose records, and may not be written in the end.
    """

    what: str
    losing: int
    unavailable: int
    decided: bool


def if_one_more_fails(states: States, steps: tuple[advice.Step, ...]) -> list[Failure]:
    """Return what may happen if any one broker fails before, between or after the steps."""
    every = [one for possible in states.values() for one in possible]
    brokers = sorted({one.broker for situation in every for one in situation.replicas})
    alike: defaultdict[object, list[Sequence[advice.Situation]]] = defaultdict(list)
    for possible in states.values():
        alike[tuple(one.kind for one in possible)].append(possible)
    worst = []
    for power, what in ((False, "crashes"), (True, "loses power")):
        losing = unavailable = 0
        decided = True
        for group in alike.values():
            outcomes = [
                advice.outcome(one, longer)
                for longer in advice.with_failure(steps, brokers, power=power)
                for one in group[0]
            ]
            losing += len(group) * any(one.may_lose for one in outcomes)
            unavailable += len(group) * any(
                one.writes is not advice.Ability.YES for one in outcomes
            )
            decided &= all(one.complete for one in outcomes)
        worst.append(Failure(what=what, losing=losing, unavailable=unavailable, decided=decided))
    return worst


_STEPS: tuple[tuple[str, Callable[[list[int]], advice.Step]], ...] = (
    (r"start (?P<brokers>[\d, and]+?)(?: together)?", lambda ids: advice.Start(tuple(sorted(ids)))),
    (r"stop (?P<brokers>\d+)", lambda ids: advice.Stop(ids[0])),
    (r"unclean election(?P<brokers>)", lambda _: advice.Elect()),
    (r"(?P<brokers>\d+) crashes", lambda ids: advice.Fail(ids[0])),
    (r"(?P<brokers>\d+) loses power", lambda ids: advice.Fail(ids[0], power=True)),
    (r"replace the disk of (?P<brokers>\d+)", lambda ids: advice.Replace(ids[0])),
    (r"min\.insync\.replicas=(?P<brokers>[1-9]\d*)", lambda ids: advice.MinIsr(ids[0])),
    (r"move replicas from (?P<brokers>\d+ to \d+)", lambda ids: advice.Move(ids[0], ids[1])),
)


def parsed_step(text: str) -> advice.Step:
    """Return the step that is printed as `text`. Raises ScenarioError."""
    for pattern, step in _STEPS:
        if match := re.fullmatch(pattern, text.strip()):
            ids = [int(number) for number in re.findall(r"\d+", match["brokers"])]
            if ids or "election" in pattern:
                return step(ids)
    raise ScenarioError(
        f"{text!r} is not a step",
        hint="Steps: start 1 and 2; stop 3; unclean election; replace the disk of 1; "
        "min.insync.replicas=1; move replicas from 1 to 4; 2 crashes; 2 loses power.",
    )


def brokers_of(step: advice.Step) -> list[int]:
    """Return the brokers that a step names."""
    return list(
        getattr(step, "brokers", None)
        or [getattr(step, name) for name in ("broker", "to") if hasattr(step, name)]
    )


def check_brokers(steps: Sequence[advice.Step], known: frozenset[int]) -> None:
    """Raise ScenarioError if a step names a broker that is not known."""
    for step in steps:
        if strangers := sorted(set(brokers_of(step)) - known):
            raise ScenarioError(
                f"{str(step)!r}: no broker {strangers[0]} is known; "
                f"{', '.join(map(str, sorted(known)))} are"
            )


def groups(
    alternative: Alternative,
) -> Iterator[tuple[list[TopicPartition], advice.Outcome, Return]]:
    """Yield partitions with the same outcome together."""
    together: defaultdict[tuple[advice.Outcome, Return], list[TopicPartition]] = defaultdict(list)
    for place, one in alternative.outcomes.items():
        together[one, alternative.writes_return(place)].append(place)
    yield from ((places, *same) for same, places in together.items())
