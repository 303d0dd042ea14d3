"""Network faults between real nodes, observed by clients and by the controller.

`test_faults` has those of `ci/test`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer
from docker import DockerClient

from ackproof import doctor
from ackproof.cluster.booted import KafkaCluster
from ackproof.errors import EngineError
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.topics import TopicSpec
from ackproof_faults import Fault
from ackproof_faults.network.connections import HalfOpen
from ackproof_faults.network.cuts import Bridge, Flapping, Isolate, MajoritiesRing, Partition, Split
from ackproof_faults.network.slowed import Bandwidth, Latency, PacketLoss
from integration.faulting import in_force, recover
from integration.sending import acked
from kafka_clusters import NOTICED, boot
from waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PLACES = [("orders", n) for n in range(4)]


@pytest.fixture(scope="module")
def four(engine: DockerClient) -> Iterator[KafkaCluster]:
    """Four brokers with short sessions; brokers 1 to 4 lead orders-0 to orders-3."""
    spec = ClusterSpec(
        brokers=4,
        settings={**NOTICED, "replica.lag.time.max.ms": 2000},
    )
    with boot(engine, spec) as cluster:
        ring = [[1, 2, 3, 4], [2, 3, 4, 1], [3, 4, 1, 2], [4, 1, 2, 3]]
        cluster.create_topics({"orders": TopicSpec(assignment=ring)})
        yield cluster


def leader_of(cluster: KafkaCluster) -> int:
    """Return the leader of orders-0."""
    leader = cluster.interfaces.metadata.leader("orders", 0)
    assert leader is not None
    return leader


def await_isr(cluster: KafkaCluster, partition: int, wanted: set[int]) -> None:
    """Write something that a follower can lack, and wait until the committed ISR is this.

    A follower that has all there is stays in sync, however long it has not been heard of.
    """
    assert acked(cluster, "orders", partition=partition, acks=1)
    until(
        lambda: set(cluster.interfaces.metadata.isr("orders", partition) or ()), good=wanted.__eq__
    )


@pytest.fixture(autouse=True)
def _whole(four: KafkaCluster) -> Iterator[None]:
    """Start each test with full ISRs; require that no rules are left in a kernel."""
    four.await_full_isr(PLACES)
    moved = [
        place
        for number, place in enumerate(PLACES, 1)
        if four.interfaces.metadata.leader(*place) != number
    ]
    if moved:
        four.interfaces.operations.elect(moved, unclean=False)
        until(
            lambda: (
                [four.interfaces.metadata.leader(*place) for place in PLACES] == four.broker_ids()
            )
        )
    yield
    assert "ackproof" not in four.interfaces.network.run(1, "nft list tables; tc qdisc").output


def test_partitioned_brokers_remove_each_other_from_their_isrs(four: KafkaCluster) -> None:
    with in_force(four, Partition(target=1, peers=(2,))) as guard:
        await_isr(four, 0, {1, 3, 4})
        await_isr(four, 1, {2, 3, 4})
        until(lambda: set(four.interfaces.metadata.isr("orders", 2) or ()) == {1, 2, 3, 4})
    recover(four, guard)


def test_a_one_way_cut_stops_replication(four: KafkaCluster) -> None:
    cut = Partition(target=1, peers=(2,), direction="to_peers", how="reject")
    with in_force(four, cut) as guard:
        await_isr(four, 0, {1, 3, 4})
    recover(four, guard)


def test_a_broker_without_controllers_is_fenced_and_still_acks_alone(four: KafkaCluster) -> None:
    with in_force(four, Partition(target=1, peers="controllers")) as guard:
        assert acked(four, "orders", partition=0, acks=1)
        until(
            lambda: four.interfaces.metadata.leader("orders", 0),
            good=lambda leader: leader not in (None, 1),
        )
    recover(four, guard)


def test_clients_cut_off_and_replication_not(four: KafkaCluster) -> None:
    leader = leader_of(four)
    with in_force(four, Partition(target=leader, peers="clients", listener="EXTERNAL")) as guard:
        assert not acked(four, "orders", partition=0, acks=1, within_s=5)
        until(lambda: len(four.interfaces.metadata.isr("orders", 0) or ()) == 4)
    recover(four, guard)


@pytest.mark.parametrize(
    ("fault", "rest"),
    [(Isolate(target=2), {1, 3, 4}), (Split(target=[1, 2], controllers="others"), {3, 4})],
    ids=["isolate", "split"],
)
def test_brokers_without_controllers_and_peers_leave_every_isr(
    four: KafkaCluster, fault: Fault, rest: set[int]
) -> None:
    with in_force(four, fault) as guard:
        until(
            lambda: [set(four.interfaces.metadata.isr(*place) or ()) for place in PLACES],
            good=lambda seen: all(isr == rest for isr in seen),
        )
    recover(four, guard)


def test_in_a_bridge_and_a_ring_the_isr_contains_brokers_connected_to_the_leader(
    four: KafkaCluster,
) -> None:
    with in_force(four, Bridge(target=1)) as guard:  # 2 | 3, 4
        leader = leader_of(four)
        await_isr(four, 0, {1: {1, 2, 3, 4}, 2: {1, 2}}.get(leader, {1, 3, 4}))
    recover(four, guard)
    with in_force(four, MajoritiesRing()) as guard:
        leader = leader_of(four)
        opposite = (leader + 1) % 4 + 1
        await_isr(four, 0, {1, 2, 3, 4} - {opposite})
    recover(four, guard)


def test_a_flapping_link_is_observed_up_and_down(four: KafkaCluster) -> None:
    with in_force(four, Flapping(target=1, peers="clients", up="1s", down="1s")) as guard:
        for answers in (True, False, True):
            until(lambda: four.interfaces.metadata.answers(1) is answers)  # noqa: B023 -- same turn
    recover(four, guard)


def retransmitted(cluster: KafkaCluster, node: int) -> int:
    """Return how many segments the node's kernel has sent again."""
    lines = cluster.interfaces.network.run(node, "grep ^Tcp: /proc/net/snmp").output.splitlines()
    names, values = (line.split() for line in lines)
    return int(values[names.index("RetransSegs")])


