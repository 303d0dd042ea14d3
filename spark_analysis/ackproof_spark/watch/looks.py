"""Looks at the cluster and at the files of acked logs, as a Spark stream.

Each micro-batch has one look. It is in the stream's offset, so that Spark gets the same rows of the
same look again after a restart. It has, for each partition, where the log begins and ends, and the
leader epoch. If the epoch is a new one, the records' epochs say where it begins: what was read from
there on is read again, up to where the log had ended before, and some more: Spark's source keeps
records that it has fetched for a later micro-batch, and they may have been replaced since.

A look also has the position in each file of an acked log. Earlier looks are kept as marks, ever
fewer the older they are: after a truncation the acked log is read again from the last mark at which
the partition had at most what is left of it.

Not seen: an old leader's records of an earlier epoch that return in the place of newer ones, after
unclean elections one after another.

Importing this module imports Spark.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from ackproof_spark.reading.kafka_source import SETTINGS, KafkaReader, client_settings
from ackproof_spark.spark.functions import StructType, spark_schema
from ackproof_spark.tables import columns
from ackproof_spark.watch.partition import NONE, WINDOW, Kind

NAME = "ackproof-looks"

#: What a row asks `expanded` to read. Rows of `Kind.LOOK` are passed on.
RECORDS, LINES, TOPIC_LINES = 10, 11, 12

#: The numbers of a look, in the order of the fields of `partition.Look`.
LOOK = ("at", "begin", "start", "reset", "hole", "hole_end", "recreated")

CONTROL = columns(
    "kind int, again bigint, topic string, partition int, first bigint, last bigint, "
    + ", ".join(f"{name} bigint" for name in LOOK)
)
#: Rows of `expanded`: a record, a line of an acked log as its value, or a look.
RAW = pa.schema(
    [
        *columns("kind int, again bigint, topic string?, partition int?, offset bigint?"),
        pa.field("value", pa.binary()),
        pa.field("key", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        *columns(", ".join(f"{name} bigint?" for name in LOOK)),
    ]
)

#: Seconds that brokers may take to answer, and bytes of one file in one micro-batch.
_ANSWER_S = 10.0
_BYTES = 64_000_000
_TAIL = 65_536
#: Bytes of a file that are in memory at once.
_AT_ONCE = 8_000_000

Offset = dict[str, Any]


#: No position in a file or in a partition of an acked topic (`acks/0`).
_NOWHERE: Offset = {"files": {}, "topics": {}}


class LookSource(DataSource):  # type: ignore[misc]  # pyspark is not typed for mypy here
    """Options: `topics`, `acked_topics`, `paths` and `start` in JSON; `kafka.*` for librdkafka."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return spark_schema(CONTROL)

    def simpleStreamReader(self, schema: StructType) -> LookReader:  # noqa: N802  Spark's name
        return LookReader(dict(self.options))


