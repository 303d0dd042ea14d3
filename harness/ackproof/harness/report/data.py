"""What a report shows of a run directory: its tables read by columns and batches, and reduced.

Needs neither Spark nor a cluster. Memory does not grow with the ledger: sends fall into time
bins of which counts, quantiles and extremes are kept. p50 and p99 come from a histogram with
buckets 2 % wide, so they are within 1 %; minimum and maximum are exact. Of lost records only
numbers are held (about 40 bytes each); of the text beside them, that of the few that are told.

Whatever is absent or damaged, as after an interrupted run, is named in `Run.missing`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import ValidationError

from ackproof.harness.errors import RunDirectoryError
from ackproof.harness.run_dir import RunRecord, read_record
from ackproof.harness.verdict import FaultReport, Verdict
from ackproof.spark_analysis.tables import LOCATION, OPTIONAL, TIME, Anomaly, Outcome

VERDICT_FILE = "verdict.json"
SCENARIO_FILE = "scenario.yaml"
RECORD_FILE = "run.json"

#: How many lost records a report tells in full.
TELLING = 8

_BATCH = 1 << 18
_MAX_MARKS = 600
_MAX_LANES = 12
_DISTINCT = 500  # places that can be told apart across a plot
_NICE_WIDTHS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
_SENDS_PER_BIN = 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Latency buckets: 2 % wide, from 1 microsecond to about three hours.
_LOG_RATIO = float(np.log(1.02))
_BUCKETS = 1170

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sends:
    """The ledger by time: one entry for each bin of `width` seconds, the first starting at 0.

    Counts are by when the outcome became known (by when it was sent, if never), latencies in
    milliseconds of acked sends by when they were sent; NaN where a bin has none.
    """

    width: float
    acked: Numbers
    failed: Numbers
    unknown: Numbers
    lost: Numbers
    minimum: Floats
    p50: Floats
    p99: Floats
    maximum: Floats
    #: Sends of which neither time is known.
    untimed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time in which a partition's state did not change; seconds since the origin."""

    start: float
    end: float
    leader: int
    epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One partition's leader, epoch and ISR over time."""

    topic: str
    partition: int
    replicas: int
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """`count` lost records at the positions `first` to `last`, both included."""

    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LossLane:
    """Where a partition lost records: by acked offset, or by sequence where no offset was told.

    `end` is one past the last position that the lane reaches: the end of the final log, or of
    what was lost beyond it.
    """

    topic: str
    partition: int
    producer: int | None
    by: Literal["offset", "sequence"]
    count: int
    marks: tuple[Mark, ...]
    log_end: int | None
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRecord:
    """One lost record with its evidence, as in the `anomalies` table."""

    topic: str
    partition: int
    producer: int | None
    sequence: int | None
    offset: int | None
    resolved_at: datetime | None
    window: int | None
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """All lost records: how many, where, and the most telling ones."""

    count: int
    lanes: tuple[LossLane, ...]
    #: Lanes that are not among `lanes`, and how many records they lost.
    hidden_lanes: int
    hidden_count: int
    telling: tuple[LostRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything a report shows of one run directory."""

    directory: Path
    verdict: Verdict | None
    scenario: str | None
    #: What is absent or unreadable, one sentence each.
    missing: tuple[str, ...]
    #: What went wrong on the way, as `run.json` records it.
    troubles: tuple[str, ...]
    #: The configuration's name, if `run.json` tells one.
    configuration_name: str
    #: Second 0 of every axis: the first send (of a run without any, its first known event).
    origin: datetime | None
    #: Where the time axis ends, seconds since `origin`.
    end: float
    sends: Sends | None
    windows: tuple[FaultReport, ...]
    lanes: tuple[Lane, ...]
    hidden_lanes: int
    #: None if the run was never analysed.
    losses: Losses | None

    @property
    def name(self) -> str:
        """What to call this run: its configuration, else its scenario, else its directory."""
        scenario = self.verdict.scenario if self.verdict else self.directory.name
        return self.configuration_name or scenario

    def second(self, moment: datetime) -> float:
        """Return `moment` in seconds since the origin."""
        return (moment - (self.origin or moment)).total_seconds()


def read_run(directory: Path, *, max_bins: int = 600) -> Run:
    """Return what a report shows of `directory`.

    Raises RunDirectoryError if it holds nothing of a run at all; whatever else is absent or
    damaged is named in the result's `missing`.
    """
    if not directory.is_dir():
        raise RunDirectoryError(
            f"{directory} is not a directory", hint="Name a run directory, as in runs/latest."
        )
    known = [RECORD_FILE, VERDICT_FILE, SCENARIO_FILE, *map(str, LOCATION.values())]
    if not any((directory / name).exists() for name in known):
        raise RunDirectoryError(
            f"{directory} is not a run directory: it holds none of {', '.join(known)}",
            hint="Name a run directory, as in runs/latest.",
        )
    tables = _Tables(directory)
    verdict = _read_verdict(directory, tables.missing)
    scenario = _read_scenario(directory, tables.missing)
    record = _read_record(directory, tables.missing)
    windows = _read_windows(tables, verdict)
    ledger = _read_extent(tables)
    moments = [moment for window in windows for moment in _moments_of(window) if moment is not None]
    states_first, states_last = (
        (None, None) if moments or ledger.first is not None else _times_of_states(tables)
    )
    origin = _moment(ledger.first) or min(moments, default=None) or _moment(states_first)
    ends = [*moments, *filter(None, (_moment(ledger.last), _moment(states_last)))]
    end = max(((moment - origin).total_seconds() for moment in ends), default=0.0) if origin else 0
    bins = (
        _Bins(origin=_micros_of(origin), seconds=max(end, 0.1), limit=max_bins) if origin else None
    )
    lost = _read_lost(tables)
    losses = None if lost is None else _losses(tables, lost, ledger)
    lanes, hidden_lanes = _read_lanes(tables, origin, end, losses)
    for name in LOCATION:
        if name not in ("anomalies", *OPTIONAL):  # of anomalies `_read_lost` says it
            tables.note_absence(name)
    for name in ("reads", "transactions"):  # read for their plots alone
        for _ in tables.batches(name, []):
            pass
    return Run(
        directory=directory,
        verdict=verdict,
        scenario=scenario,
        missing=tuple(tables.missing),
        troubles=tuple(record.troubles) if record else (),
        configuration_name=verdict.configuration_name
        if verdict
        else (record.configuration_name if record else ""),
        origin=origin,
        end=end,
        sends=_read_sends(tables, bins, ledger, lost)
        if bins and ledger.first is not None
        else None,
        windows=windows,
        lanes=lanes,
        hidden_lanes=hidden_lanes,
        losses=losses,
    )


def read_telling(directory: Path) -> tuple[LostRecord, ...]:
    """Return the most telling lost records of a run directory; none if it was not analysed."""
    tables = _Tables(directory)
    lost = _read_lost(tables)
    return () if lost is None else _telling(tables, lost)


@dataclass(slots=True)
class _Tables:
    """The tables of one run directory; remembers what could not be read."""

    directory: Path
    missing: list[str] = field(default_factory=list)

    def files(self, name: str) -> list[Path]:
        path = self.directory / LOCATION[name]
        if path.is_dir():
            return sorted(
                file
                for file in path.rglob("*.parquet")
                if not any(part.startswith(("_", ".")) for part in file.relative_to(path).parts)
            )
        return [path] if path.is_file() else []

    def note(self, sentence: str) -> None:
        if sentence not in self.missing:
            self.missing.append(sentence)

    def note_absence(self, name: str) -> bool:
        """Return whether the table is absent, and remember it."""
        if self.files(name):
            return False
        self.note(f"{LOCATION[name]}: not there.")
        return True

    def batches(self, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the table's rows, always in the same order; a damaged file is noted, not read."""
        for file in self.files(name):
            try:
                with pq.ParquetFile(file) as parquet:
                    lacking = sorted(set(columns) - set(parquet.schema_arrow.names))
                    if lacking:
                        self.note(f"{self._inside(file)}: lacks {', '.join(lacking)}.")
                        continue
                    for batch in parquet.iter_batches(batch_size=_BATCH, columns=list(columns)):
                        yield _in_utc_micros(batch)
            except (pa.ArrowException, OSError) as error:
                first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
                self.note(f"{self._inside(file)}: cannot be read ({first_line})")

    def rows(self, name: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return a small table's rows."""
        return [row for batch in self.batches(name, columns) for row in batch.to_pylist()]

    def _inside(self, file: Path) -> Path:
        return file.relative_to(self.directory)


def _in_utc_micros(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with times as the schemas have them: Spark may write INT96, in UTC."""
    for index, column in enumerate(batch.schema):
        if pa.types.is_timestamp(column.type) and column.type != TIME:
            times = batch.column(index).cast(TIME, safe=False)
            batch = batch.set_column(index, column.with_type(TIME), times)
    return batch


@dataclass(frozen=True, slots=True)
class _Bins:
    """Equal stretches of time from `origin` (microseconds since 1970) on."""

    origin: int
    seconds: float
    limit: int

    def width(self, sends: int) -> float:
        """Return a round width: at most `limit` bins, some twenty sends in each on average."""
        least = max(self.seconds / self.limit, _SENDS_PER_BIN * self.seconds / max(sends, 1))
        least = min(least, self.seconds / 10)
        for nice in _NICE_WIDTHS:
            if nice >= least:
                return float(nice)
        return float(np.ceil(least / 3600) * 3600)


def _micros_of(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)


_ABSENT = int(np.iinfo(np.int64).min)
_LAST = int(np.iinfo(np.int64).max)


def _int64(column: pa.Array) -> Numbers:
    """Return a column of integers or times (as microseconds), nulls as `_ABSENT`."""
    integers = column.cast(pa.int64())
    return np.asarray(integers.fill_null(_ABSENT).to_numpy(zero_copy_only=False), dtype=np.int64)


def _read_verdict(directory: Path, missing: list[str]) -> Verdict | None:
    path = directory / VERDICT_FILE
    try:
        return Verdict.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        missing.append(f"{VERDICT_FILE}: not there: the run was interrupted, or never judged.")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        missing.append(f"{VERDICT_FILE}: cannot be read ({where}: {first['msg']}).")
    return None


def _read_record(directory: Path, missing: list[str]) -> RunRecord | None:
    try:
        return read_record(directory)
    except RunDirectoryError:
        missing.append(f"{RECORD_FILE}: not there, or cannot be read.")
        return None


def _read_scenario(directory: Path, missing: list[str]) -> str | None:
    try:
        return (directory / SCENARIO_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        missing.append(f"{SCENARIO_FILE}: not there.")
    except UnicodeDecodeError:
        missing.append(f"{SCENARIO_FILE}: cannot be read (not UTF-8).")
    return None


_WINDOW_COLUMNS = tuple(FaultReport.model_fields)


def _moments_of(window: FaultReport) -> tuple[datetime | None, ...]:
    return window.injected_at, window.verified_at, window.healed_at, window.recovered_at


def _read_windows(tables: _Tables, verdict: Verdict | None) -> tuple[FaultReport, ...]:
    if not tables.note_absence("fault_windows"):
        rows = tables.rows("fault_windows", _WINDOW_COLUMNS)
    else:
        rows = [fault.model_dump() for fault in verdict.faults] if verdict else []
    windows = [FaultReport.model_validate(row) for row in rows]
    return tuple(sorted(windows, key=lambda window: (window.injected_at, window.window)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extent:
    """How far the ledger reaches: rows, first and last time, last sequence of each producer."""

    rows: int
    first: int | None
    last: int | None
    last_sequence: dict[int, int]


def _read_extent(tables: _Tables) -> _Extent:
    rows, low, high = 0, _LAST, _ABSENT
    last_sequence: dict[int, int] = {}
    tables.note_absence("ledger")
    for batch in tables.batches("ledger", ["producer", "sequence", "sent_at", "resolved_at"]):
        rows += batch.num_rows
        for column in ("sent_at", "resolved_at"):
            times = _int64(batch[column])
            low = min(low, int(times.min(initial=_LAST, where=times != _ABSENT)))
            high = max(high, int(times.max(initial=_ABSENT)))
        producers, sequences = _int64(batch["producer"]), _int64(batch["sequence"])
        for producer in np.unique(producers).tolist():
            last = int(sequences[producers == producer].max())
            last_sequence[producer] = max(last, last_sequence.get(producer, 0))
    timed = high != _ABSENT
    return _Extent(
        rows=rows,
        first=low if timed else None,
        last=high if timed else None,
        last_sequence=last_sequence,
    )


def _times_of_states(tables: _Tables) -> tuple[int | None, int | None]:
    times = [_micros_of(row["at"]) for row in tables.rows("partition_states", ["at"])]
    return min(times, default=None), max(times, default=None)


def _read_sends(tables: _Tables, bins: _Bins, ledger: _Extent, lost: _Lost | None) -> Sends:
    width = bins.width(ledger.rows)
    count = int(bins.seconds / width) + 1
    counts = {outcome: np.zeros(count, dtype=np.int64) for outcome in Outcome}
    histogram = np.zeros(count * _BUCKETS, dtype=np.int64)
    minimum = np.full(count, np.inf)
    maximum = np.full(count, -np.inf)
    untimed = 0

    def bin_of(times: Numbers) -> Numbers:
        index = (times - bins.origin) // round(width * 1e6)
        return np.clip(index, 0, count - 1)

    for batch in tables.batches("ledger", ["outcome", "sent_at", "resolved_at"]):
        sent, resolved = _int64(batch["sent_at"]), _int64(batch["resolved_at"])
        known = np.where(resolved != _ABSENT, resolved, sent)
        timed = known != _ABSENT
        untimed += int(np.count_nonzero(~timed))
        outcome = batch["outcome"]
        for kind in Outcome:
            chosen = np.asarray(pc.equal(outcome, kind.value)) & timed
            counts[kind] += np.bincount(bin_of(known[chosen]), minlength=count)
        measured = (
            np.asarray(pc.equal(outcome, Outcome.ACKED.value))
            & (sent != _ABSENT)
            & (resolved != _ABSENT)
        )
        if not measured.any():
            continue
        where = bin_of(sent[measured])
        micros = (resolved - sent)[measured]
        bucket = np.log(np.maximum(micros, 1)) / _LOG_RATIO
        bucket = np.clip(bucket.astype(np.int64), 0, _BUCKETS - 1)
        histogram += np.bincount(where * _BUCKETS + bucket, minlength=histogram.size)
        np.minimum.at(minimum, where, micros / 1000)
        np.maximum.at(maximum, where, micros / 1000)

    minimum[np.isinf(minimum)] = np.nan
    maximum[np.isinf(maximum)] = np.nan
    by_bin = histogram.reshape(count, _BUCKETS)
    lost_times = np.zeros(0, dtype=np.int64) if lost is None else lost.times
    lost_times = lost_times[lost_times != _ABSENT]
    return Sends(
        width=width,
        acked=counts[Outcome.ACKED],
        failed=counts[Outcome.FAILED],
        unknown=counts[Outcome.UNKNOWN],
        lost=np.bincount(bin_of(lost_times), minlength=count),
        minimum=minimum,
        p50=_quantile(by_bin, 0.50, minimum, maximum),
        p99=_quantile(by_bin, 0.99, minimum, maximum),
        maximum=maximum,
        untimed=untimed,
    )


def _quantile(histogram: Numbers, share: float, minimum: Floats, maximum: Floats) -> Floats:
    """Return a quantile of each row in milliseconds, NaN for empty rows."""
    cumulated = histogram.cumsum(axis=1)
    total = cumulated[:, -1]
    rank = np.ceil(total * share).astype(np.int64)
    bucket = (cumulated < rank[:, None]).sum(axis=1)
    middle = np.exp((bucket + 0.5) * _LOG_RATIO) / 1000
    return np.where(total > 0, np.clip(middle, minimum, maximum), np.nan)


def _read_lanes(
    tables: _Tables, origin: datetime | None, end: float, losses: Losses | None
) -> tuple[tuple[Lane, ...], int]:
    columns = ("at", "metadata_offset", "topic", "partition", "leader", "leader_epoch")
    if tables.note_absence("partition_states") or origin is None:
        return (), 0
    rows = tables.rows("partition_states", (*columns, "replicas", "isr", "elr"))
    rows.sort(key=lambda row: row["metadata_offset"])
    by_partition: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        by_partition.setdefault((row["topic"], row["partition"]), []).append(row)
    lanes = [
        Lane(
            topic=topic,
            partition=partition,
            replicas=max(len(row["replicas"]) for row in states),
            spans=_spans(states, origin, end),
        )
        for (topic, partition), states in by_partition.items()
    ]
    lossy = {(loss.topic, loss.partition) for loss in losses.lanes} if losses else set()
    lanes.sort(key=lambda lane: ((lane.topic, lane.partition) not in lossy, -len(lane.spans)))
    shown = sorted(lanes[:_MAX_LANES], key=lambda lane: (lane.topic, lane.partition))
    return tuple(shown), len(lanes) - len(shown)


def _spans(states: list[dict[str, Any]], origin: datetime, end: float) -> tuple[Span, ...]:
    """Return what held from when to when; what was over before the origin is left out."""
    spans: list[Span] = []
    starts = [(state["at"] - origin).total_seconds() for state in states]
    for state, start, stop in zip(states, starts, [*starts[1:], max(end, starts[-1])], strict=True):
        span = Span(
            start=max(start, 0.0),
            end=stop,
            leader=state["leader"],
            epoch=state["leader_epoch"],
            isr=tuple(state["isr"]),
            elr=tuple(state["elr"]),
        )
        if stop <= 0 < end:
            continue
        before = spans[-1] if spans else None
        if before and replace(before, end=span.end) == replace(span, start=before.start):
            spans[-1] = replace(before, end=span.end)
        else:
            spans.append(span)
    return tuple(spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lost:
    """Every lost record as numbers, one entry each; `row` is its place in the table."""

    partitions: list[tuple[str, int]]
    partition: Numbers
    producer: Numbers
    sequence: Numbers
    offset: Numbers
    window: Numbers
    times: Numbers
    row: Numbers


def _read_lost(tables: _Tables) -> _Lost | None:
    if not (tables.directory / LOCATION["anomalies"]).exists():
        tables.note(f"{LOCATION['anomalies']}: not there: the run was not analysed.")
        return None
    partitions: dict[tuple[str, int], int] = {}
    chunks: dict[str, list[Numbers]] = {
        name: [np.zeros(0, dtype=np.int64)]
        for name in ("partition", "producer", "sequence", "offset", "window", "times", "row")
    }
    columns = ("anomaly", "topic", "partition", "producer", "sequence", "offset", "sent_at")
    before = 0
    for batch in tables.batches("anomalies", (*columns, "resolved_at", "window")):
        chosen = np.flatnonzero(np.asarray(pc.equal(batch["anomaly"], Anomaly.LOST.value)))
        rows, before = chosen + before, before + batch.num_rows
        if not chosen.size:
            continue
        found = batch.take(pa.array(chosen))
        topic = found["topic"].dictionary_encode()
        number = _int64(found["partition"])
        local = np.asarray(topic.indices).astype(np.int64)
        key = np.zeros(chosen.size, dtype=np.int64)
        for topic_index, partition in {*zip(local.tolist(), number.tolist(), strict=True)}:
            name = (topic.dictionary[topic_index].as_py(), partition)
            place = partitions.setdefault(name, len(partitions))
            key[(local == topic_index) & (number == partition)] = place
        sent, resolved = _int64(found["sent_at"]), _int64(found["resolved_at"])
        chunks["partition"].append(key)
        chunks["times"].append(np.where(resolved != _ABSENT, resolved, sent))
        chunks["row"].append(rows.astype(np.int64))
        for column in ("producer", "sequence", "offset", "window"):
            chunks[column].append(_int64(found[column]))
    return _Lost(
        partitions=list(partitions),
        **{name: np.concatenate(parts) for name, parts in chunks.items()},
    )


def _losses(tables: _Tables, lost: _Lost, ledger: _Extent) -> Losses:
    log_ends: dict[tuple[str, int], int] = {}
    if not tables.note_absence("partition_ends"):
        for row in tables.rows("partition_ends", ("topic", "partition", "end_offset")):
            log_ends[row["topic"], row["partition"]] = row["end_offset"]
    lanes = _loss_lanes(lost, log_ends, ledger.last_sequence)
    lanes.sort(key=lambda lane: (-lane.count, lane.topic, lane.partition, lane.producer or 0))
    shown, hidden = lanes[:_MAX_LANES], lanes[_MAX_LANES:]
    shown.sort(key=lambda lane: (lane.topic, lane.partition, lane.producer or 0))
    return Losses(
        count=int(lost.row.size),
        lanes=tuple(shown),
        hidden_lanes=len(hidden),
        hidden_count=sum(lane.count for lane in hidden),
        telling=_telling(tables, lost),
    )


def _loss_lanes(
    lost: _Lost, log_ends: dict[tuple[str, int], int], last_sequence: dict[int, int]
) -> list[LossLane]:
    lanes = []
    for place, (topic, partition) in enumerate(lost.partitions):
        here = lost.partition == place
        offsets = lost.offset[here & (lost.offset != _ABSENT)]
        log_end = log_ends.get((topic, partition))
        if offsets.size:
            marks = _merge(np.sort(offsets))
            lanes.append(
                LossLane(
                    topic=topic,
                    partition=partition,
                    producer=None,
                    by="offset",
                    count=int(offsets.size),
                    marks=marks,
                    log_end=log_end,
                    end=max(marks[-1].last + 1, log_end or 0),
                )
            )
        without = here & (lost.offset == _ABSENT)
        for producer in np.unique(lost.producer[without]).tolist():
            sequences = lost.sequence[without & (lost.producer == producer)]
            marks = _merge(np.sort(sequences))
            lanes.append(
                LossLane(
                    topic=topic,
                    partition=partition,
                    producer=None if producer == _ABSENT else producer,
                    by="sequence",
                    count=int(sequences.size),
                    marks=marks,
                    log_end=None,
                    end=max(marks[-1].last, last_sequence.get(producer, 0)) + 1,
                )
            )
    return lanes


def _merge(positions: Numbers, limit: int = _MAX_MARKS // _MAX_LANES) -> tuple[Mark, ...]:
    """Return at most `limit` marks for sorted positions.

    Neighbours share a mark. If that leaves too many, so do those nearer to each other than an eye
    can tell, and then all but those at the widest gaps. The count of a mark that bridges a gap is
    smaller than its width.
    """
    gaps = np.diff(positions)
    splits = np.flatnonzero(gaps > 1)
    if splits.size >= limit:
        splits = np.flatnonzero(gaps > positions[-1] // _DISTINCT)
    if splits.size >= limit:
        widest = np.argsort(gaps[splits], kind="stable")[-(limit - 1) :]
        splits = np.sort(splits[widest])
    firsts = np.concatenate(([0], splits + 1))
    lasts = np.concatenate((splits, [positions.size - 1]))
    return tuple(
        Mark(first=int(positions[a]), last=int(positions[b]), count=int(b - a + 1))
        for a, b in zip(firsts, lasts, strict=True)
    )


def _telling(tables: _Tables, lost: _Lost) -> tuple[LostRecord, ...]:
    """Return the lost records that say most: from every partition and fault the first and last.

    Groups with more losses come first; then those in between, until there are `TELLING`.
    """
    position = np.where(lost.offset != _ABSENT, lost.offset, lost.sequence)
    order = np.lexsort((position, lost.window, lost.partition))
    group = np.stack((lost.partition[order], lost.window[order]))
    if not order.size:
        return ()
    starts = np.flatnonzero(np.any(np.diff(group, axis=1, prepend=group[:, :1] - 1), axis=0))
    groups = sorted(np.split(order, starts[1:]), key=lambda members: -members.size)
    wanted: dict[int, None] = {}
    for turn in range(TELLING):
        for members in groups:
            picks = np.unique(np.linspace(0, members.size - 1, TELLING).astype(np.int64))
            picks = np.concatenate((picks[:1], picks[:0:-1]))
            if turn < picks.size and len(wanted) < TELLING:
                wanted[int(lost.row[members[picks[turn]]])] = None
    return tuple(
        sorted(
            _take_lost(tables, sorted(wanted)),
            key=lambda record: (
                record.resolved_at or datetime.max.replace(tzinfo=UTC),
                record.topic,
                record.partition,
                record.sequence or 0,
            ),
        )
    )


def _take_lost(tables: _Tables, rows: Sequence[int]) -> Iterator[LostRecord]:
    columns = ("topic", "partition", "producer", "sequence", "offset", "resolved_at", "window")
    before = 0
    for batch in tables.batches("anomalies", (*columns, "found")):
        here = [row - before for row in rows if before <= row < before + batch.num_rows]
        before += batch.num_rows
        for row in batch.take(pa.array(here, type=pa.int64())).to_pylist():
            yield LostRecord(**row)
