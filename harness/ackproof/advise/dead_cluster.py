"""The state of every partition of a dead cluster: from the metadata log and the brokers' disks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from pathlib import Path

from ackproof.advise.disks import METADATA, ZOOKEEPER, NodeDisks, log_end, sent
from ackproof.containers import images
from ackproof.containers.commands import run_sidecar
from ackproof.containers.engine import connect
from ackproof.errors import ClusterError, ScenarioError
from ackproof.kafka_versions import LAST_WITH_ZOOKEEPER
from ackproof.observation import controllers_log, metadata_log, zookeeper_data
from ackproof.observation.metadata_log import PartitionState
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.advice import Offsets, Replica, ReplicaLog, Situation
from ackproof_model.configuration import Acks, Profile
from ackproof_model.kafka_settings import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    MIN_INSYNC_REPLICAS,
    SESSION_TIMEOUTS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)

#: Settings of topics, also with a default of the brokers, that elections read.
OF_TOPICS = (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE)
_EMPTY = ReplicaLog(end=0, epochs=())
#: The most disks of a partition that may be missing for an answer.
_MOST_MISSING = 2
_BROKER = 4  # ConfigResource.Type
#: By whether the cluster is in ZooKeeper mode.


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Inputs of the replication rules that are not in the metadata log.

    kafka: the brokers' version. properties: of `server.properties`. acks: of the producers.
    power_lost: brokers whose machines lost power.
    """

    kafka: str
    properties: Mapping[str, str]
    acks: Acks
    power_lost: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The partitions that can be judged, each with its possible states, and what is unknown.

    defaults: settings that no source states, so that Kafka's default is used.
    offsets_known: whether the offsets in the states are Kafka's. not_judged: how many partitions
    have no state here. brokers: all that are known, also without a replica; of them `running` run.
    times: some offsets with their timestamp in milliseconds. session: the brokers' session timeout.
    """

    situations: Mapping[TopicPartition, tuple[Situation, ...]]
    unknown: tuple[str, ...]
    defaults: tuple[str, ...] = ()
    offsets_known: bool = True
    not_judged: int = 0
    brokers: frozenset[int] = frozenset()
    running: frozenset[int] = frozenset()
    times: Mapping[TopicPartition, Sequence[tuple[int, int]]] = field(default_factory=dict)
    session: str = ""

    def spans(self, place: TopicPartition, ranges: Sequence[Offsets]) -> list[datetime]:
        """Return about when the first and the last of some offsets were sent; empty if unknown."""
        found = [sent(self.times.get(place, ()), one) for one in ranges]
        return [at for one in found if one for at in one]


def dump_of(nodes: Mapping[int, NodeDisks], kafka: str) -> str:
    """Return Kafka's dump of the longest copy of the metadata log; its tool runs in a container.

    In ZooKeeper mode the data of a ZooKeeper node is the metadata log, and no tool runs.

    Raises ScenarioError if no disk has a copy, ClusterError if the tool fails, EngineError without
    a container engine.
    """
    copies = [copy for node in nodes.values() for copy in node.metadata]
    zookeeper = nodes[ZOOKEEPER].zookeeper if ZOOKEEPER in nodes else []
    if copies and zookeeper:
        raise ScenarioError(
            f"both ZooKeeper and the controllers ({copies[0]}) have metadata of this cluster",
            hint="A cluster that is being migrated to KRaft is not judged. Name the folders of its "
            "present mode only.",
        )
    if zookeeper:
        try:
            return zookeeper_data.read(zookeeper)
        except (ValueError, OSError) as error:
            raise ScenarioError(f"{', '.join(map(str, zookeeper))}: {error}") from error
    if not copies:
        raise ScenarioError(
            f"no disk has the metadata log ({METADATA})",
            hint="Name the disks of the controllers or of ZooKeeper (dataDir), too, or a dump with "
            "--metadata-dump.",
        )
    copy = max(copies, key=log_end)
    result = run_sidecar(
        connect(),
        images.ensure(kafka).reference,
        controllers_log.dump_script("/metadata"),
        run_id="advise",
        network_mode="none",
        volumes={str(copy.resolve()): {"bind": "/metadata", "mode": "ro"}},
    )
    if result.exit_status:
        raise ClusterError(f"{copy} cannot be dumped: {result.output[-500:]}")
    return result.output


@metadata_log.damage_as_value_error("the metadata log")
def dead_cluster(nodes: Mapping[int, NodeDisks], dump: str, settings: Settings) -> ClusterState:
    """Return the state of each partition. Raises ValueError if the dump is damaged."""
    log, kafka = metadata_log.parse(dump), rules_of(settings.kafka, dump)
    latest = {(state.topic, state.partition): state for state in log.latest}
    fenced = {state.broker: state.state != "unfenced" for state in log.brokers}
    dynamic = dynamic_settings(dump)
    defaults: dict[str, None] = {}
    situations: dict[TopicPartition, tuple[Situation, ...]] = {}
    unknown: list[str] = []
    if kafka != settings.kafka:
        unknown.append(f"rules of {settings.kafka} in ZooKeeper mode: those of {kafka} are used")
    for place, state in sorted(latest.items()):
        name = f"{place[0]}-{place[1]}"
        logs, shortened, words = _logs(state, nodes)
        missing = [broker for broker in state.replicas if broker not in nodes]
        if missing:
            which = f"{name}: no disk of broker {', '.join(map(str, missing))}"
            if not logs or len(missing) > _MOST_MISSING:
                unknown.append(which)
                continue
            unknown.append(f"{which}; answered for logs that are empty, or as long as others")
        unknown += [f"{name}: {one}" for one in words]
        broker, newest = max(
            ((broker, log.epochs[-1][0]) for broker, log in logs.items() if log.epochs),
            key=lambda one: one[1],
            default=(-1, state.leader_epoch),
        )
        if newest > state.leader_epoch:
            unknown.append(
                f"{name}: the log of broker {broker} has leader epoch {newest}, but the metadata "
                f"log knows only {state.leader_epoch}: it is older than the disks"
            )
            continue
        topics = dynamic.topics
        values = {**settings.properties, **topics.get("", {}), **topics.get(place[0], {})}
        defaults |= dict.fromkeys(key for key in OF_TOPICS if key not in values)
        unclean = values.get(UNCLEAN_LEADER_ELECTION_ENABLE, "")
        try:
            situations[place] = tuple(
                Situation(
                    kafka_version=kafka,
                    acks=settings.acks,
                    min_insync_replicas=minimum(values),
                    unclean_election=unclean.strip().lower() == "true",
                    replicas=tuple(
                        Replica(
                            broker=broker,
                            log=possible[broker],
                            fenced=fenced.get(broker, True),
                            clean=nodes[broker].clean if broker in nodes else False,
                            power_lost=broker in {*missing, *shortened, *settings.power_lost},
                        )
                        for broker in state.replicas
                    ),
                    # ZooKeeper names the last leader until a controller elects another one.
                    leader=None if fenced.get(state.leader, True) else state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=frozenset(state.isr),
                    elr_members=frozenset(state.elr),
                    last_known_leader=next(iter(state.last_known_elr), None),
                    elr=dynamic.elr,
                )
                for possible in _possible(state, logs, missing)
            )
        except ValueError as error:
            unknown.append(f"{name}: {error}")
    unknown += [*dynamic.of_nodes, *zookeeper_data.undecided(dump)]
    problems = [problem for node in nodes.values() for problem in node.problems]
    return ClusterState(
        situations=situations,
        unknown=(*unknown, *problems),
        defaults=tuple(defaults),
        not_judged=len(latest) - len(situations),
        brokers=frozenset(fenced).union(*(state.replicas for state in latest.values())),
        times={
            place: sorted({one for node in nodes.values() for one in node.times.get(place, ())})
            for place in situations
        },
        session=session_timeout(kafka, settings.properties),
    )


def minimum(settings: Mapping[str, str]) -> int:
    """Return min.insync.replicas, 1 by default. Raises ValueError."""
    text = settings.get(MIN_INSYNC_REPLICAS, "1").strip()
    if not text.isdecimal() or not int(text):
        raise ValueError(f"{MIN_INSYNC_REPLICAS}={text} is no number from 1 on")
    return int(text)


def session_timeout(kafka: str, properties: Mapping[str, str]) -> str:
    """Return the session timeout of brokers in words, with its source."""
    profile = Profile.of(kafka)
    key = SESSION_TIMEOUTS[profile.zookeeper]
    if properties.get(key, "").isdecimal():
        return f"{int(properties[key]) / 1000:g} s ({key})"
    return f"{profile.session_timeout_s:g} s (Kafka's default of {key})"


def _logs(
    state: PartitionState, nodes: Mapping[int, NodeDisks]
) -> tuple[Mapping[int, ReplicaLog], Sequence[int], Sequence[str]]:
    """Return the replicas' logs, the brokers that lost a log or its end, and sentences about it."""
    place = (state.topic, state.partition)
    logs: dict[int, ReplicaLog] = {}
    shortened: list[int] = []
    words: list[str] = []
    for broker in state.replicas:
        if (node := nodes.get(broker)) is None:
            continue
        logs[broker] = node.logs.get(place, _EMPTY)
        topic = node.topic_ids.get(place, state.topic_id)
        if place not in node.logs:
            words.append(f"broker {broker} has no directory of it, which counts as an empty log")
        elif topic != state.topic_id:
            # A broker does not use a directory with another topic's id.
            logs[broker] = _EMPTY
            words.append(
                f"broker {broker} has the log of another topic of this name (id {topic}, now "
                f"{state.topic_id}), which counts as an empty log"
            )
        elif place not in node.damaged:
            continue
        shortened.append(broker)
    return logs, shortened, words


