"""`ackproof explore --for` on brokers: the coverage grows, and another call continues."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from docker import DockerClient
from rich.console import Console

from ackproof.exploration import coverage
from ackproof.exploration.folder import Exploration, Folder
from ackproof.exploration.loop import Explorer
from ackproof.exploration.results import certain_pairs
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.progress import ConsoleReporter
from ackproof.scenario.loader import validate
from ackproof_model.adversary import Budgets
from unit.harness.exploration.explorations import proposed_again

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_the_coverage_grows_and_another_call_continues(
    tmp_path: Path, engine: DockerClient
) -> None:
    scenario = validate(
        {
            "version": 1,
            "name": "orders",
            "kafka": os.environ.get("ACKPROOF_KAFKA", DEFAULT_KAFKA),
            "topics": {"orders": {"settings": {"min.insync.replicas": 2}}},
            "workload": {
                "topic": "orders",
                "tail": 50,
                "settings": {"acks": "all", "enable.idempotence": True},
            },
        }
    )
    everything = coverage.reached(scenario, Budgets(kills=1), max_states=10_000)

    def explore(runs: int) -> list[int]:
        """Run this many schedules; return how many pairs are certain after each stored run."""
        folder = Folder(tmp_path / "explored", Exploration.of(scenario, everything.model))
        folder.open()
        ways = folder.ways(everything, lambda text: None)
        left = iter(range(runs))
        Explorer(
            scenario=scenario,
            everything=everything,
            folder=folder,
            ways=ways,
            seed=1,
            engine=engine,
            reporter=ConsoleReporter(Console(stderr=True)),
        ).explore(lambda: next(left, None) is not None)
        results = folder.results()
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
