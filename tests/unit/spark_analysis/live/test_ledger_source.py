"""The ledger as a stream: only whole batches, each once; missed rows are an error."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ackproof.ledger import producer_ledger
from ackproof.ledger.producer_ledger import LedgerWriter, stream_path
from ackproof_spark.errors import AnalysisError
from ackproof_spark.ledger_stream import Origin, read_piece
from ackproof_spark.live import ledger_source
from ackproof_spark.live.ledger_source import LedgerReader, acked
from ackproof_spark.live.partition import Kind
from stream_cuts import EVERY, cuts


def writer(run_dir: Path, producer: int = 0) -> LedgerWriter:
    origin = Origin(run_id=run_dir.name, producer=producer, topic="orders", partitions=3)
    return LedgerWriter(stream_path(run_dir, producer), origin)


def write(to: LedgerWriter, *sequences: int, outcome: int = 0) -> None:
    numbers = np.array(sequences, np.int64)
    to.write(
        sequence=numbers,
        outcome=outcome,
        offset=pa.array(numbers // 3) if outcome == 0 else None,
        sent_at=numbers * 1000,
        resolved_at=numbers * 1000 + 500,
    )


def reader(run_dir: Path) -> LedgerReader:
    return LedgerReader(run_dir / "ledger", run_dir / "live" / "ended")


def sequences(batches) -> list[int]:
    return [row["sequence"] for batch in batches for row in batch.to_pylist()]


def kinds(batches) -> list[list[Kind]]:
    return [batch["kind"].to_pylist() for batch in batches]


@EVERY
def test_the_pieces_of_a_stream_add_up_to_it_wherever_it_was_cut(tmp_path, every):
    out = writer(tmp_path)
    path = stream_path(tmp_path, 0)
    sizes = [path.stat().st_size]
    out.reserve(8)
    for first in range(0, 8, 2):
        sizes.append(path.stat().st_size)
        write(out, first, first + 1)
    sizes.append(path.stat().st_size)
    out.close()
    content = path.read_bytes()
    torn = tmp_path / "torn"
    ends = set()
    for cut in cuts(len(content), every=every, ends=sizes):
        torn.write_bytes(content[:cut])
        before = read_piece(torn, 0)
        assert before.end <= cut
        torn.write_bytes(content)
        rest = read_piece(torn, before.end)
        again = read_piece(torn, 0, before.end)
        found = [batch["sequence"].to_pylist() for batch in before.batches + rest.batches]
        assert found == [[0, 1], [2, 3], [4, 5], [6, 7]], f"cut at byte {cut}"
        assert again.batches == before.batches
        ends.add(before.end)
    assert len(ends) == 7, "schema, reservation and four batches each make a difference"


def test_appended_rows_are_read_once_with_the_columns_of_the_origin(tmp_path):
    first, second = writer(tmp_path, 0), writer(tmp_path, 1)
    first.reserve(10)
    write(first, 0, 4)
    source = reader(tmp_path)
    batches, offset = source.read(source.initialOffset())
    mark, batch = batches
    assert mark["kind"].to_pylist() == [Kind.STARTED]
    assert batch.to_pylist()[1] == {
        "topic": "orders",
        "partition": 1,
        "kind": Kind.ACKED,
        "producer": 0,
        "sequence": 4,
        "offset": 1,
        "at": batch["at"][1].as_py(),
    }
    assert batch["at"].cast(pa.int64()).to_pylist() == [500, 4500]
    assert sequences(source.read(offset)[0]) == []
    write(second, 7, outcome=2)
    write(first, 1)
    batches, _ = source.read(offset)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["producer"], row["sequence"], row["kind"]) for row in rows] == [
        (0, 1, Kind.ACKED),
        (1, 7, Kind.UNKNOWN),
    ]
    assert rows[1]["offset"] == -1


def test_two_offsets_always_give_the_same_rows(tmp_path):
    out = writer(tmp_path)
    write(out, 0, 1)
    source = reader(tmp_path)
    _, start = source.read({})
    write(out, 2, 3)
    batches, end = source.read(start)
    first = list(batches)
    write(out, 4, 5)
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    assert list(reader(tmp_path).readBetweenOffsets(start, end)) == first
    assert sequences(first) == [2, 3]


def test_the_mark_of_the_end_comes_last_and_once(tmp_path):
    out = writer(tmp_path)
    write(out, 0)
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "ended").touch()
    source = reader(tmp_path)
    batches, offset = source.read({})
    assert kinds(batches) == [[Kind.STARTED], [Kind.ACKED], [Kind.ENDED]]
    again = list(source.readBetweenOffsets({}, offset))
    assert kinds(again) == [[Kind.STARTED], [Kind.ACKED], [Kind.ENDED]]
    times = [again[place]["at"].cast(pa.int64()).to_pylist() for place in (0, -1)]
    assert times == [[0], [0]], "they move no time"
    assert list(source.read(offset)[0]) == []


@pytest.mark.parametrize("at_most", [100, 5000])
def test_a_long_ledger_is_read_in_pieces_of_all_streams(tmp_path, monkeypatch, at_most):
    monkeypatch.setattr(ledger_source, "AT_MOST", at_most)
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "ended").touch()
    out = [writer(tmp_path, producer) for producer in range(2)]
    for first in range(0, 60, 3):
        for to in out:
            write(to, *range(first, first + 3))
    write(out[0], *range(60, 1000))  # a batch larger than the limit
    source = reader(tmp_path)
    pieces, offsets = [], [source.initialOffset()]
    while offsets[-1] not in offsets[:-1]:
        batches, offset = source.read(offsets[-1])
        pieces.append([row for batch in batches for row in batch.to_pylist()])
        again = source.readBetweenOffsets(offsets[-1], offset)
        assert [row for batch in again for row in batch.to_pylist()] == pieces[-1]
        offsets.append(offset)
    assert len(pieces) > 4
    assert {row["producer"] for row in pieces[1]} == {0, 1}, "side by side"
    assert all(len(piece) <= 30 for piece in pieces if len(piece) < 900)
    rows = [row for piece in pieces for row in piece]
    assert (rows[0]["kind"], rows[-1]["kind"]) == (Kind.STARTED, Kind.ENDED)
    for producer, count in ((0, 1000), (1, 60)):
        own = [row["sequence"] for row in rows[1:-1] if row["producer"] == producer]
        assert own == list(range(count))


def test_a_ledger_closed_after_it_was_read_is_no_error(tmp_path):
    out = writer(tmp_path)
    out.reserve(5)
    write(out, 0, 1)
    source = reader(tmp_path)
    _, offset = source.read({})
    producer_ledger.close(tmp_path)  # adds 2, 3 and 4 as unknown: their producer died
    assert list(source.read(offset)[0]) == []


def test_a_ledger_closed_before_it_was_read_is_an_error(tmp_path):
    out = writer(tmp_path)
    out.reserve(3)
    write(out, 0, 1)
    source = reader(tmp_path)
    _, offset = source.read({})
    write(out, 2)
    producer_ledger.close(tmp_path)
    with pytest.raises(AnalysisError, match="closed before it was followed to its end"):
        source.read(offset)
    with pytest.raises(AnalysisError, match="closed before it was followed to its end"):
        list(source.readBetweenOffsets({}, offset))


def test_without_a_ledger_there_is_only_the_mark_of_the_start(tmp_path):
    batches, offset = reader(tmp_path).read({})
    assert kinds(batches) == [[Kind.STARTED]]
    again, later = reader(tmp_path).read(offset)
    assert kinds(again) == []
    assert later == offset


def test_the_acked_sends_of_a_partition_are_read_again_from_an_offset_on(tmp_path):
    out = writer(tmp_path)
    out.reserve(15)
    write(out, *range(12))
    write(out, 13, 14, outcome=1)
    other = writer(tmp_path, producer=1)
    other.reserve(11)
    write(other, 1, 10)
    again = list(acked(tmp_path / "ledger", "orders", 1, 2))
    assert sequences(again) == [7, 10, 10]
    assert sequences(acked(tmp_path / "ledger", "others", 1, 0)) == []
    producer_ledger.close(tmp_path)
    with pytest.raises(AnalysisError, match="closed before it was followed to its end"):
        list(acked(tmp_path / "ledger", "orders", 1, 2))
