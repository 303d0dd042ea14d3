"""Makes each change that an audit proposes, and audits again: what is worse, or still there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

from ackproof.audit import merging
from ackproof.audit.answer import Answer, Decision, Effect, Risk
from ackproof.audit.auditing import answered, audit_clusters
from ackproof.audit.detail import Detail
from ackproof.audit.failure import Failure, Failures, covers
from ackproof.audit.setups import hidden, setups
from ackproof.kafka_versions import DEFAULT_KAFKA, numbers
from ackproof.own_config.configuration import (
    Client,
    Count,
    Given,
    Holder,
    NoFile,
    OwnConfig,
    Topic,
)
from ackproof.safer_settings import BROKERS, KAFKA, spelled
from ackproof_model import kafka_settings as names
from ackproof_model.configuration import Profile
from ackproof_model.removal import setting_names
from support.questions import key, question

After = Mapping[tuple[str, str], tuple[Risk, ...]]
"""The risks by topic and producer, after a change."""

ON_RECORDS = (
    Effect.LOST,
    Effect.DUPLICATED,
    Effect.REORDERED,
    Effect.UNPROCESSED,
    Effect.REPROCESSED,
    Effect.REMOVED,
    Effect.REFUSED,
)
STOPS = (Effect.WRITES_STOP, Effect.READS_STOP)
OF_CONSUMERS = (
    "auto.offset.reset",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "isolation.level",
)
OF_PRODUCERS = (
    "acks",
    "delivery.timeout.ms",
    "enable.idempotence",
    "max.in.flight.requests.per.connection",
    "retries",
    "transaction.timeout.ms",
    "transactional.id",
)
OF_TOPICS = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "retention.ms",
    "retention.bytes",
    "cleanup.policy",
)


def given(value: str) -> Given:
    return Given(value, NoFile.CHANGED)


def made(own: OwnConfig, change: Decision) -> OwnConfig | None:
    """Return the configuration with a change and the one that it needs; None for one in words."""
    after = _with(own, change.setting, change.change, change.topic)
    for pair in filter(None, change.together_with.split(" and ")):
        setting, _, value = pair.partition("=")
        after = after and _with(after, setting, value, change.topic)
    return after


def _with(own: OwnConfig, setting: str, value: str, topic: str) -> OwnConfig | None:
    if topic:
        return _of_offsets(own, setting, value, topic)
    if own.storage and setting == own.storage.setting:
        return replace(own, storage=replace(own.storage, holder=Holder.VOLUME))
    if setting in _OF_CLUSTERS:
        return _OF_CLUSTERS[setting](own, value)
    if any(setting.endswith(name) for name in (*OF_CONSUMERS, *OF_PRODUCERS)):
        return _with_clients(own, setting, value)
    return _with_brokers(own, setting, value)


def _of_offsets(own: OwnConfig, setting: str, value: str, topic: str) -> OwnConfig | None:
    """Return the configuration with a change of the offsets topic, or of brokers for its sake."""
    if setting in OF_TOPICS:
        return _with_topic(own, topic, settings={setting: given(value)})
    if setting == BROKERS:
        offsets = {names.OFFSETS_TOPIC_REPLICATION_FACTOR: given(value)}
        own = replace(own, broker={**own.broker, **offsets}, combined=None, controllers=None)
        return replace(own, brokers=Count(int(value), NoFile.CHANGED))
    if setting == KAFKA:
        return _with_version(own, value)
    if any(one.name == topic for one in own.topics):
        return _with_topic(own, topic, replication_factor=given(value))
    return _with(own, setting, value, "")


def _with_version(own: OwnConfig, value: str) -> OwnConfig:
    newest = max("4.1.0", own.release, key=numbers) if own.kafka else DEFAULT_KAFKA
    return replace(own, kafka=given(newest), mode=given("kraft"), since=None, below=None)


def _with_more_brokers(own: OwnConfig, value: str) -> OwnConfig:
    offsets = {names.OFFSETS_TOPIC_REPLICATION_FACTOR: given(value)}
    return replace(
        _with_replicas(own, value),
        brokers=Count(int(value), NoFile.CHANGED),
        broker={**own.broker, names.DEFAULT_REPLICATION_FACTOR: given(value), **offsets},
        combined=None,
        controllers=None,
    )


def _with_racks(own: OwnConfig, value: str) -> OwnConfig:
    number = next(one for one in range(1, 10) if value == f"{spelled(one)} racks")
    return replace(own, racks={str(one): given(f"rack-{one}") for one in range(number)})


def _with_replicas(own: OwnConfig, value: str) -> OwnConfig:
    topics = tuple(replace(one, replication_factor=given(value)) for one in own.topics)
    broker = {**own.broker, names.DEFAULT_REPLICATION_FACTOR: given(value)}
    return replace(own, topics=topics, broker=broker)


def _with_topic(
    own: OwnConfig,
    name: str,
    *,
    replication_factor: Given | None = None,
    settings: Mapping[str, Given] | None = None,
) -> OwnConfig:
    topic = next((one for one in own.topics if one.name == name), Topic(name=name, internal=True))
    changed = replace(
        topic,
        settings={**topic.settings, **(settings or {})},
        replication_factor=replication_factor or topic.replication_factor,
    )
    return replace(own, topics=(*(one for one in own.topics if one.name != name), changed))


def _with_clients(own: OwnConfig, setting: str, value: str) -> OwnConfig | None:
    if " " in value:
        return None
    kind = "consumers" if setting.endswith(OF_CONSUMERS) else "producers"
    clients: tuple[Client, ...] = getattr(own, kind)
    if not clients:
        return None  # a client of which nothing is known would have risks of its own
    changed = {kind: tuple(_client(one, setting, value) for one in clients)}
    return replace(own, **changed)


def _client(one: Client, setting: str, value: str) -> Client:
    name = setting.removeprefix(one.prefix)
    return replace(one, settings={**one.settings, name: given(value)})


def _with_brokers(own: OwnConfig, setting: str, value: str) -> OwnConfig | None:
    new = {name: given(value) for name in setting_names(setting)[1:] or (setting,)}
    if setting in OF_TOPICS:
        topics = tuple(
            replace(one, settings={**one.settings, setting: given(value)}) for one in own.topics
        )
        own = replace(own, topics=topics)
    elif not setting.startswith(("log.", "eligible.", "offsets.")):
        return None
    return replace(
        own,
        broker={**own.broker, **new},
        controller={**own.controller, **new} if own.controller else {},
        dynamic={**own.dynamic, **new},
    )


_OF_CLUSTERS = {
    KAFKA: _with_version,
    BROKERS: _with_more_brokers,
    names.BROKER_RACK: _with_racks,
    names.REPLICATION_FACTOR: _with_replicas,
}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A change with the risks that it should remove."""

    change: Decision
    named: tuple[Risk, ...] = ()


