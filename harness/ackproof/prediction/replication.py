"""The prediction for a scenario: which anomalies are impossible, possible or certain.

The model describes one partition, so it is asked once for each partition of the topic: a fault on
"the leader of orders-0" certainly hits the leader of that partition, and any one replica of another
partition. Then the answers are joined: what is certain in one partition is certain in the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ackproof.prediction import cached
from ackproof.prediction.clients import predict_clients
from ackproof.prediction.effects import keeps_leaders, model_effects
from ackproof.runs.directory import PredictionRecord
from ackproof.runs.verdict import PredictionReport
from ackproof.scenario.model import Scenario, TopicSpec
from ackproof.scenario.workload import Sends
from ackproof_faults import Fault, plain
from ackproof_faults.conditions.condition import Condition
from ackproof_faults.conditions.partition_state import IsrIs, LeaderChanges
from ackproof_faults.conditions.progress import After, ProgressIs
from ackproof_faults.conditions.targets import TargetSpec
from ackproof_model import Condition as Abstract
from ackproof_model import (
    Configuration,
    Elapsed,
    Injection,
    IsrSize,
    LeaderChanged,
    Likelihood,
    Prediction,
    Profile,
    Progress,
    Role,
    join,
)
from ackproof_model.prediction.predict import MAX_STATES
from ackproof_spark.tables import OF_REPLICAS, PREDICTED

# Kafka's defaults in milliseconds: ReplicationConfigs, and KRaftConfigs.
_LAG_TIME = ("replica.lag.time.max.ms", 30_000)
_SESSION_TIMEOUT = ("broker.session.timeout.ms", 9_000)

#: Of librdkafka, and of scenarios, milliseconds.
_REQUEST_TIMEOUT = ("request.timeout.ms", 30_000)
_DELIVERY_TIMEOUT = ("delivery.timeout.ms", 120_000)

_STRENGTH = [Likelihood.IMPOSSIBLE.value, Likelihood.POSSIBLE.value, Likelihood.CERTAIN.value]

#: Every fault adds records and interleavings; with more faults the search would not end.
_MAX_FAULTS = 8

#: Replaces a condition on another partition, which may hold at any time.
_ANY_TIME = IsrSize(op=">=", size=0)


def predict(scenario: Scenario, *, max_states: int = MAX_STATES) -> PredictionRecord:
    """Return the prediction for every anomaly, with reasons; `max_states` limits the search.

    If the model does not know the rules of the cluster, every anomaly is possible. The prediction
    for the run is the strongest of those for its topics and groups.
    """
    if not scenario.workload.beside:
        return _with_clients(scenario, _of_topic(scenario, max_states))
    each = {topic: _of_topic(_only(scenario, topic), max_states) for topic in scenario.sends}
    return _with_clients(scenario, _strongest(each))


def _with_clients(scenario: Scenario, record: PredictionRecord) -> PredictionRecord:
    """Return the prediction, joined with those for transactions and consumer groups."""
    predicted, reasons = dict(record.predicted), dict(record.prediction.reasons)
    fault = _unknown_fault(scenario)
    for anomaly, prediction, reason in (
        [] if _unknown_version(scenario) else predict_clients(scenario)
    ):
        if fault and prediction is Likelihood.IMPOSSIBLE:
            prediction, reason = Likelihood.POSSIBLE, fault  # noqa: PLW2901
        before = predicted.get(anomaly, Likelihood.IMPOSSIBLE.value)
        if anomaly not in predicted or _STRENGTH.index(before) < _STRENGTH.index(prediction.value):
            predicted[str(anomaly)], reasons[str(anomaly)] = prediction.value, reason
    return PredictionRecord(
        predicted=predicted,
        prediction=record.prediction.model_copy(update={"reasons": reasons}),
    )


def _only(scenario: Scenario, topic: str) -> Scenario:
    """Return the scenario reduced to one of the topics that are written to."""
    sends = scenario.sends[topic]
    update: dict[str, object] = {name: getattr(sends, name) for name in Sends.model_fields}
    workload = scenario.workload.model_copy(update={**update, "topic": topic, "beside": {}})
    return scenario.model_copy(update={"workload": workload})


def _strongest(records: Mapping[str, PredictionRecord]) -> PredictionRecord:
    """Return, for each anomaly, the strongest of the topics' predictions with its reason.

    Trace and risk of a loss are those of the topic with the strongest prediction for it.
    """

    def strongest(anomaly: str) -> str:
        return max(records, key=lambda topic: _STRENGTH.index(records[topic].predicted[anomaly]))

    predicted, reasons = {}, {}
    for anomaly in next(iter(records.values())).predicted:
        topic = strongest(anomaly)
        predicted[anomaly] = records[topic].predicted[anomaly]
        if reason := records[topic].prediction.reasons.get(anomaly):
            reasons[anomaly] = f"{topic}: {reason}"
    return PredictionRecord(
        predicted=predicted,
        prediction=records[strongest("lost")].prediction.model_copy(update={"reasons": reasons}),
    )


def _of_topic(scenario: Scenario, max_states: int) -> PredictionRecord:
    if unknown := _unknown_version(scenario) or _unknown_fault(scenario):
        return _everything_possible(unknown)
    topic = scenario.workload.topic
    distinct: dict[tuple[tuple[Injection, ...], ...], Prediction] = {}
    for partition in range(scenario.topic.partitions):
        readings = tuple(_schedules(scenario, topic, partition))
        if readings not in distinct:  # most partitions are alike
            distinct[readings] = _of_partition(scenario, readings, max_states)
    joined = _with_compaction(scenario.topic, join(list(distinct.values())))
    joined = _with_retries(scenario, joined)
    return PredictionRecord(
        predicted={name: likelihood.value for name, likelihood in joined.likelihood.items()},
        prediction=PredictionReport(
            trace=list(joined.trace),
            diagram=list(joined.diagram),
            at_risk=list(joined.at_risk),
            error_codes=list(joined.error_codes),
            reasons=dict(joined.reasons),
            bounds=joined.bounds,
        ),
    )


def _with_compaction(topic: TopicSpec, prediction: Prediction) -> Prediction:
    """Weaken a prediction about replicas if each broker compacts its own logs."""
    if not topic.compacted:
        return prediction
    changed = [str(anomaly) for anomaly in OF_REPLICAS]
    reason = "the topic is compacted, by each broker independently"
    return replace(
        prediction,
        likelihood={**prediction.likelihood, **dict.fromkeys(changed, Likelihood.POSSIBLE)},
        reasons={**prediction.reasons, **dict.fromkeys(changed, reason)},
    )


def _with_retries(scenario: Scenario, prediction: Prediction) -> Prediction:
    """Weaken a prediction if the client may send again what timed out.

    The model resends requests that a closed connection left unanswered, but has no timeouts. With
    acks=all a leader waits for followers for up to `replica.lag.time.max.ms`. An idempotent
    producer resends safely until sends time out: then librdkafka takes a new producer epoch, in
    which the leader knows none of the earlier sequences (KIP-360; docs/catalogue, B21).
    """
    settings, cluster = scenario.workload.settings, scenario.cluster
    idempotent = settings.idempotence
    name, default = _DELIVERY_TIMEOUT if idempotent else _REQUEST_TIMEOUT
    timeout = int(settings.as_client_settings().get(name, default))
    waits = settings.acks == "all" and timeout <= int(cluster.settings.get(*_LAG_TIME))
    faulted = any(model_effects(fault) != () for fault in scenario.every_fault)
    if (
        settings.acks == "0"
        or not settings.retries
        or not ((waits and faulted) or (timeout < default and not idempotent))
    ):
        return prediction
    changed = [
        anomaly
        for anomaly in (("duplicated",) if idempotent else ("duplicated", "reordered"))
        if prediction.likelihood[anomaly] is Likelihood.IMPOSSIBLE
    ]
    reason = f"the client sends again what takes longer than {name}={timeout}"
    return replace(
        prediction,
        likelihood={**prediction.likelihood, **dict.fromkeys(changed, Likelihood.POSSIBLE)},
        reasons={**prediction.reasons, **dict.fromkeys(changed, reason)},
    )


def _unknown_version(scenario: Scenario) -> str:
    """Return why the model does not know this cluster's rules; '' if it does."""
    if scenario.cluster.attach is not None:
        return "an attached cluster's settings are unknown before a run, so no anomaly is excluded"
    try:
        Profile.of(scenario.kafka)
    except ValueError as error:
        return f"the model has no profile of this version ({error}), so no anomaly is excluded"
    changed = sorted(scenario.cluster.features)
    if changed:
        return (
            f"the model knows only the default feature levels of a version, and cluster.features "
            f"sets {', '.join(changed)}, so no anomaly is excluded"
        )
    return ""


