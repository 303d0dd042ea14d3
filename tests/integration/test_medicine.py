"""The harness under its own medicine: something happens to it at a random moment of a real run.

After each: what was recorded as acked is in the ledger, no verdict says `holds` of incomplete data,
no traceback is shown, `ackproof clean` leaves nothing, and the next run works.
`ACKPROOF_SCHEDULES=200 ACKPROOF_SEED=1` (`ci/medicine 200 1`) takes more of them.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import pytest
from docker import DockerClient

from ackproof.clients.shared_page import recorded
from ackproof.errors import DiskError, RunDirectoryError
from ackproof.judgement.judge import judge_run
from ackproof.runs.verdict import Word
from integration.command import ours
from integration.medicine import Patient, ledger_rows, reasons_against_holds
from integration.troubles import TROUBLES

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
    trouble = TROUBLES[seed % len(TROUBLES)]
    began = time.monotonic()
    with trouble(engine, tmp_path, seed) as (patient, what), patient:
        code = patient.await_end()
        before = len(patient.left(engine, patience_s=0))
        acked = patient.acked
        told = judged(patient)
        patient.clean()
        left = patient.left(engine)
    ended = "killed" if code < 0 else f"exit {code}"
    print(  # noqa: T201  ci/medicine shows it
        f"\n{seed} {trouble.__name__}: {what}; {ended} after {time.monotonic() - began:.0f} s, "
        f"{acked} acked; check: {told}; left {before}, after clean {left}"
    )
    assert left == []
    # Nothing happened to a record, so nothing may be said to be lost.
    assert code in {0, 3, 4, -9}, patient.said
    assert "Traceback" not in patient.said, patient.said
    assert "unexpected" not in patient.said, patient.said


def judged(patient: Patient) -> str:
    """Judge what the run has left; return its verdict, or why it was refused."""
    if patient.run_dir is None or not (patient.run_dir / "run.json").exists():
        return "no run directory"
    try:
        verdict = judge_run(patient.run_dir)
    except (RunDirectoryError, DiskError) as error:
        return f"refused ({error.message.replace(str(patient.run_dir), '…')[:100]})"
    assert verdict.verdict is not Word.VIOLATED, verdict.reason
    assert kept(patient.run_dir) == []
    if verdict.verdict is Word.HOLDS:
        assert reasons_against_holds(patient.run_dir) == []
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
    counts = {int(page.stem.removeprefix("producer-")): recorded(page)[1].acked for page in pages}
    return [
        f"producer {number}: {acked.count(number)} of {count} acked"
        for number, count in counts.items()
        if acked.count(number) < count
    ]


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
