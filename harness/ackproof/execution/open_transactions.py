"""Transactions that are still open after all producers have ended.

read_committed reads a partition up to its last stable offset. After transaction.timeout.ms the
coordinator aborts open transactions. A transaction that it does not know hangs. It is recorded, and
then aborted as an operator would do, so that the final log can be read to its end. Acked records of
a committed transaction that lost its marker are lost with it; `forensics.stories` tells this abort
from the cluster's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ackproof.cluster.hanging_transactions import HangingTransaction, HangingTransactions
from ackproof.errors import ClusterError
from ackproof.waiting import wait_for
from ackproof_faults.interfaces.cluster import TopicPartition

#: Seconds until outstanding markers are written.
_MARKERS_S = 5.0
#: Seconds after transaction.timeout.ms until a coordinator has checked for timeouts, which it does
#: every ten seconds by default.
_ABORT_S = 20.0
#: Maximum seconds to wait for coordinators.
_LONGEST_S = 120.0


class OpenTransactions:
    """The transactions that keep partitions from being read up to `ends`.

    `rows` are rows of the table `hanging_transactions`; `say` gets a line for each.
    """

    def __init__(
        self,
        cluster: HangingTransactions,
        ends: Mapping[TopicPartition, int],
        *,
        say: Callable[[str], None],
    ) -> None:
        self.rows: list[dict[str, Any]] = []
        self._say = say
        self._cluster = cluster
        self._ends = ends
        self._suspects: set[HangingTransaction] = set()

    def end(
        self, *, timeout_s: float, markers_s: float = _MARKERS_S, every_s: float = 1.0
    ) -> list[str]:
        """Wait until every partition is stable beyond its end; abort hanging transactions.

        `timeout_s` is the producers' transaction.timeout.ms. Returns troubles.
        """
        every_s = min(every_s, markers_s)
        try:
            wait_for(
                self._unstable, _none, within_s=markers_s, every_s=every_s, failure=_still_open
            )
        except ClusterError:
            within_s = min(timeout_s + _ABORT_S, _LONGEST_S)
        else:
            return []
        try:
            wait_for(
                self._abort_hanging, _none, within_s=within_s, every_s=every_s, failure=_still_open
            )
        except ClusterError as error:
            return [error.message]
        return []

    def _unstable(self) -> list[TopicPartition]:
        stable = self._cluster.stable_offsets(list(self._ends))
        return sorted(
            partition for partition, end in self._ends.items() if stable[partition] <= end
        )

    def _abort_hanging(self) -> list[TopicPartition]:
        """Abort transactions that Kafka's tool lists twice; return the unstable partitions.

        Raises ClusterError if the tool fails.
        """
        left = self._unstable()
        listed = set(self._cluster.find(sorted({topic for topic, _ in left}))) if left else set()
        for hanging in sorted(listed & self._suspects, key=str):
            row = {**asdict(hanging), "found_at": self._cluster.now(), "aborted_at": None}
            self.rows.append(row)
            self._say(f"{hanging}: read_committed consumers cannot read past it")
            try:
                self._cluster.abort(hanging)
            except ClusterError as error:
                raise ClusterError(f"{hanging}; abort failed: {error.message}") from error
            row["aborted_at"] = self._cluster.now()
        self._suspects = listed
        return left


def _none(left: Sequence[TopicPartition]) -> bool:
    return not left


def _still_open(left: Sequence[TopicPartition]) -> ClusterError:
    names = ", ".join(f"{topic}-{partition}" for topic, partition in left)
    return ClusterError(f"a transaction is still open in {names}: read_committed ends there")
