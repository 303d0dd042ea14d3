"""Leaders and ISR by asking again and again, where the metadata log cannot be had.

What changes and changes back between two questions is not seen, and `at` is when it was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from ackproof.background import Repeating
from ackproof.cluster.admin import PartitionView, TopicPartition
from ackproof.observation.metadata_log import PartitionState

_EVERY_S = 0.1

UNKNOWN = -1
"""Stands for the offsets and epochs that only the metadata log has."""


class LeaderPoll(Repeating):
    """Asks `look` again and again while its context is open; `states` is what it saw.

    A question that nobody answers is no state.
    """

    def __init__(
        self,
        look: Callable[[], Mapping[TopicPartition, PartitionView]],
        places: Sequence[TopicPartition],
    ) -> None:
        super().__init__(every_s=_EVERY_S, name="leader poll")
        self._look = look
        self._places = places
        self._last: dict[TopicPartition, PartitionView] = {}
        self.states: list[PartitionState] = []

    def turn(self) -> None:
        """Ask once and note what changed."""
        seen, at = self._look(), datetime.now(UTC)
        for place in self._places:
            view = seen.get(place)
            if view is not None and view != self._last.get(place):
                self._last[place] = view
                self.states.append(_state(place, view, at))


def _state(place: TopicPartition, view: PartitionView, at: datetime) -> PartitionState:
    return PartitionState(
        at=at,
        metadata_offset=UNKNOWN,
        topic=place[0],
        partition=place[1],
        leader=UNKNOWN if view.leader is None else view.leader,
        leader_epoch=UNKNOWN,
        partition_epoch=UNKNOWN,
        replicas=view.replicas,
        isr=view.isr,
        elr=(),
    )
