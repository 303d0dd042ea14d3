"""Promises of a team: failures after which it loses no acknowledged record (`--survive`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

from ackproof.audit.answer import Answer, Audit, Effect, Outcome, Promised, Risk
from ackproof.audit.failure import ORDINARY, Failure, Failures, covers, emptied
from ackproof.errors import ScenarioError

#: How many failures the sets of a promise have at most, as in the searches.
_MOST = 3
_ANY = re.compile(r"any\s+(\d+)\s+failures?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A promise. text: as it was stated. sets: of failures, each with at most three.

    of_any: whether it is about any ordinary failures, not about those that it names.
    """

    text: str
    sets: tuple[Failures, ...]
    of_any: bool = False


def promises(values: Sequence[str]) -> tuple[Stated, ...]:
    """Return the promises of the values of `--survive`.

    A value is `any N failures`, or names failures, separated by commas, spaces or `+`. Raises
    ScenarioError for an unknown word, and for a number of failures that is not searched.
    """
    return tuple(map(_stated, dict.fromkeys(values)))


def _stated(value: str) -> Stated:
    text = " ".join(value.lower().split())
    if match := _ANY.fullmatch(text):
        number = int(match[1])
        sets = tuple(combinations_with_replacement(ORDINARY, number)) if number <= _MOST else ()
    else:
        words = [word for word in re.split(r"[,+\s]+", text) if word]
        if unknown := [word for word in words if word not in list(Failure)]:
            raise _refused(value, f"{unknown[0]!r} is no failure")
        number = len(words)
        sets = (tuple(sorted(map(Failure, words), key=list(Failure).index)),)
    if not number:
        raise _refused(value, "no failure")
    if number > _MOST:
        raise _refused(value, f"searches cover {_MOST} failures at most")
    return Stated(text=text, sets=sets, of_any=match is not None)


def _refused(value: str, problem: str) -> ScenarioError:
    return ScenarioError(
        f"--survive {value!r}: {problem}",
        hint=f'Write "any 1 failure" (to {_MOST}: of {", ".join(ORDINARY)}), or the failures that '
        f'happen together, such as "crash, crash": {", ".join(Failure)}.',
    )


def with_promised(audit: Audit, stated: Sequence[Stated]) -> Audit:
    """Return the audit with the outcome of each promise in each answer."""
    if not stated:
        return audit
    answers = (
        replace(answer, promised=tuple(_promised(answer, stated))) for answer in audit.answers
    )
    return replace(audit, promises=tuple(one.text for one in stated), answers=tuple(answers))


def _promised(answer: Answer, stated: Iterable[Stated]) -> Iterator[Promised]:
    kept = not emptied(answer.storage)
    for promise in stated:
        for failures in promise.sets:
            if kept and promise.of_any and Failure.RECREATED in failures:
                continue
            outcome = _outcome(answer, failures)
            yield Promised(promise=promise.text, failures=failures, outcome=outcome)


def losses(answer: Answer, failures: Failures) -> list[Risk]:
    """Return the losses of an answer that need no other failures than these."""
    happening = _with_volumes(answer, failures)
    return [
        risk
        for risk in answer.risks
        if risk.effect is Effect.LOST and covers(risk.failures, happening)
    ]


def _with_volumes(answer: Answer, failures: Failures) -> Failures:
    """Return failures with a clean restart for each new container that finds its volume again."""
    if not answer.storage or emptied(answer.storage):
        return failures
    restart = {Failure.RECREATED: Failure.CLEAN_RESTART}
    return tuple(sorted((restart.get(one, one) for one in failures), key=list(Failure).index))


def _outcome(answer: Answer, failures: Failures) -> Outcome:
    found = losses(answer, failures)
    failures = _with_volumes(answer, failures)
    if any(not risk.accepted for risk in found):
        return Outcome.BROKEN
    if any(covers(one, failures) for one in answer.undecided) or _unknown(answer, failures):
        return Outcome.NOT_DECIDED
    return Outcome.ACCEPTED if found else Outcome.KEPT


def breaks(answer: Answer, risk: Risk) -> bool:
    """Whether a risk of an answer breaks a promise."""
    return not risk.accepted and any(
        risk in losses(answer, one.failures) for one in answer.promised
    )


def with_failing_promises(audit: Audit) -> Audit:
    """Return an audit whose risks are marked, with a mark on each promise that fails.

    It fails with one of its losses, or if it is not decided; after a comparison only if it was
    decided before.
    """
    if not audit.promises:
        return audit
    difference = audit.difference
    new = {_where(one.answer, one.promised) for one in difference.undecided} if difference else None

    def fails(answer: Answer, one: Promised) -> bool:
        if one.outcome is Outcome.NOT_DECIDED:
            return new is None or _where(answer, one) in new
        return any(risk.failing for risk in losses(answer, one.failures))

    answers = (
        replace(
            answer,
            promised=tuple(replace(one, failing=fails(answer, one)) for one in answer.promised),
        )
        for answer in audit.answers
    )
    return replace(audit, answers=tuple(answers))


def _where(answer: Answer, promised: Promised) -> tuple[str, str, str, str, Failures]:
    clients = (answer.producer, answer.consumer)
    return (answer.cluster, answer.topic, *clients, promised.failures)


def _unknown(answer: Answer, failures: Failures) -> bool:
    """Whether racks or containers fail, or replicas move, where nothing was searched."""
    searched = {failure for each in answer.survives for failure in each}
    searched |= {failure for risk in answer.risks for failure in risk.failures}
    optional = (Failure.RACK, Failure.RECREATED, Failure.REASSIGNMENT)
    return any(one in failures and one not in searched for one in optional)
