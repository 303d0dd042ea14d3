"""Asks the reference model what a scenario may lead to, before it runs.

The model speaks of one partition. A scenario is put to it once for each partition of its topic: a
fault on "the leader of orders-0" hits that partition's leader for certain, and any one replica of
another partition. The answers are joined: what is certain in one partition is certain in the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from ackproof.prediction.cached import predict
from ackproof.prediction.clients import of_clients
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
    FaultName,
    Injection,
    IsrSize,
    LeaderChanged,
    Outlook,
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

#: librdkafka's, milliseconds.
_REQUEST_TIMEOUT = ("request.timeout.ms", 30_000)

_STRENGTH = [Outlook.IMPOSSIBLE.value, Outlook.POSSIBLE.value, Outlook.CERTAIN.value]

#: Each fault adds records and orders; of more, the search would not see the end.
_MOST_FAULTS = 8

#: Stands for a condition on another partition: it may come true at any time, or have been true.
_ANY_TIME = IsrSize(op=">=", size=0)


def foresee(scenario: Scenario, *, max_states: int = MAX_STATES) -> PredictionRecord:
    """Return what the model says about every anomaly, and why; `max_states` bounds its search.

    Of a cluster whose rules the model does not know it says that everything is possible. What
    is certain, or possible, of one topic or group is so of the run.
    """
    if not scenario.workload.beside:
        return _with_clients(scenario, _of_topic(scenario, max_states))
    each = {topic: _of_topic(_only(scenario, topic), max_states) for topic in scenario.sends}
    return _with_clients(scenario, _strongest(each))


def _with_clients(scenario: Scenario, record: PredictionRecord) -> PredictionRecord:
    """Return the prediction with what may come of transactions and groups, if there are any."""
    predicted, reasons = dict(record.predicted), dict(record.prediction.reasons)
    fault = _unknown_fault(scenario)
    for anomaly, outlook, reason in [] if _unknown_version(scenario) else of_clients(scenario):
        if fault and outlook is Outlook.IMPOSSIBLE:
            outlook, reason = Outlook.POSSIBLE, fault  # noqa: PLW2901 -- weakened
        before = predicted.get(anomaly, Outlook.IMPOSSIBLE.value)
        if anomaly not in predicted or _STRENGTH.index(before) < _STRENGTH.index(outlook.value):
            predicted[str(anomaly)], reasons[str(anomaly)] = outlook.value, reason
    return PredictionRecord(
        predicted=predicted,
        prediction=record.prediction.model_copy(update={"reasons": reasons}),
    )


def _only(scenario: Scenario, topic: str) -> Scenario:
    """Return the scenario as it is for one topic of those that are written to."""
    sends = scenario.sends[topic]
    update: dict[str, object] = {name: getattr(sends, name) for name in Sends.model_fields}
    workload = scenario.workload.model_copy(update={**update, "topic": topic, "beside": {}})
    return scenario.model_copy(update={"workload": workload})


def _strongest(records: Mapping[str, PredictionRecord]) -> PredictionRecord:
    """Return for each anomaly the strongest of several predictions, by topic, and its reason.

    What is told of losses, trace and risk, is of the topic that is the likeliest to lose.
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
        if readings not in distinct:  # most partitions differ from each other in nothing
            distinct[readings] = _of_partition(scenario, readings, max_states)
    joined = _compacted(scenario.topic, join(list(distinct.values())))
    joined = _sent_again(scenario, joined)
    return PredictionRecord(
        predicted={name: outlook.value for name, outlook in joined.outlook.items()},
        prediction=PredictionReport(
            trace=list(joined.trace),
            diagram=list(joined.diagram),
            at_risk=list(joined.at_risk),
            error_codes=list(joined.error_codes),
            reasons=dict(joined.reasons),
            bounds=joined.bounds,
        ),
    )


def _compacted(topic: TopicSpec, prediction: Prediction) -> Prediction:
    """Return what is left of a prediction where each broker compacts its logs for itself."""
    if not topic.compacted:
        return prediction
    changed = [str(anomaly) for anomaly in OF_REPLICAS]
    reason = "the topic is compacted, by each broker for itself"
    return replace(
        prediction,
        outlook={**prediction.outlook, **dict.fromkeys(changed, Outlook.POSSIBLE)},
        reasons={**prediction.reasons, **dict.fromkeys(changed, reason)},
    )


def _sent_again(scenario: Scenario, prediction: Prediction) -> Prediction:
    """Return what is left of a prediction where a request may time out and be sent again.

    The model resends what a connection's end left unanswered, and has no request timeout. A leader
    that waits for followers (acks=all) does so for up to `replica.lag.time.max.ms`.
    """
    settings, cluster = scenario.workload.settings, scenario.cluster
    name, default = _REQUEST_TIMEOUT
    timeout = int(settings.as_client_settings().get(name, default))
    stalls = settings.acks == "all" and timeout <= int(cluster.settings.get(*_LAG_TIME))
    struck = any(fault.configured_effect != "none" for fault in scenario.every_fault)
    if (
        settings.idempotence
        or settings.acks == "0"
        or not settings.retries
        or not ((stalls and struck) or timeout < default)
    ):
        return prediction
    changed = [
        anomaly
        for anomaly in ("duplicated", "reordered")
        if prediction.outlook[anomaly] is Outlook.IMPOSSIBLE
    ]
    reason = f"a request that takes longer than {name}={timeout} is sent again"
    return replace(
        prediction,
        outlook={**prediction.outlook, **dict.fromkeys(changed, Outlook.POSSIBLE)},
        reasons={**prediction.reasons, **dict.fromkeys(changed, reason)},
    )


