"""A run while it goes on: a table for terminals, a line for logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePartition:
    """A partition as it is now; see `tables.LIVE_PARTITIONS`. `leader` is None while unknown."""

    topic: str
    partition: int
    leader: int | None
    isr: Sequence[int]
    acked: int
    acked_per_s: float
    failed: int
    unknown: int
    read: int
    lag: int | None
    unseen: int
    candidates: int


def live_table(partitions: Sequence[LivePartition], faults: Sequence[str]) -> Table:
    """Return the table; `faults` are those in force."""
    table = Table(box=None, pad_edge=False, title_justify="left", caption_justify="left")
    table.caption = "in force: " + "; ".join(faults) if faults else "no fault in force"
    table.add_column("partition")
    for name in ("leader", "isr", "acked/s", "acked", "failed", "unknown", "read", "lag"):
        table.add_column(name, justify="right")
    table.add_column("unseen", justify="right")
    table.add_column("loss candidates", justify="right")
    for one in partitions:
        table.add_row(
            f"{one.topic}-{one.partition}",
            "[red]none[/]" if one.leader is None else str(one.leader),
            " ".join(map(str, one.isr)) or "?",
            f"{one.acked_per_s:,.0f}",
            f"{one.acked:,}",
            _marked(one.failed, "yellow"),
            _marked(one.unknown, "yellow"),
            f"{one.read:,}",
            "-" if one.lag is None else f"{one.lag:,}",
            f"{one.unseen:,}",
            _marked(one.candidates, "red"),
        )
    return table


def live_line(partitions: Sequence[LivePartition], faults: Sequence[str]) -> str:
    """Return one line about all partitions together."""
    total = {
        name: sum(getattr(one, name) for one in partitions)
        for name in ("acked", "failed", "unknown", "read", "unseen", "candidates")
    }
    lag = max((one.lag or 0 for one in partitions), default=0)
    return (
        f"  live: {total['acked']:,} acked "
        f"({sum(one.acked_per_s for one in partitions):,.0f}/s), {total['failed']:,} failed, "
        f"{total['unknown']:,} unknown, {total['read']:,} read, lag {lag:,}, "
        f"{total['unseen']:,} unseen, {total['candidates']:,} loss candidates"
        + (f"; in force: {'; '.join(faults)}" if faults else "")
    )


def _marked(count: int, colour: str) -> str:
    return f"[{colour}]{count:,}[/]" if count else "0"
