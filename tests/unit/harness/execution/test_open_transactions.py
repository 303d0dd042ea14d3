"""Transactions that are open after all producers have ended: they end by themselves or hang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from ackproof.cluster.hanging_transactions import HangingTransaction
from ackproof.errors import ClusterError
from ackproof.execution.final_phase import OpenTransactions
from ackproof_faults.interfaces.cluster import TopicPartition

AT = datetime(2026, 1, 1, tzinfo=UTC)
ENDS = {("orders", partition): 20 for partition in range(3)}


def hanging(partition: int, offset: int = 12) -> HangingTransaction:
    return HangingTransaction(
        topic="orders",
        partition=partition,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        start_offset=offset,
        last_at=AT,
    )


class Cluster:
    """Partitions with open transactions: `hangs` until aborted, others for `open_for` requests."""

    def __init__(
        self,
        *hangs: HangingTransaction,
        open_for: int = 0,
        named_for: int = 0,
        refuses: bool = False,
    ) -> None:
        self.hangs = set(hangs)
        self.aborted: list[HangingTransaction] = []
        self.said: list[str] = []
        self.finds = 0
        self._open_for, self._named_for, self._refuses = open_for, named_for, refuses

    def stable_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        stable = dict.fromkeys(partitions, 21)
        self._open_for -= 1
        if self._open_for >= 0:
            stable["orders", 0] = 20
        for hanging in self.hangs:
            stable[hanging.topic, hanging.partition] = hanging.start_offset
        return stable

    def find(self, topics: Sequence[str]) -> Sequence[HangingTransaction]:
        assert list(topics) == ["orders"]
        self.finds += 1
        just_ended = [hanging(0, 20)] if self.finds <= self._named_for else []
        return [*self.hangs, *just_ended]

    def abort(self, hanging: HangingTransaction) -> None:
        if self._refuses:
            raise ClusterError("TransactionsCommand at broker-1 failed (1): not authorized")
        self.aborted.append(hanging)
        self.hangs.remove(hanging)

    def now(self) -> datetime:
        return AT


def end(cluster: Cluster, *, timeout_s: float = 600) -> tuple[OpenTransactions, list[str]]:
    fake: Any = cluster
    opened = OpenTransactions(fake, ENDS, say=cluster.said.append)
    return opened, opened.end(timeout_s=timeout_s, markers_s=0.01, every_s=0.001)


def test_without_open_transactions_the_tool_is_not_run() -> None:
    cluster = Cluster()
    opened, troubles = end(cluster)
    assert (opened.rows, troubles, cluster.finds) == ([], [], 0)


@pytest.mark.parametrize("named_for", [0, 1])
def test_a_transaction_that_ends_by_itself_does_not_hang(named_for: int) -> None:
    """The tool may list it once while its marker is outstanding."""
    cluster = Cluster(open_for=100, named_for=named_for)
    opened, troubles = end(cluster)
    assert (opened.rows, troubles, cluster.aborted) == ([], [], [])
    assert cluster.finds > 1


def test_a_hanging_transaction_is_recorded_and_aborted() -> None:
    cluster = Cluster(hanging(1), hanging(2))
    opened, troubles = end(cluster)
    assert troubles == []
    assert cluster.aborted == [hanging(1), hanging(2)]
    assert [(row["partition"], row["start_offset"]) for row in opened.rows] == [(1, 12), (2, 12)]
    assert cluster.said[0] == (
        "a transaction hangs in orders-1 since offset 12 (producer id 7, epoch 0): "
        "read_committed consumers cannot read past it"
    )
    assert all(row["found_at"] == row["aborted_at"] == AT for row in opened.rows)


def test_a_failed_abort_is_recorded_and_a_trouble() -> None:
    opened, troubles = end(Cluster(hanging(1), refuses=True))
    assert [row["aborted_at"] for row in opened.rows] == [None]
    assert troubles == [
        "a transaction hangs in orders-1 since offset 12 (producer id 7, epoch 0); abort failed: "
        "TransactionsCommand at broker-1 failed (1): not authorized"
    ]


def test_an_open_transaction_that_does_not_hang_is_a_trouble() -> None:
    """Brokers before 3.0 do not report hanging transactions."""
    opened, troubles = end(Cluster(open_for=10**6), timeout_s=-20)
    assert opened.rows == []
    assert troubles == ["a transaction is still open in orders-0: read_committed ends there"]