def trials(answer: Answer) -> Iterator[Trial]:
    """Yield each change with the risks that it removes; first the first one of the table.

    A change has another price where other values are assumed.
    """
    named: dict[object, list[Risk]] = {}
    changes: dict[object, Decision] = {}
    for one in answer.alternatives[:1]:
        changes[_key(one.changes[0]), one.changes[0].stops] = one.changes[0]
    for risk in answer.risks:
        for change in risk.decided_by:
            name = _key(change), change.stops
            changes.setdefault(name, change)
            named.setdefault(name, []).append(risk)
    for name, change in changes.items():
        yield Trial(change=change, named=tuple(named.get(name, ())))


def _key(change: Decision) -> tuple[str, ...]:
    return (change.topic, change.setting, change.change, change.together_with)


def _values(risk: Risk) -> Iterator[dict[str, str]]:
    """Yield each combination of the assumed values for which a risk holds."""
    split = {key: str(value).split(" or ") for key, value in risk.when.items()}
    for values in product(*split.values()):
        yield dict(zip(split, values, strict=True))


@dataclass(frozen=True)
class Before:
    """An answer. covering: its risks that larger sets of failures have, too, by what is asked."""

    answer: Answer
    covering: dict[tuple[Effect, Failures], tuple[Risk, ...]] = field(default_factory=dict)

    @cached_property
    def refusals(self) -> tuple[Risk, ...]:
        """The risks by which no record is acked, whatever fails."""
        return tuple(
            risk
            for risk in self.answer.risks
            if risk.effect in (Effect.WRITES_STOP, Effect.REFUSED)
            and risk.likelihood == "certain"
            and not risk.failures
        )

    def of(self, risk: Risk) -> tuple[Risk, ...]:
        name = risk.effect, risk.failures
        if name not in self.covering:
            self.covering[name] = tuple(
                other
                for other in self.answer.risks
                if other.effect is risk.effect and covers(other.failures, risk.failures)
            )
        return self.covering[name]


