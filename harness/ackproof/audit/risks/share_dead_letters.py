"""A share group gives up records while its dead-letter topic refuses writes (KIP-1191)."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.failure import Failure
from ackproof.audit.remedies import lower_minimum
from ackproof.audit.risk import Kind, Subject, Text
from ackproof.audit.setups import MINIMUM, Setup
from ackproof.kafka_versions import numbers
from ackproof.scenario.share_groups import DEAD_LETTERS, GROUP_SETTINGS, TAKES_DEAD_LETTERS

KIND = Kind(
    title="a dead-letter topic refuses writes while a broker is away",
    subject=Subject.CONSUMERS,
    texts={
        Effect.ARCHIVED: Text(
            case="B39",
            text="records that a share group gives up meanwhile are in no dead letter: Kafka does "
            "not try again",
            at_risk="records that share groups give up while a broker is away",
            trace=(
                "A broker with a replica of this topic is away, and {left} in-sync {replicas} "
                "left: fewer than min.insync.replicas={minimum}, so the topic refuses writes.",
                "A share group gives up a record, and its dead letter is refused.",
                "The broker archives the record all the same; the group's lag is 0.",
            ),
        )
    },
    failures=(Failure.CRASH, Failure.CLEAN_RESTART),
    removed_by={MINIMUM: "fewer than the replicas"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield it of a topic for dead letters in which every replica has to take each write."""
    takes = setup.topic.settings.get(TAKES_DEAD_LETTERS)
    partition = setup.partition
    if (
        takes is None
        or takes.value.strip().lower() != "true"
        or numbers(partition.kafka_version) < GROUP_SETTINGS[DEAD_LETTERS]
    ):
        return
    left = partition.replication_factor - 1
    minimum = max(1, partition.min_insync_replicas)
    if left >= minimum:
        return
    for failure in KIND.failures:
        yield KIND.risk(
            setup,
            (failure,),
            left=str(left) if left else "no",
            replicas="replica is" if left == 1 else "replicas are",
            minimum=str(minimum),
            decided_by=[lower_minimum(setup, left)] if left else [],
        )
