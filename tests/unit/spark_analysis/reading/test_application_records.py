"""Records of an application get the names of its sends, unless two sends are possible."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ackproof_spark.reading.application_records import (
    Application,
    kind_of,
    name_reads,
    named,
    shared_offsets,
    undecidable,
    unnamed_deliveries,
)
from ackproof_spark.reading.run_tables import StoredRun
from ackproof_spark.spark.small_data import local, small_plans
from ackproof_spark.tables import IDENTITIES, LEDGER, SCHEMA_VERSION
from spark_histories import write_table

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
#: Offset and identity.
Log = Sequence[tuple[int, str]]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def application(spark: SparkSession, cases: Sequence[Sequence[Send]], kind: str) -> Application:
    """The sends of each case go to a partition by a producer of its own."""
    common = {"schema_version": SCHEMA_VERSION, "run_id": "r"}
    rows = [
        ({**common, "producer": case, "sequence": n}, case, *send)
        for case, sends in enumerate(cases)
        for n, send in enumerate(sends)
    ]
    ledger = [
        {**name, "topic": "t", "partition": partition, "outcome": outcome, "offset": at}
        for name, partition, _, at, outcome in rows
    ]
    identities = [{**name, "kind": kind, "identity": sha(text)} for name, _, text, _, _ in rows]
    return Application(
        ledger=spark.createDataFrame(pa.Table.from_pylist(ledger, schema=LEDGER)),
        identities=spark.createDataFrame(pa.Table.from_pylist(identities, schema=IDENTITIES)),
        kinds=(kind,),
    )


def judged(
    spark: SparkSession,
    *cases: tuple[Sequence[Send], Log],
    kind: str = "key",
    end: int = 100,
    proven: bool = True,
) -> list[tuple[dict[int, int | None], dict[int, str]]]:
    """Return the sequence of the record at each offset, and the undecidable sends' reasons."""
    column = {"key": 5, "digest": 4}.get(kind)

    def row(partition: int, offset: int, text: str) -> tuple[Any, ...]:
        fields: list[Any] = ["t", partition, offset, NOW, b"v", None, None]
        if column is None:
            fields[6] = [("ackproof-id", text.encode())]
        else:
            fields[column] = text.encode()
        return tuple(fields)

    items = [row(number, *item) for number, (_, log) in enumerate(cases) for item in log]
    records = spark.createDataFrame(items, RAW)
    app = application(spark, [sends for sends, _ in cases], kind)
    ends = {("t", number): end for number in range(len(cases))}
    with small_plans(spark, rows=len(items)):
        final = local(named(records, app, run_id="r"))
        doubtful = undecidable(records, final, app, ends=ends, proven_ends=proven, run_id="r")
        found, reasons = final.collect(), doubtful.collect()
    assert all(row["producer"] in (None, row["partition"]) for row in found)
    return [
        (
            {row["offset"]: row["sequence"] for row in found if row["partition"] == number},
            {row["sequence"]: row["reason"] for row in reasons if row["producer"] == number},
        )
        for number in range(len(cases))
    ]


def _at(second: int) -> datetime:
    return NOW + timedelta(seconds=second)


def delivered(spark: SparkSession, run_dir: Path, *kinds: str, key: str | None) -> StoredRun:
    """A run whose consumer 0 got key a at t-0 offset 5, and b there after a truncation.

    Consumer 1 got b only, which its log names by this key. `kinds`: those of a and b in the acked
    log.
    """
    place = {"topic": "t", "partition": 0, "offset": 5}
    identity = {"digest": lambda word: sha(word.upper()), "key": sha}

    def name(word: str, kind: str) -> str:
        return "".join(identity[part](word) for part in kind.split("+"))

    ledger = [{**place, "producer": 0, "sequence": n, "outcome": "acked"} for n in (0, 1)]
    identities = [
        {"producer": 0, "sequence": n, "kind": kind, "identity": name(word, kind)}
        for n, (word, kind) in enumerate(zip("ab", kinds, strict=True))
    ]
    got = [(0, 0, "a", 0), (0, 1, "b", 4), (1, 0, key, 6)]
    deliveries = [
        {**place, "consumer": consumer, "poll": poll, "read_at": _at(second), "sequence": None}
        for consumer, poll, _, second in got
    ]
    parts = [
        {
            "consumer": consumer,
            "poll": poll,
            "key": None if of is None else sha(of),
            "digest": None if of is None else sha(of.upper()),
        }
        for consumer, poll, of, _ in got
    ]
    rows: dict[str, list[dict[str, Any]]] = {
        "ledger": ledger,
        "identities": identities,
        "acquisitions": deliveries,
        "read_identities": parts,
        "acknowledgements": [{**one, "kind": "accept"} for one in deliveries],
        "effects": [
            {**place, "consumer": consumer, "processed_at": _at(second), "sequence": None}
            for consumer, second in ((0, 0), (0, 3), (0, 4), (0, 9), (1, 7))
        ],
        "final_log": [{**place, "producer": 0, "sequence": 1, "state": "intact"}],
    }
    for table, of_table in rows.items():
        write_table(run_dir, table, of_table)
    return StoredRun(spark=spark, run_dir=run_dir)