def _unknown_fault(scenario: Scenario) -> str:
    """Return that the model does not know a fault, which may even damage records; '' otherwise."""
    if faults := sorted(_unknown_faults(scenario)):
        return f"the model does not support the fault {faults[0]}, so no anomaly is excluded"
    return ""


def _everything_possible(reason: str) -> PredictionRecord:
    anomalies = list(map(str, PREDICTED))
    return PredictionRecord(
        predicted=dict.fromkeys(anomalies, Likelihood.POSSIBLE.value),
        prediction=PredictionReport(
            trace=[], reasons=dict.fromkeys(anomalies, reason), bounds=reason
        ),
    )


def _of_partition(
    scenario: Scenario, readings: Sequence[tuple[Injection, ...]], max_states: int
) -> Prediction:
    """Return the prediction for one partition that covers every reading of the schedule."""
    configuration = _configuration(scenario, scenario.topic)
    if unsupported := _unsupported(scenario):
        return _undecided(cached.predict(configuration, []), unsupported)
    if not readings:
        return _undecided(cached.predict(configuration, []), "faults on several of many brokers")
    predictions = [cached.predict(configuration, one, max_states=max_states) for one in readings]
    joined = join(predictions)
    likelihood = {
        anomaly: joined.likelihood[anomaly]
        if len({one.likelihood[anomaly] for one in predictions}) == 1
        else Likelihood.POSSIBLE
        for anomaly in joined.likelihood
    }
    return replace(joined, likelihood=likelihood)


