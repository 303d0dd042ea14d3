"""The run's topics as a Spark stream, read with librdkafka.

Not with Spark's own connector: before every micro-batch it asks the brokers for the ends of all
partitions, so that one broker that died stops the whole query, the ledger included, until it is
back, or ends it when the client's timeout is over (docs/live.md). Here one consumer stays
connected; a partition without a leader gives nothing, and the others go on. librdkafka compares
the leader epoch of its position with the log (KIP-320) and reports that it was truncated.

An offset says of each partition where to read on, and the leader epoch of the record before.

Importing this module imports Spark.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from ackproof_spark.tables import TIME

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME = "ackproof-topics"

_PREFIX = "kafka."

#: How long one micro-batch collects, and how many records it takes at most.
_COLLECT_S = 0.2
_AT_MOST = 200_000
_CHUNK = 10_000

#: How long brokers may take to answer a question, and to give again what they gave before.
_ANSWER_S = 2.0
_AGAIN_S = 60.0

_SETTINGS = {
    # A consumer needs the name of a group, although this one neither joins it nor commits to it.
    "group.id": "ackproof-live",
    "enable.auto.commit": False,
    # Report a position that the log no longer has, do not move on in silence.
    "auto.offset.reset": "error",
    "enable.partition.eof": False,
    # A damaged record is evidence. The client's own check would refuse its whole batch.
    "check.crcs": False,
    "isolation.level": "read_uncommitted",
    "fetch.wait.max.ms": 100,
    "reconnect.backoff.max.ms": 500,
    "log_level": 0,
}

_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIME),
        pa.field("value", pa.binary()),
    ]
)

#: Of each topic, of each partition (as text): the next offset, and the epoch of the one before.
Offset = dict[str, dict[str, list[int]]]


class TopicSource(DataSource):  # type: ignore[misc]  # pyspark is not typed for mypy here
    """Options: `topics`, a JSON list (empty: all but internal ones); `kafka.…`, librdkafka's."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns that `final_log.parse_records` takes."""
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(_SCHEMA)

    def simpleStreamReader(self, schema: StructType) -> TopicReader:  # noqa: N802  Spark's name
        """Return the reader."""
        options = dict(self.options)
        settings = {
            key.removeprefix(_PREFIX): value
            for key, value in options.items()
            if key.startswith(_PREFIX)
        }
        return TopicReader({**_SETTINGS, **settings}, json.loads(options.get("topics", "[]")))


