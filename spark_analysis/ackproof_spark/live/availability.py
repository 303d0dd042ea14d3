"""Availability of a partition, by pauses between acknowledgements as in `metrics`.

A live job does not know which sends are in flight. It assumes that the workload goes on from a
partition's first send to its last outcome, so an idle producer counts as an outage here.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: First and last acknowledgement of each stretch without a pause longer than the gap.
Spans = list[tuple[int, int]]


def with_acks(spans: Spans, at: npt.NDArray[np.int64], *, gap: int) -> Spans:
    """Return `spans` with acknowledgements at `at` added, which may come in any order.

    All times are microseconds. `gap` is the longest pause that is not an outage.
    """
    if not len(at):
        return spans
    times = np.unique(at)
    breaks = np.flatnonzero(np.diff(times) > gap)
    first = times[np.append(0, breaks + 1)].tolist()
    last = times[np.append(breaks, len(times) - 1)].tolist()
    merged: Spans = []
    for start, stop in sorted([*spans, *zip(first, last, strict=True)]):
        if merged and start - merged[-1][1] <= gap:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def availability(spans: Spans, start: int, stop: int) -> float:
    """Return the share of the time from `start` to `stop` that lies within spans."""
    if stop <= start:
        return 1.0
    covered = sum(max(0, min(stop, last) - max(start, first)) for first, last in spans)
    return covered / (stop - start)


def since(spans: Spans, start: int) -> Spans:
    """Return the spans that matter from `start` on: those that end later, and the one before.

    A late ack may join that one with those that follow.
    """
    before = sum(last < start for _, last in spans)
    return spans[max(0, before - 1) :]
