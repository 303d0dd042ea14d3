"""Whether a broker of a running cluster may be restarted now, for each of its partitions.

The cluster is asked for its metadata and settings (Describe rights). It does not tell the ends of
logs, so the members of the ISR are taken to have all committed records, and the others none; the
leader may have more, which a producer with acks=1 has seen acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ackproof.advise.live import LiveCluster
from ackproof.cluster.admin import PartitionView
from ackproof.errors import ClusterError, ScenarioError
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.advice import (
    Ability,
    Outcome,
    Replica,
    ReplicaLog,
    Situation,
    Start,
    Stop,
    outcome,
)
from ackproof_model.configuration import Acks

_COMMITTED = ReplicaLog(end=1, epochs=((0, 0),), high_watermark=1)
_BEHIND = ReplicaLog(end=0, epochs=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """A clean restart of the broker, for one partition and producers with these acks.

    down: the outcome while the broker is down. whole: once it runs again. rule: what the common
    rule says, that the ISR without the broker has at least min.insync.replicas members.
    """

    acks: Acks
    isr: tuple[int, ...]
    min_insync_replicas: int
    down: Outcome
    whole: Outcome
    rule: bool

    @property
    def may_lose(self) -> bool:
        """Whether a record may be lost; also if not every order of events was searched."""
        return not (self.down.keeps and self.whole.keeps)

    @property
    def loss(self) -> str:
        """The records that may be lost, in words."""
        if not (self.down.complete and self.whole.complete):
            return "is not decided: too many orders of events"
        if self.down.may_lose or self.whole.may_lose:
            return "may lose records that were acknowledged before"
        return "may lose records that the leader acknowledges and no follower has fetched"

    @property
    def stops_writes(self) -> bool:
        return self.down.writes is not Ability.YES


def restart(
    cluster: LiveCluster, broker: int, *, kafka: str, acks: Sequence[Acks]
) -> list[tuple[TopicPartition, Restarted]]:
    """Return the outcome for each of these acks and each partition of the broker.

    Raises ScenarioError if the broker does not run, ClusterError if its settings are not known.
    """
    if broker not in cluster.brokers:
        raise ScenarioError(
            f"broker {broker} does not run; {sorted(cluster.brokers)} do",
            hint="`ackproof advise start` says which brokers to start.",
        )
    views = {place: one for place, one in cluster.partitions.items() if broker in one.replicas}
    if refused := sorted({topic for topic, _ in views} & cluster.refused.keys()):
        raise ClusterError(
            f"the settings of topic {refused[0]} cannot be described: "
            f"{cluster.refused[refused[0]]}",
            hint="The client needs DescribeConfigs on the topics of this broker.",
        )
    return [
        (place, _restarted(view, cluster, place[0], broker, kafka=kafka, acks=each))
        for each in acks
        for place, view in sorted(views.items())
    ]


def _restarted(
    view: PartitionView,
    cluster: LiveCluster,
    topic: str,
    broker: int,
    *,
    kafka: str,
    acks: Acks,
) -> Restarted:
    least = cluster.minimum(topic)
    try:
        situation = Situation(
            kafka_version=kafka,
            acks=acks,
            min_insync_replicas=least,
            unclean_election=cluster.unclean_election(topic),
            replicas=tuple(
                Replica(
                    broker=one,
                    log=_COMMITTED if one in view.isr else _BEHIND,
                    running=one in cluster.brokers,
                    fenced=one not in cluster.brokers,
                )
                for one in view.replicas
            ),
            leader=view.leader,
            leader_epoch=1,
            isr=frozenset(view.isr),
        )
    except ValueError as error:
        raise ClusterError(f"the metadata contradicts itself: {error}") from error
    return Restarted(
        acks=acks,
        isr=tuple(sorted(view.isr)),
        min_insync_replicas=least,
        down=outcome(situation, [Stop(broker)], writes=1),
        whole=outcome(situation, [Stop(broker), Start((broker,))], writes=1),
        rule=len(set(view.isr) - {broker}) >= least,
    )
