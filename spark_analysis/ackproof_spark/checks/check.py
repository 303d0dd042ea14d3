"""What a check states: the anomaly that it finds, and the rows that it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.reading.run_tables import RunTables, StoredRun
from ackproof_spark.spark.functions import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Finds an anomaly by the ledger and the final log.

    suspects, damaged: conditions in SQL for the rows of `RunTables` that `find` reads; it runs if
    there is one. absent: a condition that a row of `absent.absent` must meet as well.
    """

    anomaly: Anomaly
    find: Callable[[RunTables], DataFrame]
    suspects: str = "false"
    damaged: str = "false"
    absent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCheck:
    """Finds anomalies by what clients did; it runs if the run has at least one of `tables`."""

    anomalies: tuple[Anomaly, ...]
    find: Callable[[RunTables, StoredRun], DataFrame]
    tables: tuple[str, ...]
