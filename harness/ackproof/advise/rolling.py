"""Whether a broker of a running cluster may be restarted now, for each of its partitions.

The cluster is asked for its metadata and settings (Describe rights). It does not tell the ends of
logs, so the members of the ISR are taken to have all committed records, and the others none; the
leader may have more, which a producer with acks=1 has seen acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ackproof.advise.dead_cluster import MIN_ISR, UNCLEAN
from ackproof.cluster.admin import Admin, PartitionView
from ackproof.cluster.preflight import Preflight
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
    bootstrap: str, broker: int, *, kafka: str, acks: Sequence[Acks], client: Mapping[str, str]
) -> list[tuple[TopicPartition, Restarted]]:
    """Return the outcome for each of these acks and each partition of the broker.

    Raises ClusterError if no broker answers or describing is not allowed, ScenarioError if the
    broker is not registered.
    """
    admin, preflight = Admin(bootstrap, settings=client), Preflight(bootstrap, client)
    preflight.topics()  # raises the reason if the cluster refuses the client
    running = admin.brokers()
    if broker not in running:
        raise ScenarioError(
            f"broker {broker} is not registered at {bootstrap}; {sorted(running)} are"
        )
    views = {place: one for place, one in admin.partitions().items() if broker in one.replicas}
    settings = {
        topic: preflight.changed_settings("topic", topic) for topic in {topic for topic, _ in views}
    }
    return [
        (place, _restarted(view, settings[place[0]], broker, running, kafka=kafka, acks=each))
        for each in acks
        for place, view in sorted(views.items())
    ]


def _restarted(
    view: PartitionView,
    settings: Mapping[str, str],
    broker: int,
    running: frozenset[int],
    *,
    kafka: str,
    acks: Acks,
) -> Restarted:
    least = int(settings.get(MIN_ISR, "1"))
    try:
        situation = Situation(
            kafka_version=kafka,
            acks=acks,
            min_insync_replicas=least,
            unclean_election=settings.get(UNCLEAN, "false") == "true",
            replicas=tuple(
                Replica(
                    broker=one,
                    log=_COMMITTED if one in view.isr else _BEHIND,
                    running=one in running,
                    fenced=one not in running,
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
