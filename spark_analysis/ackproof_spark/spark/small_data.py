"""Few rows: planned for as such, and brought to the driver as the leaf of later plans.

Spark takes ten times as long to plan and compile a check as to run it over some thousand rows, and
does so again in every query for all that its tables are made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ackproof_spark.spark.arrow_frames import from_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Up to so many rows, planning and compiling costs more than running.
FEW = 100_000

_SMALL_PLANS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # A broadcast is a job of its own; in one partition, joins need none.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


@contextmanager
def small_plans(spark: SparkSession, *, rows: int, few: int = FEW) -> Iterator[None]:
    """Have Spark plan for few records, if they are: up to `few`.

    The checks are a hundred small stages. To compile them, and to plan again after each, takes
    several times as long as to run them, for as long as there are few records.
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


def local(frame: DataFrame) -> DataFrame:
    """Evaluate a frame of few rows now; return them as a frame of one partition, without origin."""
    return from_arrow(frame.sparkSession, frame.toArrow(), frame.schema).coalesce(1)