def added(risk: Risk, before: Before, trial: Trial) -> bool:
    """Whether a risk is new, for some values for which the change is proposed."""
    others = before.of(risk)
    if any(not other.when for other in others):
        return False
    proposed = [values for one in trial.named for values in _values(one)] or [{}]
    return any(
        not any(_holds(other, values) for other in others)
        for values in _values(risk)
        if not _refused(values, before)
        and any(
            _agree(values, named) and _asked(values, named, before.answer) for named in proposed
        )
    )


def _refused(values: Mapping[str, str], before: Before) -> bool:
    """Whether no record was acked before, which is neither lost nor written twice."""
    return any({*one.when} <= {*values} and _holds(one, values) for one in before.refusals)


def _asked(values: Mapping[str, str], named: Mapping[str, str], before: Answer) -> bool:
    """Whether the values were possible before.

    A topic has at most as many replicas as there are brokers, and one replica has no second
    min.insync.replicas.
    """
    factor = before.settings.get(names.REPLICATION_FACTOR)
    replicas = named.get(names.REPLICATION_FACTOR, factor.value if factor else "")
    assumed = set(before.unstated) - ({names.MIN_INSYNC_REPLICAS} if replicas == "1" else set())
    brokers = before.asked.setups[0].own.brokers if before.asked else None
    return assumed.issuperset(
        values.keys() & {names.MIN_INSYNC_REPLICAS, names.REPLICATION_FACTOR}
    ) and not (brokers and int(values.get(names.REPLICATION_FACTOR, "1")) > brokers.value)


def _agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return all(one[key] == other[key] for key in one.keys() & other.keys())


def _holds(risk: Risk, values: Mapping[str, str]) -> bool:
    return all(
        key not in values or values[key] in str(value).split(" or ")
        for key, value in risk.when.items()
    )


@dataclass(frozen=True, slots=True)
class Trials:
    """Tries the changes that are proposed for configurations; equal questions are asked once.

    faults: what is wrong with the changes, by question. after: the risks of changed ones.
    """

    faults: dict[str, tuple[str, ...]] = field(default_factory=dict)
    after: dict[str, After] = field(default_factory=dict)

    def of(self, own: OwnConfig) -> tuple[str, ...]:
        """Return what is wrong with the changes that are proposed for a configuration."""
        asked = question(own)
        name = key(asked)
        if name not in self.faults:
            self.faults[name] = tuple(self._faults(asked))
        return self.faults[name]

    def _faults(self, own: OwnConfig) -> Iterator[str]:
        for answer in audit_clusters([own], detail=Detail.CHANGED | Detail.REMEDIES).answers:
            before = Before(answer)
            for trial in trials(answer):
                yield from faults_of(own, before, trial, self.risks_of(made(own, trial.change)))

    def risks_of(self, own: OwnConfig | None) -> After:
        """Return the risks of a configuration; none for a change that cannot be made here."""
        if own is None:
            return {}
        name = key(own)
        if name not in self.after:
            self.after[name] = _risks(own)
        return self.after[name]


