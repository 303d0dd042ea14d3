"""What may happen besides the model's rules: it has no timeouts of clients, and no log cleaner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ackproof.prediction.durations import SLACK_S, longest_s
from ackproof.prediction.effects import touches_records
from ackproof.scenario.model import Scenario, TopicSpec
from ackproof.scenario.retention import expiring
from ackproof_faults import Fault
from ackproof_model import Likelihood, Prediction
from ackproof_model.effects import Cuts, Ends, Intercepts, Slows, Stalls, Unreachable
from ackproof_spark.anomaly import OF_REPLICAS

#: Of librdkafka, and of scenarios, milliseconds.
REQUEST_TIMEOUT = ("request.timeout.ms", 30_000)
_DELIVERY_TIMEOUT = ("delivery.timeout.ms", 120_000)

_COMPACTED = "the topic is compacted, by each broker independently"


def weakened(scenario: Scenario, prediction: Prediction, lag_time_s: float) -> Prediction:
    """Return a prediction in which what may happen besides the model's rules is possible."""
    steps = (
        *_by_removal(scenario.topic),
        *_by_retries(scenario, lag_time_s),
        *_by_the_probe(scenario, prediction),
    )
    for changed, reason in steps:
        weak = [one for one in changed if prediction.likelihood[one] is Likelihood.IMPOSSIBLE]
        prediction = replace(
            prediction,
            likelihood={**prediction.likelihood, **dict.fromkeys(weak, Likelihood.POSSIBLE)},
            reasons={**prediction.reasons, **dict.fromkeys(weak, reason)},
        )
    return prediction


def _by_removal(topic: TopicSpec) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the anomalies that are possible because each broker removes records of its own logs."""
    of_replicas = tuple(map(str, OF_REPLICAS))
    if topic.compacted:
        yield of_replicas, _COMPACTED
    for key, value in expiring(topic.settings):
        yield (
            ("lost", "read-then-gone", "inconsistent", *of_replicas),
            f"retention ({key}={value}) may remove acked records",
        )


def _by_retries(scenario: Scenario, lag_time_s: float) -> Iterator[tuple[Sequence[str], str]]:
    """Yield the anomalies that are possible because the client sends again what timed out.

    The model resends requests that a closed connection left unanswered, but has no timeouts. With
    acks=all a leader waits for followers for up to `replica.lag.time.max.ms`. An idempotent
    producer resends safely until sends time out: then librdkafka takes a new producer epoch, in
    which the leader knows none of the earlier sequences (KIP-360; docs/catalogue, B21).
    """
    settings = scenario.workload.settings
    idempotent = settings.idempotence
    name, default = _DELIVERY_TIMEOUT if idempotent else REQUEST_TIMEOUT
    timeout = int(settings.as_client_settings().get(name, default))
    if settings.acks == "0" or not settings.retries:
        return
    faulted = [fault for fault in scenario.every_fault if touches_records(fault)]
    waits = settings.acks == "all" and timeout <= lag_time_s * 1000
    if idempotent:
        late = any(_silences(one, timeout / 1000) for one in faulted)
    else:
        late = timeout < default
    if (waits and faulted) or late:
        yield (
            ("duplicated",) if idempotent else ("duplicated", "reordered"),
            f"the client sends again what takes longer than {name}={timeout}",
        )


def _silences(fault: Fault, timeout_s: float) -> bool:
    """Whether a fault may keep clients from every answer for so long.

    A leader that the controllers cannot reach either is replaced meanwhile. Of other faults only
    those count that say for how long they hold.
    """
    long = longest_s(fault) + SLACK_S >= timeout_s
    for effect in fault.effects if long else ():
        match effect:
            case Cuts(channels=channels):
                if "clients" in channels and "controllers" not in channels:
                    return True
            case Ends() | Stalls() | Unreachable() | Slows() | Intercepts(api="Produce"):
                if fault.heal_after is not None:  # otherwise it ends when something has happened
                    return True
    return False


def _by_the_probe(
    scenario: Scenario, prediction: Prediction
) -> Iterator[tuple[Sequence[str], str]]:
    """Yield what is possible because the probe's writes, with acks=all, are sends, too.

    They have offsets where those of the workload have none (acks=0). The probe gives up soon: what
    TCP or a stalled broker holds back longer is appended after its later writes.
    """
    if not scenario.workload.probe:
        return
    lost = prediction.likelihood["lost"] is not Likelihood.IMPOSSIBLE
    if lost and scenario.workload.settings.acks == "0":
        yield (
            ("inconsistent",),
            "an acked write of the probe may be removed; its offset may be given to another record",
        )
    if any(_holds_back(fault) for fault in scenario.every_fault):
        yield (
            ("reordered",),
            "a write that the probe has given up may be appended after its later ones",
        )


def _holds_back(fault: Fault) -> bool:
    """Whether a client's request may wait, while its connection stays."""
    for effect in fault.effects:
        match effect:
            case Cuts(channels=channels) if "clients" in channels:
                return True
            case Stalls() | Slows() | Intercepts(api="Produce"):
                return True
    return False
