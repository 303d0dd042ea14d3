"""An audit as annotations of GitHub Actions: an error for each failing risk and promise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ackproof.audit.answer import Audit
from ackproof.audit.finding import doubt_text, failing_doubts, findings, text
from ackproof.rendering.github import annotation


def render(audit: Audit) -> str:
    return "".join(f"{line}\n" for line in _lines(audit))


def _lines(audit: Audit) -> Iterator[str]:
    for finding in findings(audit):
        if finding.failing:
            where = Path(finding.file), finding.line
            yield annotation("error", *where, finding.rule, text(finding))
    for doubt in failing_doubts(audit):
        where = Path(doubt.file), doubt.line
        yield annotation("error", *where, "promise/not-decided", doubt_text(doubt))
    for refused in audit.refused:
        yield annotation("warning", Path(refused.file), 1, "not read", refused.reason)
