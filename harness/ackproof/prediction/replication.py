"""The prediction for a scenario: which anomalies are impossible, possible or certain.

The model describes one partition, so it is asked once for each partition of the topic: a fault on
"the leader of orders-0" certainly hits the leader of that partition, and any one replica of another
partition. Then the answers are joined: what is certain in one partition is certain in the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ackproof.kafka_versions import uses_zookeeper
from ackproof.prediction import cached
from ackproof.prediction.bounded import completed, predict_bounded
from ackproof.prediction.clients import predict_clients
from ackproof.prediction.effect_stress import Place
from ackproof.prediction.parts import bounded_parts
from ackproof.prediction.readings import schedules, unsupported
from ackproof.prediction.stress import stress
from ackproof.prediction.unknown_rules import unknown_rules
from ackproof.prediction.weakened import REQUEST_TIMEOUT, weakened
from ackproof.runs.directory import PredictionRecord
from ackproof.runs.verdict import NOT_KAFKA, PartAvailability, PredictionReport
from ackproof.scenario.model import Scenario, TopicSpec
from ackproof.scenario.workload import Sends
from ackproof_model import (
    Configuration,
    Injection,
    Likelihood,
    Prediction,
    draw,
    join,
)
from ackproof_model.bounds import Stress, bound
from ackproof_model.effects import AddsPartitions, Cuts, Intercepts, Slows, Stalls
from ackproof_spark.anomaly import OF_CONSUMERS, OF_READS, OF_TRANSACTIONS, PREDICTED

#: The exact search of one partition ends after so many states: some ten seconds. Bounds then answer
#: what it has not decided.
MAX_STATES = 150_000

_LAG_TIME = "replica.lag.time.max.ms"
_SESSION = "broker.session.timeout.ms"
_ZOOKEEPER_SESSION = "zookeeper.session.timeout.ms"

_ELR = "eligible.leader.replicas.version"

_STRENGTH = [Likelihood.IMPOSSIBLE.value, Likelihood.POSSIBLE.value, Likelihood.CERTAIN.value]


def predict(scenario: Scenario, *, max_states: int = MAX_STATES) -> PredictionRecord:
    """Return the prediction for every anomaly, with reasons; `max_states` limits the search.

    If the model does not know the rules of the cluster, every anomaly is possible. The prediction
    for the run is the strongest of those for its topics and groups.
    """
    if scenario.cluster.implementation == "other":
        return not_modelled(scenario, "the cluster is not Apache Kafka", version=NOT_KAFKA)
    if len(scenario.sends) == 1:
        return _with_clients(scenario, _of_topic(scenario, max_states), max_states)
    each = {topic: _of_topic(_only(scenario, topic), max_states) for topic in scenario.sends}
    return _with_clients(scenario, _strongest(each), max_states)


def settling_s(scenario: Scenario) -> float:
    """Return for how many seconds the brokers' timers may run after an event, until all have fired.

    The session of a broker that died ends; a follower that cannot fetch in time leaves the ISR.
    """
    configured = _configuration(scenario, scenario.topic)
    lags = any(
        isinstance(effect, Cuts | Intercepts | Slows | Stalls)
        for fault in scenario.every_fault
        for effect in fault.effects
    )
    return configured.session_s + (configured.lag_time_s if lags else 0)


def not_modelled(scenario: Scenario, reason: str, *, version: str) -> PredictionRecord:
    """Return a record that predicts nothing; `version` is what is known of the cluster's."""
    of_clients = [*OF_TRANSACTIONS] if scenario.workload.transactions is not None else []
    if scenario.workload.consumers:
        of_clients += OF_CONSUMERS
    if scenario.workload.consumers or scenario.workload.probe:
        of_clients += OF_READS
    anomalies = [str(anomaly) for anomaly in (*PREDICTED, *of_clients)]
    return PredictionRecord(
        predicted=dict.fromkeys(anomalies, "not modelled"),
        prediction=PredictionReport(
            trace=[], reasons=dict.fromkeys(anomalies, reason), bounds=f"not modelled: {reason}"
        ),
        kafka_version=version,
    )


def _with_clients(
    scenario: Scenario, record: PredictionRecord, max_states: int
) -> PredictionRecord:
    """Return the prediction, joined with those for transactions and consumer groups."""
    predicted, reasons = dict(record.predicted), dict(record.prediction.reasons)
    if not scenario.workload.consumers and not scenario.workload.probe:
        for anomaly in map(str, OF_READS):
            predicted.pop(anomaly, None)
            reasons.pop(anomaly, None)
    for anomaly, prediction, reason in (
        []
        if unknown_rules(scenario)
        else predict_clients(scenario, lambda asked: _may_lose(asked, max_states))
    ):
        before = predicted.get(anomaly, Likelihood.IMPOSSIBLE.value)
        if anomaly not in predicted or _STRENGTH.index(before) < _STRENGTH.index(prediction.value):
            predicted[str(anomaly)], reasons[str(anomaly)] = prediction.value, reason
    return PredictionRecord(
        predicted=predicted,
        prediction=record.prediction.model_copy(update={"reasons": reasons}),
        diagram=record.diagram,
    )


