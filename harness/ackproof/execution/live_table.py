"""The table and the line of the live view, and the outcomes in the ledger's streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_spark.ledger_stream import OUTCOMES, PATTERN, read_piece
from ackproof_spark.tables import LOCATION

NO_SENDS = [0] * len(OUTCOMES)


class LedgerCounts:
    """The sends of each partition by outcome, in the order of `OUTCOMES`."""

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / LOCATION["ledger"]
        self._positions: dict[str, int] = {}
        self._counts: dict[TopicPartition, list[int]] = {}

    def update(self) -> Mapping[TopicPartition, Sequence[int]]:
        """Read new rows of the streams, and return the outcomes so far."""
        for path in sorted(self._folder.glob(PATTERN)):
            try:
                piece = read_piece(path, self._positions.get(path.name, 0))
            except FileNotFoundError:
                continue  # the run is over, and the stream was converted to a table
            self._positions[path.name] = piece.end
            if piece.origin is None:
                continue
            for batch in piece.batches:
                partitions = piece.origin.partition_of(batch["sequence"].to_numpy())
                keys = len(OUTCOMES) * partitions + batch["outcome"].to_numpy()
                counts = np.bincount(keys, minlength=len(OUTCOMES) * (int(partitions.max()) + 1))
                for number, added in enumerate(counts.reshape(-1, len(OUTCOMES)).tolist()):
                    if any(added):
                        before = self._counts.get((piece.origin.topic, number), NO_SENDS)
                        sums = [sum(pair) for pair in zip(before, added, strict=True)]
                        self._counts[piece.origin.topic, number] = sums
        return self._counts


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePartition:
    """The current state of a partition; `tables.LIVE_PARTITIONS` explains the columns.

    `leader` is None without a known leader. `read`, `lag`, `unseen` and `candidates` are None until
    the live job has counted them, `lag` also before the first ack.
    """

    topic: str
    partition: int
    leader: int | None
    isr: Sequence[int]
    acked: int
    acked_per_s: float
    failed: int
    unknown: int
    read: int | None
    lag: int | None
    unseen: int | None
    candidates: int | None


def live_table(partitions: Sequence[LivePartition], faults: Sequence[str]) -> Table:
    """Return a row for each partition; `faults` are those in force."""
    table = Table(box=None, pad_edge=False, title_justify="left", caption_justify="left")
    table.caption = "in force: " + "; ".join(faults) if faults else "no fault in force"
    table.add_column("partition")
    for name in ("leader", "isr", "acked/s", "acked", "failed", "unknown", "read", "lag"):
        table.add_column(name, justify="right")
    table.add_column("unseen", justify="right")
    table.add_column("loss candidates", justify="right")
    for item in partitions:
        table.add_row(
            f"{item.topic}-{item.partition}",
            "[red]none[/]" if item.leader is None else str(item.leader),
            " ".join(map(str, item.isr)) or "?",
            f"{item.acked_per_s:,.0f}",
            f"{item.acked:,}",
            _marked(item.failed, "yellow"),
            _marked(item.unknown, "yellow"),
            _number(item.read),
            _number(item.lag),
            _number(item.unseen),
            "-" if item.candidates is None else _marked(item.candidates, "red"),
        )
    return table


def live_line(partitions: Sequence[LivePartition], faults: Sequence[str]) -> str:
    """Return one line with the sums over all partitions, and the highest lag."""

    def total(name: str) -> int:
        return sum(getattr(item, name) or 0 for item in partitions)

    line = (
        f"  live: {total('acked'):,} acked "
        f"({sum(item.acked_per_s for item in partitions):,.0f}/s), {total('failed'):,} failed, "
        f"{total('unknown'):,} unknown"
    )
    if any(item.read is not None for item in partitions):
        line += (
            f", {total('read'):,} read, lag {max(item.lag or 0 for item in partitions):,}, "
            f"{total('unseen'):,} unseen, {total('candidates'):,} loss candidates"
        )
    return line + (f"; in force: {'; '.join(faults)}" if faults else "")


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _marked(count: int, colour: str) -> str:
    return f"[{colour}]{count:,}[/]" if count else "0"
