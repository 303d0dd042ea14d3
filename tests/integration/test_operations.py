"""Operations as faults on real brokers, each observed independently of its verification."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic
from docker import DockerClient

import node_actions
from ackproof.cluster import lifecycle, readiness
from ackproof.cluster.booted import KafkaCluster
from ackproof.errors import ClusterError
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.observation import controllers_log, metadata_log
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.topics import TopicSpec
from ackproof_faults import (
    Fault,
    FaultError,
    Guard,
    inject,
)
from ackproof_faults.process.stops import Kill
from integration.command import clock
from integration.faulting import in_force, recover
from integration.sending import acked, log_end, send
from kafka_clusters import NOTICED, boot, shared_or
from support.schedules import STEPS
from waiting import until

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def quorum(engine: DockerClient) -> Iterator[KafkaCluster]:
    """Three brokers and three controllers."""
    spec = ClusterSpec(brokers=3, controllers=3, heap="128m", settings=NOTICED)
    with boot(engine, spec) as cluster:
        yield cluster


@pytest.fixture
def operated(request: pytest.FixtureRequest) -> KafkaCluster:
    return shared_or("quorum", request)


@pytest.fixture
def topic(operated: KafkaCluster) -> str:
    # Nodes that a failed test stopped; controllers first.
    for node in sorted(operated.nodes, reverse=True):
        if operated.interfaces.processes.exit_status(node) is not None:
            node_actions.start(operated, node)
    name = f"t-{uuid4().hex[:8]}"
    settings = {"min.insync.replicas": 1}
    operated.create_topics(
        {name: TopicSpec(assignment=[operated.broker_ids()[:2]], settings=settings)}
    )
    return name


def fault(name: str, **fields: object) -> Fault:
    (found,) = STEPS.validate_python([{"fault": name, **fields}])
    assert isinstance(found, Fault)
    return found


def done(cluster: KafkaCluster, one: Fault) -> Guard:
    """Require that a fault is verified only after its injection, and recovers after heal."""
    with pytest.raises(FaultError):
        one.model_copy(update={"within": 0.1}).verify(
            cluster.interfaces, one.target.resolve(cluster.interfaces), None
        )
    guard = in_force(cluster, one)
    recover(cluster, guard)
    return guard


def leader_by(cluster: KafkaCluster, broker: int, topic: str) -> int | None:
    """Return who leads the topic's partition 0, as this broker tells it."""
    view = cluster.partitions_known_to(broker).get((topic, 0))
    return view.leader if view else None


@pytest.mark.slow
def test_other_requests_of_a_group_wait_for_its_busy_coordinator(engine: DockerClient) -> None:
    spec = ClusterSpec(brokers=1, heap="1g", settings={"offsets.topic.num.partitions": 1})
    with boot(engine, spec) as cluster:
        cluster.create_topics({"orders": TopicSpec(partitions=1, replication_factor=1)})
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "billing"})
        partition = TopicPartition("orders", 0, 1)

        def committed() -> bool:
            try:
                consumer.commit(offsets=[partition], asynchronous=False)
            except KafkaException:
                return False  # the coordinator is not there yet
            return True

        until(committed, "the offset cannot be committed")
        guard = in_force(cluster, fault("busy_coordinator", target=1, group="billing"))
        with pytest.raises(KafkaException):
            consumer.committed([partition], timeout=1)
        recover(cluster, guard)
        assert consumer.committed([partition], timeout=10)[0].offset == 1
        consumer.close()


@pytest.mark.slow
def test_leadership_returns_to_the_preferred_leader(operated: KafkaCluster, topic: str) -> None:
    lifecycle.stop(operated, 1)
    node_actions.start(operated, 1)
    until(lambda: operated.interfaces.metadata.leader(topic, 0) == 2)
    done(operated, fault("preferred_election", topic=topic))
    until(lambda: all(leader_by(operated, broker, topic) == 1 for broker in operated.broker_ids()))


def test_an_unclean_election_loses_records_that_only_the_leader_had(
    operated: KafkaCluster, topic: str
) -> None:
    node_actions.kill(operated, 2)
    assert send(operated, topic) == (0, 0)
    node_actions.kill(operated, 1)
    operated.interfaces.processes.start(2)
    # A broker answers before it is unfenced, and only then can it be elected.
    until(lambda: 2 in operated.brokers_known_to(3), "broker 2 did not come back")
    done(operated, fault("unclean_election", topic=topic, within="30s"))
    node_actions.start(operated, 1)
    assert send(operated, topic) == (0, 0)  # again: the first one is gone


