"""Finds and aborts transactions that hang in partitions' logs, by Kafka's own tool (KIP-664).

A transaction hangs if a partition's leader has it open and its coordinator does not know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ackproof.cluster.admin import Admin
from ackproof.containers.kafka_tools import TOOLS
from ackproof.kafka_versions import numbers
from ackproof.scenario.topics import TRANSACTIONS

#: The first version whose brokers answer, and that has the tool.
_SINCE = (3, 0)

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


class HangingTransactions:
    """Finds and aborts the transactions that hang in a cluster of version `kafka`.

    `run_tool` runs one of Kafka's tools at a broker and raises ClusterError if it fails.
    """

    def __init__(self, admin: Admin, run_tool: Callable[..., str], kafka: str) -> None:
        self.stable_offsets = admin.stable_offsets
        self._partitions = admin.partitions
        self._run_tool = run_tool
        self._supported = numbers(kafka) >= _SINCE

    def find(self, topics: Sequence[str]) -> list[HangingTransaction]:
        """Return the transactions that hang in the topics, however short a time.

        None while a coordinator has no leader: the tool would report all of its transactions, and
        an abort would undo those that it is about to commit.

        The tool asks the leader, then the coordinator, so it may report a transaction whose marker
        is written in between. Only a transaction that it reports twice hangs.
        """
        limit = ("--max-transaction-timeout", "0")
        return [
            hanging
            for topic in (topics if self._supported and self._coordinators_lead() else ())
            for hanging in parse(
                self._run_tool(
                    TOOLS["kafka-transactions"], "find-hanging", "--topic", topic, *limit
                )
            )
        ]

    def _coordinators_lead(self) -> bool:
        views = self._partitions()
        leaders = [view.leader for (topic, _), view in views.items() if topic == TRANSACTIONS]
        return bool(leaders) and None not in leaders

    def abort(self, hanging: HangingTransaction) -> None:
        self._run_tool(
            TOOLS["kafka-transactions"],
            *("abort", "--topic", hanging.topic, "--partition", str(hanging.partition)),
            *("--start-offset", str(hanging.start_offset)),
        )

    def now(self) -> datetime:
        return datetime.now(UTC)


def parse(output: str) -> Iterator[HangingTransaction]:
    """Yield the rows of the output of `kafka-transactions.sh find-hanging`."""
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
