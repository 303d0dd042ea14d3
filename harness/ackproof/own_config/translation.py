"""Selects the settings of a user's brokers and producers that a run uses; renames those of Java."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from ackproof.errors import ScenarioError
from ackproof.own_config.configuration import (
    JAVA_CLIENT,
    LIBRDKAFKA,
    Client,
    Default,
    Given,
    Settings,
)
from ackproof.own_config.names import is_librdkafka
from ackproof.own_config.uses import NODES, SECURITY, Reason
from ackproof.scenario.cluster import OWNED_SETTINGS, PER_TOPIC_SETTINGS
from ackproof.scenario.kafka_clients import (
    ALIASES,
    IDEMPOTENT_VALUES,
    LIBRDKAFKA_NAMES,
    LIBRDKAFKA_PRODUCER,
    JavaProducer,
    RefusedValueError,
    java_producer_defaults,
)
from ackproof.scenario.kafka_keys import ignored, known
from ackproof.scenario.librdkafka import KNOWN, OWNED_PRODUCER_SETTINGS, forbidden
from ackproof_model.kafka_settings import (
    ACKS,
    DEFAULT_REPLICATION_FACTOR,
    ENABLE_IDEMPOTENCE,
    LINGER_MS,
    PROCESS_ROLES,
    TRANSACTIONAL_ID,
)

#: Settings that a run's brokers do not get: reason and pattern.
_LEFT_OUT = {
    Reason.NODES: NODES,
    Reason.SECURITY: SECURITY,
    Reason.CLASSES: re.compile(
        r".*\.class(es|\.name)?|metric.*|kafka\.metrics.*|plugin.*|early\.start.*|remote\.log.*"
        r"|.*\.path|confluent\..*"
    ),
    Reason.KEEPS: re.compile(r"(log\.)?(retention|cleaner|cleanup).*"),
}


def left_out_by_brokers(key: str) -> Reason | None:
    """Return why a run does not apply a broker's setting; None if brokers or the topic get it."""
    if key == DEFAULT_REPLICATION_FACTOR or key in PER_TOPIC_SETTINGS:
        return None
    if key == "num.partitions":
        return Reason.PARTITIONS
    if key in OWNED_SETTINGS or key == PROCESS_ROLES:
        return Reason.NODES
    return next((why for why, pattern in _LEFT_OUT.items() if pattern.fullmatch(key)), None)


def taken_by_brokers(settings: Settings, kafka: str) -> dict[str, str]:
    """Return the settings that a run's brokers get."""
    return {
        key: given.value
        for key, given in settings.items()
        if given.value
        and key not in (DEFAULT_REPLICATION_FACTOR, *PER_TOPIC_SETTINGS)
        and not left_out_by_brokers(key)
        and not ignored("broker", key, kafka)
    }


