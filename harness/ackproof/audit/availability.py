"""Writes and reads that stop until a broker is back: by the partition, controllers, own topics.

An interruption while a leader is elected is not a stop: clients retry through it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from ackproof.audit.answer import Decision, Effect, Failure, Failures, Risk
from ackproof.audit.effective import (
    OFFSETS,
    of_broker,
    of_topic,
    offsets_replicas,
    replication_factor,
)
from ackproof.audit.risk import antichain, decision, risk, worded
from ackproof.audit.risks import question_of
from ackproof.audit.setups import Setup, eras_of
from ackproof.audit.words import covers, spelled
from ackproof.own_config.configuration import Default, Given
from ackproof_model.configuration import Configuration
from ackproof_model.kafka_settings import (
    MIN_INSYNC_REPLICAS,
    PROCESS_ROLES,
    REPLICATION_FACTOR,
    TRANSACTION_STATE_LOG_MIN_ISR,
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
    TRANSACTIONAL_ID,
)
from ackproof_model.prediction.narrative import name
from ackproof_model.worst_case.answer import never_acked
from ackproof_model.worst_case.minima import Question

_CRASH, _LAG = Failure.CRASH, Failure.LAG
_EFFECTS = (Effect.WRITES_STOP, Effect.READS_STOP)
_NOTHING = "nothing that was acked"
#: The largest replication factor that the model's operations were tried for.
MOST_REPLICAS = 5
#: Written by `ci/lab/audit_stops.py`.
FILE = Path(__file__).with_name("stops.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stop:
    """A smallest set of failures after which a partition stops, and the way to it.

    quorum: it stops because the controllers have no majority.
    """

    failures: Failures
    trace: tuple[str, ...]
    quorum: bool = False


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield the smallest sets of failures that stop writes or reads."""
    question = question_of(setup)  # the rules that apply with ZooKeeper
    partition = replace(setup.partition, kafka_version=question.kafka_version, elr=question.elr)
    setup = replace(setup, partition=partition)
    never = never_acked(partition)
    if never:
        changes = [_lower(setup, partition.replication_factor)]
        yield risk(setup, Effect.WRITES_STOP, (), never, certain=True, decided_by=changes)
    for effect in _EFFECTS[bool(never) :]:
        stops = [*_stops(partition, effect), *_by_controllers(setup)]
        of = {one.failures: one for one in reversed(stops)}
        for failures in antichain([*of]):
            yield _stopped(setup, effect, of[failures])
    yield from _of_offsets(setup)
    yield from _of_transactions(setup)


def _stopped(setup: Setup, effect: Effect, stop: _Stop) -> Risk:
    verb = "writes" if effect is Effect.WRITES_STOP else "reads"
    down = stop.failures.count(_CRASH)
    when = [f"while {spelled(down)} replica{' is' if down == 1 else 's are'} down"] * bool(down)
    when = ["after the followers have left the ISR"] * (_LAG in stop.failures) + when
    text = f"{verb} stop {' '.join(when)}: no replica that may lead is running"
    if stop.quorum:
        text = (
            f"{verb} stop where the leader is down, because without a majority of controllers no "
            "other replica is elected"
        )
    elif effect is Effect.WRITES_STOP and _min_decides(setup.partition, stop.failures):
        least = min(setup.partition.min_insync_replicas, setup.partition.replication_factor)
        text = f"{verb} stop {' '.join(when)}: acks=all needs {least} in-sync replicas"
    changes = _more_controllers(setup) if stop.quorum else _remedies(setup, effect, stop.failures)
    return risk(
        setup,
        effect,
        stop.failures,
        text,
        at_risk=_NOTHING,
        trace=stop.trace,
        decided_by=list(changes),
    )


def _min_decides(partition: Configuration, failures: Failures) -> bool:
    """Whether reads go on, so that only min.insync.replicas stops the writes."""
    reads = _stops(partition, Effect.READS_STOP)
    return not any(covers(one.failures, failures) for one in reads)


