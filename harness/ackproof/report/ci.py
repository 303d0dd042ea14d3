"""GitHub's step summary and annotations.

GITHUB_STEP_SUMMARY names a Markdown file to append to. With GITHUB_ACTIONS=true GitHub turns lines
`::error file=…,line=…::…` into annotations. GitLab and Jenkins read `junit.xml`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from ackproof.report import formatting as fmt
from ackproof.report import wording
from ackproof.report.outcome import outcome
from ackproof.runs.directory import disk_errors
from ackproof.runs.verdict import Verdict, Word
from ackproof.scenario.documents import line_of
from ackproof.scenario.loader import Configured

_SIGN = {Word.HOLDS: "✅", Word.VIOLATED: "❌", Word.INCONCLUSIVE: "⚠️"}


def announce(
    configurations: Sequence[Configured],
    verdicts: Sequence[Verdict],
    *,
    environment: Mapping[str, str] = os.environ,
    to: TextIO | None = None,
) -> None:
    """Write the step summary and annotations that the environment requests."""
    if summary := environment.get("GITHUB_STEP_SUMMARY"):
        path = Path(summary)
        with disk_errors(path), path.open("a", encoding="utf-8") as file:
            file.write(step_summary(verdicts))
    if environment.get("GITHUB_ACTIONS") == "true":
        for line in error_commands(configurations, verdicts):
            print(line, file=to or sys.stderr)


def step_summary(verdicts: Sequence[Verdict]) -> str:
    """Return a Markdown table of the verdicts, followed by reasons, causes and findings."""
    lines = [
        "| | configuration | predicted loss | result | unavailable | ack p99 | as expected |",
        "|---|---|---|---|---|---|---|",
    ]
    for verdict in verdicts:
        latency = verdict.metrics.ack_latency_ms
        became = outcome(verdict)
        cells = (
            _SIGN[verdict.verdict],
            wording.name(verdict),
            verdict.predicted.get("lost", "-"),
            became.text,
            fmt.seconds(verdict.metrics.unavailability_s),
            fmt.duration(latency.p99) if latency else "-",
            became.as_expected,
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines.append("")
    for verdict in verdicts:
        if verdict.verdict is not Word.HOLDS:
            lines.append(f"**{wording.name(verdict)}**: {verdict.reason}\n")
        lines += [f"- {sentence}" for sentence in wording.cause_sentences(verdict)]
        lines += [f"- FINDING: {sentence}" for sentence in wording.finding_sentences(verdict)]
    return "\n".join(lines) + "\n"


def error_commands(configurations: Sequence[Configured], verdicts: Sequence[Verdict]) -> list[str]:
    """Return GitHub's workflow commands, each at a line of the scenario.

    An error for each expectation that was not met, a warning for an inconclusive run.
    """
    paths = {(one.scenario.name, one.name): one.path for one in configurations}
    commands = []
    for verdict in verdicts:
        path = paths.get((verdict.scenario, verdict.configuration_name))
        if path is None or verdict.verdict is Word.HOLDS:
            continue
        own = ("matrix", verdict.configuration_name) if verdict.configuration_name else ()
        title = f"{wording.name(verdict)}: {verdict.verdict.value}"
        if verdict.verdict is Word.INCONCLUSIVE:
            commands.append(_command("warning", path, line_of(path, own), title, verdict.reason))
            continue
        for unmet in (one for one in verdict.expectations if not one.met):
            line = max(line_of(path, (*own, "expect", unmet.what)), 1)
            if own and line == line_of(path, own):  # the configuration has no `expect` of its own
                line = line_of(path, ("expect", unmet.what))
            commands.append(_command("error", path, line, title, wording.unmet(unmet)))
    return commands


def _command(kind: str, path: Path, line: int, title: str, text: str) -> str:
    return (
        f"::{kind} file={_property(str(path))},line={line},title={_property(title)}::{_data(text)}"
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
