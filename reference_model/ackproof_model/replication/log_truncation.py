"""Up to where two logs agree, by leader epoch (KIP-101, KIP-279, KIP-595).

A log is given by the leader epoch of each of its entries, in order of offset.
"""

from __future__ import annotations

from collections.abc import Sequence

_NONE = -1


def agreed(leader: Sequence[int], follower: Sequence[int]) -> int:
    """Return up to which offset a follower keeps its log.

    The leader answers the follower's last epoch with its own largest epoch not above it, and
    where that ends (`LeaderEpochFileCache.endOffsetFor`); the follower goes back to its own epochs
    until both agree.
    """
    kept = len(follower)
    while kept:
        asked = follower[kept - 1]
        epoch, end = _end_of_epoch(leader, asked)
        if epoch == asked:
            return min(kept, end)
        # The follower drops what it has of epochs that its leader never had.
        kept = min(end, sum(1 for one in follower[:kept] if one <= epoch))
    return 0


def _end_of_epoch(log: Sequence[int], asked: int) -> tuple[int, int]:
    """Return the largest epoch not above `asked`, and its end offset; (-1, 0) for none."""
    end = sum(1 for one in log if one <= asked)
    return (log[end - 1], end) if end else (_NONE, 0)
