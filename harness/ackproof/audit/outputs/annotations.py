"""An audit as annotations of GitHub Actions: an error for each failing risk and promise.

There are at most `MOST`, the worst first: GitHub shows few, and a page of them hides the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ackproof.audit.answer import Audit
from ackproof.audit.finding import by_place, doubt_text, failing_doubts, text, with_others
from ackproof.rendering.github import annotation

MOST = 20


def render(audit: Audit) -> str:
    lines = list(_lines(audit))
    if (more := len(lines) - MOST + 1) > 1:
        rest = f"and {more:,} more: --markdown and --sarif have all"
        lines = [*lines[: MOST - 1], f"::notice title=ackproof audit::{rest}"]
    return "".join(f"{line}\n" for line in lines)


def _lines(audit: Audit) -> Iterator[str]:
    for finding, others in by_place(audit):
        if finding.failing:
            where = Path(finding.file), finding.line
            said = with_others(text(finding), others)
            yield annotation("error", *where, finding.rule, said)
    for doubt in failing_doubts(audit):
        where = Path(doubt.file), doubt.line
        yield annotation("error", *where, "promise/not-decided", doubt_text(doubt))
    for refused in audit.refused:
        yield annotation("warning", Path(refused.file), 1, "not read", refused.reason)