class LookReader(SimpleDataSourceStreamReader):  # type: ignore[misc]
    """Looks once for each micro-batch; without an answer of the cluster time stands still."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._client = client_settings(options)
        self._topics: list[str] = json.loads(options["topics"])
        self._acked_topics: list[str] = json.loads(options["acked_topics"])
        self._paths: list[str] = json.loads(options["paths"])
        self._start: dict[str, dict[str, int]] = json.loads(options["start"])
        self._admin: Any = None

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"number": 0, "at": 0, "partitions": {}, "ids": {}, "acked": _NOWHERE, "marks": []}

    def read(self, start: Offset) -> tuple[Iterator[pa.RecordBatch], Offset]:
        """Look, and return the rows of the look, and the offset with it."""
        end = self._look(start)
        return iter(_rows(start, end)), end

    def readBetweenOffsets(  # noqa: N802
        self, start: Offset, end: Offset
    ) -> Iterator[pa.RecordBatch]:
        return iter(_rows(start, end))

    def _look(self, before: Offset) -> Offset:
        from confluent_kafka import KafkaException

        try:
            ends, acked, ids = self._cluster()
        except (KafkaException, TimeoutError):
            self._admin = None
            return before
        now: Offset = {"number": before["number"] + 1, "at": time.time_ns() // 1000}
        now["ids"] = {**before["ids"], **ids}
        now["acked"] = {"files": self._files(before["acked"]["files"]), "topics": acked}
        # A partition that is not there, as of a deleted topic, may come back.
        now["partitions"] = {
            name: {**each, "reset": NONE, "absent": 1}
            for name, each in before["partitions"].items()
        }
        for name, (begin, end, epoch) in ends.items():
            topic, _, number = name.rpartition("/")
            known = before["ids"].get(topic)
            looked = before["partitions"].get(name)
            now["partitions"][name] = (
                self._first(topic, number, begin, end, epoch)
                if looked is None
                else self._next(
                    name, looked, begin, end, epoch, new=known not in (None, ids[topic])
                )
            )
        cuts = {
            name: each["reset"]
            for name, each in now["partitions"].items()
            if each["reset"] != NONE and not each["recreated"]
        }
        marks = before["marks"]
        now["since"] = min(
            (_mark(marks, name, cut)["number"] for name, cut in cuts.items()), default=NONE
        )
        mark = {
            "number": now["number"],
            "ends": {name: each["top"] for name, each in now["partitions"].items()},
            "acked": now["acked"],
        }
        now["marks"] = [*(each for each in marks if _kept(each["number"], now["number"])), mark]
        # What is read again comes from the mark, which may be dropped now.
        now["again"] = next(
            (each["acked"] for each in before["marks"] if each["number"] == now["since"]), _NOWHERE
        )
        return now

    def _first(self, topic: str, number: str, begin: int, end: int, epoch: int) -> Offset:
        start = self._start.get(topic, {}).get(number, begin)
        top = max(end, start)
        return _partition(begin=begin, start=start, epoch=epoch, top=top)

    def _next(
        self, name: str, before: Offset, begin: int, end: int, epoch: int, *, new: bool
    ) -> Offset:
        top, hole_end = before["top"], before["hole_end"]
        cut = NONE
        if new:
            cut = begin
        elif epoch > before["epoch"] or end < top:
            cut = min(end, self._newer(name, begin, min(end, top), before["epoch"]))
        start = 0 if new else before["start"]
        if cut == NONE:
            first = before["hole"]
            last = min(end, hole_end)
        else:
            first = max(cut, start)
            if before["hole"] < hole_end:
                first = min(first, before["hole"])
            # Of what comes next, Spark may still have what it fetched from the leader before.
            hole_end = max(top, end, hole_end) + WINDOW
            last = min(end, hole_end)
        return _partition(
            begin=begin,
            start=start,
            epoch=max(epoch, before["epoch"]) if not new else epoch,
            top=end if cut != NONE else max(top, end),
            reset=cut,
            hole=max(first, last) if first < hole_end else hole_end,
            hole_end=hole_end,
            first=first,
            last=last,
            recreated=int(new),
        )

    def _newer(self, name: str, begin: int, end: int, epoch: int) -> int:
        """Return the first offset below `end` of an epoch above `epoch`, else `end`."""
        from confluent_kafka import Consumer

        topic, _, number = name.rpartition("/")
        consumer = Consumer({**SETTINGS, **self._client})
        try:
            low, high = begin, end
            probe = end - 1  # usually nothing was replaced
            while low < high:
                if _epoch_at(consumer, topic, int(number), probe) <= epoch:
                    low = probe + 1
                else:
                    high = probe
                probe = (low + high) // 2
            return low
        finally:
            consumer.close()

    def _cluster(self) -> tuple[dict[str, tuple[int, int, int]], dict[str, int], dict[str, str]]:
        """Return begin, end and epoch of each partition, ends of acked topics, ids of topics."""
        from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
        from confluent_kafka.admin import AdminClient, OffsetSpec

        if self._admin is None:
            self._admin = AdminClient({"log_level": 0, **self._client_of_admin()})
        admin = self._admin
        # Otherwise librdkafka asks with the epochs that it knows, which brokers refuse.
        known = admin.list_topics(timeout=_ANSWER_S).topics
        every = [*self._topics, *self._acked_topics]
        asked = [TopicPartition(t, p) for t in every if t in known for p in known[t].partitions]
        committed = self._client.get("isolation.level") == "read_committed"
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

        def ask(spec: Any) -> dict[TopicPartition, Future[Any]]:
            return dict(
                admin.list_offsets(
                    dict.fromkeys(asked, spec), isolation_level=level, request_timeout=_ANSWER_S
                )
            )

        begins, latest = ask(OffsetSpec.earliest()), ask(OffsetSpec.latest())
        found: dict[str, tuple[int, int, int]] = {}
        acked: dict[str, int] = {}
        for place in asked:
            begin, end = begins[place].result(_ANSWER_S), latest[place].result(_ANSWER_S)
            epoch = NONE if end.leader_epoch is None else end.leader_epoch
            name = f"{place.topic}/{place.partition}"
            if place.topic in self._topics:
                found[name] = (begin.offset, end.offset, epoch)
            else:
                acked[name] = end.offset
        described = admin.describe_topics(
            TopicCollection([t for t in self._topics if t in known]), request_timeout=_ANSWER_S
        )
        ids = {topic: str(one.result(_ANSWER_S).topic_id) for topic, one in described.items()}
        return found, acked, ids

    def _client_of_admin(self) -> dict[str, str]:
        return {key: value for key, value in self._client.items() if key != "isolation.level"}

    def _files(self, before: Mapping[str, int]) -> dict[str, int]:
        """Return the end of the last whole line of each file; a shorter file is a new one."""
        positions = {}
        for path in self._paths:
            place = Path(path)
            files = sorted(place.rglob("*.jsonl")) if place.is_dir() else [place]
            for file in files:
                position = before.get(str(file), 0)
                positions[str(file)] = _whole_lines(file, position)
        return positions


def _whole_lines(file: Path, position: int) -> int:
    """Return where the last whole line ends, at most `_BYTES` behind `position`."""
    try:
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            position = 0 if size < position else position
            end = min(size, position + _BYTES)
            while end > position:
                begin = max(position, end - _TAIL)
                opened.seek(begin)
                if (newline := opened.read(end - begin).rfind(b"\n")) >= 0:
                    return begin + newline + 1
                end = begin
    except OSError:  # it was moved or deleted: what was read of it stays
        pass
    return position


def _epoch_at(consumer: Any, topic: str, partition: int, offset: int) -> int:
    """Return the epoch of the first record from `offset` on; of none, one above all others."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    consumer.assign([TopicPartition(topic, partition, offset)])
    until = time.monotonic() + _ANSWER_S
    while time.monotonic() < until:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is None:
            epoch = message.leader_epoch()
            return NONE if epoch is None else int(epoch)
        if message.error().code() == KafkaError._PARTITION_EOF:
            return 2**31
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def _partition(**known: int) -> Offset:
    defaults = {"reset": NONE, "hole": 0, "hole_end": 0, "first": 0, "last": 0, "recreated": 0}
    return {**defaults, **known}


