"""The page of an audit."""

from __future__ import annotations

from pathlib import Path

from ackproof.audit.against import Difference
from ackproof.audit.answer import Audit
from ackproof.audit.summary import summaries
from ackproof.report.html import asset, environment
from ackproof.safe_files import replacing

#: The class of each verdict in `report.css`; others are unclear.
_TONES = {"YES": "lost", "NO": "kept"}
#: Groups of topics on a page.
_MOST_GROUPS = 100


def write_audit_page(path: Path, audit: Audit, difference: Difference | None = None) -> None:
    """Write a page that works offline and has no script."""
    text = (
        environment()
        .get_template("audit.html.j2")
        .render(
            title="Can acknowledged records be lost?",
            style=asset("report.css"),
            audit=audit,
            difference=difference,
            summaries=summaries(audit)[:_MOST_GROUPS],
            tones=_TONES,
        )
    )
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
