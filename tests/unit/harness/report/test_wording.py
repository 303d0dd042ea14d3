"""Sentences on lost records and on agreement with the prediction."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from ackproof.console import Console
from ackproof.judgement.expectations import check_expectations
from ackproof.report import formatting as fmt
from ackproof.report import wording
from ackproof.report.ci import write_junit
from ackproof.report.console_tables import print_runs
from ackproof.report.openmetrics import render
from ackproof.report.wording import agreement, outcome
from ackproof.runs.verdict import NOT_KAFKA, UNKNOWN_VERSION, Expectation, Word
from ackproof.scenario.model import Expect
from support.synthetic_run import PROBE

HOLDS, VIOLATED, INCONCLUSIVE = Word.HOLDS, Word.VIOLATED, Word.INCONCLUSIVE


def expecting(what: str, wanted: str, observed: int, *, met: bool) -> Expectation:
    return Expectation(what=what, wanted=wanted, observed=str(observed), met=met)


def verdict(acks_1, word: Word, *expectations: Expectation, **observed: int):
    counts = {"acked": 35_270, "lost": 0, "unseen": 0, **observed}
    return acks_1.verdict.model_copy(
        update={"verdict": word, "observed": counts, "expectations": list(expectations)}
    )


@pytest.mark.parametrize(
    ("word", "wanted", "lost", "tone", "before", "after"),
    [
        (HOLDS, "none", 0, "kept", "kept all ", ""),
        (HOLDS, "some", 12, "lost", "lost 12 of ", ", as expected"),
        (HOLDS, "any", 12, "lost", "lost 12 of ", ", which the scenario allows"),
        (VIOLATED, "none", 12, "lost", "lost 12 of ", ", none expected"),
        (VIOLATED, "some", 0, "kept", "kept all ", ", although a loss was expected"),
        (INCONCLUSIVE, "none", 0, "unclear", "undecided: found no loss among ", ""),
        (INCONCLUSIVE, "none", 12, "lost", "undecided: 12 not found of ", ""),
    ],
)
def test_the_outcome_compares_the_loss_with_expect(
    acks_1, *, word, wanted, lost, tone, before, after
):
    met = wanted == "any" or (lost == 0) == (wanted == "none")
    became = outcome(verdict(acks_1, word, expecting("loss", wanted, lost, met=met), lost=lost))
    assert (became.tone, became.text) == (tone, f"{before}35,270 acked records{after}")
    expected = {"holds": "yes", "violated": "no", "inconclusive": "undecided"}
    assert became.as_expected == expected[word]


def test_kept_all_needs_a_complete_run(acks_1, snapshot):
    """Another violation ends the judgement before it checks whether the run is conclusive."""
    loss = expecting("loss", "none", 0, met=True)
    duplicates = expecting("duplicates", "none", 3, met=False)
    more = outcome(verdict(acks_1, VIOLATED, loss, duplicates))
    assert more.tone == "unclear"
    slow = Expectation(what="availability", wanted=">= 99%", observed="91.00 %", met=False)
    assert outcome(verdict(acks_1, VIOLATED, loss, slow)).tone == "kept"
    assert outcome(verdict(acks_1, HOLDS, loss, unseen=1)).tone == "unclear"
    counts: tuple[dict[str, int], ...] = ({"acked": 0}, {"acked": 1}, {"removed": 22_525})
    kept = [outcome(verdict(acks_1, HOLDS, loss, **count)) for count in counts]
    assert "\n".join(one.text for one in (more, *kept)) == snapshot


def test_the_list_of_runs_has_the_same_outcomes(acks_1, acks_all, interrupted):
    stream = io.StringIO()
    made = [(each.directory, each.verdict) for each in (acks_1, acks_all)]
    print_runs(Console(file=stream, width=80), [*made, (interrupted, None)])
    assert stream.getvalue().splitlines() == [
        *("acks-1", f"  {outcome(acks_1.verdict).text}"),
        *("acks-all", f"  {outcome(acks_all.verdict).text}"),
        *("interrupted", "  no verdict"),
    ]


@pytest.mark.parametrize(
    ("predicted", "observed", "word", "matches"),
    [
        ("certain", 3, HOLDS, "yes"),
        ("certain", 0, VIOLATED, "undecided"),
        ("certain", 3, INCONCLUSIVE, "yes"),
        ("possible", 0, HOLDS, "yes"),
        ("possible", 3, INCONCLUSIVE, "yes"),
        ("impossible", 0, HOLDS, "yes"),
        ("impossible", 0, INCONCLUSIVE, "undecided"),
        ("impossible", 3, VIOLATED, "undecided"),
    ],
)
def test_agreement_without_a_finding(acks_1, predicted, observed, word, matches):
    changed = {"predicted": {"lost": predicted}, "observed": {"lost": observed}, "verdict": word}
    assert agreement(acks_1.verdict.model_copy(update=changed), "lost") == matches


def test_a_cause_has_the_number_of_its_case_unless_it_is_unexplained(explained, snapshot):
    [cause] = explained.verdict.causes
    assert cause.case in wording.cause_title(cause)
    assert wording.cause_title(cause) == snapshot
    unexplained = cause.model_copy(update={"case": "unexplained", "title": "unexplained"})
    assert wording.cause_title(unexplained) == "unexplained"


def test_an_absence_is_not_known_of_a_run_that_is_undecided(acks_1):
    """12 acked records are not there, and the log may go on: nothing says that none is lost."""
    none = Expectation(what="loss", wanted="none", observed="0", met=True)
    some = Expectation(what="duplicates", wanted="some", observed="3", met=True)
    unclear = verdict(acks_1, Word.INCONCLUSIVE, lost=0, unseen=12).model_copy(
        update={"expectations": [none, some]}
    )
    assert wording.sentence(unclear).startswith("Undecided: 12 not found of ")
    assert [wording.met(unclear, line) for line in (none, some)] == ["not known", "met"]
    clear = unclear.model_copy(update={"verdict": Word.HOLDS, "observed": {"acked": 3}})
    assert wording.met(clear, none) == "met"
    assert wording.met(clear, none.model_copy(update={"met": False})) == "not met"


def test_versions_and_commands():
    assert wording.kafka("4.3.1") == "Kafka 4.3.1"
    assert wording.kafka(NOT_KAFKA) == "not Apache Kafka"
    assert wording.kafka(UNKNOWN_VERSION) == "Kafka's version unknown"
    commands = dict(wording.reproduce(Path("my runs/a")))
    assert "ackproof check 'my runs/a'" in commands.values()


def test_the_sends_are_those_that_expect_counts(acks_1, snapshot):
    """The probe's writes are listed apart from them."""
    probe = PROBE.model_copy(update={"writes": {"acked": 100, "failed": 7, "unknown": 0}})
    metrics = acks_1.verdict.metrics.model_copy(update={"probe": probe})
    probed = verdict(acks_1, HOLDS, sent=35_380, failed=10).model_copy(update={"metrics": metrics})
    assert probed.sends == {"sent": 35_273, "acked": 35_170, "failed": 3, "unknown": 0}
    checked = {line.what: line for line in check_expectations(Expect(), probed.observed, metrics)}
    assert [checked[key].observed for key in ("failed", "unknown")] == ["3", "0"]
    [sentence] = wording.probe_sentences(probed)
    assert sentence == snapshot
    assert wording.probe_sentences(acks_1.verdict) == []


