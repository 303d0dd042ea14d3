"""The prediction for a scenario: which anomalies are impossible, possible or certain.

The model describes one partition, so it makes a prediction for each partition of the topic: a fault
on "the leader of orders-0" hits the leader of that partition, and any replica of another partition.
Then the predictions are joined: an anomaly that is certain in one partition is certain in the run.

The prediction for transactions and consumer groups has three steps. `clients` returns the effects
of faults on requests and coordinators. The replication model returns whether the partitions of a
topic or a coordinator can lose records. The models of transactions and committed offsets are then
searched with these perturbations.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import cache as remembered
from typing import TYPE_CHECKING

from ackproof.errors import ClusterError
from ackproof.kafka_versions import uses_zookeeper
from ackproof.prediction import cache, groups, share_groups, transactions, worst_case
from ackproof.prediction.clients import ClientPrediction
from ackproof.prediction.exact import in_order, schedules, unsupported
from ackproof.prediction.unmodelled import (
    reused_buffers,
    unknown_rules,
    with_removed,
    with_unmodelled,
)
from ackproof.runs.directory import PredictionRecord
from ackproof.runs.verdict import NOT_KAFKA, PartAvailability, PredictionReport
from ackproof.scenario.cluster import PER_TOPIC_SETTINGS, TIMERS, ClusterSpec
from ackproof.scenario.kafka_clients import REQUEST_TIMEOUT
from ackproof.scenario.librdkafka_models import ProducerSettings
from ackproof.scenario.model import Scenario
from ackproof.scenario.removal import records_of
from ackproof.scenario.topics import OF_COORDINATORS, SETTINGS, TopicSpec
from ackproof.scenario.types import Setting
from ackproof.scenario.workload import Sends
from ackproof_faults import Fault, plain
from ackproof_model import Configuration, Injection, Likelihood, Prediction, Profile, draw, join
from ackproof_model.effects import AddsPartitions, Configures, Partition
from ackproof_model.kafka_settings import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    ENABLE_IDEMPOTENCE,
    MIN_INSYNC_REPLICAS,
    REPLICA_LAG_TIME_MAX_MS,
    SESSION_TIMEOUTS,
)
from ackproof_model.perturbations import WorstCase
from ackproof_model.removal import Records
from ackproof_model.worst_case.in_order import excludes_losses, with_order
from ackproof_model.worst_case.in_order import unsupported as unsupported_in_order
from ackproof_spark.anomaly import (
    OF_CONSUMERS,
    OF_READS,
    OF_SHARE_GROUPS,
    OF_TRANSACTIONS,
    PREDICTED,
    Anomaly,
)

if TYPE_CHECKING:  # predictions need no brokers and no client
    from ackproof.cluster.attached import AttachedCluster

#: Limit of the exact search of one partition, about ten seconds. The worst case answers the rest.
MAX_STATES = 150_000
#: States of the search in the order of faults, of which so many take as long.
_MORE_IN_ORDER = 3

_STRENGTH = [Likelihood.IMPOSSIBLE.value, Likelihood.POSSIBLE.value, Likelihood.CERTAIN.value]

#: How coordinators and forwarding consumers write.
_ACKS_ALL = ProducerSettings.model_validate({"acks": "all", ENABLE_IDEMPOTENCE: True})


def predict(scenario: Scenario, *, max_states: int = MAX_STATES) -> PredictionRecord:
    """Return the prediction for every anomaly, with reasons; `max_states` limits the search.

    If the model does not know the rules of the cluster, every anomaly is possible. The prediction
    for the run is the strongest of those for its topics and groups.
    """
    if scenario.cluster.implementation == "other":
        return not_modelled(scenario, "the cluster is not Apache Kafka", version=NOT_KAFKA)
    if len(scenario.sends) == 1:
        record = _of_topic(scenario, max_states)
    else:
        each = {topic: _of_topic(_only(scenario, topic), max_states) for topic in scenario.sends}
        record = _strongest(each)
    return with_removed(scenario, _with_clients(scenario, record, max_states))


def predict_each(scenarios: Sequence[Scenario]) -> list[PredictionRecord]:
    """Return the prediction for each scenario, computed on all cores if the system can fork."""
    workers = min(len(scenarios), os.cpu_count() or 1)
    if workers < 2 or "fork" not in multiprocessing.get_all_start_methods():
        return [predict(scenario) for scenario in scenarios]
    with ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("fork"),
        initializer=signal.signal,  # Ctrl-C ends the processes without tracebacks
        initargs=(signal.SIGINT, signal.SIG_DFL),
    ) as pool:
        return list(pool.map(predict, scenarios))


def predict_attached(scenario: Scenario, cluster: AttachedCluster) -> PredictionRecord:
    """Return the prediction for a run on a cluster that ackproof did not start.

    Its settings are not in the scenario, so the cluster is asked for them (DescribeConfigs).
    Without them no anomaly is excluded, and the prediction says why. A cluster that is not Apache
    Kafka is not modelled.
    """
    if scenario.cluster.implementation == "other":
        return predict(scenario)
    brokers = cluster.broker_ids()
    try:
        described = cluster.broker_settings()
    except ClusterError as error:
        return _undecided(scenario, error.message)
    lacking = sorted(
        node for node, settings in described.items() if REPLICA_LAG_TIME_MAX_MS not in settings
    )
    if lacking:
        reason = (
            f"broker {lacking[0]} has no setting {REPLICA_LAG_TIME_MAX_MS}: it is not Apache Kafka"
        )
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
    cluster = ClusterSpec.model_construct(brokers=brokers, settings=settings)
    return scenario.model_copy(update={"cluster": cluster, "topics": topics})


def _undecided(scenario: Scenario, reason: str) -> PredictionRecord:
    """Return the prediction for a cluster with unknown settings."""
    record = predict(scenario)
    why = f"{reason}, so no anomaly is excluded"
    prediction = record.prediction.model_copy(
        update={"reasons": dict.fromkeys(record.predicted, why), "bounds": why}
    )
    return record.model_copy(update={"prediction": prediction})


def settling_s(scenario: Scenario) -> float:
    """Return the seconds until the brokers' timers have fired after an event.

    The session of a dead broker ends; a follower that cannot fetch leaves the ISR.
    """
    configured = _configuration(scenario, scenario.topic)
    lags = any(effect.delays_fetches for fault in scenario.every_fault for effect in fault.effects)
    return configured.session_s + (configured.lag_time_s if lags else 0)


#: A read is misplaced if its record was removed as by one of these, and written again.
_OF_MISPLACED = ("lost", "inconsistent", "read-then-gone")


def not_modelled(scenario: Scenario, reason: str, *, version: str) -> PredictionRecord:
    """Return a record without predictions; `version` describes the cluster's version."""
    every = (*PREDICTED, *_of_clients(scenario))
    record = _alike(every, "not modelled", reason, f"not modelled: {reason}")
    return record.model_copy(update={"kafka_version": version})


