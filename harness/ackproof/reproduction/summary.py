"""The result of a shrink: `shrink.json` and `story.md`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from ackproof.errors import RunDirectoryError
from ackproof.runs.directory import disk_errors, read_verdict
from ackproof.runs.verdict import Record

Ended = Literal["minimal", "budget", "interrupted", "not-again"]


class Answer(Record):
    """Whether a candidate loses, by its trials or by the model."""

    what: str
    steps: list[str]
    loses: bool
    losing: int = 0
    trials: int = 0
    #: The model predicts the anomaly `impossible`, so the candidate was not run.
    excluded: bool = False

    @property
    def text(self) -> str:
        if self.excluded:
            return "impossible by the model, not run"
        return f"lost in {self.losing} of {self.trials} trials"


class Change(Record):
    """A number of the scenario that was reduced."""

    what: str
    before: str
    after: str


class ShrinkResult(Record):
    """`shrink.json`. `ended` is `minimal` if no further reduction loses.

    `steps`: description of every step of the run, by id. `kept`: the ids of the steps that remain.
    `excluded`: number of candidates that the model excluded; `spared`: the minimum number of their
    trials. `losing`, `trials`: trials of the smallest scenario that loses.
    """

    schema_version: int = 1
    shrink_id: str
    run_id: str
    scenario: str
    anomaly: str
    rule: str
    ended: Ended
    steps: dict[str, str]
    kept: list[str]
    changes: list[Change]
    answers: list[Answer]
    excluded: int
    spared: int
    trials_run: int
    losing: int
    trials: int
    #: The run of `minimal.yaml` with the most losses, under `runs/`.
    example: str | None = None
    minimal: str | None = None
    notes: list[str] = Field(default_factory=list)


_ENDED = {
    "minimal": "No further step or number can be reduced.",
    "budget": "The budget ran out: the scenario may not be minimal.",
    "interrupted": "The shrink was interrupted: the scenario may not be minimal.",
}


def headline(result: ShrinkResult) -> str:
    if not result.minimal:
        whole = next((a for a in result.answers if len(a.steps) == len(result.steps)), None)
        trials = f" ({whole.text})" if whole else ""
        return f"The replay did not reproduce {result.anomaly} records{trials}."
    few, of = len(result.kept), len(result.steps)
    rate = f"{result.losing} of {result.trials} trials had {result.anomaly} records"
    if not few:
        return f"No step is needed: without any step, {rate}."
    return f"{few} of {of} steps {'is' if few == 1 else 'are'} enough: {rate}."


def write_story(directory: Path, result: ShrinkResult) -> Path:
    """Write `story.md`. Raises DiskError."""
    path = directory / "story.md"
    with disk_errors(directory):
        path.write_text("\n".join(_lines(directory, result)) + "\n", encoding="utf-8")
    return path


def answers_without(result: ShrinkResult) -> dict[str, Answer | None]:
    """For each kept step, return the oracle's answer with only that step removed."""
    by_steps = {tuple(answer.steps): answer for answer in result.answers}
    return {
        step: by_steps.get(tuple(other for other in result.kept if other != step))
        for step in result.kept
    }


def _lines(directory: Path, result: ShrinkResult) -> Iterator[str]:
    yield f"# {result.scenario}: the minimal scenario of {result.run_id}"
    yield ""
    yield f"{headline(result)} {_ENDED.get(result.ended, '')}".rstrip()
    if not result.minimal:
        yield ""
        yield "Rare losses need more trials: `--trials 10 --losses 2`."
        return
    yield from ("", "## Steps that remain", "")
    for step, answer in answers_without(result).items():
        yield f"- **{step}**: {result.steps[step]}"
        if answer is not None:
            yield f"  - without it: {answer.text}"
    yield from _why(directory, result)
    removed = [step for step in result.steps if step not in result.kept]
    if removed:
        yield from ("", "## Steps that were removed", "")
        yield from (f"- {step}: {result.steps[step]}" for step in removed)
    if result.changes:
        yield from ("", "## Numbers that were reduced", "")
        yield from (
            f"- {change.what}: from {change.before} to {change.after}" for change in result.changes
        )
    yield from ("", "## Evidence", "")
    yield f"- Rule: {result.rule}."
    yield f"- {len(result.answers)} candidates, {result.trials_run} trials on the cluster."
    yield (
        f"- The model excluded {result.excluded} candidates, which saved at least "
        f"{result.spared} trials."
    )
    yield from (f"- {note}" for note in result.notes)
    yield from ("", "## How to run it", "", "```", f"ackproof run {directory / result.minimal}")
    yield "```"


def _why(directory: Path, result: ShrinkResult) -> Iterator[str]:
    """Yield the causes of the trial with the most losses, and the model's trace to a loss."""
    if result.example is None:
        return
    try:
        verdict = read_verdict(directory / "runs" / result.example)
    except RunDirectoryError:
        return
    yield from ("", "## Causes", "")
    yield f"In {result.example}, {verdict.observed.get(result.anomaly, 0)} were {result.anomaly}."
    yield from (f"- {cause.sentence}" for cause in verdict.causes)
    if verdict.prediction.trace and result.anomaly == "lost":
        yield from ("", "The model's shortest trace to a loss:", "")
        for number, step in enumerate(verdict.prediction.trace, start=1):
            yield f"{number}. {step}"
