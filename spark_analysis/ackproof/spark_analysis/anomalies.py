"""What the checks share: the shape of their rows, and the fault in force at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof.spark_analysis.run_tables import RunTables
from ackproof.spark_analysis.tables import ANOMALIES, SCHEMA_VERSION, Anomaly

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def as_anomalies(
    frame: DataFrame, anomaly: Anomaly, *, tables: RunTables, offset: Column, found: Column
) -> DataFrame:
    """Return `frame` (topic, partition, producer, sequence, sent_at, resolved_at) as anomalies.

    `offset` and `found` are evaluated on `frame`; `window` is the fault in force at `resolved_at`.
    """
    from pyspark.sql import functions as F  # noqa: N812

    return (
        frame.crossJoin(_windows(tables))
        .withColumn("schema_version", F.lit(SCHEMA_VERSION))
        .withColumn("run_id", F.lit(tables.run_id))
        .withColumn("anomaly", F.lit(anomaly))
        .withColumn("window", _in_force(F.col("resolved_at")))
        .withColumn("found", found)
        .withColumn("offset", offset)
        .select(ANOMALIES.names)
    )


def _windows(tables: RunTables) -> DataFrame:
    """One row: every fault window, the latest injected first."""
    from pyspark.sql import functions as F  # noqa: N812

    until = F.coalesce("recovered_at", "healed_at").alias("until")
    return tables.fault_windows.agg(
        F.sort_array(F.collect_list(F.struct("injected_at", "window", until)), asc=False).alias(
            "windows"
        )
    )


def _in_force(at: Column) -> Column:
    """Return the latest injected of `windows` that held at `at`, null if none did."""
    from pyspark.sql import functions as F  # noqa: N812

    def held(window: Column) -> Column:
        return (window["injected_at"] <= at) & (window["until"].isNull() | (at < window["until"]))

    return F.get(F.filter("windows", held), F.lit(0))["window"]


def text(template: str, *values: Column) -> Column:
    """Return `template` with each `{}` replaced by a value; null if a value is."""
    from pyspark.sql import functions as F  # noqa: N812

    pieces = template.split("{}")
    parts = [F.lit(pieces[0])]
    for value, piece in zip(values, pieces[1:], strict=True):
        parts += [value.cast("string"), F.lit(piece)]
    return F.concat(*parts)
