"""Checks the faults of a scenario: their targets, conditions and limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ackproof.kafka_versions import numbers, uses_zookeeper
from ackproof.scenario.attach import AttachSpec
from ackproof.scenario.cluster import CONTROLLER_ID, OWN_LISTENERS
from ackproof.scenario.model import Scenario
from ackproof.scenario.types import Problem, YamlPath
from ackproof_faults import Fault, Shape, registered
from ackproof_faults.conditions import kinds
from ackproof_faults.conditions.condition import Condition, compares
from ackproof_faults.schedule.blocks import located_faults
from ackproof_faults.schedule.context import Limit, certain_conflicts
from ackproof_model.effects import Reassigns

#: The first version with eligible leader replicas.
_FIRST_ELR = (4, 0)


def fault_problems(scenario: Scenario) -> Iterator[Problem]:
    faults = [(("faults", *where), fault) for where, fault in located_faults(scenario.faults)]
    names = {name for _, fault in faults for name in (fault.name, fault.id) if name}
    attach, shape = scenario.cluster.attach, _shape(scenario)
    if attach is not None:
        yield from _attached_problems(attach, faults)
    for path, fault in faults:
        yield from _target_problems(scenario, fault, path)
        if attach is None or not attach.missing(fault):
            for field, problem in fault.problems(shape):
                yield (*path, field), problem
        yield from _limit_problems(scenario, fault, path)
        for key in ("when", "heal_when"):
            for index, condition in enumerate(getattr(fault, key)):
                for alternative in condition.alternatives:
                    yield from _condition_problems(
                        scenario, alternative, (*path, key, index), names
                    )
    if attach is not None and scenario.blast_radius.controllers is not None:
        yield (
            ("blast_radius", "controllers"),
            "ackproof does not know the controllers of an attached cluster: remove it",
        )
    for where, problem in certain_conflicts(scenario.faults):
        yield ("faults", *where), problem


def _attached_problems(
    attach: AttachSpec, faults: Sequence[tuple[YamlPath, Fault]]
) -> Iterator[Problem]:
    """Yield faults that an attached cluster does not allow."""
    for where, fault in faults:
        path = (*where, "fault")
        missing = attach.missing(fault)
        obtainable = {"processes", "freezer", "network"}
        if not set(missing) <= obtainable:
            legal = ", ".join(
                name for name, kind in registered().items() if not attach.missing(kind)
            )
            yield (
                path,
                f"{fault.name!r} needs {', '.join(missing)}, so it needs a cluster that ackproof "
                f"started (with attach: {legal})",
            )
        elif fault.touches_brokers and attach.i_own is None:
            yield (
                path,
                f"{fault.name!r} breaks a cluster that ackproof did not start: "
                f"set cluster.attach.i_own to {attach.bootstrap!r}",
            )
        elif missing:
            yield (
                path,
                f"set cluster.attach.containers to the containers that {fault.name!r} may act on"
                + (", and cluster.attach.listeners to their ports" if "network" in missing else ""),
            )


def _shape(scenario: Scenario) -> Shape:
    """Return the shape of the cluster and the clients, as far as it is known before the boot."""
    cluster, workload = scenario.cluster, scenario.workload
    groups = workload.consumers.values()
    brokers = tuple(range(1, cluster.brokers + 1))
    own = [cluster.broker(number) for number in brokers]
    sizes = [one.disk_bytes for one in own]
    return Shape(
        brokers=brokers,
        controllers=brokers[: cluster.controllers]
        if cluster.combined
        else tuple(range(CONTROLLER_ID, CONTROLLER_ID + cluster.controllers)),
        listeners=(*OWN_LISTENERS, *cluster.listeners),
        topics={name: topic.partitions for name, topic in scenario.every_topic.items()},
        log_dirs=min(one.log_dirs or 1 for one in own),
        disk=None if None in sizes else min(size for size in sizes if size is not None),
        own_clocks=cluster.clock == "adjustable",
        proxied=tuple(cluster.proxied),
        producers=workload.producers,
        consumers=sum(group.members for group in groups),
        subscribing=any(group.via != "assign" for group in groups),
        transactions=workload.transactions is not None,
        unacked=workload.application is None
        and all(sends.settings.acks == "0" for sends in scenario.sends.values()),
        java=any(sends.client.java is not None for sends in scenario.sends.values()),
        attached=cluster.attach is not None,
    )


def _target_problems(scenario: Scenario, fault: Fault, where: YamlPath) -> Iterator[Problem]:
    target, last = fault.target, scenario.cluster.brokers
    path = (*where, "target")
    if target.topic:
        yield from _partition_problems(scenario, path, target.topic, target.partition)
    if scenario.cluster.attach is not None:
        if target.of_controllers or target.rack:
            yield path, f"ackproof does not know the {target} of an attached cluster: name brokers"
        return
    if target.rack and not target.brokers:
        racks = ", ".join(sorted(scenario.cluster.brokers_by_rack)) or "none"
        yield path, f"no broker is in {target} (racks: {racks}): set cluster.racks"
    for broker in target.brokers:
        yield from _broker_problems(scenario, path, broker)
    if target.count > last:
        yield path, f"'{target}' is more than all brokers: cluster.brokers is {last}"
    if target.role == "minority of controllers" and scenario.cluster.controllers == 1:
        yield path, "one controller has no minority: set cluster.controllers to 3 or 5"
    if target.of_controllers and uses_zookeeper(scenario.kafka):
        yield path, f"'{target}' needs KRaft, and Kafka {scenario.kafka} uses ZooKeeper"


def _limit_problems(scenario: Scenario, fault: Fault, where: YamlPath) -> Iterator[Problem]:
    """Yield the problem of a fault that exceeds the blast radius on its own."""
    if not fault.disables or scenario.cluster.attach is not None:
        return
    target, cluster, radius = fault.target, scenario.cluster, scenario.blast_radius
    path = (*where, "target")
    hit = {
        "all": cluster.brokers,
        "any": target.count,
        "brokers": len(set(target.brokers)),
        "leader": 1,
    }.get(target.role, 0)
    if radius.brokers is not None and hit > (most := _most(radius.brokers, cluster.brokers)):
        yield path, f"'{target}' hits {hit} brokers, and blast_radius.brokers allows {most}"
    majority = cluster.controllers // 2 + 1
    voters = {
        "active controller": 1,
        "minority of controllers": majority - 1,
        "majority of controllers": majority,
    }.get(target.role, 0)
    if radius.controllers is not None and voters > (
        most := _most(radius.controllers, cluster.controllers)
    ):
        yield (
            path,
            f"'{target}' hits {voters} controllers, and blast_radius.controllers allows {most}",
        )


def _most(limit: Limit, members: int) -> int:
    return (members - 1) // 2 if limit == "minority" else int(limit)


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
        case kinds.After() if condition.seconds >= seconds:
            yield path, f"'{condition}' is not within workload.seconds: {seconds:g}"
        case kinds.FaultHas() if condition.fault not in names:
            yield (
                path,
                f"there is no fault with the name or id {condition.fault!r} here "
                f"({', '.join(sorted(names))})",
            )
        case kinds.ReplicaLagIs() if scenario.cluster.attach is not None:
            yield path, f"'{condition}' is read from brokers' disks: not of an attached cluster"
        case kinds.ReplicaLagIs():
            yield from _broker_problems(scenario, path, condition.broker)
            yield from _replica_problems(scenario, path, condition)
        case kinds.LeaderIs() | kinds.LogSays() | kinds.LastKnownLeaderIs() if (
            condition.broker is not None
        ):
            yield from _broker_problems(scenario, path, condition.broker)
        case kinds.IsrIs() if not _possible_size(scenario, condition):
            yield path, f"'{condition}' never holds with that many replicas"
        case kinds.IsrIsExactly() | kinds.ElrIsExactly():
            for broker in condition.members:
                yield from _broker_problems(scenario, path, broker)


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
    if scenario.cluster.attach is not None:
        yield path, f"'{condition}' is read from a controller's disk: not of an attached cluster"
    elif numbers(scenario.kafka) < _FIRST_ELR:
        yield path, f"'{condition}' needs Kafka 4.0 (KIP-966), and this is {scenario.kafka}"


def _possible_size(scenario: Scenario, condition: kinds.IsrIs) -> bool:
    topic = scenario.every_topic.get(condition.topic)
    most = topic.replication_factor if topic else scenario.cluster.brokers
    # Replicas can be added while the run goes on.
    most = max(most, scenario.cluster.brokers if scenario.cluster.attach is None else most)
    return any(compares(size, condition.op, condition.number) for size in range(most + 1))


def _broker_problems(scenario: Scenario, path: YamlPath, broker: int) -> Iterator[Problem]:
    last = scenario.cluster.brokers
    if scenario.cluster.attach is None and not 1 <= broker <= last:
        yield path, f"there is no broker {broker} (the brokers are 1 to {last})"


def _partition_problems(
    scenario: Scenario, path: YamlPath, topic: str, partition: int
) -> Iterator[Problem]:
    spec = scenario.every_topic.get(topic)
    if spec is None:
        yield path, f"there is no topic {topic!r} here ({', '.join(sorted(scenario.topics))})"
    elif partition >= spec.partitions:
        yield path, f"{topic} has partitions 0 to {spec.partitions - 1}, not {partition}"
