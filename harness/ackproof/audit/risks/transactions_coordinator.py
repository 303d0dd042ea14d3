"""Transactions have no coordinator that may write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.availability import (
    NOTHING_AT_RISK,
    fewer_brokers,
    stops,
)
from ackproof.audit.effective import of_broker, of_image
from ackproof.audit.failure import Failure, covers
from ackproof.audit.replication import with_rules_in_force
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import Setup
from ackproof.own_config.configuration import Default
from ackproof_model.kafka_settings import (
    TRANSACTION_STATE_LOG_MIN_ISR,
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
    TRANSACTIONAL_ID,
)
from ackproof_model.worst_case.answer import never_acked

_REPLICAS = TRANSACTION_STATE_LOG_REPLICATION_FACTOR
_MINIMUM = TRANSACTION_STATE_LOG_MIN_ISR

KIND = Kind(
    title="transactions have no coordinator",
    subject=Subject.CLUSTER,
    texts={Effect.WRITES_STOP: Text(at_risk=NOTHING_AT_RISK)},
    failures=(Failure.CRASH, Failure.LAG),
    removed_by={_REPLICAS: "one more, or the number of brokers"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    setup = with_rules_in_force(setup)
    producer = setup.producer
    if producer is None or TRANSACTIONAL_ID not in producer.settings:
        return
    replicas, least = of_broker(setup, _REPLICAS), of_broker(setup, _MINIMUM)
    unknown = isinstance(replicas.source, Default) and (
        not setup.own.defaults_hold or of_image(setup, _REPLICAS)
    )
    if unknown or not (replicas.value.isdecimal() and least.value.isdecimal()):
        return
    of_log = replace(
        setup.partition,
        acks="all",
        replication_factor=int(replicas.value),
        min_insync_replicas=int(least.value),
        brokers=None,
    )
    few = fewer_brokers(setup, replicas)
    if few or never_acked(of_log):
        yield KIND.never(
            setup,
            f"transactions cannot begin: __transaction_state has {replicas.value} replicas, of "
            f"which {least.value} must be in sync"
            + (f", and the number of brokers is {few}" if few else ""),
            decided_by=[decision(_REPLICAS, replicas, few or least.value)],
        )
        return
    of_topic = [one.failures for one in stops(setup.partition, Effect.WRITES_STOP)]
    for stop in stops(of_log, Effect.WRITES_STOP):
        if not any(covers(one, stop.failures) for one in of_topic):
            more = int(replicas.value) + 1
            yield KIND.risk(
                setup,
                stop.failures,
                text=f"transactions stop: of the {replicas.value} replicas of __transaction_state "
                f"{least.value} must be in sync",
                trace=stop.trace,
                decided_by=[decision(_REPLICAS, replicas, more, "one more copy")],
            )
