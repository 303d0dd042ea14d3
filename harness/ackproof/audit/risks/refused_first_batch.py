"""librdkafka reports the first batch of a partition as acked, although it was refused."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.failure import Failure
from ackproof.audit.remedies import one_in_flight
from ackproof.audit.risk import Kind, Subject, Text
from ackproof.audit.setups import Setup
from ackproof.scenario.kafka_clients import acks_refused_batches
from ackproof_model.kafka_settings import MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION

KIND = Kind(
    title="librdkafka acks a first batch that the broker refused",
    subject=Subject.PRODUCER,
    texts={
        Effect.LOST: Text(
            case="B55",
            text="a broker that does not know a new partition yet refuses its first batch and "
            "accepts the next one, and librdkafka then reports the first as acked; rare "
            "(confluent-kafka-go 921)",
            at_risk="the first records of each new partition",
            trace=(
                "The topic gets a new partition; the producer learns of it before its leader does.",
                "The leader refuses the first batch, and accepts the second, which is in flight.",
                "The producer takes the second ack for both, and does not send the first again.",
            ),
        )
    },
    failures=(Failure.PARTITIONS_ADDED,),
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
        yield KIND.risk(setup, KIND.failures, decided_by=[one_in_flight(setup)])
