"""The user's application: a shop that writes orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer


class Shop:
    """Takes orders and writes them to Kafka."""

    def __init__(self, servers: str, *, acks: str, on_delivery: Callable[[Any, Any], None]) -> None:
        self._on_delivery = on_delivery
        self._producer = Producer(
            {"bootstrap.servers": servers, "acks": acks, "linger.ms": 1, "log_level": 0}
        )

    def order(self, count: int) -> None:
        """Take so many orders."""
        for _ in range(count):
            self._producer.produce("orders", uuid4().bytes, on_delivery=self._on_delivery)
            self._producer.poll(0)

    def close(self) -> None:
        """Wait until every order is written, or is known not to be."""
        self._producer.flush()
