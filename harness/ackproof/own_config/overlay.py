"""Replaces the configuration of a scenario by a user's.

A scenario keeps its faults, rate and expectations. All settings of brokers, of the workload's topic
and of its producers are replaced.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from ruamel.yaml import YAML

from ackproof.errors import ScenarioError, shown
from ackproof.kafka_versions import (
    DEFAULT_KAFKA,
    LAST_WITH_ZOOKEEPER,
    ZOOKEEPER_UNTIL,
    numbers,
    uses_zookeeper,
)
from ackproof.own_config.configuration import (
    Bearer,
    Client,
    Default,
    Given,
    NoFile,
    Option,
    Origin,
    OwnConfig,
    Settings,
    Stated,
    Topic,
)
from ackproof.own_config.lookups import Lookups
from ackproof.own_config.translation import convert, left_out_by_brokers, taken_by_brokers
from ackproof.own_config.uses import Elsewhere, Reason, Uses, Why, by_name, uses
from ackproof.scenario import documents, loader
from ackproof.scenario.changes import Overrides
from ackproof.scenario.cluster import PER_TOPIC_SETTINGS
from ackproof.scenario.kafka_keys import ignored
from ackproof.scenario.shipped import without_schema
from ackproof.scenario.types import YamlPath
from ackproof.scope import beyond
from ackproof_model.configuration import Profile
from ackproof_model.kafka_settings import (
    CLEANUP_POLICY,
    DEFAULT_REPLICATION_FACTOR,
    MIN_INSYNC_REPLICAS,
    REPLICATION_FACTOR,
    RETENTION_BYTES,
    RETENTION_MS,
)
from ackproof_model.removal import (
    FOR_EVER,
    KEEP_EVERYTHING,
    LESS_THAN_A_DAY,
    appended,
    in_force,
    removals,
    setting_names,
)

#: Topic settings that would remove records: retention is off in a run.
_REMOVING = (*KEEP_EVERYTHING, "delete.retention.ms")

_TIERED = re.compile(r"remote\.(storage|log|copy)\.|local\.retention\.")


#: Maximum length of a count. Python refuses numbers of more than 4,300 digits.
_MOST_DIGITS = 18


def overlay(own: OwnConfig, document: Mapping[str, Any], *, kafka: str = "") -> Overlay:
    """Return the overrides for a scenario; `kafka` outranks the version in the files.

    Raises ScenarioError if the files have several topics or producers.
    """
    if own.below and not (kafka or own.release):
        raise ScenarioError(
            f"{own.below.source}: this Kafka is below {own.below.value}; no file has its version",
            hint="State it with --kafka VERSION.",
        )
    version = kafka or own.release or str(document.get("kafka") or DEFAULT_KAFKA)
    stated, version = version, _with_mode(own, version)
    workload = document.get("workload")
    name = str(workload.get("topic", "")) if isinstance(workload, Mapping) else ""
    topic = _only("topics", [one for one in own.topics if not one.internal], "--topic")
    producer = _only("producers", [one for one in own.producers if not one.writes], "--client")
    if own.controller and not (own.describes_brokers or own.topics or own.producers):
        raise ScenarioError(
            f"{own.read[0].file}: a controller's file (process.roles=controller): of brokers, "
            "topics and producers it says nothing",
            hint="Name a broker's file, too.",
        )
    for given in own.unread[:1]:
        raise ScenarioError(
            f"{given.source}: {given.value} has settings of brokers and was not given",
            hint="Name that file, too; `ackproof audit` answers for each value that it may have.",
        )
    lookups = Lookups()
    own = lookups.watch(replace(own, broker=_filled(own.broker)))
    topic = replace(topic, settings=_filled(topic.settings)) if topic else None
    producer = replace(producer, settings=_filled(producer.settings)) if producer else None
    result = Overlay(version, name)
    result.warnings += own.warnings
    if own.mode and version != stated:
        result.put(("kafka",), version, own.mode.source)
        result.warnings.append(
            f"{own.mode.source}: Kafka {stated} with ZooKeeper: the scenario has Kafka {version}, "
            "the last that ackproof runs with ZooKeeper; KRaft has other rules"
        )
    elif kafka:
        result.put(("kafka",), version, Option("--kafka"))
    elif own.kafka:
        result.put(("kafka",), version, own.kafka.source)
    if own.mode and own.mode.value == "kraft" and uses_zookeeper(version):
        result.warnings.append(
            f"{own.mode.source}: Kafka {version} with KRaft, which was a preview then: the "
            "scenario has ZooKeeper, which has other rules"
        )
    assumed = "" if kafka or own.kafka else " (the default: no file states it)"
    result.used.append(f"Kafka {version}{assumed}")
    result.nodes(own, topic, document)
    if own.describes_brokers:
        result.broker_settings(own.broker)
    if topic or own.describes_brokers:
        result.topic_settings(own, topic.settings if topic else {})
    if producer:
        result.producer_settings(producer)
    else:
        result.used.append("the scenario's producers (--producer reads yours)")
    result.beyond(own.broker)
    result.beyond(topic.settings if topic else {})
    result.beyond(producer.settings if producer else {})
    if topic and topic.partitions:
        partitions = whole("partitions", topic.partitions)
        result.leave_out("topic", f"partitions={partitions}", Reason.PARTITIONS)
    result.settle(own, lookups, topic, producer)
    result.warnings = list(dict.fromkeys(result.warnings))
    return result


def _with_mode(own: OwnConfig, version: str) -> str:
    """Return the version of a scenario: for ZooKeeper the last that ackproof runs with it."""
    zookeeper = own.mode is not None and own.mode.value == "zookeeper"
    if not zookeeper or uses_zookeeper(version) or numbers(version) >= ZOOKEEPER_UNTIL:
        return version
    return LAST_WITH_ZOOKEEPER


def _filled(settings: Settings) -> dict[str, Given]:
    """Leave out settings that a program fills in; a warning has named them."""
    return {key: given for key, given in settings.items() if given.value}


_Named = TypeVar("_Named", Topic, Client)


def _only(what: str, found: Sequence[_Named], option: str) -> _Named | None:
    """Return the only topic or producer. option: which names one of several."""
    if len(found) > 1:
        names = ", ".join(one.name or "without a name" for one in found)
        options = [f"{option} NAME (one of these)"]
        if profiles := list(dict.fromkeys(one.profile for one in found if one.profile)):
            options.insert(0, f"--profile NAME ({', '.join(profiles)})")
        raise ScenarioError(
            f"the files have {len(found)} {what}: {names}",
            hint=f"A scenario has the settings of one: choose it with {' or '.join(options)}, or "
            "give files that have only one; `ackproof audit` answers about all.",
        )
    return found[0] if found else None


def whole(key: str, given: Given) -> int:
    """Return a count. Raises ScenarioError if it is not a number from 1."""
    legal = given.value.isdecimal() and len(given.value) <= _MOST_DIGITS
    if not legal or int(given.value) < 1:
        raise ScenarioError(
            f"{given.source}: {key}: {shown(given.value)!r} is not a whole number from 1 with at "
            f"most {_MOST_DIGITS} digits"
        )
    return int(given.value)


class Overlay:
    """A user's configuration for one scenario document.

    `used` describes what the run uses, line by line. `warnings` are probable mistakes in the user's
    files. `unused` maps reasons to settings that the run does not use; `uses` has every setting of
    the files.
    """

    def __init__(self, kafka: str, topic: str) -> None:
        self.kafka = kafka
        self.topic: YamlPath = ("topics", topic)
        self.replaced: dict[YamlPath, Any] = {}
        self.sources: dict[YamlPath, str] = {}
        self.defaults: set[YamlPath] = set()
        self.used: list[str] = []
        self.warnings: list[str] = []
        self.unused: defaultdict[Reason, list[str]] = defaultdict(list)
        self.uses = Uses()
        self._left_out: dict[tuple[Bearer, str], Reason] = {}

    @property
    def overrides(self) -> Overrides:
        return Overrides(
            replaced=self.replaced, sources=self.sources, defaults=frozenset(self.defaults)
        )

    def leave_out(self, bearer: Bearer, key: str, reason: Reason) -> None:
        self.unused[reason].append(key)
        self._left_out[bearer, key] = reason

    def settle(
        self, own: OwnConfig, lookups: Lookups, topic: Topic | None, producer: Client | None
    ) -> None:
        """Divide all settings of the files by whether the run uses them."""
        chosen = {
            (bearer, key, given.source)
            for bearer, one in (("topic", topic), ("producer", producer))
            if one
            for key, given in one.settings.items()
        }
        asked = {*own.asked, *lookups.of["broker"], *lookups.of["controller"]}
        asked |= {str(path[-1]) for path in self.sources if path[0] == "cluster"}
        elsewhere = Elsewhere([own])

        def of_nodes(one: Stated) -> Why:
            if by := own.outranked.get((one.key, one.source)):
                return by
            if one.key in asked:
                return None
            if one.bearer == "controller":
                return Reason.CONTROLLERS
            return by_name(one, self.kafka) or Reason.NO_RULE

        def reason_of(one: Stated) -> Why:
            if one.bearer in ("", "count"):
                return elsewhere.reason(one)
            if one.bearer == "consumer":
                return Reason.CONSUMERS
            if left_out := self._left_out.get((one.bearer, one.key)):
                return left_out
            if one.bearer in ("broker", "controller"):
                return of_nodes(one)
            taken = (one.bearer, one.key, one.source) in chosen
            return None if taken else Reason.ONE_OF_EACH

        self.uses = uses(own.stated, reason_of)
        listed = {key for keys in self.unused.values() for key in keys}
        for unused in self.uses.unused:
            if unused.key not in listed:
                listed.add(unused.key)
                self.unused[unused.reason].append(unused.key)

    def put(self, path: YamlPath, value: Any, source: Origin) -> None:
        self.replaced[path] = value
        self.sources[path] = str(source)

    def _settings(self, path: YamlPath, settings: Settings) -> None:
        self.replaced[path] = {key: _plain(given.value) for key, given in settings.items()}
        self.sources |= {(*path, key): str(given.source) for key, given in settings.items()}
        self.defaults |= {
            (*path, key) for key, given in settings.items() if isinstance(given.source, Default)
        }

    def nodes(self, own: OwnConfig, topic: Topic | None, document: Mapping[str, Any]) -> None:
        """Set the numbers of brokers and replicas."""
        of_scenario = (document.get("topics") or {}).get(self.topic[1]) or {}
        assigned = of_scenario.get("assignment") or ()
        before = len(assigned[0]) if assigned else int(of_scenario.get("replication_factor", 1))
        name, given = REPLICATION_FACTOR, topic.replication_factor if topic else None
        if given is None or given.value == "-1":
            name = DEFAULT_REPLICATION_FACTOR
            given = own.broker.get(name)
        replicas = whole(name, given) if given else None
        of_replicas = given.source if given else NoFile.UNSTATED
        if given is None and own.brokers and own.brokers.value < before:
            # A topic has no more replicas.
            replicas, of_replicas = own.brokers.value, own.brokers.source
        source = own.brokers.source if own.brokers else of_replicas
        if replicas is not None:
            self._replicas(replicas, assigned, of_replicas)
        self.used.append(
            f"replication factor {replicas}"
            if replicas is not None
            else "the scenario's replication factor (add replication.factor=… to --topic-config)"
        )
        cluster = document.get("cluster")
        default = cluster.get("brokers", 3) if isinstance(cluster, Mapping) else 3
        count = own.brokers.value if own.brokers else max(default, replicas or 0)
        if own.combined and not uses_zookeeper(self.kafka):
            # A scenario has 1, 3 or 5 controllers; as many failures stop 3 and 4 of them.
            controllers = own.combined.value
            controllers = min(controllers - 1 + controllers % 2, 5)
            count = max(count, controllers)
            self.put(("cluster", "combined"), True, own.combined.source)
            self.put(("cluster", "controllers"), controllers, own.combined.source)
            self.used.append(f"combined nodes: {controllers} of the brokers are also controllers")
        if own.brokers and replicas is not None and replicas > count:
            raise ScenarioError(
                f"{of_replicas}: {name}: {replicas} replicas need as many brokers, but there are "
                f"{count} ({own.brokers.source})",
                hint="Kafka does not create such a topic; `ackproof audit` says what to change.",
            )
        if count != default:
            self.put(("cluster", "brokers"), count, source)
            self.used.append(f"{count} brokers")

    def _replicas(self, replicas: int, assigned: Sequence[Any], source: Origin) -> None:
        """Set the number of replicas; an existing assignment is replaced by one of that size."""
        if assigned:
            ids = list(range(1, replicas + 1))
            turns = [at % replicas for at in range(len(assigned))]
            rotated = [ids[turn:] + ids[:turn] for turn in turns]
            self.put((*self.topic, "assignment"), rotated, source)
        else:
            self.put((*self.topic, "replication_factor"), replicas, source)

    def broker_settings(self, settings: Settings) -> None:
        taken = taken_by_brokers(settings, self.kafka)
        self._settings(("cluster", "settings"), {key: settings[key] for key in taken})
        if taken:
            self.used.append(f"brokers: {', '.join(f'{key}={taken[key]}' for key in taken)}")
        for key, given in settings.items():
            if reason := left_out_by_brokers(key):
                self.leave_out("broker", key, reason)
            elif sentence := ignored("broker", key, self.kafka):
                self.warnings.append(f"{given.source}: {key}: {sentence}")

    def topic_settings(self, own: OwnConfig, own_topic: Settings) -> None:
        """Replace the topic's settings; defaults come from the brokers' settings."""
        broker, zookeeper = own.broker, uses_zookeeper(self.kafka)
        of_nodes = {
            key: own.of_nodes(key, self.kafka, zookeeper=zookeeper) for key in PER_TOPIC_SETTINGS
        }
        inherited = {key: given for key, given in of_nodes.items() if given and given.value}
        if MIN_INSYNC_REPLICAS in set(inherited) - set(own_topic) and not own.in_force:
            self._of_a_broker(own)
        settings: dict[str, Given] = {**inherited, **own_topic}
        self._removals(broker, own_topic)
        for key in [key for key in settings if key in _REMOVING or _TIERED.match(key)]:
            reason = Reason.NOT_TIERED if _TIERED.match(key) else Reason.KEEPS
            self.leave_out("topic", key, reason)
            del settings[key]
        for key in list(settings):
            if sentence := ignored("topic", key, self.kafka):
                self.warnings.append(f"{settings.pop(key).source}: {key}: {sentence}")
                self._left_out["topic", key] = Reason.VERSION
        self._settings((*self.topic, "settings"), settings)
        text = ", ".join(f"{key}={given.value}" for key, given in settings.items())
        self.used.append(f"topic: {text or 'the defaults of Kafka'}")
        if MIN_INSYNC_REPLICAS not in settings:
            why = (
                "Kafka's default" if own.defaults_hold else "assumed: no file describes the brokers"
            )
            self.used.append(f"min.insync.replicas=1 ({why})")

    def _removals(self, broker: Settings, topic: Settings) -> None:
        """Report the settings that remove acked records; a run of ackproof keeps them."""
        settings = in_force(
            {key: given.value for key, given in broker.items()},
            {key: given.value for key, given in topic.items()},
        )
        soon = {removal.key for removal in removals(settings, LESS_THAN_A_DAY)}
        own = {**broker, **topic}
        by_brokers = appended(settings)
        stamps = "brokers set (LogAppendTime)" if by_brokers else "producers set (CreateTime)"
        reasons = {
            CLEANUP_POLICY: "compaction removes acked records; the run uses delete",
            RETENTION_BYTES: "removes the oldest acked records of a larger partition, however "
            "young, read or not; the run keeps them",
            RETENTION_MS: "removes acked records that are older by their timestamps, which "
            f"{stamps}; the run keeps them",
        }
        for removal in removals(settings, FOR_EVER):
            key = next(name for name in setting_names(removal.key) if name in own)
            text = f"{own[key].source}: {key}={own[key].value}: {reasons[removal.key]}"
            (self.warnings if removal.key in soon else self.used).append(text)

    def beyond(self, settings: Settings) -> None:
        """Warn of parts of Kafka that are not modelled."""
        taken = self.replaced.get(("cluster", "settings"), {})  # the scenario warns of these
        for key, text in beyond({key: given.value for key, given in settings.items()}):
            if key not in taken:
                given = settings[key]
                self.warnings.append(f"{given.source}: {key}={given.value}: {text}")

    def _of_a_broker(self, own: OwnConfig) -> None:
        """Warn if Kafka ignores the brokers' min.insync.replicas."""
        key = MIN_INSYNC_REPLICAS
        if own.brokers_only and not own.controller and Profile.of(self.kafka).elr:
            self.warnings.append(
                f"{own.broker[key].source}: {key}: with eligible leader replicas (KIP-966), on by "
                f"default in Kafka {self.kafka}, a cluster takes it from its controllers' files, "
                "not from its brokers'; this run sets it for the topic"
            )

    def producer_settings(self, producer: Client) -> None:
        """Replace the producers' settings, in librdkafka's names."""
        settings = producer.settings
        if not producer.library:
            self.warnings.append(
                f"{producer.name}: only names that the Java client and librdkafka have; the run "
                "takes the Java client's defaults: state enable.idempotence"
            )
        converted = convert(producer, self.kafka)
        self._settings(("workload", "settings"), converted.settings)
        given = {
            key: one
            for key, one in converted.settings.items()
            if not isinstance(one.source, Default)
        }
        text = ", ".join(f"{key}={one.value}" for key, one in given.items())
        self.used += [f"producers: {one}" for one in (text, converted.defaults) if one]
        for key, reason in converted.unused.items():
            self.leave_out("producer", key, reason)
        for key, sentence in converted.unknown.items():
            self._left_out["producer", key] = Reason.OTHER_KIND
            self.warnings.append(f"{settings[key].source}: {key}: {sentence}")


