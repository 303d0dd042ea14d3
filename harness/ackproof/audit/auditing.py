"""Answers an audit: the risks of every topic and producer, for each value that no file states."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeVar

from ackproof.audit import merging
from ackproof.audit.answer import (
    Alternative,
    Answer,
    Asked,
    Assumed,
    Audit,
    Decision,
    Effect,
    Risk,
)
from ackproof.audit.assumption import When
from ackproof.audit.changes import best, decided_by
from ackproof.audit.detail import Detail
from ackproof.audit.failure import Failures, covers, how_rare
from ackproof.audit.finishing import judged
from ackproof.audit.losses import KIND as LOSSES
from ackproof.audit.losses import Lost, largest_without, lost, traced
from ackproof.audit.prices import with_prices
from ackproof.audit.producers import CLIENT, LIBRARY
from ackproof.audit.replication import failures_of, found_sets
from ackproof.audit.risk import Subject
from ackproof.audit.risks import of_subject, with_changes, without_changes
from ackproof.audit.setups import (
    MINIMUM,
    MODE,
    RACKS,
    REPLICAS,
    STORAGE,
    UNCLEAN,
    Setup,
    of_topics,
    topics_of,
    unread,
    writers,
)
from ackproof.audit.sources import of_topic, renamed, with_sources
from ackproof.audit.table import table
from ackproof.audit.usual import little_known, usual
from ackproof.kafka_versions import other_rules
from ackproof.own_config.configuration import (
    Given,
    Holder,
    Origin,
    OwnConfig,
    Topic,
    kafka_default,
    of_kafka,
)
from ackproof.own_config.lookups import Lookups
from ackproof.own_config.uses import of_audit
from ackproof.scope import beyond
from ackproof_model import removal
from ackproof_model.kafka_settings import ACKS, ENABLE_IDEMPOTENCE

_Each = TypeVar("_Each")
_NOT_LOOKED_AT = (
    "what your code does with a failed send",
    "more than three failures",
    "bytes that disks alter",
)
#: How many changes are proposed.
_MOST_CHANGES = 2
_NO_CONSUMER = "consumers, which no file describes"
_NO_BROKERS = "what brokers' settings decide that no file states: retention, racks, controllers"


def audit_clusters(
    clusters: Sequence[OwnConfig], *, topic: str = "", detail: Detail = Detail.NOTHING
) -> Audit:
    """Return the answers about every cluster, without marks. topic: only the topic of this name.

    Topics with equal settings share one search. Raises ScenarioError for an unknown topic or a
    version that is not modelled.
    """
    stated = [one for own in clusters for one in own.stated]
    stated += [one for file in clusters[0].refused for one in file.stated]
    having = [own for own in clusters if any(one.name == topic for one in own.topics)]
    clusters = having if topic and having else clusters
    lookups = Lookups()
    clusters = [lookups.watch(own) for own in clusters]
    every = [_alike(own, topic) for own in clusters]
    answers = tuple(answer for alike in every for answer in _answers(alike, detail))
    return Audit(
        read=_every(own.read for own in clusters),
        refused=clusters[0].refused,
        version=_common([own.kafka for own in clusters]),
        mode=_common([own.mode for own in clusters]),
        answers=answers,
        warnings=_every(
            (*own.warnings, *_newer(own), *_unread(alike))
            for own, alike in zip(clusters, every, strict=True)
        ),
        not_looked_at=_every(_not_looked_at(own) for own in clusters),
        uses=of_audit(
            clusters,
            lookups,
            stated=stated,
            topic=topic,
            refused=all(risk.effect is Effect.REFUSED for one in answers for risk in one.risks)
            and any(one.risks for one in answers),
        ),
    )


def _every(parts: Iterable[Iterable[_Each]]) -> tuple[_Each, ...]:
    """Return the entries of all clusters without repetition; those of a sole cluster unchanged."""
    every = [tuple(part) for part in parts]
    return every[0] if len(every) == 1 else tuple(dict.fromkeys(chain.from_iterable(every)))


def _common(givens: Sequence[Given | None]) -> Given | None:
    """Return the value that all clusters have, with its first source."""
    values = {given.value if given else "" for given in givens}
    return givens[0] if len(values) == 1 else None


class _Kin:
    """What was found for topics that differ only in what Kafka removes of them on purpose."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[Topic, Lost]] = {}

    def found(self, key: object, subject: Subject, setup: Setup) -> Lost:
        """Return the risks of a subject, with the sources of this topic.

        key: what they depend on beside the settings that all topics of the kin have.
        """
        if subject is Subject.TOPIC:
            return _about(subject, setup)
        if key not in self._known:
            self._known[key] = setup.topic, _about(subject, setup)
        topic, found = self._known[key]
        if topic is setup.topic:
            return found
        sources = renamed(topic, setup.topic)
        return replace(found, risks=tuple(with_sources(risk, sources) for risk in found.risks))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alike:
    """Topics with the same settings, which share a search.

    groups: the setups of the first topic, by producer. kin: the same for all topics that differ
    only in what Kafka removes of them, by producer.
    """

    topics: tuple[Topic, ...]
    groups: tuple[tuple[Setup, ...], ...]
    kin: tuple[_Kin, ...]


