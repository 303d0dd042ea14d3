"""The streaming job: reads the ledger and the topics, and writes the live tables.

    ledger, topics -> events -> micro-batches -> windows, candidates, totals

The event time of an outcome is when it became known, that of a read when its micro-batch started.
Outcomes older than the watermark (`LATE_S` behind the newest event) are dropped; `Following.late`
counts them. Exactly once: offsets are in Spark's checkpoint, both sources return the same events
again, and each micro-batch writes its rows and its state to files of its own (see `store`).

Spark's stream-stream join is no alternative: it emits a pair once and cannot retract it when a log
is truncated, and emits an unmatched send only after the watermark (measured: docs/how-to/live.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ackproof_spark.live import store
from ackproof_spark.live.partition import EVENTS, Kind, Partition, Rows, rows_of
from ackproof_spark.live.store import Key, LiveTables, State, StateFiles
from ackproof_spark.reading.record_columns import parse_records
from ackproof_spark.spark.errors import stream_explained
from ackproof_spark.spark.functions import DataFrame, F, SparkSession
from ackproof_spark.spark.storage import address
from ackproof_spark.tables import LOCATION, SCHEMA_VERSION, RecordState

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

#: Seconds by which an outcome may be older than the newest event and still count.
LATE_S = 10

#: Length of a window, and time between the starts of micro-batches, seconds.
WINDOW_S = 5
TRIGGER_S = 1.0


def checkpoint(run_dir: Path) -> Path:
    """Return Spark's checkpoint folder."""
    return run_dir / "live" / "checkpoint"


def ended(run_dir: Path) -> Path:
    """Return the file whose existence ends the run: the job then writes every open window."""
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


class Following:
    """A job: applies micro-batches to the live tables and the state of a run."""

    #: The job's query, once it was started.
    query: StreamingQuery

    def __init__(self, run_dir: Path, run_id: str, *, width: int, fresh: bool) -> None:
        self.tables = LiveTables(run_dir, fresh=fresh)
        #: Outcomes that came too late to be counted, since the job was started.
        self.late = 0
        self._run_dir = run_dir
        self._files = StateFiles(run_dir / "live", fresh=fresh)
        self._common = {"schema_version": SCHEMA_VERSION, "run_id": run_id}
        #: The state after micro-batch `_taken`.
        self._state = State(width=width)
        self._taken = -1

    def active(self) -> bool:
        """Return whether the job runs. Raises AnalysisError if it failed."""
        with stream_explained("the live job"):
            if error := self.query.exception():
                raise error
        return bool(self.query.isActive)

    def drain(self) -> None:
        """Process what the sources have now. Raises AnalysisError if the job failed."""
        with stream_explained("the live job"):
            self.query.processAllAvailable()

    def end(self) -> None:
        """Process the rest, write every open window, and stop, because the run is over.

        Raises AnalysisError if the job failed.
        """
        self.drain()
        ended(self._run_dir).touch()
        self.drain()
        self.stop()

    def stop(self) -> None:
        """Stop. A job that is started again continues from its checkpoint."""
        self.query.stop()

    def take(self, batch: int, rows: pa.Table) -> None:
        """Apply a micro-batch (`EVENTS`, but `at` is microseconds); write the tables and the state.

        Raises AnalysisError if the state that the micro-batch continues is missing.
        """
        continued = self._taken != batch - 1
        if continued:
            self._state = self._files.load(batch - 1)
        state = self._state
        self._files.forget(batch, state)
        outcomes = pc.less(rows["kind"], int(Kind.READ))
        late = pc.and_(outcomes, pc.less(rows["at"], state.newest - LATE_S * 1_000_000))
        self.late += pc.sum(late).as_py() or 0
        if rows.num_rows:
            state.newest = max(state.newest, pc.max(rows["at"]).as_py())
        rows = rows.filter(pc.invert(late))
        written: dict[str, list[dict[str, Any]]] = {name: [] for name in store.SCHEMAS}
        matched: dict[Key, Rows] = {}
        for group in rows.group_by(["topic", "partition"]).aggregate([]).to_pylist():
            key = group["topic"], group["partition"]
            if key[1] < 0:
                continue  # a mark, which moves the watermark and belongs to no partition
            partition = state.partitions.setdefault(key, Partition(width=state.width))
            changes, matched[key] = partition.take(
                _events(rows, key), partial(self._files.matched_from, batch, key)
            )
            written[store.CANDIDATES] += self._rows(key, changes)
        for key, partition in state.partitions.items():
            windows = partition.close(state.newest - LATE_S * 1_000_000)
            written[store.WINDOWS] += self._rows(key, windows)
            # After a restart the rows may be from an attempt that read other records.
            if windows or key in matched or continued:
                written[store.PARTITIONS] += self._rows(key, [partition.row()])
        self.tables.write(batch, written)
        self._files.save(batch, state, matched)
        self._taken = batch

    def _rows(self, key: Key, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        common = self._common | {"topic": key[0], "partition": key[1]}
        return [{**common, **row} for row in rows]


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
    folder = checkpoint(run_dir)
    following = Following(run_dir, run_id, width=window_s * 1_000_000, fresh=not folder.exists())
    following.query = (
        events.withColumn("at", F.unix_micros("at"))
        .writeStream.foreachBatch(lambda batch, number: following.take(number, batch.toArrow()))
        .option("checkpointLocation", address(folder))
        .trigger(processingTime=f"{trigger_s:g} seconds")
        .start()
    )
    return following


def _events(rows: pa.Table, key: Key) -> Rows:
    own = rows.filter((pc.field("topic") == key[0]) & (pc.field("partition") == key[1]))
    columns = [own[name].cast(pa.int64()).to_numpy() for name in EVENTS.names or ()]
    return rows_of(columns, EVENTS)
