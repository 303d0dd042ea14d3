"""The settings of librdkafka's clients, and the reasons why others are refused."""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from ackproof_model.kafka_settings import (
    ENABLE_AUTO_COMMIT,
    ENABLE_AUTO_OFFSET_STORE,
    ENABLE_IDEMPOTENCE,
    TRANSACTIONAL_ID,
)

if TYPE_CHECKING:  # an audit reads these facts, and needs no models
    from ackproof.scenario.types import Setting

#: Properties that scenarios may use. librdkafka cannot list its properties, hence this list.
KNOWN = (
    *("acks", "request.timeout.ms", "delivery.timeout.ms", "partitioner", "compression.type"),
    *("compression.level", "enable.idempotence", "enable.gapless.guarantee", "retries"),
    *("max.in.flight.requests.per.connection", "linger.ms", "batch.size", "batch.num.messages"),
    *("retry.backoff.ms", "retry.backoff.max.ms", "message.max.bytes", "transaction.timeout.ms"),
    *("queue.buffering.max.messages", "queue.buffering.max.kbytes", "message.copy.max.bytes"),
    *("sticky.partitioning.linger.ms", "queuing.strategy", "compression.codec"),
    *("auto.offset.reset", "auto.commit.interval.ms", "isolation.level", "session.timeout.ms"),
    *("heartbeat.interval.ms", "max.poll.interval.ms", "group.protocol", "group.instance.id"),
    *("group.remote.assignor", "partition.assignment.strategy", "check.crcs", "client.rack"),
    *("fetch.min.bytes", "fetch.max.bytes", "fetch.wait.max.ms", "fetch.message.max.bytes"),
    *("fetch.error.backoff.ms", "fetch.queue.backoff.ms", "max.partition.fetch.bytes"),
    *("queued.min.messages", "queued.max.messages.kbytes", "coordinator.query.interval.ms"),
    *("socket.timeout.ms", "socket.nagle.disable", "socket.keepalive.enable"),
    *("socket.connection.setup.timeout.ms", "socket.max.fails", "connections.max.idle.ms"),
    *("socket.send.buffer.bytes", "socket.receive.buffer.bytes", "receive.message.max.bytes"),
    *("reconnect.backoff.ms", "reconnect.backoff.max.ms", "metadata.max.age.ms"),
    *("topic.metadata.refresh.interval.ms", "topic.metadata.propagation.max.ms"),
    *("metadata.recovery.strategy", "statistics.interval.ms", "debug", "client.dns.lookup"),
    *("broker.address.family", "broker.address.ttl", "api.version.request", "log_level"),
)


#: Properties that a scenario must not set: pattern and reason.
_FORBIDDEN = (
    (r"plugin\..*|ssl[._]engine[._].*|ssl\.providers", "loads code into the client"),
    (r"sasl\.kerberos\..*", "is a part of a command that a shell executes"),
    (r"internal\.termination\.signal", "has the client send signals to its process"),
    (r"offset\.store\..*", "keeps offsets in files, of which Kafka knows nothing"),
    (r"test\.mock\..*", "makes librdkafka a broker of its own, whose acks are not Kafka's"),
    (r".*_cb|logger|opaque|default\.topic\.config", "is an object of a program, not a setting"),
    (r"delivery\.report\.only\.error", "keeps acks from being reported"),
)

#: Properties for authentication. With them a client would connect while settings are validated,
#: which creates a client.
_LOGIN = r"security\.protocol|(enable\.)?sasl\..*"


def forbidden(key: str) -> str:
    """Return why a scenario must not set a property; '' if it may."""
    for pattern, reason in _FORBIDDEN:
        if re.fullmatch(pattern, key):
            return f"{key} {reason}: remove it"
    return ""


def unreadable_files(settings: Mapping[str, Setting]) -> Iterator[tuple[str, str]]:
    """Yield settings that name a pipe, a device or a socket, which may block the client."""
    for key, value in settings.items():
        path = str(value)
        if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
            yield key, f"{key}: {value} is neither a file nor a folder"


def refusal(settings: Mapping[str, Setting]) -> str:
    """Return why the clients of a workload cannot have these settings; '' if they can.

    Call this before a client gets them: some settings act as soon as the client is created.
    """
    from ackproof.scenario.types import padding

    reasons = chain(
        map(padding, settings, settings.values()),
        map(forbidden, settings),
        (problem for _, problem in unreadable_files(settings)),
        (
            f"{key} is set by ackproof itself (cluster.security, cluster.attach.client): remove it"
            for key in settings
            if re.fullmatch(_LOGIN, key)
        ),
    )
    return next(filter(None, reasons), "")


