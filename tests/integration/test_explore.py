"""`ackproof explore --for` on brokers: the coverage grows, and another call continues."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from docker import DockerClient
from rich.console import Console

from ackproof.exploration import coverage, loop
from ackproof.exploration import examined as examined_module
from ackproof.exploration.examined import examined
from ackproof.exploration.folder import Exploration, Folder
from ackproof.exploration.loop import Explorer
from ackproof.exploration.next_schedule import next_schedule
from ackproof.exploration.results import Proposal, Schedule, certain_pairs
from ackproof.judgement.judge import judge_run
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.progress import ConsoleReporter
from ackproof.runs.verdict import Finding, Verdict
from ackproof.scenario.loader import load, validate
from ackproof.scenario.model import Scenario
from ackproof_model.adversary import Budgets
from ackproof_model.coverage import Reached
from ackproof_model.planning import Operation, OperationKind
from unit.harness.exploration.explorations import proposed_again

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def scenario_of(settings: dict[str, object]) -> Scenario:
    return validate(
        {
            "version": 1,
            "name": "orders",
            "kafka": os.environ.get("ACKPROOF_KAFKA", DEFAULT_KAFKA),
            "topics": {"orders": {"settings": {"min.insync.replicas": 2}}},
            "workload": {"topic": "orders", "tail": 50, "settings": settings},
        }
    )


def explorer_of(
    path: Path, scenario: Scenario, everything: Reached, engine: DockerClient
) -> Explorer:
    folder = Folder(path, Exploration.of(scenario, everything.model))
    folder.open()
    return Explorer(
        scenario=scenario,
        everything=everything,
        folder=folder,
        ways=folder.ways(everything, lambda text: None),
        seed=1,
        engine=engine,
        reporter=ConsoleReporter(Console(stderr=True)),
    )


def test_the_coverage_grows_and_another_call_continues(
    tmp_path: Path, engine: DockerClient
) -> None:
    scenario = scenario_of({"acks": "all", "enable.idempotence": True})
    everything = coverage.reached(scenario, Budgets(kills=1), max_states=10_000)

    def explore(runs: int) -> list[int]:
        """Run this many schedules; return how many pairs are certain after each stored run."""
        explorer = explorer_of(tmp_path / "explored", scenario, everything, engine)
        left = iter(range(runs))
        explorer.explore(lambda: next(left, None) is not None)
        results, ways = explorer.folder.results(), explorer.ways
        for result in results.values():
            again = proposed_again(result, results, ways)
            assert again == result.proposal
            assert not result.findings, result
        names = list(results)
        return [
            len(certain_pairs({name: results[name] for name in names[: number + 1]}))
            for number in range(len(names))
        ]

    first = explore(2)
    assert len(first) == 2
    assert first[-1] > 0
    then = explore(2)
    assert then[:2] == first
    assert then[-1] > first[-1]


@pytest.mark.timeout(3600)
def test_a_loss_is_reduced_and_repeated(
    tmp_path: Path, engine: DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """acks=1 loses; here every loss is a finding, as if the model excluded it."""
    scenario = scenario_of({"acks": 1, "enable.idempotence": False})
    everything = coverage.reached(scenario, Budgets(kills=1, in_all=1), max_states=10_000)
    explorer = explorer_of(tmp_path / "explored", scenario, everything, engine)
    leader_dies = (
        Operation(kind=OperationKind.WITHHOLD, broker=0, settled=False),
        Operation(kind=OperationKind.KILL, broker=0),
    )
    longer = (*leader_dies, Operation(kind=OperationKind.START, broker=0))
    first = Proposal(schedule=Schedule(operations=longer, records=20), origin="drawn")

    def judged(run_dir: Path) -> Verdict:
        verdict = judge_run(run_dir)
        if not (lost := verdict.observed.get("lost")):
            return verdict
        found = Finding(anomaly="lost", predicted="impossible", observed=lost, explanation="gone")
        return verdict.model_copy(update={"findings": [found]})

    def proposed(seed: int, number: int, *args: object, **more: object) -> Proposal:
        return first if number == 0 else next_schedule(seed, number, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "judge_run", judged)
    monkeypatch.setattr(loop, "next_schedule", proposed)
    monkeypatch.setattr(examined_module, "REPEATED", 2)

    def goes_on() -> bool:
        """Until the first run has found nothing, or everything is examined."""
        results = explorer.folder.results()
        found = examined(everything.model, results)
        return not results or not all(one.done for one in found)

    explorer.explore(goes_on)
    [found] = examined(everything.model, explorer.folder.results())
    # Now and then a kill alone loses what was acked a moment before.
    assert set(found.schedule.operations) < set(longer)
    assert leader_dies[-1] in found.schedule.operations
    assert found.done
    assert found.shown >= 1, found
    [written] = (tmp_path / "explored" / "findings").iterdir()
    (again,) = load(written)
    assert "kill" in [one.name for one in again.scenario.faults]
