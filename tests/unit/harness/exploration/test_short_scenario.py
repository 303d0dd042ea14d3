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
    ("kafka", "client", "settings", "linger_ms"),
    [
        ("0.10.2.2", "librdkafka", {}, 400),
        ("1.1.1", "librdkafka", {}, 5),
        ("0.10.2.2", "librdkafka", {"linger.ms": 20}, 20),
        ("0.10.2.2", "librdkafka", {"delivery.timeout.ms": 300}, 5),
        ("4.4.0", "librdkafka", {"enable.idempotence": True}, 100),
        ("4.4.0", "librdkafka", {"enable.idempotence": True, "linger.ms": 20}, 20),
        ("4.4.0", "java", {"enable.idempotence": True}, 5),
    ],
)
def test_batches_are_seldom_where_followers_truncate_to_their_high_watermark_or_a_producer_polls(
    kafka: str, client: str, settings: dict[str, Any], linger_ms: float
) -> None:
    scenario = validate(
        {
            "version": 1,
            "name": "orders",
            "kafka": kafka,
            "topics": {"orders": {"assignment": [[2, 3, 1]]}},
            "workload": {
                "topic": "orders",
                "client": client,
                "settings": {"acks": "all", "enable.idempotence": False, **settings},
            },
        }
    )
    made = explored(scenario, question(scenario, Budgets(kills=1)), KILL, name="made")
    assert made.workload.settings.linger_ms == linger_ms
