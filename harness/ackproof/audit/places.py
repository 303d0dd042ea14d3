"""The file and line of a risk, and its names in the formats of other tools."""

from __future__ import annotations

from dataclasses import dataclass

from ackproof.audit.answer import Answer, Audit, Effect, Risk
from ackproof.audit.words import EFFECTS, condition, phrase


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A risk with its answer, and the file and line of the setting that decides it."""

    answer: Answer
    risk: Risk
    file: str
    line: int

    @property
    def rule(self) -> str:
        """The effect and the known case, such as `lost/B5`."""
        return "/".join(filter(None, (self.risk.effect, self.risk.case)))

    @property
    def _topic(self) -> str:
        more = f" and {len(self.answer.alike):,} alike topics" if self.answer.alike else ""
        return f"{self.answer.topic}{more}: " if self.answer.topic else ""

    @property
    def title(self) -> str:
        return f"{self._topic}{EFFECTS[self.risk.effect]}, {_after(self.risk)}"

    @property
    def detail(self) -> str:
        """What happens, for which values, and the change that prevents it."""
        risk = self.risk
        sentence = f"{risk.text[:1].upper()}{risk.text[1:].rstrip('.')}." if risk.text else ""
        held = f"{condition(risk.when).capitalize()}." if risk.when else ""
        changes = " or ".join(f"{one.setting}={one.change}" for one in risk.decided_by[:2])
        return " ".join(filter(None, (sentence, held, changes and f"{changes} prevents it.")))

    @property
    def text(self) -> str:
        if self.risk.effect is Effect.LOST and self.risk.text:
            return f"{self._topic}{self.detail}"
        return f"{self.title}. {self.detail}".rstrip()


def _after(risk: Risk) -> str:
    return f"after: {phrase(risk.failures)}" if risk.failures else "without any failure"


def findings(audit: Audit) -> list[Finding]:
    """Return every risk of every answer with its place."""
    return [one for answer in audit.answers for one in of_answer(answer, audit)]


def of_answer(answer: Answer, audit: Audit) -> list[Finding]:
    fallback = audit.read[0].file if audit.read else ""
    places = (_place(answer, risk, fallback) for risk in answer.risks)
    return [
        Finding(answer=answer, risk=risk, file=file, line=line)
        for risk, (file, line) in zip(answer.risks, places, strict=True)
    ]


def _place(answer: Answer, risk: Risk, fallback: str) -> tuple[str, int]:
    """Return the deciding setting's file and line, else those of any setting that files state."""
    sources = [one.source for one in risk.decided_by]
    sources += [given.source for given in answer.settings.values()]
    for source in sources:
        file, _, line = source.rpartition(":")
        if file and line.isdecimal():
            return file, int(line)
    return answer.producer or answer.consumer or fallback, 1
