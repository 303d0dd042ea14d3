"""`ackproof check HISTORY.json …`: anomalies of histories that clients recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ackproof.errors import ExitCode, HistoryError
from ackproof.runs.verdict import EXIT_CODE, Word

if TYPE_CHECKING:
    from ackproof_spark.jepsen.check import Report


class Isolation(StrEnum):
    """Kafka's isolation levels."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


class Acks(StrEnum):
    """Kafka's acks."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


_PANEL = "Histories: what their files do not say"
Subscribe = Annotated[
    bool | None,
    typer.Option(
        "--subscribe/--assign",
        help="How consumers came by their partitions (default: assign).",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
IsolationLevel = Annotated[
    Isolation | None,
    typer.Option(
        help="The consumers' (default: read_committed).",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
AcksOption = Annotated[
    Acks | None,
    typer.Option(
        "--acks",
        help="The producers' (default: all).",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Idempotence = Annotated[
    bool | None,
    typer.Option(
        "--idempotence/--no-idempotence",
        help="The producers' (default: idempotent).",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
WwDeps = Annotated[
    bool | None,
    typer.Option(
        "--ww-deps/--no-ww-deps",
        help="Whether a log's order tells which transaction came first (default: it does).",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]

_STYLE = {Word.HOLDS: "bold green", Word.VIOLATED: "bold red", Word.INCONCLUSIVE: "bold yellow"}
#: How much of an anomaly's evidence a person is shown; `--json` has all.
_TELLING = 3


def are_histories(paths: Sequence[Path]) -> bool:
    """Return whether these are history files rather than run directories.

    Raises HistoryError if they are some of each.
    """
    histories = [path for path in paths if _is_history(path)]
    if histories and len(histories) < len(paths):
        other = next(path for path in paths if path not in histories)
        raise HistoryError(
            f"{histories[0]} is a history, {other} a run directory",
            hint="Check them one kind at a time.",
        )
    return bool(histories)


def _is_history(path: Path) -> bool:
    return path.suffix == ".json" or (path.exists() and not path.is_dir())


def check_histories(paths: Sequence[Path], settings: Mapping[str, Any]) -> list[Report]:
    """Check history files, and return one report each.

    `settings` are `allowed.Configuration`'s, None where nothing was said. Raises HistoryError if
    a file is malformed, SparkError if Spark cannot be started or fails.
    """
    from ackproof.judgement.histories import check_histories

    given = {name: value for name, value in settings.items() if value is not None}
    return check_histories(paths, given)


def exit_code(reports: Sequence[Report]) -> ExitCode:
    """Return the code of all reports together: 1 outranks 3."""
    words = {Word(report.judgement.verdict) for report in reports}
    worst = next(word for word in (Word.VIOLATED, Word.INCONCLUSIVE, Word.HOLDS) if word in words)
    return EXIT_CODE[worst]


def document(report: Report) -> dict[str, Any]:
    """Return what `--json` prints for one file."""
    return {
        "file": str(report.path),
        "anomalies": report.anomalies,
        "further": report.further,
        "verdict": report.judgement.verdict,
        "reason": report.judgement.reason,
        "allowed": report.judgement.allowed,
        "configuration": asdict(report.configuration),
    }


def print_reports(console: Console, reports: Sequence[Report]) -> None:
    """Print a table a file, for people."""
    for report in reports:
        _print(console, report)


def _print(console: Console, report: Report) -> None:
    from ackproof_spark.jepsen.check import UNSEEN_SERIES
    from ackproof_spark.jepsen.configuration import UNDECIDED

    word = Word(report.judgement.verdict)
    heading = Text(word.value.upper(), style=_STYLE[word])
    heading.append(f"  {report.path}", style="bold")
    console.print(heading, soft_wrap=True, highlight=False)
    console.print(Text(report.judgement.reason), highlight=False)
    found = {**report.anomalies, **report.further}
    found.pop(UNSEEN_SERIES, None)
    if found:
        table = Table(
            box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold"
        )
        table.add_column("anomaly")
        table.add_column("number", justify="right")
        table.add_column("evidence", overflow="fold")
        table.add_column("allowed", overflow="fold")
        for name, evidence in found.items():
            allowed = report.judgement.allowed.get(name)
            undecided = f"undecided: {UNDECIDED[name]}" if name in UNDECIDED else None
            table.add_row(
                Text(name, style="" if allowed else "bold yellow" if undecided else "bold red"),
                f"{len(evidence):,}",
                Text(_shown(evidence)),
                Text(allowed or undecided or "no", style="dim"),
            )
        console.print(table)
    console.print()


def _shown(evidence: Sequence[Any]) -> str:
    lines = [json.dumps(one, ensure_ascii=False) for one in evidence[:_TELLING]]
    if len(evidence) > _TELLING:
        lines.append("…")
    return "\n".join(lines)
