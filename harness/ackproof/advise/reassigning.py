"""Whether replicas may be moved now: a plan for `kafka-reassign-partitions`, or its cancellation.

Every request is made in the model of the controller (`ackproof_model.advice.reassigned`), from the
partition's present state. What comes later, such as another crash, is named as a condition.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ackproof.advise.dead_cluster import dynamic_settings, minimum
from ackproof.advise.live import LiveCluster
from ackproof.errors import ScenarioError
from ackproof.observation import metadata_log
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.advice.reassigned import Brokers, Moved, Placement, Rules, enough, moved
from ackproof_model.configuration import Acks
from ackproof_model.kafka_settings import (
    UNCLEAN_LEADER_ELECTION_ENABLE,
)

_HINT = (
    'Name the JSON of `kafka-reassign-partitions --generate`: {"version": 1, "partitions": '
    '[{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}. Cruise Control\'s answer is '
    "read, too, if it has proposals (json=true&verbose=true)."
)

#: The replicas that a plan asks for, by partition.
Plan = Mapping[TopicPartition, Brokers]


def read_plan(text: str, name: str) -> Plan:
    """Return the plan in a file: of `kafka-reassign-partitions`, or proposals of Cruise Control.

    Raises ScenarioError if it is neither, and for a plan that Kafka refuses.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ScenarioError(f"{name} is not JSON: {error}", hint=_HINT) from None
    plan: dict[TopicPartition, Brokers] = {}
    for place, replicas in _entries(document, name):
        where = f"{name}: {place[0]}-{place[1]}"
        if place in plan:
            raise ScenarioError(f"{where} is there twice")
        if not replicas or len(set(replicas)) < len(replicas):
            raise ScenarioError(f"{where} has replicas {list(replicas)}: name each broker once")
        plan[place] = replicas
    if not plan:
        raise ScenarioError(f"{name} moves no partition", hint=_HINT)
    return plan


def _entries(document: object, name: str) -> Iterator[tuple[TopicPartition, Brokers]]:
    kinds = {"partitions": _of_kafka, "proposals": _of_cruise_control}
    kind = next((key for key in kinds if isinstance(document, dict) and key in document), None)
    entries = document[kind] if kind and isinstance(document, dict) else None
    if kind is None or not isinstance(entries, list):
        raise ScenarioError(f"{name} is not a plan of reassignments", hint=_HINT)
    for number, entry in enumerate(entries, 1):
        try:
            (topic, partition), replicas = kinds[kind](entry)
        except (KeyError, TypeError) as error:
            raise ScenarioError(f"{name}: entry {number} lacks {error}", hint=_HINT) from None
        if not (isinstance(topic, str) and _numbers([partition, *replicas])):
            raise ScenarioError(
                f"{name}: entry {number} has other values than a topic's name and whole numbers",
                hint=_HINT,
            )
        yield (topic, partition), tuple(replicas)


def _numbers(values: Sequence[object]) -> bool:
    return all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in values)


def _of_kafka(entry: dict[str, Any]) -> tuple[TopicPartition, Sequence[int]]:
    return (entry["topic"], entry["partition"]), entry["replicas"]


