"""What became of the acked records of a run, in words for people.

The terminal, the page, the dashboard and `runs` say it with these words. The verdict's own word
(`holds`, `violated`, `inconclusive`) compares the observation with the scenario's `expect`; it
stays in JSON and in exit codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ackproof.report import formatting as fmt
from ackproof.report import wording
from ackproof.runs.verdict import Expectation, Verdict, Word

#: What colours are chosen by: whether acked records were lost, and not whether that was expected.
Tone = Literal["kept", "lost", "unclear"]

#: Whether the run met the scenario's `expect`.
AS_EXPECTED = {Word.HOLDS: "yes", Word.VIOLATED: "no", Word.INCONCLUSIVE: "undecided"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`text` is a sentence without a full stop, `brief` its first words, for tables."""

    tone: Tone
    brief: str
    text: str
    as_expected: str


def outcome(verdict: Verdict) -> Outcome:
    """Return what became of the acked records, and what else the scenario did not expect."""
    tone, brief, of_all = _records(verdict)
    text = f"{brief}{of_all}"
    loss = next((line for line in verdict.expectations if line.what == "loss"), None)
    if verdict.verdict is Word.INCONCLUSIVE:
        text = f"undecided: {text}"
    elif loss is not None:
        text += _compared(loss, lost=tone == "lost")
    others = [line for line in verdict.expectations if not line.met and line is not loss]
    if verdict.verdict is Word.VIOLATED and others:
        text += f"; not as expected: {fmt.listing(map(wording.unmet, others))}"
    return Outcome(tone=tone, brief=brief, text=text, as_expected=AS_EXPECTED[verdict.verdict])


def sentence(verdict: Verdict) -> str:
    """Return the outcome with a capital letter, as a heading."""
    text = outcome(verdict).text
    return text[0].upper() + text[1:]


def _records(verdict: Verdict) -> tuple[Tone, str, str]:
    """Return the tone, what became of the records, and of how many."""
    lost, acked = (verdict.observed.get(key, 0) for key in ("lost", "acked"))
    of_all = f" of {_acked(acked)}"
    if lost and verdict.verdict is Word.INCONCLUSIVE:
        return "lost", f"{fmt.count(lost)} not found", of_all
    if lost:
        return "lost", f"lost {fmt.count(lost)}", of_all
    if not acked:
        return "unclear", "acked no record", ""
    if not _complete(verdict):
        return "unclear", "found no loss", f" among {_acked(acked)}"
    return "kept", "kept all", f" {_acked(acked)}"


def _acked(number: int) -> str:
    return fmt.plural(number, "acked record")


def _complete(verdict: Verdict) -> bool:
    """Return whether a loss would have been found.

    A violated `none` ends the judgement before it is asked whether the run is conclusive otherwise.
    """
    if verdict.verdict is Word.INCONCLUSIVE or verdict.observed.get("unseen", 0):
        return False
    return not any(not line.met and line.wanted == "none" for line in verdict.expectations)


def _compared(loss: Expectation, *, lost: bool) -> str:
    match loss.wanted, lost:
        case "none", True:
            return ", none expected"
        case "some", True:
            return ", as expected"
        case "any", True:
            return ", which the scenario allows"
        case "some", False:
            return ", although a loss was expected"
    return ""
