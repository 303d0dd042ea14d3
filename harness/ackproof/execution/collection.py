"""Collects the logs of the cluster into the run directory."""

from __future__ import annotations

from collections.abc import Sequence

from ackproof.cluster.attached import AnyCluster, AttachedCluster
from ackproof.cluster.cluster import KafkaCluster
from ackproof.errors import ClusterError
from ackproof.execution.run_state import RunState, now
from ackproof.observation import broker_log, observer
from ackproof.observation.replica_logs import take_replica_logs
from ackproof.waiting import wait_for

_ANSWER_S = 60.0


def take_node_logs(cluster: KafkaCluster, run: RunState) -> None:
    """Store every node's log and the brokers' events. Failures become troubles of the run."""
    from docker.errors import DockerException
    from requests import RequestException

    try:
        observer.take_node_logs(cluster, run.run_dir)
    except (ClusterError, DockerException, RequestException) as error:
        run.troubles.append(f"the nodes' logs could not be read: {error}")
    brokers = {broker.node_id: broker.name for broker in cluster.topology.brokers}
    topics = list(run.configured.scenario.sends)
    events = broker_log.read_logs(run.run_dir / "logs", brokers, topics=topics)
    run.write("broker_events", events)


def take_replicas(topics: Sequence[str], cluster: AnyCluster, run: RunState) -> None:
    """Store the batch headers of every replica. Nobody may write to the topics meanwhile.

    Raises ClusterError if the brokers do not say who holds the replicas.
    """
    if isinstance(cluster, AttachedCluster):
        return
    views = wait_for(
        cluster.partitions,
        bool,
        within_s=_ANSWER_S,
        failure=lambda _: ClusterError(f"no broker has answered for {_ANSWER_S:g} s"),
    )
    replicas = {place: view.replicas for place, view in views.items() if place[0] in topics}
    brokers = {broker: cluster.nodes[broker] for broker in cluster.broker_ids()}
    run.write("replica_logs", take_replica_logs(brokers, replicas, run.run_dir))


def take_states(topics: Sequence[str], cluster: AnyCluster, run: RunState) -> None:
    """Store partition and broker states and clocks.

    A run without them can be judged, so that failures become troubles of the run.
    """
    if isinstance(cluster, AttachedCluster):
        polled = run.leader_poll.states if run.leader_poll else []
        run.write("partition_states", [state for state in polled if state.topic in topics])
        return
    run.clocks = observer.take_clocks(cluster, now)
    try:
        log = observer.take_metadata_log(cluster, run.run_dir)
    except (ClusterError, ValueError, KeyError) as error:
        run.troubles.append(f"the controllers' metadata log could not be read: {error}")
        return
    if cluster.since is not None:
        log = log.since(cluster.since)
    run.write("partition_states", [state for state in log.partitions if state.topic in topics])
    run.write("broker_states", log.brokers)
