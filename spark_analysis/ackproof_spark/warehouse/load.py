"""Loading judged runs into a warehouse."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

import pyarrow as pa

from ackproof_spark.errors import AnalysisError
from ackproof_spark.reading.run_tables import read_tables
from ackproof_spark.spark.errors import explained
from ackproof_spark.spark.files import ArrowFiles, Storage
from ackproof_spark.spark.functions import DataFrame, F, SparkSession
from ackproof_spark.spark.small_data import small_plans
from ackproof_spark.spark.storage import is_here
from ackproof_spark.warehouse.configuration import digest
from ackproof_spark.warehouse.formats import commented, frame
from ackproof_spark.warehouse.schemas import LOAD_ID, RUN_DATE, TABLES, WAREHOUSE_VERSION
from ackproof_spark.warehouse.sql_files import SCHEMA
from ackproof_spark.warehouse.timelines import events, per_second, renamed, share_groups
from ackproof_spark.warehouse.warehouse import Warehouse, read_head


class Loaded(StrEnum):
    NEW = "loaded"
    AGAIN = "loaded again"
    PRESENT = "already there"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run and its verdict. Rows lack the columns that every table has.

    `run` is the row of `runs` without the columns that loading adds; a commit or a comparison that
    is None there stays as it is stored. `digest` is that of all other data.
    """

    run_id: str
    directory: str
    run: Mapping[str, Any]
    predictions: Sequence[Mapping[str, Any]]
    findings: Sequence[Mapping[str, Any]]
    causes: Sequence[Mapping[str, Any]]
    availability: Sequence[Mapping[str, Any]]
    troubles: Sequence[str]
    digest: str

    @property
    def date(self) -> date:
        started: datetime = self.run["started_at"]
        return started.astimezone(UTC).date()


#: Columns of `runs` that a later load without them does not remove.
_KEPT = ("commit_id", "comparison", "trial")

#: What `runs` says of each loaded run, so that a load without new runs needs no Spark. It counts
#: while the files of `runs` are those of `listing`: any other writer changes them.
_LOADS_FILE = "loads.json"
#: The table of explorations, which are no runs.
EXPLORED = "explored_pairs"

_KNOWN = ("run_id", LOAD_ID, "with_sends", "with_reads", *_KEPT)


def load(
    warehouse: Warehouse, runs: Sequence[JudgedRun], *, sends: bool = False, reads: bool = False
) -> dict[str, Loaded]:
    """Load runs, on request with their sends and final logs; return the result by run id.

    A run whose digest is stored already is skipped, unless `sends` or `reads` is new for it. A run
    that is loaded again keeps its sends and reads. Raises `AnalysisError` if a table of a run is
    missing or the warehouse cannot be written.
    """
    with explained(), warehouse.storage.lock():
        stored = _stored(warehouse)
        results = {run.run_id: _result(run, stored, sends=sends, reads=reads) for run in runs}
        batches: dict[tuple[bool, bool], list[JudgedRun]] = {}
        for run in runs:
            if results[run.run_id] is not Loaded.PRESENT:
                old = stored.get(run.run_id, {})
                big = (sends or old.get("with_sends", False), reads or old.get("with_reads", False))
                batches.setdefault(big, []).append(run)
        for (with_sends, with_reads), batch in batches.items():
            _write(warehouse, batch, stored, with_sends=with_sends, with_reads=with_reads)
        if batches:
            stored = _stored(warehouse)
        note = {"listing": _listing(warehouse.storage), "runs": stored}
        warehouse.storage.write(_LOADS_FILE, json.dumps(note) + "\n")
    return results


