"""The metadata of a cluster: brokers, leaders, ISR, offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Metadata(Protocol):
    """Ask the cluster what a client can ask. Every cluster has this interface."""

    def broker_ids(self) -> Sequence[int]:
        """Return the node ids of all brokers, ascending."""

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the partition's leader, None while it has none."""

    def leaderless(self, topic: str, partition: int) -> bool:
        """Whether the partition is known to have no leader, by one answer: not if none came."""

    def leaders(
        self, partitions: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], int | None]:
        """Return the leaders of these partitions by one question; None for one without a leader."""

    def replicas(self, topic: str, partition: int) -> Sequence[int]:
        """Return the partition's replicas in assignment order."""

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return the partition's in-sync replicas, None if unknown at the moment."""

    def elr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return the eligible leader replicas (KIP-966), None if unknown at the moment."""

    def last_known_leader(self, topic: str, partition: int) -> int | None:
        """Return who led when the ISR became empty; None if it is not, or unknown."""

    def log_end(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Return the partition's high watermark and leader epoch, None if unknown."""

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """Return the offset that a group has committed, None if there is none or it is unknown."""

    def answers(self, broker: int) -> bool:
        """Whether the broker itself answers a client's request."""

    def in_sync(self, node: int) -> bool:
        """Whether the broker is unfenced and in the ISR of every partition it replicates.

        A controller is in sync when it leads the metadata quorum or follows without lag.
        """

    def await_in_sync(self, node: int, *, within_s: float) -> None:
        """Wait until `in_sync`; raise FaultError after `within_s` or if the node has ended."""


class Controllers(Protocol):
    """The voters of the metadata quorum, or ZooKeeper's controller."""

    def ids(self) -> Sequence[int]:
        """Return the node ids of all voters, ascending."""

    def active(self) -> int | None:
        """Return the leader of the metadata quorum, None while there is none or it is unknown."""
