"""The run's topics as a Spark stream, read with librdkafka.

Spark's own connector is no alternative: before every micro-batch it asks the brokers for the end
offsets of all partitions. One dead broker stops the whole query, the ledger included, until it is
back, or fails it when the client's timeout is over (docs/how-to/live.md). Here one consumer stays
connected; a partition without a leader yields nothing, and the others continue. librdkafka compares
the leader epoch of its position with the log (KIP-320) and reports truncation.

A Spark offset has, for each partition, the next offset and the leader epoch of the last record.

Importing this module imports Spark.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from ackproof_spark.reading.kafka_source import (
    SETTINGS,
    KafkaReader,
    as_batch,
    client_settings,
)
from ackproof_spark.reading.record_columns import RECORD_COLUMNS
from ackproof_spark.spark.functions import StructType

NAME = "ackproof-topics"

#: Seconds for which a micro-batch collects records, records that it takes at most, and records
#: that it asks the client for at once.
_COLLECT_S = 0.2
_AT_MOST = 200_000
_CHUNK = 10_000

#: Seconds that brokers may take to answer a request for metadata.
_ANSWER_S = 2.0

_SETTINGS = {
    **SETTINGS,
    "group.id": "ackproof-live",
    # Report an error for a position that the log no longer has.
    "auto.offset.reset": "error",
    "enable.partition.eof": False,
    "fetch.wait.max.ms": 100,
    "reconnect.backoff.max.ms": 500,
}

#: By topic and partition (as text): the next offset, and the leader epoch of the last record.
Offset = dict[str, dict[str, list[int]]]


class TopicSource(DataSource):  # type: ignore[misc]  # pyspark is not typed for mypy here
    """Options: `topics`, a JSON list (empty: all but internal ones); `kafka.*` for librdkafka."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return RECORD_COLUMNS

    def simpleStreamReader(self, schema: StructType) -> TopicReader:  # noqa: N802  Spark's name
        options = dict(self.options)
        return TopicReader(client_settings(options), json.loads(options.get("topics", "[]")))


class TopicReader(SimpleDataSourceStreamReader):  # type: ignore[misc]
    """Reads the records since an offset, with one consumer that stays connected.

    `client` are librdkafka's settings, in addition to `_SETTINGS`.
    """

    def __init__(self, client: Mapping[str, Any], topics: Sequence[str]) -> None:
        self._client = client
        self._topics = topics
        self._consumer: Any = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the offset from which every partition is read from its start."""
        return {}

    def read(self, start: Offset) -> tuple[Iterator[pa.RecordBatch], Offset]:
        """Return the records that have arrived since `start`, and the offset after them."""
        end = {topic: dict(partitions) for topic, partitions in start.items()}
        if self._consumer is None and not self._assign(start):
            return iter(()), end
        batches = []
        count = 0
        moved: set[tuple[str, int]] = set()
        until = time.monotonic() + _COLLECT_S
        messages: list[Any] = []
        # After a full chunk there may be more records in the client's queue.
        while count < _AT_MOST and (time.monotonic() < until or len(messages) == _CHUNK):
            messages = self._consumer.consume(_CHUNK, max(0.0, until - time.monotonic()))
            good = [m for m in messages if m.error() is None]
            # After a truncation a partition continues in the next micro-batch: within one, the old
            # and the new records at the same offsets could not be told apart.
            good = [m for m in good if (m.topic(), m.partition()) not in moved]
            for m in good:
                end.setdefault(m.topic(), {})[str(m.partition())] = _after(m)
            for m in messages:
                if m.error() is not None and (position := self._moved(m, end)) is not None:
                    end.setdefault(m.topic(), {})[str(m.partition())] = [position, -1]
                    moved.add((m.topic(), m.partition()))
            if good:
                batches.append(as_batch(good))
                count += len(good)
        if moved:
            self._seek(moved, end)
        return iter(batches), end

    def readBetweenOffsets(  # noqa: N802
        self, start: Offset, end: Offset
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records between two offsets as the log has them now.

        Records that were truncated in between are missing, and those that replaced them are here.
        Raises ConnectionError if the brokers do not answer.
        """
        starting = {
            topic: {partition: start.get(topic, {}).get(partition, [0])[0] for partition in parts}
            for topic, parts in end.items()
        }
        ending = {
            topic: {partition: stop for partition, (stop, _) in parts.items()}
            for topic, parts in end.items()
        }
        reader = KafkaReader(
            {f"kafka.{key}": value for key, value in self._client.items()}
            | {"startingOffsets": json.dumps(starting), "endingOffsets": json.dumps(ending)}
        )
        for part in reader.partitions():
            yield from reader.read(part)

    def stop(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()

    def _assign(self, start: Offset) -> bool:
        """Create the consumer; return False while no broker has metadata of the topics."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

        consumer = Consumer({**_SETTINGS, **self._client})
        try:
            known = consumer.list_topics(timeout=_ANSWER_S).topics
        except KafkaException:
            known = {}
        topics = self._topics or [name for name in known if not name.startswith("__")]
        if not topics or any(name not in known for name in topics):
            consumer.close()
            return False
        positions = []
        for topic in topics:
            for partition in known[topic].partitions:
                offset, epoch = start.get(topic, {}).get(str(partition), [OFFSET_BEGINNING, -1])
                known_epoch = {"leader_epoch": epoch} if epoch >= 0 else {}
                positions.append(TopicPartition(topic, partition, offset, **known_epoch))
        consumer.assign(positions)
        self._consumer = consumer
        return True

    def _moved(self, message: Any, end: Offset) -> int | None:
        """Return the new position if the log no longer has the old one; None for other errors."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        error = message.error()
        if error.code() not in (
            KafkaError._LOG_TRUNCATION,
            KafkaError._AUTO_OFFSET_RESET,
            KafkaError.OFFSET_OUT_OF_RANGE,
        ):
            return None
        position: int = end.get(message.topic(), {}).get(str(message.partition()), [0, -1])[0]
        log_end = re.search(r"broker end offset is (\d+)", error.str())
        if log_end is not None:
            return int(min(position, int(log_end[1])))
        partition = TopicPartition(message.topic(), message.partition())
        try:
            low, high = self._consumer.get_watermark_offsets(partition, timeout=_ANSWER_S)
        except KafkaException:
            return position  # the next error repeats the request
        return int(max(low, min(position, high)))

    def _seek(self, moved: set[tuple[str, int]], end: Offset) -> None:
        from confluent_kafka import TopicPartition

        self._consumer.incremental_unassign([TopicPartition(*partition) for partition in moved])
        self._consumer.incremental_assign(
            [TopicPartition(t, p, end[t][str(p)][0]) for t, p in moved]
        )


def _after(message: Any) -> list[int]:
    epoch = message.leader_epoch()
    return [message.offset() + 1, -1 if epoch is None else epoch]
