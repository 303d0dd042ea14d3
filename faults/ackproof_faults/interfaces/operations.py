"""What an operator does to a running cluster, as faults ask for it.

Most steps return as soon as Kafka has taken the request; whether it was done is asked for with
`topic` and `setting`, which say what the cluster has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Place = tuple[str, int]
"""A topic, and the number of a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A partition as the cluster describes it; `leader` is None while there is none."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Operations(Protocol):
    """What Kafka's own tools do. Everything raises FaultError with Kafka's reason to refuse."""

    def topic(self, name: str) -> Mapping[int, Placement]:
        """Return the topic's partitions; empty if it is not there, or nobody can say now."""

    def await_topic(
        self,
        look: Callable[[], Mapping[int, Placement]],
        good: Callable[[Mapping[int, Placement]], bool],
        *,
        within_s: float,
    ) -> Mapping[int, Placement]:
        """Return what `look` says as soon as it is good, or what it said last."""

    def elect(self, places: Sequence[Place], *, unclean: bool) -> None:
        """Elect the preferred leader, or (`unclean`) whoever is there if there is none."""

    def reassign(self, wanted: Mapping[Place, Sequence[int]]) -> None:
        """Ask for other replicas; do not wait until they have copied everything."""

    def add_partitions(self, topic: str, count: int) -> None:
        """Have the topic have `count` partitions."""

    def setting(self, topic: str, key: str) -> str | None:
        """Return a topic's setting in force, None if nobody can say now."""

    def await_setting(self, topic: str, key: str, value: str, *, within_s: float) -> str | None:
        """Return a topic's setting as soon as it has this value, or what it was last."""

    def override(self, topic: str, key: str, value: str) -> None:
        """Change a topic's setting, and remember what it was."""

    def restore(self, topic: str, key: str) -> None:
        """Change a topic's setting back; a no-op if it was not overridden."""

    def recreate(self, topic: str) -> None:
        """Delete a topic and create it with the same replicas and settings."""

    def recreated(self, topic: str) -> tuple[str | None, str | None]:
        """Return the id that a topic had before it was recreated, and its id now (KIP-516)."""

    def add_broker(self) -> None:
        """Boot another broker, until every other lists it."""

    def added(self) -> Sequence[int]:
        """Return the brokers that were added, in order."""

    def remove_broker(self, broker: int) -> None:
        """Move a broker's replicas to the others, shut it down, make the cluster forget it."""

    def listed(self, broker: int) -> bool:
        """Whether a broker lists this one, or a partition has a replica on it."""

    def add_controller(self) -> None:
        """Boot another controller, until it votes in the metadata quorum."""

    def added_controllers(self) -> Sequence[int]:
        """Return the controllers that were added, in order."""

    def remove_controller(self, controller: int) -> None:
        """Have a controller vote no more, and end it for good."""

    def voters(self) -> Sequence[int]:
        """Return who votes over metadata and is caught up, by what the quorum says of itself."""

    def feature_level(self, feature: str) -> str | None:
        """Return a feature's finalized level, None if the cluster does not know the feature."""

    def upgrade_feature(self, feature: str, level: str) -> None:
        """Finalize a higher level of a feature."""

    def version(self, broker: int) -> str | None:
        """Return the Kafka version that the broker said it started last."""

    def upgrade(self, broker: int, version: str) -> None:
        """Restart a broker with another Kafka version on its disk, until it is in every ISR."""