def _plain(value: str) -> str | int | bool:
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value.isdecimal() and str(int(value)) == value else value


def render(source: Path, own: OwnConfig, *, kafka: str) -> tuple[str, Overlay]:
    """Return the text of the new file, with the comments of `source`, and the overlay.

    Raises ScenarioError if the user's configuration is not legal in a scenario.
    """
    document = documents.parse(source)
    applied = overlay(own, document, kafka=kafka)
    loader.load(source, lambda _: applied.overrides)
    for path, value in applied.overrides.replaced.items():
        _put(document, path, value)
    out = StringIO()
    yaml = YAML()
    yaml.width = 100
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(document, out)
    names = ", ".join(one.file for one in own.read)
    read = f"# Made by `ackproof init` from {names}.\n" if names else ""
    return read + without_schema(out.getvalue()), applied


def _put(document: Any, path: tuple[str | int, ...], value: Any) -> None:
    node = document
    for part in path[:-1]:
        if part not in node:
            if not value:
                return  # nothing to replace or to insert
            # `cluster` stands before `topics`, as in shipped files.
            index = list(node).index("topics") if "topics" in node else len(node)
            node.insert(index, part, {})
        node = node[part]
    if value is None:
        node.pop(path[-1], None)
    else:
        node[path[-1]] = value
