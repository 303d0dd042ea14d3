"""The interfaces of faults (`ackproof_faults.interfaces`) to nodes and to their metadata."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from ackproof.cluster import readiness
from ackproof.cluster.admin import Admin, PartitionView
from ackproof.cluster.container_node import ContainerNode
from ackproof.cluster.fault_errors import raises_fault_errors
from ackproof.cluster.node import KafkaNode
from ackproof.cluster.nodes import ClusterNodes
from ackproof.containers import block_limits, commands, fake_clock
from ackproof.containers.images import VOLUME_DIR
from ackproof.errors import ClusterError
from ackproof.scenario.topics import SHARES, coordinator_partition
from ackproof.waiting import wait_for
from ackproof_faults.evidence import FaultError
from ackproof_faults.interfaces.cluster import (
    BrokerLogs,
    Clocks,
    CommandResult,
    Controllers,
    Freezer,
    Memory,
    Metadata,
    NetworkNamespace,
    Processes,
    TopicPartition,
    Volumes,
)
from ackproof_spark.forensics.segments import Batch, batches

PartitionSource = Callable[[], Mapping[TopicPartition, PartitionView]]


@raises_fault_errors
class PartitionMetadata:
    """Leader, replicas, ISR and offsets of partitions; `partitions` returns the current state."""

    def __init__(self, partitions: PartitionSource, admin: Admin) -> None:
        self._partitions = partitions
        self._admin = admin

    def leader(self, topic: str, partition: int) -> int | None:
        return self.leaders([(topic, partition)])[topic, partition]

    def leaderless(self, topic: str, partition: int) -> bool:
        view = self._partitions().get((topic, partition))
        return view is not None and view.leader is None

    def leaders(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        views = self._partitions()
        return {key: views[key].leader if key in views else None for key in partitions}

    def replicas(self, topic: str, partition: int) -> Sequence[int]:
        view = self._partitions().get((topic, partition))
        return view.replicas if view else ()

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        view = self._partitions().get((topic, partition))
        return view.isr if view else None

    def elr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return None: brokers do not report eligible leader replicas to clients."""
        return None

    def last_known_leader(self, topic: str, partition: int) -> int | None:
        """Return None: brokers do not report the last known leader to clients."""
        return None

    def log_end(self, topic: str, partition: int) -> tuple[int, int] | None:
        return self._admin.log_end(topic, partition)

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        return self._admin.committed(group, topic, partition)

    def share_coordinator(self, group: str, topic: str, partition: int) -> int | None:
        views = self._partitions()
        partitions = sum(name == SHARES for name, _ in views)
        topic_id = self._admin.topic_id(topic) if partitions else None
        if topic_id is None:
            return None
        key = f"{group}:{topic_id}:{partition}"
        return views[SHARES, coordinator_partition(key, partitions)].leader


@raises_fault_errors
class ClusterMetadata(PartitionMetadata, Metadata, Controllers):
    """The committed metadata of a cluster that ackproof started, and its controllers.

    While no broker answers, it is read from the controllers' log. ELRs always come from that log.
    """

    def __init__(self, cluster: ClusterNodes) -> None:
        super().__init__(self._views, cluster.admin)
        self._cluster = cluster

    def elr(self, topic: str, partition: int) -> Sequence[int] | None:
        state = self._cluster.controllers_log.partitions().get((topic, partition))
        return state.elr if state else None

    def last_known_leader(self, topic: str, partition: int) -> int | None:
        state = self._cluster.controllers_log.partitions().get((topic, partition))
        return state.last_known_elr[0] if state and state.last_known_elr else None

    def _views(self) -> Mapping[TopicPartition, PartitionView]:
        # A request to brokers that do not run ends only by its timeout.
        needs_a_broker = self._cluster.topology.metadata.needs_a_broker
        answerable = not needs_a_broker or self._cluster.running_brokers()
        return (self._cluster.partitions() if answerable else {}) or self._cluster.decided()

    def broker_ids(self) -> Sequence[int]:
        return self._cluster.broker_ids()

    def answers(self, broker: int) -> bool:
        return bool(self._cluster.brokers_known_to(broker))

    def in_sync(self, node: int) -> bool:
        return readiness.in_sync(self._cluster, node)

    def await_in_sync(self, node: int, *, within_s: float) -> None:
        readiness.await_in_sync(self._cluster, node, within_s=within_s)

    def ids(self) -> Sequence[int]:
        return self._cluster.controller_ids()

    def active(self) -> int | None:
        return readiness.quorum_leader(self._cluster)


