"""The outcomes of transactions, which determine the outcomes of their sends.

A transactional producer records a row before it requests a commit, and a row with the answer. Three
outcomes can be distinguished, whenever it is killed::

    committing 0..100 | ended committed     -> committed
    committing 0..100 |                     -> unknown: it may be committed
                                            -> aborted: no commit was requested

A transaction without a requested commit cannot be committed: the next producer of the same
transactional id, or the transaction timeout, aborts it (KIP-98). A send is acked only if its
transaction is committed, because only then may an application rely on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ackproof.ledger import arrow_stream
from ackproof_spark.ledger_stream import OUTCOMES
from ackproof_spark.tables import LOCATION, TRANSACTIONS, Outcome

#: The position of `Outcome.ABORTED` after `OUTCOMES`. Ledger streams never contain it.
ABORTED = len(OUTCOMES)


class TransactionOutcome(StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class TransactionLog:
    """Records one producer's transactions, before and after each is committed or aborted."""

    def __init__(self, path: Path, constants: Mapping[str, Any], *, initialized_at: int) -> None:
        self._stream = arrow_stream.TableStream(path, TRANSACTIONS, constants)
        self._initialized_at = initialized_at

    def committing(self, number: int, *, first: int, end: int) -> None:
        """Record that a commit will be requested next."""
        self._write(number, first, end, TransactionOutcome.UNKNOWN)

    def ended(
        self,
        number: int,
        outcome: TransactionOutcome,
        *,
        first: int,
        end: int,
        at: int,
        error: str | None = None,
    ) -> None:
        self._write(number, first, end, outcome, ended_at=[at], error=[error])

    def close(self) -> None:
        self._stream.close()

    def _write(
        self, number: int, first: int, end: int, outcome: TransactionOutcome, **more: list[Any]
    ) -> None:
        self._stream.write(
            {
                "transaction": [number],
                "first_sequence": [first],
                "end_sequence": [end],
                "outcome": [str(outcome)],
                "initialized_at": [self._initialized_at],
                **more,
            }
        )


def applied(transactions: pa.Table, rows: pa.Table) -> pa.Table:
    """Return rows of a ledger stream with the outcomes that their transactions determine.

    A send outside all recorded transactions was in one without a requested commit.
    """
    import pyarrow.compute as pc

    sequence = rows["sequence"].to_numpy()
    first, end = (transactions[name].to_numpy() for name in ("first_sequence", "end_sequence"))
    words = transactions["outcome"].to_pylist()
    of_sends = np.array([_OF_SENDS[TransactionOutcome(word)] for word in words], np.int8)
    transaction = np.full(len(sequence), ABORTED, np.int8)
    if len(first):
        index = np.searchsorted(first, sequence, side="right") - 1
        within = (index >= 0) & (sequence < end[index])
        transaction[within] = of_sends[index[within]]
    reported = rows["outcome"].to_numpy()
    # A failed send stays failed. An unknown send of a committed transaction stays unknown.
    failed = reported == OUTCOMES.index(Outcome.FAILED)
    outcome = np.where(failed, reported, np.maximum(reported, transaction)).astype(np.int8)
    acked = outcome == OUTCOMES.index(Outcome.ACKED)
    offset = pc.if_else(pa.array(acked), rows["offset"], pa.scalar(None, pa.int64()))
    for name, values in (("outcome", pa.array(outcome)), ("offset", offset)):
        rows = rows.set_column(rows.schema.get_field_index(name), name, values)
    return rows


def transactions_of(ledger_stream: Path) -> pa.Table | None:
    """Return the transactions of the producer with this ledger stream; None if it has none."""
    name = ledger_stream.stem.removeprefix("_")
    run_dir = ledger_stream.parent.parent
    stream = arrow_stream.stream_path(run_dir, "transactions", name)
    table = run_dir / LOCATION["transactions"] / f"{name}.parquet"
    if table.exists():
        import pyarrow.parquet as pq

        return _last_of_each(pq.read_table(table, schema=TRANSACTIONS))
    return _last_of_each(arrow_stream.recover(stream, TRANSACTIONS)) if stream.exists() else None


def close(run_dir: Path) -> None:
    arrow_stream.close(run_dir, "transactions", TRANSACTIONS, reduced=_last_of_each)


_OF_SENDS = {
    TransactionOutcome.COMMITTED: OUTCOMES.index(Outcome.ACKED),
    TransactionOutcome.UNKNOWN: OUTCOMES.index(Outcome.UNKNOWN),
    TransactionOutcome.ABORTED: ABORTED,
}


def _last_of_each(rows: pa.Table) -> pa.Table:
    """Return the last row of each transaction: the answer, if there is one."""
    last = {number: index for index, number in enumerate(rows["transaction"].to_pylist())}
    return rows.take(pa.array(sorted(last.values()), pa.int64()))
