"""How far a run's sends had come when something happened: the logical clock of a schedule.

Wall time differs from run to run; the number of acked sends is what a repeated schedule can wait
for. While nothing is acked (acks=all, and replication cut) sends are what still moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ackproof_faults.conditions.condition import Condition
from ackproof_faults.conditions.progress import After, ProgressIs
from ackproof_spark.tables import LOCATION, Outcome

#: Sends or acks of which there was none for so long stood still.
_STILL_S = 1.0
#: A schedule counts an ack when it comes in, whatever becomes of its transaction later.
_ACKNOWLEDGED = [str(Outcome.ACKED), str(Outcome.ABORTED)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """What had been sent and acked at one moment, and the seconds since the last of each."""

    sent: int
    acked: int
    sent_ago_s: float
    acked_ago_s: float

    def clock(self, elapsed_s: float) -> Condition:
        """Return what to wait for to be there again: acks, sends, or `elapsed_s` if both stand."""
        if self.acked and self.acked_ago_s < _STILL_S:
            return ProgressIs(count=self.acked, outcome="acked", more=False)
        if self.sent and self.sent_ago_s < _STILL_S:
            return ProgressIs(count=self.sent, outcome="sent", more=False)
        return After(seconds=max(0.0, round(elapsed_s, 3)))


def milestones(run_dir: Path, times: Sequence[datetime]) -> list[Milestone]:
    """Return how far the sends of a stored run had come at each of these times (UTC).

    The ledger must be closed; it is read in batches, so a large one takes no more memory.
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
    for batch in ds.dataset(run_dir / LOCATION["ledger"]).to_batches(columns=columns):
        is_acked = pc.is_in(batch.column("outcome"), acknowledged)
        sent.add(batch.column("sent_at").cast(pa.int64()).to_numpy())
        acked.add(batch.column("resolved_at").filter(is_acked).cast(pa.int64()).to_numpy())
    found = {
        moment: Milestone(
            sent=sent.count(index),
            acked=acked.count(index),
            sent_ago_s=sent.ago_s(index),
            acked_ago_s=acked.ago_s(index),
        )
        for index, moment in enumerate(order)
    }
    return [found[one] for one in times]


class _Tally:
    """Counts events up to each of some ascending moments, and keeps the last before each."""

    def __init__(self, moments: npt.NDArray[np.int64]) -> None:
        self._moments = moments
        self._counts = np.zeros(len(moments) + 1, dtype=np.int64)
        self._last = np.full(len(moments) + 1, np.iinfo(np.int64).min, dtype=np.int64)

    def add(self, times: npt.NDArray[np.int64]) -> None:
        """Count events that took place at these times."""
        bins = np.searchsorted(self._moments, times, side="left")
        self._counts += np.bincount(bins, minlength=len(self._counts))
        np.maximum.at(self._last, bins, times)

    def count(self, index: int) -> int:
        """Return how many took place until the moment at `index`."""
        return int(self._counts[: index + 1].sum())

    def ago_s(self, index: int) -> float:
        """Return the seconds from the last of them to that moment; infinite if there is none."""
        if self.count(index) == 0:
            return float("inf")
        return float(self._moments[index] - self._last[: index + 1].max()) / 1e6


def _microseconds(moment: datetime) -> int:
    return int(np.datetime64(moment.replace(tzinfo=None), "us").astype(np.int64))