def _alike(own: OwnConfig, topic: str) -> tuple[_Alike, ...]:
    alike: dict[object, list[Topic]] = {}
    for one in topics_of(own, topic):
        alike.setdefault(_settings(own, one), []).append(one)
    firsts = [topics[0] for topics in alike.values()]
    kin = defaultdict[object, list[_Kin]](list)
    every: list[_Alike] = []
    for topics, groups in zip(alike.values(), of_topics(own, firsts), strict=True):
        known = kin[_settings(own, topics[0], without=removal.DEFAULTS)]
        known += [_Kin() for _ in groups[len(known) :]]
        every.append(_Alike(topics=tuple(topics), groups=groups, kin=tuple(known)))
    return tuple(every)


def _answers(every: Iterable[_Alike], detail: Detail) -> Iterator[Answer]:
    for alike in every:
        first, *others = alike.topics
        pairs = zip(alike.groups, alike.kin, strict=True)
        answers = [_answer(group, detail, kin) for group, kin in pairs]
        yield from answers
        for other in others:
            sources = renamed(first, other)
            yield from (of_topic(answer, other.name, sources) for answer in answers)


def _newer(own: OwnConfig) -> Iterator[str]:
    if own.kafka and (text := other_rules(own.release)):
        yield f"{own.kafka.source}: {text}"


def _unread(every: Iterable[_Alike]) -> Iterable[str]:
    groups = chain.from_iterable(alike.groups for alike in every)
    return dict.fromkeys(text for group in groups for setup in group for text in unread(setup))


def _settings(own: OwnConfig, topic: Topic, *, without: Collection[str] = ()) -> object:
    """Return what decides about the answers for a topic: equal ones share a search."""
    replicas = topic.replication_factor.value if topic.replication_factor else ""
    settings = {key: one.value for key, one in topic.settings.items() if key not in without}
    producers = tuple(one.name if one else "" for one in writers(own, topic))
    return bool(topic.name), replicas, tuple(sorted(settings.items())), producers


def _answer(group: Sequence[Setup], detail: Detail, kin: _Kin | None = None) -> Answer:
    group, assumed = _decisive(group, answered(group, kin))
    first = group[0]
    return Answer(
        topic=first.topic.name,
        producer=first.producer.name if first.producer else "",
        consumer=", ".join(consumer.name for consumer in first.consumers),
        cluster=first.own.cluster,
        version=first.own.kafka,
        settings=_stated(group),
        unstated=tuple(dict.fromkeys(key for setup in group for key in setup.when)),
        risks=tuple(_risks(assumed, group, detail)),
        survives=merging.survives(assumed),
        undecided=merging.undecided(assumed),
        always_lost=all(
            any(risk.effect is Effect.LOST for risk in assumed.of(number))
            for number in range(len(assumed.whens))
        ),
        storage=first.own.storage,
        alternatives=(
            tuple(_alternative(decisions, of) for decisions, of in _changes(group))
            if Detail.CHANGED in detail
            else ()
        ),
        asked=Asked(setups=tuple(group), assumed=assumed),
    )


