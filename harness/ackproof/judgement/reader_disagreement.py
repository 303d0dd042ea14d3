"""What two readers of the final log disagree about, and what that does to a verdict.

A record that one reader has read and the other has not proves nothing: neither that it is there nor
that it is lost. So an anomaly that rests on one is no violation that was seen, and that there is a
dispute at all keeps a run from being conclusive. It is a finding: one of two clients, or a broker
that tells them different things, has a bug.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ackproof.runs.verdict import Finding
from ackproof_spark.tables import LOCATION

#: How many disputed offsets are named.
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Disputes:
    """The rows of `tables.DISAGREEMENTS`; none if the readers agree, or if there was but one."""

    rows: Sequence[Mapping[str, Any]]

    @property
    def _places(self) -> list[tuple[str, int, int]]:
        return sorted({(row["topic"], row["partition"], row["offset"]) for row in self.rows})

    @property
    def doubts(self) -> list[str]:
        """What to say of them in a verdict's reason."""
        if not self.rows:
            return []
        places = self._places
        named = ", ".join(self._tell(place) for place in places[:_NAMED])
        more = ", …" if len(places) > _NAMED else ""
        return [f"readers disagree about {len(places)} offsets: {named}{more}"]

    @property
    def findings(self) -> list[Finding]:
        """The dispute as a finding."""
        return [
            Finding(
                anomaly="disagreement",
                predicted="impossible",
                observed=len(self._places),
                explanation=doubt,
            )
            for doubt in self.doubts
        ]

    def undisputed(self, run_dir: Path, observed: Mapping[str, int]) -> dict[str, int]:
        """Return `observed` without the anomalies that rest on a disputed record."""
        import pyarrow.parquet as pq

        counts = dict(observed)
        if not self.rows:
            return counts
        places = set(self._places)
        names = {
            (row["topic"], row["partition"], row["producer"], row["sequence"])
            for row in self.rows
            if row["producer"] is not None
        }
        columns = ["anomaly", "topic", "partition", "offset", "producer", "sequence"]
        anomalies = pq.read_table(run_dir / LOCATION["anomalies"], columns=columns)
        for row in anomalies.to_pylist():
            where = (row["topic"], row["partition"])
            name = (*where, row["producer"], row["sequence"])
            if (*where, row["offset"]) in places or name in names:
                counts[row["anomaly"]] -= 1
        return counts

    def _tell(self, place: tuple[str, int, int]) -> str:
        said = [
            f"{row['reader']} has {_what(row)}"
            for row in self.rows
            if (row["topic"], row["partition"], row["offset"]) == place
        ]
        topic, partition, offset = place
        only = " alone" if len(said) == 1 else ""
        return f"{topic}-{partition} offset {offset} ({'; '.join(said)}{only})"


def read(run_dir: Path) -> Disputes:
    """Return what is stored of them in a run directory."""
    import pyarrow.parquet as pq

    path = run_dir / LOCATION["disagreements"]
    return Disputes(rows=pq.read_table(path).to_pylist() if path.exists() else ())


def _what(row: Mapping[str, Any]) -> str:
    if row["producer"] is None:
        return f"a {row['state']} record"
    return f"producer {row['producer']} sequence {row['sequence']}"
