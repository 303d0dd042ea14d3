"""The harness under its own medicine: something happens to it at a random moment of a real run.

After each: what was recorded as acked is in the ledger, no verdict says `holds` of incomplete data,
no traceback is shown, `ackproof clean` leaves nothing, and the next run works.
`ACKPROOF_SCHEDULES=200 ACKPROOF_SEED=1` (`ci/lab/medicine 200 1`) takes more of them.
"""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from ackproof.runs.verdict import Word
from integration.command import ours
from integration.medicine import Patient, judged, reasons_against_holds
from integration.troubles import (
    OTHER_TROUBLES,
    TROUBLES,
    Trouble,
    killed_comparison,
    killed_java_client,
    killed_probe,
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(
        platform.system() != "Linux" or os.geteuid() != 0,
        reason="mounts a small disk, and suspends processes: root on Linux",
    ),
]
SCHEDULES = int(os.environ.get("ACKPROOF_SCHEDULES", str(len(TROUBLES))))
SEED = int(os.environ.get("ACKPROOF_SEED", "1"))


@pytest.mark.parametrize("seed", range(SEED, SEED + SCHEDULES))
def test_the_harness_survives_what_happens_to_it(
    seed: int, spark: object, engine: DockerClient, tmp_path: Path
) -> None:
    survives(TROUBLES[seed % len(TROUBLES)], seed, engine, tmp_path)


@pytest.mark.parametrize("seed", range(SEED, SEED + SCHEDULES // len(OTHER_TROUBLES)))
def test_the_harness_survives_what_happens_to_its_other_processes(
    seed: int, spark: object, engine: DockerClient, tmp_path: Path
) -> None:
    survives(OTHER_TROUBLES[seed % len(OTHER_TROUBLES)], seed, engine, tmp_path)


def survives(trouble: Trouble, seed: int, engine: DockerClient, tmp_path: Path) -> None:
    began = time.monotonic()
    with trouble(engine, tmp_path, seed) as (patient, what), patient:
        code = patient.await_end()
        before = len(patient.left(engine, patience_s=0))
        acked = patient.acked
        told = ", ".join(map(judged, patient.run_dirs)) or "no run directory"
        patient.clean()
        left = patient.left(engine)
        if trouble is killed_comparison:
            told += f"; {continued(patient)}"
    ended = "killed" if code < 0 else f"exit {code}"
    print(  # noqa: T201  ci/lab/medicine shows it
        f"\n{seed} {trouble.__name__}: {what}; {ended} after {time.monotonic() - began:.0f} s, "
        f"{acked} acked; check: {told}; left {before}, after clean {left}"
    )
    assert left == []
    if trouble in (killed_probe, killed_java_client) and " 0 " not in what:
        assert told != str(Word.HOLDS), "what a killed client would have seen is missing"
    # Nothing happened to a record, so nothing may be said to be lost.
    assert code in {0, 3, 4, -9}, patient.said
    assert "Traceback" not in patient.said, patient.said
    assert "unexpected" not in patient.said, patient.said


def continued(patient: Patient) -> str:
    """Continue a comparison; return how many runs that took."""
    [directory] = patient.out.glob("*-comparison")
    done = trials(directory)
    before = patient.run_dirs
    result = patient.command("compare", "--resume", directory)
    # On a busy machine a fault may not end in time, which is inconclusive.
    assert result.returncode in {0, 3}, result.stderr
    assert "Traceback" not in result.stderr
    ended = trials(directory)
    assert ended[: len(done)] == done
    assert sorted(trial["configuration"] for trial in ended) == ["long", "short"]
    new = [path for path in patient.run_dirs if path not in before]
    assert [path.name for path in new] == [trial["run_id"] for trial in ended[len(done) :]]
    told = ", ".join(judged(path) for path in new)
    assert "refused" not in told
    return f"continued with {len(new)} runs ({told})"


def trials(directory: Path) -> list[dict[str, Any]]:
    path = directory / "trials.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_clean_leaves_the_run_of_another_checkout_alone_and_the_next_run_holds(
    engine: DockerClient, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "others").mkdir()
    with Patient(tmp_path / "mine", 1) as killed, Patient(tmp_path / "others", 2) as other:
        killed.await_event("ack", lambda: killed.acked > 0)
        killed.process.kill()
        killed.await_end()
        other.await_event("ack", lambda: other.acked > 0)
        before = {one.id for one in ours(engine, other.process.pid)["containers"]}
        killed.clean()
        after = {one.id for one in ours(engine, other.process.pid)["containers"]}
        assert killed.left(engine) == []
        assert len(before & after) >= 3  # brokers, their controller
        assert other.await_end() == 0, other.said
        assert other.run_dir is not None
        assert reasons_against_holds(other.run_dir) == []
        assert other.left(engine) == []
