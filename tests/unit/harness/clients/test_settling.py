"""The end of a producer that has not polled: its acks wait in librdkafka's queue."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from ackproof.clients import producer
from ackproof.clients.shared_page import Order, Progress, ProgressPage
from ackproof.clients.specs import ProducerSpec
from ackproof.ledger.producer_ledger import stream_path


def test_acks_that_wait_in_the_queue_at_the_end_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ProgressPage(tmp_path / "producer-0.page", create=True)
    page.give(Order.FILL)  # never polls, as a process that is suspended
    spec = ProducerSpec(
        run_id="run-1",
        number=0,
        topic="orders",
        partitions=1,
        bootstrap_servers="127.0.0.1:9",
        progress=tmp_path / "producer-0.page",
        ledger=stream_path(tmp_path, 0),
        settings={"test.mock.num.brokers": 1, "acks": "all", "linger.ms": 1},
        records=100,
    )
    # The wait for outcomes is over after three seconds, long after the last of them.
    monkeypatch.setattr(producer, "SETTLE_MARGIN_S", 3.0 - spec.delivery_timeout_s)
    try:
        producer.begin(spec, page, {}).run()
    finally:
        gc.enable()
        gc.unfreeze()
    assert page.read() == Progress(sent=100, acked=100)
    page.close()
