"""A run directory: everything needed to judge a run again without its cluster.

``runs/<utc>-<scenario>-<seed>/``, with ``runs/latest`` linking to the newest::

    run.json             what was run, when, on which image, and what went wrong on the way
    scenario.yaml        the resolved scenario
    prediction.json      what the model said before
    ledger/              sends and their outcomes          final_log/  what can be read
    partition_ends.parquet  fault_windows.parquet  partition_states.parquet
    broker_states.parquet   anomalies/
    metadata.log  logs/  what the cluster recorded
    verdict.json  trace.json  report.html  junit.xml
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ackproof.observation.clocks import Clock
from ackproof.errors import DiskError, RunDirectoryError
from ackproof.scenario.types import Setting
from ackproof.runs.verdict import Outlook, PredictionReport, Verdict
from ackproof_spark.tables import SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

_M = TypeVar("_M", bound=BaseModel)

_NO_ROOM = {errno.ENOSPC: "is full", errno.EDQUOT: "is over its quota", errno.EROFS: "is read-only"}


class RunRecord(BaseModel):
    """`run.json`: what was run, and what keeps its outcome from being conclusive."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = 1
    run_id: str
    configuration_name: str = ""
    configuration: dict[str, Setting] = {}
    image: str
    #: The harness process; it tells a run that goes on from one that was killed.
    pid: int
    started_at: datetime
    finished_at: datetime | None = None
    troubles: list[str] = []
    #: What could not be observed, because the cluster is not ours.
    unobserved: list[str] = []
    #: Clients that were slower than the cluster: latency and availability say nothing of it then.
    bottlenecks: list[str] = []
    #: Whether the cluster had served another run of the suite before.
    reused: bool = False
    #: The run that this one repeats; empty for one of its own.
    replays: str = ""
    #: The Spark data sources that have read the final log, in `spark_analysis.final_log.Reader`.
    readers: list[str] = []
    #: The clocks of engine and nodes against this host's, at the end of the run.
    clocks: list[Clock] = []


class PredictionRecord(BaseModel):
    """`prediction.json`: what the model said before the run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    predicted: dict[str, Outlook]
    prediction: PredictionReport


def create(out: Path, *, scenario: str, configuration: str, seed: int, now: datetime) -> Path:
    """Create a fresh run directory under `out` and point `latest` at it.

    Raises DiskError if it cannot be written.
    """
    parts = [f"{now:%Y%m%dT%H%M%SZ}", scenario]
    if configuration:
        parts.append(re.sub(r"[^A-Za-z0-9.]+", "-", configuration).strip("-"))
    name = "-".join([*parts, str(seed)])
    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        for suffix in ("", *(f"-{n}" for n in range(2, 1000))):
            path = out / (name + suffix)
            try:
                path.mkdir()
            except FileExistsError:
                continue
            _link_latest(out, path)
            return path
    raise DiskError(f"{out} already holds a thousand runs named {name}")


_NOT_A_PLACE = (
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ENOENT,
)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what the operating system says about a full or forbidden disk into DiskError."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskError(
                f"the disk under {path} {_NO_ROOM[error.errno]}",
                hint="Free space or name another place with --out; what was recorded is kept.",
            ) from error
        if error.errno in _NOT_A_PLACE:
            raise DiskError(
                f"{path} cannot be written: {error.strerror}", hint="Name another place."
            ) from error
        raise


def write_table(path: Path, schema: pa.Schema, run_id: str, rows: Iterable[object]) -> None:
    """Write dataclass or mapping rows as one Parquet file, in the order given."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    common = {"schema_version": 1, "run_id": run_id}
    records = [{**common, **_mapping(row)} for row in rows]
    with disk_errors(path.parent):
        partial = path.with_name(path.name + ".partial")
        pq.write_table(pa.Table.from_pylist(records, schema=schema), partial)
        partial.rename(path)


