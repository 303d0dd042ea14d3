"""Small data: small plans, local frames without lineage, and several queries at once."""

from __future__ import annotations

import threading
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from types import SimpleNamespace

import pyarrow as pa
import pytest

from ackproof_spark.reading.run_tables import RunTables, cached_for_run
from ackproof_spark.spark.functions import no_rows, spark_schema
from ackproof_spark.spark.small_data import (
    FEW,
    answers,
    from_arrow,
    from_rows,
    local,
    side_by_side,
    small_plans,
)
from ackproof_spark.tables import columns

pytestmark = pytest.mark.spark

PARTITIONS = "spark.sql.shuffle.partitions"


def executed(frame) -> str:
    """Return the physical plan of a frame."""
    with redirect_stdout(StringIO()) as printed:
        frame.explain()
    return printed.getvalue()


def test_plans_are_small_for_few_rows_only_and_as_before_afterwards(spark):
    before = spark.conf.get(PARTITIONS)
    with small_plans(spark, rows=FEW + 1):
        assert spark.conf.get(PARTITIONS) == before
    with small_plans(spark, rows=FEW):
        assert spark.conf.get(PARTITIONS) == "1"
    assert spark.conf.get(PARTITIONS) == before


def test_a_local_frame_has_the_same_rows_and_types_and_is_joined_without_exchange(spark):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [(1, "a", at), (2, None, None), (3, "c", at)]
    frame = spark.createDataFrame(rows, "id bigint, word string, at timestamp").where("id < 3")
    kept_here = local(frame)
    assert kept_here.schema == frame.schema
    assert sorted(kept_here.collect()) == sorted(frame.collect())
    assert local(frame.where("id > 9")).collect() == []
    with small_plans(spark, rows=3):
        joined = kept_here.join(local(frame), "id")
        assert joined.count() == 2
        assert "Exchange" not in executed(joined)
    # The control: frames that are not local are shuffled.
    with small_plans(spark, rows=3):
        other = frame.repartition(2).join(frame.repartition(3), "id")
        assert "Exchange" in executed(other)


def test_questions_of_few_rows_are_asked_at_the_same_time_and_answered_in_order():
    both = threading.Barrier(2, timeout=60)

    def meet(name):
        both.wait()
        return name

    assert side_by_side(lambda: meet("one"), lambda: meet("other"), rows=FEW) == ["one", "other"]


def test_questions_of_many_rows_are_asked_one_after_the_other():
    asked_by = side_by_side(threading.get_ident, threading.get_ident, rows=FEW + 1)
    assert asked_by == [threading.get_ident()] * 2


def test_an_error_of_one_question_is_raised():
    def fail():
        raise ValueError("no such table")

    with pytest.raises(ValueError, match="no such table"):
        side_by_side(list, fail, rows=FEW)


def test_a_cached_frame_is_computed_once_for_the_same_tables(spark):
    made = []

    @cached_for_run
    def numbers(tables):
        made.append(tables.run_id)
        return spark.range(3)

    def keep(frame):
        return frame.where("id > 0")

    def tables(run_id):
        some = spark.range(0)
        return RunTables(
            run_id=run_id,
            ledger=some,
            final_log=some,
            partition_ends=some,
            fault_windows=some,
            keep=keep,
        )

    one, other = tables("one"), tables("other")
    assert numbers(one) is numbers(one)
    assert numbers(one).count() == 2
    numbers(other)
    assert made == ["one", "other"]


def test_spark_is_given_one_batch():
    given = []
    session = SimpleNamespace(createDataFrame=lambda table, schema: given.append(table))
    table = pa.concat_tables([pa.table({"a": [n]}) for n in range(3)])
    assert len(table.to_batches()) == 3
    from_arrow(session, table)
    assert [len(one.to_batches()) for one in given] == [1]
    assert given[0] == table


def test_rows_of_this_process_need_no_python_worker(spark):
    schema = columns("topic string, partition int?")
    rows = [("a", 1), ("b", None)]
    given, none = from_rows(spark, rows, schema), no_rows(spark, schema)
    assert sorted(map(tuple, given.collect())) == rows
    assert none.collect() == []
    assert given.schema == none.schema == spark_schema(schema)
    for frame in (given, none):
        assert "LocalTableScan" in executed(frame)
    # The control: Python workers serialize a list.
    assert "LocalTableScan" not in executed(spark.createDataFrame(rows, spark_schema(schema)))


def test_several_questions_are_answered_by_one_job(spark):
    tracker = spark.sparkContext.statusTracker()
    with small_plans(spark, rows=3):
        numbers = spark.range(3)
        before = len(tracker.getJobIdsForGroup(None))
        found = answers(
            total=numbers.selectExpr("sum(id) total"),
            none=numbers.where("id > 9"),
            each=numbers.selectExpr("id", "null nothing"),
        )
        assert len(tracker.getJobIdsForGroup(None)) == before + 1
    assert [row["total"] for row in found["total"]] == [3]
    assert found["none"] == []
    assert sorted(row["id"] for row in found["each"]) == [0, 1, 2]


def test_rows_after_a_batch_without_rows_are_in_the_frame(spark):
    batches = [pa.table({"x": pa.array(rows, pa.int64())}) for rows in ([1, 2], [], [3])]
    assert from_arrow(spark, pa.concat_tables(batches)).count() == 3
