"""Keeping a warehouse small: fewer files, and no more runs than wanted.

Readers of Delta tables keep what they have begun to read for a week (`VACUUM`'s default). Those
of Parquet do not: a query that runs while its files go fails, and succeeds when repeated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from ackproof_spark.spark.errors import explained
from ackproof_spark.warehouse.formats import (
    Format,
    append,
    batches,
    delete_batch,
    frame,
    source,
)
from ackproof_spark.warehouse.schemas import BIG, SMALL
from ackproof_spark.warehouse.warehouse import Warehouse, new_load_id

#: A load that has no row in `runs` after so long is not under way: it died.
LONGEST_LOAD = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tidied:
    """What is in the warehouse now, and what went. `dead_loads`: superseded, or never finished."""

    runs: int
    expired: int
    dead_loads: int


def compact(warehouse: Warehouse, *, now: datetime | None = None) -> Tidied:
    """Put the rows of many loads into few files, and delete what no view shows."""
    return _tidy(warehouse, since=None, now=now or datetime.now(tz=UTC))


def expire(warehouse: Warehouse, *, older_than: timedelta, now: datetime | None = None) -> Tidied:
    """Delete all runs that started longer ago than that, and compact."""
    now = now or datetime.now(tz=UTC)
    return _tidy(warehouse, since=now - older_than, now=now)


def _tidy(warehouse: Warehouse, *, since: datetime | None, now: datetime) -> Tidied:
    with explained(), warehouse.storage.lock():
        # Listed before `runs` is read: what is committed in between must not be deleted unread.
        parquet = warehouse.format is Format.PARQUET
        listed = batches(warehouse.storage, "runs") if parquet else []
        pointers = _pointers(warehouse)
        newest: dict[str, dict[str, Any]] = {}
        for row in sorted(pointers, key=_order):
            newest[row["run_id"]] = row
        oldest = 0 if since is None else int(since.timestamp() * 1e6)
        kept = [row for row in newest.values() if row["started_us"] >= oldest]
        known = {row["load_id"] for row in pointers}
        alive = {row["load_id"] for row in kept}
        died_before = new_load_id(now - LONGEST_LOAD)
        unknown = _loads(warehouse) - known - {row.get("batch") for row in pointers}
        died = {load for load in unknown if load < died_before}
        if parquet:
            _rewrite(warehouse, kept, pointers, listed=listed, died=died)
        else:
            _delete(warehouse, (known - alive) | died)
        return Tidied(
            runs=len(kept),
            expired=len(newest) - len(kept),
            dead_loads=len((known | died) - {row["load_id"] for row in newest.values()}),
        )


def _order(row: dict[str, Any]) -> tuple[str, str]:
    return row["load_id"], row.get("batch", "")


def _pointers(warehouse: Warehouse) -> list[dict[str, Any]]:
    from pyspark.sql import functions as F  # noqa: N812

    key = ["run_id", "load_id", *(["batch"] if warehouse.format is Format.PARQUET else [])]
    started = F.unix_micros("started_at").alias("started_us")
    return [row.asDict() for row in warehouse.pointers().select(*key, started).collect()]


def _loads(warehouse: Warehouse) -> set[str]:
    """Return every load (in Parquet: every batch) that left a trace, whether it counts or not."""
    if warehouse.format is Format.PARQUET:
        return {batch for name in (*SMALL, *BIG) for batch in batches(warehouse.storage, name)}
    found: set[str] = set()
    for name in (*SMALL, *BIG):
        place = source(warehouse.storage, warehouse.format, name)
        rows = warehouse.spark.sql(f"SELECT DISTINCT load_id FROM {place}").collect()  # noqa: S608
        found |= {row["load_id"] for row in rows}
    return found


def _delete(warehouse: Warehouse, loads: Iterable[str]) -> None:
    """Delete loads from Delta tables, `runs` first, and put the rest into few files."""
    listed = ", ".join(f"'{load}'" for load in sorted(loads))
    for name in ("runs", *SMALL, *BIG):
        place = source(warehouse.storage, warehouse.format, name)
        if listed:
            warehouse.spark.sql(f"DELETE FROM {place} WHERE load_id IN ({listed})")  # noqa: S608
        warehouse.spark.sql(f"OPTIMIZE {place}")
        warehouse.spark.sql(f"VACUUM {place}")


def _rewrite(
    warehouse: Warehouse,
    kept: list[dict[str, Any]],
    pointers: list[dict[str, Any]],
    *,
    listed: list[str],
    died: set[str],
) -> None:
    """Copy what counts into one new batch, switch to it, and delete the others.

    The switch is one file: the new batch of `runs`, which outranks the batches it was made of.
    A load that commits meanwhile is newer than both, and stays.
    """
    from pyspark.sql import functions as F  # noqa: N812

    storage, spark = warehouse.storage, warehouse.spark
    batch = new_load_id()
    key = ("run_id", "load_id", "batch")
    alive = frame(spark, kept, pa.schema([(column, pa.string()) for column in key]))
    for name in (*SMALL, "runs"):
        rows = spark.sql(f"SELECT * FROM {source(storage, Format.PARQUET, name)}")  # noqa: S608
        live = rows.join(F.broadcast(alive), list(key), "left_semi")
        append(storage, Format.PARQUET, name, live.drop("batch").coalesce(1), batch=batch)
    for old in listed:
        delete_batch(storage, "runs", old)
    replaced = {row["batch"] for row in pointers} | died
    for name in SMALL:
        for old in replaced & set(batches(storage, name)):
            delete_batch(storage, name, old)
    gone = ({row["load_id"] for row in pointers} | died) - {row["load_id"] for row in kept}
    for name in BIG:
        for old in gone & set(batches(storage, name)):
            delete_batch(storage, name, old)
