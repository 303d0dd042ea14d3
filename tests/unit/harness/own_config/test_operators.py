"""Resources of Strimzi in several files: pools, topics, and what stands in the wrong place."""

from __future__ import annotations

import pytest

from ackproof.own_config.configuration import OwnConfig
from ackproof.own_config.reading import read_texts

KAFKA = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: Kafka
metadata:
  name: shop
  namespace: data
  annotations: {strimzi.io/node-pools: enabled, strimzi.io/kraft: enabled}
spec:
  kafka:
    version: 3.7.0
    replicas: 1
    config: {default.replication.factor: 3}
"""
POOL = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaNodePool
metadata:
  name: dual
  NAMESPACE
  labels: {strimzi.io/cluster: shop}
spec:
  replicas: 3
  roles: [controller, broker]
  storage: {type: persistent-claim, size: 1Gi}
"""
TOPIC = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaTopic
metadata:
  name: orders
  NAMESPACE
  labels: {strimzi.io/cluster: shop}
spec: {partitions: 1}
"""


def read(**files: str) -> tuple[OwnConfig, ...]:
    return read_texts({f"{name}.yaml": text.encode() for name, text in files.items()})


@pytest.mark.parametrize("space", ["namespace: data", ""])
def test_pools_and_topics_in_files_of_their_own_are_of_the_cluster_that_they_name(
    space: str,
) -> None:
    [own] = read(
        kafka=KAFKA, pool=POOL.replace("NAMESPACE", space), topic=TOPIC.replace("NAMESPACE", space)
    )
    assert own.kafka
    assert own.kafka.value == "3.7.0"
    assert own.brokers
    assert own.brokers.value == 3
    assert [topic.name for topic in own.topics] == ["orders"]
    assert own.broker["default.replication.factor"].value == "3"


def test_a_cluster_of_the_same_name_in_another_namespace_is_another_one() -> None:
    pool = POOL.replace("NAMESPACE", "namespace: test")
    assert [one.cluster for one in read(kafka=KAFKA, pool=pool)] == ["data/shop", "test/shop"]


def test_without_pools_the_replicas_of_the_cluster_are_its_brokers() -> None:
    [own] = read(kafka=KAFKA.replace("strimzi.io/node-pools: enabled, ", ""))
    assert own.brokers
    assert own.brokers.value == 1


def test_settings_beside_kafka_are_reported_as_not_used() -> None:
    text = KAFKA + "  config: {min.insync.replicas: 2}\n  storage: {type: ephemeral}\n"
    [own] = read(kafka=text)
    assert "min.insync.replicas" not in own.broker
    assert own.warnings == (
        "kafka.yaml:12: spec.config (min.insync.replicas): Strimzi reads spec.kafka.config: "
        "not used",
        "kafka.yaml:13: spec.storage (type): Strimzi reads spec.kafka.storage: not used",
    )


STACKABLE = """\
apiVersion: kafka.stackable.tech/v1alpha1
kind: KafkaCluster
metadata: {name: shop}
spec:
  image: {productVersion: 3.9.1}
  clusterConfig: {MANAGER}
  brokers:
    configOverrides: {broker.properties: {min.insync.replicas: "2"}}
    roleGroups:
      default: {replicas: 2}
      small: {replicas: 1, configOverrides: {broker.properties: {log.retention.hours: "1"}}}
"""


@pytest.mark.parametrize(
    ("manager", "mode"),
    [
        ("metadataManager: kraft", "kraft"),
        ("zookeeperConfigMapName: z", "zookeeper"),
        ("metadataManager: zookeeper, zookeeperConfigMapName: z", "zookeeper"),
    ],
)
def test_a_cluster_of_stackable_says_its_version_mode_brokers_and_overrides(
    manager: str, mode: str
) -> None:
    [own] = read(kafka=STACKABLE.replace("MANAGER", manager))
    assert own.kafka
    assert own.mode
    assert own.brokers
    assert (own.kafka.value, own.mode.value, own.brokers.value) == ("3.9.1", mode, 3)
    assert own.broker["min.insync.replicas"].value == "2"


CP_ANSIBLE = """\
all:
  vars:
    confluent_package_version: "7.3.2"
    kafka_broker_custom_properties:
      default.replication.factor: 3
GROUP:
  hosts: {z1: }
kafka_broker:
  hosts: {b1: , b2: , b3: }
"""


@pytest.mark.parametrize(
    ("group", "mode"), [("zookeeper", "zookeeper"), ("kafka_controller", "kraft")]
)
def test_an_inventory_of_cp_ansible_says_its_version_mode_and_brokers(
    group: str, mode: str
) -> None:
    [own] = read(hosts=CP_ANSIBLE.replace("GROUP", group))
    assert own.kafka
    assert own.mode
    assert own.brokers
    assert (own.kafka.value, own.mode.value, own.brokers.value) == ("3.3", mode, 3)
    assert own.broker["default.replication.factor"].value == "3"
