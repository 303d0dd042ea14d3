"""The settings and the Kafka version that the rules of a partition read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ackproof_model.configuration import Acks, Profile


def effective_min_isr(min_insync_replicas: int, replicas: int) -> int:
    """Return min.insync.replicas, at most the replication factor.

    `ReplicationControlManager.getTopicEffectiveMinIsr`, `Partition.effectiveMinIsr` (KAFKA-15583).
    """
    return min(min_insync_replicas, replicas)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Settings of one partition as the rules read them.

    Replicas are numbered in assignment order; if they move, it is the brokers that are numbered,
    and `replicas` is their number (`Controller.assignment`). elr: eligible leader
    replicas are on (KIP-966). in_flight: an AlterPartition request and its answer are two actions,
    with others between them; else they are one.
    """

    replicas: int
    min_insync_replicas: int
    acks: Acks
    unclean_election: bool
    elr: bool
    profile: Profile
    in_flight: bool = False

    @cached_property
    def everyone(self) -> int:
        return (1 << self.replicas) - 1

    @cached_property
    def min_isr(self) -> int:
        """The ISR size that acks=all needs; capped at the replicas from 3.7 (KAFKA-15583)."""
        if not self.profile.hw_freeze:
            return self.min_insync_replicas
        return effective_min_isr(self.min_insync_replicas, self.replicas)

    @cached_property
    def freeze(self) -> bool:
        """Whether the high watermark stands still below the minimum ISR (KAFKA-15583)."""
        return self.profile.hw_freeze

    @cached_property
    def remembered(self) -> dict[tuple[object, ...], Any]:
        """The controller's changes under this policy, which `controller.change` remembers."""
        return {}
