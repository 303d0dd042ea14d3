"""The result of many trials on the page and on the terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Literal

import pytest
from rich.console import Console

from ackproof.comparison.statistics import Design, Sequential
from ackproof.comparison.store import MEASURES, create
from ackproof.comparison.summary import Spread, Summary, summarise, summary_of
from ackproof.errors import AckproofError, ScenarioError
from ackproof.report import certainty, comparison, comparison_plots, premise, recommendation
from ackproof.report.html import plot_data, write_html
from ackproof.report.paper import markdown, require_writable, write_paper
from ackproof.report.terminal import print_comparison
from ackproof.runs.verdict import Processing, Verdict
from ackproof.scenario.loader import load
from support.snapshots import plain
from support.trial_summaries import RISKY, SAFE, WORSE, summary, trial
from unit.harness.report.browser import look, needs_browser

STORED = Path(__file__).parents[3] / "results" / "compared_runs.jsonl"


def answers(made: Summary, brief: str) -> list[comparison.Answer]:
    [question] = [each for each in comparison.questions(made) if each.brief == brief]
    return question.answers


def told(made: Summary, *briefs: str) -> str:
    """Return the answers to some questions, each in a line with its note."""
    return "\n".join(
        "; ".join(filter(None, (f"{brief}: {one.text}", one.note)))
        for brief in briefs
        for one in answers(made, brief)
    )


def changed(made: Summary, name: str, **measures: object) -> Summary:
    """Return a summary in which one configuration has other values."""
    spreads = {
        key: Spread(low=value, median=value, high=value) if isinstance(value, float) else value
        for key, value in measures.items()
    }
    cells = [
        cell.model_copy(update=spreads) if cell.configuration == name else cell
        for cell in made.cells
    ]
    return made.model_copy(update={"cells": cells})


def with_faults(made: Summary, *faults: str) -> Summary:
    """Return a summary whose configurations WORSE, RISKY and SAFE had these faults."""
    plan = made.plan.model_copy(
        update={"faults": dict(zip((WORSE, RISKY, SAFE), faults, strict=True))}
    )
    return made.model_copy(update={"plan": plan})


def test_the_statistics_name_costs_and_confidence(snapshot) -> None:
    said = "\n".join(certainty.statistics(summary(rounds=30)))
    assert "\N{MINUS SIGN}66.7 %" in said
    assert said == snapshot


def test_names_with_commas_are_quoted_in_every_sentence() -> None:
    name = "acks=1, min.insync.replicas=2"
    made = changed(summary(rounds=30), RISKY, configuration=name)
    pairs = [
        pair.model_copy(update={end: name for end in ("a", "b") if getattr(pair, end) == RISKY})
        for pair in made.pairs
    ]
    said = certainty.statistics(made.model_copy(update={"pairs": pairs}))
    named = [sentence for sentence in said if name in sentence]
    assert len(named) >= 3
    assert all(sentence.count(f"'{name}'") == sentence.count(name) for sentence in named)


def test_unsettled_pairs_are_named_with_the_trials_they_need(snapshot) -> None:
    result = summary(rounds=3)
    assert "\n".join(certainty.statistics(result)) == snapshot
    assert all(not pair.settled for pair in result.pairs)


def test_shared_settings_stand_once_and_differing_ones_in_columns(snapshot) -> None:
    first, second, *_ = comparison.questions(summary())
    assert (first.text, [each.text for each in first.answers]) == ("acks", ["0", "1", "all"])
    assert second.brief == "lost"
    assert comparison.notes(summary())[0] == snapshot
    plan = summary().plan.model_copy(update={"settings": {}})
    unknown = summary().model_copy(update={"plan": plan, "shared": {}})
    cells = [cell.model_copy(update={"settings": {}}) for cell in unknown.cells]
    named = comparison.questions(unknown.model_copy(update={"cells": cells}))
    assert [each.text for each in named[0].answers] == ["acks=0", "acks=1", "acks=all"]


@pytest.mark.parametrize(
    ("other", "questions"),
    [("acks=1", ["acks"]), ("brave", ["Configuration", "acks"]), ("acks=2", ["Configuration"])],
)
def test_names_have_a_column_if_they_say_more_than_settings(
    other: str, questions: list[str]
) -> None:
    asked = comparison.questions(changed(summary(), RISKY, configuration=other))
    assert [each.text for each in asked][: len(questions)] == questions


def test_rates_are_per_send_and_per_second_of_faults(snapshot) -> None:
    assert "10.0 per second" in answers(summary(), "lost")[1].note
    assert told(summary(), "lost") == snapshot


def test_a_loss_that_the_scenario_sets_has_no_rate(snapshot) -> None:
    cut = {"lost_to_cut": 100.0, "lost_per_send": None, "lost_per_fault_s": None}
    made = changed(summary(), RISKY, cut="power_loss with last: 200", **cut)
    assert "per second" not in answers(made, "lost")[1].note
    assert told(made, "lost") == snapshot
    assert "\n".join(comparison.notes(made)) == snapshot
    partly = changed(summary(), RISKY, cut="power_loss with last: 200", lost_to_cut=60.0)
    assert told(partly, "lost") == snapshot


def test_refused_and_unknown_sends_have_columns_and_latency_says_of_how_many(snapshot) -> None:
    few = {"acked": 40.0, "refused": 20.0, "unknown": 940.0}
    made = changed(summary(), SAFE, **few)
    sends = ("acked", "refused", "unknown")
    assert [answers(made, brief)[2].text for brief in sends] == ["40", "20", "940"]
    assert told(made, *sends, "ack p50 / p99") == snapshot


def test_the_time_that_every_configuration_lost_is_told_apart(snapshot) -> None:
    assert "2.0 s with this one" in answers(summary(), "no acks")[2].note
    assert told(summary(), "no acks") == snapshot
    # Faults of different length cannot be told apart so.
    unequal = changed(summary(), SAFE, fault_s=30.0)
    assert answers(unequal, "no acks")[2].note == "of 20.0 s"
    [more] = set(comparison.notes(unequal)) - set(comparison.notes(summary()))
    assert more == snapshot


def test_times_that_a_slow_producer_makes_unreliable_say_so() -> None:
    some = changed(summary(), SAFE, untimed=3)
    assert "measured in 9 of 12 runs" in answers(some, "no acks")[2].note
    assert "measured in" not in answers(summary(), "no acks")[2].note
    slow = changed(summary(), SAFE, untimed=12, unavailability_s=None)
    assert answers(slow, "no acks")[2] == comparison.Answer(text="-", note="not measured")
    # The advice does not quote them either.
    for made, said in ((slow, False), (some, True), (summary(), True)):
        price = recommendation.price(made.cell(SAFE), made)
        assert ("no acks for" in price) == said
        assert ("was not measured" in price) != said
    assert any(note.startswith("Not measured: ") for note in comparison.notes(slow))
    assert not any(note.startswith("Not measured: ") for note in comparison.notes(summary()))


def test_what_consumers_processed_is_asked_where_there_are_some() -> None:
    briefs = [each.brief for each in comparison.questions(summary())]
    assert not [brief for brief in briefs if "processed" in brief]
    one = trial(SAFE, 1, lost=0, away=1.0, p99=10)
    measures = one.measures
    assert measures is not None
    processing = Processing(once=90, again=8, never=2, latency_ms=measures.ack_latency_ms)
    with_some = measures.model_copy(update={"processing": processing})
    made = summary()
    (cell, *_) = summarise(
        made.plan.model_copy(update={"configurations": [SAFE]}),
        [one.model_copy(update={"measures": with_some})],
        Sequential(Design.for_trials(30), [SAFE], margin=0.2),
        ended="settled",
    ).cells
    asked = changed(made, SAFE, processed=cell.processed)
    asked = changed(asked, SAFE, processing_latency_ms=cell.processing_latency_ms)
    for times, count in (
        ("processed once", "90"),
        ("processed again", "8"),
        ("never processed", "2"),
    ):
        assert [each.text for each in answers(asked, times)] == ["-", "-", count]
    assert [each.text for each in answers(asked, "processed after")] == [
        "-",
        "-",
        "1.0 ms / 11.0 ms",
    ]


def test_times_of_a_late_producer_are_upper_bounds(snapshot) -> None:
    measured = summary().cell(SAFE).ack_latency_ms
    late = changed(summary(), SAFE, late=12, ack_latency_ms={}, ack_latency_at_most_ms=measured)
    for brief in ("no acks", "ack p50 / p99"):
        (_, _, exact), (_, _, bound) = answers(summary(), brief), answers(late, brief)
        assert bound.text.split(" / ") == [f"≤ {each}" for each in exact.text.split(" / ")]
    [note] = [note for note in comparison.notes(late) if "≤" in note]
    assert not any("≤" in note for note in comparison.notes(summary()))
    price = recommendation.price(late.cell(SAFE), late)
    assert price.count("≤") == 2
    assert f"{note}\n{price}" == snapshot


def test_a_price_is_told_against_times_that_were_measured() -> None:
    for late, against in ((0, "acks=1"), (12, "acks=0")):
        made = changed(summary(), RISKY, late=late)
        assert recommendation.price(made.cell(SAFE), made).startswith(
            f"Its price against {against}: "
        )
    bounded = changed(changed(summary(), RISKY, unavailability_s=None), WORSE, late=12)
    assert recommendation.price(bounded.cell(SAFE), bounded).startswith(
        "Its price against acks=0: "
    )


def test_a_trial_that_failed_is_named_beside_those_that_ran(snapshot) -> None:
    made = changed(summary(), SAFE, failed=1, error="a port is taken")
    assert told(made, "as expected") == snapshot


def test_upper_bounds_are_not_compared_with_measured_times() -> None:
    late = changed(summary(), SAFE, late=12)
    assert [answer.note for answer in answers(late, "no acks")[1:]] == ["of 20.0 s"] * 2
    found = comparison.dominators(late.cell(WORSE), late)
    assert [one.configuration for one in found] == [RISKY]


def test_a_producer_that_stopped_is_in_the_table_and_not_preferred(snapshot) -> None:
    assert "stops" not in [each.brief for each in comparison.questions(summary())]
    made = changed(summary(), SAFE, stopped={"OUT_OF_ORDER_SEQUENCE_NUMBER": 2})
    assert told(made, "stops") == snapshot
    cells = [cell.model_copy(update={"losing": 0}) for cell in made.cells]
    assert min(cells, key=recommendation.preference).configuration == RISKY


def test_dominators_are_configurations_with_equal_faults_only() -> None:
    apart = with_faults(summary(), "kill", "none", "kill")
    for made, names in ((summary(), [RISKY, SAFE]), (apart, [SAFE])):
        found = comparison.dominators(made.cell(WORSE), made)
        assert [one.configuration for one in found] == names


def test_a_configuration_without_any_run_is_shown_as_failed(snapshot) -> None:
    result = summary()
    broken = result.cells[0].model_copy(
        update={"trials": 0, "losing": 0, "failed": 2, "error": "no quorum"}
        | dict.fromkeys(("unavailability_s", "lost", "acked", "sent", "acked_per_s"))
        | {"ack_latency_ms": {}}
    )
    result = result.model_copy(update={"cells": [broken, *result.cells[1:]]})
    [failed] = set(comparison.notes(result)) - set(comparison.notes(summary()))
    assert failed == snapshot
    assert len(comparison_plots.figures(result)[0].traces[0]["x"]) == 2
    stream = io.StringIO()
    print_comparison(Console(file=stream, width=100), result, [], [], Path("report.html"))
    assert failed in " ".join(stream.getvalue().split())


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("times", [1, 3])
def test_the_terminal_shows_configurations_side_by_side(width: int, times: int) -> None:
    stream = io.StringIO()
    made = summary().model_copy(update={"cells": summary().cells * times})
    print_comparison(Console(file=stream, width=width), made, [], [], Path("report.html"))
    lines = stream.getvalue().splitlines()
    rows = [line.split()[1:] for line in lines if line.startswith(" acks  ")]
    assert [name for row in rows for name in row] == ["0", "1", "all"] * times
    assert len(rows[0]) >= 3
    assert stream.getvalue().count("10 % of") == 2 * times  # two configurations lost
    assert all(len(line) <= width for line in lines)
    assert lines[-1] == "Report: report.html"


@pytest.mark.parametrize("ended", ["interrupted", "budget"])
def test_a_configuration_that_never_ran_is_no_alternative(ended: str) -> None:
    none = {"trials": 0, "losing": 0, "acked": None, "sent": None, "unavailability_s": None}
    made = changed(summary(), WORSE, **none).model_copy(update={"ended": ended})
    assert answers(made, "as expected")[0] == comparison.Answer(text="not run")
    [note] = [note for note in comparison.notes(made) if note.startswith("Not run, as ")]
    assert ended in note
    assert note.endswith(": acks=0.")
    assert recommendation.of_comparison(made)[0].startswith("Of those that ran, use acks=all: ")
    assert recommendation.of_comparison(summary())[0].startswith("Use acks=all: ")


def test_unreliable_times_of_a_trial_enter_no_spread() -> None:
    plan = summary().plan.model_copy(update={"configurations": [SAFE]})
    trials = [trial(SAFE, number, lost=0, away=3.0, p99=200) for number in (1, 2)]
    assert trials[1].measures is not None
    slow = trials[1].measures.model_copy(update={"times": "unknown", "unavailability_s": 60.0})
    trials[1] = trials[1].model_copy(update={"measures": slow})
    progress = Sequential(Design.for_trials(30), [SAFE], margin=0.2)
    [cell] = summarise(plan, trials, progress, ended="trials").cells
    assert cell.unavailability_s == Spread(low=3.01, median=3.01, high=3.01)
    assert cell.untimed == 1


def test_a_configuration_without_exact_times_is_on_no_front() -> None:
    for late, symbol in ((0, "circle"), (12, "circle-open")):
        _, pareto = comparison_plots.figures(changed(summary(), SAFE, late=late))
        [trace] = pareto.traces
        at = [text.startswith(SAFE) for text in trace.hovertext].index(True)
        assert trace.marker.symbol[at] == symbol
        assert ("front" in trace.hovertext[at]) == (late == 0)
        assert "dominated" not in trace.hovertext[at]
    unknown = changed(summary(), SAFE, ack_latency_ms={})
    [trace] = comparison_plots.figures(unknown)[1].traces
    assert min(trace.marker.size) == trace.marker.size[at]  # not the largest


def test_a_finding_of_any_trial_is_on_the_page(finding, acks_all, tmp_path: Path) -> None:
    """The page shows one run of each configuration in full; this one is not among them."""
    path = tmp_path / "report.html"
    verdicts = [finding.verdict, acks_all.verdict]
    write_html(path, [acks_all.directory], title="t", summary=summary(), verdicts=verdicts)
    page = path.read_text(encoding="utf-8")
    assert f"Finding in {finding.verdict.name}: model and cluster disagree" in page


def test_configurations_with_other_faults_keep_their_names_and_are_told_apart() -> None:
    made, apart = summary(), with_faults(summary(), "kill", "none", "kill")
    note = "Not all had the same faults. Only those with the same are compared."
    for shown, question, said in ((made, "acks", False), (apart, "Configuration", True)):
        assert comparison.questions(shown)[0].text == question
        assert (note in comparison.notes(shown)) == said
    assert recommendation.of_comparison(apart)[0].startswith(
        "Of acks=0 and acks=all, use acks=all: "
    )
    assert recommendation.of_comparison(with_faults(made, "kill", "none", "freeze")) == []


def test_only_acks_0_has_no_latency_of_its_own() -> None:
    for name, note in ((WORSE, "acks=0 waits for no ack"), (SAFE, "not measured")):
        made = changed(summary(), name, ack_latency_ms={})
        [answer] = [a for a in answers(made, "ack p50 / p99") if a.text == "-"]
        assert answer.note == note


def test_markup_in_the_name_of_a_configuration_is_text_in_the_plots() -> None:
    made = summary()
    cells = [
        cell.model_copy(update={"configuration": f"<b>{cell.configuration}</b>"})
        for cell in made.cells
    ]
    marked = made.model_copy(update={"cells": cells})
    drawn = [plot_data(one) for one in comparison_plots.figures(marked)]
    assert len(drawn) == 2
    assert "<b>" not in str(drawn)
    assert str(drawn).count("&lt;b&gt;acks=all") >= 4


@pytest.mark.slow
@needs_browser
def test_the_page_draws_the_comparison_without_an_error(acks_0, acks_all, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_html(path, [acks_0.directory, acks_all.directory], title="acks", summary=summary())
    for one in look(tmp_path / "look", [path]):
        assert one.complaints == []
    page = path.read_text(encoding="utf-8")
    assert 'id="comparison-pareto"' in page
    assert "Use acks=all: it lost nothing in 12 runs" in page


def test_a_paper_in_markdown_has_the_advice_and_the_table(tmp_path: Path, snapshot) -> None:
    path = tmp_path / "decision.md"
    require_writable(path)
    write_paper(path, summary(), [], [], title="acks")
    text = path.read_text()
    assert text.index("Use acks=all") < text.index("| acks |")
    assert plain(text) == snapshot


def test_a_paper_says_above_its_table_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot
) -> None:
    monkeypatch.chdir(tmp_path)
    verdicts, run_dirs = verdicts_and_directories("acks", tmp_path)
    facts = premise.of_runs(verdicts, run_dirs)
    made = summary_of(verdicts, run_dirs)
    said = markdown(made, verdicts, facts, title="acks")
    assert said.index("**Faults**: isolate_replication") < said.index("| acks |")
    assert "after isolate_replication of leader of orders-0 and kill of leader" in said
    assert plain(said) == snapshot
    page = tmp_path / "report.html"
    write_html(page, [], title="acks", summary=made, verdicts=verdicts, facts=facts)
    written = page.read_text(encoding="utf-8")
    assert all(
        written.index(f"<dt>{fact.label}</dt>") < written.index('<table class="verdicts')
        for fact in facts
    )


def test_a_comparison_names_the_command_that_repeats_it(tmp_path: Path) -> None:
    verdicts, _ = verdicts_and_directories("acks", tmp_path)
    plan = summary().plan.model_copy(update={"comparison_id": "c", "budget_s": 60.0, "trials": 3})
    scenario = Path(__file__).parents[4] / "scenarios" / "acks.yaml"
    store = create(tmp_path, plan, load(scenario))
    *_, again = premise.of_comparison(store, verdicts)
    assert again.text == (
        f"ackproof compare {tmp_path}/c/scenarios/acks.yaml --trials 3 --order-seed 1 "
        "--confidence 0.95 --margin 0.2 --budget 60s"
    )


def test_differing_schedules_are_listed_with_their_configurations(tmp_path: Path) -> None:
    verdicts, run_dirs = verdicts_and_directories("acks", tmp_path)
    first = verdicts[0].model_copy(update={"faults": verdicts[0].faults[:1]})
    said = [one.text for one in premise.of_runs([first, *verdicts[1:]], run_dirs)]
    assert "isolate_replication of leader of orders-0 (acks=0)" in said


def test_a_paper_that_cannot_be_written_is_refused_before_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ScenarioError, match="is Markdown or PDF"):
        require_writable(tmp_path / "decision.docx")
    with pytest.raises(ScenarioError, match="no such folder"):
        require_writable(tmp_path / "missing" / "decision.md")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AckproofError, match="needs a Chromium browser") as refused:
        require_writable(tmp_path / "decision.pdf")
    assert refused.value.exit_code == 4
    browser = tmp_path / "chromium"
    browser.write_text("#!/bin/sh\n")
    browser.chmod(0o755)
    require_writable(tmp_path / "decision.pdf")


def stored_runs(scenario: str, tmp_path: Path) -> Summary:
    return summary_of(*verdicts_and_directories(scenario, tmp_path))


def verdicts_and_directories(scenario: str, tmp_path: Path) -> tuple[list[Verdict], list[Path]]:
    """Return the stored runs of a scenario, made on Kafka 4.4.0."""
    run_dirs: list[Path] = []
    verdicts = []
    for number, line in enumerate(STORED.read_text(encoding="utf-8").splitlines()):
        stored = json.loads(line)
        if stored["verdict"]["scenario"] != scenario:
            continue
        run_dirs.append(tmp_path / str(number))
        run_dirs[-1].mkdir()
        (run_dirs[-1] / "scenario.yaml").write_text(stored["scenario"], encoding="utf-8")
        verdicts.append(Verdict.model_validate(stored["verdict"]))
    return verdicts, run_dirs


def test_runs_of_the_demo_give_the_table_that_their_verdicts_support(tmp_path, snapshot) -> None:
    """A busy machine made the producers of acks=all late."""
    made = stored_runs("acks", tmp_path)
    assert [(cell.late, cell.untimed) for cell in made.cells] == [(0, 0), (0, 0), (1, 0)]
    assert [one.text for one in answers(made, "lost")] == ["2,915", "1,386", "no"]
    assert [one.text for one in answers(made, "no acks")] == ["4.9 s", "4.2 s", "≤ 7.5 s"]
    assert told(made, "lost", "no acks", "ack p50 / p99") == snapshot
    assert made.shared["Kafka"] == "4.4.0"
    # The names say nothing that the settings do not: min.insync.replicas is that of all three.
    acks, idempotence, *_ = comparison.questions(made)
    assert (acks.text, idempotence.text) == ("acks", "enable.idempotence")
    assert [one.text for one in acks.answers] == ["0", "1", "all"]


@pytest.mark.parametrize(
    ("times", "measured"), [("measured", True), ("at most", False), ("unknown", False)]
)
def test_only_measured_times_enter_the_tests_of_pairs(
    times: Literal["measured", "at most", "unknown"], measured: bool
) -> None:
    made = trial(SAFE, 1, lost=0, away=3.0, p99=200).measures
    assert made is not None
    away = MEASURES["unavailability_s"](made.model_copy(update={"times": times}))
    assert (away is not None) == measured


def test_a_scenario_of_ones_own_tells_its_cut_and_its_outage_from_the_configuration(
    tmp_path: Path, snapshot
) -> None:
    """Faults that begin by time: a power loss with `last: 200`, when the leader is alone."""
    made = stored_runs("decision", tmp_path)
    assert [one.text for one in answers(made, "lost")] == ["201", "9,683", "201", "no"]
    away = [one.text for one in answers(made, "no acks")]
    assert away == ["12.0 s", "11.1 s", "31.0 s", "≤ 30.9 s"]
    assert [one.text for one in answers(made, "as expected")][2:] == ["undecided", "yes"]
    assert told(made, "lost", "no acks", "as expected") == snapshot
    assert not any("same time" in note for note in comparison.notes(made))
    [stopped] = comparison.outages(made)
    assert stopped == snapshot
