"""Faults of the run's client processes: they die, are stopped, or misbehave on order.

A client dies by SIGKILL, or because its program ends without a flush. Records that a producer sent
without a delivery report may be written or not. Records in its queue are gone. The next producer
with its transactional.id, or the transaction's timeout, aborts an open transaction. A consumer's
partitions are reassigned when its session times out.

It is stopped by SIGSTOP, as by a long garbage collection or a suspended machine. Its connections
stay open and its heartbeats end. A consumer that is stopped for longer than `session.timeout.ms`
loses its partitions and does not know it. A producer is a zombie if another producer takes its
transactional.id meanwhile; brokers must fence it (KIP-98, KIP-447).

On order it is, or causes:

- slow: a producer's delivery callbacks run in its poll. While a callback blocks, no other outcome
  is reported, and the queue fills. A consumer that polls later than `max.poll.interval.ms` leaves
  its group.
- full buffer: librdkafka refuses further records (`_QUEUE_FULL`) once
  `queue.buffering.max.messages` (100,000) or `queue.buffering.max.kbytes` are in its queue. Records
  whose report was not polled count as well.
- purge: records purged from the queue were never written; records in flight may be written or not.
  With idempotence a purge leaves a gap in the sequence numbers; the producer continues with a new
  epoch.
- rebalances: each assigns all partitions anew. Another member reads records again that were
  processed and not committed.
- wrong timestamps: with `message.timestamp.type` CreateTime retention uses these timestamps, not
  the broker's clock: with a `retention.ms`, records that seem old are deleted at the next check,
  and records that seem new stay. Brokers refuse a batch whose timestamps are further back than
  `message.timestamp.before.max.ms` (unlimited by default) or further ahead than
  `message.timestamp.after.max.ms` (an hour from 4.0 on; INVALID_TIMESTAMP, KIP-937).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.conditions.targets import Target
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, Problem, Shape, untargeted
from ackproof_faults.interfaces.clients import ClientName, Clients, End, Order, ProducerName
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_model.effects import Client, ClientAction, Effects


class ClientFault(Fault):
    """A fault of the run's own producers or consumers."""

    requires = ("clients",)
    hits = "client"
    disables = False
    explained = True
    traceless = True

    target: Target = untargeted("ignored: the fault hits clients")
    client: ClientName
    within: Duration = Field(
        default=10.0, gt=0, description="how long to wait until the client shows the effect"
    )

    #: Behaviour of its clients in the model.
    action: ClassVar[ClientAction]

    @property
    def effects(self) -> Effects:
        return (Client(role=self.role, action=self.action),)

    @property
    def is_ordered(self) -> bool:
        """Whether a client has to carry it out itself, which a program of the user does not."""
        return False

    @property
    def role(self) -> Literal["producer", "consumer"]:
        return "producer" if self.client.startswith("producer") else "consumer"

    def numbers(self, count: int) -> Sequence[int]:
        """Return the numbers of its clients, if there are `count` of their role."""
        _, _, number = self.client.partition(" ")
        return [int(number)] if number else range(count)

    def problems(self, shape: Shape) -> Iterator[Problem]:
        noun, _, number = self.client.partition(" ")
        count = shape.producers if noun.startswith("producer") else shape.consumers
        if count == 0:
            yield "client", "there are no consumers: name a group in workload.consumers"
        elif number and int(number) >= count:
            yield (
                "client",
                f"there is no {self.client}: the first {count} are numbered 0 to {count - 1}",
            )
        hit = shape.programs & {*self.numbers(count)}
        if self.is_ordered and self.role == "consumer" and hit:
            yield (
                "client",
                f"{self.client} runs your program, which does not obey it: use pause_client, or "
                "crash_client with how: kill",
            )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> tuple[str, ...]:
        """Return the names of the clients that were hit."""
        running = cluster.clients.running(self.client)
        if not running:
            raise FaultError(f"no client runs as {self.client}")
        hit: list[str] = []
        try:
            for client in running:
                self.start(cluster.clients, client)
                hit.append(client)
        except FaultError:
            for client in hit:
                self.stop(cluster.clients, client)
            raise
        return tuple(hit)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: tuple[str, ...]) -> Evidence:
        if not done:
            raise FaultError("the fault reached no client")
        return Evidence.joined(self.require_effect(cluster.clients, client) for client in done)

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: tuple[str, ...] | None) -> None:
        for client in done or ():
            self.stop(cluster.clients, client)

    def verify_healed(
        self, cluster: Cluster, nodes: Sequence[int], done: tuple[str, ...] | None
    ) -> bool:
        return all(self.works(cluster.clients, client) for client in done or ())

    @abstractmethod
    def start(self, clients: Clients, client: str) -> None:
        """Start the fault at one client; raise FaultError if that fails."""

    @abstractmethod
    def require_effect(self, clients: Clients, client: str) -> str:
        """Return the proof that the client shows the fault; raise FaultError if it does not."""

    @abstractmethod
    def stop(self, clients: Clients, client: str) -> None:
        """End the fault at the client. A second call changes nothing."""

    @abstractmethod
    def works(self, clients: Clients, client: str) -> bool:
        """Whether the client works again."""


