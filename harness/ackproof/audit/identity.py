"""Which risk is which: the facts of it, whatever sentence is said about it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from ackproof.audit.answer import Answer, Effect, Risk
from ackproof.audit.assumption import Condition
from ackproof.audit.failure import Failures, kinds

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The facts that no two risks of an answer have in common. failures, when: sorted."""

    effect: Effect
    likelihood: str
    case: str
    failures: Failures
    when: Condition


def identity(risk: Risk, *, without: Collection[str] = ()) -> Identity:
    """Return the identity of a risk. without: settings whose assumed values are left out."""
    kept = (pair for pair in risk.when.items() if pair[0] not in without) if risk.when else ()
    return Identity(
        effect=risk.effect,
        likelihood=risk.likelihood,
        case=risk.case,
        failures=tuple(sorted(risk.failures)),
        when=tuple(sorted(kept)),
    )


#: The cluster, topic, producer and consumer of an answer, and the identity of a risk in it.
InAudit = tuple[str, str, str, str, Identity]


def in_audit(answer: Answer, risk: Risk) -> InAudit:
    """Return an identity that is unique in an audit and does not depend on marks."""
    return (answer.cluster, answer.topic, answer.producer, answer.consumer, identity(risk))


def fingerprint(answer: Answer, risk: Risk) -> str:
    """Return `in_audit` as a digest that is the same in every audit."""
    own = identity(risk)
    when = (f"{setting}={value}" for setting, value in own.when)
    return digest(answer, own.effect, own.likelihood, own.case, *own.failures, *when)


def digest(answer: Answer, *facts: str) -> str:
    """Return a digest of facts of an answer."""
    where = (answer.cluster, answer.topic, answer.producer, answer.consumer)
    return hashlib.sha256("\0".join((*where, *facts)).encode()).hexdigest()


def of_each(
    answers: Iterable[Answer], of: Callable[[Risk], _Value]
) -> Iterator[tuple[Answer, tuple[_Value, ...]]]:
    """Yield each answer with a value for each of its risks.

    Alike topics share most of their risks: `of` is asked once for those at the same place.
    """
    known: dict[tuple[str, str, str], list[tuple[Risk, _Value]]] = {}
    for answer in answers:
        who = (answer.cluster, answer.producer, answer.consumer)
        before = known.get(who, [])
        if len(before) != len(answer.risks):
            before = [(risk, of(risk)) for risk in answer.risks]
        else:
            before = [
                one if one[0] is risk else (risk, of(risk))
                for one, risk in zip(before, answer.risks, strict=True)
            ]
        known[who] = before
        yield answer, tuple(value for _, value in before)


def losses_after(risks: Iterable[Risk], failures: Failures) -> list[Risk]:
    """Return the losses after these failures, in whatever order they are."""
    return [
        risk
        for risk in risks
        if risk.effect is Effect.LOST and sorted(risk.failures) == sorted(failures)
    ]


def variants(risks: Iterable[Risk]) -> list[list[Risk]]:
    """Return risks in groups of variants: brokers end in other ways, and all else is the same."""
    groups: dict[object, list[Risk]] = {}
    for risk in risks:
        groups.setdefault(apart_from_ways(risk), []).append(risk)
    return list(groups.values())


def apart_from_ways(risk: Risk) -> object:
    """Return what a risk shares with its variants, marks and changes included."""
    changes = tuple((change.setting, change.change) for change in risk.decided_by)
    return replace(identity(risk), failures=()), kinds(risk.failures), risk.accepted, changes
