"""Writes or reads stop until a broker is back: no replica may lead, or too few are in sync."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ackproof.audit.answer import Decision, Effect, Risk
from ackproof.audit.availability import (
    MOST_REPLICAS,
    NOTHING_AT_RISK,
    Stop,
    question,
    stop_verb,
    stopped_by,
    stopped_when,
    stops,
)
from ackproof.audit.effective import replication_factor
from ackproof.audit.failure import Failure, Failures, covers
from ackproof.audit.replication import losing, with_rules_in_force
from ackproof.audit.risk import Kind, Subject, Text, antichain, decision
from ackproof.audit.setups import REPLICAS, Setup
from ackproof_model.configuration import Configuration
from ackproof_model.kafka_settings import PROCESS_ROLES
from ackproof_model.worst_case.answer import never_acked

_CRASH, _LAG = Failure.CRASH, Failure.LAG

KIND = Kind(
    title="a partition has no leader, or too few in-sync replicas",
    subject=Subject.CLUSTER,
    texts=dict.fromkeys((Effect.WRITES_STOP, Effect.READS_STOP), Text(at_risk=NOTHING_AT_RISK)),
    failures=(_CRASH, _LAG, Failure.CONTROLLERS),
    removed_by={
        REPLICAS: "one more",
        PROCESS_ROLES: "broker, and controllers on nodes of their own",
        "controller.quorum.voters": "3",
    },
)


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield the smallest sets of failures that stop writes or reads."""
    setup = with_rules_in_force(setup)
    for effect in KIND.effects:
        if effect is Effect.WRITES_STOP and never_acked(setup.partition):
            continue
        of = _stops(setup, effect)
        for failures in antichain([*of]):
            yield _stopped(setup, effect, of[failures])


def changes(setup: Setup, risk: Risk) -> Iterator[Decision]:
    """Yield what keeps writes or reads going after the failures of a risk."""
    setup = with_rules_in_force(setup)
    if _stops(setup, risk.effect)[risk.failures].quorum:
        yield from _more_controllers(setup)
    else:
        yield from _more_replicas(setup, risk.effect, risk.failures)


def _stops(setup: Setup, effect: Effect) -> dict[Failures, Stop]:
    every = [*stops(setup.partition, effect), *_by_controllers(setup)]
    return {one.failures: one for one in reversed(every)}


def _stopped(setup: Setup, effect: Effect, stop: Stop) -> Risk:
    verb = stop_verb(effect)
    when = stopped_when(stop.failures)
    text = f"{verb} {when}: no replica that may lead is running"
    if stop.quorum:
        text = (
            f"{verb} where the leader is down, because without a majority of controllers no "
            "other replica is elected"
        )
    elif effect is Effect.WRITES_STOP and _min_decides(setup.partition, stop.failures):
        least = min(setup.partition.min_insync_replicas, setup.partition.replication_factor)
        text = f"{verb} {when}: acks=all needs {least} in-sync replicas"
    return KIND.risk(setup, stop.failures, effect, text=text, trace=stop.trace)


def _min_decides(partition: Configuration, failures: Failures) -> bool:
    """Whether reads go on, so that only min.insync.replicas stops the writes."""
    reads = stops(partition, Effect.READS_STOP)
    return not any(covers(one.failures, failures) for one in reads)


def _more_replicas(setup: Setup, effect: Effect, failures: Failures) -> Iterator[Decision]:
    """Yield one more replica, if these failures then stop nothing and no more is lost.

    A lower min.insync.replicas is never proposed: writes would go on, and more records be at risk.
    """
    partition, brokers = setup.partition, setup.partition.brokers
    crashes, lag = failures.count(_CRASH), _LAG in failures
    replicas = partition.replication_factor + 1
    asked = question(partition, effect, replicas=replicas)
    if (brokers is not None and replicas > brokers) or asked.replicas > MOST_REPLICAS:
        return
    by_controllers = any(covers(one.failures, failures) for one in _by_controllers(setup))
    if by_controllers or stopped_by(asked, crashes, lag=lag) is not None:
        return
    known = losing(setup, partition)
    after = losing(setup, replace(partition, replication_factor=replicas))
    if all(any(covers(one, failures) for one in known) for failures in after):
        given = replication_factor(setup)
        yield decision(REPLICAS, given, replicas, "one more copy of each record")


def _by_controllers(setup: Setup) -> Iterator[Stop]:
    """Yield how a partition stops because no controller elects another leader."""
    majority = setup.controllers // 2 + 1
    end = "The leader crashes, and no controller elects another one."
    if setup.zookeeper or not setup.controllers:
        return
    if not setup.combined:
        failures: Failures = (Failure.CONTROLLERS, _CRASH)
        event = "The majority of the controllers is gone."
    elif majority in (2, 3):
        failures = (_CRASH,) * majority
        event = (
            f"{majority} of {setup.controllers} combined nodes crash: the controllers have no "
            "majority."
        )
    else:
        return
    yield Stop(failures=failures, trace=(event, end), quorum=True)


def _more_controllers(setup: Setup) -> Iterator[Decision]:
    own = setup.own
    if setup.combined and (given := own.broker.get(PROCESS_ROLES) or own.combined):
        roles = "broker, and controllers on nodes of their own"
        yield decision(PROCESS_ROLES, given, roles, "more machines")
    elif not setup.combined and own.controllers and setup.controllers < 3:
        yield decision("controller.quorum.voters", own.controllers, 3, "more machines")
