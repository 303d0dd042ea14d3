"""`manifest.json`: every recorded file of a run, with its size, digest and rows.

It is written when recording ends. A file that was changed, removed or added since then, or that
belongs to another run, is no evidence: the judge refuses such a directory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from ackproof.errors import RunDirectoryError
from ackproof.runs import directory as runs
from ackproof_spark.tables import LOCATION, PARTS, SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow.parquet as pq

NAME = "manifest.json"

#: Tables that judging and the live view write. They are results, not evidence.
_RESULTS = {
    "anomalies",
    "causes",
    "lost_stories",
    "live_partitions",
    "live_windows",
    "loss_candidates",
}

#: Recorded files that are no tables.
_DOCUMENTS = ("run.json", "scenario.yaml", "prediction.json", "metadata.log")

#: What shows which clients a run had and how far they came, in the folder `clients`.
_OF_CLIENTS = ("*.json", "*.progress")

_HINT = "Judge the directory as it was recorded: restore the file from a copy."


class RecordedFile(BaseModel):
    """A file below the run directory. `rows`: of a Parquet file, None for any other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    bytes: int
    sha256: str
    rows: int | None = None


class Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = SCHEMA_VERSION
    run_id: str
    files: list[RecordedFile]


def write(run_dir: Path, run_id: str) -> None:
    """Write the manifest of everything that was recorded. Raises DiskError."""
    files = [_recorded(run_dir, path) for path in _evidence(run_dir)]
    runs.write_model(run_dir / NAME, Manifest(run_id=run_id, files=files))


def exists(run_dir: Path) -> bool:
    return (run_dir / NAME).is_file()


def verify(run_dir: Path, run_id: str) -> None:
    """Hold every recorded file against the manifest.

    Raises RunDirectoryError with the first file that is absent, changed or not listed.
    """
    manifest = runs.read_model(run_dir, NAME, Manifest)
    if manifest.run_id != run_id:
        raise RunDirectoryError(
            f"{run_dir / NAME} is of the run {manifest.run_id!r}, and run.json of {run_id!r}",
            hint=_HINT,
        )
    listed = {file.path: file for file in manifest.files}
    present = {_relative(run_dir, path): path for path in _evidence(run_dir)}
    for name in sorted(listed.keys() | present.keys()):
        if name not in present:
            raise RunDirectoryError(f"{run_dir / name} is missing: {NAME} lists it", hint=_HINT)
        if name not in listed:
            raise RunDirectoryError(
                f"{present[name]} was added after the run: {NAME} does not list it",
                hint="Move it out of the run directory.",
            )
        file = listed[name]
        if (present[name].stat().st_size, _digest(present[name])) != (file.bytes, file.sha256):
            raise RunDirectoryError(
                f"{present[name]} is damaged or was changed after the run: its digest is not the "
                f"one in {NAME}",
                hint=_HINT,
            )


def check_tables(run_dir: Path, run_id: str) -> None:
    """Check that every row of the recorded tables is of this run and of a known format.

    Reads only the statistics of Parquet files that have them. Raises RunDirectoryError.
    """
    for path in _evidence(run_dir):
        if path.suffix != ".parquet":
            continue
        versions, ids = _constants(path)
        if other := versions - {SCHEMA_VERSION}:
            raise RunDirectoryError(
                f"{path} has rows of a table of schema version {', '.join(map(str, other))}; this "
                f"ackproof reads version {SCHEMA_VERSION}",
                hint="Read it with the ackproof that wrote it.",
            )
        if other := ids - {run_id}:
            raise RunDirectoryError(
                f"{path} has rows of another run ({', '.join(map(str, sorted(other, key=str)))}), "
                f"and run.json is of the run {run_id}",
                hint=_HINT,
            )


def _evidence(run_dir: Path) -> Iterator[Path]:
    """Yield the recorded files, sorted within each table."""
    for name in _DOCUMENTS:
        if (run_dir / name).is_file():
            yield run_dir / name
    for table, location in LOCATION.items():
        if table in _RESULTS:
            continue
        path = run_dir / location
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from sorted(file for file in path.rglob("*") if _is_part(file))
    yield from sorted((run_dir / "zookeeper").rglob("log.*"))
    for pattern in _OF_CLIENTS:
        yield from sorted((run_dir / "clients").glob(pattern))


def _is_part(file: Path) -> bool:
    """Whether a reader may take this file in the folder of a table for a part of it."""
    hidden = file.name.startswith(("_", "."))  # markers, checksums, streams of the ledger
    return (file.match(PARTS) or not hidden) and file.is_file()


def _recorded(run_dir: Path, path: Path) -> RecordedFile:
    return RecordedFile(
        path=_relative(run_dir, path),
        bytes=path.stat().st_size,
        sha256=_digest(path),
        rows=_rows(path) if path.suffix == ".parquet" else None,
    )


def _rows(path: Path) -> int:
    with _parquet(path) as file:
        return int(file.metadata.num_rows)


def _relative(run_dir: Path, path: Path) -> str:
    return path.relative_to(run_dir).as_posix()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _parquet(path: Path) -> pq.ParquetFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise RunDirectoryError(f"{path} is damaged or cut short: {error}") from None


def _constants(path: Path) -> tuple[set[Any], set[Any]]:
    """Return all values of the columns `schema_version` and `run_id`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    with _parquet(path) as file:
        names = file.schema_arrow.names
        values = []
        for name in ("schema_version", "run_id"):
            if name not in names:
                raise RunDirectoryError(f"{path} has no column {name}: it is no table of a run")
            found: set[Any] = set()
            for group in range(file.metadata.num_row_groups):
                statistics = file.metadata.row_group(group).column(names.index(name)).statistics
                if statistics is not None and statistics.has_min_max and not statistics.null_count:
                    found |= {statistics.min, statistics.max}
                    continue
                try:
                    column = file.read_row_group(group, columns=[name])[name]
                except (pa.ArrowException, OSError) as error:
                    raise RunDirectoryError(f"{path} is damaged or cut short: {error}") from None
                found |= set(pc.unique(column).to_pylist())
            values.append(found)
    return values[0], values[1]
