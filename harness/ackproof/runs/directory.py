"""The run directory contains everything that the judge needs, without a cluster.

Its name is ``runs/<utc>-<scenario>-<seed>/``; ``runs/latest`` is the newest, or a comparison::

    run.json             configuration, image, times, problems during the run
    scenario.yaml        the resolved scenario
    prediction.json      the model's prediction
    ledger/              sends and their outcomes
    final_log/           the records of the topics after the run
    partition_ends.parquet  fault_windows.parquet  partition_states.parquet
    broker_states.parquet   anomalies/
    metadata.log  logs/  recorded by the cluster
    manifest.json        every file above with its digest
    verdict.json  trace.json  overview.json  report.html  junit.xml

docs/reference/run-directory.md lists all files and tables.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from ackproof import safe_files
from ackproof.errors import DiskError, RunDirectoryError
from ackproof.proxy.follower_fetches import EarlyHighWatermark
from ackproof.proxy.listed_ends import ListedEnd
from ackproof.runs.verdict import Likelihood, PredictionReport, Record, Verdict
from ackproof.safe_files import replacing
from ackproof.scenario.types import Setting
from ackproof_model import Diagram

if TYPE_CHECKING:
    import pyarrow as pa

_M = TypeVar("_M", bound=BaseModel)

_UNWRITABLE_DISK = {
    errno.ENOSPC: "is full",
    errno.EDQUOT: "is over its quota",
    errno.EROFS: "is read-only",
}
_UNWRITABLE_PATH = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOENT}
)

_DAMAGED = "Restore it from a copy of the run, or run the scenario again."

#: Bytes of free space without which no run begins.
LEAST_FREE = 32_000_000

#: Maximum bytes of a document of a run; a run of days has some millions.
MOST_BYTES = 256_000_000

#: The options of a comparison or shrink, in the directory that it wrote for several runs.
PLAN = "plan.json"
#: Beside it: a line for each finished run.
TRIALS = "trials.jsonl"


#: Environment variables of GitHub, GitLab and Jenkins with the tested commit.
COMMIT_VARIABLES = ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT")


class Clock(Record):
    """The offset of the clock `of` from this host's clock; positive if it is ahead.

    `give_or_take_ms` is the uncertainty of `offset_ms`.
    """

    of: str
    offset_ms: float
    give_or_take_ms: float


class RunRecord(Record):
    """`run.json`. A run with `troubles` is inconclusive, unless a violation was observed."""

    schema_version: int = 1
    run_id: str
    configuration_name: str = ""
    configuration: dict[str, Setting] = Field(default_factory=dict)
    #: Values of the scenario that `--set` or the user's own files replaced.
    overrides: dict[str, Any] = Field(default_factory=dict)
    #: The commit of the user's project, from `COMMIT_VARIABLES`; empty if none of them is set.
    commit: str = ""
    image: str
    #: The harness process. While it exists and `finished_at` is None, the run is in progress.
    pid: int
    started_at: datetime
    finished_at: datetime | None = None
    troubles: list[str] = Field(default_factory=list)
    #: Those of faults and of how producers ended: a record that is missing was lost all the same.
    schedule_troubles: list[str] = Field(default_factory=list)
    #: Data that an attached cluster does not provide.
    unobserved: list[str] = Field(default_factory=list)
    #: Clients slower than the cluster. Latency and availability are then not reported.
    bottlenecks: list[str] = Field(default_factory=list)
    #: Clients that took acks late. Latency and unavailability are then upper bounds.
    late: list[str] = Field(default_factory=list)
    #: Whether an earlier run of the suite used the same cluster.
    reused: bool = False
    #: The id of the replayed run, or empty.
    replays: str = ""
    #: Spark data sources that read the final log (`ackproof_spark.reading.final_log.Reader`).
    readers: list[str] = Field(default_factory=list)
    #: Whether `manifest.json` was written when recording ended.
    sealed: bool = False
    #: Seen by the proxy between brokers, with `INTERNAL` in `cluster.proxied`.
    early_high_watermarks: list[EarlyHighWatermark] = Field(default_factory=list)
    #: Seen by the proxy on the way to clients.
    listed_ends: list[ListedEnd] = Field(default_factory=list)
    #: The clocks of the container engine and of every node, at the end of the run.
    clocks: list[Clock] = Field(default_factory=list)


class PredictionRecord(Record):
    """`prediction.json`: the model's prediction, made before the run."""

    predicted: dict[str, Likelihood]
    prediction: PredictionReport
    #: The cluster's version or make, if it is not modelled.
    kafka_version: str = ""
    #: The data of `prediction.diagram`; None if there is none.
    diagram: Diagram | None = None