class CrashClient(ClientFault):
    """End clients at once; heal starts others in their place."""

    fault: Literal["crash_client"] = "crash_client"
    action: ClassVar[ClientAction] = "ends"
    proof = "the process ended in the requested way"
    how: End = Field(
        default="kill",
        description="kill: SIGKILL; exit: the program ends without waiting for what it has sent",
    )

    @property
    def is_ordered(self) -> bool:
        return self.how == "exit"

    def start(self, clients: Clients, client: str) -> None:
        clients.end(client, self.how)

    def require_effect(self, clients: Clients, client: str) -> str:
        ended = clients.ended_by(client)
        if ended != self.how:
            raise FaultError(f"{client} has not ended by {self.how}")
        return f"{client} ended by {'SIGKILL' if ended == 'kill' else 'an exit without flush'}"

    def stop(self, clients: Clients, client: str) -> None:
        clients.succeed(client)

    def works(self, clients: Clients, client: str) -> bool:
        return clients.begun(clients.succeed(client))


class PauseClient(ClientFault):
    """Stop clients with SIGSTOP; heal continues them."""

    fault: Literal["pause_client"] = "pause_client"
    proof = "the operating system reports the process stopped"
    successor: bool = Field(
        default=False,
        description="start another client in its place meanwhile, which makes a producer with "
        "transactions a zombie",
    )

    @property
    def effects(self) -> Effects:
        return (Client(role=self.role, action="stalls", successor=self.successor),)

    def start(self, clients: Clients, client: str) -> None:
        if clients.is_stopped(client):
            raise FaultError(f"{client} is already stopped")
        clients.stop(client)
        if self.successor:
            clients.succeed(client)

    def require_effect(self, clients: Clients, client: str) -> str:
        if not clients.is_stopped(client):
            raise FaultError(f"{client} is not stopped")
        if not self.successor:
            return f"{client} is stopped"
        successor = clients.succeed(client)
        if not clients.await_begun(successor, within_s=self.within):
            raise FaultError(f"{successor}, the successor of {client}, does not work yet")
        return f"{client} is stopped, and {successor} has taken its place"

    def stop(self, clients: Clients, client: str) -> None:
        clients.resume(client)

    def works(self, clients: Clients, client: str) -> bool:
        return not clients.is_stopped(client)


class OrderedFault(ClientFault):
    """A client misbehaves on order, and counts how often it did."""

    #: How often the client must have misbehaved to prove it.
    proved_by: ClassVar[int] = 1

    @property
    def is_ordered(self) -> bool:
        return True

    @property
    @abstractmethod
    def order(self) -> tuple[Order, int]:
        """The order, and its parameter in milliseconds."""

    @property
    @abstractmethod
    def counted(self) -> str:
        """The events that the client counts, in words."""

    def start(self, clients: Clients, client: str) -> None:
        order, milliseconds = self.order
        clients.order(client, order, milliseconds=milliseconds)

    def require_effect(self, clients: Clients, client: str) -> str:
        count = clients.obeyed(client, more_than=self.proved_by - 1, within_s=self.within)
        if count < self.proved_by:
            raise FaultError(f"{client}: {count} {self.counted} within {self.within:g} s")
        return f"{client}: {count} {self.counted}"

    def stop(self, clients: Clients, client: str) -> None:
        clients.order(client, "nothing")

    def works(self, clients: Clients, client: str) -> bool:
        return True  # a client reads its orders in every round


