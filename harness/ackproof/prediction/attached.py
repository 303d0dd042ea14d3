"""What the model says of a run on an attached cluster.

The scenario does not know the cluster's settings, so they are asked for (DescribeConfigs). A fault
on a container is one that the model knows; a user's own command may do anything. Where the settings
cannot be had, nothing is excluded, and the prediction says why.
"""

from __future__ import annotations

from collections.abc import Mapping

from ackproof.cluster.attached import AttachedCluster
from ackproof.errors import ClusterError
from ackproof.prediction.replication import foresee
from ackproof.runs.directory import PredictionRecord
from ackproof.scenario.cluster import PER_TOPIC_SETTINGS, TIMERS, ClusterSpec
from ackproof.scenario.model import Scenario
from ackproof.scenario.types import Setting


def foresee_attached(scenario: Scenario, cluster: AttachedCluster) -> PredictionRecord:
    """Return what the model says about every anomaly, and why."""
    brokers = cluster.broker_ids()
    try:
        described = cluster.broker_settings()
    except ClusterError as error:
        return _undecided(scenario, error.message)
    apart = sorted(
        key
        for key in (*TIMERS, *PER_TOPIC_SETTINGS)
        if len({settings.get(key) for settings in described.values()}) > 1
    )
    if apart:
        return _undecided(scenario, f"the brokers differ in {', '.join(apart)}")
    return foresee(_as_started(scenario, len(brokers), described[brokers[0]]))


def _as_started(scenario: Scenario, brokers: int, described: Mapping[str, str]) -> Scenario:
    """Return the scenario as if ackproof had started this very cluster."""
    settings: dict[str, Setting] = {key: described[key] for key in TIMERS if key in described}
    defaults = {key: described[key] for key in PER_TOPIC_SETTINGS if key in described}
    topics = {
        name: topic.model_copy(update={"settings": {**defaults, **topic.settings}})
        for name, topic in scenario.topics.items()
    }
    return scenario.model_copy(
        update={
            "cluster": ClusterSpec.model_construct(brokers=brokers, settings=settings),
            "topics": topics,
        }
    )


def _undecided(scenario: Scenario, reason: str) -> PredictionRecord:
    """Return the prediction when the cluster's settings are not known, with the reason for that."""
    record = foresee(scenario)
    why = f"{reason}, so nothing is excluded"
    prediction = record.prediction.model_copy(
        update={"reasons": dict.fromkeys(record.predicted, why), "bounds": why}
    )
    return record.model_copy(update={"prediction": prediction})
