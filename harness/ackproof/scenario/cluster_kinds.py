"""The kinds of cluster: one that ackproof boots, and one that it attaches to.

`Scenario.cluster_kind` is one of the classes here. What depends on the kind before a run, and in
its judgement, is an attribute of these classes; a new kind is a new class, and a branch in
`execution.runner.record`, which opens the cluster.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ackproof.kafka_versions import uses_zookeeper
from ackproof.scenario.attach import REFERENCE, AttachSpec
from ackproof.scenario.cluster import ClusterSpec, cluster_problems
from ackproof.scenario.librdkafka import forbidden, unreadable_files
from ackproof.scenario.topics import TopicSpec
from ackproof.scenario.types import Problem, YamlPath, padding
from ackproof_faults import BlastRadius, Fault, registered
from ackproof_faults.conditions.targets import TargetSpec
from ackproof_faults.schedule.context import Limit

_SECRET = re.compile(r"password|secret|\.key\.pem$|oauthbearer\.config|jaas")
_OWNED_BY_ATTACH = ("bootstrap.servers", "metadata.broker.list", "client.id", "group.id")

#: The faults of a scenario, each with its place in it.
LocatedFaults = Sequence[tuple[YamlPath, Fault]]


class ClusterKind(ABC):
    """What is known of a cluster before a run, and what can be observed of it."""

    #: Whether a run needs the container engine.
    needs_engine: ClassVar[bool]
    #: Whether the scenario has the cluster's nodes, settings and features. Only then they can be
    #: changed, and the model knows its rules before a run.
    is_described: ClassVar[bool]
    #: Whether the disks and logs of its nodes are read.
    nodes_are_read: ClassVar[bool]

    @property
    @abstractmethod
    def security_protocol(self) -> str:
        """`security.protocol` of clients."""

    @abstractmethod
    def problems(self, kafka: str, created: Iterable[str]) -> Iterator[Problem]:
        """Yield problems of the cluster itself; `created` are the topics that a run creates."""

    @abstractmethod
    def topic_problems(self, name: str, topic: TopicSpec) -> Iterator[Problem]:
        """Yield replicas of a topic that the cluster cannot have."""

    @abstractmethod
    def offers(self, fault: Fault) -> bool:
        """Whether the cluster has the interfaces that a fault requires."""

    @abstractmethod
    def fault_problems(self, faults: LocatedFaults) -> Iterator[Problem]:
        """Yield the faults that the cluster does not allow."""

    @abstractmethod
    def target_problems(self, target: TargetSpec, path: YamlPath, kafka: str) -> Iterator[Problem]:
        """Yield nodes of a target that the cluster does not have."""

    @abstractmethod
    def broker_problems(self, broker: int, path: YamlPath) -> Iterator[Problem]:
        """Yield the problem of a broker that the cluster is known not to have."""

    @abstractmethod
    def limit_problems(
        self, fault: Fault, radius: BlastRadius, path: YamlPath
    ) -> Iterator[Problem]:
        """Yield the problem of a fault that exceeds the blast radius on its own."""

    @abstractmethod
    def radius_problems(self, radius: BlastRadius) -> Iterator[Problem]:
        """Yield limits that cannot be applied."""

    @abstractmethod
    def most_replicas(self, factor: int) -> int:
        """Return the most replicas that a partition may get, which begins with `factor`."""


@dataclass(frozen=True)
class Booted(ClusterKind):
    """A cluster that ackproof boots as the scenario describes it."""

    spec: ClusterSpec

    needs_engine = True
    is_described = True
    nodes_are_read = True

    @property
    def security_protocol(self) -> str:
        return self.spec.security.protocol

    def problems(self, kafka: str, created: Iterable[str]) -> Iterator[Problem]:
        return cluster_problems(self.spec, kafka)

    def topic_problems(self, name: str, topic: TopicSpec) -> Iterator[Problem]:
        last = self.spec.brokers
        if topic.replication_factor > last:
            yield (
                ("topics", name, "replication_factor"),
                f"{topic.replication_factor} replicas need as many brokers, but cluster.brokers "
                f"is {last}",
            )
        for partition, replicas in enumerate(topic.assignment):
            path = ("topics", name, "assignment", partition)
            if len(replicas) != topic.replication_factor:
                yield (
                    path,
                    f"{replicas}: every partition must have as many replicas as the first "
                    f"({topic.replication_factor})",
                )
            elif len(set(replicas)) < len(replicas):
                yield path, f"{replicas} names a broker twice"
            elif not all(1 <= broker <= last for broker in replicas):
                yield path, f"{replicas} names an unknown broker (the brokers are 1 to {last})"

    def offers(self, fault: Fault) -> bool:
        return True

    def fault_problems(self, faults: LocatedFaults) -> Iterator[Problem]:
        yield from ()

    def target_problems(self, target: TargetSpec, path: YamlPath, kafka: str) -> Iterator[Problem]:
        cluster, last = self.spec, self.spec.brokers
        if target.rack and not target.brokers:
            racks = ", ".join(sorted(cluster.brokers_by_rack)) or "none"
            yield path, f"no broker is in {target} (racks: {racks}): set cluster.racks"
        for broker in target.brokers:
            yield from self.broker_problems(broker, path)
        if target.count > last:
            yield path, f"'{target}' is more than all brokers: cluster.brokers is {last}"
        if target.role == "minority of controllers" and cluster.controllers == 1:
            yield path, "one controller has no minority: set cluster.controllers to 3 or 5"
        if target.of_controllers and uses_zookeeper(kafka):
            yield path, f"'{target}' needs KRaft, and Kafka {kafka} uses ZooKeeper"

    def broker_problems(self, broker: int, path: YamlPath) -> Iterator[Problem]:
        last = self.spec.brokers
        if not 1 <= broker <= last:
            yield path, f"there is no broker {broker} (the brokers are 1 to {last})"

    def limit_problems(
        self, fault: Fault, radius: BlastRadius, path: YamlPath
    ) -> Iterator[Problem]:
        if not fault.disables:
            return
        target, cluster = fault.target, self.spec
        hit = {
            "all": cluster.brokers,
            "any": target.count,
            "brokers": len(set(target.brokers)),
            "leader": 1,
            "share coordinator": 1,
        }.get(target.role, 0)
        if radius.brokers is not None and hit > (most := _most(radius.brokers, cluster.brokers)):
            yield path, f"'{target}' hits {hit} brokers, and blast_radius.brokers allows {most}"
        majority = cluster.controllers // 2 + 1
        voters = {
            "active controller": 1,
            "minority of controllers": majority - 1,
            "majority of controllers": majority,
        }.get(target.role, 0)
        if radius.controllers is not None and voters > (
            most := _most(radius.controllers, cluster.controllers)
        ):
            yield (
                path,
                f"'{target}' hits {voters} controllers, and blast_radius.controllers allows {most}",
            )

    def radius_problems(self, radius: BlastRadius) -> Iterator[Problem]:
        yield from ()

    def most_replicas(self, factor: int) -> int:
        # Replicas can be added while the run goes on.
        return max(factor, self.spec.brokers)


def _most(limit: Limit, members: int) -> int:
    return (members - 1) // 2 if limit == "minority" else int(limit)


@dataclass(frozen=True)
class Attached(ClusterKind):
    """A running cluster of which the scenario has only the address, and some containers."""

    spec: ClusterSpec
    attach: AttachSpec

    needs_engine = False
    is_described = False
    nodes_are_read = False

    @property
    def security_protocol(self) -> str:
        return str(self.attach.client.get("security.protocol", ""))

    def problems(self, kafka: str, created: Iterable[str]) -> Iterator[Problem]:
        attach, where = self.attach, ("cluster", "attach")
        for key in sorted(self.spec.changed - {"attach", "implementation"}):
            yield (
                ("cluster", key),
                f"{key} is for clusters that ackproof starts: remove it, or remove cluster.attach",
            )
        yield from self._client_problems()
        for name in created:
            if not name.startswith(attach.topic_prefix):
                yield (
                    ("topics", name),
                    f"{name!r} must begin with {attach.topic_prefix!r} "
                    "(cluster.attach.topic_prefix)",
                )
        if attach.i_own is not None and attach.i_own != attach.bootstrap:
            yield (
                (*where, "i_own"),
                f"{attach.i_own!r} is not the cluster that the scenario attaches to: repeat "
                f"{attach.bootstrap!r} here if you may break that one",
            )

    def _client_problems(self) -> Iterator[Problem]:
        where = ("cluster", "attach", "client")
        for key, value in self.attach.client.items():
            if problem := padding(key):
                yield (*where, key), problem
            elif key in _OWNED_BY_ATTACH:
                yield (*where, key), f"{key} is set by ackproof itself: remove it"
            elif reason := forbidden(key):
                yield (*where, key), reason
            elif _SECRET.search(key) and not REFERENCE.fullmatch(str(value)):
                # The message does not repeat the value, which may be the secret.
                yield (
                    (*where, key),
                    f"{key} is a secret: write '${{env:NAME}}' and set the environment variable "
                    "NAME",
                )
            elif problem := padding(value):
                yield (*where, key), problem
        for key, problem in unreadable_files(self.attach.client):
            yield (*where, key), problem

    def topic_problems(self, name: str, topic: TopicSpec) -> Iterator[Problem]:
        yield from ()

    def offers(self, fault: Fault) -> bool:
        return not self.attach.missing(fault)

    def fault_problems(self, faults: LocatedFaults) -> Iterator[Problem]:
        attach = self.attach
        for where, fault in faults:
            path = (*where, "fault")
            missing = attach.missing(fault)
            obtainable = {"processes", "freezer", "network"}
            if not set(missing) <= obtainable:
                legal = ", ".join(
                    name for name, kind in registered().items() if not attach.missing(kind)
                )
                yield (
                    path,
                    f"{fault.name!r} needs {', '.join(missing)}, so it needs a cluster that "
                    f"ackproof started (with attach: {legal})",
                )
            elif fault.touches_brokers and attach.i_own is None:
                yield (
                    path,
                    f"{fault.name!r} breaks a cluster that ackproof did not start: "
                    f"set cluster.attach.i_own to {attach.bootstrap!r}",
                )
            elif missing:
                ports = ", and cluster.attach.listeners to their ports"
                yield (
                    path,
                    f"set cluster.attach.containers to the containers that {fault.name!r} may act "
                    f"on{ports if 'network' in missing else ''}",
                )

    def target_problems(self, target: TargetSpec, path: YamlPath, kafka: str) -> Iterator[Problem]:
        if target.of_controllers or target.rack:
            yield path, f"ackproof does not know the {target} of an attached cluster: name brokers"

    def broker_problems(self, broker: int, path: YamlPath) -> Iterator[Problem]:
        yield from ()

    def limit_problems(
        self, fault: Fault, radius: BlastRadius, path: YamlPath
    ) -> Iterator[Problem]:
        yield from ()

    def radius_problems(self, radius: BlastRadius) -> Iterator[Problem]:
        if radius.controllers is not None:
            yield (
                ("blast_radius", "controllers"),
                "ackproof does not know the controllers of an attached cluster: remove it",
            )

    def most_replicas(self, factor: int) -> int:
        return factor


def cluster_kind_of(spec: ClusterSpec) -> ClusterKind:
    return Booted(spec) if spec.attach is None else Attached(spec, spec.attach)
