"""The output of `kafka-configs --describe`, with or without its heading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ackproof.own_config.configuration import Given, Topic
from ackproof.own_config.parts import Format, Node, Part, Rank, RefusalError, Source
from ackproof.own_config.properties import listed
from ackproof.own_config.tree import Text

_HEADING = re.compile(
    r"\s*(?:(?P<kind>All user provided|All|Dynamic|Default|User provided) )?configs for "
    r"(?:the )?(?P<scope>topic|brokers|broker|client|user)s?\b\s*(?P<name>.*?)\s*are:?\s*"
    r"(?P<rest>.*)",
    re.IGNORECASE,
)
_SETTING = re.compile(
    r"\s*(?P<key>[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)+)=(?P<value>.*?)"
    r"(?:\s+sensitive=(?P<sensitive>true|false)\b\s*(?:synonyms=\{(?P<synonyms>[^}]*)\}?)?.*)?"
)
#: Among the synonyms of a broker's setting.
_DYNAMIC = re.compile(r"DYNAMIC_DEFAULT_BROKER_CONFIG:[^=]*=(.*?)(?:, [A-Z_]+:|$)")
#: The default of a broker's protocol: the version of the broker.
_OWN_PROTOCOL = re.compile(
    r"DEFAULT_CONFIG:inter\.broker\.protocol\.version=(\d+\.\d+(?:\.\d+)?)(?:-IV\d+)?(?![\w.])"
)
_ALL = "all brokers"


@dataclass
class _Entity:
    """A broker, all brokers, or a topic whose settings a command printed.

    dynamic: of a broker, the settings that are dynamic for all brokers.
    """

    scope: str
    name: str
    in_force: bool
    pairs: dict[str, Text] = field(default_factory=dict)
    dynamic: dict[str, Text] = field(default_factory=dict)


def read(source: Source) -> Part | None:
    """Read `kafka-configs --describe`, also lines of it without their heading.

    A topic without a setting has those of the brokers.
    """
    entities = _entities(source)
    nodes = tuple(
        Node(name=name, settings=source.settings(pairs), rank=rank)
        for entity in entities
        if entity.scope != "topic"
        for name, pairs, rank in (
            (f"broker {entity.name}" if entity.name else _ALL, entity.pairs, _rank(entity)),
            (_ALL, entity.dynamic, Rank.DYNAMIC_DEFAULT),
        )
        if pairs
    )
    topics = tuple(
        Topic(name=entity.name, settings=source.settings(entity.pairs))
        for entity in entities
        if entity.scope == "topic"
    )
    if nodes or topics:
        return Part(
            shape="kafka-configs --describe",
            kafka=_version(source),
            nodes=nodes,
            topics=topics,
        )
    if any(entity.scope.startswith("broker") for entity in entities):
        raise RefusalError(
            "the output of kafka-configs --describe without a setting: ask with --all, which also "
            "prints the brokers' static settings and defaults"
        )
    return None


def _version(source: Source) -> Given | None:
    """Return the oldest version of the brokers: the default of their protocol is their own."""
    found = [
        Given(match[1], source.at(number))
        for number, line in _unwrapped(source.lines)
        for match in _OWN_PROTOCOL.finditer(line)
    ]
    places = {given.value: given for given in reversed(found)}
    if len(places) > 1:
        stated = ", ".join(f"{given.value} ({given.source})" for given in places.values())
        source.warnings.append(f"brokers of several versions: {stated}")
    return min(found, key=lambda given: [*map(int, given.value.split("."))], default=None)


def _rank(entity: _Entity) -> Rank:
    if entity.in_force:
        return Rank.IN_FORCE
    return Rank.DYNAMIC_BROKER if entity.name else Rank.DYNAMIC_DEFAULT


def _entities(source: Source) -> list[_Entity]:
    found: list[_Entity] = []
    for number, line in _unwrapped(source.lines):
        if heading := _HEADING.match(line):
            scope = "broker" if heading["scope"] == "brokers" else heading["scope"].lower()
            name = re.sub(r"^(?:entity )?['\"]?(.*?)['\"]?$", r"\1", heading["name"])
            name = "" if heading["scope"] == "brokers" else name
            in_force = scope == "broker" and (heading["kind"] or "").lower() == "all"
            pairs = listed(heading["rest"], number)  # before 2.5 all are on this line
            found.append(_Entity(scope, name, in_force, pairs))
        elif (match := _SETTING.fullmatch(line)) and (found or match["sensitive"]):
            if not found:
                found.append(_Entity(_scope(match["synonyms"] or "", source.hint), "", True))
            if match["sensitive"] != "true" and match["value"] not in ("null", ""):
                found[-1].pairs[match["key"]] = Text.at(match["value"], number)
                if of_all := _DYNAMIC.search(match["synonyms"] or ""):
                    found[-1].dynamic[match["key"]] = Text.at(of_all[1], number)
    return found


def _scope(synonyms: str, hint: str) -> str:
    """Return whether a line without a heading belongs to a topic or a broker."""
    if "DYNAMIC_TOPIC_CONFIG" in synonyms:
        return "topic"
    return "topic" if hint == "topic" and "BROKER" not in synonyms else "broker"


def _unwrapped(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers; a line that a terminal wrapped is joined.

    A setting ends with its synonyms in braces.
    """
    first, text = 0, ""
    for number, line in enumerate(lines, start=1):
        first = first if text else number
        text += line
        is_open = "sensitive=" in text and "synonyms={" in text and "}" not in text
        cut = re.fullmatch(r"\s+[a-z0-9._-]+=\S*\s*(sensiti?v?e?=?\w*|synonyms=?)?", text)
        following = lines[number] if number < len(lines) else ""
        begins = _HEADING.match(following) or re.match(r"\s+[a-z0-9._-]+=", following)
        goes_on = is_open or (cut and not _SETTING_ALONE.match(following))
        if begins or not following.strip() or not goes_on:
            yield first, text
            text = ""


_SETTING_ALONE = re.compile(r"\s*[a-z0-9-]+(\.[a-z0-9-]+)+=")
_EXAMPLE = """\
Dynamic configs for topic orders are:
  min.insync.replicas=2 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:min.insync.replicas=2}
"""
FORMAT = Format(
    name="output of kafka-configs --describe",
    order=20,
    reads="settings of brokers and topics, with `--all` those in force",
    patterns=("*.txt",),
    mentions="configs",
    examples={"configs.txt": _EXAMPLE},
    read=read,
)
