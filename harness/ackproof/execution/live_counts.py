"""Outcomes of each partition while a run goes on, counted from the ledger's streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ackproof.cluster.admin import TopicPartition
from ackproof_spark.ledger_stream import OUTCOMES, PATTERN, read_piece
from ackproof_spark.tables import LOCATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Sends of a partition whose outcome is in the ledger."""

    acked: int = 0
    failed: int = 0
    unknown: int = 0


class LedgerCounts:
    """Counts what producers have appended to the ledger since the last call of `update`."""

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / LOCATION["ledger"]
        self._positions: dict[str, int] = {}
        self._counts: dict[TopicPartition, Outcomes] = {}

    def update(self) -> Mapping[TopicPartition, Outcomes]:
        """Return the outcomes so far. What a run closed since the last call is not counted."""
        for path in sorted(self._folder.glob(PATTERN)):
            try:
                piece = read_piece(path, self._positions.get(path.name, 0))
            except FileNotFoundError:
                continue  # the run is over, and the stream has become a table
            self._positions[path.name] = piece.end
            if piece.origin is None:
                continue
            for batch in piece.batches:
                partitions = piece.origin.partition_of(batch["sequence"].to_numpy())
                keys = len(OUTCOMES) * partitions + batch["outcome"].to_numpy()
                counts = np.bincount(keys, minlength=len(OUTCOMES) * (int(partitions.max()) + 1))
                for number, added in enumerate(counts.reshape(-1, len(OUTCOMES)).tolist()):
                    if any(added):
                        self._add((piece.origin.topic, number), added)
        return self._counts

    def _add(self, partition: TopicPartition, added: list[int]) -> None:
        acked, failed, unknown = added
        old = self._counts.get(partition, Outcomes())
        self._counts[partition] = Outcomes(
            acked=old.acked + acked, failed=old.failed + failed, unknown=old.unknown + unknown
        )
