"""The recorded files of a run, each read once in a judgement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ackproof.clients.shared_page import StoredPage, recorded
from ackproof.errors import RunDirectoryError
from ackproof.judgement import availability
from ackproof.judgement.availability import Probed
from ackproof.runs import directory as runs
from ackproof.runs import table_files
from ackproof.runs.directory import PredictionRecord, RunRecord
from ackproof.runs.verdict import FaultReport, Metrics, Step
from ackproof.scenario.loader import load_stored
from ackproof.scenario.model import Scenario
from ackproof_spark.tables import LOCATION, PROBE_PRODUCERS

_BATCH = 1 << 18

_T = TypeVar("_T")

Numbers = NDArray[np.int64]

#: Null in the result of `int64`.
ABSENT = int(np.iinfo(np.int64).min)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_NOT_MEASURED = Metrics(
    duration_s=0,
    acked_per_s=0,
    unavailability_s=0,
    unavailability_gap_s=availability.GAP_S,
    ack_latency_ms=None,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The recorded files of a run, and what Spark counted in them.

    `observed`: counts by outcome and anomaly; `metrics` as measured, even if times are doubtful.
    Methods raise RunDirectoryError if a file is damaged, except `batches`, `readable_batches` and
    `readable`: they leave it out and add a sentence to `missing`.
    """

    run_dir: Path
    observed: Mapping[str, int] = field(default_factory=dict)
    metrics: Metrics = _NOT_MEASURED
    missing: list[str] = field(default_factory=list)
    #: Files and results that were read already, by table or path.
    _opened: dict[object, Any] = field(default_factory=dict, repr=False)

    @property
    def scenario(self) -> Scenario:
        """The resolved scenario. Raises ScenarioError."""
        return self.once(Scenario, lambda: load_stored(self.run_dir).scenario)

    @property
    def record(self) -> RunRecord:
        return self.once(RunRecord, lambda: runs.read_record(self.run_dir))

    @property
    def prediction(self) -> PredictionRecord:
        return self.once(
            PredictionRecord,
            lambda: runs.read_model(self.run_dir, "prediction.json", PredictionRecord),
        )

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table; an absent table has none."""
        return self.once(table, lambda: runs.table_rows(self.run_dir, table))

    def has(self, table: str) -> bool:
        return (self.run_dir / LOCATION[table]).exists()

    def files(self, table: str) -> list[Path]:
        """Return the files of a table in order; an absent table has none."""
        path = self.run_dir / LOCATION[table]
        if path.is_dir():
            return sorted(
                file
                for file in path.rglob("*.parquet")
                if not any(part.startswith(("_", ".")) for part in file.relative_to(path).parts)
            )
        return [path] if path.is_file() else []

    def batches(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in a stable order, without those of files that cannot be read."""
        for file in self.files(table):
            yield from self.readable_batches(file, columns)

    def readable_batches(self, file: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, up to the first that cannot be read."""
        inside = file.relative_to(self.run_dir)
        try:
            if lacking := sorted(set(columns) - set(pq.read_schema(file).names)):
                self.note(f"{inside}: lacks {', '.join(lacking)}.")
                return
            yield from batches_of(file, columns)
        except (pa.ArrowException, OSError) as error:
            first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
            self.note(f"{inside}: cannot be read ({first_line})")

    def readable(self, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return the rows that can be read, with at least these columns."""
        if table in self._opened:
            return self.rows(table)
        return [row for batch in self.batches(table, columns) for row in batch.to_pylist()]

    def note(self, sentence: str) -> None:
        if sentence not in self.missing:
            self.missing.append(sentence)

    def note_absence(self, table: str) -> bool:
        """Return whether the table is missing, and note it."""
        if self.files(table):
            return False
        self.note(f"{LOCATION[table]}: missing.")
        return True

    def file(self, table: str, client: str) -> Path:
        """Return the file of a table that a client wrote; it may be absent."""
        return self.run_dir / LOCATION[table] / f"{client}.parquet"

    def ledgers(self) -> list[Path]:
        """Return the ledger of each producer, including the probe's."""
        return sorted((self.run_dir / LOCATION["ledger"]).glob("producer-*.parquet"))

    def own_ledgers(self) -> list[Path]:
        """Return the ledger of each producer, without the probe's."""
        return [path for path in self.ledgers() if number_of(path) < PROBE_PRODUCERS]

    def transactional_ledgers(self) -> list[Path]:
        """Return the ledgers of the workload's topic: other producers have no transactions."""
        topic = {self.scenario.workload.topic}
        return [
            path for path in self.own_ledgers() if not table_files.distinct(path, "topic") - topic
        ]

    @property
    def clients(self) -> Path:
        return self.run_dir / "clients"

    def page(self, path: Path) -> StoredPage:
        try:
            return self.once(path, lambda: recorded(path))
        except (ValueError, OSError) as error:
            raise RunDirectoryError(f"{path} is damaged: {error}") from None

    def pages(self, pattern: str) -> dict[str, StoredPage]:
        return {
            path.stem: self.page(path) for path in sorted(self.clients.glob(f"{pattern}.progress"))
        }

    def producer_pages(self) -> dict[int, StoredPage]:
        """Return the pages of the producers and of the probe's writers, by number."""
        paths = {number_of(path): path for path in self.clients.glob("producer-*.progress")}
        for number, (topic, partition) in enumerate(self.scenario.written, PROBE_PRODUCERS):
            path = self.clients / f"probe-{topic}-{partition}.progress"
            if path.exists():
                paths[number] = path
        return {number: self.page(path) for number, path in sorted(paths.items())}

    @property
    def faults(self) -> list[FaultReport]:
        return self.once(
            FaultReport, lambda: [FaultReport.of_window(row) for row in self.rows("fault_windows")]
        )

    @property
    def added(self) -> list[tuple[str, int]]:
        return [
            one
            for fault in self.faults
            for one in fault.added
            if fault.verified and one[0] in self.scenario.sends
        ]

    @property
    def probed(self) -> Probed:
        return self.once("attempts", lambda: availability.attempts(self.rows("probe")))

    @property
    def steps(self) -> Sequence[Step]:
        return self.once(Step, lambda: availability.steps(self.probed, self.faults))

    def once(self, key: object, read: Callable[[], _T]) -> _T:
        if key not in self._opened:
            self._opened[key] = read()
        known: _T = self._opened[key]
        return known


def batches_of(
    file: Path, columns: Sequence[str], *, dictionaries: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file; `dictionaries` are the columns that become dictionary arrays."""
    with pq.ParquetFile(file, read_dictionary=list(dictionaries)) as parquet:
        yield from parquet.iter_batches(batch_size=_BATCH, columns=list(columns))


def number_of(path: Path) -> int:
    try:
        return int(path.stem.removeprefix("producer-"))
    except ValueError:
        raise RunDirectoryError(f"{path} is of no producer: its name has no number") from None


def by_partition(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    grouped: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault((row["topic"], row["partition"]), []).append(row)
    return grouped


def within(numbers: Numbers, first: Numbers, end: Numbers) -> NDArray[np.bool_]:
    """Return which numbers are in one of the ranges from `first` to `end` (exclusive), in order."""
    if not len(first):
        return np.zeros(len(numbers), dtype=bool)
    index = np.searchsorted(first, numbers, side="right") - 1
    return np.asarray((index >= 0) & (numbers < end[index]), dtype=bool)


def micros(time: datetime) -> int:
    """Return microseconds since 1970."""
    return round(time.timestamp() * 1e6)


def moment_of(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)


def int64(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """Convert a column of integers or times (to microseconds); null becomes `ABSENT`."""
    integers = column.cast(pa.int64()).fill_null(ABSENT)
    return np.asarray(integers.to_numpy(), dtype=np.int64)


def row_count(path: Path) -> int:
    """Return the number of rows of a file, 0 if it is absent."""
    return int(pq.read_metadata(path).num_rows) if path.is_file() else 0
