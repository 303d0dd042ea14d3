"""The streaming job: reads the ledger and the topics, and writes the live tables.

    ledger, topics -> events -> micro-batches -> findings, totals

The event time of an outcome is when it became known, that of a read when its micro-batch started.
Exactly once: offsets are in Spark's checkpoint, both sources return the same events again, and each
micro-batch writes its rows and its state to files of its own (see `store`).

The comparison is that of a watch, but neither its source nor Spark's state: while a broker is away,
that source stops (measured: docs/how-to/live.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof_spark.live.partition import EVENTS, Kind, Partition, Rows
from ackproof_spark.live.store import Key, LiveTables, State, StateFiles
from ackproof_spark.reading.record_columns import parse_records
from ackproof_spark.spark.errors import stream_explained
from ackproof_spark.spark.functions import DataFrame, F, SparkSession
from ackproof_spark.spark.storage import address
from ackproof_spark.tables import LOCATION, SCHEMA_VERSION, RecordState

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

#: Seconds between the starts of micro-batches.
TRIGGER_S = 1.0


def checkpoint(run_dir: Path) -> Path:
    """Return Spark's checkpoint folder."""
    return run_dir / "live" / "checkpoint"


def ended(run_dir: Path) -> Path:
    """Return the file whose existence ends the run: the job then decides on every send."""
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
    )


class Following:
    """A job: applies micro-batches to the live tables and the state of a run."""

    #: The job's query, once it was started.
    query: StreamingQuery

    def __init__(self, run_dir: Path, run_id: str, *, fresh: bool) -> None:
        self.tables = LiveTables(run_dir, fresh=fresh)
        self._run_dir = run_dir
        self._files = StateFiles(run_dir / "live", fresh=fresh)
        self._common = {"schema_version": SCHEMA_VERSION, "run_id": run_id}
        #: The state after micro-batch `_taken`.
        self._state = State()
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
        """Process the rest, decide on every send, and stop, because the run is over.

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
        if self._taken != batch - 1:
            self._state = self._files.load(batch - 1)
        state = self._state
        if rows.num_rows:
            state.newest = max(state.newest, pc.max(rows["at"]).as_py())
            state.over |= pc.any(pc.equal(rows["kind"], int(Kind.ENDED))).as_py()
        for group in rows.group_by(["topic", "partition"]).aggregate([]).to_pylist():
            # A mark belongs to no partition.
            if group["partition"] >= 0:
                state.partitions.setdefault((group["topic"], group["partition"]), Partition())
        findings, partitions = [], []
        for key, partition in sorted(state.partitions.items()):
            found = partition.take(
                _events(rows, key),
                partial(self._acked, key),
                now=state.newest,
                over=state.over,
            )
            common = self._common | {"topic": key[0], "partition": key[1]}
            findings += [common | row for row in found]
            partitions.append(common | {"batch": batch} | partition.row())
        self.tables.write(batch, findings, partitions)
        self._files.save(batch, state)
        self._taken = batch

    def _acked(self, key: Key, offset: int) -> Rows:
        """Return the acked sends of a partition in the ledger, from an offset on."""
        from ackproof_spark.live.ledger_source import acked

        topic, partition = key
        found = acked(self._run_dir / LOCATION["ledger"], topic, partition, offset)
        return np.concatenate([np.empty(0, EVENTS), *map(event_rows, found)])


def follow(
    spark: SparkSession,
    run_dir: Path,
    *,
    run_id: str,
    events: DataFrame,
    trigger_s: float = TRIGGER_S,
) -> Following:
    """Start the job on `events`, or continue from its checkpoint in `run_dir`."""
    folder = checkpoint(run_dir)
    following = Following(run_dir, run_id, fresh=not folder.exists())
    following.query = (
        events.withColumn("at", F.unix_micros("at"))
        .writeStream.foreachBatch(lambda batch, number: following.take(number, batch.toArrow()))
        .option("checkpointLocation", address(folder))
        .trigger(processingTime=f"{trigger_s:g} seconds")
        .start()
    )
    return following


def _events(rows: pa.Table, key: Key) -> Rows:
    return event_rows(
        rows.filter((pc.field("topic") == key[0]) & (pc.field("partition") == key[1]))
    )


def event_rows(table: pa.Table | pa.RecordBatch) -> Rows:
    """Return events as `partition.EVENTS`."""
    rows = np.empty(table.num_rows, EVENTS)
    for name in EVENTS.names or ():
        rows[name] = table[name].cast(pa.int64()).to_numpy()
    return rows
