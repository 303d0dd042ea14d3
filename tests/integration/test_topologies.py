"""A cluster with every option of a scenario, and an operator's actions on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient

import node_actions
from ackproof.cluster import lifecycle, readiness
from ackproof.cluster.booted import KafkaCluster
from ackproof.containers import commands
from ackproof.errors import ClusterError
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.topics import TopicSpec
from integration.sending import acked
from kafka_clusters import NOTICED, boot
from waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="class")
def custom(engine: DockerClient) -> Iterator[KafkaCluster]:
    spec = ClusterSpec(
        controllers=3,
        combined=True,
        racks=["a", "b"],
        listeners=["SLOW"],
        memory="1g",
        settings={"broker.session.timeout.ms": 18000},
        overrides={
            2: {"log_dirs": 2, "memory": "600m", "cpus": 0.8, "rack": "z"},
            3: {"settings": {"num.replica.fetchers": 2}},
        },
        features={"eligible.leader.replicas.version": 0},
    )
    with boot(engine, spec) as cluster:
        cluster.create_topics(
            {
                "orders": TopicSpec(assignment=[[3, 1, 2], [2, 3, 1], [2, 1, 3], [2, 3, 1]]),
                "state": TopicSpec(
                    replication_factor=2,
                    settings={"cleanup.policy": "compact", "flush.messages": 1},
                ),
            }
        )
        yield cluster


@pytest.fixture(scope="class")
def operated(engine: DockerClient) -> Iterator[KafkaCluster]:
    with boot(engine, ClusterSpec(controllers=3, settings=NOTICED)) as cluster:
        cluster.create_topics(
            {"orders": TopicSpec(partitions=3, settings={"min.insync.replicas": 2})}
        )
        yield cluster


class TestOptions:
    def test_replicas_have_the_given_assignment(self, custom: KafkaCluster) -> None:
        replicas = {partition: view.replicas for partition, view in custom.partitions().items()}
        assert replicas["orders", 0] == (3, 1, 2)
        assert replicas["orders", 1] == (2, 3, 1)
        assert custom.interfaces.metadata.leader("orders", 0) == 3

    def test_the_metadata_log_has_racks_and_features(
        self, custom: KafkaCluster, tmp_path: Path
    ) -> None:
        custom.take_metadata_log(tmp_path)
        log = (tmp_path / "metadata.log").read_text()
        registered = {
            number: line
            for line in log.splitlines()
            for number in custom.broker_ids()
            if "REGISTER_BROKER_RECORD" in line and f'"brokerId":{number},' in line
        }
        racks = {number: line.partition('"rack":"')[2][:1] for number, line in registered.items()}
        assert racks == {1: "a", 2: "z", 3: "a"}
        assert '"eligible.leader.replicas.version","featureLevel":1' not in log
        assert '"transaction.version","featureLevel":2' in log

    def test_containers_have_the_limits(self, custom: KafkaCluster) -> None:
        hosts = {n: custom.nodes[n].container.attrs["HostConfig"] for n in custom.broker_ids()}
        assert {n: host["Memory"] >> 20 for n, host in hosts.items()} == {1: 1024, 2: 600, 3: 1024}
        assert {n: host["NanoCpus"] for n, host in hosts.items()} == {1: 0, 2: 800_000_000, 3: 0}

    def test_partitions_spread_over_the_log_directories(self, custom: KafkaCluster) -> None:
        held = commands.run(
            custom.nodes[2].container, ["ls", "/var/lib/ackproof/data-2"]
        ).stdout.decode()
        assert "orders-" in held
        assert "meta.properties" in held

    def test_one_listener_can_be_cut_and_the_other_not(self, custom: KafkaCluster) -> None:
        assert acked(custom, "orders", listener="SLOW")
        rules = (
            "table inet cut { chain in { type filter hook input priority 0; "
            f"tcp dport {custom.interfaces.network.port('SLOW')} drop; }}; }}"
        )
        for broker in custom.broker_ids():
            done = custom.interfaces.network.run(broker, f"nft -f - <<< '{rules}'")
            assert done.exit_status == 0, done.output
        assert not acked(custom, "orders", listener="SLOW", within_s=3)
        assert acked(custom, "orders")
        for broker in custom.broker_ids():
            custom.interfaces.network.run(broker, "nft delete table inet cut")
        assert acked(custom, "orders", listener="SLOW")

    def test_combined_controllers_are_a_quorum(self, custom: KafkaCluster) -> None:
        until(lambda: sorted(readiness.members(custom)) == [1, 2, 3])


class TestLifecycle:
    def test_brokers_are_fenced_by_kill_pause_and_stop_and_recover(
        self, operated: KafkaCluster
    ) -> None:
        for act, undo in (
            (node_actions.kill, node_actions.start),
            (node_actions.pause, node_actions.resume),
            (lifecycle.stop, node_actions.start),
        ):
            act(operated, 1)
            until(lambda: operated.brokers_known_to(2) == {2, 3})
            until(lambda: all(1 not in view.isr for view in operated.partitions().values()))
            undo(operated, 1)
            # The metadata of broker 2 may lag behind that of broker 1.
            until(lambda: operated.brokers_known_to(2) == {1, 2, 3})
            until(lambda: all(view.full_isr for view in operated.partitions().values()))

    @pytest.mark.slow
    def test_the_controllers_tell_of_partitions_while_no_broker_runs(
        self, operated: KafkaCluster
    ) -> None:
        metadata = operated.interfaces.metadata
        until(lambda: all(view.full_isr for view in operated.partitions().values()))
        for broker in (2, 3):
            node_actions.kill(operated, broker)
            until(lambda: broker not in (metadata.isr("orders", 0) or [broker]))  # noqa: B023  called at once
        until(lambda: metadata.elr("orders", 0) == (3,))
        assert metadata.leader("orders", 0) == 1
        node_actions.kill(operated, 1)
        until(lambda: metadata.leader("orders", 0) is None)
        assert metadata.isr("orders", 0) == ()
        assert set(metadata.elr("orders", 0) or ()) == {1, 3}
        assert metadata.last_known_leader("orders", 0) == 1
        assert operated.partitions() == {}
        for broker in (1, 2, 3):  # which of them may lead first is the controller's to say
            operated.nodes[broker].start_again()
        until(lambda: sorted(operated.brokers_known_to(2)) == [1, 2, 3])
        until(lambda: all(view.full_isr for view in operated.partitions().values()))
        until(lambda: metadata.elr("orders", 0) == ())
        assert metadata.last_known_leader("orders", 0) is None

    def test_a_wait_that_times_out_raises_the_last_state(self, operated: KafkaCluster) -> None:
        until(lambda: operated.brokers_known_to(1) == {1, 2, 3})
        with pytest.raises(ClusterError, match=r"broker 1 lists \[1, 2, 3\]"):
            readiness.await_fenced(operated, 2, within_s=0.3)
        with pytest.raises(ClusterError, match=r"still in an ISR .*orders-0 \(leader"):
            readiness.await_out_of_isr(operated, 2, within_s=0.3)
