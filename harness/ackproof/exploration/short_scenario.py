"""The scenario of an explored schedule: the user's cluster, with short timers and a small load.

Timers and load change how long a run takes, and not what the model reaches.
"""

from __future__ import annotations

from typing import Any

from ackproof.exploration.results import Schedule
from ackproof.planning.compiler import document
from ackproof.planning.search import timers
from ackproof.scenario.loader import validate
from ackproof.scenario.model import Expect, Scenario
from ackproof_model.adversary import AdversaryModel
from ackproof_model.configuration import Profile, Truncation
from ackproof_model.kafka_settings import (
    DELIVERY_TIMEOUT_MS,
    LINGER_MS,
    REPLICA_LAG_TIME_MAX_MS,
    REQUEST_TIMEOUT_MS,
    SESSION_TIMEOUTS,
)
from ackproof_model.planning import OperationKind, carried_out

#: Timers of a cluster whose scenario sets neither of them, milliseconds.
_SESSION_MS = 4000
_HEARTBEAT_MS = 500
_LAG_MS = 5000
#: The same where requests are held, which must not take a follower out of the ISR: without and
#: with schedules that wait for this timer.
_HELD_LAG_MS = {False: 300_000, True: 30_000}

#: A cluster is clean for the next run once brokers have written high watermarks without its topic,
#: for which the default is five seconds.
_CHECKPOINT_MS = 1000

#: The most sends a second.
_MOST_RATE = 200

#: Where followers truncate to their high watermark at once, producers send a batch this seldom.
#: Mostly followers have not heard that the last is committed then, as the planner has it. They hear
#: it after `replica.fetch.wait.max.ms`. In later versions large batches keep replicas that differ
#: out of sync: one whose log ends within a batch of the leader's cannot fetch it.
_LINGER_MS = 400

#: An idempotent librdkafka producer polls without pause while an ack takes longer than `linger.ms`
#: (docs/reports-to-kafka/idempotent-producer-busy-loop.md); several take the CPU from the brokers.
_IDEMPOTENT_LINGER_MS = 100

#: Where a record is held its producer gives up after this time, unless the scenario sets one.
_DELIVERY_MS = 3000
#: Where markers are held a coordinator sends them again after this time.
_RESENT_MS = 3000

#: A schedule goes on after the longer timer, times this, and these seconds, in any case.
_PATIENCE_FACTOR = 1.6
_PATIENCE_S = 8.0
#: The same where requests are held: what is late by design must not be given up.
_HELD_PATIENCE_S = 60.0


def shortened(scenario: Scenario, model: AdversaryModel) -> Scenario:
    """Return the scenario with short timers, unless it sets them, and at most a small load."""
    session = SESSION_TIMEOUTS[Profile.of(scenario.kafka).zookeeper]
    settings = dict(scenario.cluster.settings)
    if not {session, REPLICA_LAG_TIME_MAX_MS} & settings.keys():
        lag = _HELD_LAG_MS[_lags(model)] if model.misses_epochs else _LAG_MS
        settings |= {session: _SESSION_MS, REPLICA_LAG_TIME_MAX_MS: lag}
        if not Profile.of(scenario.kafka).zookeeper:
            settings.setdefault("broker.heartbeat.interval.ms", _HEARTBEAT_MS)
    settings.setdefault("replica.high.watermark.checkpoint.interval.ms", _CHECKPOINT_MS)
    rate = min(scenario.workload.rate or _MOST_RATE, _MOST_RATE)
    cluster = scenario.cluster.model_copy(update={"settings": settings})
    workload = scenario.workload.model_copy(update={"rate": rate})
    return scenario.model_copy(update={"cluster": cluster, "workload": workload})


def _lags(model: AdversaryModel) -> bool:
    """Whether followers may leave the ISR because they lag."""
    return model.budgets.shrinks > 0


def explored(
    scenario: Scenario, model: AdversaryModel, schedule: Schedule, *, name: str
) -> Scenario:
    """Return the scenario of a schedule.

    It expects nothing of its own, so that a contradiction with the model decides.
    """
    short = shortened(scenario, model)
    plan = carried_out(model, schedule.operations)
    assert plan is not None, schedule
    kinds = {one.kind for one in plan.operations}
    if OperationKind.HOLD_MARKERS in kinds:
        resent = {REQUEST_TIMEOUT_MS: _RESENT_MS, **short.cluster.settings}
        cluster = short.cluster.model_copy(update={"settings": resent})
        short = short.model_copy(update={"cluster": cluster})
    limits = timers(short)
    longest = max(limits.session, limits.lag if _lags(model) or not model.misses_epochs else 0)
    margin = _HELD_PATIENCE_S if model.misses_epochs else _PATIENCE_S
    patience_s = longest * _PATIENCE_FACTOR + margin
    made = document(short, plan, name=name, records=schedule.records, patience_s=patience_s)
    linger = _linger_ms(scenario)
    settings = made["workload"].setdefault("settings", {})
    if linger is not None and not {LINGER_MS, DELIVERY_TIMEOUT_MS} & settings.keys():
        settings[LINGER_MS] = linger
    if OperationKind.HOLD_WRITES in kinds:
        _give_up_soon(scenario, settings)
    strict = [key for key, field in Expect.model_fields.items() if field.default == "none"]
    return validate({**made, "expect": dict.fromkeys(strict, "any")})


def _give_up_soon(scenario: Scenario, settings: dict[str, Any]) -> None:
    """Let producers give up soon, unless the scenario says when.

    A Java producer must not send a batch again before.
    """
    if DELIVERY_TIMEOUT_MS in settings:
        return
    settings[DELIVERY_TIMEOUT_MS] = _DELIVERY_MS
    if scenario.workload.client.java is not None:
        settings[REQUEST_TIMEOUT_MS] = _DELIVERY_MS
        settings[LINGER_MS] = 0


def _linger_ms(scenario: Scenario) -> int | None:
    workload = scenario.workload
    if Profile.of(scenario.kafka).truncation is Truncation.HIGH_WATERMARK:
        return _LINGER_MS
    polls = workload.settings.idempotence and workload.client.java is None
    return _IDEMPOTENT_LINGER_MS if polls else None
