"""An audit as an HTML page without plots and scripts."""

from __future__ import annotations

from ackproof.audit.answer import Audit, Outcome, Verdict
from ackproof.audit.finding import detail, grown, title, unaffected
from ackproof.audit.outputs.summary import promises, summaries
from ackproof.rendering.pages import static_page

#: Groups of topics on a page.
_MOST_GROUPS = 100


def render(audit: Audit) -> str:
    return static_page(
        "ackproof.audit.outputs",
        "audit.html.j2",
        title="Can acknowledged records be lost?",
        audit=audit,
        promises=promises(audit),
        outcomes={Outcome.BROKEN: "finding", Outcome.KEPT: ""},
        summaries=summaries(audit)[:_MOST_GROUPS],
        tones={Verdict.YES: "lost", Verdict.NO: "kept"},
        pills={"bad": "lost", "good": "kept"},
        title_of=title,
        detail_of=detail,
        grown=grown,
        unaffected=unaffected,
    )
