"""What `kafka-transactions.sh find-hanging` prints, and what is asked of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ackproof.cluster import hanging_transactions, kafka_tools
from ackproof.cluster.hanging_transactions import HangingTransaction, parse

NOTHING = (
    "Topic\tPartition\tProducerId\tProducerEpoch\tCoordinatorEpoch\tStartOffset\tLastTimestamp\t"
    "Duration(min)\n"
)
FOUND = (
    "[2026-11-24 15:50:00,000] WARN something that a library has to say\n"
    + NOTHING
    + "orders\t7\t1000\t3\t0\t12\t1795535312345\t0\n"
    + "orders\t9\t1000\t3\t-1\t0\t1795535312345\t0\n"
)
HANGING = HangingTransaction(
    topic="orders",
    partition=7,
    producer_id=1000,
    producer_epoch=3,
    coordinator_epoch=0,
    start_offset=12,
    last_at=datetime(2026, 11, 24, 15, 48, 32, 345000, UTC),
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What is asked of the tool, which finds two."""
    asked: list[tuple[str, ...]] = []

    def run(_cluster: object, _classes: object, *arguments: str) -> str:
        asked.append(arguments)
        return FOUND

    monkeypatch.setattr(kafka_tools, "run_at_a_broker", run)
    return asked


def test_each_row_below_the_heading_is_a_transaction() -> None:
    first, second = parse(FOUND)
    assert first == HANGING
    assert (second.partition, second.coordinator_epoch, second.start_offset) == (9, -1, 0)
    assert list(parse(NOTHING)) == list(parse("")) == []


def test_it_says_where_it_hangs_and_whose_it_is() -> None:
    said = "a transaction hangs in orders-7 since offset 12 (producer id 1000, epoch 3)"
    assert str(HANGING) == said


def test_each_topic_is_searched_and_an_abort_names_the_offset(asked: list[tuple[str, ...]]) -> None:
    cluster: Any = object()
    assert len(hanging_transactions.find(cluster, ["orders", "bills"])) == 4
    hanging_transactions.abort(cluster, HANGING)
    assert [arguments[:3] for arguments in asked[:2]] == [
        ("find-hanging", "--topic", "orders"),
        ("find-hanging", "--topic", "bills"),
    ]
    assert asked[2] == (
        *("abort", "--topic", "orders", "--partition", "7", "--start-offset", "12"),
    )
