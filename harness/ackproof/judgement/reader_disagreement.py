"""Records that only one of the two readers of the final log returned, and their effect.

Such a record is neither proof of presence nor of loss. An anomaly that depends on it is no definite
violation, and the run is inconclusive. The disagreement is a finding: a bug in one of the two
clients, or a broker that answers them differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ackproof.runs.directory import table_rows
from ackproof.runs.verdict import Finding

#: How many of the offsets a message lists.
_LISTED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreements:
    """The rows of `tables.DISAGREEMENTS`."""

    rows: Sequence[Mapping[str, Any]]

    @property
    def _offsets(self) -> list[tuple[str, int, int]]:
        return sorted({(row["topic"], row["partition"], row["offset"]) for row in self.rows})

    @property
    def inconclusive_reasons(self) -> list[str]:
        """One reason if there are rows, else none."""
        if not self.rows:
            return []
        offsets = self._offsets
        listed = ", ".join(self._describe(*offset) for offset in offsets[:_LISTED])
        more = ", …" if len(offsets) > _LISTED else ""
        return [f"readers disagree about {len(offsets)} offsets: {listed}{more}"]

    @property
    def findings(self) -> list[Finding]:
        return [
            Finding(
                anomaly="disagreement",
                predicted="impossible",
                observed=len(self._offsets),
                explanation=reason,
            )
            for reason in self.inconclusive_reasons
        ]

    def undisputed(self, run_dir: Path, observed: Mapping[str, int]) -> dict[str, int]:
        """Return `observed` without the anomalies that depend on a disputed record."""
        counts = dict(observed)
        if not self.rows:
            return counts
        offsets = set(self._offsets)
        sends = {
            (row["topic"], row["partition"], row["producer"], row["sequence"])
            for row in self.rows
            if row["producer"] is not None
        }
        for row in table_rows(run_dir, "anomalies"):
            partition = row["topic"], row["partition"]
            send = (*partition, row["producer"], row["sequence"])
            if (*partition, row["offset"]) in offsets or send in sends:
                counts[row["anomaly"]] -= 1
        return counts

    def _describe(self, topic: str, partition: int, offset: int) -> str:
        records = [
            f"{row['reader']} has {_record(row)}"
            for row in self.rows
            if (row["topic"], row["partition"], row["offset"]) == (topic, partition, offset)
        ]
        only = " alone" if len(records) == 1 else ""
        return f"{topic}-{partition} offset {offset} ({'; '.join(records)}{only})"


def read(run_dir: Path) -> Disagreements:
    return Disagreements(rows=table_rows(run_dir, "disagreements"))


def _record(row: Mapping[str, Any]) -> str:
    if row["producer"] is None:
        return f"a {row['state']} record"
    return f"producer {row['producer']} sequence {row['sequence']}"
