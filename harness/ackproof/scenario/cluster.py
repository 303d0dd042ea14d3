"""The `cluster:` of a scenario: how many brokers and controllers, where, with what, and how big.

`problems` says what a Kafka version cannot be told, and which version brought it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from ackproof.kafka_versions import FEATURES_SINCE, numbers, uses_zookeeper
from ackproof.scenario import security
from ackproof.scenario.attach import AttachSpec
from ackproof.scenario.security import SecuritySpec
from ackproof.scenario.types import Model, Place, Setting

#: Settings that make the cluster what it is; a scenario cannot change them.
OWNED_SETTINGS = frozenset(
    {
        "node.id",
        "broker.id",
        "broker.rack",
        "process.roles",
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
        "zookeeper.connect",
    }
)

#: Topic settings that Kafka also takes from its brokers. With eligible leader replicas (KIP-966)
#: it ignores the brokers' min.insync.replicas, so they are only taken where they always count.
PER_TOPIC_SETTINGS = ("min.insync.replicas", "unclean.leader.election.enable")

#: Settings in milliseconds that the prediction depends on.
TIMERS = ("replica.lag.time.max.ms", "broker.session.timeout.ms", "zookeeper.session.timeout.ms")

#: The node id of the first dedicated controller; the others follow.
CONTROLLER_ID = 100

#: Listeners that every cluster has.
OWN_LISTENERS = ("INTERNAL", "CONTROLLER", "EXTERNAL")
#: Those of them by which nodes reach each other, and which may lead through the link proxy.
PROXIED_INSIDE = ("INTERNAL", "CONTROLLER")

_SEVERAL_DIRECTORIES = (3, 7)

HEAP = r"^([1-9][0-9]{2,3}m|[1-9]g)$"
MEMORY = r"^([1-9][0-9]{2,4}m|[1-9][0-9]?g)$"


def _parse_controllers(value: object) -> object:
    if value not in (1, 3, 5) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a number of controllers (1, 3 or 5)")
    return value


Controllers = Annotated[Literal[1, 3, 5], BeforeValidator(_parse_controllers)]


class BrokerSpec(Model):
    """What one broker has differently from the others."""

    heap: str | None = Field(default=None, pattern=HEAP, description="heap of its JVM")
    memory: str | None = Field(
        default=None, pattern=MEMORY, description="memory limit of its container"
    )
    cpus: float | None = Field(default=None, ge=0.01, le=64, description="CPUs it may use")
    rack: str | None = Field(default=None, min_length=1, description="its rack")
    log_dirs: int | None = Field(default=None, ge=1, le=8, description="how many log directories")
    disk: str | None = Field(default=None, pattern=MEMORY, description="size of its disk")
    settings: dict[str, Setting] = Field(
        default_factory=dict, description="its settings, in Kafka's names"
    )

    @property
    def disk_bytes(self) -> int | None:
        """The size of its disk, None for as much as the engine's has."""
        if self.disk is None:
            return None
        return int(self.disk[:-1]) << {"m": 20, "g": 30}[self.disk[-1]]


class ClusterSpec(Model):
    """The nodes: brokers and, apart from them, who decides over metadata."""

    brokers: int = Field(
        default=3, strict=True, ge=1, le=7, description="how many brokers; their ids are 1, 2, …"
    )
    controllers: Controllers = Field(
        default=1,
        description="how many controllers, 1, 3 or 5; ZooKeeper nodes for Kafka before 3.3",
    )
    combined: bool = Field(
        default=False,
        description="the first brokers are the controllers too, instead of nodes of their own",
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
        description="racks, dealt to the brokers in turn",
        examples=[["a", "b", "c"]],
    )
    log_dirs: int = Field(default=1, ge=1, le=8, description="log directories of each broker")
    disk: str | None = Field(
        default=None,
        pattern=MEMORY,
        description="size of each broker's disk, which then lies in memory; the fault disk_full "
        "needs it",
        examples=["200m"],
    )
    clock: Literal["machine", "adjustable"] = Field(
        default="machine",
        description="whether brokers go by the machine's clock, or have clocks of their own, which "
        "the fault skew_clock needs (and a C compiler here)",
    )
    listeners: list[str] = Field(
        default_factory=list,
        max_length=8,
        description="further listeners for clients, beside EXTERNAL",
        examples=[["REPORTING"]],
    )
    proxied: list[str] = Field(
        default_factory=list,
        description="what leads through the link proxy: some of these listeners, INTERNAL (broker "
        "to broker), CONTROLLER (to controllers)",
        examples=[["REPORTING"], ["INTERNAL"]],
    )
    settings: dict[str, Setting] = Field(
        default_factory=dict,
        description="settings of every broker, in Kafka's names",
        examples=[{"replica.lag.time.max.ms": 30000}],
    )
    overrides: dict[int, BrokerSpec] = Field(
        default_factory=dict,
        description="what single brokers have differently, by their ids",
        examples=[{2: {"rack": "b", "settings": {"num.io.threads": 1}}}],
    )
    attach: AttachSpec | None = Field(
        default=None,
        description="a cluster that is there already, instead of one that ackproof starts",
    )
    security: SecuritySpec = Field(
        default=SecuritySpec(),
        description="how clients reach the brokers",
        examples=[{"tls": "mutual"}, {"tls": "server", "sasl": "scram-sha-512"}],
    )
    reuse: bool = Field(
        default=True,
        description="whether a next run of the same suite may have this cluster, once its topics "
        "are deleted and it is verified to be healthy",
    )
    features: dict[str, int | str] = Field(
        default_factory=dict,
        description="feature levels to format the cluster with; the version's own by default",
        examples=[{"eligible.leader.replicas.version": 0}],
    )

    @property
    def changed(self) -> set[str]:
        """The keys that are not at their defaults."""
        fields = type(self).model_fields.items()
        return {
            name
            for name, field in fields
            if getattr(self, name) != field.get_default(call_default_factory=True)
        }

    def broker(self, number: int) -> BrokerSpec:
        """Return what the broker `number` has, its own and what all have."""
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


