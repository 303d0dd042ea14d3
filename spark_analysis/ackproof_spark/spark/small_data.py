"""Plans for few rows, several questions at once, and small results kept at the driver.

For some thousand rows, Spark takes ten times as long to plan and compile a check as to run it, and
repeats that in every query for everything that the query is built from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    # A broadcast is a job of its own; joins within one partition need none. So hints are ignored.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.optimizer.disableHints": "true",
}


@contextmanager
def small_plans(spark: SparkSession, *, rows: int, few: int = FEW) -> Iterator[None]:
    """Configure Spark for small plans while `rows` is at most `few`.

    The checks are a hundred small stages. For few rows, compiling them and planning again after
    each stage takes several times as long as running them.
    """
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
    """Return the answers to questions of Spark, asked at the same time if there are few `rows`.

    A question of few rows keeps one core busy: it is planned, and its short tasks are started, one
    after the other. Many rows keep all cores busy, and would share the memory.
    """
    if rows > FEW:
        return [question() for question in questions]
    with ThreadPoolExecutor(len(questions), thread_name_prefix="spark-question") as threads:
        return [asked.result() for asked in [threads.submit(each) for each in questions]]


def local(frame: DataFrame) -> DataFrame:
    """Evaluate a small frame now; return its rows as a frame of one partition without lineage."""
    return from_arrow(frame.sparkSession, frame.toArrow(), frame.schema).coalesce(1)


def from_arrow(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Return the table as a data frame; `schema` is needed where Arrow's does not say everything.

    The table is passed in one batch: of several, Spark Connect 4.0.0 silently keeps only the first.
    """
    return spark.createDataFrame(table.combine_chunks(), schema)


def answers(**questions: DataFrame) -> dict[str, list[Row]]:
    """Return the rows of several frames, evaluated in one job."""
    frames = [frame.select(F.struct("*").alias(name)) for name, frame in questions.items()]
    rows = union(frames, sparse=True).collect()
    return {name: [row[name] for row in rows if row[name] is not None] for name in questions}
