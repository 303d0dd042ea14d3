"""Convert Arrow tables of the driver to Spark data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def from_arrow(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Return the table as a data frame; `schema` is needed where Arrow's does not say everything.

    The table is passed in one batch: of several, Spark Connect 4.0.0 silently keeps only the first.
    """
    return spark.createDataFrame(table.combine_chunks(), schema)
