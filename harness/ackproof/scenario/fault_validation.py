"""Checks the faults of a scenario: their targets, conditions and limits."""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.kafka_versions import FEATURES_SINCE, numbers
from ackproof.scenario.cluster import OWN_LISTENERS
from ackproof.scenario.model import Scenario
from ackproof.scenario.types import Problem, YamlPath
from ackproof_faults import Shape
from ackproof_faults.clients import ClientFault
from ackproof_faults.conditions import kinds
from ackproof_faults.conditions.condition import Condition, compares
from ackproof_faults.conditions.targets import TargetSpec
from ackproof_faults.schedule.blocks import located_faults
from ackproof_faults.schedule.context import certain_conflicts
from ackproof_model.effects import Client, Reassigns
from ackproof_model.kafka_settings import ELIGIBLE_LEADER_REPLICAS_VERSION


def fault_problems(scenario: Scenario) -> Iterator[Problem]:
    faults = [(("faults", *where), fault) for where, fault in located_faults(scenario.faults)]
    names = {name for _, fault in faults for name in (fault.name, fault.id) if name}
    kind, shape = scenario.cluster_kind, _shape(scenario)
    yield from kind.fault_problems(faults)
    for path, fault in faults:
        target = fault.target
        if target.topic:
            where = (*path, "target")
            yield from _partition_problems(scenario, where, target.topic, target.partition)
        yield from _share_problems(scenario, (*path, "target"), target)
        yield from kind.target_problems(target, (*path, "target"), scenario.kafka)
        if kind.offers(fault):
            for field, problem in fault.problems(shape):
                yield (*path, field), problem
        yield from kind.limit_problems(fault, scenario.blast_radius, (*path, "target"))
        for key in ("when", "heal_when"):
            for index, condition in enumerate(getattr(fault, key)):
                for alternative in condition.alternatives:
                    yield from _condition_problems(
                        scenario, alternative, (*path, key, index), names
                    )
    yield from kind.radius_problems(scenario.blast_radius)
    for within, problem in certain_conflicts(scenario.faults):
        yield ("faults", *within), problem


def _shape(scenario: Scenario) -> Shape:
    """Return the shape of the cluster and the clients, as far as it is known before the boot."""
    cluster, workload = scenario.cluster, scenario.workload
    groups = workload.consumers.values()
    programs = [group.is_own for group in groups for _ in range(group.members)]
    vias = [group.via for group in groups for _ in range(group.members)]
    brokers = tuple(range(1, cluster.brokers + 1))
    own = [cluster.broker(number) for number in brokers]
    sizes = [one.disk_bytes for one in own]
    return Shape(
        brokers=brokers,
        controllers=tuple(cluster.controller_ids),
        listeners=(*OWN_LISTENERS, *cluster.listeners),
        topics={name: topic.partitions for name, topic in scenario.every_topic.items()},
        log_dirs=min(one.log_dirs or 1 for one in own),
        disk=None if None in sizes else min(size for size in sizes if size is not None),
        own_clocks=cluster.clock == "adjustable",
        proxied=tuple(cluster.proxied),
        producers=workload.producers,
        consumers=len(programs),
        programs=frozenset(number for number, own in enumerate(programs) if own),
        subscribing=frozenset(number for number, via in enumerate(vias) if via == "subscribe"),
        groups=dict.fromkeys(workload.consumers, workload.topic),
        spared=_spared(scenario),
        transactions=workload.transactions is not None,
        unacked=scenario.senders.never_ask_for_acks,
        java=any(sends.client.java is not None for sends in scenario.sends.values()),
        attached=not scenario.cluster_kind.is_described,
    )


def _spared(scenario: Scenario) -> dict[str, list[int]]:
    """Return the numbers of the members of each group that no fault ends."""
    groups = scenario.workload.consumers
    of_member = [name for name, group in groups.items() for _ in range(group.members)]
    ended = {
        number
        for fault in scenario.every_fault
        if isinstance(fault, ClientFault)
        and Client(role="consumer", action="ends") in fault.effects
        for number in fault.numbers(len(of_member))
    }
    return {
        name: [n for n, group in enumerate(of_member) if group == name and n not in ended]
        for name in groups
    }


