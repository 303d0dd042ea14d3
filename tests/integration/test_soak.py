"""Soaks: run after run in one process, and one long run, under as many faults a minute as fit.

Sampled meanwhile: memory of the harness and of its children, open files, threads, child processes,
containers, temporary files. `ACKPROOF_SOAK_MINUTES=60` (`ci/lab/soak 60`) takes longer than
ci/slow.
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from docker import DockerClient

from ackproof.runs import directory as runs
from ackproof.runs.verdict import Verdict, Word
from integration.command import ours
from integration.medicine import Patient

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
MINUTES = float(os.environ.get("ACKPROOF_SOAK_MINUTES", "10"))

#: Two equal configurations, so that no comparison is decided before the time is over.
SCENARIO = """\
version: 1
name: soak
cluster: {{brokers: 3, heap: 128m}}
topics: {{orders: {{partitions: 2, settings: {{min.insync.replicas: 2}}}}}}
workload:
  topic: orders
  rate: 1000/s
  seconds: 20s
  tail: 200
  settings: {{acks: all, enable.idempotence: true, delivery.timeout.ms: 30000}}
faults:
  - random:
      - {{fault: kill, target: any broker}}
      - {{fault: restart, target: any broker}}
      - {{fault: pause, target: any broker}}
      - {{fault: isolate_replication, target: any broker}}
      - {{fault: reset_connections, target: any broker}}
      - {{fault: preferred_election, topic: orders}}
    for: 15s
    lasting: [200ms, 2s]
    stable: [100ms, 500ms]
matrix: {{one: {{}}, other: {{}}}}
"""

#: The configuration recommended for consistency, for an hour.
RECOMMENDED = Path(__file__).with_name("soak.yaml")
#: Seconds between two samples of a long run.
EVERY_S = 10

#: A value counts as flat if its median over the last third of the samples is at most this many
#: times that over the middle third, and this much more. Spark's JVM grows for some twenty runs.
FLAT = {
    "harness MB": (1.15, 20),
    "Spark MB": (1.25, 100),
    "clients MB": (1.25, 50),
    "files": (1.0, 8),
    "threads": (1.0, 8),
    "processes": (1.0, 2),
    "containers": (1.0, 0),
    "temporary MB": (1.25, 20),
}
WARM = 2


def test_a_long_session_stays_flat(engine: DockerClient, tmp_path: Path) -> None:
    arguments = (
        "compare",
        "--trials",
        "1000",
        "--margin",
        "0.01",
        "--confidence",
        "0.999",
        "--yes",
    )
    patient = Patient(tmp_path, 1, scenario=SCENARIO, arguments=arguments)
    seen: list[Verdict] = []
    samples = []
    try:
        for verdict, least in _judged(patient, engine, until=time.monotonic() + 60 * MINUTES):
            seen.append(verdict)
            samples.append(least)
    finally:
        patient.process.send_signal(signal.SIGINT)
        patient.await_end()
    faults = sum(len(verdict.faults) for verdict in seen)
    print(f"\n{len(seen)} runs, {faults} faults in {MINUTES} minutes")  # noqa: T201  ci/lab/soak shows it
    for name in FLAT:
        print(f"{name}: {[round(sample[name]) for sample in samples]}")  # noqa: T201
    assert "Traceback" not in patient.said, patient.said
    assert len(seen) > WARM + 3, patient.said
    assert {verdict.verdict for verdict in seen} <= {Word.HOLDS, Word.INCONCLUSIVE}
    assert [name for name in FLAT if not flat(name, [sample[name] for sample in samples])] == []
    assert patient.left(engine) == []


def test_a_long_run_survives_its_faults_and_stays_flat(
    engine: DockerClient, tmp_path: Path
) -> None:
    """The recommended configuration: 60 MINUTES have 500 faults and ten million acks."""
    text = RECOMMENDED.read_text().replace("for: 22m", f"for: {22 * MINUTES:g}s")
    samples: list[dict[str, float]] = []
    with Patient(tmp_path, 1, scenario=text.replace("{", "{{").replace("}", "}}")) as patient:
        patient.await_event("ack", lambda: patient.acked > 0)
        # Without clients the log is being read, which is not what has to stay flat.
        while patient.process.poll() is None:
            sample = _sample(patient, engine)
            if not sample["clients MB"]:
                break
            samples.append(sample)
            time.sleep(EVERY_S)
        for name in FLAT:
            print(f"{name}: {[round(sample[name]) for sample in samples]}")  # noqa: T201
        patient.process.wait()
        assert patient.run_dir is not None, patient.said
        verdict = runs.read_verdict(patient.run_dir)
        print(f"\n{verdict.observed}, {len(verdict.faults)} faults in {MINUTES} minutes")  # noqa: T201
        assert verdict.predicted["lost"] == "impossible"
        assert verdict.verdict is Word.HOLDS, verdict.reason
        assert verdict.observed["acked"] >= MINUTES / 60 * 10_000_000
        assert len(verdict.faults) >= MINUTES / 60 * 500
        assert [name for name in FLAT if not flat(name, [one[name] for one in samples])] == []
        assert patient.left(engine) == []


def flat(name: str, values: Sequence[float]) -> bool:
    """Whether these values do not grow."""
    warm = values[WARM:]
    third = max(1, len(warm) // 3)
    factor, more = FLAT[name]
    middle, last = warm[-2 * third : -third], warm[-third:]
    return statistics.median(last) <= factor * statistics.median(middle) + more


def _judged(
    patient: Patient, engine: DockerClient, *, until: float
) -> Iterator[tuple[Verdict, dict[str, float]]]:
    """Yield the verdict of each run once it is there, and the least of each value since the last.

    What a run uses comes and goes, and the next cluster boots meanwhile: a leak raises the least.
    """
    told: set[Path] = set()
    since: list[dict[str, float]] = []
    while time.monotonic() < until and patient.process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess, ValueError):  # it is just ending
            since.append(_sample(patient, engine))
        for path in sorted(patient.out.glob("*/verdict.json")):
            run_dir = path.parent.resolve()
            if run_dir not in told and since:
                told.add(run_dir)
                yield (
                    runs.read_verdict(run_dir),
                    {name: min(sample[name] for sample in since) for name in FLAT},
                )
                since = []
        time.sleep(1)


def _sample(patient: Patient, engine: DockerClient) -> dict[str, float]:
    harness, *children = patient.family()
    memory = Counter({"Spark": 0, "clients": 0})
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            memory["Spark" if child.name() == "java" else "clients"] += child.memory_info().rss
    temporary = 0
    for path in patient.temporary.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            temporary += path.stat().st_size
    return {
        "harness MB": harness.memory_info().rss / 2**20,
        "Spark MB": memory["Spark"] / 2**20,
        "clients MB": memory["clients"] / 2**20,
        "files": harness.num_fds(),
        "threads": harness.num_threads(),
        "processes": len(children),
        "containers": len(ours(engine, patient.process.pid)["containers"]),
        "temporary MB": temporary / 2**20,
    }
