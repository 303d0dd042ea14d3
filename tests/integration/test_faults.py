"""Faults on real brokers: inject, verify and heal; and verification without injection fails."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer

from ackproof.cluster.booted import KafkaCluster
from ackproof.scenario.topics import TopicSpec
from ackproof_faults import Fault, FaultError, inject
from ackproof_faults.disk.damaged import (
    DeleteIndex,
    OldCheckpoint,
    ReplaceDisk,
    TruncateIndex,
    WipePartition,
    WipeVolume,
)
from ackproof_faults.disk.power_loss import PowerLoss
from ackproof_faults.disk.slow import SlowDisk
from ackproof_faults.disk.unreachable import DiskFull
from ackproof_faults.network.connections import HalfOpen, ResetConnections
from ackproof_faults.network.cuts import Bridge, Flapping, Isolate, MajoritiesRing, Partition, Split
from ackproof_faults.network.isolate_replication import IsolateReplication
from ackproof_faults.network.slowed import Bandwidth, PacketLoss
from ackproof_faults.process.skew_clock import SkewClock
from ackproof_faults.process.stops import Kill, Restart
from integration.command import clock
from integration.faulting import in_force, recover
from integration.sending import acked
from waiting import until

pytestmark = pytest.mark.cluster

PLACES = [("orders", n) for n in range(3)]


@pytest.mark.parametrize(
    ("fault", "shut_down"),
    [
        pytest.param(Kill(target="leader of orders-0"), False, id="kill"),
        pytest.param(
            Restart(target="leader of orders-0"), True, id="restart", marks=pytest.mark.slow
        ),
    ],
)
def test_an_ended_broker_is_fenced_and_its_log_shows_how_it_ended(
    cluster: KafkaCluster, fault: Fault, shut_down: bool
) -> None:
    cluster.await_full_isr(PLACES)
    began = datetime.now(UTC)
    with in_force(cluster, fault) as guard:
        assert not guard.recovered()
        (ended,) = guard.window.nodes
        until(lambda: cluster.interfaces.metadata.leader("orders", 0) not in (None, ended))
    until(guard.recovered, "the fault did not heal")
    said = cluster.nodes[ended].log_since(began)
    assert ("Terminating process due to signal SIGTERM" in said) == shut_down
    cluster.await_full_isr(PLACES)


#: `test_process_faults` has those of processes.
NOT_INJECTED = [
    Kill(target=1),
    Restart(target=1),
    IsolateReplication(target=1),
    Partition(target=1),
    Partition(target=1, peers="clients"),
    Isolate(target=1),
    Split(target=[1, 2]),
    Bridge(target=1),
    MajoritiesRing(),
    Flapping(target=1),
    PacketLoss(target=1),
    HalfOpen(target=1),
    Bandwidth(target=1),
    PowerLoss(target=1, partitions=()),
    WipePartition(target=1, partitions=()),
    WipeVolume(target=1),
    ReplaceDisk(target=1),
    DeleteIndex(target=1, partitions=()),
    TruncateIndex(target=1, partitions=()),
    OldCheckpoint(target=1),
    DiskFull(target=1),
]


@pytest.mark.parametrize(
    "fault", NOT_INJECTED, ids=lambda fault: f"{fault.name}-{getattr(fault, 'peers', '')}"
)
def test_a_fault_that_was_not_injected_is_not_verified(cluster: KafkaCluster, fault: Fault) -> None:
    with pytest.raises(FaultError):
        fault.verify(cluster.interfaces, [1], None)


def test_cut_replication_stops_acks_all_and_not_acks_1(cluster: KafkaCluster) -> None:
    cluster.await_full_isr(PLACES)
    assert acked(cluster, "orders", partition=0)
    with in_force(cluster, IsolateReplication(target="leader of orders-0")) as guard:
        assert not acked(cluster, "orders", partition=0, within_s=5)
        # No broker is fenced yet.
        until(lambda: len(cluster.interfaces.metadata.isr("orders", 0) or ()) == 3)
        assert acked(cluster, "orders", partition=0, acks=1)
        assert not guard.recovered()
    assert acked(cluster, "orders", partition=0)
    until(guard.recovered, "the fault did not heal")


@pytest.mark.slow
def test_a_slow_disk_delays_the_acks_of_fsynced_records(cluster: KafkaCluster) -> None:
    spec = TopicSpec(assignment=[[1]], settings={"flush.messages": 1})
    cluster.create_topics({"flushed": spec})
    slow = SlowDisk(target=1, rate=65536)
    guard = inject(slow, cluster.interfaces, clock=clock)
    assert guard.window.verified, guard.window.evidence
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": 1})
    producer.produce("flushed", bytes(400_000))
    assert producer.flush(2) == 1  # six seconds at this rate
    assert producer.flush(120) == 0
    producer.close()
    guard.heal()
    until(guard.recovered, "its disk stays slow")
    with pytest.raises(FaultError, match="is not slow"):
        slow.verify(cluster.interfaces, [1], {1: 1.0})


def test_reset_connections_are_told_to_clients(cluster: KafkaCluster) -> None:
    cluster.await_full_isr(PLACES)
    leader = cluster.interfaces.metadata.leader("orders", 0)
    assert leader is not None
    told: list[dict[str, Any]] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "stats_cb": lambda text: told.append(json.loads(text)["brokers"]),
            "statistics.interval.ms": 100,
            "log_level": 0,
        }
    )

    def disconnects() -> int:
        producer.poll(0.1)
        return sum(one["disconnects"] for one in told[-1].values()) if told else 0

    producer.produce("orders", b"x", partition=0)
    assert producer.flush(60) == 0
    before = disconnects()
    with in_force(cluster, ResetConnections(target=leader)) as guard:
        until(disconnects, "the client has not noticed", good=lambda count: count > before)
    producer.produce("orders", b"x", partition=0)
    assert producer.flush(60) == 0
    producer.close()
    recover(cluster, guard, PLACES)
    assert "ackproof" not in cluster.interfaces.network.run(1, "nft list tables; tc qdisc").output


def test_open_connections_are_not_reset(cluster: KafkaCluster) -> None:
    script = "ss -Htn state established | awk '{print $3, $4}'"
    connections = frozenset(cluster.interfaces.network.run(1, script).output.splitlines())
    assert connections
    with pytest.raises(FaultError, match=f"still has [0-9]+ of {len(connections)} connections"):
        ResetConnections(target=1).verify(cluster.interfaces, [1], {1: connections})


@pytest.mark.slow
def test_a_cut_outlives_the_end_of_the_isolated_broker(cluster: KafkaCluster) -> None:
    cluster.await_full_isr(PLACES)
    cut = IsolateReplication(target="leader of orders-0")
    with inject(cut, cluster.interfaces, clock=clock) as guard:
        (isolated,) = guard.window.nodes
        with inject(Kill(target=isolated), cluster.interfaces, clock=clock):
            pass
        until(lambda: cluster.interfaces.metadata.answers(isolated), "the broker did not come back")
        assert cut.verify(cluster.interfaces, [isolated], None)
    cluster.await_full_isr(PLACES)


def test_without_clocks_of_their_own_brokers_go_by_the_machines(cluster: KafkaCluster) -> None:
    guard = inject(SkewClock(target=1, by="90m"), cluster.interfaces, clock=clock)
    assert not guard.window.verified
    assert "set cluster.clock: adjustable" in guard.window.evidence
