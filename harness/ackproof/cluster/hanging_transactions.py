"""Transactions that hang in partitions' logs, by Kafka's own tool: to find them, to abort them.

KIP-664, from Kafka 3.0 on. The tool calls a transaction hanging that a leader has open and whose
coordinator has no such transaction in that partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ackproof.cluster import kafka_tools
from ackproof.cluster.state import ClusterState

#: The first version whose brokers answer, and that has the tool.
SINCE = (3, 0)

_TOOL = ("org.apache.kafka.tools.TransactionsCommand",)
_COLUMNS = (
    *("Topic", "Partition", "ProducerId", "ProducerEpoch"),
    *("CoordinatorEpoch", "StartOffset", "LastTimestamp"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """A transaction that is open in a partition from `start_offset` on.

    `coordinator_epoch` is that of the last marker, -1 before the first one. `last_at` is the time
    in its newest record.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_at: datetime

    def __str__(self) -> str:
        return (
            f"a transaction hangs in {self.topic}-{self.partition} since offset "
            f"{self.start_offset} (producer id {self.producer_id}, epoch {self.producer_epoch})"
        )


def find(cluster: ClusterState, topics: Sequence[str]) -> list[HangingTransaction]:
    """Return the transactions that hang in the topics, however short a time.

    A marker that is written between the tool's two questions, to the leader and to the coordinator,
    makes it name a transaction that has just ended: what it names twice hangs.
    Raises ClusterError if the tool fails.
    """
    return [
        found
        for topic in topics
        for found in parse(
            kafka_tools.run_at_a_broker(
                cluster,
                _TOOL,
                *("find-hanging", "--topic", topic, "--max-transaction-timeout", "0"),
            )
        )
    ]


def abort(cluster: ClusterState, hanging: HangingTransaction) -> None:
    """Write the abort marker to the partition; raise ClusterError with Kafka's reason to refuse."""
    kafka_tools.run_at_a_broker(
        cluster,
        _TOOL,
        *("abort", "--topic", hanging.topic, "--partition", str(hanging.partition)),
        *("--start-offset", str(hanging.start_offset)),
    )


def parse(output: str) -> Iterator[HangingTransaction]:
    """Yield the rows that `kafka-transactions.sh find-hanging` prints below its heading."""
    lines = [line.split() for line in output.splitlines()]
    heads = [at for at, words in enumerate(lines) if tuple(words[: len(_COLUMNS)]) == _COLUMNS]
    for words in lines[heads[0] + 1 :] if heads else ():
        if len(words) <= len(_COLUMNS):
            continue
        numbers = [int(word) for word in words[1 : len(_COLUMNS)]]
        yield HangingTransaction(
            topic=words[0],
            partition=numbers[0],
            producer_id=numbers[1],
            producer_epoch=numbers[2],
            coordinator_epoch=numbers[3],
            start_offset=numbers[4],
            last_at=datetime.fromtimestamp(numbers[5] / 1000, UTC),
        )
