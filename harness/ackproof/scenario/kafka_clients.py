"""What Kafka's clients make of their settings: defaults by version, legal values, conflicts.

The clients are Kafka's Java client and librdkafka. `scenario` validates a scenario's clients by
these rules, `own_config` completes a user's settings with them, and `audit` says what they refuse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ackproof.kafka_versions import has_idempotence, numbers
from ackproof_model.configuration import MOST_IN_FLIGHT_IDEMPOTENT, idempotence_conflicts
from ackproof_model.kafka_settings import (
    ACKS,
    AUTO_OFFSET_RESET,
    DELIVERY_TIMEOUT_MS,
    ENABLE_AUTO_COMMIT,
    ENABLE_AUTO_OFFSET_STORE,
    ENABLE_IDEMPOTENCE,
    ISOLATION_LEVEL,
    LINGER_MS,
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    REQUEST_TIMEOUT_MS,
    RETRIES,
    TRANSACTION_TIMEOUT_MS,
    TRANSACTIONAL_ID,
)

Value = str | int | float | bool

#: Integer.MAX_VALUE: the largest number of most settings, and the default of `retries`.
MOST = 2_147_483_647
#: The least numbers, where these are not 0.
_LEAST = {MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: 1}
_WHOLE = re.compile(r"-?[0-9]{1,18}")

AcksValue = Literal["0", "1", "all"]
_ACKS: Mapping[str, AcksValue] = {"0": "0", "1": "1", "all": "all", "-1": "all"}

#: librdkafka's other names of settings that Java's client has, too.
ALIASES = {
    "request.required.acks": ACKS,
    "message.send.max.retries": RETRIES,
    "max.in.flight": MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    "queue.buffering.max.ms": LINGER_MS,
    "message.timeout.ms": DELIVERY_TIMEOUT_MS,
}

#: The Java client's names of librdkafka's settings.
JAVA_NAMES = {
    **ALIASES,
    "queue.buffering.max.kbytes": "buffer.memory",
    "message.max.bytes": "max.request.size",
    "compression.codec": "compression.type",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.timeout.ms": REQUEST_TIMEOUT_MS,
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
}
#: librdkafka's names of settings of Java's producers, where it has no setting of Java's name.
LIBRDKAFKA_NAMES = {
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms",
}

#: KIP-679: acks=all and idempotence by default; KAFKA-13598: not yet idempotence in 3.0.0, 3.1.0.
_SAFE_SINCE, _NOT_IDEMPOTENT = (3, 0), ((3, 0, 0), (3, 1, 0))
#: KIP-91: delivery.timeout.ms, and retries without end.
_DELIVERY_TIMEOUT_SINCE = (2, 1)
#: KIP-1030: linger.ms is 5.
_LINGERS_SINCE = (4, 0)
#: KIP-360: a new epoch after a refused batch.
_NEW_EPOCH_SINCE = (2, 5)
#: A leader that knows nothing of a producer accepts any sequence number (KIP-360).
_ANY_SEQUENCE_SINCE = (2, 5)
#: Versions of the Java client with KAFKA-19012, and the first fixed version of each release line.
_REUSES_SINCE, _REUSES_UNTIL = (2, 8), (4, 2)
_REUSE_FIXED = ((3, 9, 2), (4, 0, 2), (4, 1, 2))

# Timeouts, each with its default in milliseconds.
#: Of a send: the default of the Java client, and of scenarios.
DELIVERY_TIMEOUT = (DELIVERY_TIMEOUT_MS, 120_000)
#: Of a request: of the Java client, and with librdkafka of a send's.
REQUEST_TIMEOUT = (REQUEST_TIMEOUT_MS, 30_000)
#: Of librdkafka's other requests.
SOCKET_TIMEOUT = ("socket.timeout.ms", 60_000)
TRANSACTION_TIMEOUT = (TRANSACTION_TIMEOUT_MS, 60_000)

#: librdkafka's defaults.
#: Before 1.0 librdkafka asked only for the leader's ack; it has idempotence since (CHANGELOG.md).
LIBRDKAFKA_BEFORE_1_0: Mapping[str, str] = {ACKS: "1", RETRIES: "2"}
LIBRDKAFKA_SINCE_1_0 = (ENABLE_IDEMPOTENCE, TRANSACTIONAL_ID)

LIBRDKAFKA_PRODUCER: Mapping[str, str] = {
    ACKS: "all",
    ENABLE_IDEMPOTENCE: "false",
    RETRIES: str(MOST),
    DELIVERY_TIMEOUT_MS: "300000",
    # With idempotence 5.
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: "1000000",
}
#: Defaults of consumers, by library.
CONSUMER_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "java": {
        ENABLE_AUTO_COMMIT: "true",
        AUTO_OFFSET_RESET: "latest",
        ISOLATION_LEVEL: "read_uncommitted",
    },
    "librdkafka": {
        ENABLE_AUTO_COMMIT: "true",
        ENABLE_AUTO_OFFSET_STORE: "true",
        AUTO_OFFSET_RESET: "largest",
        ISOLATION_LEVEL: "read_committed",
    },
}


def reuses_buffers(java: str) -> bool:
    """Whether a Java producer may overwrite a batch that expires while it is sent (KAFKA-19012)."""
    release = numbers(java)
    fixed = any(release[:2] == first[:2] and release >= first for first in _REUSE_FIXED)
    return _REUSES_SINCE <= release < _REUSES_UNTIL and not fixed


def renumbers_refused_batches(java: str) -> bool:
    """Whether an idempotent Java producer keeps its epoch after a refused batch (KIP-360).

    Then the next batch has the sequence numbers of the refused one.
    """
    return numbers(java) < _NEW_EPOCH_SINCE


def acks_refused_batches(kafka: str, *, idempotence: bool, max_in_flight: int) -> bool:
    """Whether librdkafka's producer may report a batch as acked that a leader has refused.

    From 2.5 on a leader without a state of the producer accepts any sequence number (KIP-360,
    `ProducerAppendInfo.checkSequence`). So after it has refused the first batch of a partition, one
    that is in flight behind it may succeed, and librdkafka concludes that the first was written
    (`rd_kafka_handle_idempotent_Produce_success`, versions 1.0 to 2.16 at least;
    confluent-kafka-go 921). The Java client sends the first batch again.
    """
    return idempotence and max_in_flight > 1 and numbers(kafka) >= _ANY_SEQUENCE_SINCE


class RefusedValueError(ValueError):
    """A client refuses the value of a setting. legal: the values that it accepts."""

    def __init__(self, setting: str, problem: str, *, legal: str) -> None:
        super().__init__(problem)
        self.setting, self.legal = setting, legal


def parse_acks(value: object) -> AcksValue:
    if isinstance(value, bool) or str(value) not in _ACKS:
        raise RefusedValueError(
            ACKS, f"{value!r} is not a value of acks (0, 1 or all)", legal="0, 1 or all"
        )
    return _ACKS[str(value)]


def require_legal(*, idempotence: bool, acks: str, retries: int, max_in_flight: int) -> None:
    """Raise ValueError for settings that clients refuse together."""
    if not idempotence:
        return
    conflicts = idempotence_conflicts(acks=acks, retries=retries, max_in_flight=max_in_flight)
    if ACKS in conflicts:
        raise ValueError(
            f"enable.idempotence: true needs acks: all, not acks: {acks} "
            "(set enable.idempotence: false or acks: all)"
        )
    if RETRIES in conflicts:
        raise ValueError(
            "enable.idempotence: true needs retries above 0 (set enable.idempotence: false, or "
            "remove retries)"
        )
    if conflicts:
        raise ValueError(
            "enable.idempotence: true needs max.in.flight.requests.per.connection of at most "
            f"{MOST_IN_FLIGHT_IDEMPOTENT}, not {max_in_flight}"
        )


#: Values with which a setting does not conflict with idempotence.
IDEMPOTENT_VALUES: Mapping[str, Value] = {
    ACKS: "all",
    RETRIES: 1,
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: MOST_IN_FLIGHT_IDEMPOTENT,
    ENABLE_IDEMPOTENCE: "true",
}


def has_delivery_timeout(version: str) -> bool:
    """Whether the Java client of a version has `delivery.timeout.ms` (KIP-91)."""
    return numbers(version) >= _DELIVERY_TIMEOUT_SINCE


@cache
def java_producer_defaults(version: str) -> Mapping[str, Value]:
    """Return the defaults of ProducerConfig that losses depend on, by version."""
    release = numbers(version)
    safe = release >= _SAFE_SINCE
    limited = has_delivery_timeout(version)
    return {
        ACKS: "all" if safe else "1",
        ENABLE_IDEMPOTENCE: str(safe and release not in _NOT_IDEMPOTENT).lower(),
        RETRIES: MOST if limited else 0,
        MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: 5,
        LINGER_MS: 5 if release >= _LINGERS_SINCE else 0,
        REQUEST_TIMEOUT_MS: REQUEST_TIMEOUT[1],
        **({DELIVERY_TIMEOUT_MS: DELIVERY_TIMEOUT[1]} if limited else {}),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaProducer:
    """A Java producer. settings: those that are set, by Java's names. version: of the client.

    The properties are the values in force, defaults included. They raise RefusedValueError for a
    value that the client refuses.
    """

    settings: Mapping[str, Value]
    version: str

    def require_legal(self) -> None:
        """Raise ValueError for values or combinations that the client refuses."""
        require_legal(
            idempotence=bool(self._stated_idempotence),
            acks=self.acks,
            retries=self.retries,
            max_in_flight=self.max_in_flight,
        )
        _ = self.linger_ms, self.delivery_timeout_ms  # they raise ValueError, too

    @property
    def acks(self) -> AcksValue:
        if ACKS not in self.settings and self._stated_idempotence:
            return "all"
        return parse_acks(self.settings.get(ACKS, self._default(ACKS)))

    @property
    def idempotence(self) -> bool:
        """Whether it is idempotent; a default gives way to a setting that conflicts with it.

        `ProducerConfig.postProcessAndValidateIdempotenceConfigs`.
        """
        if self._stated_idempotence is not None:
            return self._stated_idempotence
        conflicts = idempotence_conflicts(
            acks=self.acks, retries=self.retries, max_in_flight=self.max_in_flight
        )
        return self._default(ENABLE_IDEMPOTENCE) == "true" and not conflicts

    @property
    def _stated_idempotence(self) -> bool | None:
        """Whether it is to be idempotent; None if no setting says so.

        A transaction needs it (`ProducerConfig.idempotenceEnabled`).
        """
        if not has_idempotence(self.version):
            return None
        value = self.settings.get(ENABLE_IDEMPOTENCE)
        if value is None:
            return True if TRANSACTIONAL_ID in self.settings else None
        if str(value).lower() not in ("true", "false"):
            raise RefusedValueError(
                ENABLE_IDEMPOTENCE,
                f"enable.idempotence: {value!r} is not true or false",
                legal="true or false",
            )
        return str(value).lower() == "true"

    @property
    def retries(self) -> int:
        if RETRIES not in self.settings and self._stated_idempotence:
            return MOST
        return self._number(RETRIES)

    @property
    def max_in_flight(self) -> int:
        return self._number(MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION)

    @property
    def linger_ms(self) -> int:
        return self._number(LINGER_MS)

    @property
    def delivery_timeout_ms(self) -> int:
        """Milliseconds until a send fails. Before 2.1 batches expire after the request timeout."""
        limited = has_delivery_timeout(self.version)
        return self._number(DELIVERY_TIMEOUT_MS if limited else REQUEST_TIMEOUT_MS)

    def _default(self, key: str) -> Value:
        return java_producer_defaults(self.version)[key]

    def _number(self, key: str) -> int:
        value = self.settings.get(key, self._default(key))
        if not _WHOLE.fullmatch(str(value)):
            least = _LEAST.get(key, 0)
            raise RefusedValueError(
                key, f"{key}: {value!r} is not a whole number", legal=f"{least} to {MOST}"
            )
        return int(value)


def out_of_range(settings: Mapping[str, str]) -> str:
    """Return which number both clients refuse; '' if they refuse none.

    Something fills in a value that is empty or a placeholder.
    """
    for key in (RETRIES, MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION):
        least, text = _LEAST.get(key, 0), settings.get(key, "").strip()
        if text and not (_WHOLE.fullmatch(text) or text.startswith("${")):
            return f"{key}: {text!r} is not a whole number"
        if _WHOLE.fullmatch(text) and not least <= int(text) <= MOST:
            return f"{key}={text} is not from {least} to {MOST}"
    return ""
