"""The record that every reader of a user's files fills: brokers, topics, producers, consumers.

Each value knows where it comes from: its origin, whose text is what reports print.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Literal

from ackproof.kafka_versions import complete
from ackproof_model.configuration import Profile
from ackproof_model.kafka_settings import (
    MIN_INSYNC_REPLICAS,
    PROCESS_ROLES,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)

#: Whose defaults these are, in `Default.of`.
KAFKA, JAVA_CLIENT, LIBRDKAFKA = "Kafka", "the Java client", "librdkafka"
KAFKA_CONNECT, KAFKA_STREAMS = "Kafka Connect", "Kafka Streams"


@dataclass(frozen=True, slots=True)
class FileLine:
    """A line of a file, counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the command, such as `--kafka`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Running:
    """A running cluster. what: `broker 3` or `topic orders`; '' for the cluster itself."""

    bootstrap: str
    what: str = ""

    def __str__(self) -> str:
        return f"{self.what} at {self.bootstrap}" if self.what else self.bootstrap


@dataclass(frozen=True, slots=True)
class Default:
    """A default value. of: such as `Kafka`. version: '' if all versions have it."""

    of: str
    version: str = ""

    @property
    def product(self) -> str:
        return f"{self.of} {self.version}".rstrip()

    def __str__(self) -> str:
        return f"default of {self.product}"


def kafka_default(version: str = "") -> Default:
    return Default(KAFKA, version)


def of_kafka(source: Origin) -> bool:
    """Whether a value is a default of Kafka itself, not of an image, a service or a framework."""
    return isinstance(source, Default) and source.of == KAFKA


class NoFile(Enum):
    """A value that no file states.

    ASSUMED: an audit tries it as one of several. CHANGED: an audit changed it to see what the
    change prevents. CHOSEN: an audit chose it for a scenario that shows a risk.
    """

    UNSTATED = "not stated"
    ASSUMED = ""
    CHANGED = "changed"
    CHOSEN = "the audit"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class OfBrokers:
    """The line of a brokers' file with a setting that Kafka reads from the controllers."""

    line: FileLine

    def __str__(self) -> str:
        return f"{self.line} is a brokers' file; the controllers' value decides"


Origin = FileLine | Option | Running | Default | NoFile | OfBrokers


@dataclass(frozen=True, slots=True)
class Given:
    """The value of a setting, and where it comes from."""

    value: str
    source: Origin


@dataclass(frozen=True, slots=True)
class Count:
    """A number of nodes, and where it comes from."""

    value: int
    source: Origin


Settings = Mapping[str, Given]

#: Whose setting it is as its file's reader understood it; `count` for a value that is no setting,
#: such as a replication factor; '' if the reader did not take it.
Bearer = Literal["", "broker", "controller", "topic", "producer", "consumer", "count"]


@dataclass(frozen=True, slots=True)
class Stated:
    """A setting as it stands in a file, by the name that Kafka or a client of it has for it."""

    key: str
    value: str
    source: FileLine
    bearer: Bearer = ""


