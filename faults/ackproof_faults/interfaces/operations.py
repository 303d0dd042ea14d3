"""An operator's work on a running cluster.

Most methods return as soon as Kafka has accepted the request. `topic` and `setting` tell what the
cluster has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Place = tuple[str, int]
"""A topic and a partition number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A partition as the cluster describes it; `leader` is None while there is none."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Operations(Protocol):
    """What Kafka's own tools do. Every method raises FaultError with Kafka's reason to refuse."""

    def topic(self, name: str) -> Mapping[int, Placement]:
        """Return the topic's partitions; empty if it does not exist or is unknown now."""

    def await_topic(
        self,
        look: Callable[[], Mapping[int, Placement]],
        good: Callable[[Mapping[int, Placement]], bool],
        *,
        within_s: float,
    ) -> Mapping[int, Placement]:
        """Return what `look` returns once it is `good`, or its last result after `within_s`."""

    def elect(self, places: Sequence[Place], *, unclean: bool) -> None:
        """Elect the preferred leaders; with `unclean`, any live replica if there is no leader."""

    def reassign(self, replicas: Mapping[Place, Sequence[int]]) -> None:
        """Request other replicas; do not wait until they have copied everything."""

    def add_partitions(self, topic: str, count: int) -> None:
        """Increase the topic's partitions to `count`."""

    def setting(self, topic: str, key: str) -> str | None:
        """Return a topic's setting in force, None if it is unknown now."""

    def known_setting(self, topic: str, key: str) -> str | None:
        """Return a topic's setting as it was last heard of, also while no broker answers.

        Settings that others change meanwhile are not noticed. None if it was never heard of.
        """

    def await_setting(self, topic: str, key: str, value: str, *, within_s: float) -> str | None:
        """Return a topic's setting once it has this value, or its last value after `within_s`."""

    def override(self, topic: str, key: str, value: str) -> None:
        """Change a topic's setting, and remember its value before."""

    def restore(self, topic: str, key: str) -> None:
        """Change a topic's setting back; a no-op if it was not overridden."""

    def recreate(self, topic: str) -> None:
        """Delete a topic and create it with the same replicas and settings."""

    def recreated(self, topic: str) -> tuple[str | None, str | None]:
        """Return a topic's id before it was recreated, and its id now (KIP-516)."""

    def add_broker(self) -> None:
        """Boot another broker, and wait until every other broker lists it."""

    def added(self) -> Sequence[int]:
        """Return the brokers that were added, in order."""

    def remove_broker(self, broker: int) -> None:
        """Move a broker's replicas to the others, shut it down, and unregister it."""

    def listed(self, broker: int) -> bool:
        """Whether a broker lists this one, or a partition has a replica on it."""

    def add_controller(self) -> None:
        """Boot another controller, and wait until it is a voter of the metadata quorum."""

    def added_controllers(self) -> Sequence[int]:
        """Return the controllers that were added, in order."""

    def remove_controller(self, controller: int) -> None:
        """Remove a controller from the voters, and end it for good."""

    def voters(self) -> Sequence[int]:
        """Return the voters that are caught up, as the quorum describes itself."""

    def feature_level(self, feature: str) -> str | None:
        """Return a feature's finalized level, None if the cluster does not know the feature."""

    def upgrade_feature(self, feature: str, level: str) -> None:
        """Finalize a higher level of a feature."""

    def version(self, broker: int) -> str | None:
        """Return the Kafka version that the broker logged at its last start."""

    def upgrade(self, broker: int, version: str) -> None:
        """Restart a broker with another Kafka version on its disk, and wait until it is in sync."""
