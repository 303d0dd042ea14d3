"""What a running cluster says of itself, as a user's configuration."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka.admin import ConfigSource

from ackproof.audit.setups import setups
from ackproof.errors import ClusterError, ScenarioError
from ackproof.own_config import running
from ackproof.own_config.configuration import FileRead, Given, Option, OwnConfig, Running

UNCLEAN = "unclean.leader.election.enable"
BROKER = {"min.insync.replicas": "2", "node.id": "1", "ssl.key.password": "s3cret"}
DYNAMIC: dict[str, str] = {}
TOPIC = {"retention.ms": "1000"}


class Cluster:
    """Answers as a cluster of three brokers does whose topic has two partitions."""

    def __init__(self, bootstrap: str, client: dict[str, str]) -> None:
        assert (bootstrap, client) == ("host:9092", {"security.protocol": "SSL"})

    def topics(self) -> frozenset[str]:
        return frozenset({"orders", "payments", "__consumer_offsets"})

    def addresses(self) -> dict[int, str]:
        return {3: "c:9092", 1: "a:9092", 2: "b:9092"}

    def changed_settings(
        self, kind: str, name: str, *, origin: ConfigSource | None = None
    ) -> dict[str, str]:
        if kind == "topic":
            return TOPIC if origin is ConfigSource.DYNAMIC_TOPIC_CONFIG else {**TOPIC, **BROKER}
        if origin is not None:
            return DYNAMIC
        return {**BROKER, "min.insync.replicas": "1"} if name == "3" else BROKER

    def layout(self, topic: str) -> list[list[int]]:
        assert topic in ("orders", "payments")
        return [[1, 2, 3], [2, 3]]


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "Preflight", Cluster)


def ask(topic: str) -> OwnConfig:
    return running.ask("host:9092", topic, {"security.protocol": "SSL"})


def test_brokers_topic_and_the_smallest_number_of_replicas_are_taken() -> None:
    """Of brokers that differ the worse value is taken and reported."""
    own = ask("orders")
    [topic] = own.topics
    counts = (own.brokers, topic.partitions, topic.replication_factor)
    assert [given.value for given in counts if given] == [3, "2", "2"]
    assert own.broker["node.id"].value == "1"
    assert "s3cret" not in repr(own)
    assert topic.settings["retention.ms"].source == Running("host:9092", "topic orders")
    assert own.producers == ()
    assert own.in_force
    assert own.read == (FileRead(file="host:9092", shape="running cluster"),)
    assert own.broker["min.insync.replicas"] == Given("1", Running("host:9092", "broker 3"))
    [warning] = [one for one in own.warnings if one.startswith("min.insync.replicas differs")]
    assert "differs between brokers: 2 (" in warning
    assert "the answer takes 1." in warning
    every = ask("").topics
    assert [topic.name for topic in every] == ["orders", "payments"], "not Kafka's own"


@pytest.mark.parametrize(
    ("roles", "dynamic", "values"),
    [
        ("broker", {}, {"false", "true"}),
        ("broker", {UNCLEAN: "false"}, {"false"}),
        ("broker,controller", {}, {"true"}),
        ("broker,controller", {UNCLEAN: "false"}, {"false"}),
    ],
)
def test_controllers_decide_about_unclean_elections(monkeypatch, roles, dynamic, values) -> None:
    for key, value in {"process.roles": roles, UNCLEAN: "true"}.items():
        monkeypatch.setitem(BROKER, key, value)
    for key, value in dynamic.items():
        monkeypatch.setitem(DYNAMIC, key, value)
    asked = replace(ask("orders"), kafka=Given("4.3.1", Option("--kafka")))
    found = {one.partition.unclean_leader_election for group in setups(asked) for one in group}
    assert {str(one).lower() for one in found} == values


def test_a_topic_that_it_has_not_is_an_error_that_names_those_it_has() -> None:
    with pytest.raises(ScenarioError, match="host:9092 has no topic 'order'") as raised:
        ask("order")
    assert "orders, payments." in str(raised.value)
    assert "__consumer_offsets" not in str(raised.value)


def test_an_unreachable_cluster_is_an_error_that_names_the_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise ClusterError("no broker answers at host:9092", hint="Check cluster.attach.bootstrap")

    monkeypatch.setattr(Cluster, "topics", refuse)
    with pytest.raises(ClusterError, match="no broker answers at host:9092") as raised:
        ask("orders")
    assert "--client-config" in str(raised.value)
    assert "attach" not in str(raised.value)
