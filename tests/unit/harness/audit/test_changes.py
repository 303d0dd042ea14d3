"""The losses of a setup, and the least changes that remove them, each with its twin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackproof.audit.answer import Risk
from ackproof.audit.auditing import loses_more
from ackproof.audit.changes import _alike, applied, best, candidates, decided_by
from ackproof.audit.failure import Failure, Failures
from ackproof.audit.losses import lost, traced
from ackproof.audit.prices import with_prices
from ackproof.audit.replication import replication_of
from ackproof.audit.setups import ELR, Setup, setups
from ackproof.own_config.configuration import Client, Given, OwnConfig, Topic, kafka_default
from support.origins import at

LAG, CRASH, POWER = Failure.LAG, Failure.CRASH, Failure.POWER_LOSS
DISK = Failure.DISK_REPLACED


def setup(
    kafka: str = "3.9.1",
    *,
    replicas: str = "3",
    acks: str = "all",
    topic: dict[str, str] | None = None,
    **changes: object,
) -> Setup:
    settings = {key: Given(value, at("topic:2")) for key, value in (topic or {}).items()}
    own = OwnConfig(
        kafka=Given(kafka, at("compose.yml:4")),
        mode=Given("kraft", at("compose.yml:5")),
        topics=(
            Topic(
                name="o",
                replication_factor=Given(replicas, at("topic:1")),
                settings=settings,
            ),
        ),
        producers=(Client(name="p", library="java", settings={"acks": Given(acks, at("p:1"))}),),
    )
    [group] = setups(own)
    return replace(group[-1], **changes)


def failures_of(one: Setup) -> set[Failures]:
    return {risk.failures for risk in lost(one).risks}


def risk_of(one: Setup, failures: Failures) -> Risk:
    return next(risk for risk in lost(one).risks if risk.failures == failures)


def changed(one: Setup, failures: Failures) -> list[tuple[str, str]]:
    return [(found.setting, found.change) for found in decided_by([one], failures)]


def test_a_loss_has_a_way_and_its_records(snapshot) -> None:
    one = setup("4.3.1")
    risk = traced(one, risk_of(one, (LAG, POWER)))
    assert risk.likelihood == "possible"
    assert risk.at_risk in risk.text
    assert "\n".join((risk.text, *risk.trace)) == snapshot


def test_a_producer_that_is_refused_loses_nothing_and_keeps_nothing() -> None:
    refused = lost(setup(refusal="its client does not start"))
    assert not refused.risks
    assert not refused.survives


def test_a_topic_that_acks_nothing_loses_nothing() -> None:
    never = setup("3.6.2", topic={"min.insync.replicas": "4"})
    assert not lost(never).risks
    assert lost(never).survives
    assert lost(setup("3.9.1", topic={"min.insync.replicas": "4"})).risks, "capped from 3.7 on"


@pytest.mark.parametrize(
    ("one", "failures", "expected"),
    [
        (setup(acks="1"), (CRASH,), [("acks", "all")]),
        (setup("4.3.1"), (LAG, POWER), [("min.insync.replicas", "2")]),
        (
            setup(),
            (LAG, POWER),
            [("min.insync.replicas", "2"), ("kafka.version", "4.1 or later")],
        ),
        (
            setup(topic={"min.insync.replicas": "2"}),
            (LAG, POWER),
            [("kafka.version", "4.1 or later")],
        ),
        (setup(), (POWER, POWER, POWER), [("log.flush.interval.messages", "1")]),
        (setup(), (DISK, DISK, DISK), []),
        (setup(replicas="1"), (DISK,), [("replication.factor", "3")]),
        (
            setup(topic={"unclean.leader.election.enable": "true"}),
            (LAG, CRASH),
            [("unclean.leader.election.enable", "false")],
        ),
    ],
)
def test_the_least_changes_come_first(
    one: Setup, failures: Failures, expected: list[tuple[str, str]]
) -> None:
    assert changed(one, failures)[: max(len(expected), 1)] == expected


def test_a_change_removes_the_loss_and_names_its_source_and_price(snapshot) -> None:
    one = setup("4.3.1")
    [decision, *_] = decided_by([one], (LAG, POWER))
    assert decision.value == "1"
    assert decision.source == kafka_default("4.3.1")
    assert decision.cost == snapshot
    [change] = [found for found in candidates(one) if found.value == decision.change == "2"]
    assert (LAG, POWER) in failures_of(one)
    assert (LAG, POWER) not in failures_of(applied(one, change))


def test_a_pair_of_changes_names_the_other_one(snapshot) -> None:
    first, second, *_ = decided_by([setup()], (LAG, POWER))
    assert f"{first.cost}\n{second.cost}" == snapshot
    assert first.source == kafka_default("3.9.1")
    assert second.source == at("compose.yml:4")


def test_the_best_changes_follow_each_other_until_none_helps() -> None:
    steps = list(best([setup()], loses_more=loses_more))
    assert [(step.setting, step.change) for step, _ in steps] == [
        ("min.insync.replicas", "2"),
        ("kafka.version", "4.1 or later"),
    ]
    [after] = steps[-1][1]
    assert (LAG, POWER) not in failures_of(after)
    assert not list(best([after], loses_more=loses_more))
    assert next(step.change for step, _ in best([setup(acks="1")], loses_more=loses_more)) == "all"


@pytest.mark.parametrize(
    ("version", "setting"),
    [("3.9.1", "kafka.version"), ("4.0.1", ELR), ("4.10.0", ELR)],
)
def test_eligible_replicas_are_a_feature_of_every_version_from_4_0_on(version, setting) -> None:
    one = setup()
    partition = replace(one.partition, kafka_version=version, elr=False)
    offered = {change.setting for change in candidates(replace(one, partition=partition))}
    assert offered & {"kafka.version", ELR} == {setting}


def test_setups_with_more_brokers_are_weighed_apart() -> None:
    one = setup("3.9.1")
    more = replace(one, partition=replace(one.partition, brokers=5))
    assert len(_alike([(replication_of(each), 1) for each in (one, one, more)])) == 2


@pytest.mark.parametrize(("replicas", "others"), [("2", ()), ("1", ("replication.factor",))])
def test_a_change_after_which_no_send_is_acked_does_not_help(
    replicas: str, others: tuple[str, ...]
) -> None:
    one = setup("3.6.2", replicas=replicas, acks="1", topic={"min.insync.replicas": "2"})
    firsts = [change.setting for change, _ in best([one], loses_more=loses_more)]
    assert ("acks" in firsts[:1]) is (replicas == "2")
    [acks, *_] = [one for one in decided_by([one], (POWER,)) if one.setting == "acks"]
    assert {name for name, _ in acks.others} - {"enable.idempotence"} == {*others}


@pytest.mark.parametrize(("minimum", "named"), [("1", False), ("2", True)])
def test_a_price_names_the_replicas_with_which_no_send_is_acked(minimum: str, named: bool) -> None:
    several = [
        setup("3.6.2", replicas=replicas, acks="1", topic={"min.insync.replicas": minimum})
        for replicas in ("1", "2", "3")
    ]
    [change, *_] = [change for change, _ in best(several, loses_more=loses_more)]
    [priced] = with_prices([change], several)
    assert priced.setting == "acks"
    assert ("with replication.factor=1 no send is acked" in priced.cost) is named