@raises_fault_errors
@dataclass(frozen=True)
class NodeProcesses(Processes, Freezer, Memory):
    """The process of each node, the cgroup freezer and the memory limit; `nodes` are by id."""

    nodes: Mapping[int, ContainerNode]

    def kill(self, node: int) -> None:
        self.nodes[node].kill()

    def terminate(self, node: int) -> None:
        self.nodes[node].terminate()

    def start(self, node: int) -> None:
        self.nodes[node].start_again()

    def exit_status(self, node: int) -> int | None:
        return self.nodes[node].exit_status()

    def pause(self, node: int) -> None:
        self.nodes[node].pause()

    def resume(self, node: int) -> None:
        self.nodes[node].resume()

    def paused(self, node: int) -> bool:
        return self.nodes[node].paused()

    def exhaust(self, node: int) -> None:
        self.nodes[node].exhaust_memory()

    def exhausted(self, node: int) -> bool:
        return self.nodes[node].out_of_memory()


@raises_fault_errors
@dataclass(frozen=True, kw_only=True)
class NodeNetworks(NetworkNamespace):
    """Runs scripts in sidecars that share a node's network namespace.

    `nodes` are by id. `ports` are those of the listeners inside the network. `sidecar` returns the
    image of sidecars; `run_id` is on their labels.
    """

    nodes: Mapping[int, ContainerNode]
    ports: Mapping[str, int]
    sidecar: Callable[[], str]
    run_id: str

    def address(self, node: int) -> str:
        return self.nodes[node].address

    def port(self, listener: str) -> int:
        if listener not in self.ports:
            raise FaultError(
                f"cluster.attach.listeners has no port of {listener}: give the port of that "
                "listener inside the containers"
            )
        return self.ports[listener]

    def client_listeners(self) -> Sequence[str]:
        return [name for name in self.ports if name not in ("INTERNAL", "CONTROLLER")]

    def run(self, node: int, script: str) -> CommandResult:
        client, options = self._sharing(node)
        return commands.run_sidecar(client, self.sidecar(), script, run_id=self.run_id, **options)

    def start(self, node: int, name: str, script: str) -> None:
        client, options = self._sharing(node)
        full_name = self._sidecar_name(node, name)
        commands.start_sidecar(
            client, self.sidecar(), script, name=full_name, run_id=self.run_id, **options
        )

    def end(self, node: int, name: str) -> None:
        client, _ = self._sharing(node)
        commands.end_sidecar(client, self._sidecar_name(node, name))

    def _sharing(self, node: int) -> tuple[Any, Mapping[str, Any]]:
        """Return a client of the engine, and the options of a sidecar of the node."""
        container = self.nodes[node].container
        options = {"network_mode": f"container:{container.id}", "cap_add": ["NET_ADMIN"]}
        return container.client, options

    def _sidecar_name(self, node: int, name: str) -> str:
        return f"ackproof-{self.run_id}-{self.nodes[node].name}-{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastBatch:
    """The last batch of a segment when it was read, and the byte at which it begins."""

    path: str
    position: int
    batch: Batch


def _newest_segment(logs: str, known: _LastBatch | None) -> str:
    """Return a script that prints the last path of `logs`, a position, and the bytes from there.

    The position is that of the known batch if the segment is the same, else 0.
    """
    path, position = ("", 0) if known is None else (known.path, known.position)
    return (
        f'file=$(ls {logs} 2> /dev/null | tail -n 1) && [ -n "$file" ] || exit 1\n'
        f"start=0; [ \"$file\" != '{path}' ] || start={position}\n"
        'echo "$file"; echo $start; tail -c +$((start + 1)) "$file" | base64 -w 0'
    )


