"""What is asked of a cluster, in Kafka's words."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import Uuid

from ackproof.cluster.admin import Admin


def test_a_topics_id_is_written_as_kafka_writes_it() -> None:
    answer: Future[Any] = Future()
    answer.set_result(SimpleNamespace(topic_id=Uuid(-1, -1)))
    admin: Any = object.__new__(Admin)
    admin.client = lambda: SimpleNamespace(describe_topics=lambda *_, **__: {"orders": answer})
    assert admin.topic_id("orders") == "_____________________w"
