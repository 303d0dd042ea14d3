"""A second way to read Kafka, independent of Spark's connector: librdkafka, as a Spark data source.

    register(spark)
    spark.read.format("ackproof-kafka")
        .option("kafka.bootstrap.servers", "broker:9092")
        .option("startingOffsets", '{"orders": {"0": 0}}')
        .option("endingOffsets", '{"orders": {"0": 1000}}')

Two clients that share no line of code and read the same records are evidence that the records are
there, and not that a client has a bug; and a Spark without the connector can read Kafka as well.

The options are those of Spark's connector: offsets per topic and partition as JSON, the end
exclusive; `includeHeaders`; and every setting of the client, prefixed `kafka.`, by librdkafka's
name. The executors' Python needs ackproof and confluent-kafka.

Importing this module imports Spark.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAME = "ackproof-kafka"

_COLUMNS = "topic string, partition int, offset bigint, timestamp timestamp, value binary"
_HEADERS = "headers array<struct<key: string, value: binary>>"
_PREFIX = "kafka."

#: Records of one Arrow batch, and offsets of one task at most.
_BATCH = 10_000
_RANGE = 1_000_000

#: How long brokers may be silent, and how long a log that is shorter than said may take to grow.
_SILENCE_S = 60.0
_SHORT_S = 5.0
_POLL_S = 0.5

_SETTINGS = {
    # A consumer needs the name of a group, although this one neither joins it nor commits to it.
    "group.id": "ackproof-final-log",
    "enable.auto.commit": False,
    # Retention may have moved the beginning; such gaps are the judge's to explain.
    "auto.offset.reset": "earliest",
    # Markers and aborted records are never delivered: only this event says that the end is reached.
    "enable.partition.eof": True,
    # A damaged record is evidence. The client's own check would refuse its whole batch.
    "check.crcs": False,
    "isolation.level": "read_uncommitted",
    "log_level": 0,
}


def register(spark: SparkSession) -> None:
    """Make `spark.read.format(NAME)` known to the session; twice is a no-op."""
    spark.dataSource.register(KafkaSource)


def read_here(options: Mapping[str, str]) -> pa.Table:
    """Return all records that a reader with these options reads, read in this process.

    For what is small: the Python processes that Spark starts for a task take longer.
    """
    import pyarrow as pa

    reader = KafkaReader(options)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches or [_batch((), headers=_wants_headers(options))])


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange(InputPartition):  # type: ignore[misc]  # pyspark is not typed for mypy here
    """What one task reads: offsets from `begin` up to, not including, `end`."""

    topic: str
    partition: int
    begin: int
    end: int


class KafkaSource(DataSource):  # type: ignore[misc]
    """The data source; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> str:
        """Return the columns, a subset of the connector's."""
        return f"{_COLUMNS}, {_HEADERS}" if _wants_headers(self.options) else _COLUMNS

    def reader(self, schema: StructType) -> KafkaReader:
        """Return the reader of a batch."""
        return KafkaReader(dict(self.options))


class KafkaReader(DataSourceReader):  # type: ignore[misc]
    """Reads offset ranges of partitions, each with a consumer of its own."""

    def __init__(self, options: Mapping[str, str]) -> None:
        # Spark gives the names of options in lower case; those of librdkafka are, too.
        options = {key.lower(): value for key, value in options.items()}
        given = {
            key.removeprefix(_PREFIX): value
            for key, value in options.items()
            if key.startswith(_PREFIX)
        }
        self._settings: dict[str, Any] = {**_SETTINGS, **given}
        self._starting = json.loads(options["startingoffsets"])
        self._ending = json.loads(options["endingoffsets"])
        self._headers = _wants_headers(options)

    def partitions(self) -> Sequence[OffsetRange]:
        """Return the ranges to read, none longer than a task should take."""
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
            yield _batch(messages, headers=self._headers)


def _wants_headers(options: Mapping[str, str]) -> bool:
    return str(options.get("includeHeaders", options.get("includeheaders", ""))).lower() == "true"


def _messages(asked: OffsetRange, settings: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Yield the messages of a range in batches, and end when nothing of it can come any more."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    said = "none of them answered"
    consumer = Consumer(dict(settings))
    try:
        consumer.assign([TopicPartition(asked.topic, asked.partition, asked.begin)])
        heard = time.monotonic()
        short_since: float | None = None
        while True:
            found, ended = [], False
            for message in consumer.consume(_BATCH, _POLL_S):
                error = message.error()
                if error is None:
                    found.append(message)
                    short_since = None
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended = message.offset() >= asked.end
                    short_since = time.monotonic()
                else:
                    said = error.str()
            wanted = [m for m in found if asked.begin <= m.offset() < asked.end]
            if wanted:
                yield wanted
            if ended or (found and found[-1].offset() >= asked.end - 1):
                return
            now = time.monotonic()
            if found:
                heard = now
            if short_since is not None:
                if now >= short_since + _SHORT_S:
                    return
            elif now >= heard + _SILENCE_S:
                raise ConnectionError(
                    f"the brokers gave nothing of {asked.topic}-{asked.partition} from offset "
                    f"{asked.begin} for {_SILENCE_S:g} s: {said}"
                )
    finally:
        consumer.close()


def _batch(messages: Sequence[Any], *, headers: bool) -> pa.RecordBatch:
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
        pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
        columns["headers"] = pa.array(
            [
                [{"key": key, "value": value} for key, value in given] if given else None
                for given in (m.headers() for m in messages)
            ],
            pa.list_(pair),
        )
    return pa.RecordBatch.from_pydict(columns)
