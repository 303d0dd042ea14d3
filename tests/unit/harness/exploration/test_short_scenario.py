"""The scenarios of explored schedules."""

from __future__ import annotations

from typing import Any

import pytest

from ackproof.exploration.results import Schedule
from ackproof.exploration.short_scenario import explored
from ackproof.planning.search import question
from ackproof.scenario.loader import validate
from ackproof_model.adversary import Budgets
from ackproof_model.planning import Operation, OperationKind

KILL = Schedule(operations=(Operation(kind=OperationKind.KILL, broker=0),), records=5)


@pytest.mark.parametrize(
    ("kafka", "settings", "linger_ms"),
    [
        ("0.10.2.2", {}, 400),
        ("1.1.1", {}, 5),
        ("0.10.2.2", {"linger.ms": 20}, 20),
        ("0.10.2.2", {"delivery.timeout.ms": 300}, 5),
    ],
)
def test_batches_are_seldom_where_followers_truncate_to_their_high_watermark(
    kafka: str, settings: dict[str, Any], linger_ms: float
) -> None:
    scenario = validate(
        {
            "version": 1,
            "name": "orders",
            "kafka": kafka,
            "topics": {"orders": {"assignment": [[2, 3, 1]]}},
            "workload": {
                "topic": "orders",
                "settings": {"acks": "all", "enable.idempotence": False, **settings},
            },
        }
    )
    made = explored(scenario, question(scenario, Budgets(kills=1)), KILL, name="made")
    assert made.workload.settings.linger_ms == linger_ms
