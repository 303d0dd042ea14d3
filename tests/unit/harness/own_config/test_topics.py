"""Topics as the tools that create them write them."""

from __future__ import annotations

import json

import pytest

from ackproof.own_config.configuration import OwnConfig
from ackproof.own_config.reading import read_texts

JIKKOU = "apiVersion: kafka.jikkou.io/v1beta2\n"


def read(text: str, name: str = "topics.yaml") -> OwnConfig:
    [own] = read_texts({name: text.encode()})
    return own


def told(own: OwnConfig) -> list[tuple[str, str | None, dict[str, str]]]:
    return [
        (
            topic.name,
            topic.replication_factor and topic.replication_factor.value,
            {key: given.value for key, given in topic.settings.items()},
        )
        for topic in own.topics
    ]


SETTINGS = {"min.insync.replicas": "2"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            f"{JIKKOU}kind: KafkaTopic\nmetadata: {{name: orders}}\n"
            "spec: {partitions: 1, replicas: 3, configs: {min.insync.replicas: 2}}\n",
            id="Jikkou",
        ),
        pytest.param(
            f"{JIKKOU}kind: KafkaTopicList\nspec:\n  topics:\n"
            "  - {name: orders, partitions: 1, replicas: 3, configMapRefs: [safe]}\n"
            f"---\n{JIKKOU}kind: ConfigMap\nmetadata: {{name: safe}}\n"
            "data: {min.insync.replicas: 2}\n",
            id="Jikkou, a list with a shared map",
        ),
        pytest.param(
            "apiVersion: kafka.example.com/v1\nkind: KafkaTopic\nmetadata: {name: new}\nspec:\n"
            "  {topic: orders, partitions: 1, replicationFactor: 3,"
            " config: {min.insync.replicas: 2}}\n",
            id="a group of one's own",
        ),
        pytest.param(
            "apiVersion: kafka.nais.io/v1\nkind: Topic\nmetadata: {name: orders}\nspec:\n"
            "  pool: prod\n  config: {partitions: 1, replication: 3, minimumInSyncReplicas: 2}\n",
            id="NAIS",
        ),
        pytest.param(
            "apiVersion: topic.kafka.crossplane.io/v1\nkind: Topic\nmetadata: {name: orders}\n"
            "spec:\n  forProvider:\n    {replicationFactor: 3, partitions: 1,"
            " config: {min.insync.replicas: '2'}}\n",
            id="Crossplane",
        ),
        pytest.param(
            "apiVersion: aiven.io/v1\nkind: KafkaTopic\nmetadata: {name: orders}\nspec:\n"
            "  {replication: 3, partitions: 1, config: {min_insync_replicas: 2}}\n",
            id="Aiven's operator",
        ),
        pytest.param(
            "our_topics:\n- name: orders\n  partitions: 1\n  replication_factor: 3\n"
            "  config:\n  - {key: min.insync.replicas, value: 2}\n",
            id="a role of Ansible",
        ),
        pytest.param(
            "topics:\n- {name: orders, partitions: 1, replicas: 3, config:"
            " {minInsyncReplicas: 2}}\n",
            id="camelCase",
        ),
    ],
)
def test_topics_are_read_with_their_name_replicas_and_settings(text: str) -> None:
    own = read(text)
    assert own.refused == ()
    assert told(own) == [("orders", "3", SETTINGS)]
    assert own.brokers is None


def test_replicas_beside_partitions_are_those_of_topics_and_not_a_number_of_brokers() -> None:
    own = read("partitions: 1\nreplicas: 1\nminInsyncReplicas: 1\n")
    assert told(own) == [("", "1", {"min.insync.replicas": "1"})]
    assert own.broker == {}
    assert own.brokers is None


def test_replicas_without_partitions_stay_a_number_of_brokers() -> None:
    own = read("replicas: 3\nminInsyncReplicas: 2\n")
    assert own.topics == ()
    assert own.brokers
    assert own.brokers.value == 3


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: cluster.redpanda.com/v1\nkind: Topic\nmetadata: {name: a}\n"
        "spec: {partitions: 1, replicationFactor: 3}\n",
        "apiVersion: events.example.com/v1\nkind: Topic\nmetadata: {name: a}\nspec: {arn: b}\n",
    ],
)
def test_topics_of_other_software_are_not_read(text: str) -> None:
    [refused] = read(text).refused
    assert refused.file == "topics.yaml"


def test_defaults_beside_a_list_are_those_of_its_topics() -> None:
    own = read(
        "defaults: {partitions: 1, replication: 3}\n"
        "shared_topics:\n- {name: orders, partitions: 6}\n- {name: clicks, replication: 1}\n"
        "- {name: audit}\n"
    )
    assert told(own) == [("orders", "3", {}), ("clicks", "1", {}), ("audit", "3", {})]


def test_a_channel_of_knative_is_a_topic() -> None:
    own = read(
        "apiVersion: messaging.knative.dev/v1beta1\nkind: KafkaChannel\n"
        "metadata: {name: orders}\nspec: {numPartitions: 1, replicationFactor: 1}\n"
    )
    assert told(own) == [("orders", "1", {})]


@pytest.mark.parametrize(
    ("connector", "topics"),
    [
        ("org.apache.kafka.connect.mirror.MirrorSourceConnector", [("mirrored topics", "1", {})]),
        ("org.apache.kafka.connect.mirror.MirrorCheckpointConnector", []),
    ],
)
def test_a_connector_that_mirrors_creates_topics(
    connector: str, topics: list[tuple[str, str, dict[str, str]]]
) -> None:
    text = json.dumps(
        {"connector.class": connector, "replication.factor": "1", "producer.override.acks": "all"}
    )
    assert told(read(text, "connector.json")) == topics