def _unsupported(scenario: Scenario) -> str:
    """Return what in the schedule the model does not support; '' if it supports everything."""
    if not plain(scenario.faults):
        return "schedules with blocks of steps or random targets"
    if len(scenario.faults) > _MAX_FAULTS:
        return f"schedules of {len(scenario.faults)} faults (at most {_MAX_FAULTS} are searched)"
    triggers = [one for fault in scenario.faults for one in (*fault.when, *fault.heal_when)]
    if alternatives := [one for one in triggers if len(one.alternatives) > 1]:
        return f"conditions with alternatives ('{alternatives[0]}')"
    controllers = [one.target for one in scenario.faults if one.target.of_controllers]
    return f"faults on the {controllers[0]}" if controllers else ""


def _unknown_faults(scenario: Scenario) -> set[str]:
    return {fault.name for fault in scenario.every_fault if model_effects(fault) is None}


def _undecided(without_faults: Prediction, unsupported: str) -> Prediction:
    """Return the prediction for a schedule with something that the model does not support."""
    reason = f"the model does not support {unsupported}, so no anomaly is excluded"
    searched = [name for name in without_faults.likelihood if name not in ("phantom", "corrupt")]
    return replace(
        without_faults,
        likelihood={**without_faults.likelihood, **dict.fromkeys(searched, Likelihood.POSSIBLE)},
        reasons={**without_faults.reasons, **dict.fromkeys(searched, reason)},
        bounds=reason,
        complete=False,
    )


