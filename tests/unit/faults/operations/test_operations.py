"""Cluster operations on a fake cluster: their requests and refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ackproof_faults import Fault, FaultError, inject
from ackproof_faults.interfaces.cluster import Placement, TopicPartition
from ackproof_faults.operations.topics import changed
from integration.command import clock
from support.fake_cluster import FakeCluster
from support.schedules import STEPS
from unit.faults.registered_faults import SHAPE

Look = Callable[[], Mapping[int, Placement]]


def placement(leader: int | None, *brokers: int) -> Placement:
    return Placement(leader=leader, replicas=brokers, isr=brokers)


@dataclass(kw_only=True)
class Paper:
    """Fake topics; without `obeys` Kafka accepts every request and does nothing."""

    obeys: bool = True
    topics: dict[str, dict[int, Placement]] = field(
        default_factory=lambda: {"t": {0: placement(1, 1, 2), 1: placement(1, 2, 1)}}
    )
    settings: dict[str, str] = field(default_factory=lambda: {"min.insync.replicas": "2"})
    old: dict[str, str] = field(default_factory=dict)

    def topic(self, name: str) -> Mapping[int, Placement]:
        return self.topics.get(name, {})

    def decided(self, name: str) -> Mapping[int, Placement]:
        return self.topics.get(name, {})

    def await_topic(self, look: Look, good: Any, *, within_s: float) -> Mapping[int, Placement]:
        return look()

    def elect(self, places: Sequence[TopicPartition], *, unclean: bool) -> None:
        for topic, number in places if self.obeys else ():
            brokers = self.topics[topic][number].replicas
            self.topics[topic][number] = placement(brokers[0], *brokers)

    def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        for (topic, number), brokers in replicas.items() if self.obeys else ():
            self.topics[topic][number] = placement(brokers[0], *brokers)

    def cancel_reassignment(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        for (topic, number), brokers in replicas.items() if self.obeys else ():
            self.topics[topic][number] = placement(brokers[0], *brokers[:-1])

    def add_partitions(self, topic: str, count: int) -> None:
        for number in range(len(self.topics[topic]), count if self.obeys else 0):
            self.topics[topic][number] = placement(1, 1, 2)

    def setting(self, topic: str, key: str) -> str | None:
        return self.settings.get(key)

    def await_own_setting(self, topic: str, key: str, value: str, *, within_s: float) -> str | None:
        return self.settings.get(key)

    def override(self, topic: str, key: str, value: str) -> None:
        if self.obeys:
            self.old[key], self.settings[key] = self.settings[key], value

    def restore(self, topic: str, key: str) -> None:
        self.settings[key] = self.old.get(key, self.settings[key])

    offsets: dict[int, int] = field(default_factory=lambda: {0: 4})
    #: What an administrator may ask for, and the offset that partition 0 then has.
    new: dict[Any, dict[int, int]] = field(
        default_factory=lambda: {"earliest": {0: 0}, "latest": {0: 9}, 7: {0: 7}, None: {}}
    )

    def group_offsets(self, group: str, topic: str) -> Mapping[int, int]:
        return self.offsets

    def set_offsets(
        self, group: str, topic: str, to: int | str | None, *, within_s: float
    ) -> Mapping[int, int]:
        if self.obeys:
            self.offsets = self.new[to]
        return self.new[to]

    controllers: list[int] = field(default_factory=lambda: [100, 101, 102])
    more_controllers: list[int] = field(default_factory=list)
    features: dict[str, str] = field(default_factory=lambda: {"transaction.version": "1"})

    def add_controller(self) -> None:
        self.more_controllers.append(max(self.controllers) + 1)
        if self.obeys:
            self.controllers.append(self.more_controllers[-1])

    def added_controllers(self) -> Sequence[int]:
        return self.more_controllers

    def remove_controller(self, controller: int) -> None:
        if controller not in self.controllers:
            raise FaultError(f"{controller} is no voter")
        if self.obeys:
            self.controllers.remove(controller)

    def voters(self) -> Sequence[int]:
        return self.controllers

    def feature_level(self, feature: str) -> str | None:
        return self.features.get(feature)

    def upgrade_feature(self, feature: str, level: str) -> None:
        if self.obeys:
            self.features[feature] = level

    def recreate(self, topic: str) -> None:
        self.old[topic] = "id"

    def recreated(self, topic: str) -> tuple[str | None, str | None]:
        return self.old.get(topic), "other id" if self.obeys else "id"


BILLING = {"group": "billing", "topic": "t"}

OPERATIONS: list[dict[str, Any]] = [
    {"fault": "preferred_election", "topic": "t"},
    {"fault": "unclean_election", "topic": "t", "partition": 0},
    {"fault": "reassign", "topic": "t", "to": [3, 1]},
    {"fault": "reassign", "topic": "t", "partition": 1, "to": [3, 1]},
    {"fault": "change_replication_factor", "topic": "t", "replication_factor": 3},
    {"fault": "change_replication_factor", "topic": "t", "replication_factor": 1},
    {"fault": "add_partitions", "topic": "t", "partitions": 5},
    {"fault": "alter_config", "topic": "t", "key": "min.insync.replicas", "value": 1},
    {"fault": "recreate_topic", "topic": "t"},
    *({"fault": "reset_offsets", **BILLING, "to": to} for to in ("earliest", "latest", 7)),
    {"fault": "delete_offsets", **BILLING},
    {"fault": "add_controller"},
    {"fault": "remove_controller"},
    {"fault": "upgrade_feature", "feature": "transaction.version", "level": 2},
]

#: Operations that may be repeated.
REPEATABLE = ("recreate_topic", "add_controller")


def world(operation: dict[str, Any], *, obeys: bool = True) -> tuple[FakeCluster, Fault]:
    paper = Paper(obeys=obeys)
    if operation["fault"] == "unclean_election":
        paper.topics["t"][0] = placement(None, 1, 2)
    cluster = FakeCluster(operations=paper)
    (fault,) = STEPS.validate_python([operation])
    assert isinstance(fault, Fault)
    return cluster, fault


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_completed_operation_is_verified_and_recovered(operation: dict[str, Any]) -> None:
    cluster, fault = world(operation)
    with inject(fault, cluster, clock=clock) as guard:
        assert guard.window.verified, guard.window.evidence
    assert guard.recovered()
    assert cluster.operations.setting("t", "min.insync.replicas") == "2"


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_an_operation_that_kafka_accepts_and_does_not_complete_is_not_verified(
    operation: dict[str, Any],
) -> None:
    cluster, fault = world(operation, obeys=False)
    assert not inject(fault, cluster, clock=clock).window.verified


@pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if one["fault"] not in REPEATABLE], ids=str
)
def test_an_operation_that_changes_nothing_is_not_verified(operation: dict[str, Any]) -> None:
    cluster, fault = world(operation)
    assert inject(fault, cluster, clock=clock).window.verified
    assert not inject(fault, cluster, clock=clock).window.verified


@pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if "topic" in one and "group" not in one], ids=str
)
def test_a_missing_topic_is_named_and_has_not_recovered(operation: dict[str, Any]) -> None:
    if operation["fault"] == "alter_config":
        return  # Kafka itself refuses it
    cluster, fault = world({**operation, "topic": "u"})
    assert not fault.verify_healed(cluster, [1], None)
    guard = inject(fault, cluster, clock=clock)
    assert not guard.window.verified
    assert "is not there" in guard.window.evidence


@dataclass(kw_only=True)
class LateBroker(Paper):
    """Every other request goes to a broker that has not heard of the topic yet."""

    asked: int = 0

    def topic(self, name: str) -> Mapping[int, Placement]:
        self.asked += 1
        return {} if self.asked % 2 else super().topic(name)

    def await_topic(self, look: Look, good: Any, *, within_s: float) -> Mapping[int, Placement]:
        return next((seen for seen in (look(), look()) if good(seen)), {})


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if "topic" in one], ids=str)
def test_topic_unknown_to_a_broker_is_requested_again(operation: dict[str, Any]) -> None:
    cluster, fault = world(operation)
    known = cluster.operations
    late = LateBroker(topics=known.topics)  # type: ignore[attr-defined]
    cluster.offer("operations", late)
    with inject(fault, cluster, clock=clock) as guard:
        assert guard.window.verified, guard.window.evidence
    assert guard.recovered() or guard.recovered()


@pytest.mark.parametrize(
    ("leader", "count", "wanted"),
    [(1, 1, [1]), (2, 1, [2]), (3, 2, [1, 3]), (None, 2, [1, 2]), (1, 4, [1, 2, 3, 4])],
)
def test_the_leader_is_kept_when_replicas_are_dropped(
    leader: int | None, count: int, wanted: list[int]
) -> None:
    assert changed(placement(leader, 1, 2, 3), count, [1, 2, 3, 4, 5]) == wanted


@dataclass(kw_only=True)
class OldMetadata(Paper):
    """The broker that is asked knows the state before the last decisions."""

    known: dict[int, Placement] = field(default_factory=dict)

    def topic(self, name: str) -> Mapping[int, Placement]:
        return self.known


@pytest.mark.parametrize("obeys", [True, False])
@pytest.mark.parametrize(
    ("operation", "known", "decided"),
    [
        # The broker knows neither the request's effect ...
        ({"fault": "preferred_election"}, placement(2, 1, 2), placement(2, 1, 2)),
        ({"fault": "reassign", "to": [2, 3]}, placement(2, 1, 2), placement(2, 1, 2)),
        # ... nor what the controllers had decided before it.
        ({"fault": "preferred_election"}, placement(1, 1, 2), placement(2, 1, 2)),
        ({"fault": "reassign", "to": [2, 3]}, placement(2, 2, 3), placement(2, 1, 2)),
        (
            {"fault": "change_replication_factor", "replication_factor": 3},
            placement(2, 1, 2, 3),
            placement(2, 1, 2),
        ),
    ],
)
def test_the_controllers_decide_whether_an_operation_is_verified(
    operation: dict[str, Any], known: Placement, decided: Placement, obeys: bool
) -> None:
    (fault,) = STEPS.validate_python([{**operation, "topic": "t"}])
    assert isinstance(fault, Fault)
    old = OldMetadata(obeys=obeys, topics={"t": {0: decided}}, known={0: known})
    window = inject(fault, FakeCluster(operations=old), clock=clock).window
    assert window.verified is obeys


@pytest.mark.parametrize("obeys", [True, False])
def test_a_move_in_progress_is_cancelled(obeys: bool) -> None:
    (fault,) = STEPS.validate_python([{"fault": "reassign", "topic": "t", "cancel": True}])
    assert isinstance(fault, Fault)
    moving = placement(2, 3, 2, 1)
    operations = OldMetadata(obeys=obeys, topics={"t": {0: moving}}, known={0: moving})
    assert inject(fault, FakeCluster(operations=operations), clock=clock).window.verified is obeys


@pytest.mark.parametrize(
    ("known", "decided", "recovered"),
    [
        (placement(2, 2, 3), placement(2, 2, 3), True),
        (Placement(leader=2, replicas=(2, 3), isr=(2,)), placement(2, 2, 3), False),
        # In progress; or the broker has not read of it yet.
        (placement(2, 2, 3, 1), placement(2, 2, 3, 1), False),
        (placement(1, 1, 2), placement(2, 2, 3, 1), False),
        # A later move has replaced it.
        (placement(1, 1, 2), placement(1, 1, 2), True),
        (Placement(leader=1, replicas=(1, 2), isr=(1,)), placement(1, 1, 2), False),
    ],
)
def test_a_move_has_recovered_once_its_replicas_or_those_of_a_later_move_are_in_sync(
    known: Placement, decided: Placement, recovered: bool
) -> None:
    (fault,) = STEPS.validate_python([{"fault": "reassign", "topic": "t", "to": [2, 3]}])
    assert isinstance(fault, Fault)
    cluster = FakeCluster(operations=OldMetadata(topics={"t": {0: decided}}, known={0: known}))
    assert fault.verify_healed(cluster, [1], None) is recovered


@pytest.mark.parametrize(
    ("operation", "facts"),
    [
        ({"fault": "reset_offsets", "to": "latest"}, {"0": [4, 9], "1": [None, 3]}),
        ({"fault": "delete_offsets"}, {"0": [4, None]}),
    ],
)
def test_the_evidence_has_the_offsets_before_and_after(
    operation: dict[str, Any], facts: dict[str, Any]
) -> None:
    cluster, fault = world({**operation, **BILLING})
    cluster.operations.new["latest"][1] = 3  # type: ignore[attr-defined]
    with inject(fault, cluster, clock=clock) as guard:
        reset = {"group": "billing", "topic": "t", "offsets": facts}
        assert guard.window.facts == {"reset": reset}


def test_other_offsets_than_kafkas_tool_says_are_not_verified() -> None:
    cluster, fault = world({"fault": "reset_offsets", **BILLING, "to": "latest"})
    done = fault.inject(cluster, [])
    fault.verify(cluster, [], done)
    cluster.operations.offsets = {0: 8}  # type: ignore[attr-defined]
    with pytest.raises(FaultError, match=r"billing has the offsets \{0: 8\}, not \{0: 9\}"):
        fault.verify(cluster, [], done)


@pytest.mark.parametrize(
    ("fields", "shape", "problem"),
    [
        ({}, {}, []),
        ({"group": "c"}, {}, ["there is no group 'c' (billing, b)"]),
        ({}, {"groups": {}}, ["there is no group 'billing' (workload.consumers is empty)"]),
        ({}, {"groups": {"billing": "other"}}, ["billing reads other, not t"]),
        (
            {},
            {"spared": {"billing": [2, 3]}},
            [
                "Kafka refuses to change the offsets of a group with members, and no fault ends "
                "consumer 2, consumer 3 of billing: add {fault: crash_client, client: consumers}"
            ],
        ),
    ],
)
def test_offsets_of_a_group_that_cannot_change_are_refused(
    fields: dict[str, Any], shape: dict[str, Any], problem: list[str]
) -> None:
    known = {"topics": {"t": 2}, "groups": {"billing": "t", "b": "t"}, "spared": {"b": [0]}}
    _, fault = world({"fault": "delete_offsets", **BILLING, **fields})
    problems = fault.problems(replace(SHAPE, **{**known, **shape}))
    assert [text for _, text in problems] == problem
