"""The output of `kafka-transactions.sh find-hanging`, and the requests to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.cluster.hanging_transactions import HangingTransaction, HangingTransactions, parse

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


def test_each_row_below_the_heading_is_a_transaction() -> None:
    first, second = parse(FOUND)
    assert first == HANGING
    assert (second.partition, second.coordinator_epoch, second.start_offset) == (9, -1, 0)
    assert list(parse(NOTHING)) == list(parse("")) == []


def test_the_text_has_partition_offset_and_producer() -> None:
    text = "a transaction hangs in orders-7 since offset 12 (producer id 1000, epoch 3)"
    assert str(HANGING) == text


def in_cluster(
    kafka: str, requests: list[tuple[str, ...]], leaders: Sequence[int | None] = (1, 2)
) -> HangingTransactions:
    def run(_classes: object, *arguments: str) -> str:
        requests.append(arguments)
        return FOUND

    views = {("orders", 0): SimpleNamespace(leader=None)} | {
        ("__transaction_state", n): SimpleNamespace(leader=leader)
        for n, leader in enumerate(leaders)
    }
    admin: Any = SimpleNamespace(stable_offsets=None, partitions=lambda: views)
    return HangingTransactions(admin, run, kafka)


def test_each_topic_is_searched_and_an_abort_names_the_offset() -> None:
    requests: list[tuple[str, ...]] = []
    hanging = in_cluster("4.3.1", requests)
    assert len(hanging.find(["orders", "bills"])) == 4
    hanging.abort(HANGING)
    assert [arguments[:3] for arguments in requests[:2]] == [
        ("find-hanging", "--topic", "orders"),
        ("find-hanging", "--topic", "bills"),
    ]
    assert requests[2] == (
        *("abort", "--topic", "orders", "--partition", "7", "--start-offset", "12"),
    )


def test_the_tool_does_not_run_on_versions_without_it() -> None:
    requests: list[tuple[str, ...]] = []
    assert in_cluster("2.6.2", requests).find(["orders"]) == []
    assert requests == []


@pytest.mark.parametrize("leaders", [(1, None), ()])
def test_nothing_hangs_while_a_coordinator_may_know_it(leaders: Sequence[int | None]) -> None:
    """The tool reports every transaction whose coordinator does not answer."""
    requests: list[tuple[str, ...]] = []
    assert in_cluster("4.3.1", requests, leaders).find(["orders"]) == []
    assert requests == []