@pytest.mark.slow
def test_an_operation_uses_another_broker_when_one_is_down(
    operated: KafkaCluster, topic: str
) -> None:
    told = operated.admin.client().list_topics(timeout=60).controller_id
    node_actions.kill(operated, told)
    others = sorted(set(operated.broker_ids()) - {told})
    operated.admin.create_topic(
        NewTopic(f"{topic}-other", num_partitions=1, replica_assignment=[others])
    )
    # The broker that is asked may not have heard of the topic yet.
    until(
        lambda: operated.interfaces.operations.topic(f"{topic}-other"),
        good=lambda found: bool(found) and found[0].replicas == tuple(others),
    )
    node_actions.start(operated, told)


@pytest.mark.slow
def test_a_partition_is_reassigned(operated: KafkaCluster, topic: str, tmp_path: Path) -> None:
    assert send(operated, topic) == (0, 0)
    done(operated, fault("reassign", topic=topic, partition=0, to=[3, 2]))
    log = operated.take_metadata_log(tmp_path)
    last = [state for state in log.partitions if state.topic == topic][-1]
    assert sorted(last.replicas) == [2, 3]
    assert send(operated, topic) == (0, 1)


@pytest.mark.slow
def test_replicas_are_added_and_dropped(operated: KafkaCluster, topic: str) -> None:
    for count in (3, 1):
        done(operated, fault("change_replication_factor", topic=topic, replication_factor=count))
        until(lambda: len(operated.interfaces.metadata.replicas(topic, 0)) == count)  # noqa: B023  called at once
    until(
        lambda: (
            operated.interfaces.metadata.replicas(topic, 0)
            == (operated.interfaces.metadata.leader(topic, 0),)
        )
    )


def test_partitions_are_added(operated: KafkaCluster, topic: str) -> None:
    done(operated, fault("add_partitions", topic=topic, partitions=4))
    consumer = Consumer({"bootstrap.servers": operated.bootstrap_servers, "group.id": "x"})
    until(lambda: sorted(consumer.list_topics(topic, 30).topics[topic].partitions) == [0, 1, 2, 3])
    consumer.close()