@pytest.mark.parametrize(
    "kinds",
    [
        ("digest", "digest+key"),
        *(
            pytest.param(kinds, marks=pytest.mark.slow)
            for kinds in (("key",) * 2, ("digest+key",) * 2)
        ),
    ],
)
def test_an_effect_is_of_the_record_that_its_consumer_had_read_by_then(
    spark: SparkSession, tmp_path: Path, kinds: tuple[str, str]
) -> None:
    run = delivered(spark, tmp_path, *kinds, key="b")
    name_reads(run, local)

    def sequences(table: str, *order: str) -> list[int | None]:
        return [row["sequence"] for row in run[table].orderBy("consumer", *order).collect()]

    assert sequences("acquisitions", "poll") == [0, 1, 1]
    assert sequences("acknowledgements", "poll") == [0, 1, 1]
    assert sequences("effects", "processed_at") == [0, 0, 1, 1, 1]
    assert unnamed_deliveries(run, Application.of(run), run["final_log"]) == ""


@pytest.mark.parametrize("key", [None, pytest.param("order-b", marks=pytest.mark.slow)])
def test_a_delivery_that_names_no_send_is_reported_where_the_log_has_one(
    spark: SparkSession, tmp_path: Path, key: str | None
) -> None:
    run = delivered(spark, tmp_path, "digest+key", "digest+key", key=key)
    said = unnamed_deliveries(run, Application.of(run), run["final_log"])
    assert said.startswith("1 deliveries of share groups are not checked, ")
    assert "the digest and key by which the acked log names the record there" in said
    assert "t-0 offset 5 to consumer 1; write digest and key of the record into" in said
    elsewhere = run["final_log"].withColumn("offset", run["final_log"]["offset"] + 1)
    assert unnamed_deliveries(run, Application.of(run), elsewhere) == ""


def test_a_kind_lists_its_parts_in_a_fixed_order() -> None:
    assert kind_of(["key", "digest"]) == kind_of(["digest", "key"]) == "digest+key"


UNIQUE = (("a", 0, "acked"), ("b", None, "acked"))
EQUAL = (("a", 0, "acked"), ("a", 1, "acked"))
LOG = ((0, "a"), (1, "b"), (2, "a"), (3, "z"))
REPEATED = "2 acks name this offset and this identity: it is lost, or was logged twice"
SHARED = "a record of the partition may be this one, or that of another send"
BEYOND = "offset 1000000000000 never existed: the log ends at 2"


@pytest.mark.parametrize(
    "kind", ["key", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("digest", "id"))]
)
def test_a_unique_identity_is_recognized_at_any_offset(spark: SparkSession, kind: str) -> None:
    assert judged(spark, (UNIQUE, LOG), kind=kind) == [({0: 0, 1: 1, 2: 0, 3: None}, {})]


#: Sends, log, names by offset, and undecidable sends.
CASES: dict[str, tuple[Sequence[Send], Log, Any, Any]] = {
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


def test_a_record_gets_no_name_if_two_sends_are_possible(spark: SparkSession) -> None:
    found = judged(spark, *((sends, log) for sends, log, *_ in CASES.values()), end=2)
    expected = {name: (names, doubtful) for name, (*_, names, doubtful) in CASES.items()}
    assert dict(zip(CASES, found, strict=True)) == expected


def told_of_shared(spark: SparkSession, sends: Sequence[Send], log: Log) -> str:
    app = application(spark, [sends], "key")
    records = spark.createDataFrame(
        [("t", 0, offset, NOW, b"v", key.encode(), None) for offset, key in log], RAW
    )
    with small_plans(spark, rows=len(log)):
        return shared_offsets(app, local(named(records, app, run_id="r")))


@pytest.mark.parametrize(
    ("sends", "log", "acks"),
    [
        # A client that reports the first offset of a batch.
        ([("a", 4, "acked"), ("b", 4, "acked"), ("c", 4, "acked"), ("d", 7, "acked")], "abcd", 3),
        # A line that was logged twice.
        pytest.param([("a", 4, "acked"), ("a", 4, "acked")], "a", 2, marks=pytest.mark.slow),
        # The offset was given out again after send a was lost, and after both were.
        ([("a", 4, "acked"), ("b", 4, "acked")], "b", 0),
        pytest.param([("a", 4, "acked"), ("b", 4, "acked")], "x", 0, marks=pytest.mark.slow),
        pytest.param(
            [("a", 4, "acked"), ("b", 5, "acked"), ("c", None, "acked"), ("d", None, "acked")],
            "",
            0,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_acks_that_name_one_offset_are_counted_if_it_says_nothing(
    spark: SparkSession, sends: Sequence[Send], log: str, acks: int
) -> None:
    told = told_of_shared(spark, sends, list(enumerate(log, start=4)))
    said = f"several name one offset ({acks} acks, the first at t-0 offset 4): "
    assert said in told if acks else told == ""


def test_without_an_end_marker_the_log_may_be_longer(spark: SparkSession) -> None:
    doubtful = {1: "the log may go on after its high watermark, 1"}
    case = EQUAL, [(0, "x")]
    assert judged(spark, case, end=1, proven=False)[0][1] == doubtful
    assert judged(spark, case, end=1)[0][1] == {}