def _risks(own: OwnConfig) -> After:
    """Return the risks by topic and producer as an audit has them, but without their changes."""
    visible = [one for one in own.topics if not hidden(one)]
    others = tuple(one for one in own.topics if hidden(one))
    alone = [replace(own, topics=(one, *others)) for one in visible]
    if all(one.internal for one in visible):
        alone.append(replace(own, topics=others))
    return {
        (group[0].topic.name, group[0].producer.name if group[0].producer else ""): tuple(
            risk for risk, _ in merging.risks(answered(group))
        )
        for one in alone
        for group in setups(one)
    }


def faults_of(
    own: OwnConfig, before: Before, trial: Trial, after: After | None = None
) -> Iterator[str]:
    """Yield what is wrong with a change. after: the risks with it; empty for one in words."""
    change, answer = trial.change, before.answer
    which = f"{answer.topic}/{answer.producer}: {'/'.join(filter(None, _key(change)))}"
    if change.value == change.change:
        yield f"{which}: is there already"
        return
    most = own.brokers.value if own.brokers else math.inf
    if change.setting == names.REPLICATION_FACTOR and int(change.change) > most:
        yield f"{which}: only {most} brokers"
    if after is None:
        changed_own = made(own, change)
        after = {} if changed_own is None else _risks(changed_own)
    if not after:
        return
    changed = after.get((answer.topic, answer.producer))
    if changed is None:
        yield f"{which}: no answer after it"
        return
    began = any(not risk.failures and risk.likelihood == "certain" for risk in trial.named)
    for risk in changed if not began else ():
        if (
            risk.effect in ON_RECORDS
            and not excepted(risk, change, own.release)
            and added(risk, before, trial)
        ):
            yield f"{which}: new: {_shown(risk)}"
        unnamed = risk.effect in STOPS and risk.effect not in change.stops
        if unnamed and added(risk, before, trial):
            yield f"{which}: a price without a name: {_shown(risk)}"
    for risk in trial.named:
        if any(
            other.effect is risk.effect
            and other.failures == risk.failures
            and other.case == risk.case
            and other.text == risk.text
            and dict(other.when) == dict(risk.when)
            for other in changed
        ):
            yield f"{which}: still: {_shown(risk)}"


def _shown(risk: Risk) -> str:
    return f"{risk.effect} {'+'.join(risk.failures)} {dict(risk.when)} {risk.case} {risk.text}"


def excepted(risk: Risk, change: Decision, kafka: str) -> bool:
    """Whether a change is known to have this risk as its price, or the risk is not new.

    Before 0.11 no producer is idempotent, so that acks=all has its duplicates as a price, which the
    cost names.
    auto.offset.reset=earliest: what was skipped is repeated, which is the purpose.
    B12: rare, and only a partition with several replicas can have it; the upgrade stands beside.
    B27: several failures are reported only where the topic itself loses nothing by them, and an
    assumed number of replicas only where min.insync.replicas is assumed: a safer topic shows more.
    Before 3.7 an offsets topic with fewer replicas than its minimum accepts nothing to be lost.
    B55, B56, B57: rare; older brokers do not have the first, only three replicas can have the
    second, only eligible leader replicas the third.
    Replicas can be moved only where there are more brokers than replicas.
    """
    brokers = change.setting == BROKERS or f"{BROKERS}=" in change.together_with
    more = brokers or change.setting == names.REPLICATION_FACTOR
    more |= f"{names.REPLICATION_FACTOR}=" in change.together_with
    assumed = names.OFFSETS_TOPIC_REPLICATION_FACTOR in risk.when
    plain = bool(kafka) and not Profile.of(kafka).transactions
    return (
        (plain and risk.case in ("B17", "B18"))
        or (change.setting.endswith("auto.offset.reset") and risk.effect is Effect.REPROCESSED)
        or (risk.case == "B12" and more)
        or (brokers and Failure.REASSIGNMENT in risk.failures)
        or (risk.rare and risk.case in ("B55", "B56", "B57"))
        or (risk.case == "B27" and (len(risk.failures) > 1 or assumed or change.setting == KAFKA))
        or (risk.case == "B27" and f"{KAFKA}=" in change.together_with)
    )