def test_times_that_a_producer_made_unreliable_are_shown_nowhere(acks_1, tmp_path):
    """An upper bound is marked; on a chart it could not be."""
    for times, shown, junit, metric in (
        ("measured", "2.5 s", "unavailability_s", True),
        ("at most", "≤ 2.5 s", "unavailability_at_most_s", False),
        ("unknown", "not measured", None, False),
    ):
        metrics = acks_1.verdict.metrics.model_copy(
            update={"times": times, "unavailability_s": 2.5}
        )
        made = acks_1.verdict.model_copy(update={"metrics": metrics})
        assert wording.unavailable(made) == shown
        write_junit(tmp_path / "junit.xml", [made])
        text = (tmp_path / "junit.xml").read_text()
        assert re.findall(r'name="(unavailability\w*)" value="2.5"', text) == [junit] * bool(junit)
        assert ("ackproof_unavailability_seconds{" in render([(acks_1.directory, made)])) == metric


def test_a_page_breaks_no_line_between_a_number_and_its_unit():
    said = "≤ 30.9 s instead of 8 ms, 3.2 % of 17 sends, 4 spare ones"
    assert fmt.unbroken(said).split(" ") == [
        *("≤\xa030.9\xa0s", "instead", "of", "8\xa0ms,", "3.2\xa0%", "of", "17", "sends,"),
        *("4", "spare", "ones"),
    ]


@pytest.mark.parametrize(
    ("seeds", "said"),
    [((1,), "seed 1"), ((2, 1, 3), "seeds 1 to 3"), ((1, 7, 3), "seeds 1, 3 and 7")],
)
def test_the_seeds_of_many_trials_are_a_range(acks_1, seeds, said):
    verdicts = [acks_1.verdict.model_copy(update={"seed": seed}) for seed in seeds]
    assert said in wording.facts(verdicts)
