"""The start offset of each leader epoch of a log: Kafka's LeaderEpochFileCache, rule by rule.

A log's epochs are a tuple of (epoch, start offset), rising in both. Each function is the method of
`org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache` that its docstring names; the same
in all versions under test (3.9 to 4.3).
"""

from __future__ import annotations

Epochs = tuple[tuple[int, int], ...]
"""Each epoch and the offset at which it begins, in order."""

UNDEFINED = (-1, -1)
"""The answer if nothing is known: epoch and offset."""


def assign(epochs: Epochs, epoch: int, start: int) -> Epochs:
    """Record that an epoch begins at an offset, and drop entries that contradict it (`assign`).

    An epoch keeps the first offset that it was given.
    """
    if epochs and epochs[-1][0] == epoch and start >= epochs[-1][1]:
        return epochs
    kept = list(epochs)
    while kept and (kept[-1][0] >= epoch or kept[-1][1] >= start):
        kept.pop()
    return (*kept, (epoch, start))


def end_offset_for(epochs: Epochs, epoch: int, log_end: int) -> tuple[int, int]:
    """Return the largest known epoch not above `epoch`, and its end offset (`endOffsetFor`).

    The latest epoch ends at the log end offset. Below the first known epoch, the answer is `epoch`
    itself and the start offset of the first known one; above the latest one, UNDEFINED.
    """
    if epoch == UNDEFINED[0] or not epochs or epoch > epochs[-1][0]:
        return UNDEFINED
    if epoch == epochs[-1][0]:
        return epoch, log_end
    floor = [one for one, _ in epochs if one <= epoch]
    end = next(start for one, start in epochs if one > epoch)
    return (floor[-1] if floor else epoch), end


def truncate_from_end(epochs: Epochs, end: int) -> Epochs:
    """Drop the epochs that begin at or after an offset (`truncateFromEnd`)."""
    if end < 0:
        return epochs
    return tuple(entry for entry in epochs if entry[1] < end)


def epoch_for_offset(epochs: Epochs, offset: int) -> int | None:
    """Return the epoch in which an offset was written, None if unknown (`epochForOffset`)."""
    return next((epoch for epoch, start in reversed(epochs) if start <= offset), None)
