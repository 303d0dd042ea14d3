"""Loading a judged run into a warehouse: once, however often it is tried, or whoever else loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ackproof_spark import tables
from ackproof_spark.reading.run_tables import read_table
from ackproof_spark.spark.errors import explained
from ackproof_spark.warehouse.events import events
from ackproof_spark.warehouse.formats import (
    Format,
    append,
    delete_batch,
    frame,
    source,
)
from ackproof_spark.warehouse.per_second import per_second
from ackproof_spark.warehouse.schemas import (
    BIG,
    SMALL,
    TABLES,
    WAREHOUSE_VERSION,
)
from ackproof_spark.warehouse.storage import Storage
from ackproof_spark.warehouse.warehouse import Warehouse, new_load_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Tables of a run that may hold more than one task should write.
_LARGE = ("anomalies", "partition_states", *BIG)


class Loaded(StrEnum):
    """What became of a run."""

    NEW = "loaded"
    AGAIN = "loaded again"
    PRESENT = "already there"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run as its verdict tells it. Rows lack the columns that every table has.

    `run` is the row of `runs`, without those that loading fills in; `trial` is None for a run
    that belongs to no comparison; `digest` changes with anything that is here.
    """

    run_id: str
    directory: str
    run: Mapping[str, Any]
    trial: Mapping[str, Any] | None
    predictions: Sequence[Mapping[str, Any]]
    findings: Sequence[Mapping[str, Any]]
    troubles: Sequence[str]
    digest: str


def load(
    warehouse: Warehouse, run: JudgedRun, *, sends: bool = False, reads: bool = False
) -> Loaded:
    """Append a run, with its sends and its final log if asked for; no-op if nothing has changed.

    What was loaded with it before is loaded again. Raises `AnalysisError` if a table of the run is
    missing or the warehouse cannot be written; then nothing of this load is ever seen.
    """
    with explained(), warehouse.storage.lock():
        before = [
            row.asDict() for row in warehouse.pointers().where(_is("run_id", run.run_id)).collect()
        ]
        newest = max(before, key=lambda row: str(row["load_id"]), default=None)
        if newest is not None:
            sends, reads = sends or newest["with_sends"], reads or newest["with_reads"]
            same = (newest["digest"], newest["with_sends"], newest["with_reads"])
            if same == (run.digest, sends, reads):
                return Loaded.PRESENT
        _append(warehouse, run, load_id=new_load_id(), with_sends=sends, with_reads=reads)
        _remove(warehouse, run.run_id, before)
    return Loaded.NEW if newest is None else Loaded.AGAIN


def _append(
    warehouse: Warehouse, run: JudgedRun, *, load_id: str, with_sends: bool, with_reads: bool
) -> None:
    written = _frames(warehouse.spark, run, with_sends=with_sends, with_reads=with_reads)
    written["runs"] = _rows(
        warehouse.spark,
        "runs",
        [
            {
                **run.run,
                "loaded_at": datetime.now(tz=UTC),
                "with_sends": with_sends,
                "with_reads": with_reads,
                "digest": run.digest,
            }
        ],
    )
    # `runs` comes last: its row makes all others count.
    for name, rows in written.items():
        whole = _conform(rows, TABLES[name], run_id=run.run_id, load_id=load_id)
        small = whole if name in _LARGE else whole.coalesce(1)
        append(warehouse.storage, warehouse.format, name, small, batch=load_id)


def _frames(
    spark: SparkSession, run: JudgedRun, *, with_sends: bool, with_reads: bool
) -> dict[str, DataFrame]:
    directory = Storage(spark, run.directory)

    def table(name: str, schema: pa.Schema) -> DataFrame:
        # What happened in the cluster is not known of a run that was killed before it was taken;
        # reads are only where consumers were.
        if (name.endswith("_states") or name == "reads") and not directory.exists(
            str(tables.LOCATION[name])
        ):
            return frame(spark, [], schema)
        return read_table(spark, run.directory, name, schema)

    fault_windows = table("fault_windows", tables.FAULT_WINDOWS)
    partition_states = table("partition_states", tables.PARTITION_STATES)
    ledger = table("ledger", tables.LEDGER)
    happened = events(
        fault_windows=fault_windows,
        partition_states=partition_states,
        broker_states=table("broker_states", tables.BROKER_STATES),
    )
    troubles = _rows(
        spark, "events", [{"kind": "trouble", "what": trouble} for trouble in run.troubles]
    )
    found = {
        "trials": _rows(spark, "trials", [run.trial] if run.trial else []),
        "predictions": _rows(spark, "predictions", run.predictions),
        "findings": _rows(spark, "findings", run.findings),
        "fault_windows": fault_windows,
        "partition_states": partition_states,
        "events": happened.unionByName(troubles.select(*happened.columns)),
        "metrics": per_second(ledger, table("reads", tables.READS)),
        "anomalies": table("anomalies", tables.ANOMALIES),
    }
    assert found.keys() == SMALL.keys()
    if with_sends:
        found["sends"] = ledger
    if with_reads:
        found["reads"] = table("final_log", tables.FINAL_LOG)
    return found


def _rows(spark: SparkSession, name: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Return rows that lack the common columns as a frame that lacks them too."""
    own = pa.schema([field for field in TABLES[name] if field.name not in _COMMON])
    return frame(spark, (dict(row) for row in rows), own)


_COMMON = ("schema_version", "run_id", "load_id")


def _conform(rows: DataFrame, schema: pa.Schema, *, run_id: str, load_id: str) -> DataFrame:
    """Return the columns of a schema, in its order and its types."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import from_arrow_schema

    common = {"schema_version": WAREHOUSE_VERSION, "run_id": run_id, "load_id": load_id}
    return rows.select(
        *(
            (F.lit(common[field.name]) if field.name in common else F.col(field.name))
            .cast(field.dataType)
            .alias(field.name)
            for field in from_arrow_schema(schema)
        )
    )


def _remove(warehouse: Warehouse, run_id: str, superseded: Sequence[Mapping[str, Any]]) -> None:
    """Delete a run's earlier loads, so that tables are short; what is left, nobody sees."""
    if not superseded:
        return
    if warehouse.format is Format.PARQUET:
        for row in superseded:
            # Batches that `compact` made hold other runs too: it will drop these rows.
            if row["batch"] == row["load_id"]:
                for name in ("runs", *SMALL, *BIG):
                    delete_batch(warehouse.storage, name, row["batch"])
        return
    loads = ", ".join(f"'{row['load_id']}'" for row in superseded)
    for name in ("runs", *SMALL, *BIG):
        place = source(warehouse.storage, warehouse.format, name)
        warehouse.spark.sql(
            f"DELETE FROM {place} WHERE run_id = :run_id AND load_id IN ({loads})",  # noqa: S608
            args={"run_id": run_id},
        )


def _is(column: str, value: str) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(column) == value