def _possible(
    state: PartitionState, logs: Mapping[int, ReplicaLog], missing: Sequence[int]
) -> Iterator[Mapping[int, ReplicaLog]]:
    """Yield the logs, with each possible log for every disk that is missing.

    A missing log may be empty, or as long as the longest. If its broker was the leader or in sync,
    the log may also have one more offset, which stands for all records that only this log has.
    """
    longest = max(logs.values(), key=lambda log: (log.epochs[-1:], log.end))
    epochs = [one for one in longest.epochs if one[0] < state.leader_epoch]
    longer = ReplicaLog(
        begin=longest.begin,
        end=longest.end + 1,
        epochs=(*epochs, *(longest.epochs[len(epochs) :] or [(state.leader_epoch, longest.end)])),
    )
    able = {*state.isr, *state.elr, *state.last_known_elr}
    each = [(_EMPTY, longest, *([longer] if broker in able else [])) for broker in missing]
    for chosen in product(*each):
        yield {**logs, **dict(zip(missing, chosen, strict=True))}


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicSettings:
    """The dynamic settings in the metadata log.

    topics: by topic; those of all brokers have the empty name. of_nodes: settings of one broker or
    controller, in words. elr: whether eligible leader replicas are enabled.
    """

    topics: Mapping[str, Mapping[str, str]]
    of_nodes: Sequence[str]
    elr: bool


