"""librdkafka begins a new producer epoch after an out-of-order batch (librdkafka 4953)."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.failure import Failure
from ackproof.audit.remedies import one_in_flight
from ackproof.audit.risk import Kind, Subject, Text
from ackproof.audit.setups import Setup
from ackproof_model.kafka_settings import MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, TRANSACTIONAL_ID

KIND = Kind(
    title="librdkafka begins a new epoch after an out-of-order batch",
    subject=Subject.PRODUCER,
    texts={
        Effect.DUPLICATED: Text(
            text="after an out-of-order batch of one partition librdkafka begins a new producer "
            "epoch, and may write again a batch of another partition; rare (librdkafka 4953)",
            at_risk="batches in flight at that moment",
            trace=(
                "Partitions get other leaders while several batches are in flight.",
                "A leader refuses a batch as out of order, since the one before it is not written.",
                "The producer begins a new epoch for all partitions, and sends again a batch that "
                "another leader has written and not acked.",
            ),
        )
    },
    failures=(
        Failure.CRASH,
        Failure.CLEAN_RESTART,
        Failure.LEADER_MOVE,
        Failure.REASSIGNMENT,
    ),
    removed_by={MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: "1"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    producer, partition = setup.producer, setup.partition
    if producer is None or not partition.idempotence or partition.max_in_flight == 1:
        return
    if producer.library != "librdkafka" or TRANSACTIONAL_ID in producer.settings:
        return
    several = setup.topic.partitions
    if several is not None and several.value == "1":
        return
    for failure in KIND.failures:
        yield KIND.risk(
            setup,
            [failure],
            when={} if several is not None else {"partitions": "2 or more"},
            decided_by=[one_in_flight(setup)],
        )
