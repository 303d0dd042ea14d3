"""What an operator does to a running cluster, as faults ask for it.

Every step returns as soon as Kafka has taken the request; whether it was done is asked for with
`partition`, `setting` and `topics`, which say what the cluster has committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

    def topic_id(self, name: str) -> str | None:
        """Return the topic's id (KIP-516), None if it is not there or nobody can say now."""

    def elect(self, places: Sequence[Place], *, unclean: bool) -> None:
        """Elect the preferred leader, or (`unclean`) whoever is there if there is none."""

    def reassign(self, wanted: Mapping[Place, Sequence[int]]) -> None:
        """Ask for other replicas; do not wait until they have copied everything."""

    def add_partitions(self, topic: str, count: int) -> None:
        """Have the topic have `count` partitions."""

    def setting(self, topic: str, key: str) -> str | None:
        """Return a topic's setting in force, None if nobody can say now."""

    def set_setting(self, topic: str, key: str, value: str | None) -> None:
        """Change a topic's setting; None: have the default again."""

    def delete_topic(self, name: str) -> None:
        """Delete the topic."""

    def create_topic(
        self, name: str, assignment: Sequence[Sequence[int]], settings: Mapping[str, str]
    ) -> None:
        """Create a topic with these replicas and settings."""

    def settings(self, topic: str) -> Mapping[str, str]:
        """Return the settings that the topic has for itself."""

    def add_broker(self) -> int:
        """Boot another broker; return its id when every other lists it."""

    def remove_broker(self, broker: int) -> None:
        """Move a broker's replicas to the others, shut it down, make the cluster forget it."""

    def version(self, broker: int) -> str:
        """Return the Kafka version that the broker runs."""

    def upgrade(self, broker: int, version: str) -> None:
        """Restart a broker with another Kafka version on its disk."""
