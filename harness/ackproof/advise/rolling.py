"""Whether a broker of a running cluster may be restarted now, for each of its partitions.

The leader may have records that are not committed yet, but acknowledged to producers with acks=1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ackproof.advise.live import LiveCluster, possible
from ackproof.errors import ClusterError, ScenarioError
from ackproof.scenario.topics import OF_COORDINATORS
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model import advice
from ackproof_model.configuration import Acks


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """A clean restart of the broker, for one partition and producers with these acks.

    before: the outcome without the restart. down: while the broker is down. whole: once it runs
    again. rule: the answer of the common rule: whether the ISR without the broker has at least
    min.insync.replicas members. awaited: it has no leader, and this running broker is in the ISR or
    eligible, so that it may be elected any moment. problem: why the partition cannot be judged.
    """

    acks: Acks
    leader: int | None
    isr: tuple[int, ...]
    min_insync_replicas: int
    before: advice.Outcome
    down: advice.Outcome
    whole: advice.Outcome
    rule: bool
    awaited: bool = False
    problem: str = ""

    @property
    def decided(self) -> bool:
        return self.before.complete and self.down.complete and self.whole.complete

    @property
    def may_lose(self) -> bool:
        """Whether the restart may lose a record; also if not every order of events was searched."""
        after = self.down, self.whole
        return not self.decided or any(one.loses_beyond(self.before) for one in after)

    @property
    def stops_writes(self) -> bool:
        """Whether writes that are possible without the restart may stop meanwhile."""
        return self.awaited or self.down.writes.below(self.before.writes)

    @property
    def stops_reads(self) -> bool:
        return self.down.reads.below(self.before.reads)

    @property
    def unchanged(self) -> str:
        """The problem that the partition has already, and that a restart does not change."""
        if self.may_lose or self.stops_writes or self.stops_reads:
            return ""
        if self.leader is None:
            return "already without a leader"
        if self.before.writes is advice.Ability.YES:
            return ""
        return f"already not writable with acks={self.acks}"

    @property
    def effects(self) -> list[str]:
        """The harm of the restart, in words; empty without any."""
        found = []
        if not self.decided:
            found.append(f"is not decided: {self.problem or 'too many orders of events'}")
        elif self.may_lose and (self.down.may_lose or self.whole.may_lose):
            found.append("may lose records that were acknowledged before")
        elif self.may_lose:
            found.append(
                "may lose records that the leader acknowledges and no follower has fetched"
            )
        if self.stops_writes or self.stops_reads:
            able = "written" if self.stops_writes else "read"
            found.append(f"cannot be {able} while it is down")
        return found


_UNDECIDED = advice.Outcome(
    may_lose=(),
    loses=(),
    loses_new=False,
    disks=(),
    leaders=(),
    reads=advice.Ability.PERHAPS,
    writes=advice.Ability.PERHAPS,
    complete=False,
)


def restart(
    cluster: LiveCluster, broker: int, *, kafka: str, acks: Callable[[str], Sequence[Acks]]
) -> list[tuple[TopicPartition, Restarted]]:
    """Return the outcome for each partition of the broker, with acks=all first.

    acks: those of a topic's producers. Coordinators write with acks=all.

    Raises ScenarioError if the broker does not run, and ClusterError if its partitions or their
    settings are not known.
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
    asked = [
        (each, place)
        for place in sorted(views)
        for each in (("all",) if place[0] in OF_COORDINATORS else acks(place[0]))
    ]
    return [
        (place, judged(cluster, place, broker, kafka=kafka, acks=each))
        for each, place in sorted(asked, key=lambda one: one[0] != "all")
    ]


def judged(
    cluster: LiveCluster, place: TopicPartition, broker: int, *, kafka: str, acks: Acks
) -> Restarted:
    """Return the outcome for one of the broker's partitions."""
    view, least = cluster.partitions[place], cluster.minimum(place[0])
    problem, outcomes = "", (_UNDECIDED,) * 3
    try:
        outcomes = _outcomes(possible(cluster, place, kafka=kafka), broker, acks)
    except ValueError as error:
        problem = str(error)
    before, down, whole = outcomes
    eligible = cluster.eligible.get(place)
    return Restarted(
        acks=acks,
        leader=view.leader,
        isr=tuple(sorted(view.isr)),
        min_insync_replicas=least,
        before=before,
        down=down,
        whole=whole,
        rule=len(set(view.isr) - {broker}) >= least,
        awaited=view.leader is None
        and broker in {*view.isr, *(eligible.members if eligible else ())},
        problem=problem,
    )


@cache
def _outcomes(
    states: tuple[advice.Situation, ...], broker: int, acks: Acks
) -> tuple[advice.Outcome, advice.Outcome, advice.Outcome]:
    """Return the outcomes without a restart, while the broker is down, and afterwards."""
    every = [replace(one, acks=acks) for one in states]
    steps = advice.Stop(broker), advice.Start((broker,))
    before, down, whole = (
        advice.merged([advice.outcome(one, steps[:taken], writes=1) for one in every])
        for taken in range(3)
    )
    return before, down, whole
