"""Helpers of the checks: anomaly rows, the fault in force, the record at an offset."""

from __future__ import annotations

import json

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.reading.run_tables import PLACE, RunTables
from ackproof_spark.spark.functions import Column, DataFrame, F, spark_schema
from ackproof_spark.tables import ANOMALIES, SCHEMA_VERSION, RecordState


def as_anomalies(
    frame: DataFrame,
    anomaly: Anomaly,
    *,
    tables: RunTables,
    found: Column,
    offset: str = "offset",
    at: str = "resolved_at",
) -> DataFrame:
    """Return `frame` (with the columns of a send, if it is known) as anomalies.

    `offset` and `at` are columns of `frame`; `found` is evaluated on it. `window` is the fault in
    force at the time `at`, null without this column.
    """
    columns = {
        "schema_version": F.lit(SCHEMA_VERSION),
        "run_id": F.lit(tables.run_id),
        "anomaly": F.lit(anomaly),
        "found": found,
        "offset": F.col(offset),
    }
    if at in frame.columns:
        columns["window"] = _window_in_force(tables, F.col(at))
    return as_table(frame.withColumns(columns))


def as_table(frame: DataFrame) -> DataFrame:
    """Return `frame` with the columns of `tables.ANOMALIES`; those that it lacks are null."""
    return frame.select(
        *(
            field.name
            if field.name in frame.columns
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in spark_schema(ANOMALIES)
        )
    )


def _window_in_force(tables: RunTables, at: Column) -> Column:
    """Return the number of the latest injected fault window that includes `at`, or null."""
    windows = F.from_json(
        F.lit(json.dumps(tables.windows)),
        "array<struct<window: int, injected_at: bigint, until: bigint>>",
    )

    def in_force(window: Column) -> Column:
        injected = window["injected_at"] <= F.unix_micros(at)
        return injected & F.coalesce(F.unix_micros(at) < window["until"], F.lit(True))

    return F.get(F.filter(windows, in_force), F.lit(0))["window"]


def text(template: str, *values: Column) -> Column:
    """Return `template` with each `{}` replaced by a value; null if a value is null."""
    pieces = template.split("{}")
    parts = [F.lit(pieces[0])]
    for value, piece in zip(values, pieces[1:], strict=True):
        parts += [value.cast("string"), F.lit(piece)]
    return F.concat(*parts)


def records_at(tables: RunTables, places: DataFrame) -> DataFrame:
    """Return the records at `places`, with their `state`, and what they are `called`."""
    records = tables.final_log.join(places, PLACE, "left_semi")
    return with_names(tables, records).select(*PLACE, "state", "called")


def with_names(tables: RunTables, sends: DataFrame) -> DataFrame:
    """Add what each send is `called`: by its producer, or what an application knows it by."""
    number = text("producer {} sequence {}", F.col("producer"), F.col("sequence"))
    if tables.identities is None:
        return sends.withColumn("called", number)
    names = tables.identities.groupBy("producer", "sequence").agg(F.min("text").alias("given"))
    given = F.when(F.col("given") != "", F.col("given"))
    named = sends.join(names, ["producer", "sequence"], "left")
    return named.withColumn("called", F.coalesce(given, number)).drop("given")


def content_at(offset: Column) -> Column:
    """Describe what `offset` holds, by the columns of `records_at` and `read_ranges`.

    A log that was read with read_committed does not show whether an aborted record is there.
    """
    end = F.when(F.col("complete"), F.col("end_offset")).otherwise(F.col("read_to"))
    return (
        F.when(
            F.col("state") == RecordState.INTACT,
            text("offset {} holds {}", offset, F.col("called")),
        )
        .when(
            F.col("state").isNotNull(), text("offset {} holds a {} record", offset, F.col("state"))
        )
        .when(offset >= end, text("nothing: the log ends at {}", end))
        .otherwise(text("no readable record at offset {}", offset))
    )