def _of_clients(scenario: Scenario) -> list[Anomaly]:
    """Return the anomalies that the scenario's clients may show."""
    of_clients = [*OF_TRANSACTIONS] if scenario.workload.transactions is not None else []
    if scenario.workload.consumers:
        of_clients += OF_CONSUMERS
    if scenario.workload.consumers or scenario.workload.probe:
        of_clients += OF_READS
    absent = share_groups.inapplicable(scenario)
    return [*of_clients, *(one for one in OF_SHARE_GROUPS if one not in absent)]


def _with_clients(
    scenario: Scenario, record: PredictionRecord, max_states: int
) -> PredictionRecord:
    """Add the predictions for transactions and consumer groups."""
    predicted, reasons = dict(record.predicted), dict(record.prediction.reasons)
    if not scenario.workload.consumers and not scenario.workload.probe:
        for anomaly in map(str, OF_READS):
            predicted.pop(anomaly, None)
            reasons.pop(anomaly, None)
    if unknown := unknown_rules(scenario):
        of_clients = [(one, Likelihood.POSSIBLE, unknown) for one in _of_clients(scenario)]
    else:
        of_clients = [*predict_clients(scenario, lambda asked: _may_lose(asked, max_states))]
    for anomaly, prediction, reason in of_clients:
        before = predicted.get(anomaly, Likelihood.IMPOSSIBLE.value)
        if anomaly not in predicted or _STRENGTH.index(before) < _STRENGTH.index(prediction.value):
            predicted[str(anomaly)], reasons[str(anomaly)] = prediction.value, reason
    if scenario.workload.consumers or scenario.workload.probe:
        causes = [one for one in _OF_MISPLACED if predicted.get(one) != "impossible"]
        predicted[Anomaly.MISPLACED_READ] = "possible" if causes else "impossible"
        reasons[Anomaly.MISPLACED_READ] = (
            f"{causes[0]} is not impossible, and a producer may write such a record again"
            if causes
            else "no record that was read is removed, so none is written again elsewhere"
        )
    return PredictionRecord(
        predicted=predicted,
        prediction=record.prediction.model_copy(update={"reasons": reasons}),
        diagram=record.diagram,
    )


