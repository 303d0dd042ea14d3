"""Spark's functions, imported at their first use, and its types, for annotations.

Importing pyspark takes a second, and many commands do not need Spark.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType
else:  # names for annotations, which are not evaluated
    Column = DataFrame = Row = SparkSession = StructType = Any

__all__ = [
    "Column",
    "DataFrame",
    "F",
    "Row",
    "SparkSession",
    "StructType",
    "Window",
    "no_rows",
    "spark_schema",
    "union",
]


class _Lazy:
    """A module or a class of pyspark, imported when one of its attributes is first read."""

    def __init__(self, module: str, name: str | None = None) -> None:
        self._module = module
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        target: Any = importlib.import_module(self._module)
        value = getattr(getattr(target, self._name) if self._name else target, attribute)
        setattr(self, attribute, value)
        return value


F: Any = _Lazy("pyspark.sql.functions")
Window: Any = _Lazy("pyspark.sql", "Window")


def union(frames: Iterable[DataFrame], *, sparse: bool = False) -> DataFrame:
    """Return the rows of all frames, by column names; `sparse`: missing columns are null."""
    return reduce(lambda some, more: some.unionByName(more, allowMissingColumns=sparse), frames)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return an Arrow schema as Spark's."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def no_rows(spark: SparkSession, schema: pa.Schema) -> DataFrame:
    """Return a frame with the columns of a schema and without rows."""
    return spark.createDataFrame(schema.empty_table(), spark_schema(schema))
