"""The topics of coordinators, as clusters are booted with them and as faults may target them."""

from __future__ import annotations

from typing import Any

import pytest

from ackproof.scenario.fault_validation import fault_problems
from ackproof.scenario.model import Scenario
from ackproof.scenario.topics import OFFSETS, TRANSACTIONS, internal_topics
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


def problems_of(fault: dict[str, Any]) -> list[str]:
    scenario = Scenario.model_validate(small(faults=[fault]))
    return [text for _, text in fault_problems(scenario)]
