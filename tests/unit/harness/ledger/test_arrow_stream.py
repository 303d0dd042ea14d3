"""Streams of tables: what was written is read, up to what was torn; and transactions on top."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.errors import RunDirectoryError
from ackproof.ledger import arrow_stream, producer_ledger, transaction_log
from ackproof.ledger.arrow_stream import TableStream, recover
from ackproof.ledger.producer_ledger import LedgerWriter, Origin
from ackproof.ledger.transaction_log import TransactionLog
from ackproof.ledger.transaction_log import TransactionOutcome as Is
from ackproof_spark.tables import EFFECTS, READS, TRANSACTIONS
from stream_cuts import EVERY, cuts

WHOSE = {
    "run_id": "run-1",
    "consumer": 3,
    "group": "billing",
    "isolation_level": "read_committed",
    "topic": "orders",
}


def poll(stream: TableStream, number: int, *offsets: int) -> None:
    stream.write(
        {
            "poll": [number] * len(offsets),
            "number": list(range(len(offsets))),
            "partition": [0] * len(offsets),
            "offset": list(offsets),
            "sequence": [None] * len(offsets),
            "read_at": [1_000_000] * len(offsets),
        }
    )


@EVERY
def test_a_stream_cut_at_any_byte_is_read_as_the_batches_before_the_cut(tmp_path, every):
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    stream = TableStream(whole, READS, WHOSE)
    sizes = {0: 0}
    for number, offsets in enumerate([(0, 1), (2,), (3, 4, 5)]):
        poll(stream, number, *offsets)
        sizes[offsets[-1] + 1] = whole.stat().st_size
    stream.close()
    content = whole.read_bytes()
    for cut in cuts(len(content), every=every, ends=sizes.values()):
        torn.write_bytes(content[:cut])
        expected = max(rows for rows, size in sizes.items() if size <= cut)
        assert recover(torn, READS)["offset"].to_pylist() == list(range(expected)), cut


def test_rows_have_the_tables_schema_with_constants(tmp_path):
    stream = TableStream(tmp_path / "stream", READS, WHOSE)
    poll(stream, 5, 17)
    table = recover(tmp_path / "stream", READS)
    assert table.schema == READS
    (row,) = table.to_pylist()
    assert {key: row[key] for key in WHOSE} == WHOSE
    assert (row["schema_version"], row["poll"], row["offset"]) == (1, 5, 17)
    assert (row["producer"], row["sequence"]) == (None, None)
    assert row["read_at"].timestamp() == 1


def test_closing_writes_one_parquet_file_per_process_and_can_be_repeated(tmp_path):
    path = arrow_stream.stream_path(tmp_path, "reads", "consumer-3")
    poll(TableStream(path, READS, WHOSE), 0, 1, 2)  # never closed: its process was killed
    for _ in range(2):
        arrow_stream.close(tmp_path, "reads", READS)
        assert not path.exists()
        assert pq.read_table(tmp_path / "reads" / "consumer-3.parquet").num_rows == 2


def test_a_stream_that_differs_from_the_table_of_its_process_is_refused(tmp_path):
    path = arrow_stream.stream_path(tmp_path, "reads", "consumer-3")
    poll(TableStream(path, READS, WHOSE), 0, 1, 2)
    arrow_stream.close(tmp_path, "reads", READS)
    poll(TableStream(path, READS, WHOSE), 0, 1)
    with pytest.raises(RunDirectoryError, match="are of the same process and differ"):
        arrow_stream.close(tmp_path, "reads", READS)
    assert path.exists()
    assert len(list(path.parent.iterdir())) == 2


def test_a_conversion_writes_nothing_through_links(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "_consumer-0.parquet.tmp").symlink_to(victim)
    target = tmp_path / "consumer-0.parquet"
    arrow_stream.convert(tmp_path, target, lambda to: to.write_text("rows") and None)
    assert (victim.read_text(), target.read_text()) == ("precious", "rows")


def test_a_stream_that_is_a_link_is_refused(tmp_path):
    path = arrow_stream.stream_path(tmp_path, "effects", "consumer-0")
    path.parent.mkdir()
    path.symlink_to(tmp_path / "victim")
    with pytest.raises(RunDirectoryError, match=f"{path.name} is a link"):
        arrow_stream.close(tmp_path, "effects", EFFECTS)


class TestTransactions:
    def log(self, run_dir: Path) -> TransactionLog:
        return TransactionLog(
            arrow_stream.stream_path(run_dir, "transactions", "producer-0"),
            {"run_id": "run-1", "producer": 0, "predecessor": None, "transactional_id": "id"},
            initialized_at=5,
        )

    def sends(self, run_dir: Path, *reported: int) -> list[tuple[str, int | None]]:
        """Write a ledger with these outcomes, close it, and return what it says of each send."""
        origin = Origin(run_id="run-1", producer=0, topic="orders", partitions=1)
        writer = LedgerWriter(producer_ledger.stream_path(run_dir, 0), origin)
        writer.reserve(len(reported))
        for sequence, outcome in enumerate(reported):
            offset = pa.array([sequence if outcome == 0 else None], pa.int64())
            writer.write(sequence=pa.array([sequence]).to_numpy(), outcome=outcome, offset=offset)
        writer.close()
        (path,) = producer_ledger.close(run_dir)
        rows = sorted(pq.read_table(path).to_pylist(), key=lambda row: row["sequence"])
        return [(row["outcome"], row["offset"]) for row in rows]

    def test_a_send_is_acked_only_in_a_committed_transaction(self, tmp_path):
        log = self.log(tmp_path)
        log.committing(0, first=0, end=1)
        log.ended(0, Is.COMMITTED, first=0, end=1, at=9)
        log.ended(1, Is.ABORTED, first=1, end=2, at=9)
        log.committing(2, first=2, end=3)  # and then it died
        assert self.sends(tmp_path, 0, 0, 0, 0) == [
            ("acked", 0),
            ("aborted", None),
            ("unknown", None),
            ("aborted", None),  # nobody asked for a commit of the one that was open
        ]

    def test_failed_sends_stay_failed_and_unknown_ones_are_not_acked(self, tmp_path):
        log = self.log(tmp_path)
        log.ended(0, Is.COMMITTED, first=0, end=2, at=9)
        log.ended(1, Is.ABORTED, first=2, end=4, at=9)
        assert [word for word, _ in self.sends(tmp_path, 1, 2, 1, 2)] == [
            *("failed", "unknown"),
            *("failed", "aborted"),
        ]

    def test_the_table_has_the_last_row_of_each_transaction(self, tmp_path):
        log = self.log(tmp_path)
        log.committing(0, first=0, end=1)
        log.ended(0, Is.ABORTED, first=0, end=1, at=9, error="_FENCED")
        log.committing(1, first=1, end=2)
        transaction_log.close(tmp_path)
        table = pq.read_table(tmp_path / "transactions" / "producer-0.parquet")
        assert table.schema == TRANSACTIONS
        assert table["outcome"].to_pylist() == ["aborted", "unknown"]
        assert table["error"].to_pylist() == ["_FENCED", None]
        assert table["ended_at"].null_count == 1

    def test_closing_the_transactions_first_changes_nothing_for_the_ledger(self, tmp_path):
        log = self.log(tmp_path)
        log.ended(0, Is.ABORTED, first=0, end=1, at=9)
        transaction_log.close(tmp_path)
        assert self.sends(tmp_path, 0) == [("aborted", None)]

    def test_without_transactions_an_acked_send_is_acked(self, tmp_path):
        assert self.sends(tmp_path, 0, 2) == [("acked", 0), ("unknown", None)]
