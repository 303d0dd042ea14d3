"""Several files of one folder: which describe one cluster, and how many brokers it has."""

from __future__ import annotations

import pytest

from ackproof.kafka_versions import LAST_WITH_ZOOKEEPER
from ackproof.own_config.configuration import Count, OwnConfig
from ackproof.own_config.overlay import overlay
from ackproof.own_config.reading import read_texts
from support.origins import at

STRIMZI = """\
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: new}
spec:
  kafka:
    version: 4.1.1
    config: {default.replication.factor: 3, min.insync.replicas: 2}
"""
HELM = """\
kraft: {enabled: false}
zookeeper: {enabled: true, replicaCount: 3}
broker: {replicaCount: 3}
defaultReplicationFactor: 3
extraConfig: |
  min.insync.replicas=1
"""
DEVELOPMENT = """\
services:
  kafka:
    image: confluentinc/cp-kafka:7.3.0
    environment:
      KAFKA_BROKER_ID: 1
      KAFKA_ZOOKEEPER_CONNECT: zookeeper:2181
"""
HOST = """\
services:
  kafka:
    image: bitnami/kafka:3.9
    environment:
      - KAFKA_CFG_PROCESS_ROLES={roles}
      - KAFKA_CFG_NODE_ID={number}
      - KAFKA_CFG_CONTROLLER_QUORUM_VOTERS=1@192.0.2.1:9093,2@192.0.2.2:9093,3@192.0.2.3:9093
      - KAFKA_CFG_DEFAULT_REPLICATION_FACTOR=3
"""
PROPERTIES = "process.roles=broker,controller\nnode.id=7\n"


def read(**files: str) -> tuple[OwnConfig, ...]:
    return read_texts({name.replace("_", "."): text.encode() for name, text in files.items()})


def host(number: int, roles: str = "controller,broker") -> str:
    return HOST.format(number=number, roles=roles)


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({"strimzi_yaml": STRIMZI, "values_yaml": HELM}, 2),
        ({"compose_yml": DEVELOPMENT, "kafka_yaml": STRIMZI}, 2),
        ({"compose_yml": DEVELOPMENT, "server_properties": PROPERTIES}, 2),  # of two modes
        ({"compose_yml": DEVELOPMENT, "server_properties": "broker.id=7\n"}, 1),
        ({"compose_yml": host(1), "server_properties": PROPERTIES}, 1),
        ({"compose_yml": host(1), "other_yml": host(2).replace("192.0.2", "198.51.100")}, 2),
    ],
)
def test_files_of_one_folder_are_one_cluster_unless_they_contradict(
    files: dict[str, str], count: int
) -> None:
    assert len(read(**files)) == count


def test_two_installations_in_one_folder_are_read_as_in_two() -> None:
    one, other = read(strimzi_yaml=STRIMZI, values_yaml=HELM)
    [strimzi], [helm] = read(strimzi_yaml=STRIMZI), read(values_yaml=HELM)
    for together, alone in ((one, strimzi), (other, helm)):
        assert together.broker == alone.broker
        assert (together.kafka, together.mode, together.brokers) == (
            alone.kafka,
            alone.mode,
            alone.brokers,
        )
        assert together.warnings == alone.warnings


def test_a_node_of_both_roles_that_names_others_is_not_the_only_broker() -> None:
    [own] = read(host_yml=host(1))
    assert (own.brokers, own.combined) == (None, Count(3, at("host.yml:7")))
    assert own.controllers == own.combined
    used = overlay(own, {}).used
    assert "replication factor 3" in used
    assert not any(line.endswith("1 brokers") for line in used)


def test_the_files_of_all_hosts_are_one_cluster() -> None:
    files = {f"host-{number}_yml": host(number) for number in (1, 2, 3)}
    [own] = read(**files)
    three = Count(3, at("host-1.yml:3"))
    assert (own.brokers, own.combined, own.controllers) == (three, three, three)
    assert own.warnings == ()


def test_one_broker_beside_three_controllers_is_the_only_broker() -> None:
    text = host(4, "broker")
    [own] = read(host_yml=text)
    assert own.brokers == Count(1, at("host.yml:3"))


BROKERS = """\
services:
  k1: {image: "confluentinc/cp-kafka:7.3.0", environment: &e {KAFKA_BROKER_ID: 1}}
  k2: {image: "confluentinc/cp-kafka:7.3.0", environment: {<<: *e, KAFKA_BROKER_ID: 2, KEY: VALUE}}
"""


@pytest.mark.parametrize(
    ("key", "value", "taken"),
    [
        ("unclean.leader.election.enable", '"true"', "true"),
        ("min.insync.replicas", "2", None),  # the other broker's default loses more
        ("offsets.topic.replication.factor", "1", "1"),
        ("offsets.topic.replication.factor", "5", None),
        ("replica.lag.time.max.ms", "5000", "5000"),
        ("log.retention.ms", "1000", "1000"),
        ("num.io.threads", "16", "16"),  # no record depends on it
    ],
)
def test_a_setting_that_only_some_brokers_state_is_reported(
    key: str, value: str, taken: str | None, snapshot
) -> None:
    variable = f"KAFKA_{key.upper().replace('.', '_')}"
    [own] = read(c_yml=BROKERS.replace("KEY", variable).replace("VALUE", value))
    given = own.broker.get(key)
    assert (given and given.value) == taken
    assert "\n".join(own.warnings) == snapshot


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("min.insync.replicas", "1"),  # Kafka's default
        ("unclean.leader.election.enable", '"false"'),
        ("log.segment.bytes", "1000000"),  # no value loses more
    ],
)
def test_a_broker_that_states_the_default_does_not_differ(key: str, value: str) -> None:
    variable = f"KAFKA_{key.upper().replace('.', '_')}"
    [own] = read(c_yml=BROKERS.replace("KEY", variable).replace("VALUE", value))
    assert own.broker[key].value == value.strip('"')
    assert own.warnings == ()


@pytest.mark.parametrize(
    ("setting", "kafka"),
    [
        ("KAFKA_ZOOKEEPER_CONNECT: zk", LAST_WITH_ZOOKEEPER),
        ("KAFKA_NODE_ID: 2", "3.3.0"),
    ],
)
def test_a_scenario_runs_in_the_mode_of_the_files(setting: str, kafka: str) -> None:
    [own] = read(c_yml=BROKERS.replace("KEY: VALUE", setting))
    applied = overlay(own, {})
    assert applied.kafka == kafka
    assert any("KRaft has other rules" in text for text in applied.warnings) == (kafka != "3.3.0")


def test_zookeeper_with_a_version_that_has_none_is_left_to_the_audit() -> None:
    [own] = read(s_properties="zookeeper.connect=zk:2181\n")
    assert overlay(own, {}, kafka="4.1.1").kafka == "4.1.1"
