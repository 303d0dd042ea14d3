"""A short run of the command in a process of its own, to which something happens (`troubles`).

`Patient` is that run, its run directory, and what is left of it. What it recorded is judged here by
its files alone.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import psutil
import pyarrow.parquet as pq
from docker import DockerClient

from ackproof.clients.shared_page import recorded
from ackproof.errors import ClusterError, DiskError, RunDirectoryError
from ackproof.judgement.judge import judge_run
from ackproof.ledger.producer_ledger import table_path
from ackproof.runs import manifest
from ackproof.runs.verdict import Word
from ackproof.waiting import wait_for
from ackproof_spark.tables import LOCATION, RecordState
from integration.command import ROOT, ackproof, ours

SCENARIO = """\
version: 1
name: medicine
seed: {seed}
cluster: {{brokers: 2, heap: 128m, disk: 200m}}
topics: {{orders: {{partitions: 2, replication_factor: 2}}}}
workload:
  topic: orders
  rate: 700/s
  records: 8000
  tail: 300
  settings: {{acks: all, enable.idempotence: true}}
  consumers: {{readers: {{}}}}
faults:
  - {{fault: isolate_replication, target: leader of orders-0, when: 500 acked, heal_after: 1s}}
  - {{fault: flapping, target: 1, peers: [2], up: 200ms, down: 200ms, heal_after: 3s}}
"""
PROBED = SCENARIO.replace("  consumers:", "  probe: true\n  consumers:")
JAVA = SCENARIO.replace("  topic: orders", "  topic: orders\n  client: java")
#: Both configurations may use one cluster, and the second one's boots ahead if they do not.
COMPARED = (
    SCENARIO
    + """\
matrix:
  short: {{workload: {{settings: {{linger.ms: 5}}}}}}
  long: {{workload: {{settings: {{linger.ms: 50}}}}}}
