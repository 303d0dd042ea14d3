"""Combines the parts of several files into one configuration, by Kafka's order of precedence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import PurePath

from ackproof.own_config.configuration import (
    Client,
    Count,
    Default,
    FileLine,
    FileRead,
    FileRefused,
    Given,
    Option,
    OwnConfig,
    Topic,
    kafka_default,
)
from ackproof.own_config.lookups import Watched
from ackproof.own_config.names import misspelt, misspelt_of_client
from ackproof.own_config.parts import Mounts, Node, Part, Rank, may_decide
from ackproof.own_config.storage import of_brokers
from ackproof.scenario.kafka_keys import Scope
from ackproof_model.kafka_settings import (
    BROKER_DEFAULTS,
    BROKER_RACK,
    DEFAULT_REPLICATION_FACTOR,
    MIN_INSYNC_REPLICAS,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
    PROCESS_ROLES,
    REPLICATION_FACTOR,
    TRANSACTION_STATE_LOG_MIN_ISR,
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    ZOOKEEPER_CONNECT,
)

_BOTH = frozenset({"broker", "controller"})
#: Settings that list the controllers; since 3.9 brokers may have the second instead (KIP-853).
_VOTERS = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
#: Settings that each node has of its own.
_OWN = ("node.id", "broker.id", BROKER_RACK, PROCESS_ROLES, "client.id")
#: Of values that differ between brokers: whether more is lost with a smaller one.
_SMALLER_LOSES = {
    MIN_INSYNC_REPLICAS: True,
    DEFAULT_REPLICATION_FACTOR: True,
    OFFSETS_TOPIC_REPLICATION_FACTOR: True,
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR: True,
    TRANSACTION_STATE_LOG_MIN_ISR: True,
    UNCLEAN_LEADER_ELECTION_ENABLE: False,
}
#: Kafka's values of these settings, where a broker does not state them.
_DEFAULTS = {**BROKER_DEFAULTS, UNCLEAN_LEADER_ELECTION_ENABLE: "false"}


def combine(
    parts: Sequence[tuple[str, Part]], refused: Iterable[FileRefused], *, kafka: str = ""
) -> OwnConfig:
    """Return the configuration that files describe together.

    kafka: the version if an option states it.
    """
    notes: list[str] = [warning for _, part in parts for warning in part.warnings]
    unread = _not_given(parts)
    notes += [
        f"{given.source}: {given.value} may have settings of brokers and was not given: what no "
        "other file states is open; name that file, too"
        for given in unread
    ]
    asked: set[str] = set()
    overridden: dict[_Place, FileLine] = {}
    by_file = {
        file: [replace(node, settings=Watched(node.settings, asked)) for node in of_file]
        for file, of_file in _nodes(parts, overridden).items()
    }
    nodes = [node for of_file in by_file.values() for node in of_file]
    brokers = [node for node in nodes if "broker" in node.roles]
    settings = _settings(brokers, notes)
    for node in nodes:
        if "broker" not in node.roles:
            _controllers_only(node, brokers, notes)
    version = _version(parts, kafka, notes)
    static = [node for node in nodes if node.rank is Rank.STATIC]
    combined = [node for node in static if node.roles >= _BOTH]
    own = OwnConfig(
        read=tuple(dict.fromkeys(FileRead(file=file, shape=part.shape) for file, part in parts)),
        refused=tuple(refused),
        kafka=version,
        since=_since(parts, nodes),
        below=_below(parts, nodes),
        mode=_mode(parts, nodes, version),
        racks=_racks(nodes),
        broker=settings,
        controller=_of_controllers(nodes),
        dynamic=_dynamic(nodes),
        in_force=any(node.rank is Rank.IN_FORCE for node in brokers),
        storage=of_brokers([(node.storage, node.settings) for node in brokers], settings, notes),
        unread=tuple(unread),
        defaults_hold=not unread and any(node.rank is Rank.STATIC for node in brokers),
        topics=_topics([topic for _, part in parts for topic in part.topics], notes),
        producers=tuple(chain.from_iterable(part.producers for _, part in parts)),
        consumers=tuple(chain.from_iterable(part.consumers for _, part in parts)),
        brokers=_brokers({one.shape for _, one in parts}, [*by_file.values()], notes),
        controllers=_larger(
            _voters(static), _sum([node for node in static if "controller" in node.roles])
        ),
        combined=_larger(_voters(combined, at_least=1), _sum(combined)),
    )
    if own.kafka and own.below and _number(own.kafka.value.partition(".")[0]) >= 4:
        notes.append(
            f"{own.below.source}: shows a Kafka below 4.0, but {own.kafka.source} says "
            f"{own.kafka.value}"
        )
    notes += _of_both_modes(nodes)
    notes += _illegal(own)
    notes += _misspelt(own)
    return replace(
        own,
        warnings=tuple(dict.fromkeys(notes)),
        asked=frozenset(asked),
        outranked={**_outranked(nodes), **overridden},
    )


def _not_given(parts: Sequence[tuple[str, Part]]) -> list[Given]:
    """Return broker configuration files that other files refer to but that were not passed in."""
    of_nodes = any(
        node.rank in (Rank.STATIC, Rank.IN_FORCE)
        for _, part in parts
        if not part.unread
        for node in part.nodes
    )
    return [given for _, part in parts for given in part.unread if not of_nodes]


def _settings(brokers: Sequence[Node], notes: list[str]) -> dict[str, Given]:
    """Return the settings of brokers by precedence, and note those that differ between brokers."""
    ranked: dict[str, dict[Rank, list[Given]]] = {}
    for node in brokers:
        for key, given in node.settings.items():
            ranked.setdefault(key, {}).setdefault(node.rank, []).append(given)
    settings: dict[str, Given] = {}
    for key, by_rank in ranked.items():
        values = by_rank[max(by_rank)]
        different = {given.value: given for given in reversed(values)}
        settings[key] = values[0]
        if len(different) > 1 and _matters(key):
            settings[key] = _worse(key, values)
            notes.append(
                f"{key} differs between brokers: {_all(reversed(different.values()))}; the answer "
                f"takes {settings[key].value}. A leader's own value counts, or the active "
                "controller's"
            )
        for rank in sorted(by_rank)[:-1]:
            if any(given.value != settings[key].value for given in by_rank[rank]):
                notes.append(
                    f"{settings[key].source}: {key}={settings[key].value} outranks "
                    f"{by_rank[rank][0].value} ({by_rank[rank][0].source}), by Kafka's precedence"
                )
        others = _without(key, brokers) if max(by_rank) is Rank.STATIC else []
        default = _DEFAULTS.get(key)
        if others and settings[key].value not in ("", default):
            by_default = Given(default or "", kafka_default())
            taken = _worse(key, [settings[key], by_default]) if default else settings[key]
            counts = f", so that Kafka's default, {default}, counts there" if default else ""
            notes.append(
                f"{key} differs between brokers: {_all([settings[key]])}, and the broker "
                f"{_all(others[:1])} does not state it{counts}; the answer takes {taken.value}"
            )
            if taken is not settings[key]:
                del settings[key]
    return settings


_Place = tuple[str, FileLine]
"""A setting and its line."""


def _outranked(nodes: Sequence[Node]) -> dict[_Place, FileLine]:
    """Return each setting that a source of a higher rank has for every role, with that source."""
    in_force: set[_Place] = set()
    outranked: dict[_Place, FileLine] = {}
    for role in ("broker", "controller"):
        stated = [
            (node.rank, key, given.source)
            for node in nodes
            if role in node.roles or node.rank is Rank.DYNAMIC_DEFAULT
            for key, given in node.settings.items()
            if isinstance(given.source, FileLine)
        ]
        highest: dict[str, tuple[Rank, FileLine]] = {}
        for rank, key, line in stated:
            if key not in highest or rank > highest[key][0]:
                highest[key] = rank, line
        for rank, key, line in stated:
            most, by = highest[key]
            if rank == most:
                in_force.add((key, line))
            else:
                outranked[key, line] = by
    return {place: by for place, by in outranked.items() if place not in in_force}


def _without(key: str, brokers: Sequence[Node]) -> list[Given]:
    """Return the ids of brokers that do not state a setting, if every broker that does has an id.

    Only the settings count that may decide about a record.
    """
    if not (key in _SMALLER_LOSES or (may_decide(key) and _matters(key))):
        return []
    stating = [node for node in brokers if key in {*node.settings}]  # to compare is no use
    if not all(node.ids for node in stating):
        return []
    known = {given.value for node in stating for given in node.ids}
    ids = [node.ids[0] for node in brokers if node.rank is Rank.STATIC and node.ids]
    return [given for given in ids if given.value not in known]


def _of_controllers(nodes: Sequence[Node]) -> dict[str, Given]:
    """Return the settings of controllers, including those that are dynamic for all brokers."""
    controllers = [node for node in nodes if "controller" in node.roles]
    return {**_settings(controllers, []), **_dynamic(nodes)} if controllers else {}


def _dynamic(nodes: Sequence[Node]) -> dict[str, Given]:
    return _settings([node for node in nodes if node.rank is Rank.DYNAMIC_DEFAULT], [])


def _matters(key: str) -> bool:
    """Whether brokers must agree in a setting; names, addresses and folders may differ."""
    return key in _SMALLER_LOSES or not (
        key in _OWN
        or key.startswith(("advertised.", "listener", "inter.broker", "log.dir", "controller."))
        or key.endswith((".dir", ".dirs", ".listeners", ".connect", ".host", ".port"))
        or key in ("port", "host.name")
        or "ssl." in key
        or "sasl." in key
    )


def _worse(key: str, values: Sequence[Given]) -> Given:
    if key == UNCLEAN_LEADER_ELECTION_ENABLE:
        return next((given for given in values if given.value == "true"), values[0])
    numbers = [given for given in values if given.value.isdecimal()]
    if _SMALLER_LOSES.get(key) and numbers:
        return min(numbers, key=lambda given: int(given.value))
    return values[0]


def _all(values: Iterable[Given | Count]) -> str:
    return ", ".join(f"{given.value} ({given.source})" for given in values)


def _controllers_only(node: Node, brokers: Sequence[Node], notes: list[str]) -> None:
    """Note what a controller's file decides about its brokers' topics, and what it does not."""
    for key in (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE) if brokers else ():
        given = node.settings.get(key)
        theirs = next((broker.settings[key] for broker in brokers if key in broker.settings), None)
        if given and (theirs is None or theirs.value != given.value):
            notes.append(
                f"{given.source}: {key}={given.value} of a controller: brokers have "
                f"{f'{theirs.value} ({theirs.source})' if theirs else 'their own'}; the controller "
                "elects leaders by its value"
            )
    if not brokers and PROCESS_ROLES in node.settings:
        notes.append(
            f"{node.settings[PROCESS_ROLES].source}: a controller's file: of brokers, topics and "
            "clients it says nothing; of its settings only min.insync.replicas counts, with "
            "eligible leader replicas"
        )


def _version(parts: Sequence[tuple[str, Part]], kafka: str, notes: list[str]) -> Given | None:
    stated = [part.kafka for _, part in parts if part.kafka]
    if kafka:
        if different := [given for given in stated if given.value != kafka]:
            notes.append(f"--kafka {kafka} outranks {_all(different)}")
        return Given(kafka, Option("--kafka"))
    values = {given.value: given for given in reversed(stated)}
    if len(values) > 1:
        oldest = min(stated, key=lambda given: [*map(_number, given.value.split("."))])
        notes.append(
            f"files state several versions of Kafka: {_all(reversed(values.values()))}; the answer "
            f"takes the oldest, {oldest.value}: state one with --kafka"
        )
        return oldest
    return stated[0] if stated else None


def _of_both_modes(nodes: Iterable[Node]) -> list[str]:
    """Return a note if a node states both modes, without a migration from one to the other."""
    for node in nodes:
        if {PROCESS_ROLES, ZOOKEEPER_CONNECT} <= node.settings.keys():
            roles, zookeeper = node.settings[PROCESS_ROLES], node.settings[ZOOKEEPER_CONNECT]
            if "zookeeper.metadata.migration.enable" not in node.settings:
                return [
                    f"{roles.source}: {PROCESS_ROLES} is KRaft's, and {ZOOKEEPER_CONNECT} "
                    f"({zookeeper.source}) is ZooKeeper's: the answer takes KRaft"
                ]
    return []


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _since(parts: Sequence[tuple[str, Part]], nodes: Iterable[Node]) -> Given | None:
    """Return the oldest version that the files allow: brokers know the protocol they use."""
    if since := next((part.since for _, part in parts if part.since), None):
        return since
    for node in nodes:
        given = node.settings.get("inter.broker.protocol.version")
        if given and (version := re.match(r"\d+\.\d+", given.value)):
            return Given(version[0], given.source)
    return None


def _below(parts: Sequence[tuple[str, Part]], nodes: Iterable[Node]) -> Given | None:
    if below := next((part.below for _, part in parts if part.below), None):
        return below
    mode = _mode(parts, nodes, None)
    return Given("4.0", mode.source) if mode and mode.value == "zookeeper" else None


def _mode(
    parts: Sequence[tuple[str, Part]], nodes: Iterable[Node], version: Given | None
) -> Given | None:
    """Return whether the cluster runs with KRaft or ZooKeeper; None if no file shows it."""
    if mode := next((part.mode for _, part in parts if part.mode), None):
        return mode
    for key, mode_name in ((PROCESS_ROLES, "kraft"), (ZOOKEEPER_CONNECT, "zookeeper")):
        for node in nodes:
            if key in node.settings:
                return Given(mode_name, node.settings[key].source)
    if version and _number(version.value.split(".")[0]) >= 4:
        return Given("kraft", version.source)
    for node in nodes:
        if "controller" in node.roles and (
            shows := node.count or next(iter(node.settings.values()), None)
        ):
            return Given("kraft", shows.source)
    return None


def _racks(nodes: Iterable[Node]) -> dict[str, Given]:
    """Return the rack of each broker; a node without an id is known by the line of its rack."""
    racks: dict[str, Given] = {}
    for node in nodes:
        if BROKER_RACK in node.settings and node.rank is Rank.STATIC:
            rack = node.settings[BROKER_RACK]
            name = node.name if node.count else f"the broker of {rack.source}"
            racks[node.ids[0].value if node.ids else name] = rack
    return racks


def _sum(nodes: Sequence[Node]) -> Count | None:
    counted = [node.count for node in nodes if node.count]
    total = sum(count.value for count in counted)
    return Count(total, counted[0].source) if total else None


#: Shapes of which one cluster has several files.
_SPREAD = {"strimzi", "confluent operator", "koperator", "kubernetes"}


def _brokers(shapes: set[str], files: Sequence[Sequence[Node]], notes: list[str]) -> Count | None:
    """Return how many brokers there are; None if files describe only some of them.

    Nodes of both roles that name more controllers than the files describe are only some of them.
    """
    described = [node for nodes in files for node in nodes if node.rank is Rank.STATIC]
    brokers = [node for node in described if "broker" in node.roles]
    found = _most(shapes, files, notes) or _distinct(brokers)
    voters = _voters([node for node in brokers if node.roles >= _BOTH])
    others = _sum([node for node in described if "broker" not in node.roles])
    if found and voters and voters.value > found.value + (others.value if others else 0):
        return None
    return found


def _larger(one: Count | None, other: Count | None) -> Count | None:
    return max(filter(None, (other, one)), key=lambda count: count.value, default=None)


def _most(shapes: set[str], files: Sequence[Sequence[Node]], notes: list[str]) -> Count | None:
    """Return how many brokers files state: the sum if each file has its own, else the largest.

    Each has its own if the ids of its nodes are in no other file.
    """
    counts = [
        count
        for nodes in files
        if (count := _sum([node for node in nodes if "broker" in node.roles]))
    ]
    if len(counts) < 2:
        return counts[0] if counts else None
    if shapes <= _SPREAD or _of_own_nodes(files):
        return Count(sum(count.value for count in counts), counts[0].source)
    most = max(counts, key=lambda count: count.value)
    notes.append(
        f"several files describe brokers: {_all(counts)}; the answer takes {most.value} for all"
    )
    return most


def _of_own_nodes(files: Iterable[Sequence[Node]]) -> bool:
    """Whether all brokers of files have ids, and no two files have a broker of the same id."""
    brokers = [[node for node in nodes if "broker" in node.roles] for nodes in files]
    ids = [{given.value for node in nodes for given in node.ids} for nodes in brokers if nodes]
    different = set[str]().union(*ids)
    return (
        all(node.ids for nodes in brokers for node in nodes)
        and "-1" not in different
        and len(different) == sum(map(len, ids))
    )


def _nodes(
    parts: Sequence[tuple[str, Part]], outranked: dict[_Place, FileLine]
) -> dict[str, list[Node]]:
    """Return the nodes of each file; compose files `…override…` are applied to their neighbour.

    Adds the settings that they replace to outranked.
    """
    found: dict[str, list[Node]] = {}
    for file, part in sorted(parts, key=lambda one: "override" in PurePath(one[0]).name):
        folder = str(PurePath(file).parent)
        known = found.get(folder, []) if part.shape == "compose" else []
        if "override" in PurePath(file).name and known:
            changed = {node.name: node for node in part.nodes}
            found[folder] = [
                _overridden(node, changed.pop(node.name), outranked)
                if node.name in changed
                else node
                for node in known
            ]
            found[folder] += changed.values()
        else:
            place = folder if part.shape == "compose" and folder not in found else file
            found[place] = [*found.get(place, ()), *part.nodes]
    return found


def _overridden(node: Node, by: Node, outranked: dict[_Place, FileLine]) -> Node:
    """Return a service with the settings and the mounts that another compose file adds."""
    for key, given in by.settings.items():
        before = node.settings.get(key)
        if before and isinstance(before.source, FileLine) and isinstance(given.source, FileLine):
            outranked[key, before.source] = given.source
    storage = node.storage
    if isinstance(storage, Mounts) and isinstance(by.storage, Mounts):
        storage = replace(storage, mounts=(*storage.mounts, *by.storage.mounts))
    return replace(node, settings={**node.settings, **by.settings}, storage=storage)


def _distinct(brokers: Sequence[Node]) -> Count | None:
    """Return how many brokers the files of several nodes describe."""
    ids = {given.value: given for node in brokers for given in node.ids if given.value != "-1"}
    return Count(len(ids), next(iter(ids.values())).source) if len(ids) > 1 else None


def _voters(nodes: Sequence[Node], at_least: int = 0) -> Count | None:
    """Return how many controllers a node's list of controllers has."""
    for node in nodes:
        lists = [node.settings[key] for key in _VOTERS if key in node.settings]
        # A bootstrap list of one server may lead to more.
        if lists and (_VOTERS[0] in node.settings or "," in lists[0].value):
            longest = max(lists, key=lambda given: given.value.count(","))
            return Count(longest.value.count(",") + 1, longest.source)
    if at_least and nodes and PROCESS_ROLES in nodes[0].settings:
        return Count(at_least, nodes[0].settings[PROCESS_ROLES].source)
    return None


