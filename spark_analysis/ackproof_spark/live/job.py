"""The streaming job: two streams of events, one state for each partition, three tables.

    ledger, topics -> events -> by partition, with a watermark -> windows, candidates, totals

The event time of an outcome is when it became known, that of a read when its micro-batch started.
Spark drops outcomes older than the watermark (`LATE_S` behind the newest event); `Following.late`
counts them. Exactly once: offsets and state are in Spark's checkpoint, both sources return the same
events again, and each micro-batch writes files of its own (see `store`).

It keeps its own state, and does not use Spark's stream-stream join: that emits a pair once and
cannot retract it when a log is truncated, and emits an unmatched send only after the watermark
(docs/how-to/live.md has what was measured).

Spark needs pandas for state in Python.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from ackproof_spark.errors import AnalysisError
from ackproof_spark.live import store
from ackproof_spark.live.partition import Events, Kind, Partition
from ackproof_spark.live.store import LiveTables
from ackproof_spark.reading.record_columns import parse_records
from ackproof_spark.spark.errors import explained
from ackproof_spark.spark.functions import F
from ackproof_spark.tables import LOCATION, SCHEMA_VERSION, RecordState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: Seconds by which an outcome may be older than the newest event and still count.
LATE_S = 10

#: Length of a window, and time between the starts of micro-batches, seconds.
WINDOW_S = 5
TRIGGER_S = 1.0

_STATE = "rest string, unseen binary, early binary, seen binary"
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
#: `rows` is an Arrow stream with rows of the table `name`.
_OUTPUT = "name string, rows binary"


def checkpoint(run_dir: Path) -> Path:
    """Return Spark's checkpoint folder."""
    return run_dir / "live" / "checkpoint"


def ended(run_dir: Path) -> Path:
    """Return the file that tells the job that the run is over; it then writes every window."""
    return run_dir / "live" / "ended"


def ledger_events(spark: SparkSession, run_dir: Path) -> DataFrame:
    """Return the outcomes that producers record, as a stream of `ledger_source.EVENTS`."""
    from ackproof_spark.live.ledger_source import NAME, LedgerSource

    spark.dataSource.register(LedgerSource)
    return (
        spark.readStream.format(NAME)
        .option("path", str(run_dir.resolve() / LOCATION["ledger"]))
        .option("ended", str(ended(run_dir.resolve())))
        .load()
    )


