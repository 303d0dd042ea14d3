"""The logical clock of a replay: how many sends had been made and acked at a point in time.

Wall time differs from run to run, so a replayed schedule waits for a number of acked sends. While
nothing is acked (acks=all with replication cut) it waits for a number of sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ackproof_faults.conditions.condition import Condition
from ackproof_faults.conditions.kinds import After, ProgressIs
from ackproof_spark.tables import LOCATION, PROBE_PRODUCERS, Outcome

#: Without a send (or an ack) for this long, their number is not used as the clock.
_STILL_S = 1.0
#: Schedules count acks when they arrive, so sends of aborted transactions count as acked.
_ACKNOWLEDGED = [str(Outcome.ACKED), str(Outcome.ABORTED)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressMark:
    """Number of sends and acks at a point in time, and seconds since the last send and ack."""

    sent: int
    acked: int
    sent_ago_s: float
    acked_ago_s: float

    def condition(self, elapsed_s: float) -> Condition:
        """Return the condition that reaches this point again: acks, sends, else `elapsed_s`."""
        if self.acked and self.acked_ago_s < _STILL_S:
            return ProgressIs(count=self.acked, outcome="acked", more=False)
        if self.sent and self.sent_ago_s < _STILL_S:
            return ProgressIs(count=self.sent, outcome="sent", more=False)
        return After(seconds=max(0.0, round(elapsed_s, 3)))


def progress_marks(run_dir: Path, times: Sequence[datetime]) -> list[ProgressMark]:
    """Return the progress of a stored run at each of these times (UTC).

    The ledger must be closed. It is read in batches, so memory does not grow with its size.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    if not times:
        return []
    order = sorted(times)
    moments = np.array([_microseconds(one) for one in order], dtype=np.int64)
    sent, acked = _Tally(moments), _Tally(moments)
    acknowledged = pa.array(_ACKNOWLEDGED)
    columns = ["outcome", "sent_at", "resolved_at"]
    workload = ds.field("producer") < PROBE_PRODUCERS  # conditions count no writes of the probe
    ledger = ds.dataset(run_dir / LOCATION["ledger"])
    for batch in ledger.to_batches(columns=columns, filter=workload):
        is_acked = pc.is_in(batch.column("outcome"), acknowledged)
        sent.add(batch.column("sent_at").cast(pa.int64()).to_numpy())
        acked.add(batch.column("resolved_at").filter(is_acked).cast(pa.int64()).to_numpy())
    marks = {
        moment: ProgressMark(
            sent=sent.count(index),
            acked=acked.count(index),
            sent_ago_s=sent.ago_s(index),
            acked_ago_s=acked.ago_s(index),
        )
        for index, moment in enumerate(order)
    }
    return [marks[one] for one in times]


class _Tally:
    """Counts events up to each of several ascending moments, with the last event before each."""

    def __init__(self, moments: npt.NDArray[np.int64]) -> None:
        self._moments = moments
        self._counts = np.zeros(len(moments) + 1, dtype=np.int64)
        self._last = np.full(len(moments) + 1, np.iinfo(np.int64).min, dtype=np.int64)

    def add(self, times: npt.NDArray[np.int64]) -> None:
        bins = np.searchsorted(self._moments, times, side="left")
        self._counts += np.bincount(bins, minlength=len(self._counts))
        np.maximum.at(self._last, bins, times)

    def count(self, index: int) -> int:
        """Return the number of events before the moment at `index`."""
        return int(self._counts[: index + 1].sum())

    def ago_s(self, index: int) -> float:
        """Return the seconds since the last event before that moment; infinite without one."""
        if self.count(index) == 0:
            return float("inf")
        return float(self._moments[index] - self._last[: index + 1].max()) / 1e6


def _microseconds(moment: datetime) -> int:
    return int(np.datetime64(moment.replace(tzinfo=None), "us").astype(np.int64))