@pytest.mark.slow
def test_offsets_of_a_group_change_once_it_has_no_members(
    operated: KafkaCluster, topic: str
) -> None:
    assert [send(operated, topic) for _ in range(2)] == [(0, 0), (0, 1)]
    consumer = Consumer(
        {
            "bootstrap.servers": operated.bootstrap_servers,
            "group.id": f"readers-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    until(lambda: (first := consumer.poll(1)) is not None and first.error() is None)
    group: dict[str, object] = {"group": f"readers-{topic}", "topic": topic}
    active = fault("reset_offsets", **group, to="latest", within="100ms")
    refused = inject(active, operated.interfaces, clock=clock).window
    assert "can only be reset if the group" in refused.evidence
    consumer.close()
    committed = operated.interfaces.metadata.committed
    for operation, offset in (
        (fault("reset_offsets", **group, to="latest"), 2),
        (fault("delete_offsets", **group), None),
    ):
        recover(operated, in_force(operated, operation))
        assert committed(f"readers-{topic}", topic, 0) == offset
        again = inject(operation, operated.interfaces, clock=clock).window
        assert not again.verified
        assert "already" in again.evidence


@pytest.mark.slow
def test_a_setting_holds_until_it_is_healed(operated: KafkaCluster, topic: str) -> None:
    one = fault("alter_config", topic=topic, key="min.insync.replicas", value=2)
    node_actions.kill(operated, 2)
    assert send(operated, topic) == (0, 0)
    with in_force(operated, one) as guard:
        # The leader may hear of it later than the broker that was asked.
        until(
            lambda: send(operated, topic, within_s=5),
            good=("NOT_ENOUGH_REPLICAS", "_MSG_TIMED_OUT").__contains__,
        )
    assert acked(operated, topic)
    node_actions.start(operated, 2)
    recover(operated, guard)
    until(lambda: operated.interfaces.operations.setting(topic, "min.insync.replicas") == "1")


@pytest.mark.slow
def test_a_recreated_topic_has_a_new_id(operated: KafkaCluster, topic: str) -> None:
    assert send(operated, topic) == (0, 0)
    assert send(operated, topic) == (0, 1)
    began = datetime.now(UTC)
    done(operated, fault("recreate_topic", topic=topic))
    # Its leader may be the last to hear that the old one is gone.
    operated.interfaces.logs.await_line(
        1, f"Created log for partition {topic}-0", since=began, within_s=60
    )
    assert send(operated, topic) == (0, 0)
    until(lambda: operated.interfaces.metadata.replicas(topic, 0) == (1, 2))


@pytest.mark.parametrize(
    ("name", "fields", "why"),
    [
        ("preferred_election", {}, "lead already"),
        ("unclean_election", {}, "every partition has a leader"),
        ("reassign", {"to": [1, 2]}, "nothing to move"),
        ("reassign", {"to": [1, 9]}, "reassign|9"),
        ("change_replication_factor", {"replication_factor": 2}, "nothing to change"),
        ("change_replication_factor", {"replication_factor": 4}, "as many brokers"),
        ("alter_config", {"key": "min.insync.replicas", "value": 1}, "is already 1"),
        ("alter_config", {"key": "no.such.key", "value": 1}, "Kafka refuses no.such.key"),
    ],
)
def test_an_operation_without_effect_or_refused_by_kafka_is_not_verified(
    name: str, fields: dict[str, object], why: str, operated: KafkaCluster, topic: str
) -> None:
    with inject(fault(name, topic=topic, **fields), operated.interfaces, clock=clock) as guard:
        assert not guard.window.verified
        assert re.search(why, guard.window.evidence)


@pytest.mark.slow
def test_the_quorum_survives_its_leader(operated: KafkaCluster, topic: str) -> None:
    before = until(operated.interfaces.controllers.active, "nobody leads the quorum")
    with inject(Kill(target="active controller"), operated.interfaces, clock=clock) as guard:
        assert guard.window.nodes == (before,)
        assert guard.window.verified, guard.window.evidence
        # A request that a broker has forwarded to the dead one may time out: wait for the next.
        until(lambda: operated.interfaces.controllers.active() not in (None, before))
        operated.admin.create_topic(NewTopic(f"{topic}-a", 1, 3))
    recover(operated, guard)


@pytest.mark.slow
def test_the_quorum_does_not_survive_the_loss_of_its_majority(
    operated: KafkaCluster, topic: str
) -> None:
    operated.admin.create_topic(NewTopic(f"{topic}-a", 1, 3))
    with inject(Kill(target="majority of controllers"), operated.interfaces, clock=clock) as guard:
        assert len(guard.window.nodes) == 2
        assert send(operated, topic) == (0, 0)  # what leads goes on
        with pytest.raises((ClusterError, KafkaException)):
            operated.admin.client().delete_topics([f"{topic}-a"], request_timeout=3)[
                f"{topic}-a"
            ].result(60)
    recover(operated, guard)


def test_conditions_use_the_state_of_the_cluster(operated: KafkaCluster, topic: str) -> None:
    started = datetime.now(UTC)
    until(lambda: operated.interfaces.metadata.log_end(topic, 0) == (0, 0))
    assert send(operated, topic) == (0, 0)
    assert operated.interfaces.metadata.committed("readers", topic, 0) is None
    consumer = Consumer(
        {
            "bootstrap.servers": operated.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    (message,) = consumer.consume(1, timeout=90)
    consumer.commit(message=message, asynchronous=False)
    consumer.close()
    until(lambda: operated.interfaces.metadata.committed("readers", topic, 0) == 1)
    volumes = operated.interfaces.volumes
    ends = [1, 1, None]  # the topic has two replicas
    until(lambda: [volumes.log_end(one, topic, 0) for one in operated.broker_ids()] == ends)
    _, epoch = log_end(operated, topic)
    lifecycle.stop(operated, 1)
    node_actions.start(operated, 1)
    until(lambda: log_end(operated, topic)[1] > epoch)
    assert log_end(operated, topic)[0] == 1
    assert operated.interfaces.logs.contains(1, "shut down completed", started)
    assert not operated.interfaces.logs.contains(1, "shut down completed", datetime.now(UTC))


@pytest.mark.slow
def test_brokers_are_added_and_removed(operated: KafkaCluster, topic: str, tmp_path: Path) -> None:
    operated.logs = tmp_path
    done(operated, fault("add_broker"))
    until(lambda: operated.brokers_known_to(1) == {1, 2, 3, 4})
    done(operated, fault("remove_broker", target=2))
    assert "broker-2" in (tmp_path / "broker-2.log").read_text()
    until(lambda: operated.brokers_known_to(1) == {1, 3, 4})
    until(
        lambda: (
            len(operated.interfaces.metadata.replicas(topic, 0)) == 2
            and 2 not in operated.interfaces.metadata.replicas(topic, 0)
        )
    )
    log = operated.take_metadata_log(tmp_path)
    assert [state.state for state in log.brokers if state.broker == 2][-1] == "unregistered"


@pytest.mark.slow
def test_controllers_are_added_and_removed(operated: KafkaCluster, topic: str) -> None:
    done(operated, fault("add_controller"))
    until(lambda: sorted(readiness.members(operated)) == [100, 101, 102, 103])
    before = operated.interfaces.controllers.active()
    removed = done(operated, fault("remove_controller"))
    assert removed.window.nodes == (before,)
    assert before not in operated.nodes
    # The remaining controllers decide, also about a broker whose file has the former ones.
    last = operated.broker_ids()[-1]
    node_actions.kill(operated, last)
    node_actions.start(operated, last)
    operated.admin.create_topic(NewTopic(f"{topic}-b", 1, 3))
    assert send(operated, f"{topic}-b") == (0, 0)


@pytest.mark.slow
def test_a_feature_level_is_raised(engine: DockerClient) -> None:
    spec = ClusterSpec(brokers=1, heap="128m", features={"transaction.version": 1})
    with boot(engine, spec) as cluster:
        began = datetime.now(UTC)
        done(cluster, fault("upgrade_feature", feature="transaction.version", level=2))
        said = "setting feature transaction.version to 2"
        assert cluster.interfaces.logs.await_line(100, said, since=began, within_s=60)
        again = inject(
            fault("upgrade_feature", feature="transaction.version", level=2),
            cluster.interfaces,
            clock=clock,
        )
        assert "is already at level 2" in again.window.evidence
        unknown = fault("upgrade_feature", feature="no.such.version", level=2)
        assert not inject(unknown, cluster.interfaces, clock=clock).window.verified


def known_versions(cluster: KafkaCluster) -> dict[int, list[int]]:
    """Return the highest metadata.version that each broker registered."""
    [controller] = [cluster.nodes[node.node_id] for node in cluster.topology.controllers]
    found: dict[int, list[int]] = {}
    for entry in metadata_log.records(controllers_log.dump(controller)):
        if entry.kind == "REGISTER_BROKER_RECORD":
            highest = {one["name"]: one["maxSupportedVersion"] for one in entry.data["features"]}
            found.setdefault(entry.data["brokerId"], []).append(highest["metadata.version"])
    return found


@pytest.mark.slow
def test_a_rolling_upgrade(engine: DockerClient) -> None:
    spec = ClusterSpec(brokers=2, heap="128m", settings=NOTICED)
    with boot(engine, spec, kafka="4.1.2") as cluster:
        cluster.create_topics({"orders": TopicSpec(replication_factor=2)})
        assert send(cluster, "orders") == (0, 0)
        done(cluster, fault("upgrade", target="all", to=DEFAULT_KAFKA))
        assert send(cluster, "orders") == (0, 1)
        known = known_versions(cluster)
        before, after = known[1]
        assert before == 27 < after  # the highest level of 4.1 (MetadataVersion)
        assert known == {1: [before, after], 2: [before, after]}
        done(cluster, fault("upgrade", target="all", to="4.1.2"))  # a rolling downgrade
        assert send(cluster, "orders") == (0, 2)
        assert known_versions(cluster) == {1: [before, after, before], 2: [before, after, before]}
        with pytest.raises(FaultError, match="downgrades are not supported"):
            fault("upgrade", target=1, to="4.1.1").inject(cluster.interfaces, [1])
