"""Cached results for the files of a recorded run are not used for changed files."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest

from ackproof.errors import RunDirectoryError
from ackproof.judgement.judge import admit
from ackproof.runs import directory as runs
from ackproof.runs import manifest
from ackproof.runs.recovery import seal
from ackproof_spark.tables import LOCATION
from bite.mutant import copy
from bite.shared_files import parts, remembered
from spark_histories import parse
from support.run_directories import store


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    history = parse({"sends": ["0/0 to 0: acked at 0"], "log": ["0@0: 0/0"], "ends": ["0: 0-1"]})
    run_dir = store(tmp_path / "run", history)
    seal(run_dir, runs.read_record(run_dir).model_copy(update={"readers": ["kafka"]}))
    return run_dir


def test_a_shared_file_is_read_once(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = Mock(wraps=manifest._size_and_digest)
    monkeypatch.setattr(manifest, "_size_and_digest", digest)
    with remembered(recorded):
        admit(copy(recorded, tmp_path / "one"))
        first = digest.call_count
        admit(copy(recorded, tmp_path / "two"))
    assert first > 0
    assert digest.call_count == first


def test_a_changed_file_is_read_anew(recorded: Path, tmp_path: Path) -> None:
    with remembered(recorded):
        admit(copy(recorded, tmp_path / "same"))
        changed = copy(recorded, tmp_path / "changed")
        (path,) = parts(changed / LOCATION["ledger"])
        rows = pq.read_table(path)
        path.unlink()
        pq.write_table(rows.slice(0, 0), path)
        assert pq.read_table(path).num_rows == 0
        with pytest.raises(RunDirectoryError, match="its digest is not the one"):
            admit(changed)
        admit(copy(recorded, tmp_path / "same again"))
