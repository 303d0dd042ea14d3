"""A shrinking in words: what is left, why each of it is needed, what was taken away, how sure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ackproof.errors import RunDirectoryError
from ackproof.reproduction.store import Answer, Shrunk
from ackproof.runs.directory import disk_errors, read_verdict

_ENDED = {
    "minimal": "Nothing more can be taken away.",
    "budget": "The budget ran out: there may be less to it.",
    "interrupted": "It was interrupted: there may be less to it.",
}


def headline(found: Shrunk) -> str:
    """Return the outcome in one sentence."""
    if not found.minimal:
        tried = next((one for one in found.answers if len(one.steps) == len(found.steps)), None)
        how = f" ({tried.told})" if tried else ""
        return f"Repeated, the run was not seen to have {found.anomaly} records again{how}."
    few, of = len(found.kept), len(found.steps)
    sure = f"{found.losing} of {found.trials} trials had {found.anomaly} records"
    if not few:
        return f"No step is needed: without any, {sure}."
    return f"{few} of {of} steps {'is' if few == 1 else 'are'} enough: {sure}."


def write_story(directory: Path, found: Shrunk) -> Path:
    """Write `story.md`; raise DiskError if that is not possible."""
    path = directory / "story.md"
    with disk_errors(directory):
        path.write_text("\n".join(_lines(directory, found)) + "\n", encoding="utf-8")
    return path


def needed(found: Shrunk) -> dict[str, Answer | None]:
    """Return, for each step that is left, the answer for the others without it."""
    by_steps = {tuple(one.steps): one for one in found.answers if not _is_number(one)}
    return {
        step: by_steps.get(tuple(other for other in found.kept if other != step))
        for step in found.kept
    }


def _is_number(answer: Answer) -> bool:
    return not answer.what.startswith(("all ", "no step", "step ", "steps "))


def _lines(directory: Path, found: Shrunk) -> Iterator[str]:
    yield f"# {found.scenario}: what of {found.run_id} matters"
    yield ""
    yield f"{headline(found)} {_ENDED.get(found.ended, '')}".rstrip()
    if not found.minimal:
        yield ""
        yield "Losses that hang on luck need more trials: `--trials 10 --losses 2`."
        return
    yield from ("", "## What is left", "")
    for step, answer in needed(found).items():
        yield f"- **{step}**: {found.steps[step]}"
        if answer is not None:
            yield f"  - without it: {answer.told}"
    yield from _why(directory, found)
    removed = [step for step in found.steps if step not in found.kept]
    if removed:
        yield from ("", "## What was taken away", "")
        yield from (f"- {step}: {found.steps[step]}" for step in removed)
    if found.changes:
        yield from ("", "## What was lessened", "")
        yield from (f"- {one.what}: {one.before} became {one.after}" for one in found.changes)
    yield from ("", "## How sure", "")
    yield f"- The rule: {found.rule}."
    yield f"- {len(found.answers)} candidates, {found.trials_run} trials on the cluster."
    yield (
        f"- The model excluded {found.excluded} candidates, which spared {found.spared} trials or "
        "more."
    )
    yield from (f"- {note}" for note in found.notes)
    yield from ("", "## Run it", "", "```", f"ackproof run {directory / found.minimal}", "```")


def _why(directory: Path, found: Shrunk) -> Iterator[str]:
    """Tell what became of the records in the trial that lost most, and the model's way there."""
    if found.example is None:
        return
    try:
        verdict = read_verdict(directory / "runs" / found.example)
    except RunDirectoryError:
        return
    yield from ("", "## Why it matters", "")
    yield f"In {found.example}, {verdict.observed.get(found.anomaly, 0)} were {found.anomaly}."
    yield from (f"- {cause.sentence}" for cause in verdict.causes)
    if verdict.prediction.trace and found.anomaly == "lost":
        yield from ("", "The model's shortest way to a loss:", "")
        for number, step in enumerate(verdict.prediction.trace, start=1):
            yield f"{number}. {step}"
