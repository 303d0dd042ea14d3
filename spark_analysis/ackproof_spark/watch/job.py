"""The query of a watch: both logs -> state by partition -> findings in a warehouse.

    acked log, topics, looks -> events -> transformWithState -> a batch of findings -> warehouse

A micro-batch replaces its own rows in the warehouse, so that a batch that Spark runs again after a
restart leaves them once. State and offsets are in a checkpoint beside the tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from ackproof_spark.errors import AnalysisError, WarehouseError
from ackproof_spark.record import ID_HEADER
from ackproof_spark.spark.client_settings import for_connector
from ackproof_spark.spark.errors import stream_explained
from ackproof_spark.spark.files import Storage
from ackproof_spark.spark.functions import DataFrame, F, SparkSession, spark_schema, union
from ackproof_spark.warehouse.formats import commented, frame
from ackproof_spark.warehouse.schemas import RUN_DATE, TABLES, WAREHOUSE_VERSION
from ackproof_spark.warehouse.warehouse import Warehouse
from ackproof_spark.watch.blocks import BLOCKS, packed
from ackproof_spark.watch.events import OBSERVED, events
from ackproof_spark.watch.partition import PATIENCE_S, VERSION, Kind

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

TABLE = "watch_findings"

#: Records of all topics that one micro-batch reads at most, and how long a task waits for one.
_AT_MOST = 2_000_000
_POLL_MS = 10_000

_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_HEAD = "watch.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """What is watched. `settings` are librdkafka's; times are seconds.

    `start` has the offsets from which topics are compared, at the first start only. `committed`:
    records are read up to the last stable offset, without those of aborted transactions.
    """

    bootstrap_servers: str
    topics: Sequence[str]
    acked_paths: Sequence[str] = ()
    acked_topics: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    header: str = ID_HEADER
    start: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    committed: bool = False
    patience_s: float = PATIENCE_S
    every_s: float = 5

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same when a watch is continued."""
        return {
            "version": VERSION,
            "topics": sorted(self.topics),
            "acked_topics": sorted(self.acked_topics),
            "header": self.header,
            "committed": self.committed,
        }

    @property
    def name(self) -> str:
        return "-".join(sorted(self.topics))


#: Called after each micro-batch with its findings, and the counts of each partition.
Report = Callable[[Sequence[Mapping[str, Any]], Mapping[tuple[str, int], Mapping[str, Any]]], None]


class Watching:
    """A watch that runs: the query, and what it has counted."""

    def __init__(self, warehouse: Warehouse, options: WatchOptions, report: Report) -> None:
        self._warehouse = warehouse
        self._report = report
        self._folder = f"_watch/{hashlib.sha256(options.name.encode()).hexdigest()[:16]}"
        self._first = True
        #: The last counts of each partition.
        self.partitions: dict[tuple[str, int], dict[str, Any]] = {}
        self.batches = 0
        self.name, start = continued(warehouse.storage, self._folder, options)
        self._options = replace(options, start=start)
        self.query: StreamingQuery = self._start()

    def active(self) -> bool:
        """Return whether the query runs. Raises AnalysisError if it failed."""
        with stream_explained("the watch"):
            if error := self.query.exception():
                raise error
        return bool(self.query.isActive)

    def unread(self) -> int:
        """Return how many lines of the last micro-batches were no sends."""
        found = [
            each["observedMetrics"].get(name)
            for each in self.query.recentProgress
            for name in OBSERVED
        ]
        return sum(row["unread"] for row in found if row)

    def stop(self) -> None:
        """Stop. A watch of the same topics into the same warehouse continues."""
        self.query.stop()

    def restart(self) -> None:
        """Start the query again after a failure."""
        self._first = True
        self.query = self._start()

    def _start(self) -> StreamingQuery:
        spark = self._warehouse.spark
        # The number is part of a checkpoint: Spark keeps that of the first start.
        spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", _STATE_STORE)
        with stream_explained("the watch"):
            return (
                findings(spark, self._options)
                .writeStream.foreachBatch(self._take)
                .outputMode("update")
                .option(
                    "checkpointLocation", f"{self._warehouse.storage.address}/{self._folder}/state"
                )
                .trigger(processingTime=f"{self._options.every_s:g} seconds")
                .start()
            )

    def _take(self, batch: DataFrame, number: int) -> None:
        from ackproof_spark.watch.processor import STATE

        rows = batch.toArrow().to_pylist()
        found = [row for row in rows if row["finding"] != STATE]
        now = {
            (row["topic"], row["partition"]): json.loads(row["send"])
            for row in rows
            if row["finding"] == STATE
        }
        # An earlier attempt of the first batch after a start may have written rows.
        if found or self._first:
            self._write(found, number)
        self._first = False
        self.partitions = {**self.partitions, **now}
        self.batches += 1
        self._report(found, self.partitions)

    def _write(self, found: Sequence[Mapping[str, Any]], number: int) -> None:
        batch = f"{self.name}/{number:09d}"
        whole = []
        for row in found:
            at = datetime.fromtimestamp(row["found_at"] / 1e6, tz=UTC)
            nothing = {name: None for name, value in row.items() if value in (-1, "")}
            own = {"partition_id": row["partition"], "watch": self.name, "found_at": at}
            common = {"run_id": batch, RUN_DATE: at.date(), "schema_version": WAREHOUSE_VERSION}
            whole.append({**row, **nothing, **own, **common})
        spark, tables = self._warehouse.spark, self._warehouse.tables
        with self._warehouse.storage.lock():
            rows = commented(frame(spark, whole, TABLES[TABLE].schema), TABLE)
            tables.replace_runs(TABLE, rows, [batch])


