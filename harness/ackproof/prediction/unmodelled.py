"""Limits of the model of replication, and their consequences for a prediction.

The model has no rules for some settings and versions: then no anomaly is excluded. It has no client
timeouts, log cleaner or client defects: these make single anomalies possible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ackproof.prediction.clients import ClientPrediction
from ackproof.runs.directory import PredictionRecord
from ackproof.runs.verdict import REMOVED
from ackproof.scenario.cluster import TIMERS
from ackproof.scenario.kafka_clients import (
    DELIVERY_TIMEOUT,
    REQUEST_TIMEOUT,
    acks_refused_batches,
    renumbers_refused_batches,
    reuses_buffers,
)
from ackproof.scenario.librdkafka import DEFECTS
from ackproof.scenario.model import Scenario
from ackproof.scenario.removal import counted, removed_by
from ackproof.scenario.types import Setting
from ackproof.scope import beyond
from ackproof_faults.conditions.kinds import ProgressIs
from ackproof_model import Likelihood, Prediction
from ackproof_model.configuration import LEADER_EPOCHS_SINCE
from ackproof_model.effects import SLACK_S, AddsPartitions, Disturbance, Intercepts
from ackproof_model.kafka_settings import ENABLE_IDEMPOTENCE, TRANSACTIONAL_ID
from ackproof_spark.anomaly import OF_REPLICAS, Anomaly

#: With an older protocol, brokers follow the rules of that version.
_PROTOCOL = "inter.broker.protocol.version"
#: Records of an older format have no leader epochs (KIP-98, KIP-101).
_FORMATS = ("log.message.format.version", "message.format.version")

_OUT_OF_ORDER = "OUT_OF_ORDER_SEQUENCE_NUMBER"


def unknown_rules(scenario: Scenario) -> str:
    """Return the reason why the model has no rules for this cluster; '' if it has."""
    if not scenario.cluster_kind.is_described:
        return "an attached cluster's settings are unknown before a run, so no anomaly is excluded"
    if "metadata.version" in scenario.cluster.features:
        return (
            "the model knows only a version's default metadata.version, and cluster.features sets "
            "it, so no anomaly is excluded"
        )
    return next(_unknown_settings(scenario), "")


def _unknown_settings(scenario: Scenario) -> Iterator[str]:
    """Yield the settings with rules or timers that the model does not support."""
    for settings in _every_setting(scenario):
        for key in (_PROTOCOL, *_FORMATS):
            value = str(settings.get(key, scenario.kafka))
            release = _release(value)
            older = key == _PROTOCOL or release < LEADER_EPOCHS_SINCE
            if older and release != _release(scenario.kafka):
                yield (
                    f"{key}={value} makes brokers of {scenario.kafka} follow the rules of another "
                    "version, so no anomaly is excluded"
                )
    for number, own in scenario.cluster.overrides.items():
        for key in TIMERS:
            common = scenario.cluster.settings.get(key)
            if key in own.settings and str(own.settings[key]) != str(common):
                yield (
                    f"broker {number} has a {key} of its own, and the model has one for all "
                    "brokers, so no anomaly is excluded"
                )


def _every_setting(scenario: Scenario) -> Iterator[Mapping[str, Setting]]:
    yield scenario.cluster.settings
    for own in scenario.cluster.overrides.values():
        yield own.settings
    for topic in scenario.topics.values():
        yield topic.settings


def _release(version: str) -> tuple[int, ...]:
    """Return the release of `2.6`, `2.6.2` or `0.10.2-IV0`; empty for other texts."""
    match = re.match(r"0\.\d+\.\d+|\d+\.\d+", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def with_unmodelled(scenario: Scenario, prediction: Prediction, lag_time_s: float) -> Prediction:
    """Return a prediction in which anomalies that the model cannot produce are possible."""
    steps = (
        *_by_removal(scenario),
        *_by_retries(scenario, lag_time_s),
        *_by_new_epochs(scenario, prediction),
        *_by_the_probe(scenario, prediction),
        *_by_defects(scenario),
        *_by_refused_first_batches(scenario),
        *_by_refusals(scenario),
    )
    prediction = _with_transactions(scenario, prediction)
    for changed, reason in steps:
        weak = [one for one in changed if prediction.likelihood[one] is Likelihood.IMPOSSIBLE]
        prediction = replace(
            prediction,
            likelihood={**prediction.likelihood, **dict.fromkeys(weak, Likelihood.POSSIBLE)},
            reasons={**prediction.reasons, **dict.fromkeys(weak, reason)},
        )
    return prediction


def _by_removal(scenario: Scenario) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the anomalies by log cleaning and retention, which each broker does independently."""
    of_replicas = tuple(map(str, OF_REPLICAS))
    if scenario.compacts(scenario.workload.topic):
        yield of_replicas, "the topic is compacted, by each broker independently"
    for key, reason in beyond(scenario.topic.settings):
        yield ("lost", "read-then-gone"), f"{key}: {reason}"
    for removal in removed_by(scenario, scenario.workload.topic):
        if removal.of_head:
            yield ("lost", "read-then-gone", "inconsistent", *of_replicas), removal.reason


