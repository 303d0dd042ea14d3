"""Compares a run of a planned scenario with the predicted fate of each phase's records."""

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

_RUN_START = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseOutcome:
    """Numbers of records that were sent and acked within a phase, and of those lost."""

    phase: Phase
    acked: int
    lost: int

    @property
    def contradicts(self) -> bool:
        """Whether not all acked records were lost, or some were, against the prediction.

        A predicted loss of `some` needs a race, so that no number contradicts it.
        """
        fate = self.phase.fate
        return fate != "some" and self.lost != (self.acked if fate == "lost" else 0)

    @property
    def shows_fate(self) -> bool:
        """Whether there were records, which had the predicted fate."""
        return bool(self.lost if self.phase.fate == "some" else self.acked) and not self.contradicts


def as_predicted(outcomes: Sequence[PhaseOutcome]) -> bool | None:
    """Whether no phase contradicts the prediction, and every predicted fate was observed.

    None if this is not decided. On a busy machine, a phase may have no records, because earlier
    sends are still being acked, and a race may lose nothing.
    """
    if any(outcome.contradicts for outcome in outcomes):
        return False
    shown = {outcome.phase.fate for outcome in outcomes if outcome.shows_fate}
    return shown == {outcome.phase.fate for outcome in outcomes} or None


def phase_outcomes(run_dir: Path, phases: Sequence[Phase]) -> list[PhaseOutcome]:
    """Return what happened to the records of each phase of a run.

    A phase lasts from the verification of one fault until the injection of another. Without these
    faults it has no records.
    """
    import pyarrow.parquet as pq

    windows = pq.read_table(run_dir / LOCATION["fault_windows"]).to_pylist()
    by_id = {json.loads(window["parameters"]).get("id", ""): window for window in windows}
    ledger = _rows_with(pq.read_table(run_dir / LOCATION["ledger"]), "outcome", "acked")
    anomalies = _rows_with(pq.read_table(run_dir / LOCATION["anomalies"]), "anomaly", "lost")
    outcomes = []
    for phase in phases:
        begin = by_id[phase.after]["verified_at"] if phase.after in by_id else None
        if not phase.after:
            begin = _RUN_START
        end = by_id[phase.until]["injected_at"] if phase.until in by_id else None
        outcomes.append(
            PhaseOutcome(
                phase=phase,
                acked=_count(ledger, begin, end),
                lost=_count(anomalies, begin, end),
            )
        )
    return outcomes


def _rows_with(table: pa.Table, column: str, value: str) -> pa.Table:
    import pyarrow.compute as pc

    return table.filter(pc.equal(table[column], value))


def _count(table: pa.Table, begin: datetime | None, end: datetime | None) -> int:
    """Count the records sent after `begin` and acked before `end`."""
    import pyarrow.compute as pc

    if begin is None or end is None:
        return 0
    within = pc.less(table["resolved_at"], pc.cast(end, table["resolved_at"].type))
    if begin is not _RUN_START:
        after = pc.greater(table["sent_at"], pc.cast(begin, table["sent_at"].type))
        within = pc.and_(within, after)
    return int(pc.sum(pc.cast(within, "int64")).as_py() or 0)
