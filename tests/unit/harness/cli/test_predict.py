"""`ackproof predict`: its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import Result

from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.prediction import predict as prediction
from ackproof.runs.directory import PredictionRecord
from command_line import invoked

MINIMUM = "topics.orders.settings.min.insync.replicas=1"
SCENARIO = Path(__file__).parents[4] / "scenarios" / "acks-all.yaml"


def gated(monkeypatch: pytest.MonkeyPatch, lost: str, *options: str, path: Path) -> Result:
    record = PredictionRecord.model_validate(
        {"predicted": {"lost": lost}, "prediction": {"trace": [], "reasons": {}, "bounds": "all"}}
    )
    monkeypatch.setattr(prediction, "predict", lambda scenario: record)
    return invoked("predict", path, *options)


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
        assert document[0]["kafka_version"] == DEFAULT_KAFKA


@pytest.mark.parametrize(
    ("options", "replaced"),
    [([], ""), (["--set", MINIMUM], " with min.insync.replicas=1")],
)
def test_the_heading_of_an_arm_has_the_values_that_replace_its_own(
    monkeypatch: pytest.MonkeyPatch, options: list[str], replaced: str
) -> None:
    monkeypatch.setattr(
        prediction, "predict_each", lambda all_: list(map(prediction.predict, all_))
    )
    result = gated(monkeypatch, "possible", *options, path=SCENARIO.with_name("acks.yaml"))
    headings = [line for line in result.output.splitlines() if line.startswith("acks=")]
    arms = ("acks=0", "acks=1", "acks=all, min.insync.replicas=2")
    assert headings == [f"{arm}{replaced}" for arm in arms]


def test_a_prediction_for_own_files_speaks_of_a_schedule_and_names_the_audit(
    tmp_path: Path,
) -> None:
    own = tmp_path / "producer.properties"
    own.write_text("acks=1\n")
    for scenario, options in (
        ([], ["--producer", str(own)]),
        ([str(SCENARIO)], ["--producer", str(own)]),
        ([str(SCENARIO)], []),
    ):
        result = invoked("predict", *scenario, *options)
        assert result.exit_code == 0, result.output
        assert "This schedule " in result.stdout
        assert ("ackproof audit" in result.stdout) == bool(options)


def test_what_a_scenario_does_not_take_of_your_files_is_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "server.properties"
    own.write_text("node.id=1\nmin.insync.replicas=2\nlog.retention.hours=24\n")
    without = json.loads(gated(monkeypatch, "possible", "--json", path=SCENARIO).stdout)
    options = ("--json", "--config", str(own))
    documents = json.loads(gated(monkeypatch, "possible", *options, path=SCENARIO).stdout)
    assert {tuple(one["unused"]) for one in without} == {()}
    for document in documents:
        assert [(one["setting"], one["reason"]) for one in document["unused"]] == [
            ("node.id", "nodes"),
            ("log.retention.hours", "keeps"),
        ]
        assert document["unused"][1] == {
            "setting": "log.retention.hours",
            "value": "24",
            "source": f"{own}:3",
            "reason": "keeps",
            "text": "retention is off, so that only a loss removes a record",
        }
