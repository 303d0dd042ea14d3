"""The result of many trials on the page and on the terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from ackproof.report import comparison, comparison_plots
from ackproof.report.html import plot_data, write_html
from ackproof.report.terminal import print_trials
from support.trial_summaries import RISKY, SAFE, WORSE, summary
from unit.harness.report.browser import look, needs_browser


def test_the_answer_names_loss_rates_costs_and_confidence() -> None:
    answer = " ".join(comparison.answer(summary(rounds=30)))
    assert "acks=all lost nothing in 30 trials, so fewer than 1 in " in answer
    assert "acks=1 lost in 30 of 30 trials, 100 records each time" in answer
    assert "acks=1 loses more often than acks=all." in answer
    assert "acks=all against acks=1: unavailability +2.0 s" in answer
    assert "throughput \N{MINUS SIGN}66.7 %" in answer
    assert "acks=0 and acks=1 lose alike" in answer


def test_unsettled_pairs_are_named_with_the_trials_they_need() -> None:
    result = summary(rounds=3)
    answer = " ".join(comparison.answer(result))
    assert "is not settled: about" in answer
    assert all(not pair.settled for pair in result.pairs)


def test_a_dominated_configuration_is_not_recommended_and_the_safest_is_first() -> None:
    advice = {cell.configuration: text for cell, text in comparison.recommendations(summary())}
    assert next(iter(advice)) == SAFE
    assert advice[SAFE].startswith("perhaps, where acked records must survive")
    assert "acceptable" in advice[RISKY]
    assert advice[WORSE].startswith("not recommended: ")


def test_recommendations_compare_configurations_with_equal_faults_only() -> None:
    result = summary()
    faults = {WORSE: "kill", RISKY: "none", SAFE: "kill"}
    plan = result.plan.model_copy(update={"faults": faults})
    cells = {cell.configuration: cell for cell in result.cells}
    assert [one.configuration for one in comparison.dominators(cells[WORSE], result)] == [
        RISKY,
        SAFE,
    ]
    apart = result.model_copy(update={"plan": plan})
    assert [one.configuration for one in comparison.dominators(cells[WORSE], apart)] == [SAFE]


def test_a_configuration_without_any_run_is_shown_as_failed() -> None:
    result = summary()
    broken = result.cells[0].model_copy(
        update={"trials": 0, "losing": 0, "failed": 2, "error": "no quorum"}
        | dict.fromkeys(("unavailability_s", "lost_per_incident", "acked_per_s"))
        | {"ack_latency_ms": {}}
    )
    result = result.model_copy(update={"cells": [broken, *result.cells[1:]]})
    assert "could not be run 2 times: no quorum." in " ".join(comparison.answer(result))
    assert len(comparison_plots.figures(result)[0].traces[0]["x"]) == 2
    stream = io.StringIO()
    print_trials(Console(file=stream, width=100), result, [], Path("report.html"))
    assert "failed" in stream.getvalue()


@pytest.mark.parametrize("width", [80, 140])
def test_the_terminal_has_one_line_for_each_configuration(width: int) -> None:
    stream = io.StringIO()
    print_trials(Console(file=stream, width=width), summary(), [], Path("report.html"))
    lines = stream.getvalue().splitlines()
    assert any("acks=all" in line and "0 / 12" in line for line in lines)
    assert all(len(line) <= width for line in lines)
    assert lines[-1] == "Report: report.html"


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
    assert "Recommendations" in page
    assert "<strong>Advice:</strong> Use acks=all where acked records must survive" in page
