"""Reads a user's configuration: properties, output of Kafka's commands, Strimzi's resources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from ackproof import safe_files
from ackproof.errors import ScenarioError, shown
from ackproof.scenario.types import setting_text


@dataclass(frozen=True, slots=True)
class Given:
    """The value of a setting, and its origin such as `server.properties:4`."""

    value: str
    source: str


Settings = Mapping[str, Given]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnConfig:
    """A user's cluster and producer, as far as the files describe them; None if they do not."""

    kafka: str = ""
    brokers: int | None = None
    #: How many of the brokers are also controllers; None if controllers are nodes of their own.
    combined: int | None = None
    partitions: int | None = None
    replication_factor: int | None = None
    broker: Settings | None = None
    topic: Settings | None = None
    producer: Settings | None = None
    #: Whether a running broker answered `broker`; otherwise a file contains it.
    in_force: bool = False
    #: Names of the files and clusters that were read, for the description of a scenario.
    read: tuple[str, ...] = field(default=())

    def merged(self, other: OwnConfig) -> OwnConfig:
        """Merge two configurations; `other` wins."""
        given = {one.name: getattr(other, one.name) for one in fields(other)}
        return replace(
            self, **{name: value for name, value in given.items() if value not in (None, "", False)}
        )


_PAIR = re.compile(r"((?:[^\\=:\s]|\\.)*)\s*[=:]?\s*(.*)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str, name: str) -> dict[str, Given]:
    """Return the settings of a file; the last of equal keys counts, as in Java.

    Raises ScenarioError for a line without a key, or with a value that is not printable.
    """
    settings: dict[str, Given] = {}
    for number, line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        assert pair is not None
        key, value = _unescaped(pair[1]), _unescaped(pair[2]).strip()
        source = f"{name}:{number}"
        if not key or not re.fullmatch(r"[A-Za-z0-9._-]+", key):
            raise ScenarioError(
                f"{source}: {line[:60]!r} is not a setting",
                hint="A line is `key=value`; comments begin with #.",
            )
        if not value.isprintable():
            raise ScenarioError(f"{source}: the value of {key} has characters that do not print")
        settings[key] = Given(value, source)
    return settings


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines without comments, with their numbers; a backslash at the end joins two lines."""
    first, collected = 0, ""
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.lstrip()
        if not collected and (not line or line[0] in "#!"):
            continue
        first = first if collected else number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            collected += line[:-1]
            continue
        yield first, collected + line
        collected = ""
    if collected:
        yield first, collected


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9A-Fa-f]{4})|(.))", plain, text)


_HEADING = re.compile(
    r"(?:All |Dynamic |Default )?configs for (topic|broker|brokers)\b.* are:?\s*(.*)", re.IGNORECASE
)
_TOPIC = re.compile(r"Topic:\s*(\S+).*PartitionCount:\s*(\d+)\s+ReplicationFactor:\s*(\d+)(.*)")
_SETTING = re.compile(r"\s+([A-Za-z0-9._-]+)=(.*?)\s+sensitive=(?:true|false)\b.*")


def is_described(text: str) -> bool:
    return any(_HEADING.match(line) or _TOPIC.match(line) for line in text.splitlines())


def parse_described(text: str, name: str) -> dict[str, Given]:
    """Return the settings; `kafka-topics` also gives `partitions` and `replication.factor`."""
    settings: dict[str, Given] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        source = f"{name}:{number}"
        if topic := _TOPIC.match(line):
            settings["partitions"] = Given(topic[2], source)
            settings["replication.factor"] = Given(topic[3], source)
            _, _, configs = topic[4].partition("Configs:")
            settings |= _listed(configs, source)
        elif heading := _HEADING.match(line):
            settings |= _listed(heading[2], source)  # before 2.5 all settings are on this line
        elif setting := _SETTING.fullmatch(line):
            settings[setting[1]] = Given("" if setting[2] == "null" else setting[2], source)
    return settings


def _listed(text: str, source: str) -> dict[str, Given]:
    """Return the settings of `a=1,b=delete,compact`: a value may have commas."""
    pairs = re.split(r",(?=[A-Za-z0-9._-]+=)", text.strip())
    return {
        key: Given(value, source)
        for key, equals, value in (pair.partition("=") for pair in pairs)
        if equals
    }


#: The roles of a node that is a broker and a controller.
_BOTH = {"broker", "controller"}
#: Settings that list the controllers; since 3.9 brokers may have the second instead (KIP-853).
_VOTERS = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")

_KINDS = ("Kafka", "KafkaNodePool", "KafkaTopic")


def is_resource(text: str) -> bool:
    return bool(re.search(r"^(apiVersion|kind):", text, re.MULTILINE))


def parse_strimzi(text: str, name: str) -> OwnConfig:
    """Return the configuration of Strimzi's resources. Raises ScenarioError without any."""
    try:
        resources = [one for one in YAML().load_all(text) if isinstance(one, Mapping)]
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ScenarioError(f"{name}:{line}: not valid YAML: {error.problem}") from None
    except YAMLError as error:
        raise ScenarioError(f"{name}: not valid YAML: {' '.join(str(error).split())}") from None
    of_kind = {kind: [one for one in resources if one.get("kind") == kind] for kind in _KINDS}
    if not any(of_kind.values()):
        kinds = ", ".join(str(one.get("kind")) for one in resources) or "nothing"
        raise ScenarioError(f"{name}: it has {kinds}, and none of {', '.join(_KINDS)}")
    for kind in ("Kafka", "KafkaTopic"):
        if len(of_kind[kind]) > 1:
            names = ", ".join(str(_mapping(one, "metadata").get("name")) for one in of_kind[kind])
            raise ScenarioError(
                f"{name}: it has {len(of_kind[kind])} resources of the kind {kind} ({names})",
                hint="Put the one that you mean into a file of its own.",
            )
    kafka = _mapping(_spec(of_kind["Kafka"]), "kafka")
    topic = _spec(of_kind["KafkaTopic"])
    nodes = [_mapping(one, "spec") for one in of_kind["KafkaNodePool"]] or [kafka]
    return OwnConfig(
        kafka=str(kafka.get("version", "")),
        brokers=_sum(nodes, "broker", name),
        combined=_sum([one for one in nodes if set(one.get("roles", ())) >= _BOTH], "broker", name),
        partitions=_count(topic, "partitions", name),
        replication_factor=_count(topic, "replicas", name),
        broker=_config(kafka, name) if of_kind["Kafka"] else None,
        topic=_config(topic, name) if of_kind["KafkaTopic"] else None,
    )


def combined_controllers(broker: Settings) -> int | None:
    """Return how many controllers there are if this broker is one of them (process.roles)."""
    roles = broker["process.roles"].value if "process.roles" in broker else ""
    if not set(map(str.strip, roles.split(","))) >= _BOTH:
        return None
    voters = (broker[key].value for key in _VOTERS if key in broker)
    return max((len(value.split(",")) for value in voters), default=1)


def _mapping(node: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = node.get(key)
    return value if isinstance(value, Mapping) else {}


def _spec(resources: list[Any]) -> Mapping[str, Any]:
    return _mapping(resources[0], "spec") if resources else {}


def _sum(nodes: list[Mapping[str, Any]], role: str, name: str) -> int | None:
    counts = [_count(one, "replicas", name) for one in nodes if role in one.get("roles", [role])]
    return sum(one or 0 for one in counts) or None


def _count(node: Mapping[str, Any], key: str, name: str) -> int | None:
    value = node.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        line = node.lc.key(key)[0] + 1 if hasattr(node, "lc") else 1
        raise ScenarioError(f"{name}:{line}: {key}: {value!r} is not a whole number from 1")
    return value


def _config(node: Mapping[str, Any], name: str) -> dict[str, Given]:
    config = _mapping(node, "config")
    return {
        str(key): Given(setting_text(value), f"{name}:{config.lc.key(key)[0] + 1}")  # type: ignore[attr-defined]
        for key, value in config.items()
    }


_HINT = "Name a properties file, the output of kafka-configs or kafka-topics, or Strimzi's YAML."
#: More than any configuration has.
_MOST_BYTES = 4_000_000
#: Maximum length of a count. Python refuses numbers of more than 4,300 digits.
_MOST_DIGITS = 18
#: Keys of a topic file that are not topic settings.
_COUNTS = {
    "partitions": "partitions",
    "num.partitions": "partitions",
    "replication.factor": "replication_factor",
    "replication_factor": "replication_factor",
}


def read(
    *, server: Path | None = None, producer: Path | None = None, topic: Path | None = None
) -> OwnConfig:
    """Read configuration files. Raises ScenarioError for a file that cannot be read."""
    own = OwnConfig()
    parts = {"broker": server, "topic": topic, "producer": producer}
    given = {part: path for part, path in parts.items() if path is not None}
    for part, path in given.items():
        own = own.merged(_read(path, part))
    return replace(own, read=tuple(map(str, given.values())))


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
    if part != "producer" and is_resource(text):
        return parse_strimzi(text, str(path))
    if part != "producer" and is_described(text):
        own = _own(part, parse_described(text, str(path)))
        return replace(own, in_force=part == "broker")
    return _own(part, parse_properties(text, str(path)))


def _text(data: bytes) -> str:
    """Decode UTF-8, else ISO 8859-1 as `java.util.Properties` does."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def _own(part: str, settings: dict[str, Given]) -> OwnConfig:
    if part != "topic":
        parts: dict[str, Any] = {part: settings}
        return OwnConfig(**parts)
    counts = {_COUNTS[key]: whole(key, settings.pop(key)) for key in _COUNTS if key in settings}
    return OwnConfig(
        topic=settings,
        partitions=counts.get("partitions"),
        replication_factor=counts.get("replication_factor"),
    )


def whole(key: str, given: Given) -> int:
    legal = given.value.isdecimal() and len(given.value) <= _MOST_DIGITS
    if not legal or int(given.value) < 1:
        raise ScenarioError(
            f"{given.source}: {key}: {shown(given.value)!r} is not a whole number from 1 with at "
            f"most {_MOST_DIGITS} digits"
        )
    return int(given.value)
