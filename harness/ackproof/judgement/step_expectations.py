"""Compares what the probe could do in the steps of a schedule with `expect.steps`.

A step is told by the id of a fault: its last period before the fault is healed, or before the run
ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ackproof.runs.verdict import Expectation, FaultReport, Step
from ackproof.scenario.model import ExpectedStep

#: How an answer of the probe reads, before `readable` or `writable`.
_WORDS = {"yes": "", "no": "not ", "unknown": "perhaps ", "some": "partly "}
_WANTED = {True: "yes", False: "no"}


def check_steps(
    expected: Mapping[str, ExpectedStep], faults: Sequence[FaultReport], steps: Sequence[Step]
) -> list[Expectation]:
    """Return a line for each window of a fault that `expected` names.

    A fault that never began has none: its run is inconclusive anyway.
    """
    return [
        _line(fault.id, expected[fault.id], last)
        for fault in faults
        if fault.id is not None and fault.id in expected
        for last in [step for step in steps if fault.window in step.in_force][-1:]
    ]


def untold(lines: Sequence[Expectation]) -> list[str]:
    """Return what a run must be inconclusive for: lines in which an answer is not known."""
    return [f"{line.what}: {line.observed}" for line in lines if _WORDS["unknown"] in line.observed]


def _line(name: str, wanted: ExpectedStep, step: Step) -> Expectation:
    answers = dict(_answers(wanted, step))
    return Expectation(
        what=f"step {name}",
        wanted=_text({ability: _WANTED[getattr(wanted, ability)] for ability in answers}),
        observed=_text(answers),
        met=all(answer == _WANTED[getattr(wanted, ability)] for ability, answer in answers.items()),
    )


def _answers(wanted: ExpectedStep, step: Step) -> Iterator[tuple[str, str]]:
    """Yield what all partitions answered, for each ability that matters."""
    for ability, value in wanted:
        if value is None:
            continue
        answers = {getattr(partition, ability) for partition in step.partitions} or {"unknown"}
        if len(answers) == 1:
            yield ability, answers.pop()
        else:
            yield ability, "unknown" if "unknown" in answers else "some"


def _text(answers: Mapping[str, str]) -> str:
    return ", ".join(f"{_WORDS[answer]}{ability}" for ability, answer in answers.items())
