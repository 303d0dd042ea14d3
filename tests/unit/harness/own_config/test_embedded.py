"""Settings inside other files: texts of properties, ConfigMaps, Secrets, variables from them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from ackproof.own_config.configuration import OwnConfig
from ackproof.own_config.reading import read_clusters, read_texts
from support.origins import at

DRIVER = """\
name: Kafka
driverClass: a.b.Driver
replicationFactor: 3
topicConfig: |
  min.insync.replicas=2
commonConfig: |
  bootstrap.servers=k:9092
  default.api.timeout.ms=1000
producerConfig: |
  acks=1
consumerConfig: |
  auto.offset.reset=earliest
"""


def read(text: str) -> OwnConfig:
    [own] = read_texts({"file.yaml": text.encode()})
    return own


def test_texts_of_properties_are_read_with_what_stands_beside_them() -> None:
    own = read(DRIVER)
    [topic] = own.topics
    assert topic.replication_factor
    assert topic.replication_factor.value == "3"
    assert topic.settings["min.insync.replicas"].source == at("file.yaml:5")
    [producer] = own.producers
    assert producer.settings["acks"].source == at("file.yaml:10")
    assert producer.settings["bootstrap.servers"].value == "k:9092"
    [consumer] = own.consumers
    assert consumer.settings["auto.offset.reset"].value == "earliest"
    assert own.broker == {}


def test_a_text_that_is_not_kafkas_is_not_read() -> None:
    [refused] = read("script: |\n  acks=1\n  home=/root\n  shell=/bin/sh\nkafka: x\n").refused
    assert "no setting of Kafka" in refused.reason


@pytest.mark.parametrize(("kind", "place"), [("ConfigMap", "data"), ("Secret", "stringData")])
def test_a_file_in_a_map_or_a_secret_is_read(kind: str, place: str) -> None:
    own = read(
        f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: a}}\n{place}:\n"
        "  server.properties: |-\n    default.replication.factor=2\n"
    )
    assert own.broker["default.replication.factor"].source == at("file.yaml:6")


ONE = base64.b64encode(b"1").decode()
ACKS_1 = base64.b64encode(b"acks=1\nclient.id=a\n").decode()


@pytest.mark.parametrize("data", [f"ACKS: {ONE}", f"app: {ACKS_1}"], ids=["variable", "file"])
@pytest.mark.parametrize("in_folder", [False, True])
def test_the_data_of_a_secret_is_in_base64(data: str, in_folder: bool, tmp_path: Path) -> None:
    """A folder has it read, too, although no word of its text is Kafka's."""
    secret = tmp_path / "secret.yaml"
    secret.write_text(f"kind: Secret\nmetadata: {{name: a}}\ndata: {{{data}}}\n")
    [own] = read_clusters([tmp_path if in_folder else secret])
    assert [one.settings["acks"].value for one in own.producers] == ["1"]


def test_a_secret_without_names_of_kafka_is_passed_over_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "producer.properties").write_text("acks=all\n")
    (tmp_path / "secret.yaml").write_text(
        f"kind: Secret\ndata: {{token: {ONE}, key: {ONE}{ONE}}}\n"
    )
    [own] = read_clusters([tmp_path])
    assert [one.file for one in own.read] == [str(tmp_path / "producer.properties")]
    assert own.refused == ()


def test_an_example_beside_the_files_of_a_map_is_not_read() -> None:
    own = read(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n"
        "  _example: |\n    acks=all\n    retries=3\n    linger.ms=1\n"
        "  producer.properties: |\n    acks=1\n"
    )
    assert [one.settings["acks"].value for one in own.producers] == ["1"]


BROKER = """\
apiVersion: v1
kind: Pod
metadata: {name: k}
spec:
  containers:
  - name: k
    image: apache/kafka:3.9.1
    env:
    - {name: KAFKA_NODE_ID, value: "1"}
    - name: KAFKA_MIN_INSYNC_REPLICAS
      valueFrom: {configMapKeyRef: {name: shared, key: isr}}
    - name: KAFKA_DEFAULT_REPLICATION_FACTOR
      valueFrom: {configMapKeyRef: {name: shared, key: copies}}
"""
MAP = """\
---
apiVersion: v1
kind: ConfigMap
metadata: {name: shared}
data: {isr: "2", copies: "3"}
"""


def test_a_variable_from_a_map_in_the_file_has_the_maps_value_and_line() -> None:
    own = read(BROKER + MAP)
    assert own.broker["min.insync.replicas"].value == "2"
    assert own.broker["min.insync.replicas"].source == at("file.yaml:18")
    assert own.broker["default.replication.factor"].value == "3"


def test_a_variable_from_a_map_that_is_not_given_is_open_with_its_line() -> None:
    own = read(BROKER)
    assert own.broker["min.insync.replicas"].value == ""
    assert "default.replication.factor" not in own.broker
    assert own.warnings == (
        "file.yaml:11: min.insync.replicas: not stated: isr of the ConfigMap shared fills it in",
        "file.yaml:13: default.replication.factor: not stated: copies of the ConfigMap shared "
        "fills it in",
    )


BOTH = "services:\n  k:\n    image: apache/kafka:3.9.1\n    environment:\n"


@pytest.mark.parametrize(
    ("more", "warned"),
    [
        ("      KAFKA_PROCESS_ROLES: broker\n      KAFKA_ZOOKEEPER_CONNECT: z:1\n", True),
        ("      KAFKA_PROCESS_ROLES: broker\n", False),
        (
            "      KAFKA_PROCESS_ROLES: broker\n      KAFKA_ZOOKEEPER_CONNECT: z:1\n"
            "      KAFKA_ZOOKEEPER_METADATA_MIGRATION_ENABLE: 'true'\n",
            False,
        ),
    ],
)
def test_a_node_with_the_settings_of_both_modes_is_reported(more: str, warned: bool) -> None:
    own = read(f"{BOTH}      KAFKA_NODE_ID: 1\n{more}")
    expected = (
        "file.yaml:6: process.roles is KRaft's, and zookeeper.connect (file.yaml:7) is "
        "ZooKeeper's: the answer takes KRaft"
    )
    assert (expected in own.warnings) is warned
