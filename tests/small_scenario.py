"""A scenario of one topic, for tests of what does not depend on more."""

from __future__ import annotations

from typing import Any

from ackproof.scenario.model import Scenario


def scenario(*, expect: dict[str, Any] | None = None, **workload: Any) -> Scenario:
    settings = {"acks": "all", "enable.idempotence": True}
    return Scenario.model_validate(
        {
            "version": 1,
            "name": "s",
            "topics": {"orders": {}},
            "workload": {"topic": "orders", "settings": settings, **workload},
            "expect": expect or {},
        }
    )
