"""Findings: risks in sentences, each with its file and line."""

from __future__ import annotations

from ackproof.audit.answer import (
    Answer,
    Audit,
    Doubt,
    Effect,
    Finding,
    Growth,
    Measure,
    Outcome,
    Risk,
    Weakening,
)
from ackproof.audit.identity import variants
from ackproof.audit.words import EFFECTS, condition, phrase, phrase_of
from ackproof.own_config.configuration import FileLine


def findings(audit: Audit) -> list[Finding]:
    """Return the risks of every answer with their places, variants as one."""
    return [one for answer in audit.answers for one in of_answer(answer, audit)]


def by_place(audit: Audit) -> list[tuple[Finding, int]]:
    """Return a finding for each kind of risk and place, the worst first; with how many like it.

    Topics and clients that share a setting have their risks in one place: the line of the setting.
    """
    alike: dict[tuple[str, str, int, bool], list[Finding]] = {}
    for finding in sorted(findings(audit), key=_badness):
        place = (finding.rule, finding.file, finding.line, finding.failing)
        alike.setdefault(place, []).append(finding)
    return [(first, len(others)) for first, *others in alike.values()]


def _badness(finding: Finding) -> tuple[bool, bool, bool, bool, int]:
    """Return a key that sorts the worst first: of the fewest failures, in the order of answers."""
    risk = finding.risk
    return (
        not finding.failing,
        bool(risk.accepted),
        risk.effect is not Effect.LOST,
        risk.likelihood != "certain",
        len(risk.failures),
    )


def with_others(text: str, others: int) -> str:
    """Return the text of the first finding of a place, with how many are like it."""
    if not others:
        return text
    return f"{text} The same line decides {others:,} more such risk{'s' * (others > 1)}."


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


#: How a change puts more records at risk, with the numbers of replicas before and after it.
_GROWN = {
    Measure.COPIES: "a record may be acked now when {after} it, before only when {before} it",
    Measure.OUTSIDE: "a replica outside the ISR may lead now, without what it has not fetched",
    Measure.REPLICAS: "{after} each record now, {before} it before",
}


def grown(growth: Growth) -> str:
    """Return how a change puts more records at risk, and after which failures."""
    numbers = {"before": _having(growth.before), "after": _having(growth.after)}
    how = _GROWN[growth.measure].format(**numbers)
    risk = growth.finding.risk
    others = len(growth.finding.variants) - 1
    sets = "another set" if others == 1 else f"{others} other sets"
    also = f" (and {sets} of failures)" if others else ""
    at_risk = f": {risk.at_risk}" if risk.at_risk else ""
    return f"{_topic(growth.finding.answer)}{how}; after {phrase(risk.failures)}{also}{at_risk}"


def _having(replicas: int) -> str:
    return {0: "no replica has", 1: "one replica has"}.get(replicas, f"{replicas} replicas have")


def unaffected(weakening: Weakening) -> str:
    """Return a weaker value, and why it changes nothing."""
    one = weakening
    change = f"{one.setting}={one.after.value} instead of {one.before.value}"
    return f"{_topic(one.answer)}{change} ({one.after.source}) changes nothing: {one.reason}"


def of_answer(answer: Answer, audit: Audit) -> list[Finding]:
    found = []
    for alike in variants(answer.risks):
        file, line = _place(answer, alike[0], _fallback(audit))
        found.append(
            Finding(answer=answer, risk=alike[0], variants=tuple(alike), file=file, line=line)
        )
    return found


def doubts(answer: Answer, audit: Audit) -> list[Doubt]:
    """Return the promises about an answer that are not decided."""
    file, line = _place(answer, None, _fallback(audit))
    return [
        Doubt(answer=answer, promised=one, file=file, line=line)
        for one in answer.promised
        if one.outcome is Outcome.NOT_DECIDED
    ]


def failing_doubts(audit: Audit) -> list[Doubt]:
    """Return the promises that fail because they are not decided."""
    every = (one for answer in audit.answers for one in doubts(answer, audit))
    return [one for one in every if one.promised.failing]


def doubt_text(doubt: Doubt) -> str:
    after = phrase(doubt.promised.failures)
    return f"{_topic(doubt.answer)}no search decides whether records are lost after {after}"


def _fallback(audit: Audit) -> str:
    return audit.read[0].file if audit.read else ""


def _place(answer: Answer, risk: Risk | None, fallback: str) -> tuple[str, int]:
    """Return file and line of the setting that decides, else of any setting that a file states."""
    sources = [one.source for one in risk.decided_by] if risk else []
    sources += [given.source for given in answer.settings.values()]
    for source in sources:
        if isinstance(source, FileLine):
            return source.file, source.line
    return answer.producer or answer.consumer or fallback, 1
