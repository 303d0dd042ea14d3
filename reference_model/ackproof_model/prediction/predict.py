"""The prediction: for each anomaly whether it is impossible, possible or certain, and why.

An anomaly is `certain` if every final state has it, `possible` if some states have it, and
`impossible` otherwise, within what `Prediction.method` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ackproof_model.configuration import Configuration, Profile, Reader
from ackproof_model.prediction.availability import availability, joined
from ackproof_model.prediction.diagram import ERROR_CODES, diagram
from ackproof_model.prediction.fault_schedule import Injection
from ackproof_model.prediction.model import REQUEST_TIMEOUT_S, UNLIMITED_RETRIES, Model
from ackproof_model.prediction.narrative import narrate
from ackproof_model.prediction.producer import IN_FLIGHT
from ackproof_model.prediction.result import Likelihood, Prediction, inconsistent
from ackproof_model.prediction.search import SEARCHED, Exploration, explore

#: The most states that a prediction may search: a few seconds.
MAX_STATES = 150_000


_NEVER = {
    "phantom": "no rule of the model writes a record that was not sent",
    "corrupt": "no rule of the model changes a record's bytes",
    "diverged": "followers truncate by leader epoch before they append (KIP-101, KIP-279), so "
    "in-sync replicas hold the same bytes",
    "gap": "a leader assigns consecutive offsets, and logs are truncated at their ends only",
}
_STALE_FETCH = (
    "before 3.9.1, and in 4.0.0, a follower may append a late fetch response of an older leader "
    "epoch (KAFKA-18723); the model does not delay responses"
)

_FINAL_LOG = {
    "lost": "without an acked record",
    "duplicated": "with a record twice",
    "reordered": "with records out of send order",
    "read-then-gone": "without a record that consumers may have read",
}

#: Derived from the anomalies that were searched: see `inconsistent`.
_DERIVED = "inconsistent"

#: All anomalies, in the order in which predictions name them.
ANOMALIES = (*SEARCHED, _DERIVED, *_NEVER)


def as_read(configuration: Configuration) -> tuple[object, ...]:
    """Return what `predict` reads of a configuration: those alike have the same predictions."""
    replicas = configuration.replication_factor
    unread: dict[str, Any] = dict.fromkeys(Profile.not_read_by(Reader.SCHEDULE), False)
    return (
        replace(configuration.profile, **unread),
        configuration.acks,
        configuration.idempotence,
        min(configuration.retries, UNLIMITED_RETRIES),
        min(configuration.max_in_flight, IN_FLIGHT),
        replicas,
        configuration.min_insync_replicas,
        configuration.unclean_election,
        configuration.lag_time_s,
        configuration.session_s,
        configuration.delivery_timeout_s > REQUEST_TIMEOUT_S,
        (configuration.brokers or replicas) > replicas,
    )


def predict(
    configuration: Configuration,
    schedule: Sequence[Injection],
    *,
    max_states: int = MAX_STATES,
) -> Prediction:
    """Return the prediction for `schedule` under `configuration`.

    Time is abstract, bounded by the schedule's `Elapsed` and `or_after`. A timer
    (replica.lag.time.max.ms, the broker session, request and delivery timeouts) may fire if these
    bounds leave time for it, and must have fired after one and a half times its time. Steps without
    a timer are prompt: `or_after` fires only if prompt steps cannot meet the conditions.
    """
    model = Model(configuration, tuple(schedule))
    exploration = explore(model, max_states=max_states)
    likelihood = dict.fromkeys(_NEVER, Likelihood.IMPOSSIBLE)
    reasons = dict(_NEVER)
    if configuration.profile.stale_fetch and configuration.replication_factor > 1:
        likelihood["diverged"], reasons["diverged"] = Likelihood.POSSIBLE, _STALE_FETCH
    for anomaly in SEARCHED:
        likelihood[anomaly], reasons[anomaly] = _judge(exploration, anomaly)
    likelihood[_DERIVED], reasons[_DERIVED] = inconsistent(configuration, likelihood)
    way = exploration.trace(exploration.first["lost"]) if "lost" in exploration.first else []
    return Prediction(
        likelihood={anomaly: likelihood[anomaly] for anomaly in ANOMALIES},
        trace=narrate(model, way),
        diagram=diagram(model, way),
        at_risk=tuple(_sent(model, phase) for phase in sorted(exploration.at_risk)),
        error_codes=_error_codes(model, exploration),
        reasons={anomaly: reasons[anomaly] for anomaly in ANOMALIES},
        availability=availability(model, exploration.available) if exploration.complete else (),
        method=_method(model, exploration),
        states=exploration.states,
        complete=exploration.complete,
    )


def _judge(exploration: Exploration, anomaly: str) -> tuple[Likelihood, str]:
    having, final, which = exploration.having[anomaly], exploration.final, _FINAL_LOG[anomaly]
    if not exploration.complete:
        return Likelihood.POSSIBLE, (
            f"the search stopped after {exploration.states} states, so nothing is excluded"
        )
    if not final:
        return Likelihood.POSSIBLE, "no way leads to a final log, so nothing is excluded"
    if not having:
        return Likelihood.IMPOSSIBLE, f"no way leads to a final log {which} ({final} final states)"
    optional = anomaly == "read-then-gone"  # consumers need not read
    if having == final and not exploration.stuck and not optional:
        return Likelihood.CERTAIN, f"every way leads to a final log {which} ({final} final states)"
    return (
        Likelihood.POSSIBLE,
        f"some ways lead to a final log {which} ({having} of {final} states)",
    )


def _error_codes(model: Model, exploration: Exploration) -> tuple[str, ...]:
    if model.acks == "0":
        return ()  # there is no response
    return tuple(sorted(ERROR_CODES[kind] for kind in exploration.taken & set(ERROR_CODES)))


def _sent(model: Model, phase: int) -> str:
    """Return when the records of a phase are sent, in words."""
    faults = [f"fault {number + 1} ({one.fault})" for number, one in enumerate(model.schedule)]
    if not faults:
        return "at any time"
    if phase == 0:
        return f"before {faults[0]} begins, and not yet replicated then"
    if phase < len(faults):
        return f"after {faults[phase - 1]} is verified and before {faults[phase]} is"
    return f"after {faults[-1]} is verified"


def _method(model: Model, exploration: Exploration) -> str:
    """Return one sentence: how the answer was found, and what that leaves out."""
    if not exploration.complete:
        return "Incomplete search of the schedule: it stopped early, so it excludes nothing."
    stuck = ", some ways never settle" if exploration.stuck else ""
    return (
        "Exact search of the schedule: one partition, at most "
        f"{max(map(model.phases.count, range(model.faults + 1)))} records between two faults, no "
        f"fault besides the schedule, steps without a timer prompt{stuck}; it leaves out automatic "
        "preferred elections, transactions, reassignments and clients that restart."
    )


def join(predictions: Sequence[Prediction]) -> Prediction:
    """Return one prediction for several partitions or producer groups of one run.

    Each anomaly has its greatest likelihood. Raises ValueError if `predictions` is empty.
    """
    if not predictions:
        raise ValueError("predictions is empty: give at least one")
    weight = list(Likelihood)
    likelihood, reasons = {}, {}
    for anomaly in ANOMALIES:
        worst = max(predictions, key=lambda one: weight.index(one.likelihood[anomaly]))
        likelihood[anomaly], reasons[anomaly] = worst.likelihood[anomaly], worst.reasons[anomaly]
    losing = [
        one for one in predictions if one.trace and one.likelihood["lost"] == likelihood["lost"]
    ]
    shortest = min(losing, key=lambda one: len(one.trace), default=None)
    every = [code for one in predictions for code in one.error_codes]
    return Prediction(
        likelihood=likelihood,
        trace=shortest.trace if shortest else (),
        diagram=shortest.diagram if shortest else None,
        at_risk=tuple(dict.fromkeys(when for one in predictions for when in one.at_risk)),
        error_codes=tuple(sorted(set(every))),
        reasons=reasons,
        availability=joined([one.availability for one in predictions]),
        method=" For the rest: ".join(dict.fromkeys(one.method for one in predictions)),
        states=sum(one.states for one in predictions),
        complete=all(one.complete for one in predictions),
    )
