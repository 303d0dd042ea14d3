"""A replica outside the ISR is elected, and the others drop what it lacks (unclean election)."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.effective import of_topic
from ackproof.audit.failure import Failure
from ackproof.audit.losses import UNCLEAN_ELECTION, by_unclean_election
from ackproof.audit.replication import with_rules_in_force
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import UNCLEAN, Setup

KIND = Kind(
    title="a replica outside the ISR is elected",
    subject=Subject.LOSSES,
    by_brokers=True,
    cause=UNCLEAN_ELECTION,
    texts={
        Effect.LOST: Text(
            text="a replica that was not in sync is elected (unclean election), and the others "
            "drop what it lacks",
            at_risk="records that were acked after that replica had left the ISR",
            trace=(
                "The followers fall behind and leave the ISR, one after the other.",
                "Records are acked that the first of them lacks.",
                "The leader ends, and no replica in the ISR is left.",
                "A replica outside the ISR is elected; the others truncate their logs to its log.",
            ),
        )
    },
    failures=(Failure.LAG, Failure.CRASH, Failure.CLEAN_RESTART, Failure.LOST_SESSION),
    cases=("B4", "B54"),
    removed_by={UNCLEAN: "false"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield the loss of what only the last replica in the ISR had, without a search."""
    partition = with_rules_in_force(setup).partition
    if not partition.unclean_election or partition.profile.elr:
        return
    if partition.min_insync_replicas >= partition.replication_factor:
        return  # every replica has each acked record
    cost = (
        "while all replicas that were in the ISR are down, the partition can neither be written "
        "nor read"
    )
    for failure in (Failure.CRASH, Failure.CLEAN_RESTART, Failure.LOST_SESSION):
        yield KIND.risk(
            setup,
            (Failure.LAG, failure),
            case=by_unclean_election(setup),
            decided_by=[decision(UNCLEAN, of_topic(setup, UNCLEAN), "false", cost)],
        )
