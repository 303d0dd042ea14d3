"""A transaction is committed while a partition has no leader, and its marker is skipped."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.availability import stops
from ackproof.audit.failure import Failure
from ackproof.audit.replication import with_rules_in_force
from ackproof.audit.risk import Kind, Subject, Text
from ackproof.audit.setups import Setup
from ackproof_model.kafka_settings import TRANSACTIONAL_ID

KIND = Kind(
    title="a transaction is committed while a partition has no leader",
    subject=Subject.LOSSES,
    rare=True,
    texts={
        Effect.LOST: Text(
            case="B58",
            text="a transaction that is committed while a partition has no leader stays open "
            "there, and an operator can only abort it (KAFKA-20734)",
            at_risk="the records of that transaction in the partition, whose commit was acked",
        )
    },
    failures=(Failure.CRASH, Failure.LAG),
)


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield the smallest sets of failures that leave a partition of transactions without a leader.

    `ackproof_model.transactions.markers` has the rule.
    """
    setup = with_rules_in_force(setup)
    producer, partition = setup.producer, setup.partition
    if producer is None or TRANSACTIONAL_ID not in producer.settings:
        return
    if not partition.profile.skips_markers:
        return
    for stop in stops(partition, Effect.READS_STOP):
        yield KIND.risk(
            setup,
            stop.failures,
            trace=(
                *stop.trace,
                "A transaction with records in that partition is committed, and the commit is "
                "acknowledged. The coordinator takes the partition for deleted, and sends it no "
                "marker.",
                "The brokers are back. The transaction is open there, and nobody ends it: "
                "consumers with read_committed stop before its records, until it is aborted.",
            ),
        )
