"""Finishes an audit after its risks are marked: verdicts, the worst losses, similar topics.

Outputs only show what is computed here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from ackproof.audit.answer import Answer, Audit, Effect, Group, Outcome, Risk, Verdict, Ways
from ackproof.audit.assumption import Versions
from ackproof.audit.failure import ORDINARY, Failures, how_rare, milder
from ackproof.audit.identity import identity, of_each
from ackproof.audit.losses import traced
from ackproof.audit.promise import breaks
from ackproof.audit.sources import with_own_sources
from ackproof_model.kafka_settings import ACKS, REPLICATION_FACTOR

#: The most topics with the same answer that have an answer each.
_MOST_ALIKE = 20


def finished(audit: Audit) -> Audit:
    """Return the audit with all that outputs show but tables.

    One answer stands for many alike topics.
    """
    answers: list[Answer] = []
    groups: list[Group] = []
    for group in _alike(audit.answers):
        many = len(group) > _MOST_ALIKE
        own = [*map(with_own_sources, group[:1] if many else group)]
        first = judged(own[0])
        alike = tuple(answer.topic for answer in group[1:])
        kept = [
            replace(
                answer,
                verdict=first.verdict,
                ways=first.ways,
                worst=first.worst,
                alike=alike if many else (),
            )
            for answer in own
        ]
        answers += kept
        topics = tuple(answer.topic for answer in group if answer.topic)
        groups.append(Group(answer=kept[0], topics=topics))
    return replace(audit, answers=tuple(answers), groups=tuple(_worst_first(groups)))


def judged(answer: Answer) -> Answer:
    """Return an answer with its verdict."""
    lost = _losses(answer)
    ways = _ways(lost)
    worst = next((risk for risk in lost if risk.trace or risk.untraced), None)
    if worst and worst.untraced:
        worst = traced(worst.untraced, worst)
    if worst and _of_several(worst, _several_replicas(answer)):
        ways = replace(ways, first_of_several=True)
    verdict = _verdict(answer, ways, lost)
    return replace(answer, verdict=verdict, ways=ways, worst=worst)


def _losses(answer: Answer) -> list[Risk]:
    """Return the losses that nobody accepted, the worst first.

    Losses that break a promise come first, then those after the most ordinary and the fewest
    failures. Among those that hold under assumptions, the newest version and acks=all come first.
    """
    lost = [risk for risk in answer.risks if risk.effect is Effect.LOST and not risk.accepted]
    several = _several_replicas(answer)
    return sorted(lost, key=lambda risk: (not breaks(answer, risk), *_severity(risk, several)))


def _severity(risk: Risk, several: str) -> tuple[int, ...]:
    """Return what orders losses. Few topics have a sole replica: no condition excludes it."""
    version = risk.when.get("kafka.version")
    return (
        bool(risk.when) and not _of_several(risk, several),
        risk.rare,
        isinstance(version, Versions) and not version.newest,
        risk.when.get(ACKS, "all") != "all",
        risk.when.get(REPLICATION_FACTOR) == "1",
        *how_rare(risk.failures),
        any(failure not in ORDINARY for failure in risk.failures),
        risk.likelihood != "certain",
        len(risk.when),
    )


def _several_replicas(answer: Answer) -> str:
    """Return what `when` has of a loss with every replication factor above 1; '' without one."""
    setups = answer.asked.setups if answer.asked else ()
    factors = {str(setup.when.get(REPLICATION_FACTOR, "")) for setup in setups} - {""}
    return " or ".join(sorted(factors - {"1"})) if "1" in factors else ""


def _of_several(risk: Risk, several: str) -> bool:
    """Whether a risk holds with every replication factor above 1, and whatever the rest is."""
    return bool(several) and risk.when == {REPLICATION_FACTOR: several}


def _ways(lost: Sequence[Risk]) -> Ways:
    counted = [risk for risk in lost if not risk.rare] or lost
    every = {risk.failures for risk in counted}
    mildest = {one for one in every if len(one) < 3 or not _milder_exists(one, every)}
    always = {risk.failures for risk in counted if not risk.when} & mildest
    return Ways(
        always=len(always),
        sometimes=len(mildest - always),
        unstated=tuple(dict.fromkeys(key for risk in counted for key in risk.when)),
    )


def _milder_exists(failures: Failures, every: Collection[Failures]) -> bool:
    return any(other != failures and milder(other, failures) for other in every)


def _verdict(answer: Answer, ways: Ways, lost: Sequence[Risk]) -> Verdict:
    if ways.always:
        return Verdict.YES
    if lost:
        accepted = any(risk.accepted for risk in answer.risks)
        return Verdict.YES if answer.always_lost and not accepted else Verdict.DEPENDS
    return Verdict.NOT_DECIDED if answer.undecided else Verdict.NO


def _worst_first(groups: Iterable[Group]) -> list[Group]:
    return sorted(groups, key=lambda group: _weakness(group.answer))


def _weakness(answer: Answer) -> tuple[int, ...]:
    """Return what orders answers: promises, the verdict, and how ordinary failures lose records."""
    lost = _losses(answer)
    undecided = sorted(map(how_rare, answer.undecided))
    weakest = (
        _severity(lost[0], _several_replicas(answer)) if lost else undecided[0] if undecided else ()
    )
    promised = min((list(Outcome).index(one.outcome) for one in answer.promised), default=0)
    return (promised, list(Verdict).index(answer.verdict), *weakest)


def _alike(answers: Iterable[Answer]) -> list[list[Answer]]:
    """Return groups of answers that differ only in the topic's name."""
    groups: dict[object, list[Answer]] = {}
    for answer, marks in of_each(answers, _marked):
        groups.setdefault((*_apart_from_topic(answer), marks), []).append(answer)
    return list(groups.values())


def _marked(risk: Risk) -> object:
    return identity(risk), bool(risk.accepted), risk.failing


def _apart_from_topic(answer: Answer) -> tuple[object, ...]:
    return (
        answer.cluster,
        answer.producer,
        answer.consumer,
        tuple(sorted((key, given.value) for key, given in answer.settings.items())),
        answer.unstated,
        answer.survives,
        answer.undecided,
        answer.promised,
    )