def create(out: Path, *, scenario: str, configuration: str, seed: int, now: datetime) -> Path:
    """Create a run directory under `out` and point `latest` to it.

    Raises DiskError if it cannot be written, or if the disk has less than `LEAST_FREE` left.
    """
    parts = [f"{now:%Y%m%dT%H%M%SZ}", scenario]
    if configuration:
        parts.append(re.sub(r"[^A-Za-z0-9.]+", "-", configuration).strip("-"))
    name = "-".join([*parts, str(seed)])
    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(out).free < LEAST_FREE:
            raise OSError(errno.ENOSPC, "too little space for a run")
        for suffix in ("", *(f"-{n}" for n in range(2, 1000))):
            path = out / (name + suffix)
            try:
                path.mkdir()
            except FileExistsError:
                continue
            link_latest(out, path)
            return path
    raise DiskError(
        f"{out} already has 999 runs named {name}", hint="Remove some, or use another folder."
    )


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an OSError about a full, read-only or forbidden folder into DiskError."""
    try:
        yield
    except OSError as error:
        if error.errno in _UNWRITABLE_DISK:
            raise DiskError(
                f"the disk under {path} {_UNWRITABLE_DISK[error.errno]}",
                hint="Free space, or write to another folder. Recorded data was not removed.",
            ) from error
        if error.errno in _UNWRITABLE_PATH:
            raise DiskError(
                f"{path} cannot be written: {error.strerror}", hint="Name another folder."
            ) from error
        raise


def write_table(path: Path, schema: pa.Schema, run_id: str, rows: Iterable[Any]) -> None:
    """Write dataclass or mapping rows as one Parquet file, in the given order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ackproof_spark.tables import SCHEMA_VERSION

    common = {"schema_version": SCHEMA_VERSION, "run_id": run_id}
    records = [{**common, **(row if isinstance(row, Mapping) else asdict(row))} for row in rows]
    with disk_errors(path.parent), replacing(path) as partial:
        table = pa.Table.from_pylist(records, schema=schema)
        pq.write_table(table, partial, write_page_checksum=True)


def table_rows(run_dir: Path, table: str) -> list[dict[str, Any]]:
    """Return a table's rows, which is empty if the table is missing.

    Raises RunDirectoryError if the table is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ackproof_spark.tables import LOCATION

    path = run_dir / LOCATION[table]
    try:
        if not path.exists():
            return []
        rows: list[dict[str, Any]] = pq.read_table(
            path, page_checksum_verification=True
        ).to_pylist()
        return rows
    except (pa.ArrowException, OSError, OverflowError) as error:
        raise RunDirectoryError(f"{path} is damaged or cut short: {error}") from None


def write_model(path: Path, model: BaseModel, *, indent: int | None = 2) -> None:
    with disk_errors(path.parent), replacing(path) as partial:
        partial.write_text(model.model_dump_json(indent=indent) + "\n", encoding="utf-8")


def append_line(path: Path, model: BaseModel) -> None:
    with disk_errors(path.parent), path.open("a", encoding="utf-8") as file:
        file.write(model.model_dump_json() + "\n")


def read_lines(path: Path, model: type[_M]) -> list[_M]:
    """Return the models that `append_line` wrote. Removes an incomplete last line from the file.

    Raises RunDirectoryError if a line is damaged.
    """
    try:
        text = safe_files.read(path, most=MOST_BYTES).decode("utf-8")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{path} is damaged: {error}", hint=_DAMAGED) from error
    whole, _, incomplete = text.rpartition("\n")
    if incomplete:
        with replacing(path) as partial:
            partial.write_text(whole + "\n" if whole else "", encoding="utf-8")
    lines: list[_M] = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            lines.append(model.model_validate_json(line))
        except ValidationError as error:
            raise RunDirectoryError(
                f"{path}:{number} is damaged, or of another version: {_first_of(error)}",
                hint="Read it with the ackproof that wrote it, or begin again without it.",
            ) from error
    return lines


def fresh_name(parent: Path, scenario: str, kind: str, now: datetime) -> str:
    """Return an unused name under `parent` for a directory of several runs."""
    base = f"{now:%Y%m%dT%H%M%SZ}-{scenario}-{kind}"
    candidates = (base, *(f"{base}-{number}" for number in range(2, 1000)))
    return next(name for name in candidates if not (parent / name).exists())


def read_record(run_dir: Path) -> RunRecord:
    """Return `run.json`. Raises RunDirectoryError if `run_dir` is not a run directory."""
    return read_model(run_dir, "run.json", RunRecord)


def read_verdict(run_dir: Path) -> Verdict:
    """Return `verdict.json`. Raises RunDirectoryError if the run was not judged."""
    return read_model(run_dir, "verdict.json", Verdict)


def read_model(run_dir: Path, name: str, model: type[_M]) -> _M:
    """Read a model's JSON file. Raises RunDirectoryError if it is absent or damaged."""
    path = run_dir / name
    try:
        content = safe_files.read(path, most=MOST_BYTES)
        _check_version(path, content)
        return model.model_validate_json(content.decode("utf-8"))
    except FileNotFoundError:
        raise _absent(run_dir, name) from None
    except (OSError, ValueError) as error:
        why = _first_of(error) if isinstance(error, ValidationError) else error
        raise RunDirectoryError(f"{path} is damaged: {why}", hint=_DAMAGED) from error