def topic_events(
    spark: SparkSession,
    *,
    run_id: str,
    bootstrap_servers: str,
    topics: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the records of the topics, from the first offset, as a stream of `EVENTS`.

    Without `topics` all but internal ones are read. `settings` are librdkafka's.
    """
    from ackproof_spark.live.topic_source import NAME, TopicSource

    spark.dataSource.register(TopicSource)
    client = {"bootstrap.servers": bootstrap_servers, **(settings or {})}
    records = (
        spark.readStream.format(NAME)
        .options(**{f"kafka.{key}": value for key, value in client.items()})
        .option("topics", json.dumps(list(topics)))
        .load()
    )
    return read_events(records, run_id=run_id)


def read_events(records: DataFrame, *, run_id: str) -> DataFrame:
    """Return `records` (as `record_columns.parse_records` takes them) as `EVENTS`."""
    intact = F.col("state") == RecordState.INTACT
    return parse_records(records, run_id=run_id).select(
        "topic",
        "partition",
        F.when(intact, F.lit(int(Kind.READ))).otherwise(int(Kind.READ_OTHER)).alias("kind"),
        F.coalesce("producer", F.lit(0)).cast("bigint").alias("producer"),
        F.coalesce("sequence", F.lit(0)).cast("bigint").alias("sequence"),
        "offset",
        # The time of the micro-batch, which is the same when Spark runs it again.
        F.current_timestamp().alias("at"),
        F.lit(0).cast("bigint").alias("sent_at"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """A running job."""

    query: StreamingQuery
    tables: LiveTables
    run_dir: Path

    @property
    def late(self) -> int:
        """Outcomes of the last micro-batches that came too late to be counted."""
        return sum(
            int(operator.get("numRowsDroppedByWatermark", 0))
            for progress in self.query.recentProgress
            for operator in json.loads(progress.json)["stateOperators"]
        )

    def active(self) -> bool:
        """Return whether the job runs. Raises AnalysisError if it failed."""
        with _explained():
            if error := self.query.exception():
                raise error
        return bool(self.query.isActive)

    def drain(self) -> None:
        """Process what the sources have now. Raises AnalysisError if the job failed."""
        with _explained():
            self.query.processAllAvailable()

    def end(self) -> None:
        """Process the rest, write every open window, and stop, because the run is over.

        Raises AnalysisError if the job failed.
        """
        self.drain()
        ended(self.run_dir).touch()
        self.drain()
        self.stop()

    def stop(self) -> None:
        """Stop. A job that is started again continues from its checkpoint."""
        self.query.stop()


def follow(
    spark: SparkSession,
    run_dir: Path,
    *,
    run_id: str,
    events: DataFrame,
    window_s: int = WINDOW_S,
    trigger_s: float = TRIGGER_S,
) -> Following:
    """Start the job on `events`, or continue from its checkpoint in `run_dir`.

    `window_s` has an effect at the first start only.
    """
    place = checkpoint(run_dir)
    tables = LiveTables(run_dir, fresh=not place.exists())
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _STATE_STORE)
    # One task per core: states are few and small, and every task starts a Python worker.
    spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
    changes = (
        events.withWatermark("at", f"{LATE_S} seconds")
        .selectExpr("*", "unix_micros(at) AS at_us")
        .groupBy("topic", "partition")
        .transformWithStateInPandas(
            _Partitions(run_id, window_s * 1_000_000), _OUTPUT, "append", "EventTime"
        )
    )

    def store_batch(batch: DataFrame, number: int) -> None:
        rows: dict[str, list[pa.Table]] = {}
        for name, content in batch.collect():
            rows.setdefault(name, []).append(pa.ipc.open_stream(bytes(content)).read_all())
        tables.write(number, rows)

    query = (
        changes.writeStream.foreachBatch(store_batch)
        .option("checkpointLocation", str(place))
        .trigger(processingTime=f"{trigger_s:g} seconds")
        .start()
    )
    return Following(query=query, tables=tables, run_dir=run_dir)


class _Partitions(StatefulProcessor):  # type: ignore[misc]  # pyspark is not typed for mypy here
    """The states of all partitions in Spark's state store; `Partition` interprets them."""

    def __init__(self, run_id: str, width: int) -> None:
        self._common = {"schema_version": SCHEMA_VERSION, "run_id": run_id}
        self._width = width

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("partition", _STATE)

    def handleInputRows(  # noqa: N802  Spark's name
        self, key: tuple[str, int], rows: Iterator[Any], times: Any
    ) -> Iterator[Any]:
        """Apply the events of a micro-batch."""
        if key[1] < 0:
            return  # a mark, which moves the watermark and belongs to no partition
        import pandas as pd  # type: ignore[import-untyped]

        partition = self._load()
        changes = partition.take(_events(pd.concat(list(rows))))
        yield self._stored(key, partition, changes, times)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: tuple[str, int],
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Write the windows that the watermark has passed since the last call."""
        yield self._stored(key, self._load(), [], timerValues)

    def _load(self) -> Partition:
        return (
            Partition.load(*self._state.get())
            if self._state.exists()
            else Partition(width=self._width)
        )

    def _stored(
        self, key: tuple[str, int], partition: Partition, changes: list[dict[str, Any]], times: Any
    ) -> Any:
        """Close windows, store the state, register a timer; return rows for the tables."""
        import pandas as pd

        windows = partition.close(times.getCurrentWatermarkInMs() * 1000)
        self._state.update(partition.dump())
        if partition.next_end is not None:
            self._handle.registerTimer(partition.next_end // 1000)
        common = self._common | {"topic": key[0], "partition": int(key[1])}
        tables = {
            store.WINDOWS: windows,
            store.CANDIDATES: changes,
            store.PARTITIONS: [partition.row() | {"batch": 0}],
        }
        packed = [
            (name, _packed(name, [common | row for row in rows]))
            for name, rows in tables.items()
            if rows
        ]
        return pd.DataFrame(packed, columns=["name", "rows"])


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn the failure of a query into an `AnalysisError` with its innermost cause."""
    from pyspark.errors import StreamingQueryException

    with explained():
        try:
            yield
        except StreamingQueryException as error:
            # A stack trace of Python within one of Java: the innermost cause is last.
            text, _, _ = str(error).partition("=== Streaming Query ===")
            causes = re.findall(r"^[\w.]*?(\w*(?:Error|Exception)(?:: .+)?)$", text, re.MULTILINE)
            raise AnalysisError(f"the live job failed: {(causes or [text])[-1]}") from error


def _events(frame: Any) -> Events:
    columns = {name: frame[name] for name in ("kind", "producer", "sequence", "offset", "sent_at")}
    columns["at"] = frame["at_us"]
    return Events(**{name: column.to_numpy(dtype="int64") for name, column in columns.items()})


def _packed(name: str, rows: list[dict[str, Any]]) -> bytes:
    table = pa.Table.from_pylist(rows, schema=store.SCHEMAS[name])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