def with_tables(audit: Audit, detail: Detail, most: int | None = None) -> Audit:
    """Return a finished audit with the tables of its first groups, if `detail` asks for them.

    most: how many groups; None for all.
    """
    if Detail.TABLES not in detail:
        return audit
    groups = [replace(one, answer=_with_table(one.answer, detail)) for one in audit.groups[:most]]
    return replace(audit, groups=(*groups, *audit.groups[len(groups) :]))


def _with_table(answer: Answer, detail: Detail) -> Answer:
    """Return an answer with its table and changes.

    Where little is known, they are those of the answer for usual values, and those for all values
    have no changes, unless `detail` has EVERY_VALUE.
    """
    assert answer.asked
    group = answer.asked.setups
    brief = little_known(answer) and Detail.EVERY_VALUE not in detail
    changes = () if brief else tuple(_changes(group))
    own = group[0].own
    after = [(_head(decisions[-1], own), answered(of)) for decisions, of in changes]
    usually, risks = None, answer.risks
    if not brief:
        risks = tuple(_remedied(risk, group[-1]) for risk in risks)
    if little_known(answer):
        setup, values = usual(group)
        usually = _accepted(_with_table(_answer([setup], detail), detail), answer)
        usually = replace(judged(usually), assumed=values)
    return replace(
        answer,
        risks=risks,
        alternatives=answer.alternatives or tuple(Alternative(changes=one) for one, _ in changes),
        table=table(answer, merging.grid(answer.asked.assumed), after),
        usual=usually,
    )


def _remedied(risk: Risk, last: Setup) -> Risk:
    """Return a risk with the changes of its kind, if they were not searched yet."""
    if risk.unremedied is None:
        return risk
    return with_sources(with_changes(risk, risk.unremedied), partial(_source, setup=last))


def _accepted(usually: Answer, answer: Answer) -> Answer:
    """Return the answer for usual values; what was accepted is accepted there, too."""
    accepted = {(one.effect, one.case, one.failures): one.accepted for one in answer.risks}
    risks = (
        replace(one, accepted=accepted.get((one.effect, one.case, one.failures), ""))
        for one in usually.risks
    )
    return replace(usually, risks=tuple(risks))


def _head(change: Decision, own: OwnConfig) -> tuple[str, str]:
    """Return a change for the head of a column: a chart's own name of a volume is too long."""
    of_storage = own.storage is not None and change.setting == own.storage.setting
    return (STORAGE, Holder.VOLUME) if of_storage else (change.setting, change.change)


def _alternative(changes: tuple[Decision, ...], group: Sequence[Setup]) -> Alternative:
    after = answered(group)
    return Alternative(
        changes=changes,
        risks=tuple(
            with_changes(risk, group[points.bit_length() - 1])
            for risk, points in merging.risks(after)
        ),
        survives=merging.survives(after),
    )


def _decisive(group: Sequence[Setup], assumed: Assumed) -> tuple[Sequence[Setup], Assumed]:
    """Return the setups and their answers.

    If KRaft and ZooKeeper give the same answer, only one of them is kept, and `when` names no mode.
    """
    alike: dict[object, list[int]] = {}
    for number, when in enumerate(assumed.whens):
        alike.setdefault(tuple(_without_mode(when).items()), []).append(number)

    def answer(number: int) -> object:
        return [assumed.risks[part] for part in assumed.parts[number]], assumed.survives[number]

    def changes(number: int) -> object:
        return [with_changes(risk, group[number]).decided_by for risk in assumed.of(number)]

    pairs = [(first, other) for first, *others in alike.values() for other in others]
    if any(of(one) != of(other) for of in (answer, changes) for one, other in pairs):
        return group, assumed
    numbers = sorted(first for first, *_ in alike.values())
    kept = assumed.only(numbers)
    return (
        [replace(group[at], when=_without_mode(group[at].when)) for at in numbers],
        replace(kept, whens=tuple(map(_without_mode, kept.whens))),
    )


