"""Configurations that a client or a broker does not accept."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Decision, Effect, Risk
from ackproof.audit.effective import of_producer, replication_factor, stated
from ackproof.audit.risk import Kind, Subject, Text, decision
from ackproof.audit.setups import REPLICAS, Setup
from ackproof.kafka_versions import KRAFT_PREVIEW, ZOOKEEPER_UNTIL, numbers
from ackproof.own_config.configuration import Client, Given, NoFile
from ackproof.scenario.kafka_clients import (
    IDEMPOTENT_VALUES,
    has_delivery_timeout,
    java_producer_defaults,
    parse_acks,
)
from ackproof_model.configuration import idempotence_conflicts
from ackproof_model.kafka_settings import (
    ACKS,
    DELIVERY_TIMEOUT_MS,
    ENABLE_IDEMPOTENCE,
    LINGER_MS,
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    PROCESS_ROLES,
    REPLICATION_FACTOR,
    REQUEST_TIMEOUT_MS,
    RETRIES,
    TRANSACTIONAL_ID,
    ZOOKEEPER_CONNECT,
)

KIND = Kind(
    title="a client or a broker does not accept the configuration",
    subject=Subject.REFUSED,
    texts={Effect.REFUSED: Text()},
    removed_by=dict.fromkeys(
        (
            PROCESS_ROLES,
            ZOOKEEPER_CONNECT,
            REPLICATION_FACTOR,
            ACKS,
            ENABLE_IDEMPOTENCE,
            RETRIES,
            MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
            DELIVERY_TIMEOUT_MS,
        ),
        "a legal value",
    ),
)


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield the settings with which a producer, topic or broker does not start."""
    refusals = [*_of_nodes(setup), *_of_topic(setup)]
    if setup.producer is not None:
        refusals += _of_producer(setup, setup.producer)
    for text, decided_by in refusals:
        yield KIND.never(setup, text, decided_by=[decided_by])
    if setup.refusal and setup.producer is not None and not refusals:
        text = f"{who(setup.producer)} refuses this: {setup.refusal}"
        yield KIND.never(setup, text, decided_by=[])


_Refusal = tuple[str, Decision]


def _of_nodes(setup: Setup) -> Iterator[_Refusal]:
    own, version = setup.own, setup.partition.kafka_version
    if own.mode is None or own.kafka is None:
        return
    release = numbers(version)[:2]
    if own.mode.value == "zookeeper" and release >= ZOOKEEPER_UNTIL:
        yield (
            f"Kafka {version} has no ZooKeeper mode: its brokers need process.roles (KIP-833)",
            decision(PROCESS_ROLES, own.mode, "broker, with a quorum of controllers"),
        )
    elif own.mode.value == "kraft" and release < KRAFT_PREVIEW:
        yield (
            f"Kafka {version} has no KRaft mode: its brokers need zookeeper.connect (KIP-500)",
            decision(ZOOKEEPER_CONNECT, own.mode, "the ZooKeeper nodes, or Kafka 3.3 or later"),
        )


def _of_topic(setup: Setup) -> Iterator[_Refusal]:
    replicas, brokers = replication_factor(setup), setup.own.brokers
    if not (REPLICAS in setup.settings and brokers):
        return
    if replicas.value.isdecimal() and int(replicas.value) > brokers.value:
        yield (
            f"a topic cannot have {replicas.value} replicas on {brokers.value} brokers "
            "(INVALID_REPLICATION_FACTOR)",
            decision(REPLICATION_FACTOR, replicas, brokers.value, "fewer copies of each record"),
        )


def _of_producer(setup: Setup, producer: Client) -> Iterator[_Refusal]:
    settings = producer.settings
    acks = stated(settings, ACKS) or Given("all", NoFile.ASSUMED)
    try:
        value = parse_acks(acks.value.strip().lower())
    except ValueError as error:
        yield f"{who(producer)} refuses this: {error}", decision(ACKS, acks, "all", of=producer)
        return
    idempotence = stated(settings, ENABLE_IDEMPOTENCE)
    transactional = settings.get(TRANSACTIONAL_ID)
    off = idempotence is not None and idempotence.value.lower() == "false"
    if transactional is not None and off and idempotence is not None:
        yield (
            f"{who(producer)} refuses {TRANSACTIONAL_ID} with {ENABLE_IDEMPOTENCE}=false",
            decision(ENABLE_IDEMPOTENCE, idempotence, "true", of=producer),
        )
    elif transactional is not None or (idempotence is not None and not off):
        yield from _conflicts(producer, acks=value)
    if producer.library == "java":
        yield from _timeouts(setup, producer)


def _conflicts(producer: Client, *, acks: str) -> Iterator[_Refusal]:
    """Yield the settings that contradict idempotence, if it is stated or transactions need it.

    Values that are not numbers, such as placeholders, are taken as legal.
    """
    values = {RETRIES: 1, MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: 1}
    for name in values:
        given = stated(producer.settings, name)
        if given is not None and given.value.isdecimal():
            values[name] = int(given.value)
    why = (
        TRANSACTIONAL_ID if TRANSACTIONAL_ID in producer.settings else f"{ENABLE_IDEMPOTENCE}=true"
    )
    for name in idempotence_conflicts(
        acks=acks,
        retries=values[RETRIES],
        max_in_flight=values[MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION],
    ):
        given = stated(producer.settings, name) or Given(acks, NoFile.ASSUMED)
        yield (
            f"{who(producer)} refuses {name}={given.value} with {why}",
            decision(name, given, IDEMPOTENT_VALUES[name], of=producer),
        )


def _timeouts(setup: Setup, producer: Client) -> Iterator[_Refusal]:
    """Yield a delivery timeout that is too short for one request (KIP-91)."""
    version = producer.release or setup.partition.kafka_version
    given = stated(producer.settings, DELIVERY_TIMEOUT_MS)
    if not has_delivery_timeout(version) or given is None or not given.value.isdecimal():
        return
    defaults = dict(java_producer_defaults(version))
    if not producer.release:
        defaults[LINGER_MS] = 0  # a client of before 4.0, which refuses least
    parts = [of_producer(setup, name, defaults[name]) for name in (LINGER_MS, REQUEST_TIMEOUT_MS)]
    least = sum(int(part.value) for part in parts if part.value.isdecimal())
    if int(given.value) < least:
        yield (
            f"the Java client refuses delivery.timeout.ms={given.value}: it must be at least "
            f"linger.ms + request.timeout.ms, {least}",
            decision(DELIVERY_TIMEOUT_MS, given, least, of=producer),
        )


def who(producer: Client) -> str:
    return "librdkafka" if producer.library == "librdkafka" else "the Java client"
