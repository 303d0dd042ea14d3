"""What an exploration stores of each run, and the schedules that it ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ackproof.runs.verdict import Finding, Record
from ackproof_model.coverage import Pair
from ackproof_model.planning import Operations

#: A run that could not be judged, beside the words of verdicts.
NOT_RUN = "not run"


class Schedule(Record):
    """Operations, each after the one before; `records` are acked in each stage that acks any."""

    operations: Operations
    records: int


class Proposal(Record):
    """A schedule and where it comes from.

    aimed: the planner's schedule to pairs that are missing. mutated: a change of the schedule of
    the result `parent`, which had passed through new pairs. drawn: neither was possible. examined:
    it examines what `parent` has found.
    """

    schedule: Schedule
    origin: Literal["aimed", "mutated", "drawn", "examined"]
    parent: str = ""


class Result(Record):
    """One run of an exploration.

    number: counts the runs with this seed. known: how many results of each seed were stored when
    the schedule was proposed; then the schedule is a function of seed, number and these results.
    run: its run directory in the exploration's folder, '' if it was not kept. new: pairs that no
    result had passed through for certain. not_counted: why the run counts no pairs.
    """

    seed: int
    number: int
    known: dict[int, int]
    proposal: Proposal
    run: str = ""
    verdict: str
    reason: str
    findings: tuple[Finding, ...] = ()
    certain: tuple[Pair, ...] = ()
    possible: tuple[Pair, ...] = ()
    new: int = 0
    not_counted: str = ""

    @property
    def name(self) -> str:
        return name_of(self.seed, self.number)


def name_of(seed: int, number: int) -> str:
    return f"{seed}-{number:05}"


Results = Mapping[str, Result]


def certain_pairs(results: Results) -> frozenset[Pair]:
    return frozenset(pair for one in results.values() for pair in one.certain)


def counts(results: Results) -> dict[int, int]:
    """Return how many results each seed has."""
    numbers: dict[int, int] = {}
    for one in results.values():
        numbers[one.seed] = numbers.get(one.seed, 0) + 1
    return dict(sorted(numbers.items()))