def write_model(path: Path, model: BaseModel) -> None:
    """Write a model as readable JSON."""
    with disk_errors(path.parent):
        partial = path.with_name(path.name + ".partial")
        partial.write_text(model.model_dump_json(indent=2) + "\n", encoding="utf-8")
        partial.rename(path)


def append_line(path: Path, model: BaseModel) -> None:
    """Append a model as one line of JSON."""
    with disk_errors(path.parent), path.open("a", encoding="utf-8") as file:
        file.write(model.model_dump_json() + "\n")


def read_lines(path: Path, model: type[_M]) -> list[_M]:
    """Return the models that `append_line` wrote; a last line that was cut short is removed.

    Raises RunDirectoryError if a line is damaged.
    """
    if not path.exists():
        return []
    whole, _, cut = path.read_text(encoding="utf-8").rpartition("\n")
    if cut:
        path.write_text(whole + "\n" if whole else "", encoding="utf-8")
    try:
        return [model.model_validate_json(line) for line in whole.splitlines()]
    except ValidationError as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error


def fresh_name(taken: Path, scenario: str, kind: str, now: datetime) -> str:
    """Return a name under `taken` for the directory of something that has several runs."""
    base = f"{now:%Y%m%dT%H%M%SZ}-{scenario}-{kind}"
    candidates = (base, *(f"{base}-{number}" for number in range(2, 1000)))
    return next(one for one in candidates if not (taken / one).exists())


def read_record(run_dir: Path) -> RunRecord:
    """Return `run.json`; raise RunDirectoryError if this is no run directory."""
    return read_model(run_dir, "run.json", RunRecord)


def read_prediction(run_dir: Path) -> PredictionRecord:
    """Return `prediction.json`."""
    return read_model(run_dir, "prediction.json", PredictionRecord)


def read_verdict(run_dir: Path) -> Verdict:
    """Return `verdict.json`."""
    return read_model(run_dir, "verdict.json", Verdict)


#: What marks a directory that belongs to several runs, and the command that made it.
_OF_SEVERAL = {"comparison.json": "compare", "shrink.json": "shrink"}


def read_model(run_dir: Path, name: str, model: type[_M]) -> _M:
    """Return what `write_model` wrote; raise RunDirectoryError if it is not there or damaged."""
    path = run_dir / name
    _check_version(path)
    try:
        return model.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        for written, maker in _OF_SEVERAL.items():
            if (run_dir / written).exists():
                raise RunDirectoryError(
                    f"{run_dir} is no run: `ackproof {maker}` made it, of several",
                    hint="Name one of its runs; its trials.jsonl lists them.",
                ) from None
        raise RunDirectoryError(
            f"{run_dir} is not a finished run directory: it has no {name}",
            hint="Name a folder under runs/, or runs/latest.",
        ) from None
    except (OSError, ValidationError, ValueError) as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error


def read_plan(directory: Path, plan: type[_M], *, maker: str) -> _M:
    """Return the plan of several runs, that `ackproof MAKER` wrote.

    Raises RunDirectoryError if it is not there or damaged.
    """
    path = directory / "plan.json"
    try:
        return plan.model_validate_json(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise RunDirectoryError(
            f"{directory} is no directory of `ackproof {maker}`: it has no plan.json",
            hint=f"Name the directory that `ackproof {maker}` printed.",
        ) from None
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error


def _check_version(path: Path) -> None:
    """Refuse a file of a later format for what it is, not for what is unknown in it."""
    try:
        version = json.loads(path.read_bytes()).get("schema_version", SCHEMA_VERSION)
    except (OSError, ValueError, AttributeError):
        return  # `read_model` says what is wrong with it
    if version != SCHEMA_VERSION:
        raise RunDirectoryError(
            f"{path} has schema version {version}, and this ackproof knows {SCHEMA_VERSION}",
            hint="Read it with the ackproof that wrote it.",
        )


def _mapping(row: object) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    assert is_dataclass(row) and not isinstance(row, type)  # noqa: PT018
    return asdict(row)


def _link_latest(out: Path, path: Path) -> None:
    link = out / f".latest-{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(path.name)
    link.replace(out / "latest")
