"""Plans for few rows, several queries at once, and small results at the driver.

With some thousand rows, Spark takes ten times as long to plan and compile a check as to run it, and
every query plans and compiles all its inputs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from ackproof_spark.spark.functions import DataFrame, F, Row, SparkSession, StructType, union

#: Up to this many rows, planning and compiling cost more than running.
FEW = 100_000

_SMALL_PLANS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # Joins within one partition need no broadcast, which is a job of its own.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.optimizer.disableHints": "true",
}


@contextmanager
def small_plans(spark: SparkSession, *, rows: int, few: int = FEW) -> Iterator[None]:
    """Configure Spark for small plans, if `rows` is at most `few`."""
    if rows > few:
        yield
        return
    before = {name: spark.conf.get(name) for name in _SMALL_PLANS}
    try:
        for name, value in _SMALL_PLANS.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def side_by_side(*questions: Callable[[], Any], rows: int) -> list[Any]:
    """Return the results of several queries, run at the same time if there are few `rows`.

    A query of few rows uses one core. Queries of many rows use all cores, and would share memory.
    """
    if rows > FEW:
        return [question() for question in questions]
    with ThreadPoolExecutor(len(questions), thread_name_prefix="spark-question") as threads:
        return [future.result() for future in [threads.submit(query) for query in questions]]


def local(frame: DataFrame) -> DataFrame:
    """Evaluate a small frame; return its rows as a frame of one partition without lineage."""
    return from_arrow(frame.sparkSession, frame.toArrow(), frame.schema).coalesce(1)


def from_arrow(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Return the table as a data frame; `schema` is needed if Arrow's is not exact enough.

    The table is passed in one batch: Spark stops at a batch without rows (4.0.0 to 4.1.1 at least).
    """
    return spark.createDataFrame(table.combine_chunks(), schema)


def from_rows(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: pa.Schema) -> DataFrame:
    """Return rows, which have the columns of `schema`, as a frame of one partition.

    Spark's Python workers would serialize a list of rows for each query that reads it; they take
    seconds of CPU time to start.
    """
    names = schema.names
    named = [dict(zip(names, row, strict=True)) for row in rows]
    return from_arrow(spark, pa.Table.from_pylist(named, schema)).coalesce(1)


def answers(**questions: DataFrame) -> dict[str, list[Row]]:
    """Return the rows of several frames, evaluated in one job."""
    frames = [frame.select(F.struct("*").alias(name)) for name, frame in questions.items()]
    rows = union(frames, sparse=True).collect()
    return {name: [row[name] for row in rows if row[name] is not None] for name in questions}
