"""Delivery guarantees on a real cluster: each is kept, and broken where it does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from docker import DockerClient
from rich.console import Console

from ackproof.execution import runner
from ackproof.progress import ConsoleReporter
from ackproof.runs.verdict import Word
from ackproof.scenario.loader import load

SCENARIOS = Path(__file__).parents[2] / "scenarios" / "guarantees"

#: Scenario, configuration, and the anomaly that breaks its guarantee; None if it is kept.
CASES = [
    ("processing", "commit after processing", None),
    ("processing", "commit before processing", "unprocessed"),
    ("processing", "automatic commit", "unprocessed"),
    ("isolation", "read_committed", None),
    ("isolation", "read_uncommitted", "aborted-read"),
    ("zombie", "same transactional.id", None),
    ("zombie", "new transactional.id", "zombie-commit"),
    ("duplicates", "idempotent", None),
    ("duplicates", "not idempotent", "duplicated"),
    ("pipeline", "offsets in the transaction", None),
    ("pipeline", "offsets after sending", "reprocessed"),
    ("order", "one in flight", None),
    ("order", "five in flight, idempotent", None),
    ("order", "five in flight", "reordered"),
    ("late-commit", "response", None),
    ("late-commit", "request", "aborted-read"),
    ("compaction", "compact", None),
    ("compaction", "delete", None),
    ("compaction", "compact, a loss", "lost"),
]


def test_every_configuration_of_the_shipped_scenarios_is_listed() -> None:
    shipped = [
        (path.stem, one.name) for path in sorted(SCENARIOS.glob("*.yaml")) for one in load(path)
    ]
    assert sorted(shipped) == sorted((scenario, name) for scenario, name, _ in CASES)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "name", "broken_by"), CASES)
def test_a_guarantee_is_kept_or_broken(
    engine: DockerClient, tmp_path: Path, scenario: str, name: str, broken_by: str | None
) -> None:
    (configured,) = [one for one in load(SCENARIOS / f"{scenario}.yaml") if one.name == name]
    reporter = ConsoleReporter(Console(stderr=True))
    _, verdict = runner.run(configured, out=tmp_path, client=engine, reporter=reporter)
    assert (verdict.observed["lost"] > 0) == (broken_by == "lost")
    assert verdict.verdict is Word.HOLDS, verdict.reason
    assert broken_by is None or verdict.observed[broken_by] > 0
    if scenario == "order":
        assert verdict.observed["unknown"] == 0  # what was dropped was sent again, and acked


@pytest.mark.cluster
@pytest.mark.slow
def test_the_same_faults_break_the_guarantee_of_one_topic_only(
    engine: DockerClient, tmp_path: Path
) -> None:
    (configured,) = load(SCENARIOS.parent / "side-by-side.yaml")
    reporter = ConsoleReporter(Console(stderr=True))
    _, verdict = runner.run(configured, out=tmp_path, client=engine, reporter=reporter)
    assert verdict.verdict is Word.HOLDS, verdict.reason
    assert verdict.by_topic["orders"]["acked"] > 0
    assert "lost" not in verdict.by_topic["orders"]
    assert verdict.by_topic["clicks"]["lost"] == verdict.observed["lost"] > 0
    assert {cause.topic for cause in verdict.causes} == {"clicks"}
    assert all("acks=1" in cause.sentence for cause in verdict.causes)