def predict_clients(
    scenario: Scenario, loses: Callable[[Scenario], bool]
) -> Iterator[ClientPrediction]:
    """Yield the predictions for transactions, consumer groups and a defect of the Java producer.

    loses: whether the topic of a scenario's workload may lose acked records.
    """

    @remembered
    def may_lose(topic: str) -> bool:
        """Whether this topic, written with acks=all, may lose what all in-sync replicas have.

        A coordinator that starts after partitions were added to its topic looks elsewhere for what
        it has stored (`numPartitions` in `GroupCoordinatorService.startup`).
        """
        return _grows(scenario, topic) or loses(_written(scenario, topic))

    @remembered
    def may_lose_visible() -> bool:
        """Whether the workload's topic may lose what consumers have read."""
        return loses(_visible(scenario))

    @remembered
    def may_lack_leader(topic: str) -> bool:
        """Whether a partition of this topic may have no leader for a while."""
        written = _written(scenario, topic)
        each = (worst_case.total(written, one) for one in partitions_of(written))
        return any(one.may_leave_no_leader(written.topic.replication_factor) for one in each)

    yield from reused_buffers(scenario)
    if scenario.workload.transactions is not None:
        yield from transactions.predict(scenario, may_lose, may_lack_leader)
    for name, group in scenario.workload.consumers.items():
        if group.via == "share":
            yield from share_groups.predict(
                scenario, name, group, may_lose=may_lose, may_lose_visible=may_lose_visible
            )
        else:
            yield from groups.predict(
                scenario,
                name,
                group,
                may_lose=may_lose,
                may_lose_visible=may_lose_visible,
                may_lack_leader=may_lack_leader,
            )


def _grows(scenario: Scenario, topic: str) -> bool:
    """Whether a fault adds partitions to this topic of coordinators."""
    return topic in OF_COORDINATORS and any(
        isinstance(effect, AddsPartitions) and effect.topic == topic
        for fault in scenario.every_fault
        for effect in fault.effects
    )


def _written(scenario: Scenario, topic: str, **changed: object) -> Scenario:
    """Return the scenario as if its workload wrote to `topic`, with acks=all."""
    topics = scenario.every_topic
    spec = topics[topic].model_copy(update=changed)
    workload = scenario.workload.model_copy(
        update={"topic": topic, "settings": _ACKS_ALL, "transactions": None, "consumers": {}}
    )
    return scenario.model_copy(update={"topics": {**topics, topic: spec}, "workload": workload})


def _visible(scenario: Scenario) -> Scenario:
    """Return the scenario in which a record is acked when it is below the high watermark.

    Before 3.7 the high watermark moves even if the ISR is smaller than min.insync.replicas.
    """
    topic: TopicSpec = scenario.topic
    frozen = Profile.of(scenario.kafka).hw_freeze
    settings = topic.settings if frozen else {**topic.settings, MIN_INSYNC_REPLICAS: 1}
    return _written(scenario, scenario.workload.topic, settings=settings)


