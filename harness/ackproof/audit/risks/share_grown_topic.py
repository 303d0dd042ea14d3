"""A topic gets more partitions, and a share group skips their first records (KAFKA-20742)."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.failure import Failure
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import Setup
from ackproof.audit.share_groups import of_shares, shares
from ackproof.scenario.share_groups import AUTO_OFFSET_RESET

KIND = Kind(
    title="a share group begins at the end of a new partition",
    subject=Subject.CONSUMERS,
    texts={
        Effect.UNDELIVERED: Text(
            case="B37",
            text="with share.auto.offset.reset=latest a share group never gets what is written to "
            "a new partition before it reads it (KAFKA-20742)",
            at_risk="the first records of each new partition",
            trace=(
                "The topic gets a new partition, and producers learn of it first.",
                "They write records to it, which are acked.",
                "The group gets the partition, and begins at its end.",
            ),
        )
    },
    failures=(Failure.PARTITIONS_ADDED,),
    removed_by={AUTO_OFFSET_RESET: "earliest, of the group"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield it before 4.4 (`ackproof_model.share_groups.fate.initial_start`).

    The setting is one of a group in the cluster: no file has it, so Kafka's default is assumed.
    """
    if shares(setup) and not setup.partition.profile.added_share_partitions_from_begin:
        reset = of_shares(setup, AUTO_OFFSET_RESET)
        cost = "of the group, in the cluster: a new group gets all records that are retained"
        yield KIND.risk(
            setup,
            KIND.failures,
            when={AUTO_OFFSET_RESET: reset.value},
            decided_by=[decision(AUTO_OFFSET_RESET, reset, "earliest", cost)],
        )
