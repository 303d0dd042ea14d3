"""Where a follower truncates its log: by its high watermark (before 0.11), or by leader epoch.

KIP-101, KIP-279, KIP-595. A log is given as the epochs of Kafka's LeaderEpochFileCache
(`kafka.epoch_cache`) and its end offset, or by the leader epoch of each record.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache

from ackproof_model.configuration import Profile, Truncation
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


def kept(
    profile: Profile, leader: tuple[int, ...], follower: tuple[int, ...], *, high_watermark: int
) -> int:
    """Return up to which offset a follower keeps its log when it truncates by leader epoch.

    Both logs are given by the leader epoch of each record. high_watermark: the follower's own.
    """
    if profile.truncation is Truncation.KIP_101:
        return _by_latest_epoch(leader, follower, high_watermark)
    return agreed(leader, follower)


def _by_latest_epoch(
    leader: tuple[int, ...], follower: tuple[int, ...], high_watermark: int
) -> int:
    """Return the end of the follower's latest epoch in the leader's log (KIP-101).

    If the leader knows no later epoch, the follower's high watermark
    (`ReplicaFetcherThread.maybeTruncate` of 0.11, `LeaderEpochFileCache.endOffsetFor`).
    """
    if not follower:
        return 0
    latest, end = follower[-1], len(follower)
    if leader and leader[-1] == latest:
        return min(len(leader), end)
    later = (offset for offset, epoch in enumerate(leader) if epoch > latest)
    return min(next(later, high_watermark), end)


def kept_before(profile: Profile, log_end: int, high_watermark: int) -> int:
    """Return up to which offset a broker keeps its log when it is told of a new leader.

    Before 0.11 it truncates to its high watermark at once (`ReplicaManager.makeFollowers`).
    """
    if profile.truncation is Truncation.HIGH_WATERMARK:
        return min(high_watermark, log_end)
    return log_end


def refollows(profile: Profile, known: tuple[int, int], told: tuple[int, int]) -> bool:
    """Whether a broker begins to follow anew when it is told of a leader and its leader epoch.

    (`Partition.makeFollower`.) Before 2.0 a new epoch of the same leader does not count.
    """
    if profile.keeps_high_watermark:
        return known[0] != told[0]
    return known != told


def _epochs(records: Sequence[int]) -> Epochs:
    epochs: Epochs = ()
    for offset, epoch in enumerate(records):
        epochs = assign(epochs, epoch, offset)
    return epochs