def with_removed(scenario: Scenario, record: PredictionRecord) -> PredictionRecord:
    """Add the prediction of `removed`, if a setting limits how long records remain."""
    if not counted(scenario):
        return record
    found = [removal for topic in scenario.sends for removal in removed_by(scenario, topic)]
    predicted, reasons = dict(record.predicted), dict(record.prediction.reasons)
    reasons[REMOVED] = "; ".join(dict.fromkeys(removal.reason for removal in found)) or (
        "no record becomes older than retention.ms, no partition larger than retention.bytes, and "
        "no topic is compacted"
    )
    predicted[REMOVED] = Likelihood.IMPOSSIBLE.value
    if found:
        certain = any(removal.certain for removal in found)
        predicted[REMOVED] = Likelihood.CERTAIN.value if certain else Likelihood.POSSIBLE.value
    head = [removal for removal in found if removal.of_head]
    if head and predicted.get(Anomaly.UNPROCESSED) == Likelihood.IMPOSSIBLE.value:
        predicted[Anomaly.UNPROCESSED] = Likelihood.POSSIBLE.value
        reasons[Anomaly.UNPROCESSED] = f"{head[0].reason}, also before a group has read them"
    prediction = record.prediction.model_copy(update={"reasons": reasons})
    return record.model_copy(update={"predicted": predicted, "prediction": prediction})


def _by_retries(scenario: Scenario, lag_time_s: float) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the anomalies that are possible because the client resends after a timeout.

    The model resends requests only after a closed connection. With acks=all a leader waits for
    followers for up to `replica.lag.time.max.ms`. An idempotent producer resends safely until sends
    time out: then librdkafka uses a new producer epoch, for which the leader has no earlier
    sequences (KIP-360; docs/catalogue, B21).
    """
    settings = scenario.workload.settings
    idempotent = settings.idempotence
    name, default = DELIVERY_TIMEOUT if idempotent else REQUEST_TIMEOUT
    timeout = int(settings.as_client_settings().get(name, default))
    if settings.acks == "0" or not settings.retries:
        return
    faults = scenario.every_fault
    if idempotent:
        late = any(
            effect.silences(timed=fault.heal_after is not None)
            for fault in faults
            if fault.heal_after is None or fault.heal_after + SLACK_S >= timeout / 1000
            for effect in fault.effects
        )
    else:
        late = timeout < default
    waits = settings.acks == "all" and timeout <= lag_time_s * 1000
    touched = any(effect.touches_producers for fault in faults for effect in fault.effects)
    if (waits and touched) or late:
        yield (
            ("duplicated",) if idempotent else ("duplicated", "reordered"),
            f"the client sends again what takes longer than {name}={timeout}",
        )


def _by_new_epochs(
    scenario: Scenario, prediction: Prediction
) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the duplicates of librdkafka's idempotent producer when a partition changes its leader.

    A leader refuses a batch that it may not take yet, and with it those behind: they are out of
    order. librdkafka then begins a new producer epoch for all partitions
    (`rd_kafka_handle_idempotent_Produce_error`: `r > 0`). A batch that another leader has written
    and not acked gets a new sequence number, and is written again (librdkafka 4953). That batch
    belongs to another partition. With one request in flight no batch is behind. The Java client
    keeps its epoch (`TransactionManager.canRetry`), and a transaction is aborted.
    """
    workload = scenario.workload
    settings = workload.settings
    if not settings.idempotence or settings.max_in_flight == 1 or len(scenario.written) == 1:
        return
    if workload.client.java is not None or workload.transactions is not None:
        return
    searched = prediction.states > 0
    if searched and _OUT_OF_ORDER not in prediction.error_codes:
        return
    for fault in scenario.every_fault:
        if any(Disturbance.MOVES in effect.disturbances() for effect in fault.effects):
            yield (
                ("duplicated",),
                f"{fault.name}: after {_OUT_OF_ORDER} of one batch, librdkafka begins a new "
                "producer epoch, in which it may write again what another partition already has; "
                "rare (librdkafka 4953)",
            )
            return


def _by_defects(scenario: Scenario) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the losses by defects of the scenario's librdkafka, when a partition changes leader."""
    workload = scenario.workload
    version = workload.client.librdkafka
    used = {
        ENABLE_IDEMPOTENCE: workload.settings.idempotence,
        TRANSACTIONAL_ID: workload.transactions is not None,
    }
    effects = (effect for fault in scenario.every_fault for effect in fault.effects)
    moves = any(Disturbance.MOVES in effect.disturbances() for effect in effects)
    for defect in DEFECTS if moves else ():
        if version and used[defect.setting] and defect.is_in(version):
            yield ("lost",), str(defect)