class SlowClient(OrderedFault):
    """Make clients busy for a while each time a poll returns something."""

    fault: Literal["slow_client"] = "slow_client"
    action: ClassVar[ClientAction] = "slows"
    proof = "the client has counted a poll whose delivery reports or records took that long"
    delay: Duration = Field(gt=0, description="for how long, each time", examples=["500ms"])

    @property
    def effects(self) -> Effects:
        return (Client(role=self.role, action=self.action, by=self.delay),)

    @property
    def order(self) -> tuple[Order, int]:
        return "slow", max(1, int(self.delay * 1000))

    @property
    def counted(self) -> str:
        return f"polls whose callbacks took {self.delay:g} s"


class FillBuffer(OrderedFault):
    """Make producers fill their queue until it is full, without polling."""

    fault: Literal["fill_buffer"] = "fill_buffer"
    action: ClassVar[ClientAction] = "fills"
    proof = "the client has counted refusals for a full queue (_QUEUE_FULL)"
    order: ClassVar[tuple[Order, int]] = ("fill", 0)
    counted: ClassVar[str] = "records refused for a full queue (_QUEUE_FULL)"
    client: ProducerName = "producers"

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from super().problems(shape)
        if shape.transactions:
            yield (
                "fault",
                "a producer with transactions waits for the delivery reports of each transaction: "
                "its buffer never fills",
            )


class PurgeClient(OrderedFault):
    """Make producers purge their queue in every round."""

    fault: Literal["purge_client"] = "purge_client"
    proof = "the client has counted sends that its purge ended"
    counted: ClassVar[str] = "sends purged"
    client: ProducerName = "producers"
    what: Literal["queue", "all"] = Field(
        default="all", description="queue: records that wait to be sent; all: those in flight, too"
    )

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from super().problems(shape)
        if shape.java:
            yield "client", "the Java client cannot purge its queue: use librdkafka as the client"

    @property
    def effects(self) -> Effects:
        action: ClientAction = "purges_queue" if self.what == "queue" else "purges"
        return (Client(role=self.role, action=action),)

    @property
    def order(self) -> tuple[Order, int]:
        return ("purge_all" if self.what == "all" else "purge_queue"), 0


class RebalanceStorm(OrderedFault):
    """Make consumers leave and join their group at intervals."""

    fault: Literal["rebalance_storm"] = "rebalance_storm"
    action: ClassVar[ClientAction] = "rejoins"
    proof = "the client has counted two new assignments of partitions"
    proved_by: ClassVar[int] = 2
    counted: ClassVar[str] = "new assignments"
    client: str = Field(
        default="consumers",
        pattern=r"^(consumers|consumer [0-9]+)$",
        description="consumers that subscribe, or one of them by its number from 0",
    )
    every: Duration = Field(default=1.0, gt=0, description="how long they stay in the group")
    # An empty group waits group.initial.rebalance.delay.ms (3 s) for more members.
    within: Duration = Field(
        default=30.0, gt=0, description="how long to wait until the client shows the effect"
    )

    def problems(self, shape: Shape) -> Iterator[Problem]:
        yield from super().problems(shape)
        if not shape.consumers:
            return
        others = sorted({*self.numbers(shape.consumers)} - shape.subscribing)
        if not shape.subscribing:
            yield (
                "client",
                "no group rebalances: the consumers of all groups are assigned or share their "
                "partitions (via: assign, via: share)",
            )
        elif others and others[0] < shape.consumers:
            yield (
                "client",
                f"consumer {others[0]} is assigned or shares its partitions, and its group does "
                "not rebalance: name one of a group with via: subscribe",
            )

    @property
    def order(self) -> tuple[Order, int]:
        return "rejoin", max(1, int(self.every * 1000))


class SkewTimestamps(OrderedFault):
    """Make producers send with wrong timestamps."""

    fault: Literal["skew_timestamps"] = "skew_timestamps"
    proof = "the client has counted records that it sent with such a timestamp"
    client: ProducerName = "producers"
    by: Duration = Field(gt=0, description="how far the timestamps are off", examples=["90m"])
    direction: Literal["past", "future"] = Field(
        default="past", description="whether the timestamps lie in the past or in the future"
    )

    @property
    def effects(self) -> Effects:
        by = self.by if self.direction == "future" else -self.by
        return (Client(role=self.role, action="misdates", by=by),)

    @property
    def order(self) -> tuple[Order, int]:
        milliseconds = max(1, int(self.by * 1000))
        return "skew", milliseconds if self.direction == "future" else -milliseconds

    @property
    def counted(self) -> str:
        return f"records sent as if {self.by:g} s in the {self.direction}"
