"""Records of an application get the names of its sends, unless two sends are possible."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ackproof_spark.reading.application_records import (
    Application,
    kind_of,
    named,
    shared_offsets,
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


#: Identity, acked offset and outcome.
Send = tuple[str, int | None, str]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def application(spark: SparkSession, sends: Sequence[Send], kind: str) -> Application:
    """Sends to t-0; the sequence is the position."""
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
    sends: Sequence[Send],
    log: Sequence[tuple[int, str]],
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


UNIQUE = (("a", 0, "acked"), ("b", None, "acked"))
EQUAL = (("a", 0, "acked"), ("a", 1, "acked"))
LOG = ((0, "a"), (1, "b"), (2, "a"), (3, "z"))
REPEATED = "2 acks name this offset and this identity: it is lost, or was logged twice"
SHARED = "a record of the partition may be this one, or that of another send"
BEYOND = "offset 1000000000000 never existed: the log ends at 2"


@pytest.mark.parametrize("kind", ["key", "digest", "id"])
def test_a_unique_identity_is_recognized_at_any_offset(spark: SparkSession, kind: str) -> None:
    assert judged(spark, UNIQUE, LOG, kind=kind) == ({0: 0, 1: 1, 2: 0, 3: None}, {})


#: Sends, log, names by offset, and undecidable sends.
CASES: dict[str, tuple[Sequence[Send], Sequence[tuple[int, str]], Any, Any]] = {
    # No record can be send 1's: it is lost.
    "offsets distinguish": (EQUAL, [(0, "a"), (1, "x")], {0: 0, 1: None}, {}),
    "a record of one of two sends": (
        [*EQUAL, ("a", None, "unknown")],
        [(0, "a"), (1, "x"), (2, "a")],
        {0: 0, 1: None, 2: None},
        {1: SHARED},
    ),
    "a repeated line": (EQUAL[:1] * 2, [(0, "a")], {0: 0}, {1: REPEATED}),
    # Send 0 is lost, because no record has its key.
    "a repeated line of a lost send": (EQUAL[:1] * 2, [(0, "x")], {0: None}, {1: REPEATED}),
    "the offset of a batch": (EQUAL[:1] * 2, [(0, "a"), (1, "a")], {0: 0, 1: None}, {1: SHARED}),
    "another record at the offset": (
        [("a", 0, "acked"), ("b", 0, "acked")],
        [(0, "a")],
        {0: 0},
        {},
    ),
    "an offset that never existed": ([("a", 10**12, "acked")], [(0, "x")], {0: None}, {0: BEYOND}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_record_gets_no_name_if_two_sends_are_possible(spark: SparkSession, name: str) -> None:
    sends, log, names, doubtful = CASES[name]
    assert judged(spark, sends, log, end=2) == (names, doubtful)


def test_acks_that_name_one_offset_are_counted(spark: SparkSession) -> None:
    sends = [("a", 4, "acked"), ("b", 4, "acked"), ("c", 4, "acked"), ("d", 5, "acked")]
    told = shared_offsets(application(spark, sends, "key"))
    assert "several name one offset (3 acks, the first at t-0 offset 4): " in told
    unshared = [("a", 4, "acked"), ("b", 5, "acked"), ("c", None, "acked"), ("d", None, "acked")]
    assert shared_offsets(application(spark, unshared, "key")) == ""


def test_without_an_end_marker_the_log_may_be_longer(spark: SparkSession) -> None:
    doubtful = {1: "the log may go on after its high watermark, 1"}
    assert judged(spark, EQUAL, [(0, "x")], end=1, proven=False)[1] == doubtful
    assert judged(spark, EQUAL, [(0, "x")], end=1)[1] == {}