def _remedies(setup: Setup, effect: Effect, failures: Failures) -> Iterator[Decision]:
    """Yield the changes of one setting after which the failures stop nothing."""
    partition, brokers = setup.partition, setup.partition.brokers
    crashes, lag = failures.count(_CRASH), _LAG in failures

    def helps(**changes: int) -> bool:
        question = _question(partition, effect, **changes)
        return question.replicas <= MOST_REPLICAS and (
            _stopped_by(question, crashes, lag=lag) is None
        )

    replicas, fewer = partition.replication_factor + 1, partition.min_insync_replicas - 1
    if (brokers is None or replicas <= brokers) and helps(replicas=replicas):
        given = replication_factor(setup)
        yield decision(REPLICATION_FACTOR, given, replicas, "one more copy of each record")
    if fewer and helps(minimum=fewer):
        yield _lower(setup, fewer)


def _lower(setup: Setup, value: int) -> Decision:
    cost = f"a record is acked when {value} {'replica has' if value == 1 else 'replicas have'} it"
    return decision(MIN_INSYNC_REPLICAS, of_topic(setup, MIN_INSYNC_REPLICAS), value, cost)


#: The version whose rules stand for all: of its rules only eligible leader replicas, which a
#: question sets, decide which crashes stop a partition.
RULES = eras_of("")[-1].release


def _question(
    partition: Configuration, effect: Effect, *, replicas: int = 0, minimum: int = 0
) -> Question:
    """Return what is asked about a partition. replicas, minimum: in place of its own."""
    replicas = replicas or partition.replication_factor
    return _asked(
        elr=partition.profile.elr,
        waits=partition.acks == "all" and effect is Effect.WRITES_STOP,
        replicas=replicas,
        minimum=min(minimum or partition.min_insync_replicas, replicas),
        unclean=partition.unclean_election,
    )


@cache
def _asked(*, elr: bool, waits: bool, replicas: int, minimum: int, unclean: bool) -> Question:
    return Question(
        kafka_version=RULES,
        elr=elr,
        acks="all" if waits else "1",
        replicas=replicas,
        min_insync_replicas=minimum,
        unclean=unclean,
    )


def _stops(partition: Configuration, effect: Effect) -> tuple[_Stop, ...]:
    """Return the smallest sets of crashes, also after followers lagged, that stop a partition."""
    if partition.replication_factor > MOST_REPLICAS:
        return ()
    return smallest(_question(partition, effect))


@cache
def smallest(question: Question) -> tuple[_Stop, ...]:
    found: list[_Stop] = []
    lags = (False, True) if question.replicas > 1 else (False,)
    for crashes, lag in sorted(product(range(question.replicas + 1), lags), key=sum):
        failures = (*[_LAG] * lag, *[_CRASH] * crashes)
        if failures and not any(covers(one.failures, failures) for one in found):
            trace = _stopped_by(question, crashes, lag=lag)
            if trace is not None:
                found.append(_Stop(failures=failures, trace=trace))
    return tuple(found)


@cache
def _stopped_by(question: Question, crashes: int, *, lag: bool) -> tuple[str, ...] | None:
    """Return the way in which these operations stop a partition; None if they do not."""
    stop = _stored()[key_of(question)].get(f"{'lag ' * lag}{crashes}")
    if stop is None:
        return None
    crashed, leader, isr = stop
    return (
        "A leads the partition; its other replicas are in sync.",
        *(["The followers of A leave the ISR."] * lag),
        *(f"{name(one)} crashes." for one in crashed),
        f"{f'{name(leader)} leads' if leader >= 0 else 'No replica leads'}; the ISR is "
        f"{{{', '.join(map(name, isr))}}}.",
    )