def problems(cluster: ClusterSpec, kafka: str) -> Iterator[tuple[Place, str]]:
    """Yield what this cluster cannot be with this Kafka version, as (place, problem)."""
    yield from _setting_problems(cluster.settings, ("cluster", "settings"))
    for number, own in cluster.overrides.items():
        if not 1 <= number <= cluster.brokers:
            yield (
                ("cluster", "overrides", number),
                f"there is no broker {number} (brokers are 1 to {cluster.brokers})",
            )
        yield from _setting_problems(own.settings, ("cluster", "overrides", number, "settings"))
    yield from _listener_problems(cluster.listeners)
    yield from _proxied_problems(cluster, kafka)
    yield from _controller_problems(cluster, kafka)
    yield from security.problems(cluster.security, kafka)
    yield from _directory_problems(cluster, kafka)
    for feature in cluster.features:
        yield from _feature_problems(feature, kafka)


def _setting_problems(settings: Mapping[str, Setting], where: Place) -> Iterator[tuple[Place, str]]:
    for key, value in settings.items():
        place = (*where, key)
        if key == "broker.rack":
            yield place, "broker.rack is a key of its own here: cluster.racks, or overrides.N.rack"
        elif key in OWNED_SETTINGS:
            yield place, f"{key} is set by ackproof itself: remove it"
        elif key in PER_TOPIC_SETTINGS:
            yield place, f"{key} is set for each topic: move it to topics.NAME.settings"
        elif key in TIMERS and not (str(value).isdigit() and int(value) > 0):
            yield place, f"{value!r} is not a number of milliseconds above 0"
        elif not f"{key}{value}".isprintable():
            yield place, f"{key}: {value!r} must be one line"


def _listener_problems(listeners: list[str]) -> Iterator[tuple[Place, str]]:
    for index, name in enumerate(listeners):
        place = ("cluster", "listeners", index)
        if not re.fullmatch(r"[A-Z][A-Z0-9_]{0,30}", name):
            yield place, f"{name!r} is not a listener's name (capitals, digits and '_')"
        elif name in OWN_LISTENERS:
            yield place, f"{name} is there already: name only further listeners"
        elif name in listeners[:index]:
            yield place, f"{name} is named twice"


def _proxied_problems(cluster: ClusterSpec, kafka: str) -> Iterator[tuple[Place, str]]:
    for index, name in enumerate(cluster.proxied):
        place = ("cluster", "proxied", index)
        legal = [*cluster.listeners, *PROXIED_INSIDE]
        if name not in legal:
            yield (
                place,
                f"{name!r} is not one of cluster.listeners, nor of those between nodes "
                f"({', '.join(legal)})",
            )
        elif name == "CONTROLLER" and (cluster.combined or uses_zookeeper(kafka)):
            yield place, "only controllers of their own, in KRaft, can be led to through the proxy"
        elif name in cluster.proxied[:index]:
            yield place, f"{name} is named twice"
    if cluster.proxied and cluster.security.tls != "none":
        yield (
            ("cluster", "proxied"),
            "the link proxy cannot read what TLS encrypts: no proxied listener with security.tls",
        )


def _controller_problems(cluster: ClusterSpec, kafka: str) -> Iterator[tuple[Place, str]]:
    if not cluster.combined:
        return
    if uses_zookeeper(kafka):
        yield (
            ("cluster", "combined"),
            f"Kafka {kafka} has ZooKeeper: combined controllers came with KRaft "
            "(KIP-500; here from 3.3.0)",
        )
    elif cluster.controllers > cluster.brokers:
        yield (
            ("cluster", "combined"),
            f"{cluster.controllers} combined controllers need as many brokers, but "
            f"cluster.brokers is {cluster.brokers}",
        )


def _directory_problems(cluster: ClusterSpec, kafka: str) -> Iterator[tuple[Place, str]]:
    if uses_zookeeper(kafka) or numbers(kafka) >= _SEVERAL_DIRECTORIES:
        return
    wanted = {("cluster", "log_dirs"): cluster.log_dirs} | {
        ("cluster", "overrides", number, "log_dirs"): own.log_dirs or 1
        for number, own in cluster.overrides.items()
    }
    for place, count in wanted.items():
        if count > 1:
            yield (
                place,
                f"several log directories in KRaft mode came with Kafka 3.7.0 (KIP-858), and "
                f"kafka is {kafka}: name one",
            )


def _feature_problems(feature: str, kafka: str) -> Iterator[tuple[Place, str]]:
    place = ("cluster", "features", feature)
    since = FEATURES_SINCE.get(feature)
    if since is None:
        legal = ", ".join(FEATURES_SINCE)
        yield place, f"{feature!r} is not a feature a cluster can be formatted with ({legal})"
    elif numbers(kafka) < since:
        came = ".".join(map(str, since))
        yield place, f"{feature} came with Kafka {came}, and kafka is {kafka}: remove it"
