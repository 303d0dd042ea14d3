from __future__ import annotations

from uuid import uuid4

import pytest
from docker import DockerClient

from ackproof.cluster.booted import KafkaCluster, booted
from ackproof.cluster.node_files import USER
from ackproof.containers import commands
from ackproof.containers.engine import LABEL_RUN
from ackproof.errors import ClusterError
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.topics import TopicSpec
from integration.reading import records
from integration.sending import send
from kafka_clusters import boot
from waiting import until

pytestmark = pytest.mark.cluster


def test_a_booted_cluster_has_every_broker_and_full_isr(cluster: KafkaCluster) -> None:
    until(lambda: cluster.admin.brokers() == {1, 2, 3})
    wanted = {("orders", 0), ("orders", 1), ("orders", 2)}
    # Whichever broker answers; internal topics, too, which earlier modules may have used.
    until(
        cluster.admin.partitions,
        good=lambda found: wanted <= set(found) and all(one.full_isr for one in found.values()),
    )


def test_ports_are_bound_to_loopback_only(cluster: KafkaCluster) -> None:
    for broker in cluster.broker_ids():
        container = cluster.nodes[broker].container
        container.reload()
        bindings = container.attrs["NetworkSettings"]["Ports"]["9094/tcp"]
        assert {binding["HostIp"] for binding in bindings} == {"127.0.0.1"}


def test_no_container_is_privileged(cluster: KafkaCluster) -> None:
    for node in cluster.nodes.values():
        assert not node.container.attrs["HostConfig"]["Privileged"]
        assert not node.container.attrs["HostConfig"]["CapAdd"]


def test_a_node_runs_as_a_user_without_rights(cluster: KafkaCluster) -> None:
    for node in cluster.nodes.values():
        status = commands.run(node.container, ["cat", "/proc/1/status"]).stdout.decode()
        said = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert set(said["Uid"].split()) == set(said["Gid"].split()) == {str(USER)}
        assert said["Groups"].strip() == ""
        assert {int(said[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")} == {0}
        assert said["NoNewPrivs"] == "1"


def test_a_restarted_broker_has_the_same_identity_data_and_address(
    cluster: KafkaCluster,
) -> None:
    assert send(cluster, "orders", partition=0) == (0, 0)
    leader = cluster.interfaces.metadata.leader("orders", 0)
    assert leader is not None
    node = cluster.nodes[leader]
    read_id = ["cat", "/var/lib/ackproof/data/meta.properties"]
    before = (
        commands.run(node.container, read_id).stdout,
        cluster.interfaces.network.address(leader),
    )
    cluster.interfaces.processes.kill(leader)
    assert cluster.interfaces.processes.exit_status(leader) == 137
    assert not cluster.interfaces.metadata.answers(leader)
    cluster.interfaces.processes.start(leader)
    # The request goes to the same pinned port.
    until(lambda: cluster.interfaces.metadata.in_sync(leader), "the broker is not in sync")
    node.container.reload()
    (network,) = node.container.attrs["NetworkSettings"]["Networks"].values()
    assert (commands.run(node.container, read_id).stdout, network["IPAddress"]) == before
    assert len(records(cluster, "orders")) == 1


@pytest.mark.slow
def test_two_clusters_run_at_the_same_time(cluster: KafkaCluster, engine: DockerClient) -> None:
    with boot(engine, ClusterSpec(brokers=1)) as second:
        second.create_topics({"orders": TopicSpec(replication_factor=1)})
        until(lambda: second.admin.brokers() == {1})
        until(lambda: cluster.admin.brokers() == {1, 2, 3})
        ports = {broker.external_port for broker in cluster.topology.brokers}
        assert second.topology.brokers[0].external_port not in ports


def leftovers(engine: DockerClient, run_id: str) -> list[object]:
    wanted: dict[str, str | list[str] | bool] = {"label": f"{LABEL_RUN}={run_id}"}
    return [
        *engine.containers.list(all=True, filters=wanted, ignore_removed=True),
        *engine.networks.list(filters=wanted),
        *engine.volumes.list(filters=wanted),
    ]


def test_a_broker_that_ends_at_boot_shows_its_log_and_leaves_no_object(
    engine: DockerClient, image: str
) -> None:
    run_id = f"test-{uuid4().hex[:8]}"
    spec = ClusterSpec(brokers=1, settings={"log.segment.bytes": "not-a-number"})
    doomed = booted(spec, client=engine, image=image, run_id=run_id)
    with pytest.raises(ClusterError, match=r"(?s)ended with exit status.*not-a-number"), doomed:
        pass
    assert leftovers(engine, run_id) == []


def test_a_topic_that_kafka_refuses_raises_its_reason(cluster: KafkaCluster) -> None:
    with pytest.raises(ClusterError, match=r"no\.such\.setting"):
        cluster.create_topics({"bad": TopicSpec(settings={"no.such.setting": 1})})