def _by_refused_first_batches(scenario: Scenario) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the losses by librdkafka's idempotent producer if a first batch may be refused (B55).

    A broker refuses the batches of a partition that it does not have yet, and the proxy refuses
    what it is asked to. After one ack of each producer in each partition no first batch is left:
    that is known only for one producer and one partition, and a fault that waits for acks.
    """
    workload = scenario.workload
    settings = workload.settings
    if workload.client.java is not None or not acks_refused_batches(
        scenario.kafka, idempotence=settings.idempotence, max_in_flight=settings.max_in_flight
    ):
        return
    single = workload.producers == 1 and len(scenario.written) == 1
    for fault in scenario.every_fault:
        acked = single and any(
            isinstance(one, ProgressIs) and one.outcome == "acked" and one.count > 0
            for one in fault.when
        )
        for effect in fault.effects:
            grows = isinstance(effect, AddsPartitions) and effect.topic in scenario.sends
            refuses = isinstance(effect, Intercepts) and effect.refuses_sends and not acked
            if grows or refuses:
                yield (
                    ("lost",),
                    f"{fault.name}: a broker may refuse a producer's first batch to a partition "
                    "and accept the next one, and librdkafka then reports the first as acked, too "
                    "(confluent-kafka-go 921)",
                )
                return


def _by_refusals(scenario: Scenario) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the anomalies of a Java producer to which a fault reports that batches were refused.

    It splits a batch that is too large and sends the parts, even with `retries: 0`
    (`Sender.completeBatch`). A batch of at most `batch.size` stays whole the first time, so that a
    leader that has it finds it by its sequence numbers. Smaller parts are out of order there, and
    an idempotent producer sends them again in a new epoch.
    """
    java, settings = scenario.workload.client.java, scenario.workload.settings
    effects = (effect for fault in scenario.every_fault for effect in fault.effects)
    for effect in effects if java else ():
        if not isinstance(effect, Intercepts):
            continue
        if effect.denies and settings.idempotence and renumbers_refused_batches(str(java)):
            yield (
                ("lost",),
                f"the Java client {java} gives the sequence numbers of a refused batch to the next "
                "one, and a leader that has the batch acks that one without writing it",
            )
        if effect.error != "MESSAGE_TOO_LARGE":
            continue
        again = "the Java client splits a batch that is refused as too large, and sends its parts"
        if effect.denies:
            yield ("duplicated",), f"{again}; the leader has the batch, and may not know the parts"
        if not settings.idempotence and settings.max_in_flight > 1:
            yield ("reordered",), f"{again} after later batches"


def _with_transactions(scenario: Scenario, prediction: Prediction) -> Prediction:
    """Return a prediction in which no loss is certain after a fault that may stop transactions.

    A transaction ends when its coordinator has replicated that, and its markers are in every
    partition; the next one waits for that (KIP-98). Both need the connections between brokers. So a
    run may stand still before the faults that lose records begin.
    """
    faults = [fault for fault in scenario.every_fault if fault.touches_brokers]
    impaired = any(effect.impairs for fault in faults for effect in fault.effects)
    if scenario.workload.transactions is None or not (impaired or len(faults) > 1):
        return prediction
    certain = [one for one, how in prediction.likelihood.items() if how is Likelihood.CERTAIN]
    return replace(
        prediction,
        likelihood={**prediction.likelihood, **dict.fromkeys(certain, Likelihood.POSSIBLE)},
        reasons={
            **prediction.reasons,
            **{
                one: f"{prediction.reasons[one]}; if {faults[0].name} keeps coordinators or "
                "markers away, no transaction ends, and the schedule may not go on"
                for one in certain
            },
        },
    )


def _by_the_probe(
    scenario: Scenario, prediction: Prediction
) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the anomalies that are possible because of the probe's writes, with acks=all.

    They have offsets, unlike sends of a workload with acks=0. The probe has a short timeout: a
    write that TCP or a stalled broker delays longer is appended after its later writes.
    """
    if not scenario.workload.probe:
        return
    lost = prediction.likelihood["lost"] is not Likelihood.IMPOSSIBLE
    if lost and scenario.workload.settings.acks == "0":
        yield (
            ("inconsistent",),
            "an acked write of the probe may be removed; its offset may be given to another record",
        )
    if any(effect.holds_requests for fault in scenario.every_fault for effect in fault.effects):
        yield (
            ("reordered",),
            "a write that the probe has given up may be appended after its later ones",
        )


def reused_buffers(scenario: Scenario) -> Iterator[ClientPrediction]:
    """Yield that the Java producer may send a batch to another partition (KAFKA-19012).

    It reuses the buffer of an expired batch, even while the batch is being written to the
    connection. Batches expire under faults.
    """
    fault = next((one.name for one in scenario.every_fault if one.effects), "")
    versions = {sends.client.java for sends in scenario.sends.values() if sends.client.java}
    for version in sorted(versions):
        if fault and reuses_buffers(version):
            yield (
                Anomaly.PHANTOM,
                Likelihood.POSSIBLE,
                f"{fault}: the Java client {version} may overwrite a batch that expires while its "
                "request is written (KAFKA-19012)",
            )
