"""Effects: what a consumer's processing did, each in a database of its process.

A record is processed by noting it in SQLite, in one transaction for the records noted together: it
is there or it is not, whenever the process dies. Offsets are committed to Kafka apart from that,
which is the gap that delivery guarantees are about.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.ledger import arrow_stream
from ackproof_spark.tables import (
    EFFECTS,
    LOCATION,
    SCHEMA_VERSION,
    TIME,
)

_SUFFIX = ".sqlite3"
_COLUMNS = ("topic", "partition", "offset", "producer", "sequence", "processed_at")

#: Topic, partition, offset, producer, sequence, and when, microseconds UTC.
Effect = tuple[str, int, int, int | None, int | None, int]


def path_of(run_dir: Path, process: str) -> Path:
    """Return where a process notes its effects while it runs."""
    return run_dir / LOCATION["effects"] / f"_{process}{_SUFFIX}"


class EffectStore:
    """One process's effects."""

    def __init__(self, path: Path, *, run_id: str, consumer: int, group: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path)
        self._database.execute("PRAGMA journal_mode = WAL")
        with self._database as database:
            database.execute(f"CREATE TABLE effect ({', '.join(_COLUMNS)})")
            database.execute('CREATE TABLE owner (run_id, consumer, "group")')
            database.execute("INSERT INTO owner VALUES (?, ?, ?)", (run_id, consumer, group))

    def process(self, effects: Iterable[Effect]) -> None:
        """Note these records as processed, all or none."""
        with self._database as database:
            database.executemany("INSERT INTO effect VALUES (?, ?, ?, ?, ?, ?)", effects)

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def close(run_dir: Path) -> None:
    """Turn every database of effects into its Parquet file; twice is a no-op."""
    for path in sorted((run_dir / LOCATION["effects"]).glob(f"_*{_SUFFIX}")):
        target = path.with_name(path.stem.removeprefix("_") + ".parquet")
        if not target.exists():
            arrow_stream.convert(path, target, partial(_write_parquet, path))
        for file in (path, *path.parent.glob(f"{path.name}-*")):
            file.unlink(missing_ok=True)


def _write_parquet(path: Path, temporary: Path) -> None:
    database = sqlite3.connect(path)
    try:
        owners = database.execute('SELECT run_id, consumer, "group" FROM owner').fetchall()
        rows = database.execute("SELECT * FROM effect ORDER BY rowid")
        found = dict(zip(_COLUMNS, zip(*rows, strict=True), strict=False))
    except sqlite3.OperationalError:  # killed before it had tables: nothing was processed
        owners, found = [], {}
    finally:
        database.close()
    table = EFFECTS.empty_table()
    if owners and found:
        run_id, consumer, group = owners[0]
        table = _table(found, run_id=run_id, consumer=consumer, group=group)
    pq.write_table(table, temporary, compression="zstd")


def write(run_dir: Path, process: str, rows: Sequence[Effect], **owner: Any) -> None:
    """Write effects that were found elsewhere; `owner` gives `run_id`, `consumer` and `group`."""
    path = run_dir / LOCATION["effects"] / f"{process}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = dict(zip(_COLUMNS, zip(*rows, strict=True), strict=False))
    table = _table(found, **owner) if rows else EFFECTS.empty_table()
    arrow_stream.convert(path, path, lambda temporary: pq.write_table(table, temporary))


def _table(found: Mapping[str, Sequence[Any]], **owner: Any) -> pa.Table:
    """Return the table of these columns, all of one consumer."""
    constants = {"schema_version": SCHEMA_VERSION, **owner}
    count = len(found["offset"])
    columns = [
        pa.repeat(pa.scalar(constants[one.name], one.type), count)
        if one.name in constants
        else pa.array(found[one.name], pa.int64()).cast(TIME)
        if one.type == TIME
        else pa.array(found[one.name], one.type)
        for one in EFFECTS
    ]
    return pa.table(columns, schema=EFFECTS)
