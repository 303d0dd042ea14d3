"""Validation of a recorded metadata log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ackproof.errors import RunDirectoryError
from ackproof.judgement import trace_validation
from ackproof.runs.verdict import TraceRecord

# The log of a real controller: leader 1 is killed, fenced, and starts again.
DUMP = Path(__file__).parents[1] / "observation" / "metadata_4.3.1.txt"


def test_an_explained_metadata_log_has_no_mismatch(tmp_path: Path) -> None:
    shutil.copy(DUMP, tmp_path / "metadata.log")
    explained = trace_validation.controllers_log(tmp_path, "4.3.1")
    assert (explained.mismatch, explained.explained) == ("", explained.total)


def test_an_unexplained_metadata_log_is_a_finding_with_its_step(tmp_path: Path) -> None:
    text = DUMP.read_text(encoding="utf-8")
    assert '"isr":[2,3],"leader":2' in text
    (tmp_path / "metadata.log").write_text(
        text.replace('"isr":[2,3],"leader":2', '"isr":[2,3],"leader":3'), encoding="utf-8"
    )
    explained = trace_validation.controllers_log(tmp_path, "4.3.1")
    record = TraceRecord(run_id="r", kafka_version="4.3.1", controller=explained, partitions=[])
    [finding] = trace_validation.findings(record)
    assert (finding.anomaly, finding.predicted) == ("unexplained-change", "impossible")
    assert "explains 0 of " in finding.explanation
    assert "orders-0: isr [2, 3], leader 3" in finding.explanation
    assert "broker fenced (1): isr [2, 3], leader 2" in finding.explanation


def test_a_run_without_a_metadata_log_is_not_checked(tmp_path: Path) -> None:
    assert trace_validation.controllers_log(tmp_path, "2.6.2") is None


@pytest.mark.parametrize(
    "line",
    [
        '| payload: {"type":"PARTITION_RECORD","version":2,"data":{"partitionId":0}}',
        '| payload: {"type":"PARTITION_RECORD"',
        '| payload: {"version":2}',
        '| payload: {"type":"PARTITION_RECORD","version":2,"data":[{"partitionId":0}]}',
        '| payload: {"type":"PARTITION_RECORD","version":2,"data":"none"}',
    ],
)
def test_the_path_of_a_damaged_log_is_reported(tmp_path: Path, line: str) -> None:
    batch = "baseOffset: 0 lastOffset: 0 count: 1 CreateTime: 1 size: 1"
    (tmp_path / "metadata.log").write_text(f"{batch}\n{line}\n", encoding="utf-8")
    with pytest.raises(RunDirectoryError, match=r"metadata\.log is damaged"):
        trace_validation.controllers_log(tmp_path, "4.3.1")
