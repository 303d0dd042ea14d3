"""What became of the acked records: one sentence, the same for every reader."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from ackproof.report.console_tables import print_runs
from ackproof.report.wording import outcome
from ackproof.runs.verdict import Expectation, Word


def expecting(what: str, wanted: str, observed: int, *, met: bool) -> Expectation:
    return Expectation(what=what, wanted=wanted, observed=str(observed), met=met)


def verdict(acks_1, word: Word, *expectations: Expectation, **observed: int):
    counts = {"acked": 35_270, "lost": 0, "unseen": 0, **observed}
    return acks_1.verdict.model_copy(
        update={"verdict": word, "observed": counts, "expectations": list(expectations)}
    )


@pytest.mark.parametrize(
    ("word", "wanted", "lost", "tone", "says"),
    [
        (Word.HOLDS, "none", 0, "kept", "kept all 35,270 acked records"),
        (Word.HOLDS, "some", 12, "lost", "lost 12 of 35,270 acked records, as expected"),
        (
            Word.HOLDS,
            "any",
            12,
            "lost",
            "lost 12 of 35,270 acked records, which the scenario allows",
        ),
        (Word.VIOLATED, "none", 12, "lost", "lost 12 of 35,270 acked records, none expected"),
        (
            Word.VIOLATED,
            "some",
            0,
            "kept",
            "kept all 35,270 acked records, although a loss was expected",
        ),
        (
            Word.INCONCLUSIVE,
            "none",
            0,
            "unclear",
            "undecided: found no loss among 35,270 acked records",
        ),
        (
            Word.INCONCLUSIVE,
            "none",
            12,
            "lost",
            "undecided: 12 not found of 35,270 acked records",
        ),
    ],
)
def test_the_words(acks_1, *, word, wanted, lost, tone, says):
    met = wanted == "any" or (lost == 0) == (wanted == "none")
    found = outcome(verdict(acks_1, word, expecting("loss", wanted, lost, met=met), lost=lost))
    assert (found.tone, found.text) == (tone, says)
    expected = {"holds": "yes", "violated": "no", "inconclusive": "undecided"}
    assert found.as_expected == expected[word]


def test_all_are_kept_only_if_a_loss_would_have_been_found(acks_1):
    """Another violation is definite before it is asked whether the run is conclusive."""
    loss = expecting("loss", "none", 0, met=True)
    found = outcome(
        verdict(acks_1, Word.VIOLATED, loss, expecting("duplicates", "none", 3, met=False))
    )
    assert found.tone == "unclear"
    assert found.text == (
        "found no loss among 35,270 acked records; not as expected: duplicates: expected none, "
        "observed 3"
    )
    slow = Expectation(what="availability", wanted=">= 99%", observed="91.00 %", met=False)
    assert outcome(verdict(acks_1, Word.VIOLATED, loss, slow)).tone == "kept"
    assert outcome(verdict(acks_1, Word.HOLDS, loss, unseen=1)).tone == "unclear"
    assert outcome(verdict(acks_1, Word.HOLDS, loss, acked=0)).text == "acked no record"
    assert outcome(verdict(acks_1, Word.HOLDS, loss, acked=1)).text == "kept all 1 acked record"


def test_the_list_of_runs_says_the_same(acks_1, acks_all, interrupted):
    stream = io.StringIO()
    made = [(each.directory, each.verdict) for each in (acks_1, acks_all)]
    runs: list[tuple[Path, object]] = [*made, (interrupted, None)]
    print_runs(Console(file=stream, width=80), runs)
    lines = stream.getvalue().splitlines()
    assert lines == [
        "acks-1",
        f"  {outcome(acks_1.verdict).text}",
        "acks-all",
        f"  {outcome(acks_all.verdict).text}",
        "interrupted",
        "  no verdict",
    ]
