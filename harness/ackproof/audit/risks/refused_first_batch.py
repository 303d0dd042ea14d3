"""librdkafka reports the first batch of a partition as acked, although it was refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.failure import Failure
from ackproof.audit.remedies import one_in_flight
from ackproof.audit.risk import Kind, Subject, Text
from ackproof.audit.setups import Setup
from ackproof.scenario.kafka_clients import acks_refused_batches
from ackproof_model.kafka_settings import MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION

#: The failures after which another broker leads.
_CHANGES_LEADER = (
    Failure.CRASH,
    Failure.CLEAN_RESTART,
    Failure.LEADER_MOVE,
    Failure.REASSIGNMENT,
    Failure.LOST_SESSION,
)

KIND = Kind(
    title="librdkafka acks a first batch that the broker refused",
    subject=Subject.PRODUCER,
    texts={
        Effect.LOST: Text(
            case="B55",
            text="a broker that does not know yet that it leads {which} refuses a producer's first "
            "batch and accepts the next one, and librdkafka then reports the first as acked; rare "
            "(confluent-kafka-go 921)",
            at_risk="the first records that a producer sends to {which}",
            trace=(
                "{begins}",
                "The leader refuses the first batch, and accepts the second, which is in flight.",
                "The producer takes the second ack for both, and does not send the first again.",
            ),
        )
    },
    rare=True,
    failures=(Failure.PARTITIONS_ADDED, Failure.CLIENT_CRASH, *_CHANGES_LEADER),
    removed_by={MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: "1"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    producer, partition = setup.producer, setup.partition
    if producer is None or producer.library != "librdkafka":
        return
    if acks_refused_batches(
        partition.kafka_version,
        idempotence=partition.idempotence,
        max_in_flight=partition.max_in_flight,
    ):
        yield KIND.risk(
            setup,
            (Failure.PARTITIONS_ADDED,),
            decided_by=[one_in_flight(setup)],
            which="a new partition",
            begins="The topic gets a new partition; the producer learns of it before its leader "
            "does.",
        )
        for failure in _CHANGES_LEADER if partition.replication_factor > 1 else ():
            begins = KIND.risk(
                setup,
                (failure, Failure.CLIENT_CRASH),
                decided_by=[one_in_flight(setup)],
                which="a partition since the leader changed",
                begins="A producer starts, as after a crash, while the leader changes; it learns "
                "of the new leader before that broker does.",
            )
            yield replace(begins, runs=None)  # the stored runs add partitions
