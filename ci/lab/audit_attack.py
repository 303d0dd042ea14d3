"""Carries out one schedule on the topics of many configurations at once, on a running cluster.

Every configuration has a topic with its own settings and a producer with its own. After each
operation the model predicts a leader and an ISR for each topic, and the schedule waits for them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import NewTopic
from truth import read_to_ends

from ackproof.cluster.admin import PartitionView
from ackproof.cluster.booted import KafkaCluster
from ackproof.errors import ClusterError
from ackproof.waiting import last_result, wait_for
from ackproof_faults.evidence import FaultError
from ackproof_faults.fault import Fault
from ackproof_faults.registry import registered
from ackproof_model.planning import HEALS, PROCESS_STOPS, Operation, OperationKind, Plan, Stage
from ackproof_model.removal import KEEP_EVERYTHING

SESSION_S, LAG_S = 4.0, 6.0
SETTINGS = {
    "replica.lag.time.max.ms": int(LAG_S * 1000),
    "broker.session.timeout.ms": int(SESSION_S * 1000),
    "broker.heartbeat.interval.ms": 500,
    "zookeeper.session.timeout.ms": 6000,
}
#: How long a timer may take, and how long the cluster may take to reach a predicted state.
_TIMER_FACTOR, _REACHED_S = 1.6, 12.0
#: Each stage lasts until this time has passed and so many records are acked, if any can be.
_STAGE_S, _STAGE_ACKED, _STAGE_MOST_S = 0.8, 10, 10.0
_TICK_S = 0.025
_RECOVERED_S = 90.0
_STALL_S = 0.2
#: Records at each tick; with acks=0 only those under way can be lost.
_AT_A_TICK = {"0": 10}

_FAULTS: Mapping[OperationKind, Mapping[str, Any]] = {
    OperationKind.KILL: {"fault": "kill"},
    OperationKind.LOSE_POWER: {"fault": "power_loss"},
    OperationKind.STOP: {"fault": "restart"},
    OperationKind.LAG: {"fault": "partition", "peers": "brokers", "listener": "INTERNAL"},
    OperationKind.WITHHOLD: {"fault": "isolate_replication"},
    OperationKind.CUT_OFF: {"fault": "partition", "peers": "controllers"},
}


@dataclass(slots=True, kw_only=True)
class Target:
    """A topic under attack. plan: its predicted states. number: the number of its configuration."""

    number: int
    topic: str
    plan: Plan
    settings: Mapping[str, str]
    acks: str
    idempotence: bool
    acked: set[int] = field(default_factory=set)
    astray: str = ""

    @property
    def place(self) -> tuple[str, int]:
        return (self.topic, 0)

    def request(self) -> NewTopic:
        brokers = [number + 1 for number in range(self.plan.model.replicas)]
        config = {**KEEP_EVERYTHING, **self.settings}
        return NewTopic(self.topic, 1, replica_assignment=[brokers], config=config)


class Feeder(threading.Thread):
    """Sends numbered records to every topic, and notes those that are acked."""

    def __init__(self, targets: Sequence[Target], bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._servers = bootstrap
        self._producers = [[target, self._producer(target)] for target in targets]
        self._ended = threading.Event()
        self._number = 0

    def _producer(self, target: Target) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._servers,
                "acks": target.acks,
                "enable.idempotence": target.idempotence,
                "delivery.timeout.ms": 5000,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
                # No error tells a producer with acks=0 of a new leader: it learns by its refresh.
                **({} if target.acks == "0" else {"topic.metadata.refresh.interval.ms": 5000}),
                "log_level": 0,
            }
        )

    def run(self) -> None:
        while not self._ended.wait(_TICK_S):
            for pair in self._producers:
                self._send(pair)

    def _send(self, pair: list[Any]) -> None:
        target, producer = pair

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                target.acked.add(int(message.value()))
            elif error.fatal():  # an idempotent producer ends; the application starts another
                pair[1] = None

        for _ in range(_AT_A_TICK.get(target.acks, 1)):
            self._number += 1
            with contextlib.suppress(BufferError, KafkaException):  # the queue is full, no topic
                producer.produce(
                    target.topic, str(self._number), partition=0, on_delivery=delivered
                )
        try:
            producer.poll(0)
        except KafkaException:  # fatal, as for an idempotent producer
            pair[1] = None
        if pair[1] is None:
            pair[1] = self._producer(target)

    def end(self) -> None:
        self._ended.set()
        self.join()
        for _, producer in self._producers:
            with contextlib.suppress(KafkaException):
                producer.flush(6)


def attack(
    cluster: KafkaCluster,
    targets: Sequence[Target],
    operations: Sequence[Operation],
    *,
    wiped: bool,
    extra: str,
) -> dict[str, int | None]:
    """Carry out the operations; return the lost acked records of each topic, None if unknown.

    wiped: a loss of power empties the disk. extra: a further failure before the last operation that
    is not a heal: `controllers` or `leader_move`.
    """
    create(cluster, targets)
    feeder = Feeder(targets, cluster.bootstrap_servers)
    faults = Faults(cluster, wiped=wiped)
    ends = [number for number, one in enumerate(operations) if one.kind not in HEALS]
    feeder.start()
    try:
        _acked(targets, 0)
        for number, operation in enumerate(operations, start=1):
            if extra and number - 1 == ends[-1]:
                further(cluster, extra, targets, operation)
            faults.perform(operation)
            if faults.waiting:
                continue
            _settle(
                cluster,
                targets,
                operation,
                number=number,
                informed=faults.informed(),
            )
            _acked(targets, number)
        faults.heal_all()
        _recovered(cluster, targets)
        _acked(targets, None)
    finally:
        feeder.end()
        faults.heal_all()
    return _lost(cluster, targets)


def create(cluster: KafkaCluster, targets: Sequence[Target]) -> None:
    """Create the topics of all configurations, and wait until they have a full ISR."""
    requests = [target.request() for target in targets]
    for answer in cluster.admin.client().create_topics(requests, request_timeout=30).values():
        answer.result(60)
    cluster.await_full_isr([target.place for target in targets])
    for target in targets:  # a power loss asks for it when no broker answers
        cluster.interfaces.operations.known_setting(target.topic, "flush.messages")


def further(
    cluster: KafkaCluster, failure: str, targets: Sequence[Target], following: Operation
) -> None:
    """Move leaders, or kill the controllers and start them again."""
    if failure == "leader_move":
        _move_leaders(cluster, targets, following.broker + 1)
        return
    for node in cluster.controller_ids():
        cluster.nodes[node].kill()
    time.sleep(_STAGE_S)
    for node in cluster.controller_ids():
        cluster.nodes[node].start_again()
    last_result(cluster.interfaces.controllers.active, bool, within_s=30)
    time.sleep(_STAGE_S)


def _move_leaders(cluster: KafkaCluster, targets: Sequence[Target], broker: int) -> None:
    """Let another member of the ISR lead each topic: this broker, which fails next, if it can."""
    views, orders = cluster.partitions(), {}
    for view, place in ((views[one.place], one.place) for one in targets if one.place in views):
        if others := sorted(set(view.isr) - {view.leader}, key=lambda one: (one != broker, one)):
            rest = [one for one in view.replicas if one != others[0]]
            orders[place] = [others[0], *rest]
    if orders:
        cluster.interfaces.operations.reassign(orders)
        with contextlib.suppress(FaultError):  # some partitions are led by their new first replica
            cluster.interfaces.operations.elect(list(orders), unclean=False)


class Faults:
    """The faults in force on a cluster, by broker and kind."""

    def __init__(self, cluster: KafkaCluster, *, wiped: bool) -> None:
        self._cluster = cluster
        self._wiped = wiped
        self._in_force: dict[tuple[int, OperationKind], tuple[Fault, Any]] = {}
        #: Brokers of a rack; they lose power together with the next one that does.
        self.waiting: list[int] = []

    def perform(self, operation: Operation) -> None:
        broker = operation.broker + 1
        if operation.kind is OperationKind.START:
            for kind in PROCESS_STOPS:
                self._heal(broker, kind)
        elif operation.kind is OperationKind.JOIN:
            assert operation.ends is not None
            self._heal(broker, operation.ends)
        elif operation.kind is OperationKind.LOSE_POWER and not operation.settled:
            self.waiting.append(broker)
        else:
            fields = dict(_FAULTS[operation.kind])
            if self._wiped and operation.kind is OperationKind.LOSE_POWER:
                fields = {"fault": "wipe_partition"}
            fault = registered()[fields["fault"]](target=broker, **fields)
            brokers, self.waiting = [*self.waiting, broker], []
            if operation.kind is OperationKind.KILL:
                # A send with acks=0 is under way for a millisecond; a stall before the crash
                # leaves some under way for certain.
                self._cluster.nodes[broker].container.kill(signal="SIGSTOP")
                time.sleep(_STALL_S)
            done = fault.inject(self._cluster.interfaces, brokers)
            for one in brokers:
                self._in_force[one, operation.kind] = fault, done
            fault.verify(self._cluster.interfaces, brokers, done)

    def _heal(self, broker: int, kind: OperationKind) -> None:
        if (found := self._in_force.pop((broker, kind), None)) is not None:
            fault, done = found
            fault.heal(self._cluster.interfaces, [broker], done)

    def informed(self) -> list[int]:
        """Return the brokers that run and reach the controllers."""
        uninformed = {
            broker
            for broker, kind in self._in_force
            if kind in PROCESS_STOPS or kind is OperationKind.CUT_OFF
        }
        return [one for one in self._cluster.broker_ids() if one not in uninformed]

    def heal_all(self) -> None:
        for broker, kind in reversed(tuple(self._in_force)):
            self._heal(broker, kind)
            if kind in PROCESS_STOPS:
                _registered(self._cluster, broker)


def _registered(cluster: KafkaCluster, broker: int) -> None:
    wait_for(
        cluster.admin.brokers,
        lambda brokers: broker in brokers,
        within_s=_RECOVERED_S,
        every_s=0.2,
        failure=lambda _: ClusterError(f"broker {broker} did not register"),
    )


def _settle(
    cluster: KafkaCluster,
    targets: Sequence[Target],
    operation: Operation,
    *,
    number: int,
    informed: Sequence[int],
) -> None:
    """Wait until every topic is in the predicted state; note those that are not.

    No prediction has the further failure of a schedule, and none is sure after a rack has gone.
    """
    if not operation.settled:
        return
    if operation.kind is OperationKind.START:
        _registered(cluster, operation.broker + 1)
    if not informed:
        return
    predicted = {target.place: _state(target.plan.stages[number]) for target in targets}
    before = {target.place: _state(target.plan.stages[number - 1]) for target in targets}
    if predicted == before and operation.kind not in HEALS:
        lags = operation.kind in (OperationKind.LAG, OperationKind.WITHHOLD)
        time.sleep((LAG_S if lags else SESSION_S) * _TIMER_FACTOR + 1)
    views = last_result(
        lambda: _views(cluster, informed),
        lambda views: not any(_differing(predicted, views)),
        within_s=_REACHED_S,
    )
    for target in targets:
        if target.place in _differing(predicted, views):
            view, state = views.get(target.place), predicted[target.place]
            seen = (view.leader, sorted(view.isr)) if view else None
            target.astray = target.astray or f"stage {number}: {seen}, not {state}"


def _state(stage: Stage) -> tuple[int | None, list[int]]:
    controller = stage.plan_state.state.controller
    isr = [number + 1 for number in range(len(stage.plan_state.state.brokers))]
    leader = None if controller.leader < 0 else controller.leader + 1
    return leader, [broker for broker in isr if controller.isr >> broker - 1 & 1]


def _views(
    cluster: KafkaCluster, informed: Sequence[int]
) -> Mapping[tuple[str, int], PartitionView]:
    if not cluster.topology.metadata.tells_brokers_isrs:
        return cluster.partitions()
    return cluster.partitions_known_to(informed[0])


def _differing(
    predicted: Mapping[tuple[str, int], tuple[int | None, list[int]]],
    views: Mapping[tuple[str, int], PartitionView],
) -> Iterator[tuple[str, int]]:
    for place, (leader, isr) in predicted.items():
        view = views.get(place)
        if view is None or view.leader != leader or sorted(view.isr) != isr:
            yield place


def _acked(targets: Sequence[Target], number: int | None) -> None:
    """Let records be sent in a stage; wait for some acks of those that the model expects."""
    counts = {target.topic: len(target.acked) for target in targets}
    time.sleep(_STAGE_S)
    waiting = [
        target
        for target in targets
        if number is None or target.plan.fate(target.plan.stages[number]) != "none"
    ]
    last_result(
        lambda: all(len(target.acked) >= counts[target.topic] + _STAGE_ACKED for target in waiting),
        bool,
        within_s=_STAGE_MOST_S,
    )


def _recovered(cluster: KafkaCluster, targets: Sequence[Target]) -> None:
    for broker in cluster.broker_ids():
        _registered(cluster, broker)
    with contextlib.suppress(ClusterError):  # a topic without a leader is noted by `_lost`
        cluster.await_full_isr([target.place for target in targets], within_s=_RECOVERED_S)


def _lost(cluster: KafkaCluster, targets: Sequence[Target]) -> dict[str, int | None]:
    """Read every topic to its end; return the number of acked records that are missing."""
    views = cluster.partitions()
    readable = [one.place for one in targets if one.place in views and views[one.place].full_isr]
    found = read_to_ends(cluster, readable)
    return {
        target.topic: len(target.acked.difference(found[target.place].values()))
        if target.place in found
        else None
        for target in targets
    }
