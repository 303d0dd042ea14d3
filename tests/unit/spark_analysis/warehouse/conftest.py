"""Warehouses with a few small runs, in each format that this machine has.

The runs are real: `data/runs.tar.xz` has run directories, without logs, segments and pages, of
`ackproof compare acks` (two of its trials), `run acks --arm acks=1`, the same with `--kafka 3.9.1
--set workload.settings.linger.ms=50`, and of `run --producer … --server …` with acks=1 and
min.insync.replicas=1, and with acks=all and min.insync.replicas=2. Only `all` has its final log.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ackproof.runs.verdict import Verdict
from ackproof.warehouse import opening, rows
from ackproof_spark.spark.small_data import small_plans
from ackproof_spark.tables import LEDGER, LOCATION
from ackproof_spark.warehouse.formats import Format
from ackproof_spark.warehouse.load import JudgedRun
from ackproof_spark.warehouse.warehouse import Warehouse

FORMATS = [
    pytest.param(Format.PARQUET, id="parquet"),
    *(
        pytest.param(
            kind,
            id=kind.value,
            marks=[
                pytest.mark.slow,
                pytest.mark.table_format,
                pytest.mark.skipif(not opening.has_jars(kind), reason=f"no jars of {kind}"),
            ],
        )
        for kind in (Format.DELTA, Format.ICEBERG)
    ),
]

#: The run that has a final log.
COMPLETE = "all"

#: Scenario, configuration and version of the stored runs, by short names.
CONFIGURATIONS = {
    "one": ("acks", "acks=1", "4.3.1"),
    "two": ("acks", "acks=1", "4.4.0"),
    "all": ("acks", "acks=all, min.insync.replicas=2", "4.3.1"),
    "lingers": ("acks", "acks=1 with linger.ms=50", "3.9.1"),
    "file-one": ("your-configuration", "acks=1, min.insync.replicas=1", "4.4.0"),
    "file-all": ("your-configuration", "acks=all, min.insync.replicas=2", "4.4.0"),
}

#: The commit with which `file-one` is loaded.
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="session")
def runs_folder(tmp_path_factory) -> Path:
    """The stored runs as `ackproof run` and `compare` left them, with an empty page each."""
    folder: Path = tmp_path_factory.mktemp("stored") / "runs"
    with tarfile.open(Path(__file__).parent / "data" / "runs.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    for verdict in folder.glob("*/verdict.json"):
        verdict.with_name(rows.REPORT).touch()
    return folder


@pytest.fixture(scope="session")
def run_dirs(runs_folder) -> dict[str, Path]:
    names = {configuration: name for name, configuration in CONFIGURATIONS.items()}
    found = {}
    for verdict in sorted(runs_folder.glob("*/verdict.json")):
        run = judged(verdict.parent).run
        found[names[run["scenario"], run["configuration"], run["kafka_version"]]] = verdict.parent
    return found


def copy(directory: Path, to: Path, **observed: int) -> Path:
    """Copy a run directory, with these counts changed in its verdict."""
    copied = Path(shutil.copytree(directory, to / directory.name))
    change_verdict(copied, **observed)
    return copied


def few_sends(directory: Path) -> Path:
    """Keep the first hundred sends of each producer; the verdict's counts stay."""
    for path in (directory / LOCATION["ledger"]).iterdir():
        pq.write_table(pq.read_table(path, schema=LEDGER).slice(0, 100), path)
    return directory


def change_verdict(directory: Path, **observed: int) -> None:
    path = directory / "verdict.json"
    verdict = json.loads(path.read_text())
    verdict["observed"] |= observed
    path.write_text(json.dumps(verdict))


def verdict_of(directory: Path) -> Verdict:
    return rows.read_verdict(directory)


def judged(directory: Path, **options: str) -> JudgedRun:
    return rows.read_runs([directory], **options)[0]


@pytest.fixture
def few_rows(spark) -> Iterator[None]:
    """Plan the test's queries for few rows: else most of their time is that of the compiler."""
    with small_plans(spark, rows=0):
        yield


@pytest.fixture(params=FORMATS)
def warehouse(request, spark, tmp_path) -> Warehouse:
    """An empty warehouse."""
    return Warehouse.create(spark, str(tmp_path / "warehouse"), request.param)


@pytest.fixture(scope="session", params=FORMATS)
def loaded(request, spark, tmp_path_factory, run_dirs) -> Warehouse:
    """A warehouse with all of `run_dirs`, and sends and reads of `COMPLETE`."""
    from ackproof_spark.warehouse.load import load

    place = tmp_path_factory.mktemp("loaded") / "warehouse"
    filled = Warehouse.create(spark, str(place), request.param)
    complete = judged(run_dirs[COMPLETE])
    with_commit = judged(run_dirs["file-one"], commit=COMMIT)
    others = [judged(run) for name, run in run_dirs.items() if name not in (COMPLETE, "file-one")]
    load(filled, [complete], sends=True, reads=True)
    load(filled, [with_commit, *others])
    return filled
