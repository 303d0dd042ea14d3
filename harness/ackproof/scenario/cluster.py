"""The key `cluster` of a scenario: brokers, controllers, listeners, resources, settings.

`problems` yields what a Kafka version does not support, with the version that introduced it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from ackproof.kafka_versions import FEATURES_SINCE, numbers, uses_zookeeper
from ackproof.scenario.attach import AttachSpec
from ackproof.scenario.types import Problem, Setting, StrictModel, YamlPath, padding
from ackproof_model.kafka_settings import (
    BROKER_RACK,
    MIN_INSYNC_REPLICAS,
    PROCESS_ROLES,
    REPLICA_LAG_TIME_MAX_MS,
    SESSION_TIMEOUTS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    ZOOKEEPER_CONNECT,
)

#: Settings for one listener and mechanism came with KIP-103 and KIP-226.
_SINCE = (2, 0)
#: SCRAM credentials at format time came with KIP-900. Without them no first client can log in.
_SCRAM_SINCE = (3, 5)


class SecuritySpec(StrictModel):
    """How clients reach the brokers; certificates and passwords are made for the run."""

    tls: Literal["none", "server", "mutual"] = Field(
        default="none",
        description="server: brokers show a certificate; mutual: clients, too",
    )
    sasl: Literal["none", "plain", "scram-sha-512"] = Field(
        default="none", description="how clients log in"
    )

    @property
    def protocol(self) -> str:
        if self.sasl == "none":
            return "PLAINTEXT" if self.tls == "none" else "SSL"
        return "SASL_PLAINTEXT" if self.tls == "none" else "SASL_SSL"


def security_problems(security: SecuritySpec, kafka: str) -> Iterator[Problem]:
    """Yield what this Kafka version does not support, as (place, problem)."""
    if security.protocol != "PLAINTEXT" and numbers(kafka) < _SINCE:
        yield (
            ("cluster", "security"),
            f"ackproof supports TLS and SASL with Kafka from 2.0.0 on, and kafka is {kafka}",
        )
    elif security.sasl == "scram-sha-512" and numbers(kafka) < _SCRAM_SINCE:
        yield (
            ("cluster", "security", "sasl"),
            f"Kafka formats a cluster with SCRAM credentials from 3.5.0 on (KIP-900), and kafka "
            f"is {kafka}: use plain",
        )


#: Settings that ackproof derives from the topology; a scenario cannot set them.
OWNED_SETTINGS = frozenset(
    {
        "node.id",
        "broker.id",
        BROKER_RACK,
        PROCESS_ROLES,
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "inter.broker.listener.name",
        "controller.listener.names",
        "controller.quorum.voters",
        "controller.quorum.bootstrap.servers",
        "log.dirs",
        "log.dir",
        "metadata.log.dir",
        ZOOKEEPER_CONNECT,
    }
)

#: Topic settings for which brokers may have defaults. Scenarios set them for each topic, since with
#: eligible leader replicas (KIP-966) Kafka ignores the brokers' min.insync.replicas.
PER_TOPIC_SETTINGS = (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE)

#: Settings in milliseconds that the prediction depends on.
TIMERS = (REPLICA_LAG_TIME_MAX_MS, *SESSION_TIMEOUTS.values())

#: The node id of the first dedicated controller; the others follow.
CONTROLLER_ID = 100

#: Listeners that every cluster has.
OWN_LISTENERS = ("INTERNAL", "CONTROLLER", "EXTERNAL")
#: Listeners between nodes that may lead through the Kafka proxy.
PROXIED_INSIDE = ("INTERNAL", "CONTROLLER")

_SEVERAL_DIRECTORIES = (3, 7)

HEAP = r"^([1-9][0-9]{2,3}m|[1-9]g)$"
MEMORY = r"^([1-9][0-9]{2,4}m|[1-9][0-9]?g)$"


def _parse_controllers(value: object) -> object:
    if value not in (1, 3, 5) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a legal number of controllers (1, 3 or 5)")
    return value


Controllers = Annotated[Literal[1, 3, 5], BeforeValidator(_parse_controllers)]


class BrokerSpec(StrictModel):
    """What one broker has in place of the values for all brokers."""

    heap: str | None = Field(default=None, pattern=HEAP, description="heap of its JVM")
    memory: str | None = Field(
        default=None, pattern=MEMORY, description="memory limit of its container"
    )
    cpus: float | None = Field(default=None, ge=0.01, le=64, description="CPUs it may use")
    rack: str | None = Field(default=None, min_length=1, description="its rack")
    log_dirs: int | None = Field(default=None, ge=1, le=8, description="how many log directories")
    disk: str | None = Field(default=None, pattern=MEMORY, description="size of its disk")
    settings: dict[str, Setting] = Field(
        default_factory=dict, description="its settings, by Kafka's names"
    )

    @property
    def disk_bytes(self) -> int | None:
        """The size of its disk; None for the disk of the container engine."""
        if self.disk is None:
            return None
        return int(self.disk[:-1]) << {"m": 20, "g": 30}[self.disk[-1]]


class ClusterSpec(StrictModel):
    """The nodes of a cluster: brokers, and KRaft controllers or ZooKeeper nodes."""

    brokers: int = Field(
        default=3, strict=True, ge=1, le=7, description="how many brokers; their ids are 1, 2, …"
    )
    controllers: Controllers = Field(
        default=1,
        description="how many controllers, 1, 3 or 5; ZooKeeper nodes for Kafka before 3.3",
    )
    combined: bool = Field(
        default=False,
        description="whether the first brokers are also the controllers, which then have no nodes",
    )
    heap: str = Field(
        default="256m",
        pattern=HEAP,
        description="heap of each JVM, 100m to 9g",
        examples=["256m", "1g"],
    )
    memory: str | None = Field(
        default=None,
        pattern=MEMORY,
        description="memory limit of each broker's container, page cache included",
        examples=["1g"],
    )
    cpus: float | None = Field(
        default=None, ge=0.01, le=64, description="CPUs that each broker may use", examples=[0.5]
    )
    racks: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list,
        description="racks, assigned to the brokers in turn",
        examples=[["a", "b", "c"]],
    )
    log_dirs: int = Field(default=1, ge=1, le=8, description="log directories of each broker")
    disk: str | None = Field(
        default=None,
        pattern=MEMORY,
        description="size of each broker's disk, which is then kept in memory; the fault disk_full "
        "needs it",
        examples=["200m"],
    )
    clock: Literal["machine", "adjustable"] = Field(
        default="machine",
        description="whether brokers use the machine's clock, or each an adjustable one, which the "
        "faults skew_clock and drift_clock need (and a C compiler on this machine)",
    )
    listeners: list[str] = Field(
        default_factory=list,
        max_length=8,
        description="more listeners for clients, in addition to EXTERNAL",
        examples=[["REPORTING"]],
    )
    proxied: list[str] = Field(
        default_factory=list,
        description="listeners that lead through the Kafka proxy: some of `listeners`, INTERNAL "
        "(between brokers), CONTROLLER (to controllers)",
        examples=[["REPORTING"], ["INTERNAL"]],
    )
    settings: dict[str, Setting] = Field(
        default_factory=dict,
        description="settings of every broker, by Kafka's names",
        examples=[{"replica.lag.time.max.ms": 30000}],
    )
    overrides: dict[int, BrokerSpec] = Field(
        default_factory=dict,
        description="values for single brokers, by broker id",
        examples=[{2: {"rack": "b", "settings": {"num.io.threads": 1}}}],
    )
    attach: AttachSpec | None = Field(
        default=None,
        description="a running cluster to use, instead of one that ackproof starts",
    )
    image: str = Field(
        default="",
        description="a broker image of your own, laid out as apache/kafka is; `kafka` is then the "
        "version that the model assumes",
        examples=["registry.example.org/kafka:patched"],
    )
    distribution: str = Field(
        default="",
        description="a Kafka build of your own, a folder or an archive with its libs/, from which "
        "an image is built; `kafka` is then the version that the model assumes",
        examples=["kafka_2.13-4.4.0-SNAPSHOT.tgz"],
    )
    implementation: Literal["kafka", "other"] = Field(
        default="kafka",
        description="kafka: Apache Kafka; other: another server with Kafka's protocol, whose rules "
        "the model does not know, so that nothing is predicted",
    )
    security: SecuritySpec = Field(
        default=SecuritySpec(),
        description="encryption and authentication between clients and brokers",
        examples=[{"tls": "mutual"}, {"tls": "server", "sasl": "scram-sha-512"}],
    )
    reuse: bool = Field(
        default=True,
        description="whether the next run of the same suite may use this cluster, after its topics "
        "were deleted and its health was verified",
    )
    features: dict[str, int | str] = Field(
        default_factory=dict,
        description="feature levels to format the cluster with; by default those of the version",
        examples=[{"eligible.leader.replicas.version": 0}],
    )

    def broker(self, number: int) -> BrokerSpec:
        """Return the values for the broker `number`: its own, else those for all brokers."""
        own = self.overrides.get(number, BrokerSpec())
        return BrokerSpec(
            heap=own.heap or self.heap,
            memory=own.memory or self.memory,
            cpus=own.cpus or self.cpus,
            rack=own.rack or (self.racks[(number - 1) % len(self.racks)] if self.racks else None),
            log_dirs=own.log_dirs or self.log_dirs,
            disk=own.disk or self.disk,
            settings={**self.settings, **own.settings},
        )

    @property
    def controller_ids(self) -> range:
        """The ids of the controllers, or of the ZooKeeper nodes."""
        first = 1 if self.combined else CONTROLLER_ID
        return range(first, first + self.controllers)

    @property
    def brokers_by_rack(self) -> Mapping[str, list[int]]:
        racks: dict[str, list[int]] = {}
        for number in range(1, self.brokers + 1):
            if rack := self.broker(number).rack:
                racks.setdefault(rack, []).append(number)
        return racks


def cluster_problems(cluster: ClusterSpec, kafka: str) -> Iterator[Problem]:
    """Yield what is wrong with a cluster, and what this Kafka version does not support."""
    yield from _setting_problems(cluster.settings, ("cluster", "settings"))
    for number, own in cluster.overrides.items():
        if not 1 <= number <= cluster.brokers:
            yield (
                ("cluster", "overrides", number),
                f"there is no broker {number} (the brokers are 1 to {cluster.brokers})",
            )
        yield from _setting_problems(own.settings, ("cluster", "overrides", number, "settings"))
    yield from _rack_problems(cluster)
    if problem := padding(cluster.image):
        yield ("cluster", "image"), problem
    if cluster.image and cluster.distribution:
        yield ("cluster", "distribution"), "cluster.image is given, too: remove one of them"
    yield from _listener_problems(cluster.listeners)
    yield from _proxied_problems(cluster, kafka)
    yield from _controller_problems(cluster, kafka)
    yield from security_problems(cluster.security, kafka)
    yield from _directory_problems(cluster, kafka)
    for feature in cluster.features:
        yield from _feature_problems(feature, kafka)


def _rack_problems(cluster: ClusterSpec) -> Iterator[Problem]:
    racks: dict[YamlPath, str] = {
        ("cluster", "racks", index): rack for index, rack in enumerate(cluster.racks)
    }
    racks |= {
        ("cluster", "overrides", number, "rack"): own.rack
        for number, own in cluster.overrides.items()
        if own.rack is not None
    }
    for path, rack in racks.items():
        if problem := padding(rack):
            yield path, problem
        elif not rack.isprintable():
            yield path, f"{rack!r} must be a single line of printable characters"


def _setting_problems(settings: Mapping[str, Setting], where: YamlPath) -> Iterator[Problem]:
    for key, value in settings.items():
        path = (*where, key)
        if problem := padding(key, value):
            yield path, problem
        elif key == BROKER_RACK:
            yield path, "broker.rack has a key of its own: use cluster.racks or overrides.N.rack"
        elif key in OWNED_SETTINGS:
            yield path, f"{key} is set by ackproof itself: remove it"
        elif key in PER_TOPIC_SETTINGS:
            yield path, f"{key} is set for each topic: move it to topics.NAME.settings"
        elif key in TIMERS and not re.fullmatch(r"0*[1-9][0-9]*", str(value)):
            yield path, f"{value!r} is not a whole number of milliseconds above 0"
        elif not f"{key}{value}".isprintable():
            yield path, f"{key}: {value!r} must be a single line of printable characters"


def _listener_problems(listeners: list[str]) -> Iterator[Problem]:
    for index, name in enumerate(listeners):
        path = ("cluster", "listeners", index)
        if not re.fullmatch(r"[A-Z][A-Z0-9_]{0,30}", name):
            yield (
                path,
                f"{name!r} is not a listener name (capitals, digits and '_', a capital first)",
            )
        elif name in OWN_LISTENERS:
            yield path, f"every cluster has {name} already: name only additional listeners"
        elif name in listeners[:index]:
            yield path, f"{name} is named twice"


def _proxied_problems(cluster: ClusterSpec, kafka: str) -> Iterator[Problem]:
    for index, name in enumerate(cluster.proxied):
        path = ("cluster", "proxied", index)
        legal = [*cluster.listeners, *PROXIED_INSIDE]
        if name not in legal:
            yield (
                path,
                f"{name!r} is not one of cluster.listeners or of the listeners between nodes "
                f"({', '.join(legal)})",
            )
        elif name == "CONTROLLER" and (cluster.combined or uses_zookeeper(kafka)):
            yield (
                path,
                "CONTROLLER can lead through the proxy only with dedicated KRaft controllers",
            )
        elif name in cluster.proxied[:index]:
            yield path, f"{name} is named twice"
    if cluster.proxied and cluster.security.tls != "none":
        yield (
            ("cluster", "proxied"),
            "the Kafka proxy cannot read TLS traffic: remove cluster.proxied or security.tls",
        )


def _controller_problems(cluster: ClusterSpec, kafka: str) -> Iterator[Problem]:
    if not cluster.combined:
        return
    if uses_zookeeper(kafka):
        yield (
            ("cluster", "combined"),
            f"Kafka {kafka} uses ZooKeeper, and combined controllers came with KRaft (KIP-500; "
            "ackproof uses it from 3.3.0 on): set it to false",
        )
    elif cluster.controllers > cluster.brokers:
        yield (
            ("cluster", "combined"),
            f"{cluster.controllers} combined controllers need at least as many brokers, but "
            f"cluster.brokers is {cluster.brokers}",
        )


def _directory_problems(cluster: ClusterSpec, kafka: str) -> Iterator[Problem]:
    if uses_zookeeper(kafka) or numbers(kafka) >= _SEVERAL_DIRECTORIES:
        return
    counts = {("cluster", "log_dirs"): cluster.log_dirs} | {
        ("cluster", "overrides", number, "log_dirs"): own.log_dirs or 1
        for number, own in cluster.overrides.items()
    }
    for path, count in counts.items():
        if count > 1:
            yield (
                path,
                f"{count} log directories in KRaft mode need Kafka 3.7.0 (KIP-858) or later, and "
                f"kafka is {kafka}: set log_dirs to 1",
            )


def _feature_problems(feature: str, kafka: str) -> Iterator[Problem]:
    path = ("cluster", "features", feature)
    since = FEATURES_SINCE.get(feature)
    if since is None:
        legal = ", ".join(FEATURES_SINCE)
        yield path, f"{feature!r} is not a feature that a cluster can be formatted with ({legal})"
    elif numbers(kafka) < since:
        introduced = ".".join(map(str, since))
        yield path, f"{feature} came with Kafka {introduced}, and kafka is {kafka}: remove it"
