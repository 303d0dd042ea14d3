"""Where a follower truncates its log, by leader epoch (KIP-101, KIP-279, KIP-595).

A log is given as the epochs of Kafka's LeaderEpochFileCache (`kafka.epoch_cache`) and its end
offset.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache

from ackproof_model.kafka.epoch_cache import UNDEFINED, Epochs, assign, end_offset_for

#: Above every leader epoch.
_OWN_EPOCH = sys.maxsize


def truncation_offset(leader: Epochs, leader_end: int, follower: Epochs, follower_end: int) -> int:
    """Return where one fetch makes a follower truncate its log; its end offset for nowhere.

    The leader answers the last epoch fetched with its own largest epoch not above it, and where
    that ends (KIP-595, `Partition.readRecords`). The follower compares that with its own epochs
    (`AbstractFetcherThread.getOffsetTruncationState`). It may take several rounds until both agree.
    """
    if not follower:
        return follower_end
    asked = follower[-1][0]
    epoch, end = end_offset_for(leader, asked, leader_end)
    if epoch == asked:
        return min(end, follower_end)
    own = end_offset_for(follower, epoch, follower_end)
    if own == UNDEFINED:
        return min(end, follower_end)
    return min(own[1], follower_end) if own[0] != epoch else min(own[1], end, follower_end)


@lru_cache(maxsize=1 << 16)
def agreed(leader: tuple[int, ...], follower: tuple[int, ...]) -> int:
    """Return up to which offset a follower keeps its log, after all rounds of truncation.

    Both logs are given by the leader epoch of each record, in order of offset.
    """
    kept = len(follower)
    # A leader records its own epoch when it begins to lead (`Partition.makeLeader`, KIP-279).
    leading = assign(_epochs(leader), _OWN_EPOCH, len(leader))
    while (end := truncation_offset(leading, len(leader), _epochs(follower[:kept]), kept)) < kept:
        kept = end
    return kept


def _epochs(records: Sequence[int]) -> Epochs:
    epochs: Epochs = ()
    for offset, epoch in enumerate(records):
        epochs = assign(epochs, epoch, offset)
    return epochs
