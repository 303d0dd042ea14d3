"""Holds the tables of consumers, transactions and the probe against what else was recorded of them.

A consumer counts its reads and effects on its progress page once they are recorded. The outcomes of
a transactional producer's sends follow from its transactions (`ledger.transaction_log`), the
probe's attempts to write from its ledger, and its page counts its attempts to read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.clients.shared_page import State
from ackproof.errors import RunDirectoryError
from ackproof.judgement import progress_pages
from ackproof.ledger import conversion
from ackproof.runs import table_files
from ackproof.scenario.model import Scenario
from ackproof_spark.tables import LOCATION, PROBE, PROBE_PRODUCERS, TRANSACTIONS, Outcome

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Sequences = npt.NDArray[np.int64]

#: What names a record that a consumer read or processed; its topic is that of its group.
_RECORD = ("partition", "offset", "producer", "sequence")

#: Any odd number with many bits: multiplying by it loses nothing of a 64-bit number.
_ODD = 0x9E3779B97F4A7C15


def contradictions(run_dir: Path, scenario: Scenario) -> Iterator[str]:
    """Yield in what these tables differ from the rest of a run. Raises RunDirectoryError."""
    import pyarrow as pa

    try:
        yield from _of_consumers(run_dir, scenario)
        if scenario.workload.transactions is not None:
            yield from _of_transactions(run_dir, scenario.workload.topic)
        if scenario.workload.probe:
            yield from _of_probe(run_dir)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise RunDirectoryError(f"the files of clients of {run_dir} are damaged: {error}") from None


def _of_consumers(run_dir: Path, scenario: Scenario) -> Iterator[str]:
    # Who forwards reads again what it could not forward, and its effects are in other topics.
    forwards = any(group.into for group in scenario.workload.consumers.values())
    for path in sorted((run_dir / "clients").glob("consumer-*.progress")):
        state, counted = progress_pages.read(path)
        exact = state is State.DONE and not forwards
        reads, effects = (
            run_dir / LOCATION[table] / f"{path.stem}.parquet" for table in ("reads", "effects")
        )
        differing = [
            f"{path.stem} counted {count:,} {table.parent.name}, and its table has {rows:,}"
            for table, count in ((reads, counted.sent), (effects, counted.acked))
            if (rows := _rows(table)) < count or (exact and rows > count)
            if table == reads or not forwards
        ]
        if exact and not differing and _fingerprint(reads) != _fingerprint(effects):
            differing = [f"{path.stem} has processed other records than it read"]
        yield from differing


def _of_transactions(run_dir: Path, topic: str) -> Iterator[str]:
    for path in sorted((run_dir / LOCATION["ledger"]).glob("producer-*.parquet")):
        # Neither the probe nor the producers of other topics have transactions.
        of_probe = int(path.stem.removeprefix("producer-")) >= PROBE_PRODUCERS
        if of_probe or table_files.distinct(path, "topic") - {topic}:
            continue
        table = run_dir / LOCATION["transactions"] / path.name
        page = run_dir / "clients" / f"{path.stem}.progress"
        state, counted = progress_pages.read(page) if page.exists() else (State.BROKEN, None)
        doubtful = counted.unknown if counted and state is State.DONE else None
        yield from _of_producer(path, _rows_in_order(table), doubtful=doubtful)


def _of_producer(ledger: Path, transactions: pa.Table, *, doubtful: int | None) -> Iterator[str]:
    """Yield in what the transactions of a producer differ from its ledger.

    `doubtful` is how many sends it counted as unknown, if it ended by itself: no more of them can
    be unknown once their transaction is committed.
    """
    import numpy as np
    import pyarrow.parquet as pq

    first, end = (transactions[name].to_numpy() for name in ("first_sequence", "end_sequence"))
    words = transactions["outcome"].to_pylist()
    committed, aborted = (
        np.array([word == outcome for word in words], dtype=bool)
        for outcome in ("committed", "aborted")
    )
    if transactions["transaction"].to_pylist() != list(range(len(transactions))):
        yield f"the transactions of {ledger.stem} are not numbered from 0 without a gap"
    if (end[:-1] > first[1:]).any():
        yield f"the transactions of {ledger.stem} overlap"
    highest, contradicting, unknown = -1, 0, 0
    with pq.ParquetFile(ledger) as file:
        for batch in file.iter_batches(columns=["sequence", "outcome"]):
            sequence = batch["sequence"].to_numpy()
            outcome = batch["outcome"].to_numpy(zero_copy_only=False)
            highest = max(highest, sequence.max(initial=-1))
            in_committed = _within(sequence, first, end, committed)
            in_aborted = _within(sequence, first, end, aborted)
            contradicting += int(np.sum((outcome == Outcome.ACKED) & ~in_committed))
            contradicting += int(np.sum((outcome == Outcome.ABORTED) & in_committed))
            contradicting += int(np.sum((outcome == Outcome.UNKNOWN) & in_aborted))
            unknown += int(np.sum((outcome == Outcome.UNKNOWN) & in_committed))
        rows = file.metadata.num_rows
    if highest + 1 != rows:
        yield f"{ledger.stem} has {rows:,} sends in its ledger, and the last is number {highest:,}"
    if len(end) and end.max() > highest + 1:
        yield f"the transactions of {ledger.stem} have more sends than its ledger"
    if contradicting:
        yield f"{contradicting} sends of {ledger.stem} have not the outcome of their transaction"
    if doubtful is not None and unknown > doubtful:
        yield (
            f"{ledger.stem} counted {doubtful:,} unknown sends, and its committed transactions "
            f"have {unknown:,}"
        )


def _of_probe(run_dir: Path) -> Iterator[str]:
    import pyarrow.parquet as pq

    folder = run_dir / LOCATION["probe"]
    for ledger in sorted((run_dir / LOCATION["ledger"]).glob("producer-*.parquet")):
        number = int(ledger.stem.removeprefix("producer-"))
        if number < PROBE_PRODUCERS:
            continue
        table = folder / f"writes-{number}.parquet"
        attempts = conversion.writes(ledger).sort_by("sequence")
        recorded = (
            pq.read_table(table, schema=PROBE).sort_by("sequence") if table.exists() else None
        )
        if recorded != attempts:
            yield f"the probe's writes {number} in the table probe are not those of its ledger"
    for page in sorted((run_dir / "clients").glob("probe-[0-9]*.progress")):
        _, counted = progress_pages.read(page)
        if not counted.sent:  # it counts them when it ends by itself
            continue
        tables = [pq.read_table(path, schema=PROBE) for path in folder.glob("reads-*.parquet")]
        answers = [one for table in tables for one in table["ok"].to_pylist()]
        if (counted.sent, counted.acked, counted.unknown) != (
            len(answers),
            sum(answers),
            len(answers) - sum(answers),
        ):
            yield (
                f"the probe counted {counted.sent:,} attempts to read, {counted.acked:,} of them "
                f"answered, and recorded {len(answers):,} and {sum(answers):,}"
            )


def _rows(path: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows) if path.is_file() else 0


def _fingerprint(path: Path) -> int:
    """Return a number that the records in a table of a consumer determine, in whatever order."""
    import numpy as np
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    total = 0
    if not path.is_file():
        return total
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=list(_RECORD)):
            mixed = np.zeros(batch.num_rows, np.uint64)
            for name in _RECORD:
                column = pc.fill_null(batch[name].cast("int64"), -1).to_numpy()
                mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(_ODD)
                mixed ^= mixed >> np.uint64(32)
            total += int(mixed.sum())
    return total % 2**64


def _rows_in_order(path: Path) -> pa.Table:
    """Return the transactions of one producer; none if it left no table."""
    import pyarrow.parquet as pq

    if not path.is_file():
        return TRANSACTIONS.empty_table()
    return pq.read_table(path, schema=TRANSACTIONS).sort_by("transaction")


def _within(
    sequence: Sequences, first: Sequences, end: Sequences, which: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return which sequences are in one of these transactions, given in order."""
    import numpy as np

    first, end = first[which], end[which]
    index = np.searchsorted(first, sequence, side="right") - 1
    within = index >= 0
    within[within] = sequence[within] < end[index[within]]
    return within