@metadata_log.damage_as_value_error("the metadata log")
def dynamic_settings(dump: str) -> DynamicSettings:
    found: dict[str, dict[str, str]] = {}
    of_nodes: dict[tuple[str, str], str | None] = {}
    topics: dict[str, str] = {}
    elr = 0
    for entry in metadata_log.records(dump):
        data = entry.data
        if entry.kind == "TOPIC_RECORD":
            topics[data["topicId"]] = data["name"]
        elif entry.kind == "REMOVE_TOPIC_RECORD":
            # The controller deletes a topic's settings with it, and writes no record of that.
            found.pop(topics.get(data["topicId"], data["topicId"]), None)
        elif (
            entry.kind == "FEATURE_LEVEL_RECORD"
            and data["name"] == ELIGIBLE_LEADER_REPLICAS_VERSION
        ):
            elr = int(data["featureLevel"])
        elif entry.kind == "CONFIG_RECORD":
            kind, name = data["resourceType"], data["resourceName"]
            if kind == _BROKER and name:
                of_nodes[name, data["name"]] = data["value"]
            elif kind in (metadata_log.TOPIC_RESOURCE, _BROKER):
                found.setdefault(name, {})[data["name"]] = data["value"]
    return DynamicSettings(
        topics={
            name: {key: str(value) for key, value in of.items() if value is not None}
            for name, of in found.items()
        },
        of_nodes=[
            f"node {number} has {key}={value} of its own (a dynamic setting), which is not used"
            for (number, key), value in of_nodes.items()
            if key in OF_TOPICS and value is not None
        ],
        elr=elr > 0,
    )


def rules_of(kafka: str, dump: str) -> str:
    """Return the version whose rules the model uses; in ZooKeeper mode at most 3.2.

    Raises ScenarioError if this version has no such mode.
    """
    zookeeper, profile = dump.startswith(zookeeper_data.TITLE), Profile.of(kafka)
    if zookeeper == profile.zookeeper:
        return kafka
    if zookeeper and not profile.transactions_v2:  # 3.3 to 3.9
        return LAST_WITH_ZOOKEEPER
    found = "ZooKeeper's" if zookeeper else "KRaft controllers'"
    raise ScenarioError(
        f"the metadata is {found}, which is not read of Kafka {kafka}",
        hint="KRaft mode is read from 3.3 on, ZooKeeper mode to 3.9.",
    )


def read_text(path: Path) -> str:
    """Return a file's text, such as a dump that Kafka's tool wrote (`kafka-dump-log`)."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror}") from error


def log_lines(path: Path) -> list[str]:
    """Return the lines of a broker's log: of a file, or of all `server.log*` in a folder."""
    files = sorted(path.glob("server.log*"), reverse=True) if path.is_dir() else [path]
    if not files:
        raise ScenarioError(f"{path} has no server.log", hint="Name the file itself.")
    return [line for file in files for line in read_text(file).splitlines()]
