"""Clusters with a topology unlike the default, and their operations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from ackproof.cluster import (
    controllers,
    lifecycle,
    quorum,
    readiness,
)
from ackproof.cluster.cluster import KafkaCluster
from ackproof.errors import ClusterError
from ackproof.observation import observer
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.model import TopicSpec
from ackproof_faults import FaultError
from integration.sending import acked
from kafka_clusters import NOTICED, boot
from waiting import until

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="class")
def unlike(engine: DockerClient) -> Iterator[KafkaCluster]:
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
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="class")
def operated(engine: DockerClient, logs: Path) -> Iterator[KafkaCluster]:
    with boot(engine, ClusterSpec(controllers=3, settings=NOTICED), logs=logs) as cluster:
        cluster.create_topics(
            {"orders": TopicSpec(partitions=3, settings={"min.insync.replicas": 2})}
        )
        yield cluster


class TestUnlikeTheDefault:
    def test_replicas_are_where_they_were_assigned(self, unlike: KafkaCluster) -> None:
        placed = {place: view.replicas for place, view in unlike.partitions().items()}
        assert placed["orders", 0] == (3, 1, 2)
        assert placed["orders", 1] == (2, 3, 1)
        assert unlike.leader("orders", 0) == 3

    def test_the_metadata_log_tells_racks_and_features(
        self, unlike: KafkaCluster, tmp_path: Path
    ) -> None:
        observer.take_metadata_log(unlike, tmp_path)
        log = (tmp_path / "metadata.log").read_text()
        registered = {
            number: line
            for line in log.splitlines()
            for number in unlike.broker_ids()
            if "REGISTER_BROKER_RECORD" in line and f'"brokerId":{number},' in line
        }
        racks = {number: line.partition('"rack":"')[2][:1] for number, line in registered.items()}
        assert racks == {1: "a", 2: "z", 3: "a"}
        assert '"eligible.leader.replicas.version","featureLevel":1' not in log
        assert '"transaction.version","featureLevel":2' in log

    def test_limits_hold_for_the_container(self, unlike: KafkaCluster) -> None:
        hosts = {n: unlike.nodes[n].container.attrs["HostConfig"] for n in unlike.broker_ids()}
        assert {n: host["Memory"] >> 20 for n, host in hosts.items()} == {1: 1024, 2: 600, 3: 1024}
        assert {n: host["NanoCpus"] for n, host in hosts.items()} == {1: 0, 2: 800_000_000, 3: 0}

    def test_partitions_spread_over_the_log_directories(self, unlike: KafkaCluster) -> None:
        held = (
            unlike.nodes[2].container.exec_run(["ls", "/var/lib/ackproof/data-2"]).output.decode()
        )
        assert "orders-" in held
        assert "meta.properties" in held

    def test_one_listener_can_be_cut_and_the_other_not(self, unlike: KafkaCluster) -> None:
        assert acked(unlike, "orders", listener="SLOW")
        rules = (
            "table inet cut { chain in { type filter hook input priority 0; "
            f"tcp dport {unlike.port('SLOW')} drop; }}; }}"
        )
        for broker in unlike.broker_ids():
            done = unlike.run_beside(broker, f"nft -f - <<< '{rules}'")
            assert done.exit_status == 0, done.output
        assert not acked(unlike, "orders", listener="SLOW", within_s=3)
        assert acked(unlike, "orders")
        for broker in unlike.broker_ids():
            unlike.run_beside(broker, "nft delete table inet cut")
        assert acked(unlike, "orders", listener="SLOW")

    def test_combined_controllers_are_a_quorum(self, unlike: KafkaCluster) -> None:
        until(lambda: sorted(quorum.members(unlike)) == [1, 2, 3])


class TestLifecycle:
    def test_a_broker_that_is_killed_paused_or_stopped_is_missed_and_comes_back(
        self, operated: KafkaCluster
    ) -> None:
        for act, undo in (
            (lifecycle.kill, lifecycle.start),
            (lifecycle.pause, lifecycle.resume),
            (lifecycle.stop, lifecycle.start),
        ):
            act(operated, 1)
            until(lambda: operated.listed_by(2) == {2, 3})
            until(lambda: all(1 not in view.isr for view in operated.partitions().values()))
            undo(operated, 1)
            # The answering broker may learn of it later than broker 1.
            until(lambda: operated.listed_by(2) == {1, 2, 3})
            until(lambda: all(view.full_isr for view in operated.partitions().values()))

    def test_a_wait_that_gives_up_says_what_it_saw_last(self, operated: KafkaCluster) -> None:
        until(lambda: operated.listed_by(1) == {1, 2, 3})
        with pytest.raises(ClusterError, match=r"broker 1 lists \[1, 2, 3\]"):
            readiness.await_fenced(operated, 2, within_s=0.3)
        with pytest.raises(ClusterError, match=r"still in an ISR .*orders-0 \(leader"):
            readiness.await_out_of_isr(operated, 2, within_s=0.3)

    def test_a_disk_is_emptied_only_under_a_stopped_broker(self, operated: KafkaCluster) -> None:
        with pytest.raises(FaultError, match="runs"):
            operated.wipe(1)

    def test_a_broker_with_an_empty_disk_copies_everything_back(
        self, operated: KafkaCluster
    ) -> None:
        assert acked(operated, "orders")
        places = [("orders", n) for n in range(3)]
        before = operated.admin.end_offsets(places)
        read = ["cat", "/var/lib/ackproof/data/meta.properties"]
        identity = operated.nodes[2].container.exec_run(read).output
        lifecycle.replace_disk(operated, 2)
        assert operated.nodes[2].container.exec_run(read).output != identity
        after = operated.admin.end_offsets(places)
        assert {place: end - 1 for place, end in after.items()} == before

    def test_a_broker_is_added_and_another_removed(
        self, operated: KafkaCluster, logs: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(ClusterError, match="only 2 would be left"):
            lifecycle.remove_broker(operated, 1)
        assert lifecycle.add_broker(operated) == 4
        lifecycle.remove_broker(operated, 1)
        until(lambda: operated.listed_by(4) == {2, 3, 4})
        until(lambda: all(1 not in view.replicas for view in operated.partitions().values()))
        assert acked(operated, "orders")
        assert "broker-1" in (logs / "broker-1.log").read_text()
        timeline = observer.take_metadata_log(operated, tmp_path)
        assert [b.state for b in timeline.brokers if b.broker == 1][-1] == "unregistered"

    def test_a_controller_that_is_killed_is_replaced_and_follows_again(
        self, operated: KafkaCluster
    ) -> None:
        leading = until(lambda: quorum.leader(operated))
        assert leading is not None
        controllers.kill(operated, leading)
        until(lambda: quorum.leader(operated) not in (None, leading))
        controllers.start(operated, leading)
        until(lambda: sorted(quorum.members(operated)) == [100, 101, 102])

    def test_a_controller_is_added_and_another_removed(self, operated: KafkaCluster) -> None:
        assert controllers.add(operated) == 103
        until(lambda: sorted(quorum.members(operated)) == [100, 101, 102, 103])
        controllers.remove(operated, 100)
        until(lambda: sorted(quorum.members(operated)) == [101, 102, 103])
        lifecycle.kill(operated, 4)
        lifecycle.start(operated, 4)
        assert acked(operated, "orders")
