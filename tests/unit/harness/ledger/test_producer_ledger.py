"""The ledger keeps what was written, drops what was torn, and infers only what was reserved."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.errors import DiskError, RunDirectoryError
from ackproof.ledger import producer_ledger
from ackproof.ledger.producer_ledger import (
    InFlight,
    LedgerWriter,
    Origin,
    recover,
    stream_path,
    table_path,
)
from ackproof_spark.tables import LEDGER, Outcome
from stream_cuts import EVERY, cuts

ORIGIN = Origin(run_id="run-1", producer=7, topic="orders", partitions=3)
ACKED, FAILED, UNKNOWN = range(3)
TIMED_OUT = -192


def int64s(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def acked(writer: LedgerWriter, *sequences: int) -> None:
    writer.write(
        sequence=int64s(*sequences),
        outcome=ACKED,
        offset=pa.array([100 + sequence for sequence in sequences], pa.int64()),
        sent_at=int64s(*(1_000_000 + sequence for sequence in sequences)),
        resolved_at=int64s(*(2_000_000 + sequence for sequence in sequences)),
    )


def timed_out(writer: LedgerWriter, *sequences: int) -> None:
    writer.write(
        sequence=int64s(*sequences),
        outcome=UNKNOWN,
        error=pa.repeat(pa.scalar(TIMED_OUT, pa.int16()), len(sequences)),
        sent_at=int64s(*([1_000_000] * len(sequences))),
        resolved_at=int64s(*([2_000_000] * len(sequences))),
    )


def outcomes(table: pa.Table) -> dict[int, str]:
    return dict(zip(table["sequence"].to_pylist(), table["outcome"].to_pylist(), strict=True))


def small(path: Path) -> list[tuple[int, dict[int, str]]]:
    """Write a small ledger; return its size and what must be read after each message."""
    writer = LedgerWriter(path, ORIGIN)
    known: dict[int, str] = {}
    reserved = 0
    steps: list[tuple[int, dict[int, str]]] = []

    def note() -> None:
        inferred = dict.fromkeys(range(reserved), "unknown")
        steps.append((path.stat().st_size, inferred | known))

    note()
    writer.reserve(reserved := 4)
    note()
    acked(writer, 0, 2)
    known |= {0: "acked", 2: "acked"}
    note()
    timed_out(writer, 1)
    known |= {1: "unknown"}
    note()
    writer.reserve(reserved := 8)
    note()
    acked(writer, 3, 5, 4)
    known |= {3: "acked", 4: "acked", 5: "acked"}
    note()
    writer.close()
    steps.append((path.stat().st_size, dict(known)))
    return steps


@EVERY
def test_a_stream_cut_at_any_byte_is_read_as_the_messages_before_the_cut(tmp_path, every):
    whole = tmp_path / "whole"
    steps = small(whole)
    content = whole.read_bytes()
    assert steps[-1][0] == len(content)
    torn = tmp_path / "torn"
    seen = set()
    for cut in cuts(len(content), every=every, ends=[size for size, _ in steps]):
        torn.write_bytes(content[:cut])
        complete = [expected for size, expected in steps if size <= cut]
        expected = complete[-1] if complete else {}
        assert outcomes(recover(torn)) == expected, f"cut at byte {cut} of {len(content)}"
        seen.add(tuple(sorted(expected.items())))
    assert len(seen) == 6, "each message must make a difference, or the test proves nothing"


def test_recovered_rows_have_the_ledgers_schema_and_the_written_values(tmp_path):
    path = tmp_path / "stream"
    writer = LedgerWriter(path, ORIGIN)
    writer.reserve(3)
    acked(writer, 1)
    timed_out(writer, 2)
    table = recover(path)
    assert table.schema == LEDGER
    rows = {row["sequence"]: row for row in table.to_pylist()}
    assert rows[1]["offset"] == 101
    assert rows[1]["error"] is None
    assert rows[1]["partition"] == 1
    assert rows[1]["sent_at"].timestamp() == pytest.approx(1.000001)
    assert rows[1]["resolved_at"].timestamp() == pytest.approx(2.000001)
    assert (rows[2]["error"], rows[2]["offset"]) == ("_MSG_TIMED_OUT", None)
    assert rows[0] == {
        "schema_version": 1,
        "run_id": "run-1",
        "producer": 7,
        "sequence": 0,
        "topic": "orders",
        "partition": 0,
        "outcome": "unknown",
        "error": None,
        "offset": None,
        "sent_at": None,
        "resolved_at": None,
    }


def test_an_end_marker_within_an_incomplete_message_is_not_the_end(tmp_path):
    path = tmp_path / "stream"
    writer = LedgerWriter(path, ORIGIN)
    writer.reserve(2)
    # Eight bytes of data that look like Arrow's end-of-stream mark.
    writer.write(
        sequence=int64s(0),
        outcome=ACKED,
        sent_at=int64s(0xFFFFFFFF),
        resolved_at=int64s(0xFFFFFFFF),
    )
    content = path.read_bytes()
    mark = content.rindex(b"\xff\xff\xff\xff\x00\x00\x00\x00")
    path.write_bytes(content[: mark + 8])
    assert outcomes(recover(path))[1] == "unknown"


def test_an_existing_stream_is_not_overwritten(tmp_path):
    path = tmp_path / "stream"
    LedgerWriter(path, ORIGIN).reserve(2)
    with pytest.raises(DiskError, match="exists"):
        LedgerWriter(path, ORIGIN)
    assert len(outcomes(recover(path))) == 2


def test_recovering_an_absent_stream_is_an_error(tmp_path):
    with pytest.raises(RunDirectoryError, match="nothing-here"):
        recover(tmp_path / "nothing-here")


def test_a_full_disk_is_reported_and_recorded_sends_are_kept(tmp_path):
    path = tmp_path / "stream"
    writer = LedgerWriter(path, ORIGIN)
    writer.reserve(1000)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))
    written: list[int] = []

    def fill() -> None:
        for sequence in range(1000):
            acked(writer, sequence)
            written.append(sequence)

    try:
        with pytest.raises(DiskError, match=r"the ledger .* cannot be written") as caught:
            fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(path) in str(caught.value)
    assert "Free space" in caught.value.hint
    kept = outcomes(recover(path))
    assert written
    assert {kept[sequence] for sequence in written} == {"acked"}
    assert kept[written[-1] + 1] == "unknown"


def test_a_send_takes_at_most_40_bytes(tmp_path):
    path = tmp_path / "stream"
    writer = LedgerWriter(path, ORIGIN)
    rows = 2048
    acked(writer, *range(rows))
    assert path.stat().st_size / rows <= 40


class TestClose:
    def fill(self, run_dir: Path, producer: int = 7, *, whole: bool = True) -> Path:
        path = stream_path(run_dir, producer)
        writer = LedgerWriter(path, ORIGIN)
        writer.reserve(6)
        acked(writer, 4, 1, 0, 3, 2)
        if whole:
            writer.close()
        return path

    def test_converts_streams_to_parquet_sorted_by_partition_and_offset(self, tmp_path):
        stream = self.fill(tmp_path)
        assert producer_ledger.close(tmp_path) == [table_path(tmp_path, 7)]
        assert not stream.exists()
        table = pq.read_table(table_path(tmp_path, 7))
        assert table.schema == LEDGER
        assert table["partition"].to_pylist() == [0, 0, 1, 1, 2]
        assert table["offset"].to_pylist() == [100, 103, 101, 104, 102]

    def test_reads_the_same_as_recover(self, tmp_path):
        stream = self.fill(tmp_path, whole=False)
        recovered = recover(stream)
        assert outcomes(recovered)[5] == Outcome.UNKNOWN
        producer_ledger.close(tmp_path)
        assert pq.read_table(table_path(tmp_path, 7)).equals(recovered)

    def test_finishes_a_close_that_was_interrupted(self, tmp_path):
        """Producer 1 was converted but its stream not yet removed; 2 was being written."""
        self.fill(tmp_path, 1)
        stream = stream_path(tmp_path, 1).read_bytes()
        producer_ledger.close(tmp_path)
        converted = table_path(tmp_path, 1).read_bytes()
        stream_path(tmp_path, 1).write_bytes(stream)
        self.fill(tmp_path, 2)
        half = tmp_path / "ledger" / "_producer-2.parquet.tmp"
        half.write_bytes(b"PAR1 half")
        assert producer_ledger.close(tmp_path) == [table_path(tmp_path, 1), table_path(tmp_path, 2)]
        assert table_path(tmp_path, 1).read_bytes() == converted
        assert pq.read_table(table_path(tmp_path, 2)).num_rows == 5
        assert sorted(path.name for path in (tmp_path / "ledger").iterdir()) == [
            "producer-1.parquet",
            "producer-2.parquet",
        ]

    def test_of_many_rows_sorts_within_each_row_group(self, tmp_path, monkeypatch):
        monkeypatch.setattr(producer_ledger, "ROW_GROUP", 4)
        writer = LedgerWriter(stream_path(tmp_path, 7), ORIGIN)
        writer.reserve(20)
        for start in range(0, 16, 2):
            acked(writer, start + 1, start)
        producer_ledger.close(tmp_path)
        file = pq.ParquetFile(table_path(tmp_path, 7))
        groups = [file.read_row_group(group) for group in range(file.num_row_groups)]
        assert [group.num_rows for group in groups] == [4, 4, 4, 4, 4]
        for group in groups[:-1]:
            keys = list(
                zip(group["partition"].to_pylist(), group["offset"].to_pylist(), strict=True)
            )
            assert keys == sorted(keys)
        assert groups[-1]["sequence"].to_pylist() == [18, 16, 19, 17]


@given(
    partitions=st.integers(1, 5),
    chunks=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 100)), max_size=30),
    data=st.data(),
)
def test_it_agrees_with_a_plain_dictionary(partitions, chunks, data):
    """Chunks are handed over partition by partition; any share of what is open settles."""
    window = InFlight(capacity=4)
    expected: dict[int, int] = {}
    following = 0
    for at, (size, share) in enumerate(chunks, start=1):
        stop = following + size
        window.admit(following, stop)
        for start in range(following, min(following + partitions, stop)):
            sequences = range(start, stop, partitions)
            window.hand_over(np.array(sequences), at)
            expected |= dict.fromkeys(sequences, at)
        following = stop
        settling = data.draw(st.permutations(sorted(expected)))[: len(expected) * share // 100]
        sent_at = window.settle(np.array(settling, np.int64))
        assert sent_at.tolist() == [expected.pop(sequence) for sequence in settling]
        assert window.count == len(expected)
    assert window.rest().tolist() == sorted(expected)


def test_a_send_that_never_settles_is_kept_while_millions_pass():
    window = InFlight(capacity=8)
    window.admit(0, 1)
    window.hand_over(np.arange(1), 17)
    for start in range(1, 1_000_000, 1000):
        window.admit(start, start + 1000)
        window.hand_over(np.arange(start, start + 1000), 18)
        window.settle(np.arange(start, start + 1000))
    assert window.rest().tolist() == [0]
    assert window.settle(np.array([0])).tolist() == [17]


def test_it_does_not_grow_while_sends_settle():
    window = InFlight(capacity=1024)
    for start in range(0, 100_000, 100):
        window.admit(start, start + 100)
        window.hand_over(np.arange(start, start + 100), 1)
        window.settle(np.arange(start, start + 100))
    assert len(window._sent_at) == 1024
