"""librdkafka begins a new producer epoch after a delivery timeout (docs/catalogue, B21).

In the new epoch it may write records again that a leader already has. The Java client waits for the
batches in flight, and keeps its epoch until then (`TransactionManager.maybeResolveSequences`).
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.effective import of_producer
from ackproof.audit.failure import Failure
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import Setup
from ackproof_model.kafka_settings import DELIVERY_TIMEOUT_MS, TRANSACTIONAL_ID

KIND = Kind(
    title="librdkafka begins a new epoch after a delivery timeout",
    subject=Subject.PRODUCER,
    texts={
        Effect.DUPLICATED: Text(
            case="B21",
            text="librdkafka begins a new producer epoch after sends have timed out, and writes "
            "again what the leader already has; these records were reported as failed, none of "
            "them as acked",
            at_risk="records whose send exceeds delivery.timeout.ms={timeout}",
            trace=(
                "The leader appends batches, and no response arrives within the delivery timeout.",
                "Sends fail with a timeout, and the producer begins a new epoch.",
                "It sends again what has not timed out yet; the leader does not recognise it.",
            ),
        )
    },
    failures=(Failure.CLIENT_TIMEOUT,),
    removed_by={DELIVERY_TIMEOUT_MS: "longer than an outage"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    producer, partition = setup.producer, setup.partition
    if producer is None or not partition.idempotence:
        return
    if producer.library != "librdkafka" or TRANSACTIONAL_ID in producer.settings:
        return
    timeout = of_producer(setup, DELIVERY_TIMEOUT_MS, int(partition.delivery_timeout_s * 1000))
    [(setting, change)] = KIND.removed_by.items()
    cost = "a failed send is reported later"
    yield KIND.risk(
        setup,
        KIND.failures,
        timeout=timeout.value,
        decided_by=[decision(setting, timeout, change, cost, of=producer)],
    )
