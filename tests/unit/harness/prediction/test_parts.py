from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ackproof.prediction.predict import predict
from ackproof.scenario.loader import load
from ackproof.scenario.model import Scenario

SCENARIOS = Path(__file__).parents[4] / "scenarios"

QUEUE = {"fault": "purge_client", "client": "producer 0", "what": "queue"}
KILL = {"fault": "kill", "target": "leader of orders-0"}
CAN, EITHER = ("can", "can"), ("either", "either")


def parts(
    *steps: dict[str, Any], max_states: int = 200, **changes: Any
) -> dict[str, tuple[str, str]]:
    found = load(SCENARIOS / "acks.yaml")[2].scenario
    base = {**found.model_dump(by_alias=True), "faults": list(steps), **changes}
    record = predict(Scenario.model_validate(base), max_states=max_states)
    return {one.part: (one.readable, one.writable) for one in record.prediction.availability}


def test_what_no_effect_touches_can_be_read_and_written() -> None:
    assert parts(QUEUE, KILL) == {
        "before the first fault": CAN,
        "after fault 1 (purge_client) begins": CAN,
        "after fault 2 (kill) begins": EITHER,
        "at the end": EITHER,
    }


def test_blocks_have_one_part_from_their_first_fault_on() -> None:
    loop = {"sequence": [KILL], "every": "10s"}
    assert parts(loop) == {"before the first fault": CAN, "from the first fault on": EITHER}
    loop = {"sequence": [QUEUE], "every": "10s"}
    assert set(parts(loop).values()) == {CAN}


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"fault": "add_partitions", "topic": "orders", "partitions": 9}, CAN),
        (
            {"fault": "alter_config", "topic": "orders", "key": "retention.ms", "value": 9},
            ("can", "either"),
        ),
        ({"fault": "flip_byte", "target": 1}, EITHER),
        ({"fault": "recreate_topic", "topic": "orders"}, EITHER),
        ({"fault": "reset_connections", "target": 1}, EITHER),
        ({"fault": "bandwidth", "target": 1, "rate": "1mbit"}, EITHER),
    ],
)
def test_a_fault_that_touches_the_partition_may_take_either(
    step: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert parts(step)["at the end"] == expected


def test_a_search_that_ends_early_says_no_more_than_the_bounds() -> None:
    assert parts(KILL, KILL, KILL)["after fault 1 (kill) begins"] == EITHER


def test_one_partition_without_a_search_decides_for_all() -> None:
    killed = {"fault": "kill", "target": [1, 2], "heal_after": "20s"}
    searched: dict[str, Any] = {"assignment": [[1, 2, 3], [4, 5, 6]]}
    several = {"partitions": 2, "replication_factor": 3}  # nobody knows which replicas they are
    for topic, expected in ((searched, CAN), (several, EITHER)):
        found = parts(killed, cluster={"brokers": 6}, topics={"orders": topic}, max_states=9000)
        assert found["at the end"] == expected


@pytest.mark.parametrize(("kafka", "expected"), [("4.3.1", CAN), ("3.6.2", ("can", "either"))])
def test_a_minimum_isr_above_the_replicas_is_capped_from_3_7(
    kafka: str, expected: tuple[str, str]
) -> None:
    orders = {"replication_factor": 3, "settings": {"min.insync.replicas": 4}}
    one = load(SCENARIOS / "acks.yaml")[1].scenario.workload.model_dump(by_alias=True)
    flip = {"fault": "flip_byte", "target": 1}
    found = parts(flip, kafka=kafka, topics={"orders": orders}, workload=one)
    assert found["before the first fault"] == expected