class Holder(StrEnum):
    """What holds the logs of brokers, and so how long a log lives.

    VOLUME: longer than a pod or a container. POD: as long as the pod, such as an emptyDir.
    CONTAINER: as long as the container, such as its own layer.
    """

    VOLUME = "volume"
    POD = "pod"
    CONTAINER = "container"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """What holds the logs of brokers. restart_keeps: whether a log outlives the broker's process.

    Kubernetes restarts a process in a new container; compose restarts the container. setting,
    value, source: what shows it. change: a value of this setting with which a volume holds the
    logs.
    """

    holder: Holder
    restart_keeps: bool = True
    setting: str
    value: str
    source: FileLine
    change: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRead:
    """A file that was understood. shape: such as `compose`, `strimzi`, `server.properties`."""

    file: str
    shape: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRefused:
    """A file that is not used. reason: what it looks like, and a remedy.

    stated: what it has with known names of settings.
    """

    file: str
    reason: str
    stated: tuple[Stated, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as far as files describe it. settings: its own, without those of brokers.

    internal: whether Kafka Connect, Kafka Streams or MirrorMaker 2 uses it internally. framework:
    whose producers alone write it; '' if any producer may. in_force: whether a cluster printed its
    settings; then omitted ones have Kafka's defaults. profile: of the application for which alone
    it is so; '' for all. replaces: the topic of all profiles that it stands for; '' for none.
    """

    name: str
    partitions: Given | None = None
    replication_factor: Given | None = None
    settings: Settings = field(default_factory=dict)
    internal: bool = False
    framework: str = ""
    in_force: bool = False
    profile: str = ""
    replaces: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A producer or a consumer.

    name: the file, and the name in it if the file has several clients; this alone is the `channel`.
    library: `java` or
    `librdkafka`; '' if both know all names in the file. settings: by the library's own names.
    version: of the client library. framework: such as `Spring`, which adds rules to the library's;
    '' without one. writes: the only topic that the producer writes, if no other producer writes it;
    '' without this limit.
    prefix: precedes the names of its settings in its file, such as `B.producer.`. exactly_once:
    what the file of Connect states as `exactly.once.source.support`. profile: of the application
    in which alone it is so; '' for all. replaces: the client of all profiles that it stands for.
    """

    name: str
    library: str
    settings: Settings = field(default_factory=dict)
    version: Given | None = None
    framework: str = ""
    writes: str = ""
    prefix: str = ""
    exactly_once: Given | None = None
    profile: str = ""
    replaces: str = ""
    channel: str = ""

    @property
    def default(self) -> Default:
        """The source of the values that the library has by default, with a stated version."""
        if self.library == "librdkafka":
            return Default(LIBRDKAFKA)
        return Default(JAVA_CLIENT, self.version.value if self.version else "")

    @property
    def release(self) -> str:
        """The complete version of its library; '' if it is not stated."""
        return "" if self.version is None else complete(self.version.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnConfig:
    """A user's cluster and clients, as far as files or a running cluster describe them.

    cluster: its name if there are several. kafka: the version; some distributions omit its last
    number (`3.6`). since: the version is this or later; below: it is earlier. mode: `kraft` or
    `zookeeper`. brokers, controllers: their numbers; combined: the number of nodes that are both,
    and are included in both numbers. racks: the rack of each broker. broker: the settings of
    brokers, by Kafka's precedence; if brokers differ, the value that loses more. controller: the
    settings of controllers, which decide leader elections and eligible leader replicas. dynamic:
    the settings that are dynamic for all nodes. in_force: whether running brokers reported the
    settings. defaults_hold: whether files describe the brokers, so that omitted settings have
    Kafka's defaults. storage: what holds the brokers' logs, the shortest-lived if they differ; None
    if no file shows it. unread: files with brokers' settings that other files name and that were
    not given. warnings: a sentence with file and line for each contradiction and each meaningless
    setting. stated: every setting with a known name in these files, whether it is used or not.
    asked: the settings of nodes that were looked up while the files were combined. outranked: each
    line with a setting of nodes that counts for none of them, with the line that outranks it.
    """

    cluster: str = ""
    read: tuple[FileRead, ...] = ()
    refused: tuple[FileRefused, ...] = ()
    warnings: tuple[str, ...] = ()
    kafka: Given | None = None
    since: Given | None = None
    below: Given | None = None
    mode: Given | None = None
    brokers: Count | None = None
    controllers: Count | None = None
    combined: Count | None = None
    racks: Mapping[str, Given] = field(default_factory=dict)
    broker: Settings = field(default_factory=dict)
    controller: Settings = field(default_factory=dict)
    dynamic: Settings = field(default_factory=dict)
    in_force: bool = False
    defaults_hold: bool = True
    storage: Storage | None = None
    unread: tuple[Given, ...] = ()
    topics: tuple[Topic, ...] = ()
    producers: tuple[Client, ...] = ()
    consumers: tuple[Client, ...] = ()
    stated: tuple[Stated, ...] = ()
    asked: frozenset[str] = frozenset()
    outranked: Mapping[tuple[str, FileLine], FileLine] = field(default_factory=dict)

    @property
    def describes_brokers(self) -> bool:
        return bool(self.broker or self.brokers or self.kafka)

    @property
    def release(self) -> str:
        """The complete version, such as `3.6.0` for `3.6`; '' if it is not stated."""
        return "" if self.kafka is None else complete(self.kafka.value)

    @property
    def brokers_only(self) -> bool:
        """Whether the described nodes are brokers without the role of a controller."""
        roles = self.broker.get(PROCESS_ROLES)
        return roles is not None and "controller" not in roles.value

    def of_nodes(self, key: str, kafka: str, *, zookeeper: bool) -> Given | None:
        """Return the default of a topic's setting from the files of the nodes that decide about it.

        With KRaft these are the controllers for unclean elections (`ConfigurationControlManager`),
        and for min.insync.replicas with eligible leader replicas (KIP-966), whose value a running
        cluster keeps. Brokers' files count where no file describes a controller.
        """
        by_controllers = not zookeeper and (
            key == UNCLEAN_LEADER_ELECTION_ENABLE
            or (
                key == MIN_INSYNC_REPLICAS
                and Profile.of(kafka).elr
                and self.brokers_only
                and not self.in_force
            )
        )
        nodes = self.controller if by_controllers and self.controller else self.broker
        return nodes.get(key)
