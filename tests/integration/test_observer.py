"""The observed timeline equals the output of Kafka's and ZooKeeper's tools, entry by entry."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

import node_actions
from ackproof.cluster import lifecycle
from ackproof.cluster.booted import KafkaCluster
from ackproof.cluster.node import KafkaNode
from ackproof.containers import commands, kafka_tools
from ackproof.containers.kafka_tools import TOOLS
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.observation import controllers_log, metadata_log, zookeeper_log
from ackproof.observation.metadata_log import PartitionState
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.topics import TopicSpec
from kafka_clusters import boot

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ORDERS = {"orders": TopicSpec(partitions=2, settings={"min.insync.replicas": 2})}


def faulted(engine: DockerClient, kafka: str, settings: dict[str, Any]) -> Iterator[KafkaCluster]:
    """Boot a cluster, kill the leader of orders-0 and stop another broker."""
    with boot(engine, ClusterSpec(settings=settings), kafka=kafka) as cluster:
        cluster.create_topics(ORDERS)
        leader = cluster.interfaces.metadata.leader("orders", 0)
        assert leader is not None
        node_actions.kill(cluster, leader)
        node_actions.start(cluster, leader)
        heir = cluster.interfaces.metadata.leader("orders", 0)
        assert heir is not None
        assert heir != leader
        lifecycle.stop(cluster, heir)
        node_actions.start(cluster, heir)
        yield cluster


@pytest.fixture(scope="module")
def kraft(engine: DockerClient) -> Iterator[KafkaCluster]:
    yield from faulted(
        engine,
        DEFAULT_KAFKA,
        {
            "broker.heartbeat.interval.ms": 500,
            "metadata.log.max.record.bytes.between.snapshots": 1,
        },
    )


@pytest.fixture(scope="module", params=["0.10.2.2", "2.6.2"])
def zookeeper(engine: DockerClient, request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    yield from faulted(engine, request.param, {"zookeeper.session.timeout.ms": 9000})


def controller(cluster: KafkaCluster) -> KafkaNode:
    return cluster.nodes[cluster.topology.controllers[0].node_id]


LOG = "/var/lib/ackproof/data/__cluster_metadata-0"
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) .*?CreateTime: (?P<time>\d+) .*payload: (?P<json>.*)"
)


def entries(node: KafkaNode) -> Iterator[tuple[int, int, str, dict[str, Any]]]:
    """Yield (offset, milliseconds, kind, fields) as the tool prints them with each record."""
    script = kafka_tools.kafka_command(
        TOOLS["kafka-dump-log"],
        f"--cluster-metadata-decoder --files {LOG}/00000000000000000000.log",
    )
    for line in commands.run_script(node, script, "dump").splitlines():
        if found := RECORD.match(line):
            record = json.loads(found["json"])
            yield int(found["offset"]), int(found["time"]), record["type"], record["data"]


def test_every_entry_of_the_metadata_log_is_in_the_timeline(
    kraft: KafkaCluster, tmp_path: Path
) -> None:
    timeline = kraft.take_metadata_log(tmp_path)
    assert (tmp_path / "metadata.log").stat().st_size > 0
    told = [entry for entry in entries(controller(kraft)) if entry[2].startswith("PARTITION")]
    by_offset = {state.metadata_offset: state for state in timeline.partitions}
    before: dict[tuple[str, int], PartitionState] = {}
    assert len(told) > 8
    for offset, milliseconds, kind, data in told:
        state = by_offset.pop(offset)
        assert round(state.at.timestamp() * 1000) == milliseconds
        assert state.partition == data["partitionId"]
        for field, value in (
            ("leader", state.leader),
            ("isr", list(state.isr)),
            ("eligibleLeaderReplicas", list(state.elr)),
            ("lastKnownElr", list(state.last_known_elr)),
        ):
            if data.get(field) is not None:
                assert value == data[field], (offset, field)
        place = state.topic, state.partition
        if kind == "PARTITION_RECORD":
            assert (state.leader_epoch, state.partition_epoch) == (
                data["leaderEpoch"],
                data["partitionEpoch"],
            )
        else:
            raised = state.leader_epoch - before[place].leader_epoch
            assert (raised, state.partition_epoch - before[place].partition_epoch) == (
                int("leader" in data),
                1,
            )
        before[place] = state
    assert by_offset == {}, "the timeline has states that the log does not have"
    now = kraft.partitions()
    assert {place: (state.leader, set(state.isr)) for place, state in before.items()} == {
        place: (view.leader, set(view.isr)) for place, view in now.items()
    }


def test_killed_and_stopped_brokers_are_observed(kraft: KafkaCluster, tmp_path: Path) -> None:
    timeline = kraft.take_metadata_log(tmp_path)
    # A fenced broker may be fenced again when its shutdown is recorded.
    states = {
        broker: [
            state
            for state, _ in groupby(one.state for one in timeline.brokers if one.broker == broker)
        ]
        for broker in kraft.broker_ids()
    }
    came = ["registered", "unfenced"]
    killed, stopped = [*came, "fenced", *came], [*came, "controlled-shutdown", "fenced", *came]
    assert sorted(states.values()) == sorted([came, killed, stopped])


def test_a_snapshot_with_the_rest_of_the_log_gives_the_timeline_of_the_whole_log(
    kraft: KafkaCluster, tmp_path: Path
) -> None:
    whole = kraft.take_metadata_log(tmp_path)
    node = controller(kraft)
    snapshots = commands.run_script(node, f"cd {LOG} && ls *-*.checkpoint", "ls").split()
    created = max(s.metadata_offset for s in whole.partitions if s.partition_epoch == 0)
    ends = [int(name.partition("-")[0]) for name in snapshots]
    end = next((end for end in ends if end > created + 1), None)
    assert end is not None, (created, snapshots)
    # The log after Kafka has deleted the part that is in the snapshot.
    commands.run_script(
        node,
        f"rm -rf /tmp/cut; mkdir /tmp/cut; cd {LOG}; cp *-*.checkpoint /tmp/cut; "
        f"cp 00000000000000000000.log /tmp/cut/{end:020}.log",
        "cut",
    )
    cut = metadata_log.parse(controllers_log.dump(node, "/tmp/cut"))
    assert [s for s in cut.partitions if s.metadata_offset >= end] == [
        s for s in whole.partitions if s.metadata_offset >= end
    ]
    held = {(s.topic, s.partition): s for s in whole.partitions if s.metadata_offset < end}
    from_snapshot = [s for s in cut.partitions if s.metadata_offset < end]
    assert len(from_snapshot) == len(held) >= 2
    for state in from_snapshot:
        same = held[state.topic, state.partition]
        for field in ("leader", "leader_epoch", "partition_epoch", "replicas", "isr", "elr"):
            assert getattr(state, field) == getattr(same, field)


WRITTEN = re.compile(
    r"zxid (?P<zxid>0x\w+) (?P<kind>create|setData) '(?P<path>/[^,]*),#(?P<data>\w+),"
)


def test_every_write_of_the_transaction_log_is_in_the_timeline(
    zookeeper: KafkaCluster, tmp_path: Path
) -> None:
    timeline = zookeeper.take_metadata_log(tmp_path)
    node = controller(zookeeper)
    script = "cd /var/lib/ackproof/data/version-2 && for log in log.*; do " + (
        kafka_tools.kafka_command(("org.apache.zookeeper.server.LogFormatter",), "$log") + "; done"
    )
    told = [
        (int(found["zxid"], 16), found["path"], bytes.fromhex(found["data"]))
        for found in WRITTEN.finditer(commands.run_script(node, script, "LogFormatter"))
    ]
    stored = list((tmp_path / "zookeeper" / node.spec.name).glob("log.*"))
    assert stored
    ours = [
        (write.zxid, write.path, write.data)
        for path in stored
        for write in zookeeper_log.writes(path.read_bytes())
        if write.data is not None
    ]
    assert len(told) > 10
    assert set(told) <= set(ours)
    states = [one for one in told if one[1].endswith("/state")]
    by_zxid = {state.metadata_offset: state for state in timeline.partitions}
    assert states
    for zxid, _, data in states:
        wanted = json.loads(data)
        assert (by_zxid[zxid].leader, list(by_zxid[zxid].isr), by_zxid[zxid].leader_epoch) == (
            wanted["leader"],
            wanted["isr"],
            wanted["leader_epoch"],
        )


def test_the_timeline_ends_with_the_contents_of_the_znodes(
    zookeeper: KafkaCluster, tmp_path: Path
) -> None:
    timeline = zookeeper.take_metadata_log(tmp_path)
    last = {(state.topic, state.partition): state for state in timeline.partitions}
    now = zookeeper.partitions()
    assert last.keys() == now.keys()
    for place, view in now.items():
        assert (last[place].leader, last[place].isr, last[place].replicas) == (
            view.leader,
            view.isr,
            view.replicas,
        )
    story = [
        state for state in timeline.partitions if (state.topic, state.partition) == ("orders", 0)
    ]
    assert {len(state.isr) for state in story} == {2, 3}
    assert len({state.leader for state in story}) >= 2
    assert [state.partition_epoch for state in story] == list(range(len(story)))


def test_a_broker_is_gone_when_its_session_ends(zookeeper: KafkaCluster, tmp_path: Path) -> None:
    timeline = zookeeper.take_metadata_log(tmp_path)
    came = ["registered", "unfenced"]
    states = [
        [one.state for one in timeline.brokers if one.broker == broker]
        for broker in zookeeper.broker_ids()
    ]
    assert sorted(states) == sorted([came, [*came, "fenced", *came], [*came, "fenced", *came]])
