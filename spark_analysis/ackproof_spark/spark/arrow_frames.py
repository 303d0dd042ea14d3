"""Arrow tables of the driver as Spark's frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def from_arrow(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Return the table's rows as a frame, with Spark's `schema` where Arrow's does not say it all.

    In one batch: of several, Spark Connect 4.0.0 keeps the first, and says nothing.
    """
    return spark.createDataFrame(table.combine_chunks(), schema)
