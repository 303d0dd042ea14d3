"""A topic gets more partitions, and consumers skip their first records (KAFKA-12261)."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.consumers import without_offset
from ackproof.audit.effective import of_consumer
from ackproof.audit.failure import Failure
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import Setup
from ackproof_model.kafka_settings import AUTO_OFFSET_RESET

KIND = Kind(
    title="consumers begin at the end of a new partition",
    subject=Subject.CONSUMERS,
    texts={
        Effect.UNPROCESSED: Text(
            case="B36",
            text="with auto.offset.reset={reset} a consumer skips what is written to a new "
            "partition before it reads it (KAFKA-12261)",
            at_risk="the first records of each new partition",
            trace=(
                "The topic gets a new partition, and producers learn of it first.",
                "They write records to it, which are acked.",
                "The group learns of the partition, has no offset for it, and begins at its end.",
            ),
        )
    },
    failures=(Failure.PARTITIONS_ADDED,),
    removed_by={AUTO_OFFSET_RESET: "earliest"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    for consumer in setup.consumers:
        reset = of_consumer(setup, consumer, AUTO_OFFSET_RESET)
        if reset.value.startswith("by_duration"):
            continue
        if without_offset(reset.value)[0] is Effect.UNPROCESSED:
            cost = (
                "a group without offsets begins at the first record, and repeats what is retained"
            )
            yield KIND.risk(
                setup,
                KIND.failures,
                reset=reset.value,
                decided_by=[decision(AUTO_OFFSET_RESET, reset, "earliest", cost, of=consumer)],
            )
