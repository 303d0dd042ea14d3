"""What the cluster itself recorded of a run, taken into its directory."""

from __future__ import annotations

from collections.abc import Sequence

from ackproof.cluster.attached import AnyCluster, AttachedCluster
from ackproof.cluster.cluster import KafkaCluster
from ackproof.errors import ClusterError
from ackproof.execution.run_state import Recording, now
from ackproof.observation import broker_log, observer
from ackproof.observation.replica_logs import take_replica_logs


def take_node_logs(cluster: KafkaCluster, recording: Recording) -> None:
    """Keep the nodes' logs; that they cannot be had must not cost the run."""
    from docker.errors import DockerException
    from requests import RequestException

    try:
        observer.take_node_logs(cluster, recording.run_dir)
    except (ClusterError, DockerException, RequestException) as error:
        recording.troubles.append(f"the nodes' logs are missing: {error}")
    brokers = {broker.node_id: broker.name for broker in cluster.topology.brokers}
    topics = list(recording.configured.scenario.sends)
    events = broker_log.read_logs(recording.run_dir / "logs", brokers, topics=topics)
    recording.write("broker_events", events)


def take_states(topics: Sequence[str], cluster: AnyCluster, recording: Recording) -> None:
    """Take what controller and replicas recorded; without it the run can be judged all the same."""
    if isinstance(cluster, AttachedCluster):
        polled = recording.poll.states if recording.poll else []
        recording.write("partition_states", [s for s in polled if s.topic in topics])
        return
    recording.clocks = observer.take_clocks(cluster, now)
    try:
        log = observer.take_metadata_log(cluster, recording.run_dir)
    except (ClusterError, ValueError, KeyError) as error:
        recording.troubles.append(f"the controller's log is missing: {error}")
        return
    if cluster.since is not None:
        log = log.since(cluster.since)
    recording.write("partition_states", [s for s in log.partitions if s.topic in topics])
    recording.write("broker_states", log.brokers)
    replicas = {(s.topic, s.partition): s.replicas for s in log.partitions if s.topic in topics}
    brokers = {broker: cluster.nodes[broker] for broker in cluster.broker_ids()}
    recording.write("replica_logs", take_replica_logs(brokers, replicas, recording.run_dir))
