"""A cluster is reused only if it is like new."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from docker import DockerClient
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

import node_actions
from ackproof.cluster import lifecycle
from ackproof.cluster.pool import ClusterPool, leaves_no_trace
from ackproof.containers.engine import LABEL_RUN, remove_run
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.model import Scenario
from ackproof.scenario.topics import OFFSETS, TopicSpec
from kafka_clusters import boot
from support.run_directories import small
from waiting import until

pytestmark = pytest.mark.cluster

TOPICS = {"orders": TopicSpec(replication_factor=1)}


def scenario(**changes: object) -> Scenario:
    one = {"cluster": {"brokers": 1}, "topics": {"orders": {"replication_factor": 1}}}
    return Scenario.model_validate(small(**{**one, **changes}))


class Suite:
    """Leases clusters from one pool for several runs."""

    def __init__(self, pool: ClusterPool, image: str, folder: Path) -> None:
        self.pool = pool
        self.image = image
        self.folder = folder
        self.names: list[str] = []

    def run(
        self, wanted: Scenario, *, leave: str = "", trouble: bool = False, group: str = ""
    ) -> tuple[bool, str]:
        """Return whether the cluster was reused, and the id of its first container."""
        self.names.append(f"test-{uuid4().hex[:8]}")
        with self.pool.lease(
            wanted, image=self.image, run_id=self.names[-1], logs=self.folder
        ) as lease:
            topics = {topic for topic, _ in lease.cluster.partitions()}
            assert topics <= {OFFSETS}, "a topic of the previous run exists"
            lease.cluster.create_topics(TOPICS)
            if leave:
                assert lease.cluster.interfaces.network.run(1, leave).exit_status == 0
            if group:
                consume(lease.cluster.bootstrap_servers, commit=group == "commits")
            if not trouble:
                lease.reusable = True
            return lease.reused, str(lease.cluster.nodes[1].container.id)


_NOT_YET = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


def consume(servers: str, *, commit: bool) -> None:
    """Let a consumer group ask for its offsets, and maybe commit one."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "readers"})
    place = TopicPartition("orders", 0, 0)
    try:
        # The request makes the offsets topic, whose coordinator may not have loaded it yet.
        for attempt in Retrying(
            retry=retry_if_exception(lambda error: error.args[0].code() in _NOT_YET),
            stop=stop_after_delay(60),
            wait=wait_fixed(0.2),
            reraise=True,
        ):
            with attempt:
                consumer.committed([place], timeout=60)
        if commit:
            consumer.commit(offsets=[place], asynchronous=False)
    finally:
        consumer.close()


@pytest.fixture
def suite(engine: DockerClient, image: str, tmp_path: Path) -> Iterator[Suite]:
    with ClusterPool(engine, reuse=True) as pool:
        made = Suite(pool, image, tmp_path)
        yield made
    for name in made.names:
        wanted: dict[str, str | list[str] | bool] = {"label": f"{LABEL_RUN}={name}"}
        assert engine.containers.list(all=True, filters=wanted, ignore_removed=True) == []
        assert engine.networks.list(filters=wanted) == []
        assert engine.volumes.list(filters=wanted) == []


@pytest.mark.slow
def test_a_cluster_is_reused_until_a_run_leaves_a_trace(suite: Suite) -> None:
    fresh, first = suite.run(scenario())
    reused, second = suite.run(scenario(name="another"))
    assert (fresh, reused) == (False, True)
    assert first == second
    suite.run(scenario(), leave="nft add table inet left_behind")
    reused, third = suite.run(scenario(), trouble=True)
    assert not reused, "a packet filter of the previous run was not noticed"
    assert third != first
    reused, _ = suite.run(scenario())
    assert not reused, "the cluster of a run with trouble was reused"


@pytest.mark.slow
def test_internal_topics_are_state_only_if_they_hold_records(suite: Suite) -> None:
    _, first = suite.run(scenario())
    reused, second = suite.run(scenario(), group="reads")
    assert (reused, second) == (True, first)
    reused, third = suite.run(scenario(), group="commits")
    assert (reused, third) == (True, first), "an empty offsets topic was taken for state"
    reused, _ = suite.run(scenario())
    assert not reused, "committed offsets of the previous run were not noticed"


@pytest.mark.slow
def test_a_cluster_that_is_left_up_outlives_its_pool(
    engine: DockerClient, image: str, tmp_path: Path
) -> None:
    name = f"test-{uuid4().hex[:8]}"
    try:
        with ClusterPool(engine) as pool:
            pool.leave_up = True
            with pool.lease(scenario(), image=image, run_id=name, logs=tmp_path) as lease:
                servers = lease.cluster.bootstrap_servers
        del pool, lease
        gc.collect()
        described = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=60)
        assert set(described.brokers) == {1}
    finally:
        remove_run(engine, name)


@pytest.mark.slow
def test_a_topic_that_is_created_again_is_asked_for_by_its_own_epoch(engine: DockerClient) -> None:
    # Before 2.8 topics have no ids, by which a client could tell one from the other.
    spec = ClusterSpec(brokers=2, settings={"zookeeper.session.timeout.ms": 6000})
    wanted = {"orders": TopicSpec(assignment=[[1, 2]])}
    with boot(engine, spec, kafka="2.6.2") as cluster:
        cluster.create_topics(wanted)
        lifecycle.stop(cluster, 1)
        until(lambda: (end := cluster.admin.log_end("orders", 0)) and end[1] > 0)
        cluster.admin.end_offsets([("orders", 0)])
        node_actions.start(cluster, 1)
        cluster.admin.delete_topics(["orders"])
        until(lambda: ("orders", 0) not in cluster.partitions())
        cluster.create_topics(wanted)
        assert cluster.admin.end_offsets([("orders", 0)]) == {("orders", 0): 0}
        assert cluster.admin.log_end("orders", 0) == (0, 0)


def test_reuse_depends_on_the_scenario() -> None:
    kill = {"fault": "kill", "target": 1}
    assert leaves_no_trace(scenario())
    assert leaves_no_trace(scenario(faults=[kill]))
    altered = {"fault": "alter_config", "topic": "orders", "key": "retention.ms", "value": -1}
    assert not leaves_no_trace(scenario(faults=[kill, altered]))
    assert not leaves_no_trace(scenario(cluster={"brokers": 1, "reuse": False}))