def continued(
    storage: Storage, folder: str, options: WatchOptions
) -> tuple[str, Mapping[str, Mapping[str, int]]]:
    """Return name and first offsets of the watch whose checkpoint is in `folder`, or make it.

    A watch that ended before its first micro-batch, or while a partition was added, goes on from
    the offsets of its first start. Raises WarehouseError if the checkpoint is of another version,
    or the options are others.
    """
    place = f"{folder}/{_HEAD}"
    text = storage.read(place)
    if text is None:
        name = f"{options.name}-{datetime.now(tz=UTC):%Y%m%dT%H%M%S}"
        head = {**options.identity, "name": name, "start": options.start}
        storage.write(f"{place}.new", json.dumps(head) + "\n")
        storage.move(f"{place}.new", place)  # whole or not there, whenever the process ends
        return name, options.start
    try:
        stored = json.loads(text)
        name, start = str(stored["name"]), dict(stored["start"])
    except (ValueError, KeyError, TypeError):
        raise WarehouseError(f"{storage.address}/{place} is damaged: {text[:80]!r}") from None
    for key, value in options.identity.items():
        if stored.get(key) != value:
            raise WarehouseError(
                f"{storage.address}/{folder} is the checkpoint of a watch with {key} "
                f"{stored.get(key)!r}, not {value!r}: continue it as it was started, or delete "
                "this folder, and the watch begins again"
            )
    return name, start


def findings(spark: SparkSession, options: WatchOptions) -> DataFrame:
    """Return the stream of `processor.OUTPUT`."""
    from ackproof_spark.watch.looks import NAME, RAW, LookSource, expanded
    from ackproof_spark.watch.processor import OUTPUT, Processor

    level = "read_committed" if options.committed else "read_uncommitted"
    client = {
        "bootstrap.servers": options.bootstrap_servers,
        **options.settings,
        "isolation.level": level,
    }
    spark.dataSource.register(LookSource)
    looks = (
        spark.readStream.format(NAME)
        .options(**{f"kafka.{key}": value for key, value in client.items()})
        .option("topics", json.dumps(list(options.topics)))
        .option("acked_topics", json.dumps(list(options.acked_topics)))
        .option("paths", json.dumps(list(options.acked_paths)))
        .option("start", json.dumps(options.start))
        .load()
        .mapInArrow(partial(expanded, client=client), spark_schema(RAW))
    )
    # Spark asks sources in this order: a look is never older than the records of its batch.
    records = _topics(spark, options, options.topics, json.dumps(options.start), level)
    read = partial(events, topics=options.topics, header=options.header)
    streams = [read(_of_kind(records, Kind.RECORD))]
    if options.acked_topics:
        acked = _topics(spark, options, options.acked_topics, "earliest", level)
        streams.append(read(_of_kind(acked, Kind.ACK), observed=OBSERVED[1]))
    return (
        union([*streams, read(looks, observed=OBSERVED[0])])
        .mapInArrow(packed, spark_schema(BLOCKS))
        .groupBy("topic", "partition")
        .transformWithStateInPandas(
            Processor(int(options.patience_s * 1e6)), OUTPUT, "Update", "None"
        )
    )


def _of_kind(records: DataFrame, kind: Kind) -> DataFrame:
    """Return records of a topic with the columns of `looks.RAW`."""
    from ackproof_spark.watch.looks import LOOK

    nothing = {name: F.lit(None).cast("bigint") for name in LOOK}
    return records.withColumns({"kind": F.lit(int(kind)), **nothing})


def _topics(
    spark: SparkSession, options: WatchOptions, topics: Sequence[str], start: str, level: str
) -> DataFrame:
    return (
        spark.readStream.format("kafka")
        .options(**for_connector(options.settings))
        .option("kafka.bootstrap.servers", options.bootstrap_servers)
        .option("kafka.isolation.level", level)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", start)
        .option("includeHeaders", "true")
        # Truncations and retention are seen by looks; the query must go on.
        .option("failOnDataLoss", "false")
        .option("kafkaConsumer.pollTimeoutMs", str(_POLL_MS))
        .option("maxOffsetsPerTrigger", str(_AT_MOST))
        .load()
        .select("topic", "partition", "offset", "value", "key", "headers")
        .withColumn("again", F.lit(0).cast("bigint"))
    )


def check_connect(remote: bool) -> None:
    """Raise AnalysisError if Spark is behind Connect, where a query cannot call back."""
    if remote:
        raise AnalysisError(
            "a watch needs Spark's driver in this process; leave out --spark sc://…, or name "
            "local[*] or spark://HOST:PORT"
        )