def test_lost_packets_are_retransmitted(four: KafkaCluster) -> None:
    before = retransmitted(four, 1)
    with in_force(four, PacketLoss(target=1, percent=20)) as guard:
        until(lambda: retransmitted(four, 1), good=lambda count: count > before + 3)
    recover(four, guard)


def test_half_open_connections_stay_established_without_a_reset(four: KafkaCluster) -> None:
    began = datetime.now(UTC)
    guard = in_force(four, HalfOpen(target=4))
    assert "open connections to the dead node 4" in guard.window.evidence
    until(lambda: four.brokers_known_to(1), good=lambda listed: 4 not in listed)
    # A follower is told at once of a leader that is killed.
    assert not four.interfaces.logs.contains(1, "Node 4 disconnected", began)
    recover(four, guard)


def test_delayed_packets_make_a_client_wait(four: KafkaCluster, engine: DockerClient) -> None:
    fault = Latency(target="leader of orders-0", delay="500ms")
    try:
        doctor.require_needs(engine, [fault])
    except EngineError as lack:
        pytest.skip(str(lack))
    with in_force(four, fault) as guard:
        began = time.monotonic()
        assert acked(four, "orders", partition=0, acks=1)
        assert time.monotonic() - began >= fault.delay
    recover(four, guard)


def backlog(cluster: KafkaCluster, node: int) -> int:
    """Return how many bytes wait in the node's sockets, sent by Kafka and not yet taken."""
    listed = cluster.interfaces.network.run(node, "ss -Htn state established").output.splitlines()
    return sum(int(line.split()[1]) for line in listed)


def test_a_narrow_link_holds_back_what_followers_fetch(four: KafkaCluster) -> None:
    leader = leader_of(four)
    with in_force(four, Bandwidth(target=leader, rate="100kbit")) as guard:
        producer = Producer({"bootstrap.servers": four.bootstrap_servers, "acks": 1})
        for _ in range(5):
            producer.produce("orders", b"x" * 100_000, partition=0)
        until(
            lambda: (producer.poll(0), backlog(four, leader))[1],
            good=lambda waiting: waiting > 50_000,
        )
    assert producer.flush(60) == 0
    producer.close()
    recover(four, guard)