def _may_lose(scenario: Scenario, max_states: int) -> bool:
    """Whether the workload's topic may lose acked records.

    The schedule is searched only if its worst case does not exclude a loss.
    """
    configuration = _configuration(scenario, scenario.topic)
    each = [(one, worst_case.total(scenario, one)) for one in partitions_of(scenario)]
    if not any(_can_lose(configuration, worst) for _, worst in each):
        return False
    # The search has no late fetch responses (KAFKA-18991): it finds no loss that needs them.
    searched = [
        replace(worst, late=worst.late and not any(schedules(scenario, one))) for one, worst in each
    ]
    if not any(_can_lose(configuration, worst) for worst in searched):
        answered = join([worst_case.predict(configuration, worst, "it") for worst in searched])
        found = with_unmodelled(scenario, answered, configuration.lag_time_s)
        return found.likelihood["lost"] is not Likelihood.IMPOSSIBLE
    return _of_topic(scenario, max_states).predicted["lost"] != Likelihood.IMPOSSIBLE.value


def _can_lose(configuration: Configuration, worst: WorstCase) -> bool:
    """Whether the worst case does not exclude a loss."""
    predicted = worst_case.predict(configuration, worst, "it")
    return predicted.likelihood["lost"] is not Likelihood.IMPOSSIBLE


def _only(scenario: Scenario, topic: str) -> Scenario:
    """Return the scenario reduced to one of its written topics."""
    sends = scenario.sends[topic]
    update: dict[str, object] = {name: getattr(sends, name) for name in Sends.model_fields}
    update |= {"topic": topic, "beside": {}, "application": None}
    workload = scenario.workload.model_copy(update=update)
    return scenario.model_copy(update={"workload": workload})


