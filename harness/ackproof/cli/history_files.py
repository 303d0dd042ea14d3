"""`ackproof check HISTORY …`: anomalies in recorded histories of client operations."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof import safe_files
from ackproof.errors import HistoryError, translated

if TYPE_CHECKING:
    from rich.console import Console

    from ackproof_spark.jepsen.check import Report


Assume = Annotated[
    list[str] | None,
    typer.Option(
        "--assume",
        metavar="NAME=VALUE",
        help="A setting of the clients that the files do not contain; may be repeated: "
        "acks=all|1|0; of histories also idempotence=true|false, "
        "isolation-level=read_committed or read_uncommitted, sub-via=assign|subscribe, and "
        "ww-deps=true|false (whether the order in a log is the order of transactions). "
        "Default: the first of each.",
        show_default=False,
    ),
]


def assumed_settings(pairs: Sequence[str]) -> dict[str, str | bool]:
    """Return the fields of `jepsen.configuration.Configuration` that `--assume` states."""
    from ackproof_spark.jepsen.reader import SETTINGS

    legal = {**SETTINGS, "ww-deps": (True, False)}
    by_text = {
        f"{name}={value}".lower(): (name.replace("-", "_"), value)
        for name, values in legal.items()
        for value in values
    }
    for pair in pairs:
        if pair not in by_text:
            name = pair.partition("=")[0]
            near = [text for text in by_text if text.startswith(f"{name}=")] or list(by_text)
            raise typer.BadParameter(
                f"{pair!r} is no setting; legal: {', '.join(near)}", param_hint="--assume"
            )
    return dict(by_text[pair] for pair in pairs)


_STYLE = {"holds": "bold green", "violated": "bold red", "inconclusive": "bold yellow"}
#: Maximum number of pieces of evidence of an anomaly in the table; `--json` has all.
_MAX_EVIDENCE = 3


def are_histories(paths: Sequence[Path]) -> bool:
    """Whether these are history files.

    Raises HistoryError if only some of them are, or if one of them is an acked log.
    """
    from ackproof.ledger.acked_log import is_acked_log

    histories = [path for path in paths if _is_history(path)]
    if histories and len(histories) < len(paths):
        other = next(path for path in paths if path not in histories)
        raise HistoryError(
            f"{histories[0]} is a history file, but {other} is a run directory",
            hint="Check histories and runs with separate commands.",
        )
    for path in histories:
        with suppress(OSError):  # the reader reports it
            if path.is_file() and is_acked_log(path):
                raise HistoryError(
                    f"{path} is an acked log: its sends are looked up on a cluster",
                    hint=f"ackproof check {path} --from-cluster HOST:PORT",
                )
    return bool(histories)


def _is_history(path: Path) -> bool:
    exists = os.path.exists(path)  # unlike the method of a path, it takes a name of any length
    return path.suffix in (".json", ".edn") or (exists and not path.is_dir())


def check_histories(paths: Sequence[Path], settings: Mapping[str, Any]) -> list[Report]:
    """Check history files and return a report for each.

    Raises HistoryError if a file is malformed, SparkError if Spark cannot be started or fails.
    """
    from ackproof.spark_session import spark_session
    from ackproof_spark.jepsen.check import check
    from ackproof_spark.jepsen.configuration import Configuration
    from ackproof_spark.jepsen.reader import read

    for path in paths:
        with suppress(OSError):  # the reader reports it
            if kind := safe_files.kind_of(path):
                raise HistoryError(f"{path}: cannot be read: it is {kind}, not a file")
    with translated():
        cases = read(paths)
    with spark_session() as spark:
        return check(spark, cases, Configuration(**settings))


def document(report: Report) -> dict[str, Any]:
    return {
        "file": str(report.path),
        "anomalies": report.anomalies,
        "further": report.further,
        "verdict": report.judgement.verdict,
        "reason": report.judgement.reason,
        "allowed": report.judgement.allowed,
        "configuration": asdict(report.configuration),
    }


def print_report(console: Console, report: Report) -> None:
    from rich.text import Text

    from ackproof.report.console_tables import headed_table
    from ackproof_spark.jepsen.check import UNSEEN_SERIES
    from ackproof_spark.jepsen.configuration import UNDECIDED

    word = report.judgement.verdict
    heading = Text(word.upper(), style=_STYLE[word])
    heading.append(f"  {report.path}", style="bold")
    console.print(heading, soft_wrap=True, highlight=False)
    console.print(Text(report.judgement.reason), highlight=False)
    anomalies = {**report.anomalies, **report.further}
    anomalies.pop(UNSEEN_SERIES, None)
    if anomalies:
        table = headed_table()
        table.add_column("anomaly")
        table.add_column("number", justify="right")
        table.add_column("evidence", overflow="fold")
        table.add_column("allowed", overflow="fold")
        for name, evidence in anomalies.items():
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
    # A lone surrogate, which JSON text may hold, cannot be printed.
    lines = [
        json.dumps(one, ensure_ascii=False).encode(errors="backslashreplace").decode()
        for one in evidence[:_MAX_EVIDENCE]
    ]
    if len(evidence) > _MAX_EVIDENCE:
        lines.append("…")
    return "\n".join(lines)
