"""`ackproof predict`: its exit code, and the comparison of protocols."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from ackproof.cli.main import app
from ackproof.prediction import replication
from ackproof.runs.directory import PredictionRecord
from ackproof_model.protocols import comparison

SCENARIO = Path(__file__).parents[4] / "scenarios" / "acks-all.yaml"


@pytest.fixture(autouse=True)
def only_one_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two failures take half a minute."""
    monkeypatch.setattr(comparison, "compare", functools.partial(comparison.compare, most=1))


def printed(*options: str) -> str:
    result = CliRunner().invoke(app, ["predict", str(SCENARIO), "--compare-protocols", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_json_is_printed_on_request() -> None:
    rows = json.loads(printed("--json"))
    assert [row["protocol_name"] for row in rows] == [
        "ISR of 2, min.insync.replicas=1",
        "ISR of 3, min.insync.replicas=2",
        "majority of 3, fsynced",
        "majority of 3, not fsynced",
    ]
    assert {row["kafka_version"] for row in rows} == {"4.3.1"}
    assert [row["lost"]["1 power loss and 1 lag"] for row in rows] == [True, False, False, True]


def test_a_table_is_printed_by_default() -> None:
    told = printed()
    assert "can lose to: 1 power loss and 1 lag" in told
    assert "loses nothing to: 1 SIGKILL; 1 SIGKILL and 1 lag" in told


def gated(monkeypatch: pytest.MonkeyPatch, lost: str, *options: str, path: Path) -> Result:
    record = PredictionRecord.model_validate(
        {"predicted": {"lost": lost}, "prediction": {"trace": [], "reasons": {}, "bounds": "all"}}
    )
    monkeypatch.setattr(replication, "predict", lambda scenario: record)
    return CliRunner().invoke(app, ["predict", str(path), *options])


@pytest.mark.parametrize(
    ("expect", "lost", "options", "status"),
    [
        ("none", "impossible", [], 0),
        ("none", "possible", [], 0),
        ("none", "possible", ["--fail-on", "possible"], 1),
        ("none", "certain", [], 1),
        ("some", "impossible", [], 1),
        ("some", "possible", ["--fail-on", "possible"], 0),
        ("some", "certain", [], 0),
        ("any", "certain", [], 0),
        ("none", "not modelled", ["--fail-on", "possible"], 0),
    ],
)
def test_a_prediction_that_contradicts_what_is_expected_fails(
    expect: str,
    lost: str,
    options: list[str],
    status: int,
    tmp_path: Path,
    *,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "scenario.yaml"
    text = SCENARIO.read_text().partition("\nexpect:")[0].partition("\nmatrix:")[0]
    path.write_text(f"{text}\nexpect: {{loss: {expect}}}\n")
    for where in (path, tmp_path):  # a file, and a folder
        result = gated(monkeypatch, lost, *options, path=where)
        assert result.exit_code == status, result.output
        assert ("not as expected" in result.output) == bool(status)
        document = json.loads(gated(monkeypatch, lost, *options, "--json", path=where).stdout)
        assert bool(document[0]["violations"]) == bool(status)
        assert document[0]["predicted"] == {"lost": lost}
