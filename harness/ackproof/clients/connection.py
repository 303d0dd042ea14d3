"""Creates the librdkafka clients of a specification."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, libversion
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from ackproof.clients.specs import ConsumerSpec, ProducerSpec
from ackproof.errors import WorkloadError
from ackproof.safe_files import replacing
from ackproof.waiting import last_result
from ackproof_model.kafka_settings import ENABLE_AUTO_COMMIT, TRANSACTIONAL_ID

T = TypeVar("T")

#: Seconds to wait for a broker's answer at the start, and then for the topic's partitions.
METADATA_S = 30.0
TOPIC_S = 5.0

#: Seconds to wait for an answer of the group coordinator.
GROUP_REQUEST_S = 10.0

#: Milliseconds between two reports of the brokers that partitions are fetched from.
STATISTICS_MS = 500

#: Milliseconds between two reports of the partitions that a producer knows.
_PARTITIONS_MS = 100

#: Errors of a group without a coordinator. librdkafka does not mark them as retriable.
_NO_COORDINATOR = frozenset(
    {
        KafkaError._WAIT_COORD,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


def librdkafka_version() -> str:
    version: Any = libversion()  # a str in confluent-kafka 2.12.0
    return str(version if isinstance(version, str) else version[0])


def connect_producer(
    spec: ProducerSpec,
    secrets: Mapping[str, str],
    *,
    on_error: Callable[[KafkaError], None],
    on_statistics: Callable[[str], None],
) -> Any:
    """Return a connected producer. `on_statistics` is called if the topic may get partitions.

    Raises `WorkloadError` if no broker answers, or the topic has too few partitions.
    """
    record_in_force(spec)
    transactions = spec.transactions
    # librdkafka has no other way to ask for the partitions that a producer knows: a request for
    # metadata would make it learn of new ones.
    statistics = {"statistics.interval.ms": _PARTITIONS_MS} if spec.later_partitions else {}
    try:
        producer = Producer(
            {
                "bootstrap.servers": spec.bootstrap_servers,
                "client.id": f"ackproof-producer-{spec.number}",
                **statistics,
                **spec.settings,
                **({TRANSACTIONAL_ID: transactions.transactional_id} if transactions else {}),
                **secrets,
                "error_cb": on_error,
                "stats_cb": on_statistics,
            }
        )
        # Some brokers may not know a new topic yet.
        topic = last_result(
            lambda: producer.list_topics(spec.topic, timeout=METADATA_S).topics[spec.topic],
            lambda topic: len(topic.partitions) >= spec.partitions,
            within_s=TOPIC_S,
        )
    except KafkaException as error:
        raise cannot_start(spec, error) from error
    if len(topic.partitions) < spec.partitions:
        raise WorkloadError(
            f"{spec.name} needs {spec.partitions} partitions of {spec.topic!r}, which "
            f"has {len(topic.partitions)}",
            hint=f"Create the topic with at least {spec.partitions} partitions.",
        )
    return producer


def known_partitions(statistics: str, topic: str) -> int:
    partitions = json.loads(statistics)["topics"].get(topic, {}).get("partitions", {})
    return sum(int(number) >= 0 and not state["unknown"] for number, state in partitions.items())


def connect_consumer(
    spec: ConsumerSpec,
    secrets: Mapping[str, str],
    *,
    auto_commit: bool,
    on_error: Callable[[KafkaError], None],
    on_commit: Callable[..., None],
    on_statistics: Callable[[str], None],
) -> Any:
    """Return a consumer without a subscription. Raises `WorkloadError` for invalid settings.

    `on_statistics` is called only if the consumer may fetch from followers.
    """
    record_in_force(spec)
    statistics = {"statistics.interval.ms": STATISTICS_MS} if "client.rack" in spec.settings else {}
    try:
        return Consumer(
            {
                "bootstrap.servers": spec.bootstrap_servers,
                "client.id": f"ackproof-consumer-{spec.number}",
                "group.id": spec.group,
                **statistics,
                **spec.settings,
                ENABLE_AUTO_COMMIT: auto_commit,
                "enable.partition.eof": True,
                **secrets,
                "error_cb": on_error,
                "on_commit": on_commit,
                "stats_cb": on_statistics,
            }
        )
    except KafkaException as error:
        raise cannot_start(spec, error) from error


def retry_group_request(request: Callable[[], T]) -> T:
    """Send a request of a group; repeat it while the coordinator is not available.

    Raises KafkaException after `GROUP_REQUEST_S`, and for any other refusal.
    """
    retrying = Retrying(
        retry=retry_if_exception(_is_transient),
        stop=stop_after_delay(GROUP_REQUEST_S),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    return retrying(request)


def record_in_force(spec: ProducerSpec | ConsumerSpec, **more: str) -> None:
    with replacing(spec.in_force) as partial:
        partial.write_text(json.dumps({"librdkafka": librdkafka_version(), **more}))


def _is_transient(failure: BaseException) -> bool:
    if not isinstance(failure, KafkaException):
        return False
    error: KafkaError = failure.args[0]
    return bool(error.retriable() or error.code() in _NO_COORDINATOR)


def cannot_start(spec: ProducerSpec | ConsumerSpec, error: KafkaException) -> WorkloadError:
    return WorkloadError(
        f"{spec.name} (librdkafka {librdkafka_version()}) cannot start with "
        f"{spec.bootstrap_servers}: {error.args[0].str()}",
        hint=f"Its settings are {spec.settings}.",
    )
