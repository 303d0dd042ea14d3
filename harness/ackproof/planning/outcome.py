"""Holds a run of a planned schedule against what the model said of each phase's records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.planning.compiler import Phase
from ackproof_spark.tables import LOCATION

if TYPE_CHECKING:
    import pyarrow as pa

_BEGINNING = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A phase, and how many of the records sent and acked within it were acked and lost."""

    phase: Phase
    acked: int
    lost: int

    @property
    def as_foreseen(self) -> bool:
        """Whether all of them, or none, were lost, as the model said."""
        return self.lost == (self.acked if self.phase.fate == "lost" else 0)


def as_foreseen(held: Sequence[Held]) -> bool:
    """Whether every phase is as foreseen, and each fate was met by records of some phase.

    A busy machine may still ack what was sent before a phase when the next begins: that one has
    no records, and says nothing.
    """
    fates = {one.phase.fate for one in held}
    met = {one.phase.fate for one in held if one.acked}
    return all(one.as_foreseen for one in held) and met == fates


def hold(run_dir: Path, phases: Sequence[Phase]) -> list[Held]:
    """Return what became of the records of each phase.

    A phase lasts from the verification of one fault to the injection of another; one whose faults
    did not take place has no records.
    """
    import pyarrow.parquet as pq

    windows = pq.read_table(run_dir / LOCATION["fault_windows"]).to_pylist()
    by_id = {json.loads(one["parameters"]).get("id", ""): one for one in windows}
    ledger = _between(pq.read_table(run_dir / LOCATION["ledger"]), "outcome", "acked")
    anomalies = _between(pq.read_table(run_dir / LOCATION["anomalies"]), "anomaly", "lost")
    found = []
    for phase in phases:
        begin = by_id[phase.after]["verified_at"] if phase.after in by_id else None
        if not phase.after:
            begin = _BEGINNING
        end = by_id[phase.until]["injected_at"] if phase.until in by_id else None
        found.append(
            Held(
                phase=phase,
                acked=_count(ledger, begin, end),
                lost=_count(anomalies, begin, end),
            )
        )
    return found


def _between(table: pa.Table, column: str, value: str) -> pa.Table:
    import pyarrow.compute as pc

    return table.filter(pc.equal(table[column], value))


def _count(table: pa.Table, begin: datetime | None, end: datetime | None) -> int:
    """Count the sends between two moments: handed over after the first, acked before the other."""
    import pyarrow.compute as pc

    if begin is None or end is None:
        return 0
    within = pc.less(table["resolved_at"], pc.cast(end, table["resolved_at"].type))
    if begin is not _BEGINNING:
        after = pc.greater(table["sent_at"], pc.cast(begin, table["sent_at"].type))
        within = pc.and_(within, after)
    return int(pc.sum(pc.cast(within, "int64")).as_py() or 0)
