"""Compares what was acknowledged with what can be read, in PySpark.

    from ackproof_spark import compare

    compare(spark, "runs/latest").counts

Importing the package does not import pyspark: executors and table schemas need none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ackproof_spark.checks.comparison import Comparison, compare

__all__ = ["Comparison", "compare"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ackproof_spark.checks import comparison

    return getattr(comparison, name)
