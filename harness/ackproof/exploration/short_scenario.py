"""The scenario of an explored schedule: the user's cluster, with short timers and a small load.

Timers and load change how long a run takes, and not what the model reaches.
"""

from __future__ import annotations

from ackproof.exploration.results import Schedule
from ackproof.planning.compiler import document
from ackproof.planning.search import timers
from ackproof.scenario.loader import validate
from ackproof.scenario.model import Expect, Scenario
from ackproof_model.adversary import AdversaryModel
from ackproof_model.configuration import Profile
from ackproof_model.kafka_settings import REPLICA_LAG_TIME_MAX_MS, SESSION_TIMEOUTS
from ackproof_model.planning import carried_out

#: Timers of a cluster whose scenario sets neither of them, milliseconds.
_SESSION_MS = 4000
_HEARTBEAT_MS = 500
_LAG_MS = 5000

#: A cluster is clean for the next run once brokers have written high watermarks without its topic,
#: for which the default is five seconds.
_CHECKPOINT_MS = 1000

#: The most sends a second.
_MOST_RATE = 200

#: A schedule goes on after the longer timer, times this, and these seconds, in any case.
_PATIENCE_FACTOR = 1.6
_PATIENCE_S = 8.0


def shortened(scenario: Scenario) -> Scenario:
    """Return the scenario with short timers, unless it sets them, and at most a small load."""
    session = SESSION_TIMEOUTS[Profile.of(scenario.kafka).zookeeper]
    settings = dict(scenario.cluster.settings)
    if not {session, REPLICA_LAG_TIME_MAX_MS} & settings.keys():
        settings |= {session: _SESSION_MS, REPLICA_LAG_TIME_MAX_MS: _LAG_MS}
        if not Profile.of(scenario.kafka).zookeeper:
            settings.setdefault("broker.heartbeat.interval.ms", _HEARTBEAT_MS)
    settings.setdefault("replica.high.watermark.checkpoint.interval.ms", _CHECKPOINT_MS)
    rate = min(scenario.workload.rate or _MOST_RATE, _MOST_RATE)
    cluster = scenario.cluster.model_copy(update={"settings": settings})
    workload = scenario.workload.model_copy(update={"rate": rate})
    return scenario.model_copy(update={"cluster": cluster, "workload": workload})


def explored(
    scenario: Scenario, model: AdversaryModel, schedule: Schedule, *, name: str
) -> Scenario:
    """Return the scenario of a schedule.

    It expects nothing of its own, so that a contradiction with the model decides.
    """
    short = shortened(scenario)
    plan = carried_out(model, schedule.operations)
    assert plan is not None, schedule
    limits = timers(short)
    patience_s = max(limits.session, limits.lag) * _PATIENCE_FACTOR + _PATIENCE_S
    made = document(short, plan, name=name, records=schedule.records, patience_s=patience_s)
    strict = [key for key, field in Expect.model_fields.items() if field.default == "none"]
    return validate({**made, "expect": dict.fromkeys(strict, "any")})
