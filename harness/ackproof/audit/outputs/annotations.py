"""An audit as annotations of GitHub Actions: an error for each failing risk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ackproof.audit.answer import Audit
from ackproof.audit.finding import findings, text
from ackproof.rendering.github import annotation


def render(audit: Audit) -> str:
    return "".join(f"{line}\n" for line in _lines(audit))


def _lines(audit: Audit) -> Iterator[str]:
    for finding in findings(audit):
        if finding.failing:
            where = Path(finding.file), finding.line
            yield annotation("error", *where, finding.rule, text(finding))
    for refused in audit.refused:
        yield annotation("warning", Path(refused.file), 1, "not read", refused.reason)
