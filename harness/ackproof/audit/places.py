"""The file and line of a risk, and its names in the formats of other tools."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ackproof.audit import merging
from ackproof.audit.answer import Answer, Audit, Effect, Risk
from ackproof.audit.words import EFFECTS, condition, phrase_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A risk with its answer, and the file and line of the setting that decides it.

    variants: the risk and those in which brokers end in other ways.
    """

    answer: Answer
    risk: Risk
    variants: tuple[Risk, ...]
    file: str
    line: int

    def fails(self, failing: Collection[int]) -> bool:
        """Whether one of its risks is in `failing`, by `id`."""
        return any(id(risk) in failing for risk in self.variants)

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
        return f"{self._topic}{EFFECTS[self.risk.effect]}, {self.after}"

    @property
    def after(self) -> str:
        if not self.risk.failures:
            return "without any failure"
        return f"after: {phrase_of([one.failures for one in self.variants])}"

    @property
    def detail(self) -> str:
        """What happens, for which values, and the change that prevents it."""
        risk = self.risk.told()
        more = f"The same {self.after}." if len(self.variants) > 1 else ""
        sentence = f"{risk.text[:1].upper()}{risk.text[1:].rstrip('.')}." if risk.text else ""
        held = f"{condition(risk.when).capitalize()}." if risk.when else ""
        changes = " or ".join(f"{one.setting}={one.change}" for one in risk.decided_by[:2])
        return " ".join(filter(None, (sentence, more, held, changes and f"{changes} prevents it.")))

    @property
    def text(self) -> str:
        if self.risk.effect is Effect.LOST and self.risk.text:
            return f"{self._topic}{self.detail}"
        return f"{self.title}. {self.detail}".rstrip()


def findings(audit: Audit) -> list[Finding]:
    """Return the risks of every answer with their places, variants as one."""
    return [one for answer in audit.answers for one in of_answer(answer, audit)]


def of_answer(answer: Answer, audit: Audit) -> list[Finding]:
    fallback = audit.read[0].file if audit.read else ""
    found = []
    for variants in merging.alike(answer.risks):
        file, line = _place(answer, variants[0], fallback)
        found.append(
            Finding(answer=answer, risk=variants[0], variants=tuple(variants), file=file, line=line)
        )
    return found


def _place(answer: Answer, risk: Risk, fallback: str) -> tuple[str, int]:
    """Return the deciding setting's file and line, else those of any setting that files state."""
    sources = [one.source for one in risk.decided_by]
    sources += [given.source for given in answer.settings.values()]
    for source in sources:
        file, _, line = source.rpartition(":")
        if file and line.isdecimal():
            return file, int(line)
    return answer.producer or answer.consumer or fallback, 1
