"""Which risks make an audit fail: `--fail-on lost`, `certain`, `duplicated,possible`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ackproof.audit.answer import Answer, Audit, Effect, Risk
from ackproof.audit.identity import in_audit, of_each
from ackproof.audit.promise import breaks, with_failing_promises
from ackproof.errors import ScenarioError

_LIKELIHOODS = ("possible", "certain")
_ALL, _NONE = "all", "none"


@dataclass(frozen=True, slots=True)
class Threshold:
    """Effects that make an audit fail, if they are at least this likely."""

    effects: Collection[Effect]
    likelihood: str

    def reached_by(self, risk: Risk) -> bool:
        likely = _LIKELIHOODS.index(risk.likelihood) >= _LIKELIHOODS.index(self.likelihood)
        return risk.effect in self.effects and likely and not risk.accepted


#: A configuration that no client or broker accepts fails, too.
DEFAULT_EFFECTS = (Effect.LOST, Effect.REFUSED)


def thresholds(values: Sequence[str], *, promised: bool = False) -> tuple[Threshold, ...]:
    """Return the thresholds of the values of `--fail-on`; the default is `possible`.

    A value has effects, a likelihood, or both, separated by commas or spaces. promised: whether
    promises decide which losses fail; then the default is `refused`. Raises ScenarioError for an
    unknown word.
    """
    return tuple(map(_threshold, values or [Effect.REFUSED if promised else "possible"]))


def _threshold(value: str) -> Threshold:
    effects: list[Effect] = []
    likelihood, none = "possible", False
    words = re.split(r"[,:\s]+", value.strip().lower())
    for word in words:
        if word in _LIKELIHOODS:
            likelihood = word
        elif word in list(Effect):
            effects.append(Effect(word))
        elif word == _ALL:
            effects += list(Effect)
        elif word == _NONE:
            none = True
        else:
            legal = ", ".join([*_LIKELIHOODS, *Effect, _ALL, _NONE])
            raise ScenarioError(f"--fail-on: {word!r} is none of {legal}")
    if none:
        return Threshold((), likelihood)
    return Threshold(effects or DEFAULT_EFFECTS, likelihood)


def _who(answer: Answer) -> tuple[str, str, str]:
    return answer.cluster, answer.topic, answer.producer


def with_failing(audit: Audit, of: Sequence[Threshold]) -> Audit:
    """Return the audit with a mark on each risk that reaches a threshold or breaks a promise.

    Promises that fail are marked, too. If the audit was compared with an earlier configuration,
    only new risks fail, and those of which more records are at risk; of a topic and producer whose
    usual losses end, no rare ones.
    """
    new = None
    if audit.difference:
        difference = audit.difference
        better = {
            _who(one.answer)
            for one in difference.ended
            if one.risk.effect is Effect.LOST and not one.risk.rare
        }
        new = {
            in_audit(found.answer, risk)
            for found in (*difference.new, *(one.finding for one in difference.more))
            for risk in found.variants
            if not (risk.rare and _who(found.answer) in better)
        }

    def reaching(risk: Risk) -> bool:
        return any(threshold.reached_by(risk) for threshold in of)

    def marked(answer: Answer, risk: Risk) -> Risk:
        fails = reaching(risk) or breaks(answer, risk)
        return _failing(risk, fails and (new is None or in_audit(answer, risk) in new))

    if audit.promises or audit.difference:
        answers = tuple(
            replace(answer, risks=tuple(marked(answer, risk) for risk in answer.risks))
            for answer in audit.answers
        )
    else:
        each = of_each(audit.answers, lambda risk: _failing(risk, reaching(risk)))
        answers = tuple(replace(answer, risks=risks) for answer, risks in each)
    return with_failing_promises(replace(audit, answers=answers))


def _failing(risk: Risk, fails: bool) -> Risk:
    return replace(risk, failing=True) if fails else risk
