from __future__ import annotations

from collections.abc import Callable

import pytest

from ackproof_model import Configuration


@pytest.fixture
def configure() -> Callable[..., Configuration]:
    """A maker of configurations: three replicas, acks=all, and what the test says differently."""

    def make(**changes: object) -> Configuration:
        settings = {
            "kafka_version": "4.1.0",
            "acks": "all",
            "idempotence": False,
            "retries": 2147483647,
            "max_in_flight": 5,
            "replication_factor": 3,
            "min_insync_replicas": 2,
        }
        return Configuration(**(settings | changes))

    return make
