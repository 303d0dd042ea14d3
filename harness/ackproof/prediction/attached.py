"""The prediction for a run on an attached cluster.

A scenario does not contain the settings of a cluster that ackproof did not start, so the cluster is
asked for them (DescribeConfigs). The model knows the faults that act on a container; a user's own
command may do anything. Without the settings no anomaly is excluded, and the prediction says why.
A cluster that is not Apache Kafka is not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping

from ackproof.cluster.attached import AttachedCluster
from ackproof.errors import ClusterError
from ackproof.prediction.replication import not_modelled, predict
from ackproof.runs.directory import PredictionRecord
from ackproof.runs.verdict import NOT_KAFKA
from ackproof.scenario.cluster import PER_TOPIC_SETTINGS, TIMERS, ClusterSpec
from ackproof.scenario.model import Scenario
from ackproof.scenario.topics import SETTINGS
from ackproof.scenario.types import Setting

#: Every broker of Apache Kafka has it, and describes it.
_OF_KAFKA = "replica.lag.time.max.ms"


def predict_attached(scenario: Scenario, cluster: AttachedCluster) -> PredictionRecord:
    """Return the prediction for every anomaly, with reasons."""
    if scenario.cluster.implementation == "other":
        return predict(scenario)
    brokers = cluster.broker_ids()
    try:
        described = cluster.broker_settings()
    except ClusterError as error:
        return _undecided(scenario, error.message)
    lacking = sorted(node for node, settings in described.items() if _OF_KAFKA not in settings)
    if lacking:
        reason = f"broker {lacking[0]} has no setting {_OF_KAFKA}: it is not Apache Kafka"
        return not_modelled(scenario, reason, version=NOT_KAFKA)
    different = sorted(
        key
        for key in (*TIMERS, *PER_TOPIC_SETTINGS)
        if len({settings.get(key) for settings in described.values()}) > 1
    )
    if different:
        return _undecided(scenario, f"the brokers have different values of {', '.join(different)}")
    return predict(_as_started(scenario, len(brokers), described[brokers[0]]))


def _as_started(scenario: Scenario, brokers: int, described: Mapping[str, str]) -> Scenario:
    """Return the scenario as if ackproof had started this cluster."""
    settings: dict[str, Setting] = {
        key: described[key] for key in (*TIMERS, *SETTINGS) if key in described
    }
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
    """Return the prediction without the cluster's settings; `reason` says why they are unknown."""
    record = predict(scenario)
    why = f"{reason}, so no anomaly is excluded"
    prediction = record.prediction.model_copy(
        update={"reasons": dict.fromkeys(record.predicted, why), "bounds": why}
    )
    return record.model_copy(update={"prediction": prediction})
