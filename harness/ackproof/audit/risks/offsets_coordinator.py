"""Groups have no coordinator: the offsets topic cannot be created or written, or is down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ackproof.audit.answer import Decision, Effect, Risk
from ackproof.audit.availability import NOTHING_AT_RISK, fewer_brokers
from ackproof.audit.effective import (
    OFFSETS,
    OFFSETS_TOPIC,
    of_offsets_topic,
    offsets_replicas,
    refuses_commits,
)
from ackproof.audit.failure import Failure
from ackproof.audit.replication import with_rules_in_force
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import MINIMUM, Setup
from ackproof.own_config.configuration import Given
from ackproof.safer_settings import BROKERS, more_brokers

KIND = Kind(
    title="consumer groups have no coordinator",
    subject=Subject.CLUSTER,
    texts={
        Effect.READS_STOP: Text(
            text="the offsets topic has one replica: while its broker is down, its groups have no "
            "coordinator, and consumers that join or commit wait",
            at_risk=NOTHING_AT_RISK,
            trace=(
                "The broker with the group's partition of __consumer_offsets crashes.",
                "It has no other replica, so the group has no coordinator.",
            ),
        )
    },
    failures=(Failure.CRASH,),
    removed_by={OFFSETS: "3, or the number of brokers", BROKERS: "3, if there are fewer"},
)


def _more_replicas(setup: Setup, replicas: Given) -> Decision:
    change = more_brokers()
    brokers = setup.own.brokers
    if brokers is not None and brokers.value < int(change.value):
        cost = f"more machines; then {OFFSETS}={change.value}"
        more = decision(change.setting, brokers, change.value, cost)
        return replace(more, topic=OFFSETS_TOPIC)
    return decision(OFFSETS, replicas, change.value, "needs three brokers")


def risks(setup: Setup) -> Iterator[Risk]:
    of_brokers, setup = setup, with_rules_in_force(setup)
    for replicas, when in offsets_replicas(setup):
        if brokers := fewer_brokers(setup, replicas):
            yield KIND.never(
                setup,
                f"groups cannot begin: __consumer_offsets needs {replicas.value} replicas, and the "
                f"number of brokers is {brokers}",
                decided_by=[decision(OFFSETS, replicas, brokers)],
                when=when,
            )
        elif refuses_commits(of_brokers, replicas, minimum := of_offsets_topic(setup, MINIMUM)):
            yield KIND.never(
                setup,
                f"groups cannot begin: __consumer_offsets has replication factor {replicas.value}, "
                f"below its {MINIMUM}={minimum.value}, and refuses every write",
                decided_by=[_more_replicas(setup, replicas)],
                when=when,
            )
        elif replicas.value == "1":
            yield KIND.risk(
                setup,
                KIND.failures,
                when=when,
                decided_by=[_more_replicas(setup, replicas)],
            )
