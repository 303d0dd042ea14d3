"""The scenarios of explored schedules."""

from __future__ import annotations

from typing import Any

import pytest

from ackproof.exploration.results import Schedule
from ackproof.exploration.short_scenario import explored
from ackproof.planning.search import question
from ackproof.scenario.loader import validate
from ackproof.scenario.model import Scenario
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


def transactional(client: str, settings: dict[str, Any], cluster: dict[str, Any]) -> Scenario:
    return validate(
        {
            "version": 1,
            "name": "orders",
            "kafka": "4.4.0",
            "cluster": {"settings": cluster},
            "topics": {"orders": {"assignment": [[2, 3, 1]]}},
            "workload": {
                "topic": "orders",
                "client": client,
                "settings": {"acks": "all", "enable.idempotence": True, **settings},
                "transactions": {"size": 20},
            },
        }
    )


@pytest.mark.parametrize(
    ("client", "settings", "made"),
    [
        ("librdkafka", {}, {"delivery.timeout.ms": 3000, "linger.ms": 100}),
        ("librdkafka", {"delivery.timeout.ms": 9000}, {"delivery.timeout.ms": 9000}),
        (
            "java",
            {},
            {"delivery.timeout.ms": 3000, "request.timeout.ms": 3000, "linger.ms": 0},
        ),
    ],
)
def test_a_producer_whose_record_is_held_gives_up_soon(
    client: str, settings: dict[str, Any], made: dict[str, Any]
) -> None:
    own = transactional(client, settings, {})
    model = question(own, Budgets(kills=1))
    hold = Operation(kind=OperationKind.HOLD_WRITES, broker=0)
    short = explored(own, model, Schedule(operations=(hold,), records=5), name="made")
    assert made.items() <= short.workload.client_settings.items()
    other = explored(own, model, KILL, name="made")
    assert other.workload.client_settings.get("delivery.timeout.ms") != 3000


@pytest.mark.parametrize(
    ("cluster", "timeout_ms"), [({}, 3000), ({"request.timeout.ms": 5000}, 5000)]
)
def test_a_coordinator_whose_markers_are_held_sends_them_again_soon(
    cluster: dict[str, Any], timeout_ms: int
) -> None:
    own = transactional("librdkafka", {}, cluster)
    model = question(own, Budgets(kills=1))
    hold = Operation(kind=OperationKind.HOLD_MARKERS, broker=0)
    short = explored(own, model, Schedule(operations=(hold,), records=5), name="made")
    assert short.cluster.settings["request.timeout.ms"] == timeout_ms
    other = explored(own, model, KILL, name="made")
    assert other.cluster.settings.get("request.timeout.ms") == cluster.get("request.timeout.ms")
