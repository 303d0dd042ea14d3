"""Reads a user's configuration files, whatever their format."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from ackproof import safe_files
from ackproof.errors import ScenarioError, shown
from ackproof.own_config import described, properties, strimzi
from ackproof.own_config.settings import Given, OwnConfig, Settings

_HINT = "Name a properties file, the output of kafka-configs or kafka-topics, or Strimzi's YAML."
#: Far more than any configuration has.
_MOST_BYTES = 4_000_000
#: Of a count. Python makes no number of more than 4,300 digits.
_MOST_DIGITS = 18
#: Keys of a topic file that are no settings of topics.
_COUNTS = {
    "partitions": "partitions",
    "num.partitions": "partitions",
    "replication.factor": "replication_factor",
    "replication_factor": "replication_factor",
}


def read(
    *, server: Path | None = None, producer: Path | None = None, topic: Path | None = None
) -> OwnConfig:
    """Return what these files say. Raises ScenarioError for a file that cannot be read."""
    own = OwnConfig()
    if server is not None:
        own = _merged(own, _read(server, "broker"))
    if topic is not None:
        own = _merged(own, _read(topic, "topic"))
    if producer is not None:
        own = _merged(own, _read(producer, "producer"))
    names = tuple(str(path) for path in (server, topic, producer) if path is not None)
    return replace(own, read=names)


def _read(path: Path, part: str) -> OwnConfig:
    try:
        text = _text(safe_files.read(path, most=_MOST_BYTES))
    except FileNotFoundError:
        folder = path.parent
        near = get_close_matches(path.name, [one.name for one in folder.glob("*")], n=1)
        guess = f" Did you mean {folder / near[0]}?" if near else ""
        raise ScenarioError(f"{path}: no such file.{guess}", hint=_HINT) from None
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}", hint=_HINT) from None
    if part != "producer" and strimzi.is_resource(text):
        return strimzi.parse(text, str(path))
    if part != "producer" and described.is_described(text):
        own = _own(part, described.parse(text, str(path)))
        return replace(own, in_force=part == "broker")
    return _own(part, properties.parse(text, str(path)))


def _text(data: bytes) -> str:
    """Return the text of a file; what is no UTF-8 is ISO 8859-1, as in `java.util.Properties`."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def _own(part: str, settings: dict[str, Given]) -> OwnConfig:
    if part == "broker":
        return OwnConfig(broker=settings)
    if part == "producer":
        return OwnConfig(producer=settings)
    counts = {_COUNTS[key]: whole(key, settings.pop(key)) for key in _COUNTS if key in settings}
    return OwnConfig(
        topic=settings,
        partitions=counts.get("partitions"),
        replication_factor=counts.get("replication_factor"),
    )


def whole(key: str, given: Given) -> int:
    """Return the value of a count. Raises ScenarioError."""
    legal = given.value.isdecimal() and len(given.value) <= _MOST_DIGITS
    if not legal or int(given.value) < 1:
        raise ScenarioError(
            f"{given.source}: {key}: {shown(given.value)!r} is not a whole number from 1 with at "
            f"most {_MOST_DIGITS} digits"
        )
    return int(given.value)


def _merged(one: OwnConfig, other: OwnConfig) -> OwnConfig:
    """Return both; where both say something, `other` counts."""
    own = replace(
        one,
        kafka=other.kafka or one.kafka,
        brokers=other.brokers or one.brokers,
        partitions=other.partitions or one.partitions,
        replication_factor=other.replication_factor or one.replication_factor,
        in_force=other.in_force or one.in_force,
    )
    return replace(
        own,
        broker=_first(other.broker, one.broker),
        topic=_first(other.topic, one.topic),
        producer=_first(other.producer, one.producer),
    )


def _first(one: Settings | None, other: Settings | None) -> Settings | None:
    return other if one is None else one
