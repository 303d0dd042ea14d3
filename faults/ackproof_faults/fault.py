"""What a fault is: something that goes wrong on purpose, is proved, and is made good again.

A `Fault` is a frozen pydantic model. Its fields are the YAML keys, the JSON Schema and the
report's parameters. `inject` puts it into force, `verify` proves from outside that it holds,
`heal` ends it, `verify_healed` says whether everything it touched works again.

A fault acts on a cluster only through the `Cluster` protocol, so that this package knows
neither containers nor Kafka clients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.conditions.targets import Target
from ackproof_faults.conditions.trigger import Conditions, Trigger
from ackproof_faults.interfaces.clients import Clients
from ackproof_faults.interfaces.kafka_proxy import Link
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.interfaces.operations import Operations


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command printed (both streams) and its exit status."""

    exit_status: int
    output: str


class Cluster(Protocol):
    """What a fault may ask of, and do to, the cluster under test."""

    def broker_ids(self) -> Sequence[int]:
        """Return the node ids of all brokers, ascending."""

    def controller_ids(self) -> Sequence[int]:
        """Return the node ids of all who vote over metadata, ascending."""

    def active_controller(self) -> int | None:
        """Return who leads the metadata quorum, None while nobody does or can say."""

    def log_end(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Return the partition's high watermark and leader epoch, None if nobody can say now."""

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """Return the offset that a group has committed, None if none or nobody can say now."""

    def log_has(self, broker: int, text: str, since: datetime) -> bool:
        """Whether the broker logged a line with `text` since then."""

    def link(self) -> Link:
        """Return the proxy between clients and brokers; raise FaultError if there is none."""

    def operations(self) -> Operations:
        """Return what an operator does to the cluster."""

    def clients(self) -> Clients:
        """Return the producers and consumers of the run; raise FaultError if there are none."""

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the partition's leader, None while it has none."""

    def replicas(self, topic: str, partition: int) -> Sequence[int]:
        """Return the partition's replicas in assignment order."""

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        """Return the partition's in-sync replicas, None if nobody can say now."""

    def kill(self, broker: int) -> None:
        """Send SIGKILL to the broker's process and wait until it is gone."""

    def terminate(self, broker: int) -> None:
        """Send SIGTERM (a controlled shutdown) and wait until the process is gone."""

    def start(self, broker: int) -> None:
        """Start a stopped broker with its identity, data and address; a no-op if it runs."""

    def exit_status(self, broker: int) -> int | None:
        """Return the exit status of the broker's process, None while it runs."""

    def in_sync(self, broker: int) -> bool:
        """Whether the broker is unfenced and in the ISR of every partition it replicates."""

    def await_in_sync(self, broker: int, *, within_s: float) -> None:
        """Wait until `in_sync` holds; raise FaultError after `within_s` or if it has ended."""

    def address(self, broker: int) -> str:
        """Return the node's IP address on the cluster's network."""

    def port(self, listener: str) -> int:
        """Return the port of a listener (CONTROLLER, INTERNAL, EXTERNAL, …) inside the network."""

    def client_listeners(self) -> Sequence[str]:
        """Return the brokers' listeners for clients: EXTERNAL, and further ones."""

    def run_beside(self, broker: int, script: str) -> CommandResult:
        """Run a bash script in the node's network namespace, with NET_ADMIN and nft."""

    def start_beside(self, broker: int, name: str, script: str) -> None:
        """Do as `run_beside` does, but go on until the script ends, or `end_beside(name)`."""

    def end_beside(self, broker: int, name: str) -> None:
        """End what `start_beside` started; a no-op if it is gone."""

    def pause(self, broker: int) -> None:
        """Freeze the node's processes: they neither answer nor close a connection."""

    def resume(self, broker: int) -> None:
        """Let frozen processes go on where they stood; a no-op if they are not frozen."""

    def paused(self, broker: int) -> bool:
        """Whether the node's processes are frozen."""

    def answers(self, broker: int) -> bool:
        """Whether the broker itself answers a client's request."""

    def exhaust_memory(self, broker: int) -> None:
        """Have the kernel's out-of-memory killer end the node's process, and wait for that."""

    def out_of_memory(self, broker: int) -> bool:
        """Whether the kernel ended the node's process because its memory was used up."""

    def shift_clock(self, broker: int, by_s: float) -> None:
        """Have the broker's clock go so many seconds ahead of the machine's, or behind if < 0.

        Raises FaultError where brokers have no clocks of their own.
        """

    def log_directories(self, broker: int) -> Sequence[str]:
        """Return the broker's log directories; metadata and identity lie in the first."""

    def run_at_disk(self, broker: int, script: str) -> CommandResult:
        """Run a bash script where the broker's disk is mounted as it is there; it may be down."""

    def read_file(self, broker: int, path: str) -> bytes:
        """Return a file of the broker's disk; raise FaultError if there is none."""

    def renew_identity(self, broker: int) -> None:
        """Have each log directory that is empty formatted as a new one when the broker starts."""

    def await_logged(self, broker: int, text: str, *, since: datetime, within_s: float) -> str:
        """Wait until the broker has logged a line with `text`, and return it.

        Raises FaultError after `within_s`, or when the broker has ended without such a line.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What of a cluster is known before it boots: enough to refuse what cannot be done to it.

    `topics` has the number of each topic's partitions; `log_dirs` the fewest log directories that
    a broker has; `disk` is the size of each broker's disk in bytes, None for the engine's own;
    `own_clocks`: brokers have clocks that can be set.
    """

    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    listeners: tuple[str, ...]
    topics: Mapping[str, int]
    log_dirs: int
    disk: int | None
    own_clocks: bool = False


class Fault(BaseModel, ABC):
    """One thing that goes wrong, on which nodes, when it begins and when it ends.

    Faults begin in the order in which the scenario lists them, each when all of its `when`
    hold, or `or_after` at the latest. A fault with neither `heal_when` nor `heal_after` is
    healed when the schedule ends: as soon as no other fault is waiting or heals by itself.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]
    #: What it puts out of order. Two faults that do so to the same thing of the same node would
    #: undo each other, and a schedule refuses the second. By default only the fault itself.
    occupies: ClassVar[str] = ""
    #: Whether its targets do not serve while it holds; a schedule's blast radius counts those.
    disables: ClassVar[bool] = True
    #: What the machine must be able to do; asked before the cluster boots.
    needs: ClassVar[tuple[Need, ...]] = ()
    #: What `verify` looks at, for the table of faults.
    proof: ClassVar[str] = ""

    id: str = Field(
        default="",
        pattern=r"^([a-z][a-z0-9_-]*)?$",
        description="a name for triggers of other faults ('ID began', 'ID ended', 'ID recovered')",
        examples=["cut"],
    )
    target: Target = Field(
        description="leader of TOPIC-N, followers of TOPIC-N, all, any broker, any N brokers, "
        "active controller, minority or majority of controllers, a broker id or a list of them",
        examples=["leader of orders-0", "followers of orders-0", 2, [1, 3]],
    )
    when: Trigger = Field(
        default=Conditions(),
        description="conditions under which the fault begins; all must hold",
        examples=["2000 acked", ["500 more acked", "isr of orders-0 == 3"]],
    )
    or_after: Duration | None = Field(
        default=None,
        description="begin at the latest this long after the previous fault was verified",
        examples=["5s"],
    )
    heal_when: Trigger = Field(
        default=Conditions(),
        description="conditions under which the fault is healed; all must hold",
        examples=["leader of orders-0 changed"],
    )
    heal_after: Duration | None = Field(
        default=None,
        description="heal at the latest this long after this fault was verified",
        examples=["20s"],
    )

    @property
    def ends_by_itself(self) -> bool:
        """Whether it has a trigger of its own to be healed."""
        return bool(self.heal_when) or self.heal_after is not None

    def problems(self, shape: Shape) -> Iterator[tuple[str, str]]:
        """Yield (field, what is wrong with it) for what cannot be done to such a cluster."""
        yield from ()

    @abstractmethod
    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Put the fault into force on `nodes`; raise FaultError if that fails."""

    @abstractmethod
    def verify(self, cluster: Cluster, nodes: Sequence[int]) -> str:
        """Return the proof, from outside, that it holds; raise FaultError if it does not."""

    @abstractmethod
    def heal(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """End the fault; twice is a no-op."""

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int]) -> bool:
        """Whether everything the fault touched works again: each target is in every ISR."""
        return all(cluster.in_sync(node) for node in nodes)
