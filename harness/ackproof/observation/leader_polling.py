"""Polls leaders and ISR of an attached cluster, whose metadata log is not accessible.

A change that is reverted between two polls is not observed. `at` is the time of the poll.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from ackproof.observation.metadata_log import PartitionState
from ackproof.waiting import Repeating
from ackproof_faults.interfaces.cluster import Placement, TopicPartition

_EVERY_S = 0.1

#: In place of offsets and epochs that only the metadata log contains.
UNKNOWN = -1


class LeaderPoll(Repeating):
    """Polls `look` while its context is open, and collects the changes as `states`.

    A partition that `look` does not return gets no state.
    """

    def __init__(
        self,
        look: Callable[[], Mapping[TopicPartition, Placement]],
        partitions: Sequence[TopicPartition],
    ) -> None:
        super().__init__(every_s=_EVERY_S, name="leader poll")
        self._look = look
        self._partitions = partitions
        self._last: dict[TopicPartition, Placement] = {}
        self.states: list[PartitionState] = []

    def turn(self) -> None:
        views, at = self._look(), datetime.now(UTC)
        for key in self._partitions:
            view = views.get(key)
            if view is not None and view != self._last.get(key):
                self._last[key] = view
                self.states.append(_state(key, view, at))


def _state(key: TopicPartition, view: Placement, at: datetime) -> PartitionState:
    topic, partition = key
    return PartitionState(
        at=at,
        metadata_offset=UNKNOWN,
        topic=topic,
        partition=partition,
        leader=UNKNOWN if view.leader is None else view.leader,
        leader_epoch=UNKNOWN,
        partition_epoch=UNKNOWN,
        replicas=view.replicas,
        isr=view.isr,
        elr=(),
    )
