"""The question that a scenario's configuration puts to the adversary's search."""

from __future__ import annotations

from typing import Any

import pytest

from ackproof.errors import ScenarioError
from ackproof.planning.search import question, search
from ackproof.scenario.model import Scenario
from ackproof_model.adversary import Budgets
from support.run_directories import small


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"cluster": {"controllers": 3, "combined": True}}, "cluster.combined"),
        ({"cluster": {"features": {"group.version": 0}}}, "cluster.features group.version"),
        ({"cluster": {"settings": {"broker.session.timeout.ms": 40000}}}, "detected after 40s"),
    ],
)
def test_a_configuration_that_the_model_does_not_support_is_refused(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ScenarioError, match=problem):
        question(Scenario.model_validate(small(**changes)), Budgets())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"cluster": {"log_dirs": 2}}, "log_dirs"),
        ({"workload": {"transactions": {"size": 10}}}, "does not support transactions"),
    ],
)
def test_what_only_brokers_can_show_is_explored_but_not_planned(
    changes: dict[str, Any], problem: str
) -> None:
    scenario, budgets = Scenario.model_validate(small(**changes)), Budgets(kills=1)
    assert question(scenario, budgets) == question(Scenario.model_validate(small()), budgets)
    with pytest.raises(ScenarioError, match=problem):
        search(scenario, budgets, suite=1, max_states=1000)


@pytest.mark.parametrize(("version", "unclean"), [("3.8.1", False), ("3.9.1", True)])
def test_a_setting_that_the_version_ignores_is_not_asked(version: str, unclean: bool) -> None:
    topics = {"orders": {"settings": {"unclean.leader.election.enable": True}}}
    asked = question(Scenario.model_validate(small(kafka=version, topics=topics)), Budgets())
    assert asked.unclean_election is unclean


def test_the_question_is_what_the_scenario_says() -> None:
    settings = {"min.insync.replicas": 2, "unclean.leader.election.enable": False}
    document = small(
        kafka="4.3.1",
        topics={"orders": {"settings": settings}},
        cluster={
            "features": {"eligible.leader.replicas.version": 0},
            "settings": {"log.flush.interval.messages": 1},
        },
    )
    asked = question(Scenario.model_validate(document), Budgets(kills=1))
    assert (asked.kafka_version, asked.acks, asked.replicas) == ("4.3.1", "all", 3)
    assert (asked.min_insync_replicas, asked.unclean_election) == (2, False)
    assert asked.flush_every_record
    assert not asked.policy.elr


def test_moves_need_a_broker_without_a_replica() -> None:
    with pytest.raises(ScenarioError, match="all 3 have one"):
        question(Scenario.model_validate(small()), Budgets(reassignments=1))
    document = small(kafka="4.4.0", cluster={"brokers": 4}, topics=THREE_REPLICAS)
    asked = question(Scenario.model_validate(document), Budgets(reassignments=1))
    assert (asked.brokers, asked.targets) == (4, ((0, 1, 2), (3, 1, 2)))


THREE_REPLICAS = {"orders": {"assignment": [[1, 2, 3]]}}


@pytest.mark.parametrize(
    ("version", "budgets", "late"),
    [
        ("4.4.0", Budgets(leader_moves=1), True),
        ("4.4.0", Budgets(kills=1), False),
        ("2.8.2", Budgets(leader_moves=1), False),
    ],
)
def test_metadata_may_be_late_where_leaders_are_elected_by_request(
    version: str, budgets: Budgets, late: bool
) -> None:
    asked = question(Scenario.model_validate(small(kafka=version)), budgets)
    assert asked.misses_epochs is late
