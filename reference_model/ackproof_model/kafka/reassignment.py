"""The reassignment of a partition: what it adds and removes, when it completes, how it reverts.

`Reassignment` is an exact port of `org.apache.kafka.controller.PartitionReassignmentReplicas`,
`Reverted` of `PartitionReassignmentRevert`. A differential test compares both with Kafka's classes
of each version. Every function names the method that it ports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A reassignment: all replicas while it lasts, and those that it removes and adds."""

    replicas: Replicas
    removing: Replicas
    adding: Replicas

    @classmethod
    def between(cls, current: Sequence[int], target: Sequence[int]) -> Reassignment:
        """Return the reassignment from the current replicas to those of a request.

        The target's replicas come first, in its order (the constructor of two assignments).
        """
        removing = _difference(current, target)
        return cls(
            replicas=(*target, *removing),
            removing=removing,
            adding=_difference(target, current),
        )

    @property
    def in_progress(self) -> bool:
        """Whether there is one (`isReassignmentInProgress`)."""
        return bool(self.removing or self.adding)

    @property
    def original(self) -> Replicas:
        """The replicas that were there before (`originalReplicas`)."""
        return without(self.replicas, self.adding)

    def completed(
        self, isr: Sequence[int], *, with_all: bool, smaller_with_all: bool
    ) -> tuple[Replicas, Replicas] | None:
        """Return replicas and ISR once it completes with this ISR, else None.

        with_all, smaller_with_all: see `ControllerRules` (`maybeCompleteReassignment`).
        """
        if not self.in_progress:
            return None
        staying, replicas = without(isr, self.removing), without(self.replicas, self.removing)
        if self.removing and not (staying and replicas):
            return None
        smaller = len(self.adding) < len(self.removing)
        if not with_all and not contains_all(staying, self.adding):
            return None
        if (with_all or (smaller_with_all and smaller)) and not contains_all(staying, replicas):
            return None
        return replicas, staying


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverted:
    """What is left when a reassignment is cancelled.

    unclean: the ISR had only replicas that the reassignment added; then the first other replica is
    the ISR, which needs unclean elections.
    """

    replicas: Replicas
    isr: Replicas
    unclean: bool

    @classmethod
    def of(cls, reassignment: Reassignment, isr: Sequence[int]) -> Reverted | None:
        """Return replicas and ISR after a cancellation; None if no replica would be left."""
        replicas, staying = reassignment.original, without(isr, reassignment.adding)
        if not staying and not replicas:
            return None
        return cls(replicas=replicas, isr=staying or replicas[:1], unclean=not staying)


def _difference(replicas: Iterable[int], others: Collection[int]) -> Replicas:
    """Return the replicas that are not among others, by number (`calculateDifference`)."""
    return tuple(sorted(without(tuple(dict.fromkeys(replicas)), others)))


def without(replicas: Sequence[int], gone: Collection[int]) -> Replicas:
    return tuple(replica for replica in replicas if replica not in gone)


def contains_all(replicas: Collection[int], others: Iterable[int]) -> bool:
    return all(replica in replicas for replica in others)
