from __future__ import annotations

import re
from itertools import count
from typing import Any

import pytest

from ackproof.cluster.node_files import (
    configuration_files,
    meta_properties,
    new_id,
    server_properties,
)
from ackproof.cluster.topology import NodeSpec, Topology, arrange
from ackproof.containers.engine import archive, unpacked
from ackproof.scenario.cluster import ClusterSpec, cluster_problems


def topology(*, kafka: str = "4.3.1", **cluster: Any) -> Topology:
    """Return a cluster on ports from 20001 on."""
    spec = ClusterSpec.model_validate(cluster)
    return arrange(spec, kafka, cluster_id="a" * 22, ports=count(20001), gateway="10.0.0.1")


def properties(of: Topology, node: NodeSpec) -> dict[str, str]:
    lines = server_properties(node, of).splitlines()
    return dict(line.split("=", 1) for line in lines)


def brokers(of: Topology) -> list[dict[str, str]]:
    return [properties(of, node) for node in of.brokers]


def test_replication_clients_and_quorum_have_separate_listeners() -> None:
    broker = brokers(topology())[0]
    assert broker["listeners"] == "INTERNAL://:9092,EXTERNAL://:9094"
    assert broker["inter.broker.listener.name"] == "INTERNAL"
    assert broker["advertised.listeners"] == ("INTERNAL://broker-1:9092,EXTERNAL://127.0.0.1:20001")


def voters(of: Topology) -> set[str]:
    """Return the voters that nodes know."""
    return {properties(of, node)["controller.quorum.voters"] for node in of.nodes}


def test_every_node_knows_all_voters_and_controllers_are_dedicated() -> None:
    cluster = topology(controllers=3)
    assert voters(cluster) == {
        "100@controller-100:9093,101@controller-101:9093,102@controller-102:9093"
    }
    for controller in cluster.controllers:
        settings = properties(cluster, controller)
        assert settings["process.roles"] == "controller"
        assert settings["listeners"] == "CONTROLLER://:9093"
    assert {broker["process.roles"] for broker in brokers(cluster)} == {"broker"}
    assert voters(topology()) == {"100@controller-100:9093"}


def test_combined_controllers_are_the_first_brokers() -> None:
    cluster = topology(brokers=4, controllers=3, combined=True)
    assert [node.name for node in cluster.nodes] == [f"broker-{n}" for n in (1, 2, 3, 4)]
    settings = brokers(cluster)
    assert [node["process.roles"] for node in settings] == ["broker,controller"] * 3 + ["broker"]
    assert settings[0]["controller.quorum.voters"] == (
        "1@broker-1:9093,2@broker-2:9093,3@broker-3:9093"
    )
    assert "CONTROLLER://:9093" in settings[0]["listeners"]
    assert "CONTROLLER://" not in settings[3]["listeners"]
    assert all("CONTROLLER" not in broker["advertised.listeners"] for broker in settings)


class TestZooKeeper:
    def test_brokers_have_zookeeper_settings_and_no_quorum_settings(self) -> None:
        cluster = topology(kafka="2.6.2")
        assert [node.name for node in cluster.controllers] == ["zookeeper-100"]
        for number, broker in enumerate(brokers(cluster), start=1):
            assert broker["broker.id"] == str(number)
            assert broker["zookeeper.connect"] == "zookeeper-100:2181"
            assert broker["listeners"] == "INTERNAL://:9092,EXTERNAL://:9094"
            assert not {"node.id", "process.roles", "controller.quorum.voters"} & broker.keys()
            assert "CONTROLLER" not in "".join(broker.values())

    def test_zookeeper_keeps_its_whole_log_and_publishes_its_port(self) -> None:
        cluster = topology(kafka="0.10.2.2")
        settings = properties(cluster, cluster.controllers[0])
        assert settings["autopurge.purgeInterval"] == "0"
        assert "dump" in settings["4lw.commands.whitelist"]
        assert cluster.controllers[0].external_port == 20001
        assert not [key for key in settings if key.startswith("server.")]

    def test_three_nodes_are_an_ensemble(self) -> None:
        cluster = topology(kafka="2.6.2", controllers=3)
        settings = properties(cluster, cluster.controllers[0])
        assert settings["server.101"] == "zookeeper-101:2888:3888"
        assert brokers(cluster)[0]["zookeeper.connect"].count(":2181") == 3

    def test_the_port_of_controller_is_zookeepers(self) -> None:
        assert topology(kafka="2.6.2").ports["CONTROLLER"] == 2181
        assert topology().ports["CONTROLLER"] == 9093


def test_further_listeners_have_separate_ports_inside_and_outside() -> None:
    cluster = topology(brokers=2, listeners=["SLOW", "CUT"])
    first = brokers(cluster)[0]
    assert first["listeners"].endswith("EXTERNAL://:9094,SLOW://:9095,CUT://:9096")
    assert first["advertised.listeners"].endswith(
        "EXTERNAL://127.0.0.1:20001,SLOW://127.0.0.1:20002,CUT://127.0.0.1:20003"
    )
    assert "CUT:PLAINTEXT" in first["listener.security.protocol.map"]
    assert cluster.bootstrap("CUT") == "127.0.0.1:20003,127.0.0.1:20006"
    assert cluster.bootstrap_servers == "127.0.0.1:20001,127.0.0.1:20004"
    assert (cluster.ports["SLOW"], cluster.ports["CUT"]) == (9095, 9096)