def _without_mode(when: When) -> When:
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
    """Return a source; a default of Kafka loses its version if no file states the version."""
    return kafka_default() if setup.own.kafka is None and of_kafka(source) else source


def _changes(group: Sequence[Setup]) -> Iterator[tuple[tuple[Decision, ...], list[Setup]]]:
    """Yield one change, two changes and so on, each time the best, with the setups after them."""
    changes: tuple[Decision, ...] = ()
    for change, changed in best(group, most=_MOST_CHANGES, loses_more=loses_more):
        changes = (*changes, *with_prices([change], group))
        different = {tuple(one.when.items()): one for one in changed}  # some have become alike
        yield changes, [*different.values()]


def _order(risk: Risk) -> tuple[int, ...]:
    return (list(Effect).index(risk.effect), *how_rare(risk.failures), len(risk.when))


def answered(setups: Iterable[Setup], kin: _Kin | None = None) -> Assumed:
    """Return the answer of each setup of a topic and producer; alike ones are answered once.

    kin: what is known of topics with which this one shares settings.
    """
    kin = kin or _Kin()
    parts: list[tuple[Risk, ...]] = []
    known: dict[object, tuple[int, Lost]] = {}
    answers: list[_One] = []

    def part(risks: Iterable[Risk]) -> int:
        parts.append(tuple(risks))
        return len(parts) - 1

    def once(subject: Subject, setup: Setup) -> tuple[int, Lost]:
        ignored = INDEPENDENT_OF[subject]
        when = tuple(pair for pair in setup.when.items() if pair[0] not in ignored)
        acks = "" if ACKS in ignored else setup.partition.acks
        waits = _WAITS not in ignored and setup.partition.acks == "all"
        key = (subject, when, acks, waits, setup.refusal)
        if key not in known:
            found = kin.found(key, subject, setup)
            known[key] = part(found.risks), found
        return known[key]

    for setup in setups:
        if refusals := _found(Subject.REFUSED, setup):  # nothing starts, so nothing else happens
            answers.append((setup.when, (part(refusals),), (), ()))
            continue
        number, losses = once(Subject.LOSSES, setup)
        others = (once(subject, setup)[0] for subject in _OTHERS)
        answers.append((setup.when, (number, *others), losses.survives, losses.undecided))
    whens, of_each, survives, undecided = zip(*answers, strict=True)
    return Assumed(
        whens=whens,
        risks=tuple(parts),
        parts=of_each,
        survives=survives,
        undecided=undecided,
    )


_Failures = tuple[Failures, ...]
_One = tuple[When, tuple[int, ...], _Failures, _Failures]


def _about(subject: Subject, setup: Setup) -> Lost:
    """Return the risks of a subject; only those of losses decide what is survived."""
    if subject is Subject.LOSSES:
        return _losses(setup)
    return Lost(risks=_found(subject, setup), survives=(), undecided=())


def _found(subject: Subject, setup: Setup) -> tuple[Risk, ...]:
    """Return the risks of all kinds of a subject."""
    return tuple(risk for find in of_subject(subject) for risk in find(setup))


def _losses(setup: Setup) -> Lost:
    """Return all losses by brokers and by defects of clients."""
    losses = lost(setup)
    others = [
        risk
        for risk in _found(Subject.LOSSES, setup)
        if not any(covers(one.failures, risk.failures) for one in losses.risks)
    ]
    return Lost(
        risks=(*losses.risks, *others),
        survives=largest_without(losses.survives, tuple(one.failures for one in others)),
        undecided=tuple(
            one
            for one in losses.undecided
            if not any(covers(risk.failures, one) for risk in others)
        ),
    )


def loses_more(after: Setup, before: Setup) -> bool:
    """Whether some failures lose after a change and did not before it.

    Failures that are undecided afterwards count if they are at most two.
    """
    now, then = _losing(after), _losing(before)
    doubtful = [*then, *_undecided(before)]
    return any(not _covered(one, then) for one in now) or any(
        len(one) < 3 and not _covered(one, doubtful) for one in _undecided(after)
    )


