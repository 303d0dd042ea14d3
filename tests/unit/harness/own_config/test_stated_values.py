"""Values that a file states, or that its image or its tool implies, and those that it does not."""

from __future__ import annotations

import pytest

from ackproof.own_config.configuration import Default, Given, OwnConfig
from ackproof.own_config.reading import read_texts
from support.origins import at

OFFSETS = "offsets.topic.replication.factor"


def read(text: str, name: str = "file.yml") -> OwnConfig:
    [own] = read_texts({name: text.encode()})
    assert own.refused == ()
    return own


@pytest.mark.parametrize(
    ("image", "variable", "more", "replicas"),
    [
        ("bitnami/kafka:3.5", "KAFKA_CFG_NODE_ID: 1", "", "1"),
        ("bitnamilegacy/kafka:3.5", "KAFKA_CFG_NODE_ID: 1", "", "1"),
        ("bitnami/kafka:3.5", "KAFKA_CFG_OFFSETS_TOPIC_REPLICATION_FACTOR: 3", "", "3"),
        ("bitnami/kafka:3.5", "KAFKA_CFG_NODE_ID: 1", "volumes: ['c:/bitnami/kafka/config']", None),
        ("wurstmeister/kafka:2.13-2.8.1", "KAFKA_ZOOKEEPER_CONNECT: 'z:2181'", "", "1"),
        ("confluentinc/cp-kafka:7.3.0", "KAFKA_BROKER_ID: 1", "", None),
        ("apache/kafka:3.9.1", "KAFKA_NODE_ID: 1", "", None),  # replaces the image's file
        ("apache/kafka:3.9.1", "KAFKA_HEAP_OPTS: -Xmx1g", "", "1"),
    ],
)
def test_an_image_that_keeps_its_own_file_has_one_copy_of_offsets(
    image: str, variable: str, more: str, replicas: str | None
) -> None:
    own = read(
        f'services:\n  k:\n    image: "{image}"\n    environment: {{{variable}}}\n    {more}\n'
    )
    given = own.broker.get(OFFSETS)
    assert (given and given.value) == replicas
    if given and replicas == "1":
        assert given.source == Default(f"the image {image}")


CONNECTOR = '{"connector.class": "a.B", '


@pytest.mark.parametrize(
    ("settings", "topics"),
    [
        ('"topic.creation.default.replication.factor": 3}', {"": "3"}),
        (
            '"topic.creation.default.replication.factor": -1,'
            '"topic.creation.groups": "slow", "topic.creation.slow.include": "s.*",'
            '"topic.creation.slow.replication.factor": 2,'
            '"topic.creation.slow.cleanup.policy": "compact"}',
            {" of the group slow": "2"},
        ),
        ('"producer.override.acks": "all", "topic.creation.enable": "true"}', {}),
    ],
)
def test_topics_that_a_connector_creates_have_its_replication_factor(
    settings: str, topics: dict[str, str]
) -> None:
    own = read(CONNECTOR + settings, "connector.json")
    assert {
        topic.name: topic.replication_factor and topic.replication_factor.value
        for topic in own.topics
    } == {f"topics that the connector creates{group}": value for group, value in topics.items()}


def test_a_profile_may_change_the_replication_factor_of_streams() -> None:
    own = read(
        "spring.kafka.streams:\n  application-id: s\n  replication-factor: 3\n---\n"
        "spring.config.activate.on-profile: test\n"
        "spring.kafka.streams.replication-factor: 1\n",
        "application.yml",
    )
    assert {topic.name: topic.replication_factor for topic in own.topics} == {
        "the internal topics of Kafka Streams": Given("3", at("application.yml:3")),
        "the internal topics of Kafka Streams (profile test)": Given("1", at("application.yml:6")),
    }


CHART = "kafka:\n  replicas: 3\n  minInsyncReplicas: 2\n"


@pytest.mark.parametrize(
    ("values", "kafka", "mode"),
    [
        ("  version: 3.4.0\nzookeeper: {replicas: 3}\n", "3.4.0", "zookeeper"),
        ("  version: 26.4.2\nzookeeper: {enabled: false, replicas: 3}\n", None, None),
        ("  kraft: {enabled: true}\nzookeeper: {replicaCount: 1}\n", None, "kraft"),
        ("  zookeeper: {enabled: true}\n", None, "zookeeper"),
        ("zookeeper: {url: 'z:2181'}\n", None, None),
    ],
)
def test_a_chart_may_state_its_version_and_mode_beside_the_settings(
    values: str, kafka: str | None, mode: str | None
) -> None:
    own = read(CHART + values, "values.yaml")
    assert own.broker["min.insync.replicas"].value == "2"
    assert [one and one.value for one in (own.kafka, own.mode)] == [kafka, mode]


def _described(*defaults: str) -> str:
    return "".join(
        f"All configs for broker {number} are:\n"
        "  inter.broker.protocol.version=2.6 sensitive=false synonyms={"
        f"STATIC_BROKER_CONFIG:inter.broker.protocol.version=2.6, {default}}}\n"
        for number, default in enumerate(defaults, start=1)
    )


_PROTOCOL = "DEFAULT_CONFIG:inter.broker.protocol.version="


@pytest.mark.parametrize(
    ("defaults", "kafka", "warned"),
    [
        ([f"{_PROTOCOL}2.8-IV1"], "2.8", False),
        ([f"{_PROTOCOL}0.10.2-IV0"], "0.10.2", False),
        ([f"{_PROTOCOL}3.9-IV0", f"{_PROTOCOL}3.10-IV0"], "3.9", True),  # during an upgrade
        (["DYNAMIC_BROKER_CONFIG:inter.broker.protocol.version=2.8-IV1"], None, False),
    ],
)
def test_the_default_protocol_of_a_broker_is_its_version(
    defaults: list[str], kafka: str | None, *, warned: bool
) -> None:
    own = read(_described(*defaults), "configs.txt")
    assert (own.kafka and own.kafka.value) == kafka
    assert any("brokers of several versions" in text for text in own.warnings) is warned


@pytest.mark.parametrize(("racks", "count"), [("abc", 3), ("aab", 2), ("aaa", 1)])
def test_hosts_without_ids_keep_their_racks(racks: str, count: int) -> None:
    hosts = "".join(f"  h{at}: {{x: {{broker.rack: {rack}}}}}\n" for at, rack in enumerate(racks))
    own = read("all: {vars: {default.replication.factor: 3}}\nhosts:\n" + hosts)
    assert len(own.racks) == 3
    assert len({given.value for given in own.racks.values()}) == count


def test_a_file_without_partitions_is_not_topicctls() -> None:
    own = read("meta: {name: a}\nspec: {settings: {min.insync.replicas: 2}}\n")
    assert own.topics == ()
