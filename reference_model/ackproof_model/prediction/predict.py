"""The answer: per anomaly impossible, possible or certain, and why.

An anomaly is `certain` if every state in which the outcome is settled has it, `possible` if some
have, `impossible` if none has, all within the bounds that `Prediction.bounds` spells out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ackproof_model.configuration import Configuration
from ackproof_model.prediction.diagram import ERROR_CODES, draw
from ackproof_model.prediction.narrative import tell
from ackproof_model.prediction.search import SEARCHED, Exploration, explore
from ackproof_model.replication.fault_schedule import Injection
from ackproof_model.replication.model import Model
from ackproof_model.replication.producer import IN_FLIGHT
from ackproof_model.replication.safety_checks import ALL_CHECKS, SafetyChecks

#: How many states a prediction may search; a few seconds.
MAX_STATES = 150_000


class Likelihood(StrEnum):
    """What is foretold of one anomaly."""

    IMPOSSIBLE = "impossible"
    POSSIBLE = "possible"
    CERTAIN = "certain"


_NEVER = {
    "phantom": "no rule of the model writes a record that was not sent",
    "corrupt": "no rule of the model changes a record's bytes",
    "diverged": "followers truncate by leader epoch before they append (KIP-101, KIP-279), so "
    "replicas in sync hold the same bytes",
    "gap": "a leader gives out offsets one by one, and logs are cut at their ends only",
}
_STALE_FETCH = (
    "before 3.9.1, and in 4.0.0, a follower may append what a fetch response of an older epoch "
    "brings late (KAFKA-18723), and the model does not delay responses"
)

_SAYING = {
    "lost": "without an acked record",
    "duplicated": "with a record twice",
    "reordered": "with records out of send order",
}

#: Follows from what was searched for: see `_offsets`.
_INCONSISTENT = "inconsistent"

#: All anomalies, in the order in which predictions name them.
ANOMALIES = (*SEARCHED, _INCONSISTENT, *_NEVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a configuration and a schedule allow.

    likelihood, reasons: by anomaly (`ANOMALIES`). trace: the shortest story to a loss, one sentence
    a step; empty if there is none. diagram: the same as a sequence diagram, a line a step. at_risk:
    when the records were sent that may be acked and lost. error_codes: what a producer may be
    answered; some of what only delays is not searched, so there may be more. bounds: within what
    `impossible` holds. states: how many were searched. complete: False if the budget ran out; then
    nothing searched for is called impossible or certain.
    """

    likelihood: Mapping[str, Likelihood]
    trace: tuple[str, ...]
    diagram: tuple[str, ...]
    at_risk: tuple[str, ...]
    error_codes: tuple[str, ...]
    reasons: Mapping[str, str]
    bounds: str
    states: int
    complete: bool


def predict(
    configuration: Configuration,
    schedule: Sequence[Injection],
    *,
    max_states: int = MAX_STATES,
    checks: SafetyChecks = ALL_CHECKS,
) -> Prediction:
    """Return what `schedule` may do to records written under `configuration`.

    Time is abstract. The schedule's `Elapsed` and `or_after` bound it: replica.lag.time.max.ms,
    the broker session, request and delivery timeouts fire only where those bounds leave time for
    them, and have fired where the bounds leave one and a half times their time. What needs no
    timer is taken to be prompt: `or_after` fires only if the conditions cannot come about by
    prompt steps (acks=all with replication cut, say, and the ISR not yet shrunk). `rules` are
    Kafka's; tests take one away.
    """
    model = Model(configuration, tuple(schedule), checks)
    found = explore(model, max_states=max_states)
    likelihood = dict.fromkeys(_NEVER, Likelihood.IMPOSSIBLE)
    reasons = dict(_NEVER)
    if configuration.profile.stale_fetch and configuration.replication_factor > 1:
        likelihood["diverged"], reasons["diverged"] = Likelihood.POSSIBLE, _STALE_FETCH
    for anomaly in SEARCHED:
        likelihood[anomaly], reasons[anomaly] = _judge(found, anomaly)
    likelihood[_INCONSISTENT], reasons[_INCONSISTENT] = _offsets(configuration, likelihood)
    way = found.trace(found.first["lost"]) if "lost" in found.first else []
    return Prediction(
        likelihood={anomaly: likelihood[anomaly] for anomaly in ANOMALIES},
        trace=tell(model, way),
        diagram=draw(model, way),
        at_risk=tuple(_sent(model, phase) for phase in sorted(found.at_risk)),
        error_codes=_error_codes(model, found),
        reasons={anomaly: reasons[anomaly] for anomaly in ANOMALIES},
        bounds=_bounds(model, found),
        states=len(found.states),
        complete=found.complete,
    )


