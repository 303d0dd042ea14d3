"""Configurations that a client or a broker does not accept."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.audit.answer import Decision, Effect, Risk
from ackproof.audit.effective import of_producer, replication_factor, stated
from ackproof.audit.risk import decision, risk
from ackproof.audit.setups import REPLICAS, Setup
from ackproof.kafka_versions import numbers
from ackproof.own_config.configuration import Client, Given, NoFile
from ackproof.scenario.librdkafka import parse_acks, require_legal

_ACKS = "acks"
_IDEMPOTENCE = "enable.idempotence"
_IN_FLIGHT = "max.in.flight.requests.per.connection"
_TRANSACTIONAL = "transactional.id"
#: The most requests in flight of an idempotent producer, 0.11 and later.
_MOST_IN_FLIGHT = 5
#: KIP-500: brokers without ZooKeeper are in preview from 2.8 on, without KRaft until 4.0.
_KRAFT_SINCE, _ZOOKEEPER_UNTIL = (2, 8), (4, 0)
#: KIP-91.
_DELIVERY_TIMEOUT_SINCE = (2, 1)


def risks(setup: Setup) -> Iterator[Risk]:
    """Yield what no producer, topic or broker starts with."""
    refusals = [*_of_nodes(setup), *_of_topic(setup)]
    if setup.producer is not None:
        refusals += _of_producer(setup, setup.producer)
    for text, decided_by in refusals:
        yield risk(setup, Effect.REFUSED, (), text, certain=True, decided_by=[decided_by])
    if setup.refusal and setup.producer is not None and not refusals:
        text = f"{who(setup.producer)} refuses this: {setup.refusal}"
        yield risk(setup, Effect.REFUSED, (), text, certain=True)


_Refusal = tuple[str, Decision]


def _of_nodes(setup: Setup) -> Iterator[_Refusal]:
    own, version = setup.own, setup.partition.kafka_version
    if own.mode is None or own.kafka is None:
        return
    release = numbers(version)[:2]
    if own.mode.value == "zookeeper" and release >= _ZOOKEEPER_UNTIL:
        yield (
            f"Kafka {version} has no ZooKeeper mode: its brokers need process.roles (KIP-833)",
            decision("process.roles", own.mode, "broker, with a quorum of controllers"),
        )
    elif own.mode.value == "kraft" and release < _KRAFT_SINCE:
        yield (
            f"Kafka {version} has no KRaft mode: its brokers need zookeeper.connect (KIP-500)",
            decision("zookeeper.connect", own.mode, "the ZooKeeper nodes, or Kafka 3.3 or later"),
        )


def _of_topic(setup: Setup) -> Iterator[_Refusal]:
    replicas, brokers = replication_factor(setup), setup.own.brokers
    if not (REPLICAS in setup.settings and brokers and brokers.value.isdecimal()):
        return
    if replicas.value.isdecimal() and int(replicas.value) > int(brokers.value):
        yield (
            f"a topic cannot have {replicas.value} replicas on {brokers.value} brokers "
            "(INVALID_REPLICATION_FACTOR)",
            decision("replication.factor", replicas, brokers.value, "fewer copies of each record"),
        )


def _of_producer(setup: Setup, producer: Client) -> Iterator[_Refusal]:
    settings = producer.settings
    acks = stated(settings, _ACKS) or Given("all", NoFile.ASSUMED)
    try:
        value = parse_acks(acks.value.strip().lower())
    except ValueError as error:
        yield f"{who(producer)} refuses this: {error}", decision(_ACKS, acks, "all", of=producer)
        return
    idempotence = stated(settings, _IDEMPOTENCE)
    transactional = settings.get(_TRANSACTIONAL)
    off = idempotence is not None and idempotence.value.lower() == "false"
    if transactional is not None and off and idempotence is not None:
        yield (
            f"{who(producer)} refuses {_TRANSACTIONAL} with {_IDEMPOTENCE}=false",
            decision(_IDEMPOTENCE, idempotence, "true", of=producer),
        )
    elif transactional is not None or (idempotence is not None and not off):
        yield from _conflicts(setup, producer, acks=value)
    if producer.library == "java" and numbers(_version(setup, producer)) >= _DELIVERY_TIMEOUT_SINCE:
        yield from _timeouts(setup)


def _conflicts(setup: Setup, producer: Client, *, acks: str) -> Iterator[_Refusal]:
    """Yield the settings that contradict idempotence, which is stated or which transactions need.

    `ProducerConfig.postProcessAndValidateIdempotenceConfigs`, `rd_kafka_conf_finalize`.
    """
    values = {"acks": acks, "retries": 1, "max_in_flight": 1}
    wanted = {"acks": "all", "retries": 1, "max_in_flight": _MOST_IN_FLIGHT}
    names = {"acks": _ACKS, "retries": "retries", "max_in_flight": _IN_FLIGHT}
    for field in ("retries", "max_in_flight"):
        given = stated(producer.settings, names[field])
        if given is not None and given.value.isdecimal():
            values[field] = int(given.value)
    why = _TRANSACTIONAL if _TRANSACTIONAL in producer.settings else f"{_IDEMPOTENCE}=true"
    for field, name in names.items():
        legal: dict[str, object] = {"acks": "all", "retries": 1, "max_in_flight": 1}
        legal[field] = values[field]
        try:
            require_legal(idempotence=True, **legal)  # type: ignore[arg-type]
        except ValueError:
            given = stated(producer.settings, name) or Given(str(values[field]), NoFile.ASSUMED)
            yield (
                f"{who(producer)} refuses {name}={given.value} with {why}",
                decision(name, given, wanted[field], of=producer),
            )


def _timeouts(setup: Setup) -> Iterator[_Refusal]:
    assert setup.producer is not None
    given = stated(setup.producer.settings, "delivery.timeout.ms")
    if given is None or not given.value.isdecimal():
        return
    parts = [
        of_producer(setup, "linger.ms", 0),
        of_producer(setup, "request.timeout.ms", 30_000),
    ]
    least = sum(int(one.value) for one in parts if one.value.isdecimal())
    if int(given.value) < least:
        yield (
            f"the Java client refuses delivery.timeout.ms={given.value}: it must be at least "
            f"linger.ms + request.timeout.ms, {least}",
            decision("delivery.timeout.ms", given, least, of=setup.producer),
        )


def who(producer: Client) -> str:
    return "librdkafka" if producer.library == "librdkafka" else "the Java client"


def _version(setup: Setup, producer: Client) -> str:
    given = producer.version
    return setup.partition.kafka_version if given is None else given.value