class TopicReader(SimpleDataSourceStreamReader):  # type: ignore[misc]
    """Reads what has come since an offset, with a consumer that stays."""

    def __init__(self, settings: dict[str, Any], topics: Sequence[str]) -> None:
        self._settings = settings
        self._topics = topics
        self._consumer: Any = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the offset of nothing: every partition from its beginning."""
        return {}

    def read(self, start: Offset) -> tuple[Iterator[pa.RecordBatch], Offset]:
        """Return what has come since `start`, as far as it is here, and the offset after it."""
        end = {topic: dict(partitions) for topic, partitions in start.items()}
        if self._consumer is None and not self._assign(start):
            return iter(()), end
        batches = []
        taken = 0
        moved: set[tuple[str, int]] = set()
        until = time.monotonic() + _COLLECT_S
        messages: list[Any] = []
        # A full chunk says that more is waiting.
        while taken < _AT_MOST and (time.monotonic() < until or len(messages) == _CHUNK):
            messages = self._consumer.consume(_CHUNK, max(0.0, until - time.monotonic()))
            good = [m for m in messages if m.error() is None]
            # After a truncation a partition goes on in the next micro-batch: in one and the same,
            # what stood there before and what stands there now could not be told apart.
            good = [m for m in good if (m.topic(), m.partition()) not in moved]
            for m in good:
                end.setdefault(m.topic(), {})[str(m.partition())] = _after(m)
            for m in messages:
                if m.error() is not None and (position := self._moved(m, end)) is not None:
                    end.setdefault(m.topic(), {})[str(m.partition())] = [position, -1]
                    moved.add((m.topic(), m.partition()))
            if good:
                batches.append(_batch(good))
                taken += len(good)
        if moved:
            self._seek(moved, end)
        return iter(batches), end

    def readBetweenOffsets(  # noqa: N802
        self, start: Offset, end: Offset
    ) -> Iterator[pa.RecordBatch]:
        """Yield what stands between two offsets now; raise ConnectionError if brokers are silent.

        What was truncated since then is not there any more, and what replaced it is.
        """
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        ranges = {
            (topic, int(partition)): (start.get(topic, {}).get(partition, [0])[0], upto[0])
            for topic, partitions in end.items()
            for partition, upto in partitions.items()
        }
        wanted = {place: (first, stop) for place, (first, stop) in ranges.items() if stop > first}
        consumer = Consumer(
            {**self._settings, "enable.partition.eof": True, "auto.offset.reset": "earliest"}
        )
        try:
            consumer.assign(
                [TopicPartition(*place, r[0] or OFFSET_BEGINNING) for place, r in wanted.items()]
            )
            give_up = time.monotonic() + _AGAIN_S
            while wanted:
                if time.monotonic() > give_up:
                    raise ConnectionError(
                        f"brokers gave nothing of {sorted(wanted)} for {_AGAIN_S:g} s"
                    )
                found = []
                for m in consumer.consume(_CHUNK, 0.5):
                    place = (m.topic(), m.partition())
                    if m.error() is not None:
                        if m.error().code() == KafkaError._PARTITION_EOF:
                            wanted.pop(place, None)
                        continue
                    if place in wanted:
                        if m.offset() < wanted[place][1]:
                            found.append(m)
                        if m.offset() >= wanted[place][1] - 1:
                            del wanted[place]
                if found:
                    give_up = time.monotonic() + _AGAIN_S
                    yield _batch(found)
        finally:
            consumer.close()

    def stop(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()

    def _assign(self, start: Offset) -> bool:
        """Make the consumer; False while no broker tells what the topics are."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

        consumer = Consumer(self._settings)
        try:
            known = consumer.list_topics(timeout=_ANSWER_S).topics
        except KafkaException:
            known = {}
        topics = self._topics or [name for name in known if not name.startswith("__")]
        if not topics or any(name not in known for name in topics):
            consumer.close()
            return False
        places = []
        for topic in topics:
            for partition in known[topic].partitions:
                offset, epoch = start.get(topic, {}).get(str(partition), [OFFSET_BEGINNING, -1])
                known_epoch = {"leader_epoch": epoch} if epoch >= 0 else {}
                places.append(TopicPartition(topic, partition, offset, **known_epoch))
        consumer.assign(places)
        self._consumer = consumer
        return True

    def _moved(self, message: Any, end: Offset) -> int | None:
        """Return where to read on if the log no longer has the position; None for other errors."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        error = message.error()
        if error.code() not in (
            KafkaError._LOG_TRUNCATION,
            KafkaError._AUTO_OFFSET_RESET,
            KafkaError.OFFSET_OUT_OF_RANGE,
        ):
            return None
        position: int = end.get(message.topic(), {}).get(str(message.partition()), [0, -1])[0]
        told = re.search(r"broker end offset is (\d+)", error.str())
        if told is not None:
            return int(min(position, int(told[1])))
        place = TopicPartition(message.topic(), message.partition())
        try:
            low, high = self._consumer.get_watermark_offsets(place, timeout=_ANSWER_S)
        except KafkaException:
            return position  # asked again with the next error
        return int(max(low, min(position, high)))

    def _seek(self, moved: set[tuple[str, int]], end: Offset) -> None:
        from confluent_kafka import TopicPartition

        self._consumer.incremental_unassign([TopicPartition(*place) for place in moved])
        self._consumer.incremental_assign(
            [TopicPartition(t, p, end[t][str(p)][0]) for t, p in moved]
        )


def _after(message: Any) -> list[int]:
    epoch = message.leader_epoch()
    return [message.offset() + 1, -1 if epoch is None else epoch]


def _batch(messages: Sequence[Any]) -> pa.RecordBatch:
    columns = [
        pa.array([m.topic() for m in messages], pa.string()),
        pa.array([m.partition() for m in messages], pa.int32()),
        pa.array([m.offset() for m in messages], pa.int64()),
        pa.array([1000 * m.timestamp()[1] for m in messages], pa.int64()).cast(TIME),
        pa.array([m.value() for m in messages], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
