"""The lines of an application's acked logs whose sends are lost, as their owner wrote them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from ackproof.judgement import acked_lines
from ackproof.judgement.evidence import Evidence
from ackproof.judgement.invariants import Audit
from ackproof.judgement.judge import reported
from ackproof.judgement.overview.losses import identities
from ackproof.ledger import conversion
from ackproof.runs import directory as runs
from support.run_directories import RunDirectory

#: Spaces and order as another program writes them, with a line of its log between.
LINES = (
    '{"offset": 0,  "partition": 0, "topic": "orders", "key": "order-0", "amount": 17}',
    "2026-11-29 04:00:00 INFO started",
    '{"topic": "orders", "partition": 0, "offset": 1, "id": "b"}',
    '{"topic": "orders", "outcome": "unknown", "key": "order-2", "error": "timed out"}',
    '{"topic": "orders", "partition": 0, "offset": 3, "key": "order-3"}',
)
LOST, DUPLICATED = 1, 3  # sequences: the log's line is no send


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "acked.jsonl").write_text("\n".join(LINES) + "\n")
    return tmp_path / "acked.jsonl"


@pytest.fixture
def evidence(tmp_path: Path, log: Path) -> Evidence:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    scenario = {
        "version": 1,
        "name": "payments",
        "topics": {"orders": {}},
        "workload": {
            "topic": "orders",
            "application": {"logs": [str(log)]},
            "settings": {"acks": "all", "enable.idempotence": False},
        },
    }
    with (run_dir / "scenario.yaml").open("w") as file:
        YAML().dump(scenario, file)
    conversion.convert([log], run_dir, lenient=True)
    row = {"topic": "orders", "partition": 0, "producer": 0, "found": ""}
    nothing = dict.fromkeys(("offset", "sent_at", "resolved_at", "window"))
    RunDirectory(path=run_dir, run_id=run_dir.name).write(
        "anomalies",
        [
            {**row, **nothing, "anomaly": "lost", "sequence": LOST},
            {**row, **nothing, "anomaly": "duplicated", "sequence": DUPLICATED},
            # Of another client's records: no line of the application.
            {**row, **nothing, "anomaly": "lost", "producer": 7, "sequence": 0},
            {**row, **nothing, "anomaly": "phantom", "producer": None, "sequence": None},
        ],
    )
    return Evidence(run_dir=run_dir)


def test_the_lines_stand_as_in_the_log(evidence: Evidence) -> None:
    assert acked_lines.write(evidence) == {
        "acked_lines/duplicated.jsonl": 1,
        "acked_lines/lost.jsonl": 1,
        "acked_lines/unknown.jsonl": 1,
    }
    for _ in range(2):  # judging again appends nothing
        found = {path.stem: path.read_text() for path in evidence.run_dir.glob("acked_lines/*")}
        assert found == {
            "lost": f"{LINES[2]}\n",
            "unknown": f"{LINES[3]}\n",
            "duplicated": f"{LINES[4]}\n",
        }
        acked_lines.write(evidence)
    assert not evidence.missing


def test_a_send_is_known_by_its_key_or_id(evidence: Evidence) -> None:
    named = identities(evidence, [(0, 0), (0, LOST), (7, 0), (None, None)])
    assert named == {(0, 0): "key order-0", (0, LOST): "id b"}


def test_a_log_that_was_changed_or_is_gone_has_no_lines(evidence: Evidence, log: Path) -> None:
    log.write_text("\n".join((LINES[0], LINES[4])) + "\n")
    assert acked_lines.write(evidence) == {}
    log.unlink()
    assert acked_lines.write(evidence) == {}
    assert len(evidence.missing) == 2


def test_rows_of_csv_are_written_as_json(evidence: Evidence, log: Path, tmp_path: Path) -> None:
    table = tmp_path / "acked.csv"
    table.write_text("topic,partition,offset,key\norders,0,0,order-0\norders,0,1,order-1\n")
    scenario = evidence.run_dir / "scenario.yaml"
    scenario.write_text(scenario.read_text().replace("acked.jsonl", "acked.csv"))
    for path in evidence.run_dir.rglob("producer-0.parquet"):
        path.unlink()
    conversion.convert([table], evidence.run_dir, lenient=True)
    assert acked_lines.write(Evidence(run_dir=evidence.run_dir)) == {"acked_lines/lost.jsonl": 1}
    line = json.loads((evidence.run_dir / "acked_lines" / "lost.jsonl").read_text())
    assert line == {"topic": "orders", "partition": "0", "offset": "1", "key": "order-1"}


@pytest.mark.parametrize(
    ("duration_s", "times", "said"),
    [
        (0.0, "unknown", "as the acked log has no times (sent_at and resolved_at)"),
        # Other lines have their times.
        (8.0, "measured", "availability of 3 acked sends without sent_at and resolved_at"),
    ],
)
def test_what_was_logged_without_times_is_not_measured(
    evidence: Evidence, duration_s: float, times: str, said: str
) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    record = runs.RunRecord(run_id="run", image="none", pid=1, started_at=now)
    runs.write_model(evidence.run_dir / "run.json", record)
    counted = evidence.metrics.model_copy(update={"duration_s": duration_s})
    metrics, unobserved = reported(replace(evidence, metrics=counted), Audit(answers=[]))
    assert metrics.times == times
    assert said in unobserved[-1]
