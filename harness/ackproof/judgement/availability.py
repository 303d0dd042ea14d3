"""Computes from the attempts of the probe when each partition could be read and written.

A partition is unavailable from the first attempt after an answer to the next answer, if that takes
longer than `GAP_S`. Time in which the probe made no attempt does not count as unavailable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Literal

from ackproof.runs.verdict import (
    FaultReport,
    PartitionAvailability,
    PartitionState,
    ProbeMetrics,
    Share,
    Step,
)
from ackproof_spark.metrics import UNAVAILABILITY_GAP_S

Answer = Literal["yes", "no", "unknown"]

#: Seconds without an answer that count as unavailability.
GAP_S = UNAVAILABILITY_GAP_S

_GAP = timedelta(seconds=GAP_S)

#: Outages with less time between them are merged: the answers between them took too long.
_BETWEEN = timedelta(seconds=0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """The attempts to read, or to write, one partition.

    `begun` and `ended` are in the order of `ended`: an attempt without an answer lasts until the
    next one begins. `answered` are the times of successful answers, in order.
    """

    begun: Sequence[datetime]
    ended: Sequence[datetime]
    answered: Sequence[datetime]

    @property
    def begin(self) -> datetime:
        return min(self.begun)

    @property
    def end(self) -> datetime:
        return max(*self.begun, *self.ended)

    def outages(self) -> list[tuple[datetime, datetime]]:
        first_begun_from = list(_running_minimum(self.begun))
        outages: list[tuple[datetime, datetime]] = []
        index = 0
        for before, after in pairwise([None, *self.answered, None]):
            while before is not None and index < len(self.ended) and self.ended[index] <= before:
                index += 1
            if index == len(self.ended):
                break  # no attempt since the last answer
            first = first_begun_from[index]
            start = first if before is None else max(before, first)
            stop = self.end if after is None else after
            if stop - start <= _GAP:
                continue
            if outages and start - outages[-1][1] < _BETWEEN:
                outages[-1] = (outages[-1][0], stop)
            else:
                outages.append((start, stop))
        return outages

    def at_the_end_of(self, begin: datetime, end: datetime) -> Answer:
        """Return whether the partition was available at the end of a period."""
        last = max(begin, end - _GAP)
        if any(last < moment <= end for moment in self.answered):
            return "yes"
        tried = any(
            begun <= end and max(begun, ended) > last
            for begun, ended in zip(self.begun, self.ended, strict=True)
        )
        return "no" if tried and end - begin > _GAP else "unknown"


Probed = Mapping[tuple[str, int], Mapping[str, Attempts]]


def attempts(rows: Sequence[Mapping[str, Any]]) -> Probed:
    """Return the attempts in rows of the table `probe`, by partition and action."""
    by_partition: dict[tuple[str, int], dict[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        actions = by_partition.setdefault((row["topic"], row["partition"]), {})
        actions.setdefault(row["action"], []).append(row)
    return {
        partition: {action: _attempts(of_action) for action, of_action in sorted(actions.items())}
        for partition, actions in sorted(by_partition.items())
    }


def _attempts(rows: Sequence[Mapping[str, Any]]) -> Attempts:
    begun = sorted(rows, key=lambda row: row["at"])
    following = [*begun[1:], begun[-1]]
    spans = sorted(
        (row["answered_at"] or after["at"], row["at"])
        for row, after in zip(begun, following, strict=True)
    )
    return Attempts(
        begun=[begin for _, begin in spans],
        ended=[end for end, _ in spans],
        answered=sorted(row["answered_at"] for row in rows if row["ok"]),
    )


def probe_metrics(probed: Probed, *, writes: Mapping[str, int]) -> ProbeMetrics | None:
    """Return how long each partition could be read and written; None if nothing was probed.

    `writes` are the probe's by outcome.
    """
    partitions = [
        PartitionAvailability(
            topic=topic,
            partition=partition,
            read=_share(actions["read"]),
            write=_share(actions["write"]),
        )
        for (topic, partition), actions in probed.items()
        if actions.keys() == {"read", "write"}
    ]
    if not partitions:
        return None
    return ProbeMetrics(
        read=min((each.read for each in partitions), key=lambda share: share.share),
        write=min((each.write for each in partitions), key=lambda share: share.share),
        partitions=partitions,
        writes=dict(writes),
    )


def _share(of: Attempts) -> Share:
    seconds = (of.end - of.begin).total_seconds()
    gaps = [(stop - start).total_seconds() for start, stop in of.outages()]
    return Share(
        share=1 - sum(gaps) / seconds if seconds else 0.0,
        outages=len(gaps),
        longest_s=max(gaps, default=0.0),
    )


def steps(probed: Probed, faults: Sequence[FaultReport]) -> list[Step]:
    """Return the availability of each partition in each period between changes of faults."""
    every = [of for actions in probed.values() for of in actions.values()]
    if not every:
        return []
    begin, end = min(of.begin for of in every), max(of.end for of in every)
    changes = {moment for fault in faults for moment in (fault.injected_at, fault.healed_at)}
    moments = sorted({begin, end, *(at for at in changes if at and begin < at < end)})
    return [
        Step(
            in_force=[fault.window for fault in faults if _holds(fault, start)],
            begun=sum(fault.injected_at <= start for fault in faults),
            healed=[
                number
                for number, fault in enumerate(faults, start=1)
                if fault.healed_at is not None and fault.healed_at <= start
            ],
            begin=start,
            end=stop,
            partitions=[
                PartitionState(
                    topic=topic,
                    partition=partition,
                    readable=actions["read"].at_the_end_of(start, stop),
                    writable=actions["write"].at_the_end_of(start, stop),
                    readable_s=_available_s(actions["read"], start, stop),
                    writable_s=_available_s(actions["write"], start, stop),
                )
                for (topic, partition), actions in probed.items()
                if actions.keys() == {"read", "write"}
            ],
        )
        for start, stop in pairwise(moments)
    ]


def _holds(fault: FaultReport, at: datetime) -> bool:
    return fault.injected_at <= at and (fault.healed_at is None or at < fault.healed_at)


def _available_s(of: Attempts, begin: datetime, end: datetime) -> float:
    begin, end = max(begin, of.begin), min(end, of.end)
    down = sum(
        max(0.0, (min(stop, end) - max(start, begin)).total_seconds())
        for start, stop in of.outages()
    )
    return max(0.0, (end - begin).total_seconds() - down)


def _running_minimum(begun: Sequence[datetime]) -> Iterator[datetime]:
    """Yield the minimum of each item and all later ones, in order."""
    minima: list[datetime] = []
    for moment in reversed(begun):
        minima.append(min(moment, minima[-1]) if minima else moment)
    yield from reversed(minima)
