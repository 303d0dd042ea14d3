"""Lines and records as rows, in Spark."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pyarrow as pa
import pytest

from ackproof_spark.record import ID_HEADER
from ackproof_spark.spark.functions import DataFrame, F, SparkSession, spark_schema, union
from ackproof_spark.watch.events import events
from ackproof_spark.watch.looks import LOOK, RAW
from ackproof_spark.watch.partition import NONE, Kind

pytestmark = pytest.mark.spark

DIGEST = hashlib.sha256(b"x").hexdigest()


def line(**keys: Any) -> dict[str, Any]:
    """Return a line of an acked log with its end."""
    sent = {"topic": "orders", "partition": 0, **keys}
    return {"kind": Kind.ACK, "value": json.dumps(sent).encode() + b"\n"}


def record(offset: int, identity: str | None, key: bytes | None = None) -> dict[str, Any]:
    headers = None if identity is None else [{"key": ID_HEADER, "value": identity.encode()}]
    place = {"topic": "orders", "partition": 0, "offset": offset}
    return {"kind": Kind.RECORD, **place, "value": b"x", "key": key, "headers": headers}


ROWS = [
    line(offset=0, id="p:17"),
    line(offset=1, id="p/18"),
    line(offset=2, id="a:b"),
    line(digest=DIGEST, key="k"),
    line(offset=4, name="producer_send_success", value="x"),
    line(offset=5, id="p:19", outcome="failed"),
    line(offset=6, id="p:20", topic="others"),
    {"kind": Kind.ACK, "value": b" \n"},
    {"kind": Kind.ACK, "value": b"no line\n"},
    record(0, "p:17"),
    record(1, "p/18"),
    record(2, "a:b"),
    record(3, None, b"k"),
    {
        "kind": Kind.LOOK,
        "topic": "orders",
        "partition": 0,
        **dict(zip(LOOK, range(7), strict=True)),
    },
]


@pytest.fixture(scope="module")
def raw(spark: SparkSession) -> DataFrame:
    empty = {"again": 0, **dict.fromkeys(name for name in RAW.names if name != "again")}
    rows = [{**empty, **row, "kind": int(row["kind"])} for row in ROWS]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=RAW), spark_schema(RAW))


def found(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=str)


def test_a_send_and_its_record_have_the_same_numbers(raw: DataFrame) -> None:
    rows = found(events(raw, topics=["orders"], header=ID_HEADER))
    acks, records = (
        {row["offset"]: row for row in rows if row["kind"] == kind}
        for kind in (Kind.ACK, Kind.RECORD)
    )
    assert set(acks) == {0, 1, 2, NONE, 4}
    assert [acks[offset]["text"] for offset in (0, 2, NONE, 4)] == [
        *("id p:17", "id a:b", "key k", f"digest {DIGEST}")
    ]
    for offset in (0, 1, 2):
        for name in ("id", "producer", "sequence"):
            assert acks[offset][name] == records[offset][name]
    assert [records[offset]["sequence"] for offset in range(4)] == [17, 18, NONE, NONE]
    assert records[0]["producer"] == records[1]["producer"] != records[2]["producer"]
    assert [acks[offset]["parts"] for offset in (0, NONE, 4)] == [1, 6, 2]
    assert acks[NONE]["digest"] == acks[4]["digest"] == records[3]["digest"] != 0
    assert acks[NONE]["key"] == records[3]["key"] != 0
    [look] = [row for row in rows if row["kind"] == Kind.LOOK]
    assert list(look.values())[3:10] == list(range(7))


def test_rows_of_one_kind_are_the_same_if_spark_knows_the_kind(raw: DataFrame) -> None:
    all_kinds = events(raw, topics=["orders"], header=ID_HEADER)
    each = union(
        events(
            raw.where(F.col("kind") == kind).withColumn("kind", F.lit(kind)),
            topics=["orders"],
            header=ID_HEADER,
        )
        for kind in map(int, Kind)
    )
    assert found(each) == found(all_kinds)


def test_lines_that_are_no_sends_are_counted_and_empty_ones_are_not(raw: DataFrame) -> None:
    from pyspark.sql import Observation

    counted = Observation("counted")
    events(raw, topics=["orders"], header=ID_HEADER, observed=counted).collect()
    assert counted.get == {"unread": 1}