def _mark(marks: list[Offset], name: str, cut: int) -> Offset:
    """Return the last mark at which the partition ended at or below `cut`, else the first."""
    fitting = [each for each in marks if each["ends"].get(name, cut + 1) <= cut]
    return (fitting or marks)[-1 if fitting else 0]


def _kept(number: int, now: int) -> bool:
    """Whether a mark is kept: all of the last few, then ever fewer, and the first."""
    return number == 1 or now - number <= 4 * (number & -number)


def _rows(start: Offset, end: Offset) -> list[pa.RecordBatch]:
    """Return the rows of the look in `end`; `start` is the offset before it."""
    if end["number"] == start["number"]:
        return []
    none = dict.fromkeys(CONTROL.names, 0) | {"topic": ""}
    rows: list[dict[str, Any]] = []
    for name, each in end["partitions"].items():
        if each.get("absent"):
            continue
        topic, _, number = name.rpartition("/")
        place = {**none, "topic": topic, "partition": int(number)}
        seen = {column: each[column] for column in LOOK if column in each}
        rows.append({**place, "kind": int(Kind.LOOK), "at": end["at"], **seen})
        if each["first"] < each["last"]:
            rows.append({**place, "kind": RECORDS, "first": each["first"], "last": each["last"]})
    for kind, where in ((LINES, "files"), (TOPIC_LINES, "topics")):
        for name, position in end["acked"][where].items():
            before = start["acked"][where].get(name, 0)
            line = {**none, "kind": kind, "topic": name, "last": position}
            if kind == LINES and position != before:  # Spark reads the topics itself
                rows.append({**line, "first": before if before < position else 0})
            if end["since"] != NONE and (first := end["again"][where].get(name, 0)) < position:
                rows.append({**line, "first": first, "again": 1})
    return [pa.RecordBatch.from_pylist(rows, schema=CONTROL)]


