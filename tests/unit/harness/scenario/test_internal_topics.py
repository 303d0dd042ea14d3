"""The topics of coordinators, as clusters are booted with them and as faults may target them."""

from __future__ import annotations

from typing import Any

import pytest

from ackproof.scenario.fault_validation import fault_problems
from ackproof.scenario.model import Scenario
from ackproof.scenario.topics import OFFSETS, TRANSACTIONS, coordinator_partition, internal_topics
from support.run_directories import small


@pytest.mark.parametrize(
    ("brokers", "settings", "kafka", "offsets", "transactions"),
    [
        (3, {}, "4.3.1", (3, 1, False), (3, 2, False)),
        (1, {}, "4.3.1", (1, 1, False), (1, 1, False)),
        (3, {"offsets.topic.replication.factor": 1}, "4.3.1", (1, 1, False), (3, 2, False)),
        (3, {"transaction.state.log.min.isr": 1}, "4.3.1", (3, 1, False), (3, 1, False)),
        # Unclean elections were the default before 0.11, and never for transactions.
        (3, {}, "0.10.2.2", (3, 1, True), (3, 2, False)),
    ],
)
def test_what_decides_about_losses(brokers, settings, kafka, offsets, transactions):
    topics = internal_topics(brokers, settings, kafka)
    for name, expected in ((OFFSETS, offsets), (TRANSACTIONS, transactions)):
        topic = topics[name]
        actual = (
            topic.replication_factor,
            topic.min_insync_replicas,
            topic.unclean_leader_election,
        )
        assert actual == expected


def test_a_key_has_the_partition_that_kafka_gives_it():
    """`"polygenelubricants".hashCode()` is the least integer, which has no absolute value."""
    keys = ("", "g", "billing", "ackproof-producer-0", "polygenelubricants")
    assert [coordinator_partition(key, 2**31) for key in keys] == [
        *(0, 103, 109829509, 1542156135, 0)
    ]
    assert coordinator_partition("billing", 4) == 1


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("leader of __share_group_state-3", ""),
        ("leader of __share_group_state-4", "__share_group_state has partitions 0 to 3, not 4"),
        ("share coordinator of workers on orders-0", ""),
        ("share coordinator of others on orders-0", "there is no share group 'others' here (work"),
        ("share coordinator of workers on orders-9", "orders has partitions 0 to"),
        ("share coordinator of workers on pays-0", "workers reads orders, not pays"),
    ],
)
def test_faults_may_hit_the_coordinators_of_share_groups(target, problem):
    group = {"workload": {"consumers": {"workers": {"via": "share"}}}}
    messages = problems_of({"fault": "kill", "target": target}, **group)
    assert any(problem in text for text in messages) if problem else not messages


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ({"target": "leader of __share_group_state-0"}, "there is no topic '__share_group_state'"),
        ({"target": "share coordinator of workers on orders-0"}, "(there is none)"),
        ({"target": 1, "when": "3 acquired"}, "'3 acquired' counts records of share groups"),
    ],
)
def test_what_only_share_groups_have_needs_one(fault, problem):
    (message,) = problems_of({"fault": "kill", **fault})
    assert problem in message


@pytest.mark.parametrize(
    ("partition", "problem"),
    [
        ("__transaction_state-3", ""),
        ("__consumer_offsets-0", ""),
        ("__transaction_state-4", "__transaction_state has partitions 0 to 3, not 4"),
        ("__cluster_state-0", "there is no topic '__cluster_state' here"),
    ],
)
def test_faults_may_hit_coordinators(partition, problem):
    messages = problems_of({"fault": "kill", "target": f"leader of {partition}"})
    assert any(problem in text for text in messages) if problem else not messages


@pytest.mark.parametrize("partition", [3, 4])
def test_operations_may_be_on_the_topics_of_coordinators(partition):
    messages = problems_of(
        {"fault": "reassign", "topic": TRANSACTIONS, "partition": partition, "to": [1]}
    )
    assert messages == ([] if partition == 3 else [f"{TRANSACTIONS} has partitions 0 to 3, not 4"])


def problems_of(fault: dict[str, Any], **changes: Any) -> list[str]:
    scenario = Scenario.model_validate(small(faults=[fault], **changes))
    return [text for _, text in fault_problems(scenario)]
