"""The tables that `predict`, `runs`, `doctor` and `faults` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ackproof.console import print_item
from ackproof.report.wording import outcome

if TYPE_CHECKING:
    from pathlib import Path

    from ackproof.doctor import Check
    from ackproof.runs.directory import PredictionRecord
    from ackproof.runs.verdict import PartAvailability, Verdict
    from ackproof_faults.fault_table import Entry

#: The colours of `Outcome.tone`.
TONE = {"kept": "green", "lost": "red", "unclear": "yellow"}
_COLOUR = {
    "impossible": "green",
    "possible": "yellow",
    "certain": "red",
    "not modelled": "dim",
    "ok": "green",
    "limited": "yellow",
    "missing": "red",
}


#: Whether acked records are lost, by the predicted word.
_LOST = {
    "certain": "This schedule loses acknowledged records, whatever the order of events.",
    "possible": "This schedule may lose acknowledged records; it depends on the order of events.",
    "impossible": "This schedule loses no acknowledged record.",
    "not modelled": "The model does not cover this cluster, so nothing is predicted.",
}


def print_prediction(
    console: Console,
    name: str,
    record: PredictionRecord,
    violations: Sequence[str],
    *,
    verbose: bool,
) -> None:
    """Print whether acked records are lost, when and how, and which other anomalies may happen.

    `verbose` adds the reason for each anomaly, availability, and the diagram of the trace.
    `violations` are the keys of `expect` that the prediction contradicts.
    """
    report = record.prediction
    lost = record.predicted.get("lost", "not modelled")
    console.print(f"[bold]{escape(name)}[/]")
    console.print(Text(f"  {_LOST[lost]}", style=_COLOUR[lost]))
    if not report.states and not verbose and (why := report.reasons.get("lost")):
        print_item(console, "  ", f"Why: {why}.")  # an argument or a bound, no exact search
    if report.at_risk:
        print_item(console, "  ", f"At risk: records sent {', or '.join(report.at_risk)}.")
    _print_others(console, record, verbose=verbose)
    if report.error_codes:
        print_item(console, "  ", f"Errors that producers may see: {', '.join(report.error_codes)}")
    if verbose and report.availability:
        _print_availability(console, report.availability)
    if report.trace:
        console.print("  The shortest way to a loss (broker A leads at first):")
        for number, step in enumerate(report.trace, start=1):
            print_item(console, f"  {number:2}. ", step)
        for line in report.diagram if verbose else ():
            console.print(f"  {escape(line)}", highlight=False, soft_wrap=True)
    print_item(console, "  ", report.bounds, style="dim")
    for violation in violations:
        print_item(console, "  ", f"not as expected: {violation}", style="red")
    console.print()


def _print_others(console: Console, record: PredictionRecord, *, verbose: bool) -> None:
    """Print the anomalies other than loss: with `verbose` a table of all with their reasons."""
    if verbose:
        table = _table()
        for anomaly, prediction in record.predicted.items():
            reason = record.prediction.reasons.get(anomaly, "")
            table.add_row(anomaly, _coloured(prediction), escape(reason))
        console.print(table)
        return
    words = ["certain", "possible", "impossible"]
    if {*words} & {*record.predicted.values()}:  # else the headline says it of the whole cluster
        words.append("not modelled")
    for word in words:
        alike = [one for one, said in record.predicted.items() if said == word and one != "lost"]
        if alike:
            more = " (-v says why)" if word == "impossible" else ""
            print_item(console, f"  {word}: ", f"{', '.join(alike)}{more}", style=_COLOUR[word])


def _print_availability(console: Console, parts: Sequence[PartAvailability]) -> None:
    table = _table()
    table.add_row("[bold]part of the schedule[/]", "[bold]read[/]", "[bold]write, acks=all[/]")
    for part in parts:
        table.add_row(escape(part.part), part.readable, part.writable)
    console.print(table)


def print_runs(console: Console, runs: Sequence[tuple[Path, Verdict | None]]) -> None:
    """Print the name of each run directory, and whether acked records were lost."""
    if not runs:
        console.print("no runs")
        return
    for run_dir, verdict in runs:
        console.print(run_dir.name, soft_wrap=True, highlight=False, markup=False)
        if verdict is None:
            console.print(Text("  no verdict", style="dim"))
        else:
            result = outcome(verdict)
            text = Text(result.text, style=TONE[result.tone])
            console.print(Padding(text, (0, 0, 0, 2), expand=False))


def print_checks(console: Console, checks: Sequence[Check]) -> None:
    table = _table()
    for check in checks:
        state = escape(check.found) + (f"\n[dim]{escape(check.advice)}[/]" if check.advice else "")
        table.add_row(_coloured(check.state), check.what, state)
    console.print(table)


def print_families(console: Console, families: Mapping[str, Sequence[Entry]]) -> None:
    for family, entries in families.items():
        console.print(f"[bold]{escape(family)}[/]", highlight=False)
        table = _table()
        table.add_column(no_wrap=True)
        for entry in entries:
            table.add_row(entry.name, escape(entry.summary))
        console.print(table)


def print_fault(console: Console, entry: Entry) -> None:
    """Print a fault: its effect, fields, proof and requirements, then the fields of every fault."""
    from ackproof_faults import Fault

    console.print(f"[bold]{entry.name}[/]  {escape(entry.summary)}", highlight=False)
    table = _table()
    table.add_column(no_wrap=True)
    for field, text in entry.fields.items():
        table.add_row(field, escape(text))
    table.add_row("[dim]proof[/]", f"[dim]{escape(entry.proof)}[/]")
    if entry.needs:
        table.add_row("[dim]needs[/]", f"[dim]{', '.join(entry.needs)}[/]")
    table.add_row()
    for name, common in Fault.model_fields.items():
        table.add_row(f"[dim]{name}[/]", f"[dim]{escape(common.description or '')}[/]")
    console.print(table)


def print_scenarios(console: Console, entries: Sequence[Mapping[str, Any]]) -> None:
    for entry in entries:
        head = f"{entry['case'] or '':<5}{entry['name']}"
        console.print(f"[bold]{escape(head)}[/]", highlight=False)
        details = {
            "": entry["title"],
            "loses on: ": entry["loses_on"],
            "fixed in: ": entry["fixed_in"],
            "skipped: ": entry["skip"],
        }
        for label, text in details.items():
            if text:
                console.print(Padding(Text(f"{label}{text}"), (0, 0, 0, 5), expand=False))


def headed_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")


def _table() -> Table:
    return Table(box=None, show_header=False, padding=(0, 2, 0, 2))


def _coloured(word: str) -> str:
    return f"[{_COLOUR[word]}]{word}[/]"