def test_nodes_reach_proxied_listeners_through_the_proxy() -> None:
    cluster = topology(brokers=2, controllers=3, proxied=["INTERNAL", "CONTROLLER"])
    ports = [node.gateway_ports["CONTROLLER"] for node in cluster.controllers]
    assert voters(cluster) == {
        ",".join(f"{100 + n}@10.0.0.1:{port}" for n, port in enumerate(ports))
    }
    for node in cluster.brokers:
        own = properties(cluster, node)
        assert (
            f"INTERNAL://10.0.0.1:{node.gateway_ports['INTERNAL']}" in own["advertised.listeners"]
        )
        assert "INTERNAL://:9092" in own["listeners"]
    inside = [port for node in cluster.nodes for port in node.gateway_ports.values()]
    assert len({*inside, *(node.external_port for node in cluster.brokers)}) == 7


@pytest.mark.parametrize(
    ("cluster", "kafka", "refused"),
    [
        ({}, "4.3.1", False),
        ({"combined": True, "controllers": 3}, "4.3.1", True),
        ({"controllers": 3}, "2.6.2", True),
    ],
)
def test_only_dedicated_kraft_controllers_can_be_proxied(
    cluster: dict[str, Any], kafka: str, refused: bool
) -> None:
    spec = ClusterSpec.model_validate({**cluster, "proxied": ["CONTROLLER"]})
    messages = [problem for _, problem in cluster_problems(spec, kafka)]
    assert any("only with dedicated KRaft controllers" in text for text in messages) is refused


def test_racks_are_assigned_in_turn_and_can_be_overridden() -> None:
    cluster = topology(brokers=4, racks=["a", "b"], overrides={4: {"rack": "z"}})
    assert [broker["broker.rack"] for broker in brokers(cluster)] == ["a", "b", "a", "z"]
    assert "broker.rack" not in brokers(topology())[0]


def test_further_log_directories_are_in_the_same_volume() -> None:
    cluster = topology(overrides={2: {"log_dirs": 3}})
    assert [broker["log.dirs"].count(",") for broker in brokers(cluster)] == [0, 2, 0]
    assert brokers(cluster)[1]["log.dirs"].split(",")[1] == "/var/lib/ackproof/data-2"


def test_overrides_change_limits_and_settings_of_one_broker() -> None:
    cluster = topology(
        memory="1g",
        settings={"num.io.threads": 3, "log.preallocate": False},
        overrides={2: {"heap": "200m", "memory": "400m", "cpus": 0.5, "settings": {"a.b": True}}},
    )
    first, second = cluster.brokers[:2]
    assert (first.heap, first.memory, first.cpus) == ("256m", "1g", None)
    assert (second.heap, second.memory, second.cpus) == ("200m", "400m", 0.5)
    assert [broker.get("a.b") for broker in brokers(cluster)] == [None, "true", None]
    assert {broker["num.io.threads"] for broker in brokers(cluster)} == {"3"}
    assert {broker["log.preallocate"] for broker in brokers(cluster)} == {"false"}


@pytest.mark.parametrize(
    ("cluster", "offsets", "transactions"),
    [
        ({"brokers": 1}, "1", "1"),
        ({"brokers": 2}, "2", "2"),
        ({"brokers": 7}, "3", "3"),
        ({"settings": {"offsets.topic.replication.factor": 1}}, "1", "3"),
    ],
)
def test_internal_topics_have_up_to_three_replicas(
    cluster: dict[str, Any], offsets: str, transactions: str
) -> None:
    settings = brokers(topology(**cluster))[0]
    assert settings["offsets.topic.replication.factor"] == offsets
    assert settings["transaction.state.log.replication.factor"] == transactions


@pytest.mark.parametrize(
    "path",
    ["bootstrap.checkpoint", "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"],
)
def test_only_voters_get_the_checkpoint_under_the_path_of_kafkas_tool(path: str) -> None:
    checkpoint = unpacked(archive({f"./{path}": b"levels"}))
    assert checkpoint == {path: b"levels"}
    cluster = topology()
    found = {
        node.role: configuration_files(
            node, cluster, checkpoint=checkpoint, security=None, clock=b""
        ).get(f"format/data/{path}")
        for node in cluster.nodes
    }
    assert found == {"controller": b"levels", "broker": None}


def test_every_directory_has_a_new_id_in_kafkas_form() -> None:
    for _ in range(500):
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", new_id())
    first, second = (
        dict(line.split("=", 1) for line in text.splitlines())
        for text in (meta_properties(cluster_id="c", node_id=n) for n in (1, 2))
    )
    assert first["directory.id"] != second["directory.id"]
    assert (first["version"], first["cluster.id"], first["node.id"]) == ("1", "c", "1")
