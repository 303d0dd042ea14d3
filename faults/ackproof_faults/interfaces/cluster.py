"""The interfaces that a cluster under test offers to faults.

`Fault.requires` lists the interfaces that a fault uses. A cluster that ackproof started offers all;
an attached cluster offers `metadata`, `clients`, and `processes` if the scenario lists containers.
A fault whose interfaces are `missing` is refused before the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeVar, get_args

from ackproof_faults.evidence import FaultError
from ackproof_faults.interfaces.clients import Clients
from ackproof_faults.interfaces.kafka_proxy import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """`output` is standard output and standard error together."""

    exit_status: int
    output: str


TopicPartition = tuple[str, int]
"""The name of a topic and the number of a partition."""


class Metadata(Protocol):
    """Metadata that any client can request. Every cluster has this interface."""

    def broker_ids(self) -> Sequence[int]:
        """Return the node ids of all brokers, ascending."""

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the partition's leader, None while it has none."""

    def leaderless(self, topic: str, partition: int) -> bool:
        """Whether a broker reports that the partition has no leader; False without an answer."""

    def leaders(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Return the leaders of these partitions by one request; None without a leader."""

    def replicas(self, topic: str, partition: int) -> Sequence[int]:
        """Return the partition's replicas in assignment order."""

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return the partition's in-sync replicas, None if unknown at the moment."""

    def elr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return the eligible leader replicas (KIP-966), None if unknown at the moment."""

    def last_known_leader(self, topic: str, partition: int) -> int | None:
        """Return the leader before the ISR became empty; None if it is not empty, or unknown."""

    def log_end(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Return the partition's high watermark and leader epoch, None if unknown."""

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """Return the offset that a group has committed, None if it has none or it is unknown."""

    def share_coordinator(self, group: str, topic: str, partition: int) -> int | None:
        """Return the broker that keeps a share group's state of the partition, None if unknown."""

    def answers(self, broker: int) -> bool:
        """Whether the broker itself answers a client's request."""

    def in_sync(self, node: int) -> bool:
        """Whether the broker is unfenced and in the ISR of every partition it replicates.

        A controller is in sync when it leads the metadata quorum or follows without lag.
        """

    def await_in_sync(self, node: int, *, within_s: float) -> None:
        """Wait until `in_sync`; raise FaultError after `within_s` or if the node has ended."""


class Controllers(Protocol):
    """The voters of the metadata quorum, or ZooKeeper's controller."""

    def ids(self) -> Sequence[int]:
        """Return the node ids of all voters, ascending."""

    def active(self) -> int | None:
        """Return the leader of the metadata quorum, None while there is none or it is unknown."""


class Processes(Protocol):
    """Start and end the process of a node; `node` is a broker's or controller's node id."""

    def kill(self, node: int) -> None:
        """Send SIGKILL and wait until the process has ended."""

    def terminate(self, node: int) -> None:
        """Send SIGTERM (a controlled shutdown) and wait until the process has ended."""

    def start(self, node: int) -> None:
        """Start a stopped node with its identity, data and address; a no-op if it runs."""

    def exit_status(self, node: int) -> int | None:
        """Return the exit status of the process, None while it runs."""


class Freezer(Protocol):
    """Freeze and thaw the processes of a node (cgroup freezer)."""

    def pause(self, node: int) -> None:
        """Freeze the node's processes: they neither answer nor close a connection."""

    def resume(self, node: int) -> None:
        """Thaw the node's processes; a no-op if they are not frozen."""

    def paused(self, node: int) -> bool: ...


class Memory(Protocol):
    """The memory limit of a node."""

    def exhaust(self, node: int) -> None:
        """Make the kernel's out-of-memory killer end the node's process, and wait for that."""

    def exhausted(self, node: int) -> bool:
        """Whether the out-of-memory killer ended the node's process."""


class NetworkNamespace(Protocol):
    """Addresses and ports of nodes, and scripts in their network namespaces."""

    def address(self, node: int) -> str:
        """Return the node's IP address on the cluster's network."""

    def port(self, listener: str) -> int:
        """Return the port of a listener (CONTROLLER, INTERNAL, EXTERNAL, …) inside the network."""

    def client_listeners(self) -> Sequence[str]:
        """Return the listeners for clients: EXTERNAL, and further ones."""

    def run(self, node: int, script: str) -> CommandResult:
        """Run a bash script in the node's network namespace, with NET_ADMIN and nft."""

    def start(self, node: int, name: str, script: str) -> None:
        """Start such a script in the background; `end` ends it."""

    def end(self, node: int, name: str) -> None:
        """End a script that `start` started; a no-op if it has ended."""


class Volumes(Protocol):
    """Read and change the files of a broker; the broker may be stopped."""

    def log_directories(self, broker: int) -> Sequence[str]:
        """Return the broker's log directories; metadata and identity lie in the first."""

    def run(self, broker: int, script: str) -> CommandResult:
        """Run a bash script where the broker's volume is mounted at the broker's own path."""

    def read_file(self, broker: int, path: str) -> bytes:
        """Return the content of a file; raise FaultError if it does not exist."""

    def log_end(self, broker: int, topic: str, partition: int) -> int | None:
        """Return the end offset of the broker's copy of a partition, None if it has none."""

    def limit(self, node: int, rate: int | None, operations: int | None) -> None:
        """Limit a running node's reads, and its writes, to so many bytes and operations a second.

        None stands for no limit. Raises FaultError where this is impossible.
        """

    def write_s(self, node: int, size: int) -> float:
        """Return the seconds that a process of the running node needs to write and fsync a file."""

    def renew_identity(self, broker: int) -> None:
        """Give each empty log directory a new id when the broker starts."""


class BrokerLogs(Protocol):
    """Search the log of a broker."""

    def contains(self, broker: int, text: str, since: datetime) -> bool:
        """Whether the broker has logged a line with `text` since then."""

    def await_line(self, broker: int, text: str, *, since: datetime, within_s: float) -> str:
        """Wait until the broker has logged a line with `text`, and return the line.

        Raises FaultError after `within_s`, or when the broker has ended without such a line.
        """


class Clocks(Protocol):
    """Set the time of day that a broker's JVM sees (`cluster.clock: adjustable`)."""

    def shift(self, broker: int, by_s: float, *, drift: float = 0.0) -> None:
        """Set the broker's clock ahead of the machine's by `by_s` seconds (behind if < 0).

        From then on, it gains `drift` seconds in each second.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A partition as the cluster describes it; `leader` is None while there is none."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Operations(Protocol):
    """Operations of Kafka's own tools. Each raises FaultError with Kafka's reason for a refusal."""

    def topic(self, name: str) -> Mapping[int, Placement]:
        """Return the topic's partitions as a broker knows them, whose metadata may be late.

        Empty if the topic does not exist or is unknown now.
        """

    def decided(self, name: str) -> Mapping[int, Placement]:
        """Return the topic's partitions from the controllers' metadata log, or from ZooKeeper.

        Empty if the topic does not exist or the log cannot be read now. This may take seconds.
        """

    def await_topic(
        self,
        look: Callable[[], Mapping[int, Placement]],
        good: Callable[[Mapping[int, Placement]], bool],
        *,
        within_s: float,
    ) -> Mapping[int, Placement]:
        """Return what `look` returns once it is `good`, or its last result after `within_s`."""

    def elect(self, places: Sequence[TopicPartition], *, unclean: bool) -> None:
        """Elect the preferred leaders; with `unclean`, any live replica if there is no leader."""

    def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Request other replicas; do not wait until they have copied everything."""

    def cancel_reassignment(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Cancel the moves of these partitions, which have these replicas now."""

    def add_partitions(self, topic: str, count: int) -> None:
        """Increase the topic's partitions to `count`."""

    def group_offsets(self, group: str, topic: str) -> Mapping[int, int]:
        """Return a group's committed offsets by partition; of a share group, its start offsets."""

    def set_offsets(
        self, group: str, topic: str, to: int | str | None, *, within_s: float
    ) -> Mapping[int, int]:
        """Set a group's offsets once it has no members, and return the new ones by partition.

        to: an offset, `earliest` or `latest`; None deletes them.
        """

    def setting(self, topic: str, key: str) -> str | None:
        """Return a topic's setting in force, None if it is unknown now."""

    def known_setting(self, topic: str, key: str) -> str | None:
        """Return a topic's last known setting, None if it was never known. Asks no broker."""

    def await_own_setting(self, topic: str, key: str, value: str, *, within_s: float) -> str | None:
        """Return a topic's own setting once it has this value, or its last value after `within_s`.

        It is that of the controllers' metadata log, or of ZooKeeper.
        """

    def override(self, topic: str, key: str, value: str) -> None:
        """Change a topic's setting, and remember its value before."""

    def restore(self, topic: str, key: str) -> None:
        """Change a topic's setting back; a no-op if it was not overridden."""

    def recreate(self, topic: str) -> None:
        """Delete a topic and create it with the same replicas and settings."""

    def recreated(self, topic: str) -> tuple[str | None, str | None]:
        """Return a topic's id before it was recreated, and its id now (KIP-516)."""

    def add_broker(self) -> None:
        """Boot another broker, and wait until every other broker lists it."""

    def added(self) -> Sequence[int]:
        """Return the brokers that were added, in order."""

    def remove_broker(self, broker: int) -> None:
        """Move a broker's replicas to the others, shut it down, and unregister it."""

    def listed(self, broker: int) -> bool:
        """Whether a broker lists this one, or a partition has a replica on it."""

    def add_controller(self) -> None:
        """Boot another controller, and wait until it is a voter of the metadata quorum."""

    def added_controllers(self) -> Sequence[int]:
        """Return the controllers that were added, in order."""

    def remove_controller(self, controller: int) -> None:
        """Remove a controller from the voters, and end it for good."""

    def voters(self) -> Sequence[int]:
        """Return the voters that are caught up, from DescribeQuorum."""

    def feature_level(self, feature: str) -> str | None:
        """Return a feature's finalized level, None if the cluster does not know the feature."""

    def upgrade_feature(self, feature: str, level: str) -> None:
        """Finalize a higher level of a feature."""

    def version(self, broker: int) -> str | None:
        """Return the Kafka version that the broker logged at its last start."""

    def upgrade(self, broker: int, version: str) -> None:
        """Restart a broker with another Kafka version on its disk, and wait until it is in sync."""


InterfaceName = Literal[
    "metadata",
    "controllers",
    "processes",
    "freezer",
    "memory",
    "network",
    "volumes",
    "logs",
    "clocks",
    "operations",
    "clients",
    "proxy",
]
InterfaceNames = tuple[InterfaceName, ...]
INTERFACES: InterfaceNames = get_args(InterfaceName)

T = TypeVar("T")


class _Offered(Generic[T]):
    """An interface of the cluster; if the cluster lacks it, reading it raises FaultError."""

    def __init__(self, advice: str = "use a cluster that ackproof starts") -> None:
        self.advice = advice

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, cluster: Cluster, owner: type) -> T:
        try:
            return cluster.offered[self.name]  # type: ignore[no-any-return]
        except KeyError:
            message = f"this cluster does not offer {self.name} to faults: {self.advice}"
            raise FaultError(message) from None


class Cluster:
    """The interfaces of one cluster; `offered` holds their implementations by name.

    `clients` is added once the run's clients exist.
    """

    metadata = _Offered[Metadata]()
    controllers = _Offered[Controllers]()
    processes = _Offered[Processes]()
    freezer = _Offered[Freezer]()
    memory = _Offered[Memory]()
    network = _Offered[NetworkNamespace]()
    volumes = _Offered[Volumes]()
    logs = _Offered[BrokerLogs]()
    clocks = _Offered[Clocks]("set cluster.clock: adjustable")
    operations = _Offered[Operations]()
    clients = _Offered[Clients]("only runs of a scenario have clients")
    proxy = _Offered[Link]("set cluster.proxied")

    def __init__(self, **offered: Any) -> None:
        if unknown := offered.keys() - set(INTERFACES):
            raise ValueError(f"{sorted(unknown)} are not interfaces ({', '.join(INTERFACES)})")
        self.offered: dict[str, Any] = offered

    def offer(self, name: InterfaceName, implementation: object) -> None:
        self.offered[name] = implementation

    def missing(self, required: Iterable[InterfaceName]) -> list[InterfaceName]:
        """Return those of these interfaces that the cluster lacks, in the given order."""
        return [name for name in required if name not in self.offered]