def _of_cruise_control(entry: dict[str, Any]) -> tuple[TopicPartition, Sequence[int]]:
    place = entry["topicPartition"]
    return (place["topic"], place["partition"]), entry["newReplicas"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The partitions of a cluster with the settings that decide.

    unknown_elr: partitions whose eligible leader replicas are not known.
    """

    placements: Mapping[TopicPartition, Placement]
    rules: Callable[[str], Rules]
    unknown_elr: frozenset[TopicPartition] = frozenset()


#: A line of `kafka-topics --describe`, and the lists of brokers in it.
_PARTITION = re.compile(r"Topic:\s*(?P<topic>\S+)\s+Partition:\s*(?P<number>\d+)\s+Leader:")
_LISTS = {
    name: re.compile(rf"\b{name}: ?(?P<brokers>[\d,]*)(?=\s|$)")
    for name in ("Isr", "Adding Replicas", "Removing Replicas", "Elr")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Described:
    isr: frozenset[int]
    adding: Brokers
    removing: Brokers
    elr: Brokers
    knows_elr: bool


def _described(text: str) -> dict[TopicPartition, _Described]:
    """Return what `kafka-topics --describe` prints of partitions. Raises ScenarioError."""
    found = {}
    for line in text.splitlines():
        if match := _PARTITION.search(line):
            lists = [
                tuple(int(word) for word in of["brokers"].split(",") if word) if of else ()
                for of in (pattern.search(line) for pattern in _LISTS.values())
            ]
            place = match["topic"], int(match["number"])
            found[place] = _Described(
                isr=frozenset(lists[0]),
                adding=lists[1],
                removing=lists[2],
                elr=lists[3],
                # Brokers before 4.0 do not answer it: `Elr: N/A`.
                knows_elr=_LISTS["Elr"].search(line) is not None and "Elr: N/A" not in line,
            )
    if not found:
        raise ScenarioError(
            "--described names no partition",
            hint="Give what kafka-topics.sh of Kafka 4 prints of the topics of the plan.",
        )
    return found


def of_live(cluster: LiveCluster, kafka: str, described: str = "") -> Seen:
    """Return the partitions of a running cluster.

    described: what `kafka-topics --describe` prints, which names moves in progress and, with Kafka
    4, eligible leader replicas. Without it they are unknown where the ISR has fewer members than
    min.insync.replicas; otherwise there are none (KIP-966).
    """
    lines = _described(described) if described else {}
    placements: dict[TopicPartition, Placement] = {}
    unknown = set()
    for place, view in cluster.partitions.items():
        line = lines.get(place)
        if line and line.isr != set(view.isr):
            line = None  # it has changed since
        placements[place] = Placement(
            replicas=tuple(view.replicas),
            isr=tuple(view.isr),
            leader=view.leader,
            running=cluster.brokers,
            adding=line.adding if line else (),
            removing=line.removing if line else (),
            elr=line.elr if line else (),
        )
        few = len(view.isr) < min(cluster.minimum(place[0]), len(view.replicas))
        if few and not (line and line.knows_elr):
            unknown.add(place)
    return Seen(
        placements=placements,
        rules=lambda topic: Rules(
            kafka_version=kafka,
            min_insync_replicas=cluster.minimum(topic),
            unclean_election=cluster.unclean_election(topic),
        ),
        unknown_elr=frozenset(unknown),
    )


@metadata_log.damage_as_value_error("the metadata log")
def of_metadata(dump: str, kafka: str, properties: Mapping[str, str]) -> Seen:
    """Return the partitions by the controllers' metadata log, with all registered brokers running.

    Raises ValueError if the log is damaged.
    """
    log, dynamic = metadata_log.parse(dump), dynamic_settings(dump)
    states = {one.broker: one.state for one in log.brokers}
    running = frozenset(one for one, state in states.items() if state != "unregistered")
    moves = _moves(dump)
    placements = {}
    for state in log.latest:
        adding, removing = moves.get((state.topic_id, state.partition), ((), ()))
        placements[state.topic, state.partition] = Placement(
            replicas=state.replicas,
            isr=state.isr,
            leader=None if state.leader < 0 else state.leader,
            running=running,
            adding=adding,
            removing=removing,
            elr=state.elr,
        )

    def rules(topic: str) -> Rules:
        values = {**properties, **dynamic.topics.get("", {}), **dynamic.topics.get(topic, {})}
        return Rules(
            kafka_version=kafka,
            min_insync_replicas=minimum(values),
            unclean_election=values.get(UNCLEAN_LEADER_ELECTION_ENABLE, "").lower() == "true",
            elr=dynamic.elr,
        )

    return Seen(placements=placements, rules=rules)


def _moves(dump: str) -> dict[tuple[str, int], tuple[Brokers, Brokers]]:
    """Return the brokers that moves in progress add and remove, by topic id and partition."""
    moves: dict[tuple[str, int], tuple[Brokers, Brokers]] = {}
    for entry in metadata_log.records(dump):
        if entry.kind in ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD"):
            place = entry.data["topicId"], entry.data["partitionId"]
            before = moves.get(place, ((), ()))
            adding, removing = (
                was if entry.data.get(key) is None else tuple(entry.data[key])
                for key, was in zip(("addingReplicas", "removingReplicas"), before, strict=True)
            )
            moves[place] = adding, removing
    return moves


class Harm(StrEnum):
    """What speaks against a move now.

    RETURNS: a broker that is eligible from before gets its replica back, without its log. UNKNOWN:
    which replicas are eligible. REFUSED: by Kafka. STUCK: the move is never complete. STOPS: fewer
    members than min.insync.replicas are in the ISR afterwards. STAYS: a broker without a replica
    stays eligible. ALONE: a leader that has acked alone, with acks=1, is moved away.
    """

    RETURNS = "returns"
    ALONE = "alone"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    STUCK = "stuck"
    STOPS = "stops"
    STAYS = "stays"


#: Harms after which an acknowledged record may be lost, or that are not decided.
LOSING = (Harm.RETURNS, Harm.ALONE, Harm.UNKNOWN)
#: Harms after which the move is not made, writes may stop, or a replica hinders elections.
STOPPING = (Harm.REFUSED, Harm.STUCK, Harm.STOPS, Harm.STAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A move of a partition. target: None for a cancellation. least: min.insync.replicas."""

    place: TopicPartition
    now: Placement
    target: Brokers | None
    outcome: Moved
    least: int
    harms: tuple[Harm, ...] = ()
    assumed: tuple[Harm, ...] = field(default=())

    @property
    def may_lose(self) -> bool:
        return any(harm in LOSING for harm in self.harms)

    @property
    def may_stop(self) -> bool:
        return any(harm in STOPPING for harm in self.harms)

    @property
    def later(self) -> bool:
        """Whether the move should wait until its replicas are in the ISR."""
        return any(harm in (Harm.RETURNS, Harm.UNKNOWN, *STOPPING) for harm in self.harms)

    @property
    def effects(self) -> Iterator[str]:
        """Yield what speaks against the move, in words."""
        outcome = self.outcome
        for harm in self.harms:
            yield _EFFECTS[harm].format(
                back=_ids(outcome.eligible_again),
                left=_ids(outcome.left_eligible),
                isr=_ids(outcome.isr),
                size=len(outcome.isr),
                least=self.least,
                leader=self.now.leader,
                reason=self._why_refused if harm is Harm.REFUSED else self._why_stuck,
            )

    @property
    def _why_refused(self) -> str:
        if self.target is not None:
            return "it would elect a replica that has no log yet (UNKNOWN_SERVER_ERROR)"
        moving = self.now.adding or self.now.removing
        return "no replica that stays is in the ISR" if moving else "no move is in progress"

    @property
    def _why_stuck(self) -> str:
        away = [one for one in self.target or () if one not in self.now.running]
        if away:
            return f"broker {_ids(away)} does not run"
        return "nothing is left to be added: cancel the present move instead"


_EFFECTS = {
    Harm.RETURNS: "broker {back} is still eligible from before its replica was removed, and its "
    "log was deleted: if the leader ends before {least} replicas are in the ISR, every "
    "acknowledged record may be lost. Wait until Elr is empty",
    Harm.ALONE: "leader {leader} is moved away: with acks=1, records that no follower has fetched "
    "are lost",
    Harm.UNKNOWN: "not decided, as the ISR has fewer members than min.insync.replicas and the "
    "eligible leader replicas are not known: add --described",
    Harm.REFUSED: "Kafka refuses it: {reason}",
    Harm.STUCK: "it is never complete: {reason}",
    Harm.STOPS: "once it is complete, the ISR is {isr}, fewer than min.insync.replicas={least}: "
    "writes with acks=all are refused until another replica has caught up",
    Harm.STAYS: "broker {left} stays eligible without a replica: until Elr is empty give it none "
    "back (every record may be lost), and if {isr} ends uncleanly, there may be no leader",
}


def _ids(brokers: Sequence[int]) -> str:
    return " and ".join(map(str, brokers))


def judged(
    seen: Seen, plan: Plan, *, cancels: bool, acks: Callable[[str], Sequence[Acks]], stated: bool
) -> list[Judged]:
    """Return the outcome for each partition of a plan, in its order.

    cancels: the plan's moves are cancelled. acks: those of a topic's producers; stated: whether
    anything says so, else acks=1 is only assumed.

    Raises ScenarioError if the cluster has no such partition.
    """
    if unknown := [place for place in plan if place not in seen.placements]:
        topic, number = unknown[0]
        raise ScenarioError(
            f"the cluster has no partition {topic}-{number}",
            hint="The client needs Describe on the topics of the plan.",
        )
    return [
        _judged(seen, place, None if cancels else target, acks(place[0]), stated=stated)
        for place, target in plan.items()
    ]


def _judged(
    seen: Seen,
    place: TopicPartition,
    target: Brokers | None,
    acks: Sequence[Acks],
    *,
    stated: bool,
) -> Judged:
    now, rules = seen.placements[place], seen.rules(place[0])
    outcome = moved(now, target, rules)
    alone = "1" in acks and outcome.completes and now.leader not in (None, *outcome.replicas)
    found = {
        Harm.RETURNS: bool(outcome.eligible_again),
        Harm.ALONE: alone and stated,
        Harm.UNKNOWN: rules.with_elr and place in seen.unknown_elr,
        Harm.REFUSED: outcome.refused,
        Harm.STUCK: not outcome.completes and not outcome.refused,
        Harm.STOPS: outcome.completes
        and not enough(outcome, rules)
        and len(now.isr) >= rules.min_insync_replicas,
        Harm.STAYS: bool(outcome.left_eligible),
    }
    return Judged(
        place=place,
        now=now,
        target=target,
        outcome=outcome,
        least=min(rules.min_insync_replicas, len(outcome.replicas)),
        harms=tuple(harm for harm, is_so in found.items() if is_so),
        assumed=(Harm.ALONE,) if alone and not stated else (),
    )
