"""Every proposed change is made in the configuration, and the audit is asked again.

It removes the risk that it names, makes no row about records worse, names as its price what stops
after fewer failures, and can be made at all. `ci/lab/audit-advice` takes every input and version.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from ackproof.audit.answer import Answer, Decision, Effect, Risk
from ackproof.audit.auditing import audit_clusters
from ackproof.audit.detail import Detail
from ackproof.errors import ScenarioError
from ackproof.own_config.configuration import Count, Given, NoFile, OwnConfig, kafka_default
from ackproof.own_config.reading import read_clusters, read_texts
from support import sampling
from support.advice import Before, Trial, Trials, faults_of
from support.inputs import DATA, FILES, VERSIONS
from support.questions import key, question

TRIALS = Trials()
#: Inputs with changes that the whole trial found wrong once.
_ONCE_WRONG = {
    ("compose-confluent.yml", "2.0.1"),
    ("configmap-quoted.json", "3.6.2"),
    ("strimzi-pods.yaml", "2.3.1"),
}
_PAIRS = [
    (file, version)
    for file, version in product(FILES, VERSIONS)
    if sampling.drawn(f"{file.name} {version}", one_of=240) or (file.name, version) in _ONCE_WRONG
]


@pytest.mark.parametrize(("file", "version"), _PAIRS, ids=lambda one: getattr(one, "name", one))
def test_a_proposed_change_can_be_made_and_helps(file: Path, version: str) -> None:
    try:
        clusters = read_clusters([file], kafka=version)
        found = [fault for own in clusters if own.read for fault in TRIALS.of(own)]
    except ScenarioError:
        pytest.skip("not a configuration of this version")
    assert not found


@pytest.fixture(scope="module")
def own() -> OwnConfig:
    files = ("min-kraft-three.properties", "min-producer.properties")
    [only] = read_clusters([DATA / "cases" / name for name in files], kafka="4.4.0")
    return only


@pytest.fixture(scope="module")
def answer(own: OwnConfig) -> Answer:
    [only] = audit_clusters([own], detail=Detail.CHANGED | Detail.REMEDIES).answers
    return only


_MINIMUM = Decision(setting="min.insync.replicas", value="2", source=NoFile.CHANGED, change="1")


def _found(own: OwnConfig, answer: Answer, change: Decision) -> list[str]:
    return [*faults_of(own, Before(answer), Trial(change=change))]


def test_the_trial_finds_an_advice_that_loses_more(own: OwnConfig, answer: Answer) -> None:
    """The control: one replica in sync instead of two, proposed against writes that stop."""
    assert any("new: lost" in fault for fault in _found(own, answer, _MINIMUM))


def test_the_trial_finds_a_value_that_is_there(own: OwnConfig, answer: Answer) -> None:
    [fault] = _found(own, answer, replace(_MINIMUM, change="2"))
    assert fault.endswith("is there already")


def test_the_trial_finds_more_replicas_than_brokers(own: OwnConfig, answer: Answer) -> None:
    few = replace(own, brokers=Count(1, NoFile.CHANGED))
    more = replace(_MINIMUM, setting="replication.factor", value="1", change="3")
    assert any(fault.endswith("only 1 brokers") for fault in _found(few, answer, more))


def test_the_trial_finds_a_price_without_a_name(own: OwnConfig, answer: Answer) -> None:
    dear = replace(_MINIMUM, change="3")
    [fault] = _found(own, answer, dear)
    assert "a price without a name: writes_stop crash" in fault
    assert not _found(own, answer, replace(dear, stops=(Effect.WRITES_STOP,)))


def test_the_trial_finds_a_change_that_removes_nothing(own: OwnConfig, answer: Answer) -> None:
    lost = next(risk for risk in answer.risks if risk.effect is Effect.LOST)
    useless = Decision(setting="acks", value="", source=NoFile.CHANGED, change="all")
    trial = Trial(change=useless, named=(lost,))
    assert any("still: lost" in fault for fault in faults_of(own, Before(answer), trial))


def test_the_trial_makes_the_second_change_of_a_pair(own: OwnConfig, answer: Answer) -> None:
    """The control: alone the first one is harmless, and the second loses more."""
    flush = Decision(
        setting="log.flush.interval.messages", value="", source=NoFile.CHANGED, change="1"
    )
    assert not _found(own, answer, flush)
    pair = replace(flush, together_with="min.insync.replicas=1")
    assert any("new: lost" in fault for fault in _found(own, answer, pair))


BROKERS = (
    "process.roles=broker,controller\nnode.id=1\n"
    "controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093\n"
)


@pytest.mark.parametrize(
    ("kafka", "brokers", "producer"),
    [
        pytest.param("3.9.2", "default.replication.factor=1\n", "acks=1\n", id="a sole copy"),
        pytest.param("0.10.2.2", "min.insync.replicas=2\n", "", id="unclean election by default"),
        pytest.param(
            "0.10.2.2", "unclean.leader.election.enable=true\n", "acks=all\n", id="stated"
        ),
    ],
)
def test_changes_of_small_inputs_help(kafka: str, brokers: str, producer: str) -> None:
    broker = BROKERS if kafka > "3" else "broker.id=1\nzookeeper.connect=a:2181\n"
    texts = {"server.properties": broker + brokers}
    texts |= {"p.properties": f"{producer}retries=5\n"} if producer else {}
    files = {name: text.encode() for name, text in texts.items()}
    assert not [fault for own in read_texts(files, kafka=kafka) for fault in Trials().of(own)]


def plain(risks: Iterable[Risk]) -> list[str]:
    return sorted(
        repr((one.effect, one.likelihood, one.failures, sorted(one.when.items()), one.case))
        for one in risks
    )


def answers(own: OwnConfig) -> list[list[str]]:
    return [plain(one.risks) for one in audit_clusters([own]).answers]


def test_files_with_one_question_have_one_answer() -> None:
    """A question has no lines and no names of files, and equal ones are asked once."""
    alike: dict[str, list[OwnConfig]] = {}
    for file in FILES:
        for own in read_clusters([file], kafka="4.1.1"):
            alike.setdefault(key(question(own)), []).append(own)
    several = [found for found in alike.values() if len(found) > 1 and found[0].read]
    assert len(several) > 3
    for first, *others in several[:4]:
        assert all(answers(one) == answers(question(first)) for one in (first, others[-1]))


def test_another_value_and_another_origin_of_a_value_are_other_questions() -> None:
    """The control: an origin may decide, such as a default that an upgrade changes."""
    [stated] = read_texts({"p.properties": b"acks=1\n"}, kafka="4.1.1")
    [longer] = read_texts({"a.properties": b"# a line\nacks = 1\n"}, kafka="4.1.1")
    [other] = read_texts({"p.properties": b"acks=0\n"}, kafka="4.1.1")
    kafka = replace(stated, kafka=Given("4.1.1", kafka_default()))
    first, *others = (key(question(own)) for own in (stated, longer, other, kafka))
    assert [first == one for one in others] == [True, False, False]


def test_a_trial_asks_what_an_audit_asks(own: OwnConfig) -> None:
    trials = Trials()
    assert trials.of(own) == ()
    [(_, after)] = trials.risks_of(question(own)).items()
    assert [plain(after)] == answers(own)