def _strongest(records: Mapping[str, PredictionRecord]) -> PredictionRecord:
    """Return, for each anomaly, the strongest of the topics' predictions with its reason.

    Trace and records at risk are those of the topic with the strongest prediction of a loss.
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
        diagram=records[strongest("lost")].diagram,
    )


def _of_topic(scenario: Scenario, max_states: int) -> PredictionRecord:
    if unknown := unknown_rules(scenario):
        return _alike((*PREDICTED, *OF_READS), Likelihood.POSSIBLE.value, unknown, unknown)
    configuration = _configuration(scenario, scenario.topic)
    several = "faults on several of many brokers"
    distinct: dict[object, Prediction] = {}
    partitions = list(partitions_of(scenario))
    for partition in partitions:
        variants = tuple(schedules(scenario, partition))
        worst = worst_case.total(scenario, partition)
        if (variants, worst) in distinct:  # most partitions are alike
            continue
        if variants:
            # Schedules with blocks get fewer states: their searches seldom end sooner.
            each_max = max_states if plain(scenario.faults) else max_states // (4 * len(variants))
            prediction = _of_variants(configuration, variants, worst, each_max)
        else:
            why = unsupported(scenario, partition) or several
            prediction = worst_case.predict(configuration, worst, why)
            prediction = _in_order(scenario, partition, prediction, max_states)
        distinct[variants, worst] = prediction
    each = list(distinct.values())
    joined = with_unmodelled(scenario, join(each), configuration.lag_time_s)
    # The search models neither the parts of blocks nor the time until other controllers take over.
    followed = all(
        isinstance(step, Fault) and not (scenario.cluster.combined and step.touches_brokers)
        for step in scenario.faults
    )
    searched = followed and all(one.availability for one in each)
    return PredictionRecord(
        predicted={name: likelihood.value for name, likelihood in joined.likelihood.items()},
        prediction=PredictionReport(
            trace=list(joined.trace),
            diagram=draw(joined.diagram),
            at_risk=list(joined.at_risk),
            error_codes=list(joined.error_codes),
            reasons=dict(joined.reasons),
            availability=[
                PartAvailability.model_validate(asdict(one))
                for one in (
                    joined.availability
                    if searched
                    else worst_case.availability(scenario, partitions)
                )
            ],
            bounds=joined.method,
            states=joined.states,
        ),
        diagram=joined.diagram,
    )


def _alike(
    anomalies: Iterable[Anomaly], predicted: str, reason: str, bounds: str
) -> PredictionRecord:
    """Return a record with the same prediction and reason for each anomaly."""
    names = list(map(str, anomalies))
    return PredictionRecord(
        predicted=dict.fromkeys(names, predicted),
        prediction=PredictionReport(trace=[], reasons=dict.fromkeys(names, reason), bounds=bounds),
    )


def _of_variants(
    configuration: Configuration,
    variants: Sequence[tuple[Injection, ...]],
    worst: WorstCase,
    max_states: int,
) -> Prediction:
    """Return the prediction for one partition that covers every variant of the schedule."""
    predictions = [cache.predict(configuration, one, max_states=max_states) for one in variants]
    joined = join(predictions)
    likelihood = {
        anomaly: joined.likelihood[anomaly]
        if len({one.likelihood[anomaly] for one in predictions}) == 1
        else Likelihood.POSSIBLE
        for anomaly in joined.likelihood
    }
    searched = replace(joined, likelihood=likelihood)
    return searched if searched.complete else worst_case.completed(searched, configuration, worst)


def _in_order(
    scenario: Scenario, partition: Partition, prediction: Prediction, max_states: int
) -> Prediction:
    """Return a worst case whose answer about losses keeps the order of the faults, if it can."""
    if prediction.likelihood["lost"] is not Likelihood.POSSIBLE:
        return prediction
    configuration = partition.configuration
    found = []
    for schedule in in_order(scenario, partition):
        if unsupported_in_order(configuration, schedule):
            return prediction
        limit = _MORE_IN_ORDER * max_states
        found.append(cache.search_in_order(configuration, schedule, max_states=limit))
    ended = all(one.complete for one in found) and excludes_losses(configuration)
    decided = found and (ended or any(one.lost for one in found))
    return with_order(prediction, configuration, found) if decided else prediction


def _configuration(scenario: Scenario, topic: TopicSpec) -> Configuration:
    settings, cluster = scenario.workload.settings, scenario.cluster

    def seconds(setting: str) -> float | None:
        value = cluster.settings.get(setting)
        return None if value is None else float(value) / 1000

    level = cluster.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION)
    return Configuration(
        kafka_version=scenario.kafka,
        acks=settings.acks,
        idempotence=settings.idempotence,
        retries=settings.retries,
        max_in_flight=settings.max_in_flight,
        replication_factor=topic.replication_factor,
        min_insync_replicas=topic.min_insync_replicas,
        unclean_leader_election=topic.unclean_leader_election,
        replica_lag_time_max_s=seconds(REPLICA_LAG_TIME_MAX_MS),
        session_timeout_s=seconds(SESSION_TIMEOUTS[uses_zookeeper(scenario.kafka)]),
        delivery_timeout_s=settings.delivery_timeout_ms / 1000,
        brokers=cluster.brokers,
        elr=None if level is None else bool(int(level)),
    )


def partitions_of(scenario: Scenario) -> Iterator[Partition]:
    """Yield the partitions of the workload's topic, and one more if a fault adds partitions."""
    topic = scenario.workload.topic
    added = bool(scenario.later_partitions(topic))
    for number in range(scenario.topics[topic].partitions + added):
        yield partition_of(scenario, topic, number)


def partition_of(scenario: Scenario, topic: str, number: int) -> Partition:
    """Return a partition for the model's effects."""
    spec, cluster = scenario.topics[topic], scenario.cluster
    settings = scenario.workload.settings.as_client_settings()
    flushing = any(
        isinstance(effect, Configures) and effect.key.startswith("flush.")
        for fault in scenario.every_fault
        for effect in fault.effects
    )
    return Partition(
        topic=topic,
        number=number,
        configuration=_configuration(scenario, spec),
        request_timeout_s=float(settings.get(*REQUEST_TIMEOUT)) / 1000,
        assigned=tuple(spec.assignment[number]) if number < len(spec.assignment) else (),
        fsynced=scenario.flushes(topic) and not flushing,
        compacted=spec.compacted,
        records=records_of(scenario, topic) if topic in scenario.sends else Records(),
        other_ways=bool(cluster.listeners or cluster.proxied),
        proxied="INTERNAL" in cluster.proxied,
    )
