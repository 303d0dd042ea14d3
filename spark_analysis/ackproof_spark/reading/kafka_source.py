"""A Spark data source that reads Kafka with librdkafka, independent of Spark's connector.

    register(spark)
    spark.read.format("ackproof-kafka")
        .option("kafka.bootstrap.servers", "broker:9092")
        .option("startingOffsets", '{"orders": {"0": 0}}')
        .option("endingOffsets", '{"orders": {"0": 1000}}')

If two clients that share no code read the same records, a bug of one client is ruled out. A Spark
without the connector can read Kafka, too.

The options are those of Spark's connector: offsets by topic and partition as JSON, the end
exclusive; `includeHeaders` (here also the key); and every setting of librdkafka, prefixed `kafka.`.
The executors' Python needs ackproof and confluent-kafka. Importing this module imports Spark.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ackproof_spark.reading.record_columns import IDENTITY_COLUMNS, RECORD_COLUMNS
from ackproof_spark.spark.functions import SparkSession, StructType

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "ackproof-kafka"

_PREFIX = "kafka."

#: Records of one Arrow batch, and offsets of one task at most.
_BATCH = 10_000
_RANGE = 1_000_000

#: Threads of `fetch`.
_THREADS = 4

#: How long brokers may be silent, and how long to wait at the end of a log that is too short.
_SILENCE_S = 60.0
_SHORT_S = 5.0
_POLL_S = 0.05

SETTINGS = {
    # A consumer needs a group id, although this one neither joins the group nor commits.
    "group.id": "ackproof-final-log",
    "enable.auto.commit": False,
    # Retention may have moved the beginning; the checks explain such gaps.
    "auto.offset.reset": "earliest",
    # Markers and aborted records are never delivered: only this event shows the end.
    "enable.partition.eof": True,
    # A damaged record is evidence. The client's own check would reject its whole batch.
    "check.crcs": False,
    # A request at the end of a partition would wait half a second for new records.
    "fetch.wait.max.ms": 10,
    "isolation.level": "read_uncommitted",
    "log_level": 0,
}


def register(spark: SparkSession) -> None:
    """Register `spark.read.format(NAME)` in the session; a second call is a no-op."""
    spark.dataSource.register(KafkaSource)


def read_here(options: Mapping[str, str]) -> pa.Table:
    """Read all records of these options in this process.

    For small logs, starting Python processes for Spark tasks takes longer than reading.
    """
    import pyarrow as pa

    reader = KafkaReader(options)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches or [as_batch((), headers=_includes_headers(options))])


def fetch(options: Mapping[str, str], folder: Path) -> None:
    """Read all records of these options in threads of this process, into Parquet files.

    Spark can read the same log meanwhile. Raises ConnectionError if brokers stay silent.
    """
    import pyarrow.parquet as pq

    reader = KafkaReader(options)
    parts = reader.partitions()
    schema = as_batch((), headers=_includes_headers(options)).schema

    def take(number: int) -> None:
        place = folder / f"part-{number:05}.parquet"
        with pq.ParquetWriter(place, schema, compression="none", use_dictionary=False) as writer:
            for batch in reader.read(parts[number]):
                writer.write_batch(batch)

    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        list(pool.map(take, range(len(parts))))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange(InputPartition):  # type: ignore[misc]  # pyspark is not typed for mypy here
    """The offsets that one task reads; `end` is exclusive."""

    topic: str
    partition: int
    begin: int
    end: int


class KafkaSource(DataSource):  # type: ignore[misc]
    """The data source; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        """Return the columns, a subset of those of Spark's connector."""
        headers = _includes_headers(self.options)
        return f"{RECORD_COLUMNS}, {IDENTITY_COLUMNS}" if headers else RECORD_COLUMNS

    def reader(self, schema: StructType) -> KafkaReader:
        return KafkaReader(dict(self.options))


class KafkaReader(DataSourceReader):  # type: ignore[misc]
    """Reads offset ranges of partitions, each with a consumer of its own."""

    def __init__(self, options: Mapping[str, str]) -> None:
        # Spark passes option names in lower case; librdkafka's names are lower case, too.
        options = {key.lower(): value for key, value in options.items()}
        self._settings: dict[str, Any] = {**SETTINGS, **client_settings(options)}
        self._starting = json.loads(options["startingoffsets"])
        self._ending = json.loads(options["endingoffsets"])
        self._headers = _includes_headers(options)

    def partitions(self) -> Sequence[OffsetRange]:
        """Return ranges of at most `_RANGE` offsets."""
        return [
            OffsetRange(
                topic=topic, partition=int(partition), begin=begin, end=min(begin + _RANGE, end)
            )
            for topic, ends in self._ending.items()
            for partition, end in ends.items()
            for begin in range(self._starting[topic][partition], end, _RANGE)
        ]

    def read(self, partition: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range; raise ConnectionError if brokers stay silent."""
        for messages in _messages(partition, self._settings):
            yield as_batch(messages, headers=self._headers)


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the client settings among the options, without their prefix."""
    return {
        key.removeprefix(_PREFIX): value
        for key, value in options.items()
        if key.startswith(_PREFIX)
    }


def _includes_headers(options: Mapping[str, str]) -> bool:
    return str(options.get("includeHeaders", options.get("includeheaders", ""))).lower() == "true"


def _messages(offsets: OffsetRange, settings: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Yield the messages of a range in batches, until its end is reached."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    problem = "none of them answered"
    consumer = Consumer(dict(settings))
    try:
        consumer.assign([TopicPartition(offsets.topic, offsets.partition, offsets.begin)])
        last_message = time.monotonic()
        short_since: float | None = None
        while True:
            messages, ended = [], False
            for message in consumer.consume(_BATCH, _POLL_S):
                error = message.error()
                if error is None:
                    messages.append(message)
                    short_since = None
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended = message.offset() >= offsets.end
                    short_since = time.monotonic()
                else:
                    problem = error.str()
            inside = [m for m in messages if offsets.begin <= m.offset() < offsets.end]
            if inside:
                yield inside
            if ended or (messages and messages[-1].offset() >= offsets.end - 1):
                return
            now = time.monotonic()
            if messages:
                last_message = now
            if short_since is not None:
                if now >= short_since + _SHORT_S:
                    return
            elif now >= last_message + _SILENCE_S:
                raise ConnectionError(
                    f"the brokers returned nothing of {offsets.topic}-{offsets.partition} from "
                    f"offset {offsets.begin} for {_SILENCE_S:g} s: {problem}"
                )
    finally:
        consumer.close()


def as_batch(messages: Sequence[Any], *, headers: bool = False) -> pa.RecordBatch:
    """Return messages of librdkafka as rows."""
    import pyarrow as pa

    columns = {
        "topic": pa.array([m.topic() for m in messages], pa.string()),
        "partition": pa.array([m.partition() for m in messages], pa.int32()),
        "offset": pa.array([m.offset() for m in messages], pa.int64()),
        "timestamp": pa.array(
            [1000 * m.timestamp()[1] for m in messages], pa.timestamp("us", tz="UTC")
        ),
        "value": pa.array([m.value() for m in messages], pa.binary()),
    }
    if headers:
        columns["key"] = pa.array([m.key() for m in messages], pa.binary())
        pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
        columns["headers"] = pa.array(
            [
                [{"key": key, "value": value} for key, value in given] if given else None
                for given in (m.headers() for m in messages)
            ],
            pa.list_(pair),
        )
    return pa.RecordBatch.from_pydict(columns)
