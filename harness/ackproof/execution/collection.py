"""Collects the logs of the cluster into the run directory."""

from __future__ import annotations

from collections.abc import Sequence

from ackproof.cluster.booted import KafkaCluster
from ackproof.cluster.running import RunCluster
from ackproof.errors import ClusterError
from ackproof.execution.run_state import RunState, now
from ackproof.observation import broker_log


def take_node_logs(cluster: KafkaCluster, run: RunState) -> None:
    """Store every node's log and the brokers' events. Failures become troubles of the run."""
    from docker.errors import DockerException
    from requests import RequestException

    try:
        cluster.take_node_logs(run.run_dir / "logs")
    except (ClusterError, DockerException, RequestException) as error:
        run.troubles.append(f"the nodes' logs could not be read: {error}")
    brokers = {broker.node_id: broker.name for broker in cluster.topology.brokers}
    topics = list(run.configured.scenario.sends)
    events = broker_log.read_logs(run.run_dir / "logs", brokers, topics=topics)
    run.write("broker_events", events)


def take_replicas(topics: Sequence[str], cluster: RunCluster, run: RunState) -> None:
    """Store the batch headers of every replica. Nobody may write to the topics meanwhile.

    Raises ClusterError if the brokers do not report who holds the replicas.
    """
    logs = cluster.take_replica_logs(topics, run.run_dir)
    if logs is not None:
        run.write("replica_logs", logs)


def take_states(topics: Sequence[str], cluster: RunCluster, run: RunState) -> None:
    """Store partition and broker states and clocks.

    A run without them can be judged, so that failures become troubles of the run.
    """
    run.clocks = cluster.clocks(now)
    try:
        log = cluster.take_metadata_log(run.run_dir)
    except (ClusterError, ValueError, KeyError) as error:
        run.troubles.append(f"the controllers' metadata log could not be read: {error}")
        return
    run.write("partition_states", [state for state in log.partitions if state.topic in topics])
    if log.brokers:
        run.write("broker_states", log.brokers)
