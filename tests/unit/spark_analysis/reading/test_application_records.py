"""Records of an application get the names of its sends, unless two sends are possible."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ackproof_spark.reading.application_records import (
    Application,
    kind_of,
    named,
    undecidable,
)
from ackproof_spark.spark.small_data import local, small_plans
from ackproof_spark.tables import IDENTITIES, LEDGER, SCHEMA_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RAW = (
    "topic string, partition int, offset bigint, timestamp timestamp, value binary, key binary, "
    "headers array<struct<key: string, value: binary>>"
)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def application(
    spark: SparkSession, sends: list[tuple[str, int | None, str]], kind: str = "key"
) -> Application:
    """Sends to t-0 as (identity, acked offset, outcome); the sequence is the position."""
    common = {"schema_version": SCHEMA_VERSION, "run_id": "r", "producer": 0}
    ledger = [
        {**common, "sequence": n, "topic": "t", "partition": 0, "outcome": outcome, "offset": at}
        for n, (_, at, outcome) in enumerate(sends)
    ]
    identities = [
        {**common, "sequence": n, "kind": kind, "identity": sha(text)}
        for n, (text, _, _) in enumerate(sends)
    ]
    return Application(
        ledger=spark.createDataFrame(pa.Table.from_pylist(ledger, schema=LEDGER)),
        identities=spark.createDataFrame(pa.Table.from_pylist(identities, schema=IDENTITIES)),
        kinds=(kind,),
    )


def judged(
    spark: SparkSession,
    sends: list[tuple[str, int | None, str]],
    log: list[tuple[int, str]],
    *,
    kind: str = "key",
    end: int = 100,
    proven: bool = True,
) -> tuple[dict[int, int | None], dict[int, str]]:
    """Return the sequence of the record at each offset, and the undecidable sends' reasons."""
    column = {"key": 5, "digest": 4}.get(kind)

    def row(offset: int, text: str) -> tuple[Any, ...]:
        fields: list[Any] = ["t", 0, offset, NOW, b"v", None, None]
        if column is None:
            fields[6] = [("ackproof-id", text.encode())]
        else:
            fields[column] = text.encode()
        return tuple(fields)

    records = spark.createDataFrame([row(*item) for item in log], RAW)
    app = application(spark, sends, kind)
    with small_plans(spark, rows=len(log)):
        final = local(named(records, app, run_id="r"))
        doubtful = undecidable(
            records, final, app, ends={("t", 0): end}, proven_ends=proven, run_id="r"
        )
        return (
            {row["offset"]: row["sequence"] for row in final.collect()},
            {row["sequence"]: row["reason"] for row in doubtful.collect()},
        )


def test_a_kind_lists_its_parts_in_a_fixed_order() -> None:
    assert kind_of(["key", "digest"]) == kind_of(["digest", "key"]) == "digest+key"


@pytest.mark.parametrize("kind", ["key", "digest", "id"])
def test_a_unique_identity_is_recognized_at_any_offset(spark: SparkSession, kind: str) -> None:
    sends: list[tuple[str, int | None, str]] = [("a", 0, "acked"), ("b", None, "acked")]
    names, doubtful = judged(spark, sends, [(0, "a"), (1, "b"), (2, "a"), (3, "z")], kind=kind)
    assert names == {0: 0, 1: 1, 2: 0, 3: None}
    assert doubtful == {}


def test_offsets_distinguish_equal_identities(spark: SparkSession) -> None:
    sends: list[tuple[str, int | None, str]] = [("a", 0, "acked"), ("a", 1, "acked")]
    names, doubtful = judged(spark, sends, [(0, "a"), (1, "x")])
    assert names == {0: 0, 1: None}
    assert doubtful == {}  # no record can be send 1's: it is lost


def test_a_record_that_may_belong_to_two_sends_gets_no_name(spark: SparkSession) -> None:
    sends: list[tuple[str, int | None, str]] = [
        ("a", 0, "acked"),
        ("a", 1, "acked"),
        ("a", None, "unknown"),
    ]
    names, doubtful = judged(spark, sends, [(0, "a"), (1, "x"), (2, "a")])
    assert names == {0: 0, 1: None, 2: None}
    assert doubtful == {1: "a record of the partition may be this one, or that of another send"}


def test_a_repeated_line_is_not_a_loss(spark: SparkSession) -> None:
    sends: list[tuple[str, int | None, str]] = [("a", 0, "acked"), ("a", 0, "acked")]
    names, doubtful = judged(spark, sends, [(0, "a")])
    assert names == {0: 0}
    assert list(doubtful) == [1]
    assert "same offset" in doubtful[1]


def test_an_offset_that_never_existed_proves_nothing(spark: SparkSession) -> None:
    sends: list[tuple[str, int | None, str]] = [("a", 10**12, "acked"), ("b", 3, "acked")]
    _, doubtful = judged(spark, sends, [(0, "x")], end=2)
    assert doubtful == {0: "offset 1000000000000 never existed: the log ends at 2"}


def test_without_an_end_marker_the_log_may_be_longer(spark: SparkSession) -> None:
    sends: list[tuple[str, int | None, str]] = [("a", 0, "acked"), ("b", 1, "acked")]
    _, doubtful = judged(spark, sends, [], end=1, proven=False)
    assert doubtful == {1: "the log may go on after its high watermark, 1"}
    assert judged(spark, sends, [], end=1)[1] == {}
