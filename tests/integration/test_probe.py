"""The probe on real brokers: what can be read and written, and what was read and is gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from docker import DockerClient
from rich.console import Console

from ackproof.execution import runner
from ackproof.ledger import probed_ends
from ackproof.progress import ConsoleReporter
from ackproof.runs.verdict import Verdict, Word
from ackproof.scenario.loader import load

SCENARIOS = Path(__file__).parents[2] / "scenarios"

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def run(engine: DockerClient, out: Path, scenario: str, name: str = "") -> Verdict:
    (configured,) = [one for one in load(SCENARIOS / scenario) if one.name == name]
    reporter = ConsoleReporter(Console(stderr=True))
    _, verdict = runner.run(configured, out=out, client=engine, reporter=reporter)
    assert verdict.verdict is Word.HOLDS, verdict.reason
    return verdict


@pytest.mark.parametrize("on", ["", " on 0.10.2.2", " on 2.6.2"])
def test_after_an_unclean_election_records_are_gone_that_were_read(engine, tmp_path, on):
    verdict = run(engine, tmp_path, "visibility.yaml", f"unclean election{on}")
    assert verdict.observed["read-then-gone"] > 0


def test_with_clean_elections_every_record_that_was_read_stays(engine, tmp_path):
    verdict = run(engine, tmp_path, "visibility.yaml", "no unclean election")
    assert verdict.observed["read-then-gone"] == 0


def test_replicas_that_die_and_return_one_after_the_other(engine, tmp_path):
    verdict = run(engine, tmp_path, "recovery.yaml")
    told = {
        tuple(step.in_force): (step.partitions[0].readable, step.partitions[0].writable)
        for step in verdict.steps
    }
    assert told[()] == ("yes", "yes")
    assert told[0,] == ("yes", "yes")  # ISR {1, 2}: also in the end, when 1 and 2 are back
    assert told[0, 1, 2] == ("no", "no")
    (ends,) = tmp_path.rglob(probed_ends.NAME)
    assert max(answer["end"] for answer in probed_ends.recorded(ends)) > 0
