"""Upgrading a warehouse of an earlier version in place.

The new tables are written beside the old ones, then the version file, and then the old ones are
deleted. So an interrupted upgrade leaves a warehouse of the earlier or of the current version.
"""

from __future__ import annotations

import json
from typing import Any

from ackproof_spark.errors import WarehouseError
from ackproof_spark.spark.errors import explained
from ackproof_spark.spark.functions import DataFrame, F, SparkSession, Window
from ackproof_spark.warehouse.configuration import configuration_name, digest
from ackproof_spark.warehouse.formats import Format, Tables, frame
from ackproof_spark.warehouse.load import conform
from ackproof_spark.warehouse.schemas import RUN_DATE, TABLES, WAREHOUSE_VERSION
from ackproof_spark.warehouse.sql_files import SCHEMA
from ackproof_spark.warehouse.storage import Storage
from ackproof_spark.warehouse.timelines import renamed
from ackproof_spark.warehouse.warehouse import OLDEST_UPGRADED, Head, Warehouse, read_head

_OLD_TABLES = (*TABLES, "trials", "settings")


def upgrade(spark: SparkSession, location: str) -> int | None:
    """Upgrade a warehouse; return its earlier version, None if it was the current one.

    Raises `WarehouseError` if there is none, or if its version is too old or too new.
    """
    storage = Storage.of(spark, location)
    with storage.lock(), explained():
        head = read_head(storage, oldest=OLDEST_UPGRADED)
        if head is None:
            raise WarehouseError(f"{location} is not a warehouse")
        if head.version < WAREHOUSE_VERSION:
            storage.delete(SCHEMA)
            tables = Tables(format=head.format, storage=storage)
            for key, value in tables.settings.items():
                spark.conf.set(key, value)
            tables.create(spark)
            _copy(_Version4(spark, tables), tables)
            Warehouse(spark=spark, tables=tables, head=Head(format=head.format)).write_head()
        for name in _OLD_TABLES:
            storage.delete(name)
    return head.version if head.version < WAREHOUSE_VERSION else None


class _Version4:
    """The rows of a warehouse of version 4 that count, with the columns of version 5.

    Version 4 has a partition for each run, settings as a table, JSON as text, and faults from 0.
    """

    def __init__(self, spark: SparkSession, tables: Tables) -> None:
        self._spark = spark
        self._tables = tables
        # Arrow's times have a zone; those of Spark's rows are in the zone of this machine.
        self.runs = self._open("runs").where("run_id IS NOT NULL").toArrow().to_pylist()
        for run in self.runs:
            run[RUN_DATE] = run["started_at"].date()
        self.load_ids = frame(
            spark,
            self.runs,
            TABLES["runs"].schema.empty_table().select(["run_id", "load_id", RUN_DATE]).schema,
        )

    def _open(self, table: str) -> DataFrame:
        if self._tables.format is Format.ICEBERG:
            catalog = self._tables.sql_name(table).partition(".")[0]
            return self._spark.table(f"{catalog}.{table}")
        reader = self._spark.read.format(self._tables.format)
        return reader.load(f"{self._tables.address}/{table}")

    def _valid(self, table: str) -> DataFrame:
        return self._open(table).join(
            F.broadcast(self.load_ids), ["run_id", "load_id"], "left_semi"
        )

    def rows(self, table: str) -> DataFrame:
        if table == "runs":
            return self._runs()
        rows = self._valid(table)
        match table:
            case "predictions" | "findings":
                return rows.withColumnRenamed("observed", "observed_count")
            case "availability":
                rows = rows.withColumnRenamed("share", "available_share")
            case "causes":
                rows = rows.withColumnRenamed("count", "lost")
            case "events":
                # only faults have a number, so that the others get null
                number = F.regexp_extract("what", r"^F(\d+) ", 1).try_cast("int") + 1
                numbered = F.concat(
                    F.lit("F"), number.cast("string"), F.regexp_replace("what", r"^F\d+", "")
                )
                rows = rows.withColumn("description", F.coalesce(numbered, "what"))
            case "metrics":
                first = F.min("at").over(Window.partitionBy("run_id"))
                timed = [r["run_id"] for r in self.runs if r["ack_latency_max_ms"] is not None]
                for name in [name for name in rows.columns if name.startswith("latency_")]:
                    latency = F.when(F.col("run_id").isin(*timed), F.col(name))
                    rows = rows.withColumn(name, latency)
                rows = rows.withColumn(
                    "availability", F.when(F.col("at") > first, F.col("availability"))
                ).withColumnRenamed("unknown", "unknown_outcome")
        return renamed(rows)

    def _runs(self) -> DataFrame:
        settings: dict[str, dict[str, str]] = {}
        for row in self._valid("settings").collect():
            path = ".".join(filter(None, (row["scope"], row["name"], row["key"])))
            settings.setdefault(row["run_id"], {})[path] = row["value"]
        trials = {row["run_id"]: row for row in self._valid("trials").collect()}
        rows: list[dict[str, Any]] = []
        for run in self.runs:
            own = settings.get(run["run_id"], {})
            trial = trials.get(run["run_id"])
            arm = run["configuration_name"]
            rows.append(
                run
                | {
                    "configuration": configuration_name(
                        "" if arm == run["scenario"] else arm, json.loads(run["configuration"])
                    ),
                    "configuration_id": digest(own)[:12],
                    "settings": own,
                    "commit_id": run["commit"],
                    "comparison": trial["comparison"] if trial else None,
                    "trial": trial["trial"] if trial else None,
                    "run_folder": run["run_id"],
                    "unknown_outcome": run["unknown"],
                    "observed": json.loads(run["observed"]),
                }
            )
        return frame(self._spark, rows, TABLES["runs"].schema)


def _copy(old: _Version4, tables: Tables) -> None:
    run_ids = [run["run_id"] for run in old.runs]
    if run_ids:
        for name in TABLES:
            tables.replace_runs(name, conform(old.rows(name), old.load_ids, name), run_ids)