@raises_fault_errors
@dataclass(frozen=True)
class BrokerVolumes(Volumes, Clocks):
    """The volume of each broker, whether the broker runs or not.

    The volume has the offset that the preload in a broker's JVM adds to the machine's clock.
    """

    cluster: ClusterNodes
    _read: dict[tuple[int, str, int], _LastBatch] = field(default_factory=dict)

    def log_directories(self, broker: int) -> Sequence[str]:
        return self.cluster.nodes[broker].directories

    def run(self, broker: int, script: str) -> CommandResult:
        return commands.run_sidecar(
            self.cluster.client,
            self.cluster.sidecar,
            script,
            run_id=self.cluster.run_id,
            volumes={self.cluster.nodes[broker].volume: {"bind": VOLUME_DIR, "mode": "rw"}},
            network_mode="none",
        )

    def read_file(self, broker: int, path: str) -> bytes:
        return self.cluster.nodes[broker].read_file(path)

    def log_end(self, broker: int, topic: str, partition: int) -> int | None:
        key = (broker, topic, partition)
        known = self._read.pop(key, None)
        logs = " ".join(f"{one}/{topic}-{partition}/*.log" for one in self.log_directories(broker))
        result = self.run(broker, _newest_segment(logs, known))
        path, _, rest = result.output.partition("\n")
        start, _, encoded = rest.partition("\n")
        base = PurePosixPath(path).stem
        if result.exit_status != 0 or not base.isdecimal():
            return None
        data = base64.b64decode(encoded)
        read = list(batches(io.BytesIO(data), size=len(data)))
        if known is not None and start != "0" and read[:1] != [known.batch]:
            return self.log_end(*key)  # The segment was truncated: read it from its start.
        if not read:
            return int(base)
        position = int(start) + read[-1].position
        last = read[-1]._replace(position=0)
        self._read[key] = _LastBatch(path=path, position=position, batch=last)
        return last.last_offset + 1

    def limit(self, node: int, rate: int | None, operations: int | None) -> None:
        made = self.cluster.nodes[node]
        result = commands.run_sidecar(
            self.cluster.client,
            self.cluster.sidecar,
            block_limits.script(str(made.container.id), rate, operations),
            run_id=self.cluster.run_id,
            volumes={made.volume: {"bind": VOLUME_DIR, "mode": "rw"}, **block_limits.GROUPS},
            network_mode="none",
        )
        if result.exit_status != 0:
            raise ClusterError(
                f"the disk of {made.name} cannot be limited: {result.output.strip()}"
            )

    def write_s(self, node: int, size: int) -> float:
        return block_limits.write_s(self.cluster.nodes[node], size)

    def renew_identity(self, broker: int) -> None:
        if self.cluster.topology.metadata.formats_directories:
            self.cluster.nodes[broker].renew_identity(self.cluster.topology.cluster_id)

    def shift(self, broker: int, by_s: float, *, drift: float = 0.0) -> None:
        result = self.run(broker, fake_clock.offset_script(by_s, drift))
        if result.exit_status != 0:
            name = self.cluster.nodes[broker].name
            raise ClusterError(f"the clock of {name} cannot be set: {result.output}")


@raises_fault_errors
@dataclass(frozen=True)
class BrokerLogSearch(BrokerLogs):
    """Searches the logs of nodes, which are by id."""

    nodes: Mapping[int, KafkaNode]

    def contains(self, broker: int, text: str, since: datetime) -> bool:
        node = self.nodes[broker]
        lines = node.container.logs(stream=True, follow=False, since=since.timestamp())
        return any(text.encode() in line for line in lines)

    def await_line(self, broker: int, text: str, *, since: datetime, within_s: float) -> str:
        node = self.nodes[broker]

        def line_and_exit_status() -> tuple[str | None, int | None]:
            # The status is read first, so that a line that the node logs at its end is not missed.
            status = node.exit_status()
            lines = node.log_since(since).splitlines()
            return next((line for line in lines if text in line), None), status

        line, status = wait_for(
            line_and_exit_status,
            lambda result: result != (None, None),
            within_s=within_s,
            failure=lambda _: ClusterError(
                f"{node.name} did not log {text!r} within {within_s:g} s"
            ),
        )
        if line is None:
            raise ClusterError(
                f"{node.name} ended with exit status {status} and did not log {text!r}"
            )
        return line
