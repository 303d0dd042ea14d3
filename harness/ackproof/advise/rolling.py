"""Whether a broker of a running cluster may be restarted now, for each of its partitions.

The leader may have more than the committed records, which a producer with acks=1 has seen
acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ackproof.advise.live import LiveCluster, possible
from ackproof.errors import ClusterError, ScenarioError
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.advice import (
    Ability,
    Outcome,
    Start,
    Stop,
    merged,
    outcome,
)
from ackproof_model.configuration import Acks


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """A clean restart of the broker, for one partition and producers with these acks.

    down: the outcome while the broker is down. whole: once it runs again. rule: what the common
    rule says, that the ISR without the broker has at least min.insync.replicas members. problem:
    why the partition cannot be judged, if it cannot.
    """

    acks: Acks
    isr: tuple[int, ...]
    min_insync_replicas: int
    down: Outcome
    whole: Outcome
    rule: bool
    problem: str = ""

    @property
    def may_lose(self) -> bool:
        """Whether a record may be lost; also if not every order of events was searched."""
        return not (self.down.keeps and self.whole.keeps)

    @property
    def loss(self) -> str:
        """The records that may be lost, in words."""
        if not (self.down.complete and self.whole.complete):
            return f"is not decided: {self.problem or 'too many orders of events'}"
        if self.down.may_lose or self.whole.may_lose:
            return "may lose records that were acknowledged before"
        return "may lose records that the leader acknowledges and no follower has fetched"

    @property
    def stops_writes(self) -> bool:
        return self.down.writes is not Ability.YES


_UNDECIDED = Outcome(
    may_lose=(),
    loses=(),
    loses_new=False,
    disks=(),
    leaders=(),
    reads=Ability.PERHAPS,
    writes=Ability.PERHAPS,
    complete=False,
)


def restart(
    cluster: LiveCluster, broker: int, *, kafka: str, acks: Sequence[Acks]
) -> list[tuple[TopicPartition, Restarted]]:
    """Return the outcome for each of these acks and each partition of the broker.

    Raises ScenarioError if the broker does not run, ClusterError if none of its partitions, or not
    their settings are known.
    """
    if broker not in cluster.brokers:
        raise ScenarioError(
            f"broker {broker} does not run; {sorted(cluster.brokers)} do",
            hint="`ackproof advise start` says which brokers to start.",
        )
    views = {place: one for place, one in cluster.partitions.items() if broker in one.replicas}
    if not views:
        raise ClusterError(
            f"the cluster shows the client no partition of broker {broker}",
            hint="The client needs Describe on the topics of this broker. If it has no replica, "
            "nothing speaks against a restart.",
        )
    if refused := sorted({topic for topic, _ in views} & cluster.refused.keys()):
        raise ClusterError(
            f"the settings of topic {refused[0]} cannot be described: "
            f"{cluster.refused[refused[0]]}",
            hint="The client needs DescribeConfigs on the topics of this broker.",
        )
    return [
        (place, judged(cluster, place, broker, kafka=kafka, acks=each))
        for each in acks
        for place in sorted(views)
    ]


def judged(
    cluster: LiveCluster, place: TopicPartition, broker: int, *, kafka: str, acks: Acks
) -> Restarted:
    """Return the outcome for one of the broker's partitions."""
    view, least = cluster.partitions[place], cluster.minimum(place[0])
    again = (Stop(broker), Start((broker,)))
    problem, down, whole = "", _UNDECIDED, _UNDECIDED
    try:
        states = [replace(one, acks=acks) for one in possible(cluster, place, kafka=kafka)]
        down = merged([outcome(one, [Stop(broker)], writes=1) for one in states])
        whole = merged([outcome(one, again, writes=1) for one in states])
    except ValueError as error:
        problem = str(error)
    return Restarted(
        acks=acks,
        isr=tuple(sorted(view.isr)),
        min_insync_replicas=least,
        down=down,
        whole=whole,
        rule=len(set(view.isr) - {broker}) >= least,
        problem=problem,
    )
