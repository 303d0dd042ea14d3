"""The model explains what real controllers wrote, through every way to lose and regain brokers.

`ci/lab/conformance` runs this on further versions, and prints which kinds of steps each has taken.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from docker import DockerClient

import node_actions
from ackproof.cluster import lifecycle
from ackproof.cluster.booted import KafkaCluster
from ackproof.containers.kafka_tools import TOOLS
from ackproof.judgement import trace_validation
from ackproof.kafka_versions import numbers
from ackproof.observation import controllers_log, metadata_log
from ackproof.scenario.cluster import BrokerSpec, ClusterSpec
from ackproof.scenario.topics import TopicSpec
from ackproof_faults import inject
from ackproof_faults.network.isolate_replication import IsolateReplication
from conformance.kafka_classes import VERSIONS
from integration.command import clock
from kafka_clusters import boot
from waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SETTINGS = {
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 3000,
}
TOPICS = {
    "orders": TopicSpec(partitions=3, settings={"min.insync.replicas": 2}),
    "risky": TopicSpec(partitions=3, settings={"unclean.leader.election.enable": True}),
    "moved": TopicSpec(assignment=[[1, 2]]),
}
_ELECTION = TOOLS["kafka-leader-election"]

#: Transitions that this history causes in every version, with and without ELR.
ALWAYS = {
    "partition created",
    "broker fenced: leader from the ISR",
    "broker fenced: no leader",
    "broker fenced: same leader",
    "broker unfenced: leader from outside",
    "controlled shutdown: leader from the ISR",
    "controlled shutdown: no leader",
    "leader expands the ISR: same leader",
    "leader shrinks the ISR: same leader",
    "preferred election: leader from the ISR",
    "reassignment: same leader",
}
WITHOUT_ELR = {"broker unfenced: leader from the ISR"}
WITH_ELR = {
    "registered after an unclean stop: same leader",
    "broker unfenced: last known leader",
    "broker unfenced: leader from the ELR",
}


def await_log(
    cluster: KafkaCluster, what: str, reached: Callable[[metadata_log.MetadataLog], bool]
) -> None:
    """Wait for a new entry in the metadata log; brokers may be down."""
    [controller] = [cluster.nodes[node.node_id] for node in cluster.topology.controllers]
    until(
        lambda: metadata_log.parse(controllers_log.dump(controller)),
        f"the controller never wrote that {what}",
        good=reached,
    )


def await_state(cluster: KafkaCluster, broker: int, state: str) -> None:
    def reached(log: metadata_log.MetadataLog) -> bool:
        return [one.state for one in log.brokers if one.broker == broker][-1] == state

    await_log(cluster, f"broker {broker} is {state}", reached)


def start_all(cluster: KafkaCluster) -> None:
    """Start them all; the first is back before the others."""
    cluster.interfaces.processes.start(1)
    await_state(cluster, 1, "unfenced")
    for broker in (2, 3):
        cluster.interfaces.processes.start(broker)
    await_full(cluster)


def send(cluster: KafkaCluster) -> None:
    """Send a record to every partition without waiting for acks."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": 1, "log_level": 0})
    for topic, spec in TOPICS.items():
        for partition in range(spec.partitions):
            producer.produce(topic, b"x", partition=partition)
    producer.flush(60)


def await_full(cluster: KafkaCluster) -> None:
    cluster.await_full_isr(
        [(topic, n) for topic, one in TOPICS.items() for n in range(one.partitions)]
    )


def lead_a_life(cluster: KafkaCluster) -> None:
    """Cause every kind of event that a controller handles."""
    cluster.create_topics(TOPICS)
    await_full(cluster)
    with inject(
        IsolateReplication(target="leader of orders-0"), cluster.interfaces, clock=clock
    ) as guard:
        send(cluster)
        await_log(
            cluster,
            "the leader is alone",
            lambda log: any(one.isr == guard.window.nodes for one in log.partitions),
        )
    await_full(cluster)
    lifecycle.stop(cluster, 2)
    node_actions.start(cluster, 2)
    lifecycle.reassign(cluster, {("moved", 0): [2, 3]})
    # All brokers are killed, one after the other; the first one killed returns first.
    for broker in (1, 2, 3):
        cluster.interfaces.processes.kill(broker)
        await_state(cluster, broker, "fenced")
    start_all(cluster)
    # The same with clean shutdowns; for a while only the first broker runs.
    for broker in (1, 2, 3):
        cluster.interfaces.processes.terminate(broker)
        await_state(cluster, broker, "fenced")
    start_all(cluster)
    options = ("--election-type", "preferred", "--all-topic-partitions")
    cluster.run_kafka_tool(_ELECTION, *options, at=cluster.nodes[1])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_model_explains_every_change_of_a_long_history(
    engine: DockerClient, version: str, tmp_path: Path, record_property: Callable[..., None]
) -> None:
    spec = ClusterSpec(settings=SETTINGS, overrides={2: BrokerSpec(log_dirs=2)})
    with boot(engine, spec, kafka=version) as cluster:
        try:
            lead_a_life(cluster)
        finally:
            cluster.take_metadata_log(tmp_path)
            if keep := os.environ.get("ACKPROOF_KEEP_TRACES"):
                dump = (tmp_path / "metadata.log").read_text(encoding="utf-8")
                (Path(keep) / f"{version}.txt").write_text(dump, encoding="utf-8")
    found = trace_validation.explain(
        (tmp_path / "metadata.log").read_text(encoding="utf-8"), version
    )
    assert found.mismatch is None, str(found.mismatch)
    assert found.explained == found.total > 20
    for step, count in found.coverage.items():
        record_property(f"{version} {step}", count)
    print(f"\n{version}", *(f"{n:5} {step}" for step, n in found.coverage.items()), sep="\n")  # noqa: T201
    seen = {step.partition(", ELR")[0] for step in found.coverage}
    elr = numbers(version) >= (4, 1)
    assert seen >= ALWAYS | (WITH_ELR if elr else WITHOUT_ELR)
