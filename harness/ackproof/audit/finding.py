"""Findings: risks in sentences, each with its file and line."""

from __future__ import annotations

from ackproof.audit.answer import Answer, Audit, Effect, Finding, Risk
from ackproof.audit.identity import variants
from ackproof.audit.words import EFFECTS, condition, phrase_of
from ackproof.own_config.configuration import FileLine


def findings(audit: Audit) -> list[Finding]:
    """Return the risks of every answer with their places, variants as one."""
    return [one for answer in audit.answers for one in of_answer(answer, audit)]


def _topic(answer: Answer) -> str:
    more = f" and {len(answer.alike):,} alike topics" if answer.alike else ""
    return f"{answer.topic}{more}: " if answer.topic else ""


def title(finding: Finding) -> str:
    return f"{_topic(finding.answer)}{EFFECTS[finding.risk.effect]}, {after(finding)}"


def after(finding: Finding) -> str:
    if not finding.risk.failures:
        return "without any failure"
    return f"after: {phrase_of([one.failures for one in finding.variants])}"


def detail(finding: Finding) -> str:
    """Return what happens, for which values, and the change that prevents it."""
    risk = finding.risk
    more = f"The same {after(finding)}." if len(finding.variants) > 1 else ""
    sentence = f"{risk.text[:1].upper()}{risk.text[1:].rstrip('.')}." if risk.text else ""
    held = f"{condition(risk.when).capitalize()}." if risk.when else ""
    changes = " or ".join(f"{one.setting}={one.change}" for one in risk.decided_by[:2])
    return " ".join(filter(None, (sentence, more, held, changes and f"{changes} prevents it.")))


def text(finding: Finding) -> str:
    """Return the title and the detail; a loss with its own sentence has no title."""
    if finding.risk.effect is Effect.LOST and finding.risk.text:
        return f"{_topic(finding.answer)}{detail(finding)}"
    return f"{title(finding)}. {detail(finding)}".rstrip()


def of_answer(answer: Answer, audit: Audit) -> list[Finding]:
    fallback = audit.read[0].file if audit.read else ""
    found = []
    for alike in variants(answer.risks):
        file, line = _place(answer, alike[0], fallback)
        found.append(
            Finding(answer=answer, risk=alike[0], variants=tuple(alike), file=file, line=line)
        )
    return found


def _place(answer: Answer, risk: Risk, fallback: str) -> tuple[str, int]:
    """Return file and line of the setting that decides, else of any setting that a file states."""
    sources = [one.source for one in risk.decided_by]
    sources += [given.source for given in answer.settings.values()]
    for source in sources:
        if isinstance(source, FileLine):
            return source.file, source.line
    return answer.producer or answer.consumer or fallback, 1