def _losing(setup: Setup) -> list[Failures]:
    searched = [failures_of(one.failures) for one in found_sets(setup).losing if not one.rare]
    return [*searched, *(risk.failures for risk in _found(Subject.LOSSES, setup))]


def _undecided(setup: Setup) -> list[Failures]:
    return [failures_of(one) for one in found_sets(setup).undecided]


def _covered(failures: Failures, sets: Sequence[Failures]) -> bool:
    return any(covers(one, failures) for one in sets)


_OTHERS = (Subject.PRODUCER, Subject.CONSUMERS, Subject.CLUSTER, Subject.TOPIC)
_RESENDING = (CLIENT, ENABLE_IDEMPOTENCE)
#: Whether acks is `all`, which may decide where nothing else about acks does.
_WAITS = "acks=all"
#: The assumed values on which the risks of a subject do not depend.
INDEPENDENT_OF: Mapping[Subject, tuple[str, ...]] = {
    Subject.LOSSES: _RESENDING,
    Subject.PRODUCER: (MINIMUM, UNCLEAN, RACKS),
    Subject.CONSUMERS: (*_RESENDING, ACKS, _WAITS, LIBRARY),
    Subject.CLUSTER: (*_RESENDING, ACKS, LIBRARY, RACKS),
    Subject.TOPIC: (*_RESENDING, ACKS, _WAITS, LIBRARY, RACKS, REPLICAS, MINIMUM, UNCLEAN),
}


def _risks(assumed: Assumed, group: Sequence[Setup], detail: Detail) -> Iterator[Risk]:
    """Yield the merged risks, losses first, with their changes and traces as far as shown."""
    for risk, points in sorted(merging.risks(assumed), key=lambda pair: _order(pair[0])):
        last = group[points.bit_length() - 1]
        if Detail.REMEDIES in detail or risk.effect is Effect.REFUSED:  # a table lists these
            having = [one for at, one in enumerate(group) if points >> at & 1]
            whole = _with_remedies(risk, having, of=group[-1])
        else:
            later = without_changes(risk, last)
            whole = with_sources(later, partial(_source, setup=group[-1]))
        if risk.kind is LOSSES:
            traces = Detail.TRACES in detail
            whole = traced(last, whole) if traces else replace(whole, untraced=last)
        yield whole


def _with_remedies(risk: Risk, having: Sequence[Setup], *, of: Setup) -> Risk:
    """Return a risk with the changes that remove it, and with their prices.

    having: the setups that have it. of: the last setup of its answer.
    """
    if risk.kind is LOSSES:
        risk = replace(risk, decided_by=decided_by(having, risk.failures))
    else:
        risk = with_changes(risk, having[-1])
    priced = replace(risk, decided_by=with_prices(risk.decided_by, having))
    return with_sources(priced, partial(_source, setup=of))


def _not_looked_at(own: OwnConfig) -> Iterator[str]:
    yield from _NOT_LOOKED_AT
    if not own.consumers:
        yield _NO_CONSUMER
    if not own.defaults_hold:
        yield _NO_BROKERS
    yield from _open_removal(own)
    settings: Iterable[Mapping[str, Given]] = (own.broker, *(one.settings for one in own.topics))
    for given in settings:
        values = {key: one.value for key, one in given.items()}
        for key, text in beyond(values):
            yield f"{key} ({given[key].source}): {text}"


def _open_removal(own: OwnConfig) -> Iterator[str]:
    """Yield what may remove records and is open: settings that something else fills in."""
    names = {name for key in removal.DEFAULTS for name in removal.setting_names(key)}
    places = dict.fromkeys(
        given.source
        for settings in (own.broker, *(one.settings for one in own.topics))
        for key, given in settings.items()
        if key in names and not given.value
    )
    if places:
        first, *others = places
        more = f" and {len(others)} more" if others else ""
        yield f"retention and compaction, which something else fills in ({first}{more})"