"""
)
#: What `holds` may rest on: both faults, both partitions.
FAULTS = 2
PARTITIONS = 2

#: Seconds until a run has begun, and until it has ended: events, but machines may be slow.
_BEGIN_S = 180
_END_S = 400


class Patient:
    """The command at work on a scenario, with temporary files of its own."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        *,
        scenario: str = SCENARIO,
        arguments: Sequence[str] = ("run",),
        out: Path | None = None,
        **environment: str,
    ) -> None:
        self.draw = random.Random(seed)
        self.out = out or folder / "runs"
        self.out.mkdir(exist_ok=True)
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        # Runs at the same time must see each other's reservations of ports.
        ports = f"ackproof-ports-{os.getuid()}"
        shared = Path(tempfile.gettempdir()) / ports
        shared.mkdir(mode=0o700, exist_ok=True)
        (self.temporary / ports).symlink_to(shared)
        self._environment = {"TMPDIR": str(self.temporary), **environment}
        self._said = folder / "said"
        (folder / "medicine.yaml").write_text(scenario.format(seed=seed))
        program = str(Path(sys.executable).with_name("ackproof"))
        with self._said.open("w") as said:
            self.process = subprocess.Popen(
                [program, *arguments, str(folder / "medicine.yaml"), "--out", str(self.out)],
                cwd=ROOT,
                env={**os.environ, **self._environment},
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what still runs: a test that fails leaves no run behind."""
        self.process.kill()
        self.process.wait()

    @property
    def said(self) -> str:
        return self._said.read_text(errors="replace")

    @property
    def run_dir(self) -> Path | None:
        latest = self.out / "latest"
        return latest.resolve() if latest.exists() else None

    @property
    def run_dirs(self) -> list[Path]:
        """The directories of its runs, the first one first: a comparison has several."""
        return sorted(path.parent for path in self.out.glob("2*/run.json"))

    @property
    def acked(self) -> int:
        """The sends that the producers' pages count as acked and recorded."""
        if self.run_dir is None:
            return 0
        pages = (self.run_dir / "clients").glob("producer-*.progress")
        with contextlib.suppress(ValueError):  # a page that is just being written
            return sum(recorded(page).counted.acked for page in pages)
        return 0

    @property
    def sealed(self) -> bool:
        """Whether recording has ended: from now on Spark compares."""
        return self.run_dir is not None and manifest.exists(self.run_dir)

    def await_event(self, what: str, happened: Callable[[], bool]) -> None:
        """Wait for an event; it is no error that the run ends before."""
        wait_for(
            lambda: self.process.poll() is not None or happened(),
            bool,
            within_s=_BEGIN_S,
            failure=lambda _: ClusterError(f"no {what}: {self.said}"),
        )

    def await_end(self) -> int:
        try:
            return self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it hangs: {self.said}") from None

    def family(self) -> list[psutil.Process]:
        """Return the harness and its processes."""
        with contextlib.suppress(psutil.NoSuchProcess):
            harness = psutil.Process(self.process.pid)
            return [harness, *harness.children(recursive=True)]
        return []

    def children(self, word: str) -> list[psutil.Process]:
        """Return the processes of the harness with this word in their command lines."""
        found = []
        for child in self.family()[1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                if word in " ".join(child.cmdline()):
                    found.append(child)
        return found

    def left(self, engine: DockerClient, *, patience_s: float = 120) -> list[str]:
        """Return what is left of it: on the engine, in its temporary folder, and as processes.

        Clients whose harness is gone end by themselves within `patience_s`.
        """
        objects = ours(engine, self.process.pid)
        found = [f"{kind} {one.name}" for kind, those in objects.items() for one in those]
        found += [f"file {path.name}" for path in self.temporary.iterdir() if not path.is_symlink()]
        ending = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if str(self.out) in " ".join(process.cmdline()):
                    ending.append(process)
        _, alive = psutil.wait_procs(ending, timeout=patience_s)
        return found + [f"process {process}" for process in alive]

    def clean(self) -> None:
        result = self.command("clean")
        assert result.returncode == 0, result.stderr

    def command(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run another command with the same temporary files and environment."""
        return ackproof(*arguments, **self._environment)


def ledger_rows(run_dir: Path) -> dict[str, list[Any]]:
    """Return the names and outcomes of the closed ledger, without Spark."""
    rows: dict[str, list[Any]] = {"name": [], "outcome": []}
    for page in (run_dir / "clients").glob("producer-*.progress"):
        number = int(page.stem.removeprefix("producer-"))
        if not table_path(run_dir, number).exists():
            continue
        table = pq.read_table(table_path(run_dir, number), columns=["sequence", "outcome"])
        rows["name"] += [(number, one) for one in table["sequence"].to_pylist()]
        rows["outcome"] += table["outcome"].to_pylist()
    return rows


def reasons_against_holds(run_dir: Path) -> list[str]:
    """Return why this run must not hold, by its files alone."""
    from ackproof.runs import directory as runs

    record = runs.read_record(run_dir)
    windows = pq.read_table(run_dir / LOCATION["fault_windows"]).to_pylist()
    ends = pq.read_table(run_dir / LOCATION["partition_ends"]).to_pylist()
    log = pq.read_table(run_dir / LOCATION["final_log"], columns=["producer", "sequence", "state"])
    there = {
        (row["producer"], row["sequence"])
        for row in log.to_pylist()
        if row["state"] == RecordState.INTACT
    }
    rows = ledger_rows(run_dir)
    acked = {
        name
        for name, outcome in zip(rows["name"], rows["outcome"], strict=True)
        if outcome == "acked"
    }
    wrong = {
        f"troubles: {record.troubles}": bool(record.troubles),
        "the run never finished": record.finished_at is None,
        f"{len(windows)} fault windows": len(windows) != FAULTS,
        "a fault was not verified": not all(window["verified"] for window in windows),
        f"{len(ends)} partition ends": len(ends) != PARTITIONS,
        "a partition was not read to its end": not all(end["complete"] for end in ends),
        f"{len(acked - there)} acked are not in the log": bool(acked - there),
        "nothing was acked": not acked,
    }
    return [reason for reason, applies in wrong.items() if applies]


def judged(run_dir: Path) -> str:
    """Judge what a run has left; return its verdict, or why it was refused."""
    try:
        verdict = judge_run(run_dir)
    except (RunDirectoryError, DiskError) as error:
        return f"refused ({error.message.replace(str(run_dir), '…')[:100]})"
    assert verdict.verdict is not Word.VIOLATED, verdict.reason
    assert kept(run_dir) == []
    if verdict.verdict is Word.HOLDS:
        assert reasons_against_holds(run_dir) == []
    return str(verdict.verdict)


def kept(run_dir: Path) -> list[str]:
    """Return the producers whose ledgers have fewer acked sends than their pages count."""
    rows = ledger_rows(run_dir)
    acked = [
        number
        for (number, _), outcome in zip(rows["name"], rows["outcome"], strict=True)
        if outcome == "acked"
    ]
    pages = (run_dir / "clients").glob("producer-*.progress")
    counts = {
        int(page.stem.removeprefix("producer-")): recorded(page).counted.acked for page in pages
    }
    return [
        f"producer {number}: {acked.count(number)} of {count} acked"
        for number, count in counts.items()
        if acked.count(number) < count
    ]