def _topics(topics: Sequence[Topic], notes: list[str]) -> tuple[Topic, ...]:
    """Return topics by name, with the settings of all files; later files take precedence."""
    merged: dict[str, Topic] = {}
    for topic in topics:
        before = merged.get(topic.name)
        if before is None:
            merged[topic.name] = topic
            continue
        for key, given in _described(topic).items():
            other = _described(before).get(key)
            if other and other.value != given.value:
                name = topic.name or "without a name"
                notes.append(
                    f"{given.source}: {key}={given.value} of the topic {name} outranks "
                    f"{other.value} ({other.source}), which was read before"
                )
        merged[topic.name] = replace(
            topic,
            partitions=topic.partitions or before.partitions,
            replication_factor=topic.replication_factor or before.replication_factor,
            settings={**before.settings, **topic.settings},
        )
    return tuple(merged.values())


def _described(topic: Topic) -> dict[str, Given]:
    counts = {"partitions": topic.partitions, REPLICATION_FACTOR: topic.replication_factor}
    return {**{key: given for key, given in counts.items() if given}, **topic.settings}


_NUMBERS = re.compile(r".*(replicas|replication\.factor|\.isr)|(log\.)?flush.*messages")
_SWITCHES = re.compile(r".*\.enable")


def _illegal(own: OwnConfig) -> list[str]:
    """Return a warning for each value that keeps a broker from starting."""
    return [
        f"{given.source}: {key}={given.value} is {problem}: Kafka refuses it"
        for settings in (own.broker, *(topic.settings for topic in own.topics))
        for key, given in settings.items()
        if not isinstance(given.source, Default)
        if (problem := _problem(key, given.value.strip()))
    ]


def _problem(key: str, value: str) -> str:
    if not value:
        return ""  # something fills it in
    if _NUMBERS.fullmatch(key) and not re.fullmatch(r"\d*[1-9]\d*", value):
        return "below 1" if re.fullmatch(r"-?\d+", value) else "not a whole number"
    if _SWITCHES.fullmatch(key) and value.lower() not in ("true", "false"):
        return "neither true nor false"
    return ""


def _misspelt(own: OwnConfig) -> list[str]:
    """Return a warning for each name that is almost the name of a setting."""
    scopes = [(own.broker, "broker"), *((topic.settings, "topic") for topic in own.topics)]
    warnings = [
        f"{given.source}: {key}: Kafka has no {scope} setting of this name; did you mean {near!r}?"
        for settings, scope in scopes
        for key, given in settings.items()
        if (near := misspelt(key, (scope,)))
    ]
    clients: list[tuple[Client, Scope]] = [(client, "producer") for client in own.producers]
    clients += [(client, "consumer") for client in own.consumers]
    return warnings + [
        f"{given.source}: {key}: no {scope} has a setting of this name; did you mean {near!r}?"
        for client, scope in clients
        for key, given in client.settings.items()
        if (near := misspelt_of_client(key, scope))
    ]
