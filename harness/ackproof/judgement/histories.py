"""Checks recorded histories in Jepsen's form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof import safe_files
from ackproof.errors import HistoryError, translated
from ackproof.spark_session import spark_session

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

    for path in paths:
        _refuse_special(path)
    with translated():
        cases = read(paths)
    with spark_session() as spark:
        return check(spark, cases, Configuration(**settings))


def _refuse_special(path: Path) -> None:
    with suppress(OSError):  # the reader reports it
        if kind := safe_files.kind_of(path):
            raise HistoryError(f"{path}: cannot be read: it is {kind}, not a file")
