"""Checks recorded histories in Jepsen's form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof.errors import HistoryError
from ackproof.judgement.spark import spark_session
from ackproof_spark.errors import AnalysisError

if TYPE_CHECKING:
    from ackproof_spark.jepsen.check import Report


def check_histories(paths: Sequence[Path], settings: Mapping[str, Any]) -> list[Report]:
    """Check history files.

    `settings` are fields of `jepsen.configuration.Configuration`, used where a file has none.
    Raises HistoryError if a file is malformed, SparkError if Spark cannot be started or fails.
    """
    from ackproof_spark.jepsen.check import check
    from ackproof_spark.jepsen.configuration import Configuration
    from ackproof_spark.jepsen.reader import read

    try:
        cases = read(paths)
    except AnalysisError as error:
        raise HistoryError(str(error)) from None
    with spark_session() as spark:
        return check(spark, cases, Configuration(**settings))
