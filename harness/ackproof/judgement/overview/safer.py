"""The prediction for a run's scenario with Kafka's safest settings for acked records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ackproof.runs.directory import PredictionRecord
from ackproof.runs.overview import Safer
from ackproof.runs.verdict import Verdict, Word
from ackproof.scenario.model import Scenario
from ackproof.scenario.types import setting_text
from ackproof_model import Profile

Predict = Callable[[Scenario], PredictionRecord]


def safer(scenario: Scenario, verdict: Verdict, predict: Predict) -> Safer | None:
    """Predict the scenario with safer settings.

    The result is None if the run is inconclusive, its cluster is not modelled, or if it lost
    nothing and the model excludes a loss.
    """
    foreseen = verdict.predicted.get("lost")
    if verdict.verdict is Word.INCONCLUSIVE or foreseen == "not modelled":
        return None
    if foreseen == "impossible" and not verdict.observed.get("lost", 0):
        return None
    replicas = scenario.topic.replication_factor
    changed, changes = safest(scenario)
    if replicas == 1 or not changes:
        return Safer(replicas=replicas, changes={}, predicted=None, availability=[])
    record = predict(changed)
    return Safer(
        replicas=replicas,
        changes={key: setting_text(value) for key, value in changes.items()},
        predicted=record.predicted.get("lost"),
        availability=record.prediction.availability,
    )


def safest(scenario: Scenario) -> tuple[Scenario, Mapping[str, Any]]:
    """Return the scenario with the safest settings for acked records, and the changes.

    These are acks=all, min.insync.replicas of all replicas but one, and no unclean election.
    """
    changes: dict[str, Any] = {}
    topic, settings = scenario.topic, scenario.workload.settings
    if settings.acks != "all":
        changes["acks"] = "all"
        settings = settings.model_copy(update={"acks": "all"})
    wanted: dict[str, Any] = {}
    if topic.min_insync_replicas < max(topic.replication_factor - 1, 1):
        wanted["min.insync.replicas"] = topic.replication_factor - 1
    if unclean_election(scenario):
        wanted["unclean.leader.election.enable"] = False
    changes |= wanted
    topic = topic.model_copy(update={"settings": {**topic.settings, **wanted}})
    workload = scenario.workload.model_copy(update={"settings": settings})
    topics = {**scenario.topics, scenario.workload.topic: topic}
    return scenario.model_copy(update={"topics": topics, "workload": workload}), changes


def unclean_election(scenario: Scenario) -> bool:
    """Return whether the topic allows unclean leader election, by its settings or by default."""
    given = scenario.topic.unclean_leader_election
    return Profile.of(scenario.kafka).unclean_by_default if given is None else given