def load_explored(
    warehouse: Warehouse, explored: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    """Replace the rows of explorations in `explored_pairs`, given by id.

    Rows lack the columns that every row has. Raises `AnalysisError` if the warehouse cannot be
    written.
    """
    common = {"schema_version": WAREHOUSE_VERSION, RUN_DATE: datetime.now(tz=UTC).date()}
    whole = [{**row, "run_id": id_, **common} for id_, rows in explored.items() for row in rows]
    if not whole:
        return
    spark, name = warehouse.spark, EXPLORED
    with explained(), warehouse.storage.lock(), small_plans(spark, rows=len(whole)):
        rows = commented(frame(spark, whole, TABLES[name].schema), name)
        warehouse.tables.replace_runs(name, rows, list(explored))


def all_present(
    location: str, runs: Sequence[JudgedRun], *, sends: bool = False, reads: bool = False
) -> bool:
    """Return whether a load would change nothing, if that is known without Spark.

    This is so for a warehouse on a local disk, into which only `load` wrote its runs.
    """
    if not is_here(location):
        return False
    try:
        storage = ArrowFiles(location)
        note = json.loads(storage.read(_LOADS_FILE) or "{}")
        listing = _listing(storage)
        if read_head(storage) is None or not listing or note.get("listing") != listing:
            return False
        results = {_result(run, note["runs"], sends=sends, reads=reads) for run in runs}
    except (AnalysisError, ValueError, KeyError, TypeError):
        return False
    return results == {Loaded.PRESENT}


def _listing(storage: Storage) -> str:
    """Return a digest of the file names of `runs`; '' if they are in a catalog elsewhere."""
    names = sorted(storage.files(f"{SCHEMA}/runs"))
    return digest(names) if names else ""


def _stored(warehouse: Warehouse) -> dict[str, dict[str, Any]]:
    """Return what is known of each run in `runs`."""
    rows = warehouse.spark.sql(f"SELECT * FROM {warehouse.tables.sql_name('runs')}")  # noqa: S608
    return {row["run_id"]: row.asDict() for row in rows.select(*_KNOWN).collect()}


def _result(
    run: JudgedRun, stored: Mapping[str, Mapping[str, Any]], *, sends: bool, reads: bool
) -> Loaded:
    old = stored.get(run.run_id)
    if old is None:
        return Loaded.NEW
    same = (
        old[LOAD_ID] == run.digest
        and all(run.run[name] in (None, old[name]) for name in _KEPT)
        and old["with_sends"] >= sends
        and old["with_reads"] >= reads
    )
    return Loaded.PRESENT if same else Loaded.AGAIN


def _write(
    warehouse: Warehouse,
    runs: Sequence[JudgedRun],
    stored: Mapping[str, Mapping[str, Any]],
    *,
    with_sends: bool,
    with_reads: bool,
) -> None:
    spark = warehouse.spark
    loading = {
        "loaded_at": datetime.now(tz=UTC),
        "with_sends": with_sends,
        "with_reads": with_reads,
    }
    whole = [
        {**run.run, **loading}
        | {name: stored[run.run_id][name] for name in _KEPT if _forgotten(run, name, stored)}
        for run in runs
    ]
    written = _frames(spark, runs, with_sends=with_sends, with_reads=with_reads)
    # `runs` is the last: its `load_id` makes the rows of the other tables visible.
    written["runs"] = _rows(
        spark, "runs", {run.run_id: [row] for run, row in zip(runs, whole, strict=True)}
    )
    loads = [{"run_id": run.run_id, LOAD_ID: run.digest, RUN_DATE: run.date} for run in runs]
    load_ids = frame(
        spark, loads, pa.schema(TABLES["runs"].schema.field(name) for name in loads[0])
    )
    with small_plans(spark, rows=sum(run.run["sent"] for run in runs)):
        for name, rows in written.items():
            warehouse.tables.replace_runs(
                name, conform(rows, load_ids, name), [run.run_id for run in runs]
            )


def _forgotten(run: JudgedRun, name: str, stored: Mapping[str, Mapping[str, Any]]) -> bool:
    return run.run[name] is None and run.run_id in stored


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
        run.run_id: [{"kind": "trouble", "description": trouble} for trouble in run.troubles]
        for run in runs
    }
    of_verdicts = ("predictions", "findings", "causes", "availability")
    written = {
        **{
            name: _rows(spark, name, {run.run_id: getattr(run, name) for run in runs})
            for name in of_verdicts
        },
        "lost_stories": renamed(table("lost_stories")),
        "fault_windows": renamed(fault_windows),
        "partition_states": renamed(partition_states),
        "events": timeline.unionByName(_rows(spark, "events", troubles).select(*timeline.columns)),
        "metrics": per_second(
            ledger,
            table("reads"),
            timed=[run.run_id for run in runs if run.run["ack_latency_max_ms"] is not None],
        ),
        "anomalies": renamed(table("anomalies")),
        "share_groups": share_groups(
            *map(table, ("share_groups", "acquisitions", "acknowledgements"))
        ),
    }
    if with_sends:
        written["sends"] = renamed(ledger)
    if with_reads:
        written["reads"] = renamed(table("final_log"))
    return written


#: Columns that `conform` adds.
_ADDED = ("schema_version", LOAD_ID, RUN_DATE)


def _rows(
    spark: SparkSession, name: str, by_run: Mapping[str, Iterable[Mapping[str, Any]]]
) -> DataFrame:
    """Return the rows of each run for one table, without the columns that `conform` adds."""
    own = [field for field in TABLES[name].schema if field.name not in _ADDED]
    rows = ({"run_id": run_id, **row} for run_id, rows in by_run.items() for row in rows)
    return frame(spark, rows, pa.schema(own))


def conform(rows: DataFrame, load_ids: DataFrame, table: str) -> DataFrame:
    """Return rows with every column of a table; `load_ids` has run id, load id and date of runs."""
    whole = rows.drop(*_ADDED).join(F.broadcast(load_ids), "run_id")
    return commented(whole.withColumn("schema_version", F.lit(WAREHOUSE_VERSION)), table)
