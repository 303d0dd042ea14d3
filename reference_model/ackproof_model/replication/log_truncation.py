"""A follower's truncation: to its high watermark (before 0.11), or by leader epoch.

KIP-101, KIP-279, KIP-595. A log is given as the epochs of Kafka's LeaderEpochFileCache
(`kafka.epoch_cache`) and its end offset, or by the leader epoch of each record.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache

from ackproof_model.configuration import Profile, Truncation
from ackproof_model.kafka.epoch_cache import UNDEFINED, Epochs, assign, end_offset_for
from ackproof_model.replication.state import NOBODY

#: Above every leader epoch.
_OWN_EPOCH = sys.maxsize


def truncation_offset(leader: Epochs, leader_end: int, follower: Epochs, follower_end: int) -> int:
    """Return the log end offset of a follower after the truncation of one fetch.

    The leader answers the last epoch fetched with its own largest epoch not above it, and where
    that ends (KIP-595, `Partition.readRecords`). The follower compares that with its own epochs
    (`AbstractFetcherThread.getOffsetTruncationState`). Several rounds may be necessary.
    """
    if not follower:
        return follower_end
    epoch, end = end_offset_for(leader, follower[-1][0], leader_end)
    own_epoch, own_end = end_offset_for(follower, epoch, follower_end)
    return min(own_end, end) if own_epoch == epoch else own_end


@lru_cache(maxsize=1 << 16)
def agreed(leader: tuple[int, ...], follower: tuple[int, ...]) -> int:
    """Return the log end offset of a follower after all rounds of truncation.

    Both logs are given by the leader epoch of each record, in order of offset.
    """
    end = len(follower)
    # A leader records its own epoch when it begins to lead (`Partition.makeLeader`, KIP-279).
    leading = assign(_epochs(leader), _OWN_EPOCH, len(leader))
    while (cut := truncation_offset(leading, len(leader), _epochs(follower[:end]), end)) < end:
        end = cut
    return end


def kept_end(
    profile: Profile,
    leader: tuple[int, ...],
    follower: tuple[int, ...],
    *,
    truncating: bool,
    high_watermark: int,
) -> int:
    """Return the log end offset of a follower after truncation by its leader's next response.

    Both logs are given by the leader epoch of each record. truncating: it asks where to truncate
    before it fetches. high_watermark: its own. Without epochs, a fetch beyond the leader's log
    makes it truncate to the leader's log end (OFFSET_OUT_OF_RANGE, `handleOffsetOutOfRange`).
    """
    if truncating and profile.truncation is Truncation.KIP_101:
        return _by_latest_epoch(leader, follower, high_watermark)
    if truncating or profile.truncation is Truncation.ON_FETCH:
        return agreed(leader, follower)
    return min(len(follower), len(leader))


def _by_latest_epoch(
    leader: tuple[int, ...], follower: tuple[int, ...], high_watermark: int
) -> int:
    """Return the end of the follower's latest epoch in the leader's log (KIP-101).

    A log's latest epoch is its largest: `LeaderEpochFileCache.assign` leaves out an epoch that
    follows a larger one. The leader's answer (`LeaderEpochFileCache.endOffsetFor` of 0.11.0 to
    1.1.1) is undefined if it knows no later epoch, or if its log begins with a later one. Then the
    follower truncates to its high watermark (`ReplicaFetcherThread.maybeTruncate`).
    """
    latest, end = max(follower, default=UNDEFINED[0]), len(follower)
    if leader and max(leader) == latest:
        return min(len(leader), end)
    later = [offset for offset, epoch in enumerate(leader) if epoch > latest]
    undefined = not later or latest < leader[0]
    return min(high_watermark if undefined else later[0], end)


def follow(
    profile: Profile,
    *,
    known: tuple[int, int],
    latest: tuple[int, int],
    log_end: int,
    high_watermark: int,
    truncating: bool,
) -> tuple[int, int, bool]:
    """Return a broker's log end and high watermark once it follows, and whether it must truncate.

    known, latest: leader and leader epoch that it knew, and now learns. Before 0.11 it truncates to
    its own high watermark at once (`ReplicaManager.makeFollowers`, the defect that KIP-101 fixes);
    from 0.11 to 2.6 it asks the leader where to truncate before it fetches.
    """
    anew = latest[0] != NOBODY and refollows(profile, known, latest)
    if anew and profile.truncation is Truncation.HIGH_WATERMARK:
        log_end = min(high_watermark, log_end)
    return (
        log_end,
        min(high_watermark, log_end) if profile.keeps_high_watermark else 0,
        profile.truncates_first and (anew or truncating),
    )


def refollows(profile: Profile, known: tuple[int, int], latest: tuple[int, int]) -> bool:
    """Whether metadata makes a broker restart its fetcher (`Partition.makeFollower`).

    Before 2.0 a new epoch of the same leader does not count.
    """
    if profile.keeps_high_watermark:
        return known[0] != latest[0]
    return known != latest


def _epochs(records: Sequence[int]) -> Epochs:
    epochs: Epochs = ()
    for offset, epoch in enumerate(records):
        epochs = assign(epochs, epoch, offset)
    return epochs
