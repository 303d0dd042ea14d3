"""The public entry point: micro-operations in, anomalies out, with Spark's default settings."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ackproof_spark.jepsen.tables import ANOMALIES, MICRO_OPS

pytestmark = pytest.mark.spark


def row(history: int, op: int, action: str, offset: int, value: str) -> dict[str, Any]:
    return {
        "history": history, "op": op, "process": "p", "type": "ok", "f": "txn", "keys": [],
        "number": 0, "action": action, "key": "orders-0", "offset": offset, "value": value,
    }  # fmt: skip


def test_anomalies_are_rows_with_their_history(spark) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    from ackproof_spark.jepsen.check import find
    from ackproof_spark.jepsen.frames import Histories

    rows = [
        row(4, 0, "send", 0, "lost"),
        row(4, 1, "send", 1, "read"),
        row(4, 2, "poll", 1, "read"),
        row(7, 0, "send", 0, "read"),
        row(7, 1, "poll", 0, "read"),
    ]
    micro_ops = spark.createDataFrame(pa.Table.from_pylist(rows, schema=MICRO_OPS))
    found = find(Histories(micro_ops=micro_ops))
    assert found.schema.names == from_arrow_schema(ANOMALIES).names
    told = {(one["history"], one["anomaly"]): one for one in found.collect()}
    assert sorted(told) == [(4, "lost-write"), (4, "unseen")]
    lost = told[4, "lost-write"]
    assert (lost["key"], lost["values"], lost["ops"]) == ("orders-0", ["lost"], [0])
    assert (lost["index"], lost["max_read_index"]) == (0, 1)


def test_the_log_has_gaps_and_several_values_at_an_offset(spark) -> None:
    """Jepsen's VO1: a gap, and an offset with two values."""
    from ackproof_spark.jepsen.frames import Histories

    sends = [("c", 1), ("b", 3), ("d", 4)]
    rows = [row(0, 0, "poll", 0, "a"), {**row(0, 0, "poll", 1, "b"), "number": 1}]
    rows += [
        {**row(0, 1, "send", offset, value), "type": "info", "number": number}
        for number, (value, offset) in enumerate(sends)
    ]
    micro_ops = spark.createDataFrame(pa.Table.from_pylist(rows, schema=MICRO_OPS))
    log = Histories(micro_ops=micro_ops).log.orderBy("offset", "value").collect()
    assert [(one["offset"], one["index"], one["value"]) for one in log] == [
        (0, 0, "a"),
        (1, 1, "b"),
        (1, 1, "c"),
        (3, 2, "b"),
        (4, 3, "d"),
    ]
