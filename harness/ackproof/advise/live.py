"""What a running cluster reports of its partitions: metadata and settings (Describe rights).

It reports neither the ends of logs nor, to this client, the eligible leader replicas, which Kafka's
tool prints (`with_description`). Members of the ISR are assumed to have all committed records. If
there is no leader, it is not known which records other replicas have. Therefore there are several
possible states.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from typing import Any

from ackproof.advise.dead_cluster import (
    OF_TOPICS,
    ClusterState,
    minimum,
    session_timeout,
)
from ackproof.cluster.admin import Admin, PartitionView
from ackproof.cluster.preflight import Preflight
from ackproof.errors import ClusterError, ScenarioError
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.advice import Replica, ReplicaLog, Situation
from ackproof_model.configuration import Profile
from ackproof_model.kafka_settings import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligible:
    """The eligible leader replicas (KIP-966), and the last known leader."""

    members: frozenset[int]
    last_leader: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCluster:
    """The metadata of a running cluster.

    brokers: the running ones. settings: by topic, as far as they may be described. refused: topics
    whose settings may not be described, with Kafka's reason. eligible: of partitions without a
    leader, where Kafka's tool has described them.
    """

    brokers: frozenset[int]
    partitions: Mapping[TopicPartition, PartitionView]
    settings: Mapping[str, Mapping[str, str]]
    refused: Mapping[str, str]
    eligible: Mapping[TopicPartition, Eligible] = field(default_factory=dict)

    @property
    def down(self) -> frozenset[int]:
        """The brokers that have a replica and do not run."""
        named = {broker for view in self.partitions.values() for broker in view.replicas}
        return frozenset(named - self.brokers)

    def minimum(self, topic: str) -> int:
        return minimum(self.settings.get(topic, {}))

    def unclean_election(self, topic: str) -> bool:
        return (
            self.settings.get(topic, {}).get(UNCLEAN_LEADER_ELECTION_ENABLE, "").strip().lower()
            == "true"
        )


#: A partition as `kafka-topics.sh --describe` of Kafka 4 prints it.
_DESCRIBED = re.compile(
    r"Topic:\s*(?P<topic>\S+)\s+Partition:\s*(?P<number>\d+)\s+Leader:\s*none\b.*?"
    r"\bIsr: ?(?P<isr>[\d,]*)\s.*?\bElr: ?(?P<elr>[\d,]*)\s+LastKnownElr: ?(?P<last>[\d,]*)"
)


def with_description(cluster: LiveCluster, text: str) -> LiveCluster:
    """Add the eligible leader replicas that the output of `kafka-topics.sh --describe` names.

    A partition whose leader or ISR has changed since is left out. Raises ScenarioError if the
    output has no such column.
    """
    if "LastKnownElr:" not in text:
        raise ScenarioError(
            "--described names no eligible leader replicas (LastKnownElr)",
            hint="Give what kafka-topics.sh of Kafka 4 prints, described in the how-to of outages.",
        )
    eligible = {}
    for match in _DESCRIBED.finditer(text):
        place = match["topic"], int(match["number"])
        isr, members, last = (
            [int(word) for word in match[name].split(",") if word]
            for name in ("isr", "elr", "last")
        )
        view = cluster.partitions.get(place)
        if view and view.leader is None and set(view.isr) == set(isr):
            eligible[place] = Eligible(
                members=frozenset(members), last_leader=next(iter(last), None)
            )
    return replace(cluster, eligible=eligible)


_COMMITTED = ReplicaLog(end=1, epochs=((0, 0),), high_watermark=1)
_BEHIND = ReplicaLog(end=0, epochs=())


def state(cluster: LiveCluster, kafka: str) -> ClusterState:
    """Return the possible states of each partition."""
    situations: dict[TopicPartition, tuple[Situation, ...]] = {}
    unknown = [
        f"the settings of topic {topic} (missing right: DescribeConfigs): {reason}; Kafka's "
        "defaults are used"
        for topic, reason in sorted(cluster.refused.items())
    ]
    for place, view in sorted(cluster.partitions.items()):
        name = f"{place[0]}-{place[1]}"
        try:
            situations[place] = possible(cluster, place, kafka=kafka)
        except ValueError as error:
            unknown.append(f"{name}: {error}")
            continue
        if view.leader is None and place not in cluster.eligible:
            others = ", ".join(str(one) for one in view.replicas if one not in view.isr)
            unknown.append(
                f"{name}: which records brokers {others} have; answered for none and for all"
                if view.isr
                else f"{name}: which replica is eligible; answered for each"
            )
    if cluster.down:
        unknown.append(
            "whether the controllers have a majority, which clients are not told: without it no "
            "broker joins and no leader is elected, so start controllers first"
        )
    return ClusterState(
        situations=situations,
        unknown=tuple(unknown),
        defaults=(MIN_INSYNC_REPLICAS,) if cluster.refused else (),
        offsets_known=False,
        not_judged=len(cluster.partitions) - len(situations),
        brokers=cluster.brokers | cluster.down,
        running=cluster.brokers,
        session=session_timeout(kafka, {}),
    )


def possible(cluster: LiveCluster, place: TopicPartition, *, kafka: str) -> tuple[Situation, ...]:
    """Return the states that the partition may be in. Raises ValueError for a contradiction.

    Partitions with the same view and settings share one object.
    """
    topic = place[0]
    return _possible(
        cluster.partitions[place],
        cluster.eligible.get(place),
        cluster.brokers,
        (cluster.minimum(topic), cluster.unclean_election(topic)),
        kafka,
    )


@cache
def _possible(
    view: PartitionView,
    known: Eligible | None,
    running: frozenset[int],
    settings: tuple[int, bool],
    kafka: str,
) -> tuple[Situation, ...]:
    def situation(whole: Collection[int], *, clean: bool = False, **more: Any) -> Situation:
        """Return the state in which the replicas `whole` have every committed record."""
        return Situation(
            kafka_version=kafka,
            acks="all",
            min_insync_replicas=settings[0],
            unclean_election=settings[1],
            replicas=tuple(
                Replica(
                    broker=one,
                    log=_COMMITTED if one in whole else _BEHIND,
                    running=one in running,
                    fenced=one not in running,
                    clean=clean and one not in running,
                )
                for one in view.replicas
            ),
            leader=view.leader,
            leader_epoch=1,
            isr=frozenset(view.isr),
            **more,
        )

    if view.leader is not None:
        return (situation(view.isr),)
    whole = set(view.isr) | (known.members if known else set())
    if not whole and known and known.last_leader is not None:
        whole = {known.last_leader}
    others = [one for one in view.replicas if one not in whole]
    sets = [whole.union(more) for n in range(len(others) + 1) for more in combinations(others, n)]
    return tuple(
        situation(each, clean=clean, **eligible)
        for each in sets
        for clean in ((False, True) if Profile.of(kafka).elr else (False,))
        for eligible in _eligible(known, view, each)
    )


def _eligible(
    known: Eligible | None, view: PartitionView, whole: Collection[int]
) -> Iterator[Mapping[str, Any]]:
    """Yield which replicas may be eligible: as described, or each replica in turn."""
    if known is not None:
        yield {"elr_members": known.members, "last_known_leader": known.last_leader}
    elif view.isr:
        yield {}
    else:
        for one in sorted(whole):
            yield {"elr_members": frozenset({one})}
            yield {"last_known_leader": one}


#: Makes with rules of their own, by how their clusters' ids begin.
_MAKES = {"redpanda.": "Redpanda", "lkc-": "Confluent Cloud"}


def ask(bootstrap: str, client: Mapping[str, str]) -> LiveCluster:
    """Return what the cluster reports. Raises ClusterError if no broker answers or refuses it."""
    admin, preflight = Admin(bootstrap, settings=client), Preflight(bootstrap, client)
    try:
        topics = preflight.topics()  # raises the reason if the cluster refuses the client
    except ClusterError as error:
        raise ClusterError(
            error.message,
            hint="Check --from-cluster, and that security.protocol in --client-config is the "
            "protocol of that listener.",
        ) from error
    cluster = preflight.cluster_id()
    if make := next((make for start, make in _MAKES.items() if cluster.startswith(start)), ""):
        raise ClusterError(
            f"{bootstrap} is a cluster of {make}, whose rules of replication are unknown here",
            hint="Advice is for Apache Kafka.",
        )
    partitions = admin.partitions()
    if missing := sorted(topics - {topic for topic, _ in partitions}):
        raise ClusterError(
            f"{bootstrap} did not answer which partitions topic {missing[0]} has",
            hint="Ask again: a broker was too slow, or the topic is new.",
        )
    described, refused = preflight.topic_settings(sorted({topic for topic, _ in partitions}))
    relevant = {
        topic: {key: value for key, value in settings.items() if key in OF_TOPICS}
        for topic, settings in described.items()
    }
    return LiveCluster(
        brokers=admin.brokers(), partitions=partitions, settings=relevant, refused=refused
    )
