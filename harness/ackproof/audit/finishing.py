"""Finishes an audit: joins the answers of similar topics, and adds traces and the worst loss.

Outputs only show what is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ackproof.audit.answer import Answer, Effect, Risk, Versions
from ackproof.audit.detail import Detail
from ackproof.audit.identity import identity
from ackproof.audit.losses import traced
from ackproof.audit.setups import Setup
from ackproof_model.kafka_settings import ACKS, REPLICATION_FACTOR

#: The most topics with the same answer that have an answer each.
_MOST_ALIKE = 20
#: Losses by defects that seldom bite; `losses` puts them behind the others.
_RARE = ("B12", "B13", "B22", "B23")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An answer without traces. setups: for each risk, a setup that has it.

    copied: whether it is the answer of another topic that has the same settings.
    """

    answer: Answer
    setups: tuple[Setup, ...]
    copied: bool = False


def finished(drafts: Sequence[Draft], detail: Detail) -> tuple[Answer, ...]:
    """Return the answers with the traces and the worst losses that are asked for."""
    answers: list[Answer] = []
    for group in grouped([draft.answer for draft in drafts]):
        first = drafts[group[0]]
        worst = _worst(first) if Detail.TABLES in detail else None
        alike = tuple(drafts[number].answer.topic for number in group[1:])
        kept = group[:1] if len(alike) >= _MOST_ALIKE else group
        answers += [
            replace(
                with_traces(drafts[number], wanted=_wanted(detail)).answer,
                worst=worst,
                alike=alike if len(kept) < len(group) else (),
            )
            for number in kept
        ]
    return tuple(answers)


def _wanted(detail: Detail) -> Callable[[Risk], bool]:
    if Detail.EVERY in detail:
        return lambda risk: True
    return lambda risk: Detail.FAILING in detail and risk.failing


def with_traces(draft: Draft, *, wanted: Callable[[Risk], bool] = lambda risk: True) -> Draft:
    """Return a draft with the traces of the losses that are wanted."""
    risks = tuple(
        _traced(risk, setup) if wanted(risk) else risk
        for risk, setup in zip(draft.answer.risks, draft.setups, strict=True)
    )
    return replace(draft, answer=replace(draft.answer, risks=risks))


def _traced(risk: Risk, setup: Setup) -> Risk:
    return traced(setup, risk) if risk.effect is Effect.LOST and not risk.trace else risk


def _worst(draft: Draft) -> Risk | None:
    """Return the worst loss that has a trace."""
    pairs = zip(draft.answer.risks, draft.setups, strict=True)
    lost = [pair for pair in pairs if _is_open_loss(pair[0])]
    for risk, setup in sorted(lost, key=lambda pair: _severity(pair[0])):
        with_trace = _traced(risk, setup)
        if with_trace.trace:
            return with_trace
    return None


def losses(risks: Iterable[Risk]) -> list[Risk]:
    """Return the losses that nobody accepted, the worst first.

    Among those that hold under assumptions, the newest version and acks=all come first.
    """
    return sorted(filter(_is_open_loss, risks), key=_severity)


def _is_open_loss(risk: Risk) -> bool:
    return risk.effect is Effect.LOST and not risk.accepted


def _severity(risk: Risk) -> tuple[int, ...]:
    version = risk.when.get("kafka.version")
    return (
        bool(risk.when),
        risk.case in _RARE,
        isinstance(version, Versions) and not version.newest,
        risk.when.get(ACKS, "all") != "all",
        risk.when.get(REPLICATION_FACTOR) == "1",
        risk.likelihood != "certain",
        len(risk.when),
        len(risk.failures),
    )


def grouped(answers: Sequence[Answer]) -> list[list[int]]:
    """Return the indexes of answers, in groups whose answers differ only in the topic's name."""
    groups: dict[object, list[int]] = {}
    for number, answer in enumerate(answers):
        groups.setdefault(_key(answer), []).append(number)
    return list(groups.values())


def _key(answer: Answer) -> object:
    return (
        answer.cluster,
        answer.producer,
        answer.consumer,
        tuple(sorted((key, given.value) for key, given in answer.settings.items())),
        answer.unstated,
        tuple((identity(risk), bool(risk.accepted), risk.failing) for risk in answer.risks),
        answer.survives,
        answer.undecided,
    )
