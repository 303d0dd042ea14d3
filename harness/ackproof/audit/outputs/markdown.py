"""An audit in Markdown, for the comment of a pull request or a job's summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ackproof.audit.answer import Audit, Difference, Outcome, Verdict
from ackproof.audit.finding import grown, title, unaffected
from ackproof.audit.outputs.summary import Summary, promises, summaries
from ackproof.audit.outputs.unused_settings import in_short

_SIGNS = {Verdict.YES: "❌", Verdict.NO: "✅"}
_OUTCOMES = {
    Outcome.BROKEN: "❌",
    Outcome.NOT_DECIDED: "⚠️",
    Outcome.ACCEPTED: "⚠️",
    Outcome.KEPT: "✅",
}
_MOST_GROUPS = 20


def render(audit: Audit) -> str:
    """Return the text: promises, the difference if there is one, then each group of topics."""
    lines = [f"- {_OUTCOMES[one.outcome]} {_cell(one.text)}" for one in promises(audit)]
    lines += [""] * bool(lines)
    lines += _difference(audit.difference) if audit.difference else []
    for refused in audit.refused:
        lines += [f"> not read: `{refused.file}`: {_cell(refused.reason)}", ""]
    for warning in audit.warnings:
        lines += [f"> warning: {_cell(warning)}", ""]
    groups = summaries(audit)
    for summary in groups[:_MOST_GROUPS]:
        lines += _group(summary)
    if len(groups) > _MOST_GROUPS:
        lines += [f"and {len(groups) - _MOST_GROUPS:,} more groups of topics", ""]
    if audit.not_looked_at:
        lines += [f"Not looked at: {'; '.join(audit.not_looked_at)}.", ""]
    if short := in_short(audit.uses):
        lines += [f"Not used: {_cell(short)}.", ""]
    return "\n".join(lines)


def _difference(difference: Difference) -> Iterator[str]:
    yield f"### Compared with {difference.base}"
    yield ""
    if not difference.new and not difference.more and not difference.ended:
        yield "This change makes no risk possible, and ends none."
    for finding in difference.new:
        place = f"`{finding.file}:{finding.line}`"
        yield f"- ❌ makes possible: {_cell(title(finding))} ({place})"
    for growth in difference.more:
        place = f"`{growth.finding.file}:{growth.finding.line}`"
        yield f"- ❌ puts more at risk: {_cell(grown(growth))} ({place})"
    for finding in difference.ended:
        yield f"- ✅ ends: {_cell(title(finding))}"
    for weakening in difference.without_effect:
        yield f"- weaker, without effect: {_cell(unaffected(weakening))}"
    yield ""


def _group(summary: Summary) -> Iterator[str]:
    sign = _SIGNS.get(summary.verdict, "⚠️")
    yield f"### {sign} {summary.question} {summary.headline}"
    yield ""
    if summary.storage:
        yield f"**{_cell(summary.storage)}**  "
    for fact in summary.facts:
        yield f"{_cell(fact)}  "
    if summary.answer.unstated:
        yield f"The files leave {', '.join(summary.answer.unstated)} open.  "
    yield ""
    if summary.usual:
        yield from _brief(summary, summary.usual)
        yield from _folded("For every value that the files leave open", _answer(summary))
    else:
        yield from _answer(summary)


def _brief(summary: Summary, usual: Summary) -> Iterator[str]:
    """Yield what the terminal shows where little is known, marked as assumed."""
    yield from (f"- Whatever the rest is: **{_cell(line)}**" for line in summary.always)
    yield from (f"- Open: {_cell(question)} ({_cell(how)})" for question, how in summary.questions)
    values = ", ".join(f"{key}={value}" for key, value in usual.answer.assumed.items())
    yield ""
    yield f"**Assumed**: {_cell(values)}: {_cell(usual.headline)}  "
    yield ""
    yield from _table(usual)
    yield ""


def _folded(head: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"<details><summary>{head}</summary>"
    yield ""
    yield from lines
    yield "</details>"
    yield ""


def _answer(summary: Summary) -> Iterator[str]:
    """Yield the table, the changes, the notes, and the way to a loss."""
    yield from _table(summary)
    for note in (*summary.notes, *(f"Accepted: {one}" for one in summary.accepted)):
        yield f"- {_cell(note)}"
    yield ""
    if summary.how:
        steps = [f"{number}. {_cell(step)}" for number, step in enumerate(summary.how, start=1)]
        yield from _folded(summary.how_head, [*steps, ""])


def _table(summary: Summary) -> Iterator[str]:
    """Yield the table of failures and the changes."""
    yield from _row(("after", "", *summary.table.columns, "runs"))
    yield from _row(("---",) * (len(summary.table.columns) + 3))
    for row in summary.table.rows:
        cells = [f"**{one.text}**" if one.tone == "bad" else one.text for one in row.cells]
        yield from _row((row.label, row.cases, *cells, row.runs))
    yield ""
    yield from (f"{_cell(footnote)}  " for footnote in summary.table.footnotes)
    for at, change in enumerate(summary.changes):
        cost = f"; costs: {change.cost}" if change.cost else ""
        place = f"`{change.setting}={change.change}` ({change.source})"
        yield f"- {'then' if at else '**Change first**'}: {place}{_cell(cost)}"


def _row(cells: Sequence[str]) -> Iterator[str]:
    yield "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
