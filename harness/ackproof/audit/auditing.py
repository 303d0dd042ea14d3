"""Answers an audit: the risks of every topic and producer, under each value that nobody states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ackproof.audit import (
    availability,
    clients,
    consumers,
    defects,
    merging,
    refused,
    removed,
)
from ackproof.audit.answer import (
    Alternative,
    Answer,
    Assumed,
    Audit,
    Decision,
    Effect,
    Risk,
)
from ackproof.audit.changes import best, decided_by
from ackproof.audit.producers import CLIENT, LIBRARY
from ackproof.audit.risks import Lost, lost, told
from ackproof.audit.setups import (
    MINIMUM,
    MODE,
    RACKS,
    REPLICAS,
    UNCLEAN,
    Setup,
    hidden,
    setups,
    unread,
    writers,
)
from ackproof.audit.words import covers
from ackproof.kafka_versions import other_rules
from ackproof.own_config.configuration import (
    KAFKA,
    Default,
    Given,
    Origin,
    OwnConfig,
    Topic,
    kafka_default,
)
from ackproof.scope import beyond
from ackproof_model.kafka_settings import ACKS, ENABLE_IDEMPOTENCE

_NOT_LOOKED_AT = (
    "what your code does with a failed send",
    "more than three failures",
    "bytes that disks alter",
)
#: How many changes are proposed.
_MOST_CHANGES = 2
_NO_CONSUMER = "consumers, which no file describes"
_NO_BROKERS = "what brokers' settings decide that no file states: retention, racks, controllers"


def audit(own: OwnConfig, *, topic: str = "") -> Audit:
    """Return all answers. topic: only the topic of this name.

    Topics with equal settings share one search. Raises ScenarioError for an unknown topic or a
    version that is not modelled.
    """
    return Audit(
        read=own.read,
        refused=own.refused,
        version=own.kafka,
        mode=own.mode,
        answers=tuple(_answers(own, topic)),
        warnings=(*own.warnings, *_newer(own), *_unread(own, topic)),
        not_looked_at=tuple(_not_looked_at(own)),
    )


def of_clusters(clusters: Sequence[OwnConfig], *, topic: str = "") -> Audit:
    """Return the answers about every cluster. Raises ScenarioError if none has the topic."""
    having = [own for own in clusters if any(one.name == topic for one in own.topics)]
    audits = [audit(own, topic=topic) for own in (having if topic and having else clusters)]
    first = audits[0]
    if len(audits) == 1:
        return first

    def every(field: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(one for each in audits for one in getattr(each, field)))

    def common(field: str) -> Given | None:
        every_one = [getattr(each, field) for each in audits]
        values = {given.value if given else "" for given in every_one}
        return getattr(first, field) if len(values) == 1 else None

    return Audit(
        read=every("read"),
        refused=first.refused,
        version=common("version"),
        mode=common("mode"),
        answers=tuple(answer for each in audits for answer in each.answers),
        warnings=every("warnings"),
        not_looked_at=every("not_looked_at"),
    )


def _answers(own: OwnConfig, topic: str) -> Iterator[Answer]:
    groups: dict[object, list[Topic]] = {}
    brokers_own = [one for one in own.topics if hidden(one) and one.name != topic]
    for one in own.topics:
        if one.name == topic if topic else not hidden(one):
            groups.setdefault(_values(own, one), []).append(one)
    if topic and not groups:
        yield from map(_answer, setups(own, topic=topic))
    elif not topic and all(one.internal for alike in groups.values() for one in alike):
        yield from map(_answer, setups(replace(own, topics=tuple(brokers_own))))
    for alike in groups.values():
        first, *others = alike
        of_first = replace(own, topics=(first, *brokers_own))
        answers = [*map(_answer, setups(of_first, topic=first.name))]
        yield from answers
        for other in others:
            sources = _renamed(first, other)
            yield from (_of_topic(answer, other.name, sources) for answer in answers)


def _newer(own: OwnConfig) -> Iterator[str]:
    if own.kafka and (text := other_rules(own.release)):
        yield f"{own.kafka.source}: {text}"


def _unread(own: OwnConfig, topic: str) -> Iterable[str]:
    different = {_values(own, one): one for one in own.topics if topic in ("", one.name)}
    groups = setups(replace(own, topics=tuple(different.values())))
    return dict.fromkeys(text for group in groups for setup in group for text in unread(setup))


def _values(own: OwnConfig, topic: Topic) -> object:
    replicas = topic.replication_factor.value if topic.replication_factor else ""
    settings = {key: given.value for key, given in topic.settings.items()}
    producers = tuple(one.name if one else "" for one in writers(own, topic))
    return replicas, tuple(sorted(settings.items())), producers


def _renamed(first: Topic, other: Topic) -> dict[Origin, Origin]:
    """Return the sources of the second topic by those of the first."""
    pairs = [(first.replication_factor, other.replication_factor)]
    pairs += [(given, other.settings[key]) for key, given in first.settings.items()]
    return {one.source: two.source for one, two in pairs if one and two}


def _of_topic(answer: Answer, name: str, sources: Mapping[Origin, Origin]) -> Answer:
    def renamed(source: Origin) -> Origin:
        return sources.get(source, source)

    settings = {
        key: Given(given.value, renamed(given.source)) for key, given in answer.settings.items()
    }
    risks = tuple(_with_sources(risk, renamed) for risk in answer.risks)
    return replace(answer, topic=name, settings=settings, risks=risks)


def _with_sources(risk: Risk, renamed: Callable[[Origin], Origin]) -> Risk:
    changes = tuple(replace(one, source=renamed(one.source)) for one in risk.decided_by)
    return replace(risk, decided_by=changes) if changes else risk


def _answer(group: Sequence[Setup]) -> Answer:
    group, answers = _decisive(group, of_setups(group))
    first = group[0]
    unstated = dict.fromkeys(key for setup in group for key in setup.when)
    return Answer(
        topic=first.topic.name,
        producer=first.producer.name if first.producer else "",
        consumer=", ".join(consumer.name for consumer in first.consumers),
        cluster=first.own.cluster,
        version=first.own.kafka,
        settings=_stated(group),
        unstated=tuple(unstated),
        risks=_risks(answers, group),
        survives=merging.survives(answers),
        undecided=merging.undecided(answers),
        assumed=answers,
        alternatives=tuple(_alternatives(group)),
    )


def _decisive(
    group: Sequence[Setup], answers: tuple[Assumed, ...]
) -> tuple[Sequence[Setup], tuple[Assumed, ...]]:
    """Return setups with their answers; one mode only, without its name, if both answer alike."""
    alike: dict[object, list[Assumed]] = {}
    for one in answers:
        alike.setdefault(tuple(_without_mode(one.when).items()), []).append(one)
    if any(
        (one.parts, one.survives) != (a.parts, a.survives)
        for a, *rest in alike.values()
        for one in rest
    ):
        return group, answers
    first = {id(one) for one, *_ in alike.values()}
    pairs = [pair for pair in zip(group, answers, strict=True) if id(pair[1]) in first]
    return (
        [replace(setup, when=_without_mode(setup.when)) for setup, _ in pairs],
        tuple(replace(one, when=_without_mode(one.when)) for _, one in pairs),
    )


def _without_mode(when: Mapping[str, str]) -> Mapping[str, str]:
    return {key: value for key, value in when.items() if key != MODE}


def _stated(group: Sequence[Setup]) -> dict[str, Given]:
    """Return the settings that have the same value under every assumption."""
    every = {key: given for setup in group for key, given in setup.settings.items()}
    return {
        key: Given(given.value, _source(given.source, group[-1]))
        for key, given in every.items()
        if all(key in one.settings and one.settings[key].value == given.value for one in group)
    }


def _source(source: Origin, setup: Setup) -> Origin:
    """Return a source without a version of Kafka that nobody states."""
    of_kafka = isinstance(source, Default) and source.of == KAFKA
    return kafka_default() if setup.own.kafka is None and of_kafka else source


def _alternatives(group: Sequence[Setup]) -> Iterator[Alternative]:
    changes: tuple[Decision, ...] = ()
    for change, changed in best(group, most=_MOST_CHANGES):
        changes = (*changes, change)
        different = {str(one.when): one for one in changed}  # of a changed value several are one
        yield Alternative(changes=changes, assumed=of_setups(different.values()))


def _order(risk: Risk) -> tuple[int, int, int]:
    return (list(Effect).index(risk.effect), len(risk.failures), len(risk.when))


def of_setups(setups: Iterable[Setup]) -> tuple[Assumed, ...]:
    """Return the answer of each setup of a topic and producer; alike ones are answered once."""
    known: dict[object, Any] = {}

    def once(find: Callable[[Setup], Any], setup: Setup) -> Any:
        ignored = INDEPENDENT_OF[find]
        when = tuple(pair for pair in setup.when.items() if pair[0] not in ignored)
        acks = "" if ACKS in ignored else setup.partition.acks
        waits = _WAITS not in ignored and setup.partition.acks == "all"
        key = (find, when, acks, waits, setup.refusal)
        if key not in known:
            found = find(setup)
            known[key] = found if isinstance(found, Lost) else tuple(found)
        return known[key]

    def answer(setup: Setup) -> Assumed:
        if refusals := tuple(refused.risks(setup)):  # nothing starts, so nothing else happens
            return Assumed(when=setup.when, parts=(refusals,), survives=())
        losses: Lost = once(_losses, setup)
        return Assumed(
            when=setup.when,
            parts=(losses.risks, *(once(find, setup) for find in _OTHERS)),
            survives=losses.survives,
            undecided=losses.undecided,
        )

    return tuple(map(answer, setups))


def _losses(setup: Setup) -> Lost:
    """Return all losses by brokers and by defects of clients."""
    losses = lost(setup)
    by_defects = [
        risk
        for risk in defects.risks(setup)
        if not any(covers(one.failures, risk.failures) for one in losses.risks)
    ]
    return Lost(
        risks=(*losses.risks, *by_defects),
        survives=defects.survived(losses.survives, tuple(one.failures for one in by_defects)),
        undecided=tuple(
            one
            for one in losses.undecided
            if not any(covers(risk.failures, one) for risk in by_defects)
        ),
    )


_OTHERS = (clients.risks, consumers.risks, availability.risks, removed.risks)
_RESENDING = (CLIENT, ENABLE_IDEMPOTENCE)
#: Whether acks is `all`, which may decide where nothing else about acks does.
_WAITS = "acks=all"
#: The assumed values on which these answers do not depend.
INDEPENDENT_OF: Mapping[Callable[[Setup], Any], tuple[str, ...]] = {
    _losses: _RESENDING,
    clients.risks: (MINIMUM, UNCLEAN, RACKS),
    consumers.risks: (*_RESENDING, ACKS, _WAITS, LIBRARY),
    availability.risks: (*_RESENDING, ACKS, LIBRARY, RACKS),
    removed.risks: (*_RESENDING, ACKS, _WAITS, LIBRARY, RACKS, REPLICAS, MINIMUM, UNCLEAN),
}


def _risks(answers: Sequence[Assumed], group: Sequence[Setup]) -> tuple[Risk, ...]:
    """Return the merged risks, losses first, with traces and the settings that decide."""
    merged = []
    for risk, at in merging.risks(answers):
        setup = group[at]
        if risk.effect is Effect.LOST and not risk.trace:  # a loss by brokers
            changes = decided_by(setup, risk.failures)
            merged.append(replace(risk, decided_by=changes, tell=partial(told, setup)))
        else:
            merged.append(risk)
    return tuple(
        _with_sources(risk, partial(_source, setup=group[-1]))
        for risk in sorted(merged, key=_order)
    )


def _not_looked_at(own: OwnConfig) -> Iterator[str]:
    yield from _NOT_LOOKED_AT
    if not own.consumers:
        yield _NO_CONSUMER
    if not own.defaults_hold:
        yield _NO_BROKERS
    settings: Iterable[Mapping[str, Given]] = (own.broker, *(one.settings for one in own.topics))
    for given in settings:
        for key, text in beyond({key: one.value for key, one in given.items()}):
            yield f"{key} ({given[key].source}): {text}"
