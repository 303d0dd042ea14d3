"""Micro-batches applied without Spark: crashes between two writes, late events, restarts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof_spark.errors import AnalysisError
from ackproof_spark.live.job import Following
from ackproof_spark.live.ledger_source import EVENTS
from ackproof_spark.live.partition import MEMORY_S, NO_OFFSET, Kind
from ackproof_spark.tables import LOCATION

SECOND = 1_000_000
SCHEMA = pa.schema([pa.field(f.name, pa.int64() if f.name == "at" else f.type) for f in EVENTS])
END_S = 4_000_000_000

Event = tuple[Kind, int, int, float]


def events(*each: Event, partition: int = 0) -> pa.Table:
    """Make events of (kind, sequence, offset, seconds)."""
    rows = [
        {
            "topic": "orders",
            "partition": -1 if kind == Kind.MARK else partition,
            "kind": int(kind),
            "producer": 0,
            "sequence": sequence,
            "offset": offset,
            "at": int(at * SECOND),
            "sent_at": int(at * SECOND) - 1000,
        }
        for kind, sequence, offset, at in each
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def sent(*sequences: int, kind: Kind = Kind.ACKED, at: float = 1) -> list[Event]:
    return [(kind, each, each, at) for each in sequences]


def view(run_dir: Path, *, fresh: bool = True, width_s: int = 5) -> Following:
    return Following(run_dir, "run", width=width_s * SECOND, fresh=fresh)


def rows(run_dir: Path, name: str) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = pq.read_table(run_dir / LOCATION[name]).to_pylist()
    return read


def contents(run_dir: Path) -> dict[str, Any]:
    """Return what the files of the live view contain, by their path."""
    files: dict[str, Any] = {}
    for path in sorted((run_dir / "live").rglob("*")):
        if path.suffix == ".parquet":
            columns = pq.read_table(path).to_pylist()
            files[str(path.relative_to(run_dir))] = [
                {name: value for name, value in row.items() if name != "batch"} for row in columns
            ]
        elif path.is_file():
            files[str(path.relative_to(run_dir))] = path.read_text()
    return files


#: A loss, a truncation to 3, a pause after which old sends are forgotten, the end of the run.
BATCHES = [
    events(*sent(*range(6)), *sent(0, 1, 3, 4, kind=Kind.READ)),
    events(*sent(6, at=8), *sent(5, 6, kind=Kind.READ, at=8)),
    events((Kind.READ, 90, 3, 15), (Kind.READ, 4, 5, 15), *sent(10, at=15), (Kind.READ, 10, 6, 15)),
    events(*sent(7, 8, at=30), *sent(7, kind=Kind.READ, at=30), partition=1),
    events(*sent(9, at=30 + MEMORY_S), *sent(9, kind=Kind.READ, at=31 + MEMORY_S)),
    # Reverts reads, some of which are old enough to be forgotten by this micro-batch's time.
    events((Kind.READ, 91, 4, 60 + MEMORY_S), (Kind.MARK, 0, NO_OFFSET, END_S)),
    events(*sent(1, kind=Kind.READ_OTHER, at=61 + MEMORY_S)),
]


class _PowerCutError(Exception):
    pass


class _Cut:
    """Makes renaming or deleting a file fail after `left` of these operations."""

    def __init__(self, patch: pytest.MonkeyPatch, left: int) -> None:
        self.left = left
        for name in ("replace", "unlink"):
            patch.setattr(Path, name, self._cutting(getattr(Path, name)))

    def _cutting(self, operation: Any) -> Any:
        def cut(path: Path, *given: Any, **options: Any) -> Any:
            if self.left == 0:
                raise _PowerCutError
            self.left -= 1
            return operation(path, *given, **options)

        return cut


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list[Path]:
    """Return the run directories as they are after each micro-batch."""
    run_dir = tmp_path_factory.mktemp("live") / "run"
    following = view(run_dir)
    after = []
    for number, batch in enumerate(BATCHES):
        following.take(number, batch)
        after.append(run_dir.with_name(f"after-{number}"))
        shutil.copytree(run_dir, after[-1])
    return after


@pytest.mark.parametrize("number", range(1, len(BATCHES)))
def test_a_crash_between_any_two_writes_changes_no_file(number, undisturbed, tmp_path):
    operations = 0
    while True:
        run_dir = tmp_path / str(operations)
        shutil.copytree(undisturbed[number - 1], run_dir)
        with pytest.MonkeyPatch.context() as patch:
            cut = _Cut(patch, operations)
            try:
                view(run_dir, fresh=False).take(number, BATCHES[number])
                over = cut.left > 0
            except _PowerCutError:
                over = False
        view(run_dir, fresh=False).take(number, BATCHES[number])
        assert contents(run_dir) == contents(undisturbed[number]), operations
        if over:
            break
        operations += 1
    assert operations > 5


def test_old_matched_sends_are_deleted(undisturbed):
    matched = [len(list((run_dir / "live" / "matched").iterdir())) for run_dir in undisturbed]
    assert matched == [1, 2, 3, 4, 5, 2, 0], "the last is after the end"


def test_a_restarted_job_keeps_the_width_of_its_windows(tmp_path):
    once, again = tmp_path / "once", tmp_path / "again"
    for run_dir in (once, again):
        following = view(run_dir)
        for number, batch in enumerate(BATCHES):
            if run_dir == again and number:
                following = view(again, fresh=False, width_s=1)
            following.take(number, batch)
    assert contents(again) == contents(once)


def test_a_job_without_the_state_of_its_checkpoint_is_an_error(undisturbed, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(undisturbed[2], run_dir)
    shutil.rmtree(run_dir / "live" / "open")
    with pytest.raises(AnalysisError, match="no state after micro-batch 2"):
        view(run_dir, fresh=False).take(3, BATCHES[3])


def test_an_attempt_that_read_something_else_leaves_nothing(tmp_path):
    following = view(tmp_path)
    following.take(0, BATCHES[0])
    following.take(1, events(*sent(50, 51, kind=Kind.READ, at=100), partition=0))
    # Killed before Spark committed, and truncated meanwhile.
    following = view(tmp_path, fresh=False)
    following.take(1, events())
    (row,) = rows(tmp_path, "live_partitions")
    assert (row["read"], row["candidates"]) == (4, 1)
    assert rows(tmp_path, "live_windows") == []


def test_an_outcome_behind_the_watermark_is_dropped_and_counted(tmp_path):
    following = view(tmp_path)
    following.take(0, events(*sent(0, 1, at=100)))
    following.take(1, events(*sent(2, at=89), *sent(3, at=91)))
    following.take(2, events((Kind.MARK, 0, NO_OFFSET, END_S)))
    assert following.late == 1
    assert sum(row["acked"] for row in rows(tmp_path, "live_windows")) == 3
    assert following.tables.partitions()[0]["acked"] == 3


def test_reads_after_the_end_are_counted_once_and_in_one_window_each(tmp_path):
    following = view(tmp_path)
    following.take(0, events(*sent(0, 1, 2, at=7), *sent(0, kind=Kind.READ, at=7)))
    following.take(1, events((Kind.MARK, 0, NO_OFFSET, END_S)))
    for number, at in ((2, 8), (3, 9)):
        following.take(number, events(*sent(number - 1, kind=Kind.READ, at=at)))
    windows = rows(tmp_path, "live_windows")
    assert sum(row["read"] for row in windows) == 3
    assert len({row["start"] for row in windows}) == len(windows)
    assert following.tables.partitions()[0]["unseen"] == 0
