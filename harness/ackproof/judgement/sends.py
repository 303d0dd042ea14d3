"""What the judge asks of each producer's ledger, collected in one pass over its file.

Times are in microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ackproof.judgement.evidence import ABSENT, Evidence, Numbers, batches_of, int64, number_of
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_spark.tables import TRANSACTIONS, Outcome

#: A time after all others.
NEVER = int(np.iinfo(np.int64).max)

#: How far the clock of a machine may be corrected during a run.
CORRECTED_US = 1_000_000

_COLUMNS = ("sequence", "topic", "partition", "outcome", "sent_at", "resolved_at")
_WORDS = ("topic", "outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sends:
    """The sends of one producer.

    `first_at` and `last_at`: the earliest and latest time of a send or an outcome. `last_acks`: an
    ack without a time is at `NEVER`. `untimed`: acked sends that lack a time. `backwards`: sends
    that were acked before they were sent. `sent_at`: when the sends that begin a transaction
    were sent, by sequence, as far as known. `contradicting`: sends with another outcome than their
    transaction. `doubtful`: unknown sends of committed transactions.
    """

    producer: int
    rows: int
    last_sequence: int
    first_at: int | None
    last_at: int | None
    last_acks: Mapping[TopicPartition, int]
    untimed: int
    backwards: int
    sent_at: Mapping[int, int]
    contradicting: int
    doubtful: int


def sends_of(evidence: Evidence, ledger: Path) -> Sends:
    """Return the sends in a producer's ledger."""

    def read() -> Sends:
        ranges = _Ranges.of(transactions(evidence, ledger.stem))
        return _collected(ledger, batches_of(ledger, _COLUMNS, dictionaries=_WORDS), ranges)

    return evidence.once((Sends, ledger), read)


def readable_sends(evidence: Evidence) -> list[Sends]:
    """Return the sends of each producer; of a damaged ledger those that can be read."""

    def read(ledger: Path) -> Sends:
        try:
            return sends_of(evidence, ledger)
        except (pa.ArrowException, OSError, KeyError):
            batches = evidence.readable_batches(ledger, _COLUMNS)
            return _collected(ledger, batches, _Ranges.of(TRANSACTIONS.empty_table()))

    return [read(ledger) for ledger in evidence.ledgers()]


def transactions(evidence: Evidence, producer: str) -> pa.Table:
    """Return the transactions of a producer in order; without a table there are none."""
    path = evidence.file("transactions", producer)

    def read() -> pa.Table:
        if not path.is_file():
            return TRANSACTIONS.empty_table()
        return pq.read_table(path, schema=TRANSACTIONS).sort_by("transaction")

    return evidence.once(path, read)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranges:
    """The sequences of transactions: from `first` to `end` (exclusive)."""

    first: Numbers
    end: Numbers
    committed: NDArray[np.bool_]
    aborted: NDArray[np.bool_]
    #: The sequence after all of them.
    following: int

    @classmethod
    def of(cls, transactions: pa.Table) -> _Ranges:
        first, end = (int64(transactions[name]) for name in ("first_sequence", "end_sequence"))
        words = np.asarray(transactions["outcome"].to_pylist(), dtype=object)
        return cls(
            first=first,
            end=end,
            committed=words == "committed",
            aborted=words == "aborted",
            following=int(end[-1]) if len(end) else 0,
        )

    def of_sends(self, sequence: Numbers) -> list[NDArray[np.bool_]]:
        """Return which sends are in a committed and in an aborted transaction, and which begin one.

        The first send after all transactions may begin one that never ended.
        """
        begins = sequence == self.following
        if not len(self.first):
            nowhere = np.zeros(len(sequence), dtype=bool)
            return [nowhere, nowhere, begins]
        index = np.searchsorted(self.first, sequence, side="right") - 1
        inside = (index >= 0) & (sequence < self.end[index])
        begins |= (index >= 0) & (sequence == self.first[index])
        return [inside & self.committed[index], inside & self.aborted[index], begins]


def _collected(ledger: Path, batches: Iterable[pa.RecordBatch], ranges: _Ranges) -> Sends:
    producer = number_of(ledger)
    parts = [_of_batch(producer, batch, ranges) for batch in batches]
    last_acks: dict[TopicPartition, int] = {}
    for part in parts:
        for partition, at in part.last_acks.items():
            last_acks[partition] = max(at, last_acks.get(partition, at))
    first = [part.first_at for part in parts if part.first_at is not None]
    last = [part.last_at for part in parts if part.last_at is not None]
    return Sends(
        producer=producer,
        rows=sum(part.rows for part in parts),
        last_sequence=max((part.last_sequence for part in parts), default=-1),
        first_at=min(first, default=None),
        last_at=max(last, default=None),
        last_acks=last_acks,
        untimed=sum(part.untimed for part in parts),
        backwards=sum(part.backwards for part in parts),
        sent_at={sequence: at for part in parts for sequence, at in part.sent_at.items()},
        contradicting=sum(part.contradicting for part in parts),
        doubtful=sum(part.doubtful for part in parts),
    )


def _of_batch(producer: int, batch: pa.RecordBatch, ranges: _Ranges) -> Sends:
    sequence, sent, resolved = (
        int64(batch[name]) for name in ("sequence", "sent_at", "resolved_at")
    )
    is_sent, is_resolved = sent != ABSENT, resolved != ABSENT
    acked, unknown, aborted = _outcomes(batch["outcome"])
    timed = is_sent & is_resolved
    in_committed, in_aborted, begins = ranges.of_sends(sequence)
    begins &= is_sent
    ends = [
        int(end)
        for times in (sent[is_sent], resolved[is_resolved])
        if len(times)
        for end in (times.min(), times.max())
    ]
    return Sends(
        producer=producer,
        rows=batch.num_rows,
        last_sequence=int(sequence.max(initial=-1)),
        first_at=min(ends, default=None),
        last_at=max(ends, default=None),
        last_acks=_last_acks(batch, acked, resolved),
        untimed=int(np.sum(acked & ~timed)),
        backwards=int(np.sum(acked & timed & (resolved - sent < -CORRECTED_US))),
        sent_at=dict(zip(sequence[begins].tolist(), sent[begins].tolist(), strict=True)),
        contradicting=int(
            np.sum(acked & ~in_committed | aborted & in_committed | unknown & in_aborted)
        ),
        doubtful=int(np.sum(unknown & in_committed)),
    )


def _outcomes(column: pa.Array) -> list[NDArray[np.bool_]]:
    """Return which sends are acked, unknown, and aborted."""
    words = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    code = int64(words.indices)
    number = {word: at for at, word in enumerate(words.dictionary.to_pylist())}
    return [
        code == number.get(str(outcome), -1)
        for outcome in (Outcome.ACKED, Outcome.UNKNOWN, Outcome.ABORTED)
    ]


def _last_acks(
    batch: pa.RecordBatch, acked: NDArray[np.bool_], resolved: Numbers
) -> dict[TopicPartition, int]:
    topics = batch["topic"]
    if not pa.types.is_dictionary(topics.type):
        topics = topics.dictionary_encode()
    table = pa.table(
        {
            "topic": topics.indices,
            "partition": batch["partition"],
            "at": np.where(resolved == ABSENT, NEVER, resolved),
        }
    ).filter(pa.array(acked))
    rows = table.group_by(["topic", "partition"], use_threads=False).aggregate([("at", "max")])
    names = topics.dictionary.to_pylist()
    return {(names[row["topic"]], row["partition"]): row["at_max"] for row in rows.to_pylist()}
