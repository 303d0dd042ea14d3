"""Loading judged runs into a warehouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pyarrow as pa

from ackproof_spark.reading.run_tables import read_tables
from ackproof_spark.spark.errors import explained
from ackproof_spark.spark.functions import DataFrame, F, SparkSession, spark_schema
from ackproof_spark.spark.small_data import small_plans
from ackproof_spark.tables import columns
from ackproof_spark.warehouse.formats import frame
from ackproof_spark.warehouse.schemas import TABLES, WAREHOUSE_VERSION
from ackproof_spark.warehouse.timelines import events, per_second
from ackproof_spark.warehouse.warehouse import Warehouse


class Loaded(StrEnum):
    NEW = "loaded"
    AGAIN = "loaded again"
    PRESENT = "already there"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run and its verdict. Rows lack the columns that every table has.

    `run` is the row of `runs` without the columns that loading adds. `trial` is None for a run
    outside a comparison. `digest` is that of all this data.
    """

    run_id: str
    directory: str
    run: Mapping[str, Any]
    trial: Mapping[str, Any] | None
    predictions: Sequence[Mapping[str, Any]]
    findings: Sequence[Mapping[str, Any]]
    causes: Sequence[Mapping[str, Any]]
    availability: Sequence[Mapping[str, Any]]
    settings: Sequence[Mapping[str, Any]]
    troubles: Sequence[str]
    digest: str


def load(
    warehouse: Warehouse, runs: Sequence[JudgedRun], *, sends: bool = False, reads: bool = False
) -> dict[str, Loaded]:
    """Load runs, on request with their sends and final logs; return the result by run id.

    A run whose digest is stored already is skipped, unless `sends` or `reads` is new for it. A run
    that is loaded again keeps its sends and reads. Raises `AnalysisError` if a table of a run is
    missing or the warehouse cannot be written.
    """
    with explained(), warehouse.storage.lock():
        stored = _stored(warehouse, [run.run_id for run in runs])
        results: dict[str, Loaded] = {}
        batches: dict[tuple[bool, bool], list[JudgedRun]] = {}
        for run in runs:
            old = stored.get(run.run_id, {})
            big = (
                sends or old.get("with_sends", False),
                reads or old.get("with_reads", False),
            )
            if old and (old["load_id"], old["with_sends"], old["with_reads"]) == (run.digest, *big):
                results[run.run_id] = Loaded.PRESENT
                continue
            results[run.run_id] = Loaded.AGAIN if old else Loaded.NEW
            batches.setdefault(big, []).append(run)
        for (with_sends, with_reads), batch in batches.items():
            _write(warehouse, batch, with_sends=with_sends, with_reads=with_reads)
    return results


def _stored(warehouse: Warehouse, run_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the existing rows of `runs` for these runs."""
    rows = (
        warehouse.spark.sql(f"SELECT * FROM {warehouse.tables.sql_name('runs')}")  # noqa: S608
        .where(F.col("run_id").isin(*run_ids))
        .select("run_id", "load_id", "with_sends", "with_reads")
        .collect()
    )
    return {row["run_id"]: row.asDict() for row in rows}


def _write(
    warehouse: Warehouse, runs: Sequence[JudgedRun], *, with_sends: bool, with_reads: bool
) -> None:
    spark = warehouse.spark
    written = _frames(spark, runs, with_sends=with_sends, with_reads=with_reads)
    loading = {
        "loaded_at": datetime.now(tz=UTC),
        "with_sends": with_sends,
        "with_reads": with_reads,
    }
    # Last: its `load_id` makes the rows of the other tables visible.
    written["runs"] = _rows(
        spark, "runs", {run.run_id: [{**run.run, **loading, "digest": run.digest}] for run in runs}
    )
    load_ids = frame(
        spark, [{"run_id": run.run_id, "load_id": run.digest} for run in runs], _LOAD_IDS
    )
    with small_plans(spark, rows=sum(run.run["sent"] for run in runs)):
        for name, rows in written.items():
            warehouse.tables.replace_runs(name, _conform(rows, load_ids, TABLES[name]))


_LOAD_IDS = columns("run_id string?, load_id string?")


def _frames(
    spark: SparkSession, runs: Sequence[JudgedRun], *, with_sends: bool, with_reads: bool
) -> dict[str, DataFrame]:
    """Return the rows of all runs for every table except `runs`."""
    directories = [run.directory for run in runs]

    def table(name: str) -> DataFrame:
        return read_tables(spark, directories, name)

    ledger, fault_windows, partition_states = map(
        table, ("ledger", "fault_windows", "partition_states")
    )
    timeline = events(
        fault_windows=fault_windows,
        partition_states=partition_states,
        broker_states=table("broker_states"),
    )
    troubles = {
        run.run_id: [{"kind": "trouble", "what": trouble} for trouble in run.troubles]
        for run in runs
    }
    of_verdicts = ("predictions", "findings", "causes", "availability", "settings")
    written = {
        "trials": _rows(spark, "trials", {run.run_id: [run.trial] for run in runs if run.trial}),
        **{
            name: _rows(spark, name, {run.run_id: getattr(run, name) for run in runs})
            for name in of_verdicts
        },
        "lost_stories": table("lost_stories"),
        "fault_windows": fault_windows,
        "partition_states": partition_states,
        "events": timeline.unionByName(_rows(spark, "events", troubles).select(*timeline.columns)),
        "metrics": per_second(ledger, table("reads")),
        "anomalies": table("anomalies"),
    }
    if with_sends:
        written["sends"] = ledger
    if with_reads:
        written["reads"] = table("final_log")
    return written


def _rows(
    spark: SparkSession, name: str, by_run: Mapping[str, Sequence[Mapping[str, Any]]]
) -> DataFrame:
    """Return the rows of each run for one table, without `schema_version` and `load_id`."""
    own = [field for field in TABLES[name] if field.name not in ("schema_version", "load_id")]
    rows = ({"run_id": run_id, **row} for run_id, rows in by_run.items() for row in rows)
    return frame(spark, rows, pa.schema(own))


def _conform(rows: DataFrame, load_ids: DataFrame, schema: pa.Schema) -> DataFrame:
    whole = rows.drop("load_id").join(F.broadcast(load_ids), "run_id")
    return whole.withColumn("schema_version", F.lit(WAREHOUSE_VERSION)).select(
        *(
            F.col(field.name).cast(field.dataType).alias(field.name)
            for field in spark_schema(schema)
        )
    )
