"""An audit as an HTML page without plots and scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ackproof.audit.answer import Audit, Outcome, Verdict
from ackproof.audit.finding import detail, grown, title, unaffected
from ackproof.audit.outputs.summary import Summary, promises, summaries, value_today
from ackproof.audit.outputs.unused_settings import by_reason, in_short
from ackproof.rendering.pages import static_page

#: Groups of topics on a page.
_MOST_GROUPS = 100


def render(audit: Audit) -> str:
    shown = summaries(audit)[:_MOST_GROUPS]
    return static_page(
        "ackproof.audit.outputs",
        "audit.html.j2",
        title="Can acknowledged records be lost?",
        audit=audit,
        promises=promises(audit),
        outcomes={Outcome.BROKEN: "finding", Outcome.KEPT: ""},
        summaries=shown,
        headings=_headings(shown),
        labels=_labels(shown),
        tones={Verdict.YES: "lost", Verdict.NO: "kept"},
        pills={"bad": "lost", "good": "kept"},
        unused=in_short(audit.uses),
        reasons=list(by_reason(audit.uses)),
        title_of=title,
        detail_of=detail,
        grown=grown,
        unaffected=unaffected,
        value_today=value_today,
    )


def _labels(shown: Sequence[Summary]) -> list[tuple[str, str]]:
    """Return topics and client of each summary, for an overview."""
    return [
        (
            (summary.topics[0] if summary.topics else "any topic")
            + (f" and {len(summary.topics) - 1:,} more" if len(summary.topics) > 1 else "")
            + (f" in {summary.answer.cluster}" if summary.answer.cluster else ""),
            summary.answer.producer or summary.answer.consumer,
        )
        for summary in shown
    ]


def _headings(shown: Sequence[Summary]) -> list[str]:
    """Return the questions; with the client of those that would be the same."""
    questions = Counter(summary.question for summary in shown)
    return [
        f"{summary.question} ({client})"
        if questions[summary.question] > 1 and client
        else summary.question
        for summary in shown
        for client in [summary.answer.producer or summary.answer.consumer]
    ]