def require_accepted(
    client: Literal["Producer", "Consumer", "ShareConsumer"], settings: Mapping[str, Any]
) -> None:
    """Raise ValueError if librdkafka refuses to make a client with these settings.

    Without confluent-kafka (the extra `run`) only misspelt names are refused.
    """
    try:
        import confluent_kafka
    except ModuleNotFoundError:
        for key in settings.keys() - {*KNOWN}:
            if difflib.get_close_matches(key, KNOWN, n=1, cutoff=_MISSPELT):
                raise ValueError(_explained(_UNKNOWN.format(key))) from None
        return
    if not hasattr(confluent_kafka, client):
        raise ValueError(
            f"confluent-kafka {confluent_kafka.__version__} has no {client}: install 2.16 or later"
        )
    silent = logging.Logger("librdkafka")  # `debug` would print all that the client does
    silent.addHandler(logging.NullHandler())
    asked = f"{client} {sorted(settings.items())!r}"  # which tells 1, 1.0, true and '1' apart
    names_a_file = any(os.path.exists(str(value)) for value in settings.values())
    if asked in _accepted and not names_a_file:
        return
    try:
        getattr(confluent_kafka, client)({**settings, "log_level": 0}, logger=silent).close()
    except confluent_kafka.KafkaException as error:
        raise ValueError(_explained(error.args[0].str())) from None
    except TypeError as error:
        raise ValueError(f"confluent-kafka refuses this: {error}") from None
    if not names_a_file:
        _accepted.add(asked)


#: Settings that librdkafka accepted in this process: many configurations have the same, and to make
#: and close a client takes milliseconds. Settings that name a file are tried each time.
_accepted: set[str] = set()

_UNKNOWN = 'No such configuration property: "{}"'
#: Minimum similarity of a misspelt name to a known name.
_MISSPELT = 0.9


def _explained(message: str) -> str:
    unknown = re.fullmatch(_UNKNOWN.format("(.*)"), message)
    near = difflib.get_close_matches(unknown[1], KNOWN, n=1) if unknown else []
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return f"librdkafka refuses this: {message}{guess}"


SET_BY_US = "set by ackproof itself"

#: Settings that a scenario cannot set, with the reason.
OWNED_PRODUCER_SETTINGS = dict.fromkeys(
    ("bootstrap.servers", "metadata.broker.list", "client.id", TRANSACTIONAL_ID), SET_BY_US
)
OWNED_CONSUMER_SETTINGS = {
    **dict.fromkeys(
        ("bootstrap.servers", "metadata.broker.list", "client.id", "enable.partition.eof"),
        SET_BY_US,
    ),
    "group.id": "the name of the consumer group in workload.consumers",
    ENABLE_AUTO_COMMIT: "set by the key `commit`",
    ENABLE_AUTO_OFFSET_STORE: "set by the key `commit`",
}

#: Values of auto.offset.reset with which a group begins at the first record.
EARLIEST = frozenset({"earliest", "smallest", "beginning"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A defect of producers that loses acked records.

    fixed: the first version without it. setting: producers that use it have the defect. failures:
    the events after which it shows, as an audit names them.
    """

    case: str
    fixed: tuple[int, ...]
    setting: str
    failures: tuple[str, ...]
    text: str

    @property
    def fixed_version(self) -> str:
        return ".".join(map(str, self.fixed))

    def is_in(self, version: str) -> bool:
        """Whether a version such as `1.8.2`, `v1.8` or `1.9.0-RC1` has the defect."""
        parts = version.lstrip("v").partition("-")[0].split(".")
        return tuple(int(part) for part in parts if part.isdecimal()) < self.fixed

    def __str__(self) -> str:
        return f"librdkafka before {self.fixed_version}: {self.text}"


DEFECTS = (
    Defect(
        case="B23",
        fixed=(1, 8, 2),
        setting=TRANSACTIONAL_ID,
        failures=("leader_move", "leader_move"),
        text="leaders change quickly, and the beginning of a committed transaction is lost",
    ),
    Defect(
        case="B22",
        fixed=(1, 9, 0),
        setting=ENABLE_IDEMPOTENCE,
        failures=("clean_restart",),
        text="a producer whose broker reports the topic missing for a moment starts its sequence "
        "again, and the leader takes new records for old ones",
    ),
)
