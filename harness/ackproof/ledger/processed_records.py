"""The effects of a consumer's processing, in a file of its process.

Processing a record inserts a row into SQLite, in one transaction for all records of a poll. A Java
consumer appends one batch for each poll to an Arrow stream. In both cases a crash leaves all or no
effects of a poll. Offsets are committed to Kafka separately: delivery guarantees concern that gap.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.errors import RunDirectoryError
from ackproof.ledger import arrow_stream
from ackproof_spark.tables import EFFECTS, LOCATION, SCHEMA_VERSION

_SUFFIX = ".sqlite3"
_COLUMNS = ("topic", "partition", "offset", "producer", "sequence", "processed_at")

#: Topic, partition, offset, producer, sequence, and the time in microseconds UTC.
Effect = tuple[str, int, int, int | None, int | None, int]


def path_of(run_dir: Path, process: str, *, java: bool = False) -> Path:
    """Return the database of a process, or the stream of a Java client."""
    if java:
        return arrow_stream.stream_path(run_dir, "effects", process)
    return run_dir / LOCATION["effects"] / f"_{process}{_SUFFIX}"


class EffectStore:
    """The effects of one process."""

    def __init__(self, path: Path, *, run_id: str, consumer: int, group: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path)
        self._database.execute("PRAGMA journal_mode = WAL")
        with self._database as database:
            database.execute(f"CREATE TABLE effect ({', '.join(_COLUMNS)})")
            database.execute('CREATE TABLE owner (run_id, consumer, "group")')
            database.execute("INSERT INTO owner VALUES (?, ?, ?)", (run_id, consumer, group))

    def process(self, effects: Iterable[Effect]) -> None:
        """Record these effects, all or none."""
        with self._database as database:
            database.executemany("INSERT INTO effect VALUES (?, ?, ?, ?, ?, ?)", effects)

    def close(self) -> None:
        self._database.close()


def close(run_dir: Path) -> None:
    """Convert every database and stream to Parquet; a second call changes nothing.

    Raises `DiskError`, `RunDirectoryError` if one is damaged.
    """
    folder = run_dir / LOCATION["effects"]
    arrow_stream.close(run_dir, "effects", EFFECTS)
    arrow_stream.convert_all(folder, _SUFFIX, _write_parquet)
    for file in folder.glob(f"_*{_SUFFIX}-*"):  # SQLite's write-ahead log
        file.unlink(missing_ok=True)


def _write_parquet(path: Path, temporary: Path) -> None:
    if not path.is_file():  # SQLite would create the missing target of a link
        raise RunDirectoryError(f"{path} is damaged: it is a folder, or a link to no file")
    database = sqlite3.connect(path)
    try:
        owners = database.execute('SELECT run_id, consumer, "group" FROM owner').fetchall()
        rows = database.execute("SELECT * FROM effect ORDER BY rowid").fetchall()
    except sqlite3.DatabaseError as error:
        if "no such table" not in str(error):
            raise RunDirectoryError(
                f"{path} is damaged: {error}", hint="Restore the file from a copy."
            ) from None
        owners, rows = [], []  # killed before it had tables: nothing was processed
    finally:
        database.close()
    owner = dict(zip(("run_id", "consumer", "group"), owners[0], strict=True)) if owners else {}
    with arrow_stream.damage_reported(path):
        table = _table(rows, owner)
    pq.write_table(table, temporary, compression="zstd")


def write(run_dir: Path, process: str, rows: Sequence[Effect], **owner: Any) -> None:
    path = run_dir / LOCATION["effects"] / f"{process}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    arrow_stream.convert(path, path, lambda to: pq.write_table(_table(rows, owner), to))


def _table(rows: Sequence[Effect], owner: Mapping[str, Any]) -> pa.Table:
    if not rows:
        return EFFECTS.empty_table()
    constants = {"schema_version": SCHEMA_VERSION, **owner}
    columns = dict(zip(_COLUMNS, map(pa.array, zip(*rows, strict=True)), strict=True))
    return arrow_stream.assemble(EFFECTS, len(rows), constants, columns)
