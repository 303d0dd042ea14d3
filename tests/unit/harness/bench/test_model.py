"""`ackproof bench model`: output and refused options."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from ackproof.bench import model
from ackproof.cli.main import app
from ackproof_model.adversary import AdversaryModel, Budgets

SMALL = ["bench", "model", "--records", "1", "--kills", "2", "--workers", "1"]


def test_the_output_has_states_per_second_and_bytes_per_state() -> None:
    printed = CliRunner().invoke(app, [*SMALL, "--json"])
    assert printed.exit_code == 0
    found = json.loads(printed.output)
    assert found["impossible"]
    assert found["states"] > 10
    assert found["states_per_s"] == pytest.approx(found["states"] / found["seconds"])
    assert found["bytes_per_state"] > 0
    assert "states/s:" in CliRunner().invoke(app, SMALL).output


def test_the_hardest_questions_have_seconds_to_their_answers(monkeypatch) -> None:
    assert len(model.HARDEST) == 4
    easy = AdversaryModel(kafka_version="4.1.0", budgets=Budgets(kills=1))
    assert model.SMALLER.keys() == model.HARDEST.keys()
    monkeypatch.setattr(model, "HARDEST", {"one SIGKILL": easy})
    monkeypatch.setattr(model, "SMALLER", {"one SIGKILL": easy})
    asked = ["bench", "model", "--hardest", "--workers", "1"]
    printed = CliRunner().invoke(app, asked)
    assert printed.exit_code == 0
    assert "one SIGKILL: nothing is lost" in printed.output
    assert " s, " in printed.output
    found = json.loads(CliRunner().invoke(app, [*asked, "--json"]).output)
    assert found["one SIGKILL"]["impossible"]
    assert found["one SIGKILL"]["seconds"] > 0
    smaller = found["one SIGKILL"]["smaller"]
    assert f"{smaller['whole']} states without the reductions, with them" in printed.output
    assert 0 < smaller["states"] < smaller["whole"]


def test_reductions_that_change_an_answer_are_refused(monkeypatch) -> None:
    losing = AdversaryModel(kafka_version="4.1.0", acks="1", budgets=Budgets(kills=1))
    assert model.bench_reduction(workers=0, question=losing).whole

    def search(question, workers):
        budgets = Budgets(kills=1) if question.reduction else Budgets()
        return answers(replace(question, budgets=budgets), workers=workers)

    answers = model.search
    monkeypatch.setattr(model, "search", search)
    with pytest.raises(AssertionError, match="change the answer"):
        model.bench_reduction(workers=0, question=losing)


@pytest.mark.parametrize(
    "wrong", [["--kafka", "four"], ["--kafka", "9.9"], ["--kills", "7", "--in-all", "9"]]
)
def test_invalid_options_exit_with_2(wrong: list[str]) -> None:
    assert CliRunner().invoke(app, [*SMALL, *wrong]).exit_code == 2
