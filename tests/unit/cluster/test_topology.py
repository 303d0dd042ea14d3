from __future__ import annotations

import re

from ackproof.harness.cluster.formatting import meta_properties, new_id
from ackproof.harness.cluster.topology import NodeSpec, Topology

TOPOLOGY = Topology(
    cluster_id="a" * 22,
    controller=NodeSpec(node_id=100, role="controller"),
    brokers=tuple(NodeSpec(node_id=n, role="broker", external_port=20000 + n) for n in (1, 2, 3)),
    settings={"replica.lag.time.max.ms": 30000, "unclean.leader.election.enable": False},
)


def properties(node: NodeSpec) -> dict[str, str]:
    lines = TOPOLOGY.server_properties(node).splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_replication_clients_and_quorum_have_a_listener_each() -> None:
    broker = properties(TOPOLOGY.brokers[0])
    assert broker["listeners"] == "INTERNAL://:9092,EXTERNAL://:9094"
    assert broker["inter.broker.listener.name"] == "INTERNAL"
    assert broker["advertised.listeners"] == ("INTERNAL://broker-1:9092,EXTERNAL://127.0.0.1:20001")


def test_the_controller_is_dedicated() -> None:
    controller = properties(TOPOLOGY.controller)
    assert controller["process.roles"] == "controller"
    assert controller["listeners"] == "CONTROLLER://:9093"
    assert {properties(b)["process.roles"] for b in TOPOLOGY.brokers} == {"broker"}
    assert {properties(n)["controller.quorum.voters"] for n in TOPOLOGY.nodes} == {
        "100@controller-100:9093"
    }


def test_settings_of_the_scenario_reach_every_broker_in_kafkas_words() -> None:
    for broker in TOPOLOGY.brokers:
        assert properties(broker)["replica.lag.time.max.ms"] == "30000"
        assert properties(broker)["unclean.leader.election.enable"] == "false"


def test_clients_begin_at_every_broker_on_loopback() -> None:
    assert TOPOLOGY.bootstrap_servers == "127.0.0.1:20001,127.0.0.1:20002,127.0.0.1:20003"


def test_ids_have_kafkas_form() -> None:
    for _ in range(500):
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", new_id())


def test_every_directory_has_an_id_of_its_own() -> None:
    first, second = (
        dict(line.split("=", 1) for line in text.splitlines())
        for text in (meta_properties(cluster_id="c", node_id=n) for n in (1, 2))
    )
    assert first["directory.id"] != second["directory.id"]
    assert (first["version"], first["cluster.id"], first["node.id"]) == ("1", "c", "1")