@cache
def _stored() -> Mapping[str, Mapping[str, tuple[list[int], int, list[int]]]]:
    """Return the brokers that crash, the leader and the ISR afterwards, by question and failures.

    The model searched them.
    """
    stored: Mapping[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return stored


def key_of(question: Question) -> str:
    rules = f"{'elr ' * question.elr}{'unclean ' * question.unclean}acks={question.acks}"
    return f"{rules} {question.min_insync_replicas}/{question.replicas}"


def _by_controllers(setup: Setup) -> Iterator[_Stop]:
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
    yield _Stop(failures=failures, trace=(event, end), quorum=True)


def _more_controllers(setup: Setup) -> Iterator[Decision]:
    own = setup.own
    if setup.combined and (given := own.broker.get(PROCESS_ROLES) or own.combined):
        roles = "broker, and controllers on nodes of their own"
        yield decision(PROCESS_ROLES, given, roles, "more machines")
    elif not setup.combined and own.controllers and setup.controllers < 3:
        yield decision("controller.quorum.voters", own.controllers, 3, "more machines")


def _of_offsets(setup: Setup) -> Iterator[Risk]:
    """Yield the failures after which groups have no coordinator."""
    for replicas, when in offsets_replicas(setup):
        if brokers := _fewer_brokers(setup, replicas):
            yield risk(
                setup,
                Effect.READS_STOP,
                (),
                f"groups cannot begin: __consumer_offsets needs {replicas.value} replicas, and the "
                f"number of brokers is {brokers}",
                certain=True,
                decided_by=[decision(OFFSETS, replicas, brokers)],
            )
        elif replicas.value == "1":
            yield worded(
                setup,
                Effect.READS_STOP,
                (_CRASH,),
                "sole-coordinator",
                when=when,
                decided_by=[decision(OFFSETS, replicas, 3, "needs three brokers")],
            )


def _fewer_brokers(setup: Setup, replicas: Given) -> str:
    """Return the number of brokers if it is smaller than one of replicas, else ''."""
    brokers = setup.own.brokers.value if setup.own.brokers else ""
    known = brokers.isdecimal() and replicas.value.isdecimal()
    return brokers if known and int(brokers) < int(replicas.value) else ""


def _of_transactions(setup: Setup) -> Iterator[Risk]:
    """Yield the failures after which transactions have no coordinator that may write."""
    producer = setup.producer
    if producer is None or TRANSACTIONAL_ID not in producer.settings:
        return
    replicas, least = (
        of_broker(setup, TRANSACTION_STATE_LOG_REPLICATION_FACTOR),
        of_broker(setup, TRANSACTION_STATE_LOG_MIN_ISR),
    )
    unknown = not setup.own.defaults_hold and isinstance(replicas.source, Default)
    if unknown or not (replicas.value.isdecimal() and least.value.isdecimal()):
        return
    of_log = replace(
        setup.partition,
        acks="all",
        replication_factor=int(replicas.value),
        min_insync_replicas=int(least.value),
        brokers=None,
    )
    few = _fewer_brokers(setup, replicas)
    if few or never_acked(of_log):
        yield risk(
            setup,
            Effect.WRITES_STOP,
            (),
            f"transactions cannot begin: __transaction_state has {replicas.value} replicas, of "
            f"which {least.value} must be in sync"
            + (f", and the number of brokers is {few}" if few else ""),
            certain=True,
            decided_by=[
                decision(TRANSACTION_STATE_LOG_REPLICATION_FACTOR, replicas, few or least.value)
            ],
        )
        return
    of_topic = [one.failures for one in _stops(setup.partition, Effect.WRITES_STOP)]
    for stop in _stops(of_log, Effect.WRITES_STOP):
        if not any(covers(one, stop.failures) for one in of_topic):
            yield risk(
                setup,
                Effect.WRITES_STOP,
                stop.failures,
                f"transactions stop: of the {replicas.value} replicas of __transaction_state "
                f"{least.value} must be in sync",
                at_risk=_NOTHING,
                trace=stop.trace,
                decided_by=[
                    decision(
                        TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
                        replicas,
                        int(replicas.value) + 1,
                        "one more copy",
                    )
                ],
            )
