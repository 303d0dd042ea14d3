"""Changes of settings that several kinds of risks propose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ackproof.audit.answer import Decision
from ackproof.audit.effective import of_producer, of_topic
from ackproof.audit.risk import decision
from ackproof.audit.setups import MINIMUM, Setup
from ackproof.own_config.configuration import KAFKA_CONNECT, Client, Default, Given
from ackproof.own_config.formats.connect import EXACTLY_ONCE
from ackproof_model.configuration import MOST_IN_FLIGHT_IDEMPOTENT
from ackproof_model.kafka_settings import (
    ENABLE_IDEMPOTENCE,
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    RETRIES,
)


def writes_topic_of_connect(producer: Client) -> bool:
    """Whether Connect writes an internal topic of its own: it sets enable.idempotence itself."""
    return bool(producer.writes) and producer.framework == KAFKA_CONNECT


def exactly_once(producer: Client) -> Iterator[Decision]:
    """Yield the setting by which Connect's producers become transactional (KIP-618, KIP-710).

    The producer of the status topic never does, and does not retry.
    """
    retries = producer.settings.get(RETRIES)
    if (
        writes_topic_of_connect(producer)
        and retries is not None
        and retries.source == Default(KAFKA_CONNECT)
    ):
        return
    mirror = producer.framework != KAFKA_CONNECT
    cost = (
        f"{'MirrorMaker 2 of 3.5' if mirror else 'Connect 3.3'} or later; first preparing, then "
        "enabled; consumers with isolation.level=read_committed"
    )
    given = producer.exactly_once or Given("disabled", Default(KAFKA_CONNECT))
    yield decision(EXACTLY_ONCE, given, "enabled", cost)


def idempotence(setup: Setup) -> Mapping[str, str]:
    """Return the settings beside acks=all with which no record is written twice or out of order.

    Before 0.11 there are none (KIP-98). librdkafka's defects of idempotent producers need several
    requests in flight (case B55, its issue 4953).
    """
    if not setup.partition.profile.transactions:
        return {}
    values = {ENABLE_IDEMPOTENCE: "true"}
    if setup.producer is not None and setup.producer.library == "librdkafka":
        values[MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION] = "1"
    elif setup.partition.max_in_flight > MOST_IN_FLIGHT_IDEMPOTENT:
        values[MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION] = str(MOST_IN_FLIGHT_IDEMPOTENT)
    return values


def one_in_flight(setup: Setup) -> Decision:
    given = of_producer(setup, MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, setup.partition.max_in_flight)
    cost = "less throughput: each request waits for the response to the one before"
    return decision(MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION, given, 1, cost, of=setup.producer)


def lower_minimum(setup: Setup, value: int) -> Decision:
    cost = f"a record is acked when {value} {'replica has' if value == 1 else 'replicas have'} it"
    return decision(MINIMUM, of_topic(setup, MINIMUM), value, cost)