def _may_lose(scenario: Scenario, max_states: int) -> bool:
    """Whether the topic that the workload writes to may lose acked records.

    The schedule is searched only where its bounds do not exclude a loss.
    """
    topic, configuration = scenario.workload.topic, _configuration(scenario, scenario.topic)
    bounded = (
        bound(configuration, stress(_place(scenario, topic, partition)))
        for partition in _partitions(scenario, topic)
    )
    if all(one.likelihood["lost"] is Likelihood.IMPOSSIBLE for one in bounded):
        return False
    return _of_topic(scenario, max_states).predicted["lost"] != Likelihood.IMPOSSIBLE.value


def _only(scenario: Scenario, topic: str) -> Scenario:
    """Return the scenario reduced to one of the topics that are written to."""
    sends = scenario.sends[topic]
    update: dict[str, object] = {name: getattr(sends, name) for name in Sends.model_fields}
    update |= {"topic": topic, "beside": {}, "application": None}
    workload = scenario.workload.model_copy(update=update)
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
        diagram=records[strongest("lost")].diagram,
    )


def _of_topic(scenario: Scenario, max_states: int) -> PredictionRecord:
    if unknown := unknown_rules(scenario):
        return _everything_possible(unknown)
    topic = scenario.workload.topic
    configuration = _configuration(scenario, scenario.topic)
    several = "faults on several of many brokers"
    distinct: dict[object, Prediction] = {}
    places = [_place(scenario, topic, partition) for partition in _partitions(scenario, topic)]
    for place in places:
        readings, suffered = tuple(schedules(place)), stress(place)
        if (readings, suffered) not in distinct:  # most partitions are alike
            distinct[readings, suffered] = (
                _of_readings(configuration, readings, suffered, max_states)
                if readings
                else predict_bounded(configuration, suffered, unsupported(place) or several)
            )
    each = list(distinct.values())
    joined = weakened(scenario, join(each), configuration.lag_time_s)
    parts = joined.availability if all(one.availability for one in each) else bounded_parts(places)
    return PredictionRecord(
        predicted={name: likelihood.value for name, likelihood in joined.likelihood.items()},
        prediction=PredictionReport(
            trace=list(joined.trace),
            diagram=draw(joined.diagram),
            at_risk=list(joined.at_risk),
            error_codes=list(joined.error_codes),
            reasons=dict(joined.reasons),
            availability=[
                PartAvailability(
                    part=one.part,
                    begun=one.begun,
                    healed=list(one.healed),
                    readable=one.readable.value,
                    writable=one.writable.value,
                )
                for one in parts
            ],
            bounds=joined.bounds,
            states=joined.states,
        ),
        diagram=joined.diagram,
    )


def _partitions(scenario: Scenario, topic: str) -> range:
    """Return the topic's partitions: one more, somewhere, if faults add any."""
    added = AddsPartitions(topic=topic) in (
        effect for fault in scenario.every_fault for effect in fault.effects
    )
    return range(scenario.topics[topic].partitions + added)


def _everything_possible(reason: str) -> PredictionRecord:
    anomalies = list(map(str, (*PREDICTED, *OF_READS)))
    return PredictionRecord(
        predicted=dict.fromkeys(anomalies, Likelihood.POSSIBLE.value),
        prediction=PredictionReport(
            trace=[], reasons=dict.fromkeys(anomalies, reason), bounds=reason
        ),
    )


def _of_readings(
    configuration: Configuration,
    readings: Sequence[tuple[Injection, ...]],
    suffered: Stress,
    max_states: int,
) -> Prediction:
    """Return the prediction for one partition that covers every reading of the schedule."""
    predictions = [cached.predict(configuration, one, max_states=max_states) for one in readings]
    joined = join(predictions)
    likelihood = {
        anomaly: joined.likelihood[anomaly]
        if len({one.likelihood[anomaly] for one in predictions}) == 1
        else Likelihood.POSSIBLE
        for anomaly in joined.likelihood
    }
    searched = replace(joined, likelihood=likelihood)
    return searched if searched.complete else completed(searched, configuration, suffered)


def _configuration(scenario: Scenario, topic: TopicSpec) -> Configuration:
    settings, cluster = scenario.workload.settings, scenario.cluster

    def seconds(setting: str) -> float | None:
        value = cluster.settings.get(setting)
        return None if value is None else float(value) / 1000

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
        session_timeout_s=seconds(
            _ZOOKEEPER_SESSION if uses_zookeeper(scenario.kafka) else _SESSION
        ),
        delivery_timeout_s=settings.delivery_timeout_ms / 1000,
        brokers=cluster.brokers,
        elr=None if (level := cluster.features.get(_ELR)) is None else bool(int(level)),
    )


def _place(scenario: Scenario, topic: str, partition: int) -> Place:
    settings = scenario.workload.settings.as_client_settings()
    configured = _configuration(scenario, scenario.topics[topic])
    return Place(
        scenario=scenario,
        topic=topic,
        partition=partition,
        lag_time_s=configured.lag_time_s,
        session_s=configured.session_s,
        request_timeout_s=float(settings.get(*REQUEST_TIMEOUT)) / 1000,
    )