_BUFFER = "buffer.memory"
_CONNECTION = ("ssl.", "sasl.", "security.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """Settings for the producers of a run."""

    settings: Mapping[str, Given]
    #: Defaults that were added, with the client they come from, as text.
    defaults: str
    #: Unused settings of the file, with the reason.
    unused: Mapping[str, Reason]
    #: Those that no producer has, with a sentence that says so.
    unknown: Mapping[str, str]


def convert(producer: Client, kafka: str) -> Converted:
    """Return a producer's settings by librdkafka's names, with the defaults of its client.

    The Java client is of the brokers' version unless a file states its own.
    """
    settings = producer.settings
    java = producer.library != "librdkafka"
    kafka = producer.release or kafka
    converted: dict[str, Given] = {}
    unused: dict[str, Reason] = {}
    unknown: dict[str, str] = {}
    for key, given in settings.items():
        name = ALIASES.get(key) or LIBRDKAFKA_NAMES.get(key, key)
        if sentence := _unknown(key, name):
            unknown[key] = sentence
        elif reason := _unused(key, name):
            unused[key] = reason
        elif key == _BUFFER:
            if not given.value.isdecimal():
                raise ScenarioError(f"{given.source}: {key}: {given.value!r} is not a whole number")
            kilobytes = max(1, int(given.value) // 1024)
            converted["queue.buffering.max.kbytes"] = Given(str(kilobytes), given.source)
        elif given.value != "-1" or name in ("acks", "retries"):
            converted[name] = given
    origin = Default(JAVA_CLIENT, kafka) if java else Default(LIBRDKAFKA)
    if java:
        _require_idempotence(settings)
        defaults = _java_defaults(converted, settings, kafka)
    else:
        defaults = {key: LIBRDKAFKA_PRODUCER[key] for key in (ACKS, ENABLE_IDEMPOTENCE)}
    added = {key: value for key, value in defaults.items() if key not in converted}
    text = ", ".join(f"{key}={value}" for key, value in added.items())
    return Converted(
        settings={**{key: Given(value, origin) for key, value in added.items()}, **converted},
        defaults=f"{text} (defaults of {origin.product})" if added else "",
        unused=unused,
        unknown=unknown,
    )


def _require_idempotence(settings: Settings) -> None:
    """Raise ScenarioError for a transaction without idempotence, as ProducerConfig does."""
    transaction, acks = settings.get(TRANSACTIONAL_ID), settings.get(ACKS)
    off = settings.get(ENABLE_IDEMPOTENCE)
    cause = acks if acks and acks.value not in ("all", "-1") else off
    if transaction and cause and (cause is acks or cause.value.lower() == "false"):
        name = ACKS if cause is acks else ENABLE_IDEMPOTENCE
        raise ScenarioError(
            f"{transaction.source}: transactional.id with {name}={cause.value} ({cause.source}): "
            "no Java producer starts, because transactions need idempotence",
            hint=f"Set {name}={IDEMPOTENT_VALUES[name]}, or leave out transactional.id.",
        )


def _unused(key: str, name: str) -> Reason | None:
    """Return why a setting is not used; None if it is."""
    if key == TRANSACTIONAL_ID:
        return Reason.TRANSACTIONS
    if key in OWNED_PRODUCER_SETTINGS or key.startswith(_CONNECTION):
        return Reason.SET_BY_US
    if key == _BUFFER or name in KNOWN:
        return None
    if forbidden(key):
        return Reason.FORBIDDEN
    return Reason.OF_LIBRDKAFKA if is_librdkafka(key) else Reason.NOT_OF_LIBRDKAFKA


def _unknown(key: str, name: str) -> str:
    """Return the reason if no producer has a setting of this name, else ''."""
    names = [*known("producer"), *KNOWN]
    if (
        key in names
        or key in OWNED_PRODUCER_SETTINGS
        or key.startswith(_CONNECTION)
        or name in KNOWN
        or forbidden(key)
        or is_librdkafka(key)
    ):
        return ""
    near = get_close_matches(key, names, n=1, cutoff=0.8)
    return "no producer has a setting of this name" + (
        f"; did you mean {near[0]!r}?" if near else ""
    )


def _java_defaults(converted: Settings, settings: Settings, kafka: str) -> dict[str, str]:
    """Return the defaults of ProducerConfig that losses depend on.

    settings: of the file. Raises ScenarioError for a value that the client refuses.
    """
    stated = {key: given.value.strip() for key, given in converted.items()}
    if TRANSACTIONAL_ID in settings:
        stated[TRANSACTIONAL_ID] = settings[TRANSACTIONAL_ID].value
    producer = JavaProducer(settings=stated, version=kafka)
    try:
        _ = producer.retries, producer.max_in_flight  # a stated idempotence does not read them
        return {
            ACKS: producer.acks,
            ENABLE_IDEMPOTENCE: str(producer.idempotence).lower(),
            LINGER_MS: str(java_producer_defaults(kafka)[LINGER_MS]),
        }
    except RefusedValueError as error:
        raise ScenarioError(
            f"{converted[error.setting].source}: {error}",
            hint=f"The Java client takes {error.legal}. Without the setting it uses its default.",
        ) from None
