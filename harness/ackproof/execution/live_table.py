"""The live view of a run as a table for terminals and as a line for logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePartition:
    """A partition now; `tables.LIVE_PARTITIONS` explains the columns.

    `leader` is None while there is none or it is unknown; `lag` also before the first ack. `read`,
    `lag`, `unseen` and `candidates` are None until the live job has counted them.
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
    for one in partitions:
        table.add_row(
            f"{one.topic}-{one.partition}",
            "[red]none[/]" if one.leader is None else str(one.leader),
            " ".join(map(str, one.isr)) or "?",
            f"{one.acked_per_s:,.0f}",
            f"{one.acked:,}",
            _marked(one.failed, "yellow"),
            _marked(one.unknown, "yellow"),
            _number(one.read),
            _number(one.lag),
            _number(one.unseen),
            "-" if one.candidates is None else _marked(one.candidates, "red"),
        )
    return table


def live_line(partitions: Sequence[LivePartition], faults: Sequence[str]) -> str:
    """Return one line with the sums over all partitions, and the highest lag."""

    def total(name: str) -> int:
        return sum(getattr(one, name) or 0 for one in partitions)

    line = (
        f"  live: {total('acked'):,} acked "
        f"({sum(one.acked_per_s for one in partitions):,.0f}/s), {total('failed'):,} failed, "
        f"{total('unknown'):,} unknown"
    )
    if any(one.read is not None for one in partitions):
        line += (
            f", {total('read'):,} read, lag {max(one.lag or 0 for one in partitions):,}, "
            f"{total('unseen'):,} unseen, {total('candidates'):,} loss candidates"
        )
    return line + (f"; in force: {'; '.join(faults)}" if faults else "")


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _marked(count: int, colour: str) -> str:
    return f"[{colour}]{count:,}[/]" if count else "0"
