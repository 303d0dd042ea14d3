"""An audit in the terminal: the answer, the table of failures, the way to a loss, the changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import StringIO
from textwrap import wrap

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ackproof.audit.answer import Audit, Difference, Outcome, Verdict
from ackproof.audit.finding import grown, text, title, unaffected
from ackproof.audit.outputs.cells import on_one_screen
from ackproof.audit.outputs.summary import Summary, promises, summaries, value_today
from ackproof.audit.outputs.unused_settings import by_reason, in_short
from ackproof.console import print_item, say
from ackproof.own_config.uses import Uses

#: Styles of verdicts, and of cells.
_TONES = {Verdict.YES: "bold red", Verdict.NO: "bold green"}
_STYLES = {"good": "green", "bad": "bold red", "unclear": "yellow", "plain": ""}
_OUTCOMES = {
    Outcome.BROKEN: "bold red",
    Outcome.NOT_DECIDED: "bold yellow",
    Outcome.ACCEPTED: "bold yellow",
    Outcome.KEPT: "bold green",
}
#: Groups of topics that are listed after the first one.
_MOST_GROUPS = 12
_MOST_WARNINGS = 4
#: The most notes.
_MOST_NOTES = 1
#: Characters of a screen on which known losses stand beside the failures; those of a column's head.
_NARROW, _CELL = 100, 12
#: Characters that the names of failures need at least, with the margins and the runs.
_LABEL = 24


def print_audit(console: Console, audit: Audit, *, verbose: bool = False) -> None:
    """Print the promises, the difference, the worst answer, and a line for each other group.

    Warnings come last. With `verbose` every group is printed in full, and every warning.
    """
    for promise in promises(audit):
        say(console, promise.text, style=_OUTCOMES[promise.outcome])
    if audit.promises:
        console.print()
    if audit.difference:
        _print_difference(console, audit.difference)
    groups = summaries(audit)
    for at, summary in enumerate(groups if verbose else groups[:1]):
        if at:
            console.print()
        files = [one.file for one in audit.read]
        _print_summary(console, audit, summary, files, verbose=verbose)
    if not verbose and len(groups) > 1:
        _print_others(console, groups[1:])
    if audit.not_looked_at:
        print_item(console, "Not looked at: ", "; ".join(audit.not_looked_at) + ".", style="dim")
    _print_unused(console, audit.uses, verbose=verbose)
    _print_warnings(console, audit, most=None if verbose else _MOST_WARNINGS)


def _print_unused(console: Console, uses: Uses, *, verbose: bool) -> None:
    if not verbose and (short := in_short(uses)):
        say(console, f"Not used: {short} (-v says why)", style="dim")
    for reason, settings in by_reason(uses) if verbose else ():
        print_item(console, "Not used: ", f"{reason}: {settings}", style="dim")


def _print_warnings(console: Console, audit: Audit, most: int | None) -> None:
    lines = [f"not read: {refused.file}: {refused.reason}" for refused in audit.refused]
    lines += [f"warning: {warning}" for warning in audit.warnings]
    if lines:
        console.print()
    for line in lines[:most]:
        say(console, line, style="yellow")
    if most and len(lines) > most:
        say(console, f"and {len(lines) - most:,} more warnings (-v shows all)", style="yellow")


def _print_difference(console: Console, difference: Difference) -> None:
    say(console, f"Compared with {difference.base}:", style="bold")
    for finding in difference.new:
        print_item(
            console,
            " makes possible: ",
            f"{text(finding)} ({finding.file}:{finding.line})",
            style="red",
        )
    for growth in difference.more:
        place = f"{growth.finding.file}:{growth.finding.line}"
        print_item(console, " puts more at risk: ", f"{grown(growth)} ({place})", style="red")
    for weakening in difference.without_effect:
        print_item(console, " weaker, without effect: ", unaffected(weakening), style="yellow")
    for finding in difference.ended:
        print_item(console, " ends: ", title(finding), style="green")
    if not difference.new and not difference.more and not difference.ended:
        say(console, " this change makes no risk possible, and ends none")
    console.print()


def _print_summary(
    console: Console, audit: Audit, summary: Summary, files: list[str], *, verbose: bool
) -> None:
    head = Text(f"{summary.question}  ", style="bold")
    head.append(summary.verdict, style=_TONES.get(summary.verdict, "bold yellow"))
    head.append(f"{summary.headline.removeprefix(summary.verdict)}.")
    console.print(head, highlight=False)
    if summary.storage:
        print_item(console, "  ", summary.storage, style="bold")
    stated = summary.answer.version or audit.version
    version = f"Kafka {stated.value}" if stated else "Kafka, version not stated"
    for at, fact in enumerate(summary.facts or ("",)):
        line = ": ".join(filter(None, (version, fact))) if at == 0 else fact
        print_item(console, "  ", line, style="dim")
    if summary.usual and not verbose:
        _print_brief(console, summary, summary.usual)
        return
    if not verbose:
        summary = replace(summary, table=on_one_screen(summary.table))
    if summary.answer.unstated:
        names = ", ".join(summary.answer.unstated)
        print_item(console, "  ", f"The files leave {names} open: the answers are for each value.")
    if summary.table.rows:
        for table in _tables(summary, console.width):
            console.print()
            console.print(Padding(table, (0, 0, 0, 1), expand=False))
    for footnote in summary.table.footnotes:
        print_item(console, "  ", footnote, style="dim")
    if summary.table.more:
        sets = "set" if summary.table.more == 1 else "sets"
        say(
            console,
            f"  and {summary.table.more} more {sets} of failures (--json has all)",
            style="dim",
        )
    if summary.how:
        console.print()
        print_item(console, " ", f"{summary.how_head}: {' '.join(summary.how)}")
    _print_changes(console, summary)
    _print_notes(console, summary, most=None if verbose else _MOST_NOTES)
    for accepted in summary.accepted:
        print_item(console, " ", f"Accepted: {accepted}", style="dim")
    _print_proofs(console, summary, files)


def _print_proofs(console: Console, summary: Summary, files: list[str]) -> None:
    for proof in summary.proofs:
        print_item(console, " On brokers: ", proof)
    if summary.how_case and not summary.proofs:
        named = " ".join(files[:2]) + (" …" if len(files) > 2 else "")
        console.print()
        command = f"ackproof audit {named} --prove {summary.how_case}"
        console.print(Text(f" See it happen: {command}"), highlight=False, soft_wrap=True)


def _print_notes(console: Console, summary: Summary, most: int | None) -> None:
    for note in summary.notes[:most]:
        print_item(console, " ", note)
    if most and (left := len(summary.notes[most:])):
        effects = f"{left} more effect{'s' * (left > 1)}"
        say(console, f" and {effects} in words (-v shows all)", style="dim")


#: Before each line of an answer that holds only for the usual values.
_ASSUMED = " assumed │ "


def _print_brief(console: Console, summary: Summary, usual: Summary) -> None:
    """Print what holds for all values, what would decide most, and the answer for usual values."""
    for line in summary.always:
        print_item(console, "  Whatever the rest is: ", line, style="bold")
    for question, answer in summary.questions:
        print_item(console, "  ", f"Open: {question} ({answer})")
    values = ", ".join(f"{key}={value}" for key, value in usual.answer.assumed.items())
    console.print()
    _print_marked(console, usual, f"{values}: {usual.headline}.")
    say(console, " -v shows the table for all values, --json has every answer", style="dim")


def _print_marked(console: Console, usual: Summary, head: str) -> None:
    """Print the answer for usual values, with a mark before each line."""
    inner = Console(
        file=StringIO(),
        width=console.width - len(_ASSUMED),
        force_terminal=console.is_terminal,
        color_system=console.color_system,  # type: ignore[arg-type]
    )
    with inner.capture() as captured:
        say(inner, head, style="bold")
        for table in _tables(usual, inner.width, most=2):
            inner.print(table)
        for footnote in usual.table.footnotes:
            print_item(inner, "", footnote, style="dim")
        _print_changes(inner, usual, most=1)
        if usual.notes:
            left = len(usual.notes)
            say(inner, f"and {left} effect{'s' * (left > 1)} in words")
    for line in captured.get().splitlines():
        console.print(Text(_ASSUMED, style="dim") + Text.from_ansi(line.rstrip()))


def _tables(summary: Summary, width: int, most: int | None = None) -> Iterator[Table]:
    """Yield a table, or several one below the other if its columns are wider than the screen.

    most: the number of columns; None for all.
    """
    columns = summary.table.columns[:most]
    heads = [_wrapped(head) for head in columns]
    first = 0
    while first < len(heads):
        last, room = first, width - _LABEL
        while last < len(heads):
            texts = [
                *heads[last].split("\n"),
                *(row.cells[last].text for row in summary.table.rows),
            ]
            room -= max(map(len, texts)) + 2
            if room < 0 and last > first:
                break
            last += 1
        shown = range(first, last)
        with_runs = most is None and last == len(heads)
        yield _table(summary, [heads[at] for at in shown], shown, width, with_runs)
        first = last


def _wrapped(head: str) -> str:
    """Return the head of a column in lines, with a plus beside the change that it adds."""
    lines = wrap(head.replace("+ ", "+_"), _CELL, break_long_words=False)
    return "\n".join(lines).replace("+_", "+ ")


def _table(
    summary: Summary, heads: Sequence[str], columns: Sequence[int], width: int, last: bool
) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="bold",
    )
    narrow = width < _NARROW
    cases = not narrow and any(row.cases for row in summary.table.rows)
    runs = last and any(row.runs for row in summary.table.rows)
    table.add_column("after")
    for head in [*[""] * cases, *heads]:
        table.add_column(head, no_wrap=True)
    if runs:
        table.add_column("runs")  # those of --prove are long
    for row in summary.table.rows:
        label = f"{row.label} ({row.cases})" if narrow and row.cases else row.label
        shown = [row.cells[at] for at in columns]
        cells = [Text(cell.text or "-", style=_STYLES[cell.tone]) for cell in shown]
        known, seen = [Text(row.cases)] * cases, [Text(row.runs, style="dim")] * runs
        table.add_row(Text(label), *known, *cells, *seen)
    return table


def _print_changes(console: Console, summary: Summary, most: int | None = None) -> None:
    if not summary.changes:
        return
    console.print()
    labels = ("Change first: ", "then: ")
    for at, change in enumerate(summary.changes[:most]):
        label = labels[min(at, 1)].ljust(len(labels[0]))
        print_item(
            console,
            label,
            f"{change.setting}={change.change}  ({value_today(change)})",
            style="bold",
        )
        if change.cost:
            print_item(console, " " * len(labels[0]), f"costs: {change.cost}")


def _print_others(console: Console, groups: list[Summary]) -> None:
    console.print()
    console.print(Text("Other topics, the weakest first:", style="bold"))
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 1))
    for share in (3, 4, None, None):
        most = console.width // share if share else None
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=most)
    for group in groups[:_MOST_GROUPS]:
        more = f" and {len(group.topics) - 1:,} alike" if len(group.topics) > 1 else ""
        named = f"{group.topics[0]}{more}" if group.topics else "any topic"
        named = f"{named} in {group.answer.cluster}" if group.answer.cluster else named
        client = group.answer.producer or group.answer.consumer
        verdict = Text(group.verdict, style=_TONES.get(group.verdict, "bold yellow"))
        table.add_row(Text(named), Text(client), verdict, Text(group.verdict_text))
    console.print(table)
    if len(groups) > _MOST_GROUPS:
        say(console, f" and {len(groups) - _MOST_GROUPS:,} more groups", style="dim")
    say(
        console,
        " --topic NAME shows one of them, -v shows all of them, --json has every answer",
        style="dim",
    )