def expanded(
    batches: Iterator[pa.RecordBatch], client: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield looks as they are, and the records and lines that other rows ask for, as `RAW`."""

    def raw(table: pa.Table, **constant: int) -> Iterator[pa.RecordBatch]:
        arrays = []
        for field in RAW:
            if field.name in constant:
                value = pa.scalar(constant[field.name], field.type)
                arrays.append(pa.repeat(value, table.num_rows))
            elif field.name in table.column_names:
                arrays.append(table[field.name].combine_chunks().cast(field.type))
            else:
                arrays.append(pa.nulls(table.num_rows, field.type))
        yield from pa.Table.from_arrays(arrays, schema=RAW).to_batches()

    for batch in batches:
        for row in batch.to_pylist():
            kind, topic, again = row["kind"], row["topic"], row["again"]
            if kind == Kind.LOOK:
                yield from raw(pa.Table.from_pylist([row]))
            elif kind == LINES:
                for lines in _lines(topic, row["first"], row["last"]):
                    yield from raw(lines, kind=Kind.ACK, again=again)
            else:
                number = row["partition"]
                if kind == TOPIC_LINES:
                    topic, _, text = topic.rpartition("/")
                    number = int(text)
                reader = KafkaReader(
                    {f"kafka.{key}": value for key, value in client.items()}
                    | {
                        "startingOffsets": json.dumps({topic: {str(number): row["first"]}}),
                        "endingOffsets": json.dumps({topic: {str(number): row["last"]}}),
                        "includeHeaders": "true",
                    }
                )
                read = Kind.ACK if kind == TOPIC_LINES else Kind.RECORD
                for part in reader.partitions():
                    for records in reader.read(part):
                        yield from raw(pa.Table.from_batches([records]), kind=read, again=1)


def _lines(path: str, first: int, last: int) -> Iterator[pa.Table]:
    """Yield the lines of a file between two positions; none if it is gone.

    Lines keep their ends: so they are what was read, without a copy of each.
    """
    rest = b""
    try:
        with Path(path).open("rb") as file:
            file.seek(first)
            while data := file.read(min(_AT_ONCE, last - file.tell())):
                data = rest + data
                ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
                places = np.append(0, ends).astype(np.int32)
                rest = data[places[-1] :]
                buffers = [None, pa.py_buffer(places), pa.py_buffer(data)]
                yield pa.table({"value": pa.Array.from_buffers(pa.binary(), len(ends), buffers)})
    except FileNotFoundError:
        return