def _unknown_version(scenario: Scenario) -> str:
    """Say why the model does not know this cluster's rules; '' if it does."""
    if scenario.cluster.attach is not None:
        return "the settings of an attached cluster are not known yet, so nothing is excluded"
    try:
        Profile.of(scenario.kafka)
    except ValueError as error:
        return f"the model has no profile of this version ({error}), so nothing is excluded"
    changed = sorted(scenario.cluster.features)
    if changed:
        return (
            f"the model knows each version's own feature levels only, and cluster.features sets "
            f"{', '.join(changed)}, so nothing is excluded"
        )
    return ""


def _unknown_fault(scenario: Scenario) -> str:
    """Say that the model does not know a fault, which may do anything, damage records too."""
    if faults := sorted(_unknown_faults(scenario)):
        return f"the model has no words for the fault {faults[0]}, so nothing is excluded"
    return ""


def _everything_possible(reason: str) -> PredictionRecord:
    anomalies = list(map(str, PREDICTED))
    return PredictionRecord(
        predicted=dict.fromkeys(anomalies, Outlook.POSSIBLE.value),
        prediction=PredictionReport(
            trace=[], reasons=dict.fromkeys(anomalies, reason), bounds=reason
        ),
    )


def _of_partition(
    scenario: Scenario, readings: Sequence[tuple[Injection, ...]], max_states: int
) -> Prediction:
    """Return what may happen to one partition, whichever reading of the schedule comes true."""
    configuration = _configuration(scenario, scenario.topic)
    if unknown := _unknown_words(scenario):
        return _undecided(predict(configuration, []), unknown)
    if not readings:
        return _undecided(predict(configuration, []), "a fault on some of many brokers")
    predictions = [predict(configuration, one, max_states=max_states) for one in readings]
    joined = join(predictions)
    outlook = {
        anomaly: joined.outlook[anomaly]
        if len({one.outlook[anomaly] for one in predictions}) == 1
        else Outlook.POSSIBLE
        for anomaly in joined.outlook
    }
    return replace(joined, outlook=outlook)


def _unknown_words(scenario: Scenario) -> str:
    """Say what in the schedule the model has no words for; '' if it knows everything."""
    if not plain(scenario.faults):
        return "a schedule with blocks of steps or drawn targets"
    if len(scenario.faults) > _MOST_FAULTS:
        return f"a schedule of {len(scenario.faults)} faults (it searches at most {_MOST_FAULTS})"
    triggers = [one for fault in scenario.faults for one in (*fault.when, *fault.heal_when)]
    if alternatives := [one for one in triggers if len(one.alternatives) > 1]:
        return f"a condition with alternatives ('{alternatives[0]}')"
    controllers = [one.target for one in scenario.faults if one.target.of_controllers]
    return f"a fault on the {controllers[0]}" if controllers else ""


def _unknown_faults(scenario: Scenario) -> set[str]:
    known = get_args(FaultName)
    return {fault.name for fault in scenario.every_fault if fault.configured_effect not in known}


def _undecided(harmless: Prediction, unspeakable: str) -> Prediction:
    """Return the prediction for a schedule that the model cannot be told of."""
    reason = f"the model has no words for {unspeakable}, so nothing is excluded"
    searched = [name for name in harmless.outlook if name not in ("phantom", "corrupt")]
    return replace(
        harmless,
        outlook={**harmless.outlook, **dict.fromkeys(searched, Outlook.POSSIBLE)},
        reasons={**harmless.reasons, **dict.fromkeys(searched, reason)},
        bounds=reason,
        complete=False,
    )


def _schedules(scenario: Scenario, topic: str, partition: int) -> Iterator[tuple[Injection, ...]]:
    """Yield every reading of the schedule, seen from one partition.

    None if a fault in it is unknown to the model.
    """
    if _unknown_words(scenario):
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
        # The model knows it: `_unknown_faults`.
        fault=fault.configured_effect,  # type: ignore[arg-type]
        targets=targets,
        when=_conditions(fault.when, topic, partition),
        or_after=fault.or_after,
        heal_when=_conditions(fault.heal_when, topic, partition),
        heal_or_after=fault.heal_after,
    )


def _roles(scenario: Scenario, index: int, topic: str, partition: int) -> list[frozenset[Role]]:
    """Return whom a fault's target may mean, seen from one partition: one of these.

    Empty if the model has no words for it.
    """
    target, brokers = scenario.faults[index].target, scenario.cluster.brokers
    if (target.topic, target.partition) == (topic, partition):
        return [frozenset({Role.LEADER if target.role == "leader" else Role.FOLLOWERS})]
    if _hits_the_same(scenario.faults, index):
        return [frozenset({Role.SAME})]
    hit = _how_many(scenario, target)
    if hit == brokers:
        return [frozenset({Role.LEADER, Role.FOLLOWERS})]
    if hit == 1:
        return [frozenset({Role.ANY_ONE})]
    if brokers == scenario.topic.replication_factor == 3:  # two of three
        return [frozenset({Role.FOLLOWERS}), frozenset({Role.LEADER, Role.ANY_ONE})]
    return []  # the model has no name for "some of many"


def _how_many(scenario: Scenario, target: TargetSpec) -> int:
    match target.role:
        case "leader":
            return 1
        case "followers":
            return scenario.topics[target.topic].replication_factor - 1
        case "brokers":
            return len(set(target.brokers))
    return scenario.cluster.brokers


def _hits_the_same(faults: Sequence[Fault], index: int) -> bool:
    """Whether a fault hits whom the fault before it hit.

    The same words mean the same brokers as long as no process was stopped in between: a cut of
    replication moves no leadership.
    """
    before = faults[:index]
    return (
        bool(before)
        and before[-1].target == faults[index].target
        and all(fault.configured_effect in ("none", "isolate_replication") for fault in before)
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
