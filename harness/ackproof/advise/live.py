"""What a running cluster reports of its partitions: metadata and settings (Describe rights)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ackproof.advise.dead_cluster import MIN_ISR, UNCLEAN
from ackproof.cluster.admin import Admin, PartitionView
from ackproof.cluster.preflight import Preflight
from ackproof_faults.interfaces.cluster import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCluster:
    """The metadata of a running cluster.

    brokers: the running ones. settings: by topic, as far as they may be described. refused: topics
    whose settings may not be described, with Kafka's reason.
    """

    brokers: frozenset[int]
    partitions: Mapping[TopicPartition, PartitionView]
    settings: Mapping[str, Mapping[str, str]]
    refused: Mapping[str, str]

    @property
    def down(self) -> frozenset[int]:
        """The brokers that have a replica and do not run."""
        named = {broker for view in self.partitions.values() for broker in view.replicas}
        return frozenset(named - self.brokers)

    def minimum(self, topic: str) -> int:
        return int(self.settings.get(topic, {}).get(MIN_ISR, "1"))

    def unclean_election(self, topic: str) -> bool:
        return self.settings.get(topic, {}).get(UNCLEAN, "false") == "true"


def ask(bootstrap: str, client: Mapping[str, str]) -> LiveCluster:
    """Return what the cluster reports. Raises ClusterError if no broker answers or refuses it."""
    admin, preflight = Admin(bootstrap, settings=client), Preflight(bootstrap, client)
    preflight.topics()  # raises the reason if the cluster refuses the client
    partitions = admin.partitions()
    described, refused = preflight.topic_settings(sorted({topic for topic, _ in partitions}))
    relevant = {
        topic: {key: value for key, value in settings.items() if key in (MIN_ISR, UNCLEAN)}
        for topic, settings in described.items()
    }
    return LiveCluster(
        brokers=admin.brokers(), partitions=partitions, settings=relevant, refused=refused
    )
