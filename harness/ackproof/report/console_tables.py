"""What `predict`, `doctor` and `faults` print: lists for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from ackproof.containers.doctor import Check
    from ackproof.runs.directory import PredictionRecord
    from ackproof.runs.verdict import Verdict
    from ackproof_faults.fault_table import Entry

_COLOUR = {
    "impossible": "green",
    "possible": "yellow",
    "certain": "red",
    "ok": "green",
    "limited": "yellow",
    "missing": "red",
}


def print_prediction(console: Console, name: str, record: PredictionRecord) -> None:
    """Print each anomaly's outlook with its reason, then the shortest story to a loss."""
    console.print(f"[bold]{escape(name)}[/]")
    table = _table()
    for anomaly, outlook in record.predicted.items():
        reason = record.prediction.reasons.get(anomaly, "")
        table.add_row(anomaly, _coloured(outlook), escape(reason))
    console.print(table)
    told = record.prediction
    if told.at_risk:
        console.print(f"  records at risk: sent {escape(', or '.join(told.at_risk))}")
    if told.error_codes:
        console.print(f"  errors that producers may see: {', '.join(told.error_codes)}")
    if told.trace:
        console.print("  the shortest way to a loss:")
        for number, step in enumerate(told.trace, start=1):
            console.print(f"  {number:2}. {escape(step)}", highlight=False)
        for line in told.diagram:
            console.print(f"  {escape(line)}", highlight=False, soft_wrap=True)
    console.print(f"  [dim]within: {escape(record.prediction.bounds)}[/]", highlight=False)
    console.print()


def print_runs(console: Console, runs: Sequence[tuple[Path, Verdict | None]]) -> None:
    """Print one line a run: when it began, its verdict, what it lost, its directory's name."""
    if not runs:
        console.print("no runs here")
        return
    for run_dir, verdict in runs:
        if verdict is None:
            line = f"{'no verdict':<30}{'':>26}  {run_dir.name}"
        else:
            lost, acked = (verdict.observed.get(key, 0) for key in ("lost", "acked"))
            began = f"{verdict.started_at.astimezone(UTC):%Y-%m-%d %H:%M}"
            said = f"{lost:,} lost of {acked:,}"
            line = f"{began}  {verdict.verdict.value:<12}{said:>26}  {run_dir.name}"
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def print_checks(console: Console, checks: Sequence[Check]) -> None:
    """Print one line a capability, and beneath each lack what to do about it."""
    table = _table()
    for check in checks:
        found = escape(check.found) + (f"\n[dim]{escape(check.advice)}[/]" if check.advice else "")
        table.add_row(_coloured(check.state), check.what, found)
    console.print(table)


def print_faults(console: Console, entries: Sequence[Entry]) -> None:
    """Print every fault: what it does, its fields, what it needs, and how it is proved."""
    for entry in entries:
        console.print(f"[bold]{entry.name}[/]  {escape(entry.summary)}", highlight=False)
        table = _table()
        for field, text in entry.fields.items():
            table.add_row(field, escape(text))
        table.add_row("[dim]proof[/]", f"[dim]{escape(entry.proof)}[/]")
        if entry.needs:
            table.add_row("[dim]needs[/]", f"[dim]{', '.join(entry.needs)}[/]")
        console.print(table)


def _table() -> Table:
    return Table(box=None, show_header=False, padding=(0, 2, 0, 2))


def _coloured(word: str) -> str:
    return f"[{_COLOUR[word]}]{word}[/]"
