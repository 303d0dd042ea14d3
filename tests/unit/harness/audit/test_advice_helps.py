"""Every proposed change is made in the configuration, and the audit is asked again.

It removes the risk that it names, makes no row about records worse, and can be made at all.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest

from ackproof.audit.answer import Answer, Decision, Effect, Risk
from ackproof.audit.auditing import audit_clusters
from ackproof.audit.detail import Detail
from ackproof.audit.failure import covers
from ackproof.errors import ScenarioError
from ackproof.own_config.configuration import Client, Count, Given, Holder, NoFile, OwnConfig
from ackproof.own_config.reading import read_clusters
from ackproof_model.removal import setting_names

DATA = Path(__file__).parents[3] / "data"
FILES = sorted(
    path
    for folder in ("own_config", "cases")
    for path in (DATA / folder).iterdir()
    if path.is_file() and path.name not in ("expected.json", "refused.json")
)
ON_RECORDS = (
    Effect.LOST,
    Effect.DUPLICATED,
    Effect.REORDERED,
    Effect.UNPROCESSED,
    Effect.REPROCESSED,
    Effect.REMOVED,
    Effect.REFUSED,
)
OF_CLIENTS = frozenset(
    (
        "acks",
        "auto.offset.reset",
        "delivery.timeout.ms",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "isolation.level",
        "max.in.flight.requests.per.connection",
        "retries",
        "transaction.timeout.ms",
        "transactional.id",
    )
)
OF_TOPICS = frozenset(
    (
        "min.insync.replicas",
        "unclean.leader.election.enable",
        "retention.ms",
        "retention.bytes",
        "cleanup.policy",
    )
)


def given(value: str) -> Given:
    return Given(value, NoFile.CHANGED)


def made(own: OwnConfig, change: Decision) -> OwnConfig | None:
    """Return the configuration with a change; None for a change in words."""
    setting, value = change.setting, change.change
    if setting == "kafka.version":
        return replace(own, kafka=given("4.1.0"), mode=given("kraft"), since=None, below=None)
    if setting == "brokers":
        offsets = {"offsets.topic.replication.factor": given(value)}
        return replace(
            _with_replicas(own, value),
            brokers=Count(int(value), NoFile.CHANGED),
            broker={**own.broker, "default.replication.factor": given(value), **offsets},
            combined=None,
            controllers=None,
        )
    if own.storage and setting == own.storage.setting:
        return replace(own, storage=replace(own.storage, holder=Holder.VOLUME))
    if setting == "replication.factor":
        return _with_replicas(own, value)
    if any(setting.endswith(name) for name in OF_CLIENTS):
        return _with_clients(own, setting, value)
    return _with_brokers(own, setting, value)


def _with_replicas(own: OwnConfig, value: str) -> OwnConfig:
    topics = tuple(replace(one, replication_factor=given(value)) for one in own.topics)
    broker = {**own.broker, "default.replication.factor": given(value)}
    return replace(own, topics=topics, broker=broker)


def _with_clients(own: OwnConfig, setting: str, value: str) -> OwnConfig | None:
    if " " in value or not own.producers or not own.consumers:
        return None  # in words, or no file to change
    return replace(
        own,
        producers=tuple(_client(one, setting, value) for one in own.producers),
        consumers=tuple(_client(one, setting, value) for one in own.consumers),
    )


def _with_brokers(own: OwnConfig, setting: str, value: str) -> OwnConfig | None:
    names = setting_names(setting)[1:] or (setting,)
    new = {name: given(value) for name in names}
    if setting in OF_TOPICS:
        topics = (
            replace(one, settings={**one.settings, setting: given(value)}) for one in own.topics
        )
        own = replace(own, topics=tuple(topics))
    elif not setting.startswith(("log.", "eligible.", "offsets.")):
        return None
    return replace(
        own,
        broker={**own.broker, **new},
        controller={**own.controller, **new} if own.controller else {},
        dynamic={**own.dynamic, **new},
    )


def _client(one: Client, setting: str, value: str) -> Client:
    name = setting.removeprefix(one.prefix)
    return replace(one, settings={**one.settings, name: given(value)})


@dataclass(frozen=True, kw_only=True)
class Trial:
    change: Decision
    named: tuple[Risk, ...]


def trials(answer: Answer) -> Iterator[Trial]:
    """Yield each change with the risks that it alone removes; first the first one of the table."""
    named: dict[tuple[str, str], list[Risk]] = {}
    changes: dict[tuple[str, str], Decision] = {}
    for one in answer.alternatives[:1]:
        first = one.changes[0]
        changes[first.setting, first.change] = first
    for risk in answer.risks:
        for change in risk.decided_by:
            of_offsets = risk.case == "B27" and change.setting in OF_TOPICS
            if not change.together_with and not of_offsets:  # not for every topic
                key = (change.setting, change.change)
                changes.setdefault(key, change)
                named.setdefault(key, []).append(risk)
    for key, change in changes.items():
        yield Trial(change=change, named=tuple(named.get(key, ())))


def _values(risk: Risk) -> Iterator[dict[str, str]]:
    """Yield each combination of the assumed values for which a risk holds."""
    split = {key: str(value).split(" or ") for key, value in risk.when.items()}
    for values in product(*split.values()):
        yield dict(zip(split, values, strict=True))


def added(risk: Risk, before: Answer, trial: Trial) -> bool:
    """Whether a risk is new, for some values for which the change is proposed."""
    others = [
        other
        for other in before.risks
        if other.effect is risk.effect and covers(other.failures, risk.failures)
    ]
    proposed = [values for one in trial.named for values in _values(one)] or [{}]
    return any(
        not any(_holds(other, values) for other in others)
        for values in _values(risk)
        if any(_agree(values, named) for named in proposed)
    )


def _agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return all(one[key] == other[key] for key in one.keys() & other.keys())


def _holds(risk: Risk, values: Mapping[str, str]) -> bool:
    return all(
        key not in values or values[key] in str(value).split(" or ")
        for key, value in risk.when.items()
    )


def faults(own: OwnConfig) -> Iterator[str]:
    for answer in audit_clusters([own], detail=Detail.CHANGED).answers:
        for trial in trials(answer):
            yield from _faults(own, answer, trial)


def _faults(own: OwnConfig, answer: Answer, trial: Trial) -> Iterator[str]:
    change = trial.change
    said = f"{answer.topic}/{answer.producer}: {change.setting}={change.change}"
    if change.value == change.change:
        yield f"{said}: is there already"
        return
    most = own.brokers.value if own.brokers else math.inf
    if change.setting == "replication.factor" and int(change.change) > most:
        yield f"{said}: only {most} brokers"
    after = made(own, change)
    if after is None:
        return
    again = {(one.topic, one.producer): one for one in audit_clusters([after]).answers}
    changed = again.get((answer.topic, answer.producer))
    if changed is None:
        yield f"{said}: no answer after it"
        return
    began = any(not risk.failures and risk.likelihood == "certain" for risk in trial.named)
    for risk in changed.risks:
        worse = risk.effect in ON_RECORDS and not began and not _excepted(risk, change)
        if worse and added(risk, answer, trial):
            yield f"{said}: new: {_shown(risk)}"
    for risk in trial.named:
        if any(
            other.effect is risk.effect
            and other.failures == risk.failures
            and other.case == risk.case
            and other.text == risk.text
            and dict(other.when) == dict(risk.when)
            for other in changed.risks
        ):
            yield f"{said}: still: {_shown(risk)}"


def _shown(risk: Risk) -> str:
    return f"{risk.effect} {'+'.join(risk.failures)} {dict(risk.when)} {risk.case} {risk.text}"


#: Cases of acks=0 and acks=1 with several replicas, and of plain producers.
_OF_SEVERAL_REPLICAS = ("B1", "B2", "B3", "B53", "B17", "B18")


def _excepted(risk: Risk, change: Decision) -> bool:
    """Whether a change is known to have this risk as its price, or the risk is not new.

    acks=all: while followers lag the leader answers NOT_ENOUGH_REPLICAS_AFTER_APPEND, and a plain
    producer sends again; enable.idempotence=true stands beside it. auto.offset.reset=earliest:
    what was skipped is repeated. brokers: with acks=1 a sole replica waits for its broker, and
    several elect another; acks=all stands beside it. B27: reported only where the topic itself
    loses nothing, so a safer topic shows it.
    """
    return (
        (change.setting.endswith("acks") and risk.case in ("B17", "B18"))
        or (change.setting.endswith("auto.offset.reset") and risk.effect is Effect.REPROCESSED)
        or (change.setting == "brokers" and risk.case in _OF_SEVERAL_REPLICAS)
        or (risk.case == "B27" and len(risk.failures) > 1)
    )


#: `ACKPROOF_ALL_ADVICE=1` takes every input (two minutes).
_SAMPLE = FILES if os.environ.get("ACKPROOF_ALL_ADVICE") else FILES[::15]


@pytest.mark.parametrize("file", _SAMPLE, ids=lambda file: file.name)
def test_a_proposed_change_can_be_made_and_helps(file: Path) -> None:
    try:
        clusters = read_clusters([file], kafka="3.9.1")
    except ScenarioError:
        pytest.skip("not a configuration of one kind")
    assert not [fault for own in clusters if own.read for fault in faults(own)]


def test_the_trial_finds_an_advice_that_loses_more() -> None:
    """The control: one replica in sync instead of two, proposed against writes that stop."""
    [own] = read_clusters(
        [
            DATA / "cases" / name
            for name in ("min-kraft-three.properties", "min-producer.properties")
        ],
        kafka="4.4.0",
    )
    [answer] = audit_clusters([own], detail=Detail.CHANGED).answers
    bad = Decision(setting="min.insync.replicas", value="2", source=NoFile.CHANGED, change="1")
    assert any("new: lost" in fault for fault in _faults(own, answer, Trial(change=bad, named=())))
    there = replace(bad, change="2")
    [fault] = _faults(own, answer, Trial(change=there, named=()))
    assert fault.endswith("is there already")