def _first_of(invalid: ValidationError) -> str:
    first, *more = invalid.errors(include_url=False)
    where = "".join(f"{part}: " for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    return f"{where}{message}" + (f" (and {len(more)} more)" if more else "")


def _absent(run_dir: Path, name: str) -> RunDirectoryError:
    if not run_dir.exists():
        return RunDirectoryError(
            f"{run_dir}: no such run directory", hint="`ackproof runs` lists the stored runs."
        )
    if is_of_several_runs(run_dir):
        return RunDirectoryError(
            f"{run_dir} is not one run: it belongs to a comparison or a shrink",
            hint="Name one of its runs; its trials.jsonl lists them.",
        )
    if name == "verdict.json" and is_interrupted(run_dir):
        return RunDirectoryError(
            f"{run_dir} has no verdict", hint=f"Judge it first: ackproof check {run_dir}"
        )
    return RunDirectoryError(
        f"{run_dir} is not a finished run directory: it has no {name}",
        hint="Name a directory under runs/, or runs/latest.",
    )


def refuse_special_files(run_dir: Path) -> None:
    """Raise RunDirectoryError for a pipe, a socket or a device, because reading may never end."""
    for path in run_dir.rglob("*"):
        with suppress(OSError):  # a broken link, which the check of the manifest reports
            if kind := safe_files.kind_of(path):
                raise RunDirectoryError(
                    f"{path} is {kind}: a run has only files and folders",
                    hint="Judge the directory as it was recorded: remove it, or restore the file.",
                )


def is_of_several_runs(directory: Path) -> bool:
    """Whether `ackproof compare` or `shrink` wrote the directory, for several runs."""
    return (directory / PLAN).exists()


def is_interrupted(directory: Path) -> bool:
    """Whether this is the directory of a run that has no verdict."""
    return (directory / "run.json").exists() and not (directory / "verdict.json").exists()


def read_plan(directory: Path, plan: type[_M], *, maker: str) -> _M:
    """Return the `plan.json` of `ackproof MAKER`.

    Raises RunDirectoryError if it is absent or damaged.
    """
    if not (directory / PLAN).exists():
        raise RunDirectoryError(
            f"{directory} is not a directory of `ackproof {maker}`: it has no {PLAN}",
            hint=f"Name the directory that `ackproof {maker}` printed.",
        )
    return read_model(directory, PLAN, plan)


def _check_version(path: Path, content: bytes) -> None:
    """Refuse a later format by its version, before an unknown field is reported."""
    from ackproof_spark.tables import SCHEMA_VERSION

    try:
        version = json.loads(content).get("schema_version", SCHEMA_VERSION)
    except (ValueError, RecursionError, AttributeError):
        return  # `read_model` reports it
    if version != SCHEMA_VERSION:
        raise RunDirectoryError(
            f"{path} has schema version {version}; this ackproof reads version {SCHEMA_VERSION}",
            hint="Read it with the ackproof that wrote it.",
        )


def link_latest(out: Path, path: Path) -> None:
    """Let `latest` in `out` link to a run or a comparison in it."""
    link = out / f".latest-{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(path.name)
    link.replace(out / "latest")
