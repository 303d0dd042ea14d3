"""The prediction for a run's scenario with Kafka's safest settings for acked records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ackproof.kafka_versions import DEFAULT_KAFKA, WITH_ELR
from ackproof.runs.directory import PredictionRecord
from ackproof.runs.overview import Safer, SaferStep
from ackproof.runs.verdict import Likelihood, Verdict, Word
from ackproof.safer_settings import Protection, candidates
from ackproof.scenario.client import ClientLibrary
from ackproof.scenario.model import Scenario
from ackproof.scenario.types import setting_text
from ackproof_model import Profile
from ackproof_model.kafka_settings import (
    ACKS,
    ENABLE_IDEMPOTENCE,
    MIN_INSYNC_REPLICAS,
    TRANSACTION_VERSION,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)
from ackproof_spark.forensics.cases import Case

Predict = Callable[[Scenario], PredictionRecord]


#: The anomalies against which advice is given.
_LOST, _ABORTED_READ = "lost", "aborted-read"


def safer(scenario: Scenario, verdict: Verdict, predict: Predict) -> Safer | None:
    """Predict the scenario with safer settings.

    The result is None if the run is inconclusive, its cluster is not modelled, or neither a loss
    nor an aborted read was observed or is possible.
    """
    foreseen = verdict.predicted
    if verdict.verdict is Word.INCONCLUSIVE or foreseen.get(_LOST) == "not modelled":
        return None
    concerns = [
        anomaly
        for anomaly in (_LOST, _ABORTED_READ)
        if foreseen.get(anomaly, "impossible") != "impossible" or verdict.observed.get(anomaly, 0)
    ]
    if not concerns:
        return None
    replicas, changed, steps = scenario.topic.replication_factor, scenario, list[SaferStep]()
    if _LOST in concerns and replicas > 1:
        changed, steps = _steps(scenario, foreseen.get(_LOST), predict)
        if steps and steps[-1].predicted == "impossible":
            concerns.remove(_LOST)
    return Safer(
        replicas=replicas,
        steps=steps,
        reason=_cause_seen(verdict) or verdict.prediction.reasons.get(_LOST, ""),
        protocol_2=_excluded_by_protocol_2(changed, concerns, predict),
    )


def _cause_seen(verdict: Verdict) -> str:
    """Return the known cause of most lost records; empty if nothing was lost, or unexplained."""
    known = set(Case) - {Case.UNEXPLAINED}
    return next((one.title for one in verdict.causes if one.case in known), "")


def _steps(
    scenario: Scenario, likelihood: Likelihood | None, predict: Predict
) -> tuple[Scenario, list[SaferStep]]:
    """Return the scenario with the changes of all steps, and the steps."""
    changed, settings = safest(scenario)
    steps = []
    if settings:
        record = predict(changed)
        likelihood = record.predicted.get(_LOST)
        steps.append(_step(settings, record))
    profile = Profile.of(scenario.kafka)
    lacks_elr = not profile.zookeeper and not profile.elr
    if likelihood != "impossible" and lacks_elr:
        upgraded = changed.model_copy(update={"kafka": f"{WITH_ELR.since}.0"})
        record = predict(upgraded)
        if record.predicted.get(_LOST) not in (likelihood, "certain", None):
            steps.append(_step({"Kafka": WITH_ELR.label}, record))
            changed = upgraded
    return changed, steps


def _step(changes: Mapping[str, Any], record: PredictionRecord) -> SaferStep:
    return SaferStep(
        changes={key: setting_text(value) for key, value in changes.items()},
        predicted=record.predicted[_LOST],
        reason=record.prediction.reasons.get(_LOST, ""),
        availability=record.prediction.availability,
    )


def _excluded_by_protocol_2(
    scenario: Scenario, concerns: Sequence[str], predict: Predict
) -> list[str]:
    """Return the anomalies that transaction protocol 2 excludes; none if it cannot be had."""
    workload, cluster = scenario.workload, scenario.cluster
    if workload.transactions is None or scenario.transaction_protocol(workload.client) == 2:
        return []
    client = ClientLibrary(java=DEFAULT_KAFKA)
    upgraded = scenario.model_copy(
        update={
            "workload": workload.model_copy(update={"client": client}),
            "cluster": cluster.model_copy(
                update={"features": {**cluster.features, TRANSACTION_VERSION: 2}}
            ),
        }
    )
    if upgraded.transaction_protocol(client) != 2:
        return []
    predicted = predict(upgraded).predicted
    return [anomaly for anomaly in concerns if predicted.get(anomaly) == "impossible"]


def safest(scenario: Scenario) -> tuple[Scenario, Mapping[str, Any]]:
    """Return the scenario with the safest settings for acked records, and the changes.

    Replicas, racks and flushes stay as the scenario has them, and settings that are costly.
    """
    topic, settings = scenario.topic, scenario.workload.settings
    now = Protection(
        kafka=scenario.kafka,
        acks=settings.acks,
        replicas=topic.replication_factor,
        min_insync_replicas=topic.min_insync_replicas,
        unclean=unclean_election(scenario),
        zookeeper=Profile.of(scenario.kafka).zookeeper,
        elr=Profile.of(scenario.kafka).elr,
    )
    wanted = {change.setting: change.value for change in candidates(now) if not change.costly}
    changes: dict[str, Any] = {ACKS: wanted[ACKS]} if ACKS in wanted else {}
    if changes:
        settings = settings.with_acks("all")
    of_topic = {key: read(wanted[key]) for key, read in _OF_TOPIC.items() if key in wanted}
    topic = topic.model_copy(update={"settings": {**topic.settings, **of_topic}})
    workload = scenario.workload.model_copy(update={"settings": settings})
    topics = {**scenario.topics, scenario.workload.topic: topic}
    return scenario.model_copy(update={"topics": topics, "workload": workload}), changes | of_topic


#: Settings of a topic that a run may change, and what a scenario has as their value.
_OF_TOPIC: Mapping[str, Callable[[str], Any]] = {
    MIN_INSYNC_REPLICAS: int,
    UNCLEAN_LEADER_ELECTION_ENABLE: lambda value: value == "true",
}


def durability_of(scenario: Scenario) -> dict[str, str | int | float | bool]:
    return {
        "acks": scenario.workload.settings.acks,
        ENABLE_IDEMPOTENCE: scenario.workload.settings.idempotence,
        "replication_factor": scenario.topic.replication_factor,
        MIN_INSYNC_REPLICAS: scenario.topic.min_insync_replicas,
        UNCLEAN_LEADER_ELECTION_ENABLE: unclean_election(scenario),
    }


def unclean_election(scenario: Scenario) -> bool:
    """Return whether the topic allows unclean leader election, by its settings or by default."""
    given = scenario.topic.unclean_leader_election
    return Profile.of(scenario.kafka).unclean_by_default if given is None else given