def _schedules(scenario: Scenario, topic: str, partition: int) -> Iterator[tuple[Injection, ...]]:
    """Yield every reading of the schedule for one partition: who the targets may be.

    Yields nothing if the model does not support the schedule.
    """
    if _unsupported(scenario):
        return
    roles = [_roles(scenario, index, topic, partition) for index in range(len(scenario.faults))]
    for chosen in itertools.product(*roles):
        yield tuple(
            _injection(fault, targets, topic, partition)
            for fault, targets in zip(scenario.faults, chosen, strict=True)
        )


def _configuration(scenario: Scenario, topic: TopicSpec) -> Configuration:
    settings, cluster = scenario.workload.settings, scenario.cluster

    def seconds(setting: tuple[str, int]) -> float:
        return float(cluster.settings.get(*setting)) / 1000

    return Configuration(
        kafka_version=scenario.kafka,
        acks=settings.acks,
        idempotence=settings.idempotence,
        retries=settings.retries,
        max_in_flight=settings.max_in_flight,
        replication_factor=topic.replication_factor,
        min_insync_replicas=topic.min_insync_replicas,
        unclean_leader_election=topic.unclean_leader_election,
        replica_lag_time_max_s=seconds(_LAG_TIME),
        session_timeout_s=seconds(_SESSION_TIMEOUT),
        delivery_timeout_s=settings.delivery_timeout_ms / 1000,
        brokers=cluster.brokers,
    )


def _injection(fault: Fault, targets: frozenset[Role], topic: str, partition: int) -> Injection:
    return Injection(
        fault=fault.name,
        effects=model_effects(fault) or (),
        targets=targets,
        when=_conditions(fault.when, topic, partition),
        or_after=fault.or_after,
        heal_when=_conditions(fault.heal_when, topic, partition),
        heal_or_after=fault.heal_after,
    )


def _roles(scenario: Scenario, index: int, topic: str, partition: int) -> list[frozenset[Role]]:
    """Return the roles that a fault's target may have in one partition, as alternatives.

    Empty if the model cannot describe them.
    """
    target, brokers = scenario.faults[index].target, scenario.cluster.brokers
    if (target.topic, target.partition) == (topic, partition):
        return [frozenset({Role.LEADER if target.role == "leader" else Role.FOLLOWERS})]
    if _has_same_target(scenario.faults, index):
        return [frozenset({Role.SAME})]
    count = _target_size(scenario, target)
    if count == brokers:
        return [frozenset({Role.LEADER, Role.FOLLOWERS})]
    if count == 1:
        return [frozenset({Role.ANY_ONE})]
    if brokers == scenario.topic.replication_factor == 3:  # two of three
        return [frozenset({Role.FOLLOWERS}), frozenset({Role.LEADER, Role.ANY_ONE})]
    return []  # the model has no role for several of many brokers


def _target_size(scenario: Scenario, target: TargetSpec) -> int:
    match target.role:
        case "leader":
            return 1
        case "followers":
            return scenario.topics[target.topic].replication_factor - 1
        case "brokers":
            return len(set(target.brokers))
    return scenario.cluster.brokers


def _has_same_target(faults: Sequence[Fault], index: int) -> bool:
    """Whether a fault certainly hits the same brokers as the fault before it.

    The same target text means the same brokers as long as no process was stopped in between: a cut
    of replication moves no leadership.
    """
    before = faults[:index]
    return (
        bool(before)
        and before[-1].target == faults[index].target
        and all(map(keeps_leaders, before))
    )


def _conditions(
    conditions: Sequence[Condition], topic: str, partition: int
) -> tuple[Abstract, ...]:
    return tuple(_condition(one, topic, partition) for one in conditions)


def _condition(condition: Condition, topic: str, partition: int) -> Abstract:
    match condition:
        case ProgressIs(outcome=outcome, more=more):
            return Progress(outcome=outcome, more=more)
        case After(seconds=seconds):
            return Elapsed(seconds=seconds)
        case IsrIs(op=op, size=size) if (condition.topic, condition.partition) == (
            topic,
            partition,
        ):
            return IsrSize(op=op, size=size)
        case LeaderChanges() if (condition.topic, condition.partition) == (topic, partition):
            return LeaderChanged()
        case _:
            return _ANY_TIME
