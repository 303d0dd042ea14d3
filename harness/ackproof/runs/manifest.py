"""`manifest.json`: every recorded file of a run, with its size, digest and rows.

It is written when recording ends. The judge refuses a directory in which a file was changed,
removed or added later, or belongs to another run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from ackproof.errors import RunDirectoryError
from ackproof.runs import directory as runs
from ackproof.runs import table_files
from ackproof.runs.verdict import Record
from ackproof_spark.tables import LOCATION, PARTS, SCHEMA_VERSION

NAME = "manifest.json"

#: Tables that the judge and the live view write; they are results, not evidence.
_RESULTS = {
    "anomalies",
    "causes",
    "lost_stories",
    "live_partitions",
    "live_findings",
}

_DOCUMENTS = ("run.json", "scenario.yaml", "prediction.json", "metadata.log")

#: Specifications, progress pages and streams in the folder `clients`.
_OF_CLIENTS = ("*.json", "*.progress", "*.arrows")

_HINT = "Judge the directory as it was recorded: restore the file from a copy."


class RecordedFile(Record):
    """A file below the run directory. `rows` is None unless it is a Parquet file."""

    path: str
    bytes: int
    sha256: str
    rows: int | None = None


class Manifest(Record):
    schema_version: int = SCHEMA_VERSION
    run_id: str
    files: list[RecordedFile]


def write(run_dir: Path, run_id: str) -> None:
    """Write the manifest. Raises DiskError."""
    files = [_recorded(run_dir, path) for path in _evidence(run_dir)]
    runs.write_model(run_dir / NAME, Manifest(run_id=run_id, files=files))


def exists(run_dir: Path) -> bool:
    return (run_dir / NAME).is_file()


def verify(run_dir: Path, run_id: str) -> None:
    """Raise RunDirectoryError for the first file that is absent, changed or not listed."""
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
        if _size_and_digest(present[name]) != (file.bytes, file.sha256):
            raise RunDirectoryError(
                f"{present[name]} is damaged or was changed after the run: its digest is not the "
                f"one in {NAME}",
                hint=_HINT,
            )


def check_tables(run_dir: Path, run_id: str) -> None:
    """Raise RunDirectoryError unless all tables are valid and all documents are files."""
    for table, path in _tables(run_dir):
        if path == run_dir / LOCATION[table] or path.match(PARTS):
            table_files.check(path, table, run_id)
    for name in _DOCUMENTS:
        if (run_dir / name).is_dir():
            raise RunDirectoryError(f"{run_dir / name} is a folder", hint=_HINT)


def _evidence(run_dir: Path) -> Iterator[Path]:
    """Yield the recorded files, sorted within each table."""
    for name in _DOCUMENTS:
        if (run_dir / name).is_file():
            yield run_dir / name
    for _, path in _tables(run_dir):
        yield path
    yield from sorted((run_dir / "zookeeper").rglob("log.*"))
    for pattern in _OF_CLIENTS:
        yield from sorted(path for path in (run_dir / "clients").glob(pattern) if path.is_file())


def _tables(run_dir: Path) -> Iterator[tuple[str, Path]]:
    for table, location in LOCATION.items():
        if table in _RESULTS:
            continue
        path = run_dir / location
        if path.is_file():
            yield table, path
        elif path.is_dir():
            yield from ((table, file) for file in sorted(path.rglob("*")) if _is_part(file))


def _is_part(file: Path) -> bool:
    """Whether a reader may read this file as a part of the table."""
    hidden = file.name.startswith(("_", "."))  # markers, checksums, streams of the ledger
    # A broken link must be reported, although it is not a file.
    return (file.match(PARTS) or not hidden) and (file.is_file() or file.is_symlink())


def _recorded(run_dir: Path, path: Path) -> RecordedFile:
    size, digest = _size_and_digest(path)
    return RecordedFile(
        path=_relative(run_dir, path),
        bytes=size,
        sha256=digest,
        rows=_rows(path) if path.suffix == ".parquet" else None,
    )


def _rows(path: Path) -> int:
    with table_files.open_file(path) as file:
        return int(file.metadata.num_rows)


def _relative(run_dir: Path, path: Path) -> str:
    return path.relative_to(run_dir).as_posix()


def _size_and_digest(path: Path) -> tuple[int, str]:
    """Raise RunDirectoryError if this is a folder or a broken link."""
    try:
        with path.open("rb") as file:
            return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        link = "is a link, and " if path.is_symlink() else ""
        raise RunDirectoryError(
            f"{path} {link}cannot be read: {error.strerror}", hint=_HINT
        ) from None
