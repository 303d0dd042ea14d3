"""Clients whose settings stand in several places, or under another name than Kafka's."""

from __future__ import annotations

import pytest

from ackproof.own_config.reading import read_texts

BINDINGS = "spring.cloud.stream.bindings.a-out-0.destination=a\n"
BINDER = "spring.cloud.stream.kafka.binder."
OF_BINDING = "spring.cloud.stream.kafka.bindings.a-out-0.producer.configuration."
TRANSACTIONAL = f"{BINDER}transaction.transaction-id-prefix=tx-\n"


def acks(settings: str) -> str:
    [own] = read_texts({"application.properties": (BINDINGS + settings).encode()})
    [producer] = own.producers
    return producer.settings["acks"].value


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (f"{BINDER}brokers=k:9092\n", "1"),  # the binder's default
        (f"{BINDER}brokers=k:9092\nspring.kafka.producer.acks=all\n", "all"),
        (f"{BINDER}required-acks=1\nspring.kafka.producer.acks=all\n", "all"),
        (f"spring.kafka.producer.acks=all\n{BINDER}producer-properties.acks=1\n", "1"),
        (f"spring.kafka.properties.acks=all\n{BINDER}brokers=k:9092\n", "all"),
        (f"{TRANSACTIONAL}{BINDER}transaction.producer.configuration.acks=all\n", "all"),
        (f"{TRANSACTIONAL}{OF_BINDING}acks=all\n", "1"),  # of no effect beside transactions
        (f"{BINDER}brokers=k:9092\n{OF_BINDING}acks=all\n", "all"),
    ],
)
def test_the_binder_of_spring_cloud_stream_merges_its_settings_with_those_of_spring_boot(
    settings: str, expected: str
) -> None:
    assert acks(settings) == expected


def test_a_profile_with_transactions_keeps_the_acks_that_all_profiles_share() -> None:
    text = (
        "spring.cloud.stream.bindings.a-out-0.destination: a\nspring.kafka.producer.acks: all\n"
        "---\nspring.config.activate.on-profile: exact\n"
        f"{BINDER}transaction.transaction-id-prefix: tx-\n"
    )
    [own] = read_texts({"application.yml": text.encode()})
    assert [(one.name, one.settings["acks"].value) for one in own.producers] == [
        ("application.yml", "all"),
        ("application.yml (profile exact)", "all"),
    ]
    assert own.producers[1].settings["transactional.id"].value == "tx-"


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("topic.request.required.acks=1", "request.required.acks"),
        ("topic.acks=1", "acks"),
        ("topic.metadata.refresh.interval.ms=1", "topic.metadata.refresh.interval.ms"),
    ],
)
def test_settings_of_topics_in_a_file_of_kcat_are_those_of_the_producer(
    line: str, key: str
) -> None:
    [own] = read_texts({"kcat.conf": f"metadata.broker.list=k:9092\n{line}\n".encode()})
    [producer] = own.producers
    assert producer.settings[key].value == "1"


@pytest.mark.parametrize(
    ("of_profile", "producers"),
    [
        ("%test.mp.messaging.incoming.a.connector=smallrye-in-memory\n", []),
        ("%test.kafka.acks=all\n%test.mp.messaging.outgoing.b.connector=smallrye-kafka\n", ["b"]),
    ],
)
def test_a_profile_whose_channels_are_not_kafkas_adds_no_producer(
    of_profile: str, producers: list[str]
) -> None:
    text = (
        "mp.messaging.incoming.a.connector=smallrye-kafka\n"
        f"mp.messaging.incoming.a.auto.offset.reset=earliest\n{of_profile}"
    )
    [own] = read_texts({"application.properties": text.encode()})
    assert [one.name for one in own.producers] == [
        f"application.properties ({name}) (profile test)" for name in producers
    ]
    assert own.consumers[0].settings["auto.offset.reset"].value == "earliest"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("application.id=a\nprocessing.garantee=exactly_once_v2\n", "processing.guarantee"),
        ("application.id=a\nproducer.linger.ms=5\nstate.dir=/s\n", ""),
        (
            "offset.storage.topic=o\noffset.storage.replication.facter=1\n",
            "offset.storage.replication.factor",
        ),
        ("offset.storage.topic=o\nconsumer.max.poll.records=1\nproducer.acks=1\n", ""),
        ("bootstrap.servers=k\nquene.buffering.max.ms=5\nacks=1\n", "queue.buffering.max.ms"),
    ],
)
def test_a_misspelt_setting_of_a_framework_or_of_librdkafka_is_named(text: str, meant: str) -> None:
    [own] = read_texts({"app.properties": text.encode()})
    named = [one for one in own.warnings if "did you mean" in one]
    assert [one for one in named if f"did you mean {meant!r}" in one] == named
    assert bool(named) is bool(meant)
