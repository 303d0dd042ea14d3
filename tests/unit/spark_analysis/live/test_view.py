"""Micro-batches applied without Spark: crashes between two writes, restarts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ackproof.ledger.producer_ledger import LedgerWriter, stream_path
from ackproof_spark.errors import AnalysisError
from ackproof_spark.ledger_stream import Origin
from ackproof_spark.live.job import Following, event_rows
from ackproof_spark.live.ledger_source import EVENTS
from ackproof_spark.live.partition import NO_OFFSET, Kind
from ackproof_spark.tables import LOCATION
from ackproof_spark.watch.partition import PATIENCE_S

SECOND = 1_000_000
SCHEMA = pa.schema([pa.field(f.name, pa.int64() if f.name == "at" else f.type) for f in EVENTS])

Event = tuple[Kind, int, int, float]


def events(*each: Event, partition: int = 0) -> pa.Table:
    """Make events of (kind, sequence, offset, seconds)."""
    rows = [
        {
            "topic": "orders",
            "partition": -1 if kind == Kind.ENDED else partition,
            "kind": int(kind),
            "producer": 0,
            "sequence": sequence,
            "offset": offset,
            "at": int(at * SECOND),
        }
        for kind, sequence, offset, at in each
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def sent(*sequences: int, kind: Kind = Kind.ACKED, at: float = 1) -> list[Event]:
    return [(kind, each, each, at) for each in sequences]


def view(run_dir: Path, *, fresh: bool = True) -> Following:
    following = Following(run_dir, "run", fresh=fresh)
    # The ledger of these micro-batches.
    following._acked = lambda key, offset: _ledger(key[1], offset)
    return following


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


#: A loss, a truncation to 3, a second partition, the time when sends are decided, the end.
BATCHES = [
    events(*sent(*range(6)), *sent(0, 1, 3, 4, kind=Kind.READ)),
    events(*sent(6, at=8), *sent(5, 6, kind=Kind.READ, at=8)),
    events((Kind.READ, 90, 3, 15), (Kind.READ, 4, 5, 15), *sent(10, at=15), (Kind.READ, 10, 6, 15)),
    events(*sent(7, 8, at=30), *sent(7, kind=Kind.READ, at=30), partition=1),
    events(*sent(9, at=30 + PATIENCE_S), partition=1),
    events((Kind.ENDED, 0, NO_OFFSET, 0)),
    # What comes after the end is decided at once, also by a job that starts then.
    events(*sent(6, at=61), *sent(9, kind=Kind.READ_OTHER, at=61 + PATIENCE_S), partition=1),
]


def _ledger(partition: int, offset: int) -> np.ndarray[Any, Any]:
    rows = pa.concat_tables(BATCHES).filter(
        (pc.field("kind") == int(Kind.ACKED))
        & (pc.field("partition") == partition)
        & (pc.field("offset") >= offset)
    )
    return event_rows(rows)


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
    assert operations >= 4


def test_each_finding_is_written_once_and_two_states_are_kept(undisturbed):
    found = [
        (row["finding"], row["partition"], row["sequence"])
        for row in pq.read_table(undisturbed[-1] / LOCATION["live_findings"]).to_pylist()
    ]
    # Of orders-0, sequences 3, 5 and 6 were truncated after they were read; the log goes on with
    # 90 at 3. Of orders-1, 8 and 9 were not read when it ended at 7.
    lost = [("lost", 0, number) for number in (2, 3, 5, 6)]
    late = [("late", 1, 8), ("late", 1, 9)]
    after = [("lost", 1, number) for number in (8, 9, 6)]
    assert found == [("truncated", 0, None), *lost, *late, *after]
    for number, run_dir in enumerate(undisturbed):
        assert len(list((run_dir / "live" / "state").iterdir())) == min(2, number + 1)


def test_a_job_without_the_state_of_its_checkpoint_is_an_error(undisturbed, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(undisturbed[2], run_dir)
    shutil.rmtree(run_dir / "live" / "state")
    with pytest.raises(AnalysisError, match="no state after micro-batch 2"):
        view(run_dir, fresh=False).take(3, BATCHES[3])


def test_an_attempt_that_read_something_else_leaves_nothing(tmp_path):
    following = view(tmp_path)
    following.take(0, BATCHES[0])
    following.take(1, events(*sent(50, 51, kind=Kind.READ, at=100), partition=0))
    assert list((tmp_path / LOCATION["live_findings"]).iterdir())
    # Killed before Spark committed, and truncated meanwhile.
    following = view(tmp_path, fresh=False)
    following.take(1, events())
    (row,) = rows(tmp_path, "live_partitions")
    assert (row["read"], row["candidates"]) == (4, 1)
    assert not list((tmp_path / LOCATION["live_findings"]).iterdir())


def test_acked_sends_above_a_truncation_are_taken_from_the_ledger(tmp_path):
    origin = Origin(run_id="run", producer=0, topic="orders", partitions=1)
    writer = LedgerWriter(stream_path(tmp_path, 0), origin)
    writer.reserve(4)
    numbers = np.arange(4)
    at = numbers * 0 + SECOND
    writer.write(sequence=numbers, outcome=0, offset=pa.array(numbers), sent_at=at, resolved_at=at)
    following = Following(tmp_path, "run", fresh=True)
    following.take(0, events(*sent(*range(4)), *sent(*range(4), kind=Kind.READ)))
    following.take(1, events((Kind.READ, 90, 2, 5)))
    (row,) = following.tables.partitions()
    assert (row["unseen"], row["candidates"]) == (2, 1)
    following.take(2, events((Kind.ENDED, 0, NO_OFFSET, 0)))
    (row,) = following.tables.partitions()
    assert (row["unseen"], row["candidates"]) == (2, 1), "and no row for the mark"
    found = [row for row in rows(tmp_path, "live_findings") if row["finding"] != "truncated"]
    assert [row["at"].timestamp() for row in found] == [5, 5], "the time of the newest event"
    assert [(row["finding"], row["producer"], row["sequence"], row["offset"]) for row in found] == [
        ("lost", 0, 2, 2),
        ("late", 0, 3, 3),
    ]