def _condition_problems(
    scenario: Scenario, condition: Condition, path: YamlPath, names: set[str]
) -> Iterator[Problem]:
    """Yield why a condition can never hold."""
    records = sum(sends.records for sends in scenario.sends.values())
    seconds = scenario.workload.seconds
    if isinstance(condition, kinds.PartitionCondition):
        yield from _partition_problems(scenario, path, condition.topic, condition.partition)
    if isinstance(condition, kinds.ElrCondition):
        yield from _elr_problems(scenario, path, condition)
    match condition:
        case kinds.ProgressIs() if condition.count > records:
            yield path, f"'{condition}' is more than workload.records: {records} allow"
        case kinds.AcquiredIs() if not scenario.share_groups:
            yield path, f"'{condition}' counts records of share groups, and the scenario has none"
        case kinds.After() if condition.seconds >= seconds:
            yield path, f"'{condition}' is not within workload.seconds: {seconds:g}"
        case kinds.FaultHas() if condition.fault not in names:
            yield (
                path,
                f"there is no fault with the name or id {condition.fault!r} here "
                f"({', '.join(sorted(names))})",
            )
        case kinds.ReplicaLagIs() if not scenario.cluster_kind.nodes_are_read:
            yield path, f"'{condition}' is read from brokers' disks: not of an attached cluster"
        case kinds.ReplicaLagIs():
            yield from scenario.cluster_kind.broker_problems(condition.broker, path)
            yield from _replica_problems(scenario, path, condition)
        case kinds.LeaderIs() | kinds.LogSays() | kinds.LastKnownLeaderIs() if (
            condition.broker is not None
        ):
            yield from scenario.cluster_kind.broker_problems(condition.broker, path)
        case kinds.IsrIs() if not _possible_size(scenario, condition):
            yield path, f"'{condition}' never holds with that many replicas"
        case kinds.IsrIsExactly() | kinds.ElrIsExactly():
            for broker in condition.members:
                yield from scenario.cluster_kind.broker_problems(broker, path)


def _share_problems(scenario: Scenario, path: YamlPath, target: TargetSpec) -> Iterator[Problem]:
    """Yield the problem of a share partition that no share group of the scenario gets."""
    shared, groups = target.shared, ", ".join(scenario.share_groups)
    if shared is None:
        return
    if shared.group not in scenario.share_groups:
        yield path, f"there is no share group {shared.group!r} here ({groups or 'there is none'})"
    elif shared.topic != scenario.workload.topic:
        yield path, f"{shared.group} reads {scenario.workload.topic}, not {shared.topic}"
    else:
        yield from _partition_problems(scenario, path, shared.topic, shared.partition)


def _replica_problems(
    scenario: Scenario, path: YamlPath, condition: kinds.ReplicaLagIs
) -> Iterator[Problem]:
    """Yield the problem of a broker that is not known to have a replica of the partition."""
    topic, partition = scenario.topics.get(condition.topic), condition.partition
    moves = any(
        isinstance(effect, Reassigns)
        for _, fault in located_faults(scenario.faults)
        for effect in fault.effects
    )
    if topic is None or moves or topic.replication_factor >= scenario.cluster.brokers:
        return
    replicas = topic.assignment[partition] if partition < len(topic.assignment) else []
    if condition.broker not in replicas:
        known = f"they are on {replicas}" if replicas else "Kafka chooses the brokers"
        yield (
            path,
            f"broker {condition.broker} need not have a replica of {condition.topic}-{partition} "
            f"({known}): set topics.{condition.topic}.assignment, or another broker",
        )


def _elr_problems(
    scenario: Scenario, path: YamlPath, condition: kinds.ElrCondition
) -> Iterator[Problem]:
    if not scenario.cluster_kind.nodes_are_read:
        yield path, f"'{condition}' is read from a controller's disk: not of an attached cluster"
    elif numbers(scenario.kafka) < FEATURES_SINCE[ELIGIBLE_LEADER_REPLICAS_VERSION]:
        yield path, f"'{condition}' needs Kafka 4.0 (KIP-966), and this is {scenario.kafka}"


def _possible_size(scenario: Scenario, condition: kinds.IsrIs) -> bool:
    topic = scenario.every_topic.get(condition.topic)
    factor = topic.replication_factor if topic else scenario.cluster.brokers
    most = scenario.cluster_kind.most_replicas(factor)
    return any(compares(size, condition.op, condition.number) for size in range(most + 1))


def _partition_problems(
    scenario: Scenario, path: YamlPath, topic: str, partition: int
) -> Iterator[Problem]:
    spec = scenario.every_topic.get(topic)
    if spec is None:
        yield path, f"there is no topic {topic!r} here ({', '.join(sorted(scenario.topics))})"
    elif partition >= spec.partitions:
        yield path, f"{topic} has partitions 0 to {spec.partitions - 1}, not {partition}"
