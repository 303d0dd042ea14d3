from __future__ import annotations

import json
from pathlib import Path

import pytest

from ackproof.judgement import trace_validation
from ackproof.judgement.model_coverage import by_version, of_all
from ackproof.runs.directory import write_model
from ackproof.runs.trace import Explained, PartitionTrace, TraceRecord
from ackproof_model.validation.controller_events import EVENTS
from command_line import ackproof

GOLDEN = Path(__file__).parents[3] / "golden" / "traces"


def record(version: str, controller: dict[str, int] | None, *local: dict[str, int]) -> TraceRecord:
    return TraceRecord(
        run_id="run",
        kafka_version=version,
        controller=None
        if controller is None
        else Explained(explained=1, total=1, steps=controller),
        partitions=[
            PartitionTrace(
                topic="orders",
                partition=number,
                local=Explained(explained=1, total=1, steps=steps),
            )
            for number, steps in enumerate(local)
        ],
    )


RECORDS = [
    record("4.3.1", {"broker fenced: no leader": 2, "partition created": 1}, {"leads": 1}),
    record("4.3.1", {"broker fenced: same leader": 1}, {"leads": 2}, {"leads": 1, "follows": 4}),
    record("3.10.0", None),
    record("3.9.1", {"partition created": 1}),
]


def test_steps_are_summed_by_version_the_oldest_first() -> None:
    found = by_version(RECORDS)
    assert list(found) == ["3.9.1", "3.10.0", "4.3.1"]
    assert found["4.3.1"].runs == 2
    assert found["4.3.1"].replicas == {"follows": 4, "leads": 4}
    assert found["4.3.1"].controller == {
        "broker fenced: no leader": 2,
        "broker fenced: same leader": 1,
        "partition created": 1,
    }
    assert "broker fenced" not in found["4.3.1"].unseen_of_controller
    assert "broker fenced" in found["3.9.1"].unseen_of_controller
    everything = of_all(found.values())
    assert everything.runs == 4
    assert everything.controller["partition created"] == 2
    assert "truncates by epoch" in everything.unseen_of_replicas
    assert "leads" not in everything.unseen_of_replicas


def test_every_event_of_a_real_controller_is_known() -> None:
    [path] = GOLDEN.glob("4.3.1.txt")
    steps = trace_validation.explain(path.read_text(encoding="utf-8"), "4.3.1").coverage
    assert {step.partition(": ")[0] for step in steps} <= set(EVENTS)


def test_the_command_lists_the_steps_of_stored_runs_and_those_never_observed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, one in enumerate(RECORDS):
        (tmp_path / f"run-{number}").mkdir()
        write_model(tmp_path / f"run-{number}" / "trace.json", one)
    (tmp_path / "latest").symlink_to("run-0")
    assert ackproof("runs", "--steps", "--out", tmp_path) == 0
    said = capsys.readouterr().out
    assert "Kafka 4.3.1, 2 runs\n  controller:\n" in said
    assert "          2  broker fenced: no leader\n" in said
    [of_all_versions] = said.split("all versions, 4 runs\n")[1:]
    assert "never  " in of_all_versions
    assert ackproof("runs", "--steps", "--json", "--out", tmp_path) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["4.3.1"]["replicas"] == {"follows": 4, "leads": 4}
    assert "unclean election" in found["all versions"]["never"]["controller"]
    assert found["all versions"]["runs"] == 4
