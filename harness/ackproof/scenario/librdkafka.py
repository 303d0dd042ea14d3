"""Explains settings that librdkafka refuses, with the nearest name that it knows."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Literal

from ackproof.scenario.types import Setting, padding

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
    *(
        "group.id",
        "broker.address.family",
        "broker.address.ttl",
        "api.version.request",
        "log_level",
    ),
)


#: Properties that no scenario may set: pattern, and why.
_FORBIDDEN = (
    (r"plugin\..*|ssl[._]engine[._].*|ssl\.providers", "loads code into the client"),
    (r"sasl\.kerberos\..*", "is a part of a command that a shell executes"),
    (r"internal\.termination\.signal", "has the client send signals to its process"),
    (r"offset\.store\..*", "keeps offsets in files, of which Kafka knows nothing"),
    (r"test\.mock\..*", "makes librdkafka a broker of its own, whose acks are not Kafka's"),
    (r".*_cb|logger|opaque|default\.topic\.config", "is an object of a program, not a setting"),
    (r"delivery\.report\.only\.error", "keeps acks from being reported"),
)

#: Properties by which a client logs in. With them a client connects as soon as it is made, which
#: is how settings are validated.
_LOGIN = r"security\.protocol|(enable\.)?sasl\..*"


def forbidden(key: str) -> str:
    """Return why no scenario may set a property; '' if it may."""
    for pattern, reason in _FORBIDDEN:
        if re.fullmatch(pattern, key):
            return f"{key} {reason}: remove it"
    return ""


def unreadable_files(settings: Mapping[str, Setting]) -> Iterator[tuple[str, str]]:
    """Yield settings that name a pipe, a device or a socket, which may block the client for ever.

    Any setting, as not all that name files are called alike. A file that does not exist is left to
    librdkafka: the setting may be a folder or a URI.
    """
    for key, value in settings.items():
        path = str(value)
        if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
            yield key, f"{key}: {value} is neither a file nor a folder"


def refusal(settings: Mapping[str, Setting]) -> str:
    """Return why the clients of a workload cannot have these settings; '' if they can.

    To be called before a client gets them: what is refused may act as soon as a client is made.
    """
    found = chain(
        map(padding, settings, settings.values()),
        map(forbidden, settings),
        (problem for _, problem in unreadable_files(settings)),
        (
            f"{key} is set by ackproof itself (cluster.security, cluster.attach.client): remove it"
            for key in settings
            if re.fullmatch(_LOGIN, key)
        ),
    )
    return next(filter(None, found), "")


def require_accepted(client: Literal["Producer", "Consumer"], settings: Mapping[str, Any]) -> None:
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
    try:
        getattr(confluent_kafka, client)({**settings, "log_level": 0}).close()
    except confluent_kafka.KafkaException as error:
        raise ValueError(_explained(error.args[0].str())) from None
    except TypeError as error:
        raise ValueError(f"confluent-kafka refuses this: {error}") from None


_UNKNOWN = 'No such configuration property: "{}"'
#: The similarity of a name to a known one from which it is a misspelling of that.
_MISSPELT = 0.9


def _explained(message: str) -> str:
    unknown = re.fullmatch(_UNKNOWN.format("(.*)"), message)
    near = difflib.get_close_matches(unknown[1], KNOWN, n=1) if unknown else []
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return f"librdkafka refuses this: {message}{guess}"
