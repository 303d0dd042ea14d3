"""Every proposed change is made in the configuration, and the audit is asked again.

It removes the risk that it names, makes no row about records worse, names as its price what stops
after fewer failures, and can be made at all. `ci/lab/audit-advice` takes every input and version.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from ackproof.audit.answer import Answer, Decision, Effect
from ackproof.audit.auditing import audit_clusters
from ackproof.audit.detail import Detail
from ackproof.audit.setups import eras_of
from ackproof.errors import ScenarioError
from ackproof.own_config.configuration import Count, NoFile, OwnConfig
from ackproof.own_config.reading import read_clusters
from support import sampling
from support.advice import Trial, faults, faults_of

DATA = Path(__file__).parents[3] / "data"
FILES = sorted(
    path
    for folder in ("own_config", "cases")
    for path in (DATA / folder).iterdir()
    if path.is_file() and path.name not in ("expected.json", "refused.json")
)
VERSIONS = ("3.9.1", *(era.release for era in eras_of("")))
_PAIRS = [
    (file, version)
    for file, version in product(FILES, VERSIONS)
    if sampling.drawn(f"{file.name} {version}", one_of=120)
]


@pytest.mark.parametrize(("file", "version"), _PAIRS, ids=lambda one: getattr(one, "name", one))
def test_a_proposed_change_can_be_made_and_helps(file: Path, version: str) -> None:
    try:
        clusters = read_clusters([file], kafka=version)
        found = [fault for own in clusters if own.read for fault in faults(own)]
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
    return [*faults_of(own, answer, Trial(change=change))]


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
    assert any("still: lost" in fault for fault in faults_of(own, answer, trial))


def test_the_trial_makes_the_second_change_of_a_pair(own: OwnConfig, answer: Answer) -> None:
    """The control: alone the first one is harmless, and the second loses more."""
    flush = Decision(
        setting="log.flush.interval.messages", value="", source=NoFile.CHANGED, change="1"
    )
    assert not _found(own, answer, flush)
    pair = replace(flush, together_with="min.insync.replicas=1")
    assert any("new: lost" in fault for fault in _found(own, answer, pair))