def _judge(found: Exploration, anomaly: str) -> tuple[Likelihood, str]:
    having, final, saying = found.having[anomaly], found.final, _SAYING[anomaly]
    if not found.complete:
        return Likelihood.POSSIBLE, (
            f"the search was cut off after {len(found.states)} states, so nothing is excluded"
        )
    if not final:
        return Likelihood.POSSIBLE, "no way leads to a final log at all, so nothing is excluded"
    if not having:
        return Likelihood.IMPOSSIBLE, f"no way leads to a final log {saying} ({final} final states)"
    if having == final and not found.stuck:
        return Likelihood.CERTAIN, f"every way leads to a final log {saying} ({final} final states)"
    return (
        Likelihood.POSSIBLE,
        f"some ways lead to a final log {saying} ({having} of {final} states)",
    )


def _error_codes(model: Model, found: Exploration) -> tuple[str, ...]:
    if model.acks == "0":
        return ()  # there is no response at all
    return tuple(sorted(ERROR_CODES[kind] for kind in found.taken & set(ERROR_CODES)))


def _sent(model: Model, phase: int) -> str:
    """Say when the records of a phase are sent."""
    faults = [f"fault {number + 1} ({one.fault})" for number, one in enumerate(model.schedule)]
    if not faults:
        return "at any time"
    if phase == 0:
        return f"not yet replicated when {faults[0]} begins"
    if phase < len(faults):
        return f"after {faults[phase - 1]} is verified and before {faults[phase]} is"
    return f"after {faults[-1]} is verified"


def _offsets(
    configuration: Configuration, likelihood: Mapping[str, Likelihood]
) -> tuple[Likelihood, str]:
    """Judge whether an acked offset may come to hold anything but its record.

    Logs that agree in an offset and its epoch agree up to there (log matching, KIP-101), so only a
    removed record makes room for another, or leaves an earlier copy of itself to stand for it. A
    record acked with acks=all is removed only where one without another copy is, and lost.
    """
    if configuration.acks == "0":
        return Likelihood.IMPOSSIBLE, "with acks=0 no offset is acked"
    kept = likelihood["lost"] is Likelihood.IMPOSSIBLE
    single = likelihood["duplicated"] is Likelihood.IMPOSSIBLE
    if kept and (single or configuration.acks == "all"):
        return Likelihood.IMPOSSIBLE, "no acked record is removed, so each keeps its offset"
    return Likelihood.POSSIBLE, (
        "an acked record may be removed, and its offset given to another, or another copy of it "
        "be left at another offset"
    )


def _bounds(model: Model, found: Exploration) -> str:
    counts = [str(model.phases.count(phase)) for phase in range(model.faults + 1)]
    parts = [
        f"{len(found.states)} states of one partition with {model.replicas} replicas",
        "records: one acked and replicated at the start; then, before the first fault and after "
        f"each fault, at most {', '.join(counts)}; at most "
        f"{min(model.configuration.max_in_flight, IN_FLIGHT)} of them in flight",
        f"faults: the {model.faults} of the schedule, in its order, and no other; logs survive all "
        "but a power loss",
        "time: what needs no timer is prompt, so `or_after` fires only if its conditions cannot "
        "come about without one; a number of records includes some of this partition, unless it "
        "stands still; living brokers that are not cut off keep up",
        "left out: preferred leader election, transactions, reassignment, clients that restart",
    ]
    if not found.complete:
        parts.insert(0, "INCOMPLETE: the budget of states ran out")
    if found.stuck:
        parts.append(f"{found.stuck} states never settle: the partition stays without leader")
    return "; ".join(parts)


def join(predictions: Sequence[Prediction]) -> Prediction:
    """Return one prediction for several partitions or producer groups of one run.

    An anomaly is certain if it is in any, else possible if it is in any. Raises ValueError for no
    predictions at all.
    """
    if not predictions:
        raise ValueError("there is no prediction to join: give at least one")
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
        diagram=shortest.diagram if shortest else (),
        at_risk=tuple(dict.fromkeys(when for one in predictions for when in one.at_risk)),
        error_codes=tuple(sorted(set(every))),
        reasons=reasons,
        bounds=" | ".join(dict.fromkeys(one.bounds for one in predictions)),
        states=sum(one.states for one in predictions),
        complete=all(one.complete for one in predictions),
    )
