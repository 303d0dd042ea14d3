"""Asks the reference model what a scenario may lead to, before it runs.

The model speaks of one partition. A scenario is put to it once for each partition of its topic: a
fault on "the leader of orders-0" hits that partition's leader for certain, and any one replica of
another partition. The answers are joined: what is certain in one partition is certain in the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from ackproof.faults import Fault
from ackproof.faults.targets import TargetSpec
from ackproof.faults.triggers import After, Condition, IsrIs, LeaderChanges, ProgressIs
from ackproof.harness.run_dir import PredictionRecord
from ackproof.harness.scenario import Scenario, TopicSpec
from ackproof.harness.verdict import PredictionReport
from ackproof.reference_model import Condition as Abstract
from ackproof.reference_model import (
    Configuration,
    Elapsed,
    Injection,
    IsrSize,
    LeaderChanged,
    Prediction,
    Progress,
    Role,
    join,
    predict,
)

# Kafka's defaults in milliseconds: ReplicationConfigs, and KRaftConfigs.
_LAG_TIME = ("replica.lag.time.max.ms", 30_000)
_SESSION_TIMEOUT = ("broker.session.timeout.ms", 9_000)

#: Stands for a condition on another partition: it may come true at any time, or have been true.
_ANY_TIME = IsrSize(op=">=", size=0)


def foresee(scenario: Scenario) -> PredictionRecord:
    """Return what the model says about every anomaly, and why."""
    configuration = _configuration(scenario, scenario.topic)
    distinct: dict[tuple[Injection, ...], Prediction] = {}
    for partition in range(scenario.topic.partitions):
        schedule = tuple(
            _injection(scenario, fault, scenario.workload.topic, partition)
            for fault in scenario.faults
        )
        if schedule not in distinct:  # most partitions differ from each other in nothing
            distinct[schedule] = predict(configuration, schedule)
    joined = join(list(distinct.values()))
    return PredictionRecord(
        predicted={name: outlook.value for name, outlook in joined.outlook.items()},
        prediction=PredictionReport(
            trace=list(joined.trace), reasons=dict(joined.reasons), bounds=joined.bounds
        ),
    )


def _configuration(scenario: Scenario, topic: TopicSpec) -> Configuration:
    settings, cluster = scenario.workload.settings, scenario.cluster

    def seconds(setting: tuple[str, int]) -> float:
        return float(cluster.settings.get(*setting)) / 1000

    return Configuration(
        kafka_version=scenario.kafka,
        acks=settings.acks,
        idempotence=settings.idempotence,
        retries=settings.retries,
        max_in_flight=settings.max_in_flight,
        replication_factor=topic.replication_factor,
        min_insync_replicas=topic.min_insync_replicas,
        unclean_leader_election=topic.unclean_leader_election,
        replica_lag_time_max_s=seconds(_LAG_TIME),
        session_timeout_s=seconds(_SESSION_TIMEOUT),
        delivery_timeout_s=settings.delivery_timeout_ms / 1000,
        brokers=cluster.brokers,
    )


def _injection(scenario: Scenario, fault: Fault, topic: str, partition: int) -> Injection:
    return Injection(
        fault=fault.name,  # type: ignore[arg-type]  # a name the model does not know is refused
        targets=_roles(scenario, fault.target, topic, partition),
        when=_conditions(fault.when, topic, partition),
        or_after=fault.or_after,
        heal_when=_conditions(fault.heal_when, topic, partition),
        heal_or_after=fault.heal_after,
    )


def _roles(scenario: Scenario, target: TargetSpec, topic: str, partition: int) -> frozenset[Role]:
    """Return whom the target means, seen from one partition."""
    if (target.topic, target.partition) == (topic, partition):
        return frozenset({Role.LEADER if target.role == "leader" else Role.FOLLOWERS})
    hit = {"leader": 1, "followers": scenario.topic.replication_factor - 1}.get(
        target.role, len(target.brokers) or scenario.cluster.brokers
    )
    return frozenset({Role.ANY_ONE} if hit == 1 else {Role.LEADER, Role.FOLLOWERS})


def _conditions(
    conditions: Sequence[Condition], topic: str, partition: int
) -> tuple[Abstract, ...]:
    return tuple(_condition(one, topic, partition) for one in conditions)


def _condition(condition: Condition, topic: str, partition: int) -> Abstract:
    match condition:
        case ProgressIs(outcome=outcome, more=more):
            return Progress(outcome=outcome, more=more)
        case After(seconds=seconds):
            return Elapsed(seconds=seconds)
        case IsrIs(op=op, size=size) if (condition.topic, condition.partition) == (
            topic,
            partition,
        ):
            return IsrSize(op=op, size=size)  # type: ignore[arg-type]  # the parser checked op
        case LeaderChanges() if (condition.topic, condition.partition) == (topic, partition):
            return LeaderChanged()
        case _:
            return _ANY_TIME
