"""min.insync.replicas is greater than the number of replicas, so that no send is acked."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Effect, Risk
from ackproof.audit.remedies import lower_minimum
from ackproof.audit.replication import with_rules_in_force
from ackproof.audit.risk import Kind, Subject, Text
from ackproof.audit.setups import MINIMUM, Setup
from ackproof_model.worst_case.answer import never_acked

KIND = Kind(
    title="no send is acked, because min.insync.replicas exceeds the replicas",
    subject=Subject.CLUSTER,
    texts={Effect.WRITES_STOP: Text()},
    removed_by={MINIMUM: "at most the number of replicas"},
)


def risks(setup: Setup) -> Iterator[Risk]:
    setup = with_rules_in_force(setup)
    if never := never_acked(setup.partition):
        changes = [lower_minimum(setup, setup.partition.replication_factor)]
        yield KIND.never(setup, never, decided_by=changes)
