"""Looks: what they say of a log that was cut, of a new topic, and of files that grow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ackproof_spark.watch.looks import LINES, RECORDS, TOPIC_LINES, LookReader, Offset, expanded
from ackproof_spark.watch.partition import NONE, WINDOW, Kind


class Cluster(LookReader):
    """A cluster of one topic whose log ends and epochs the test says."""

    def __init__(self, folder: Path, **start: int) -> None:
        options = {"topics": ["orders"], "acked_topics": [], "paths": [str(folder)]}
        options["start"] = {"orders": {"0": start["start"]}} if start else {}
        super().__init__({name: json.dumps(value) for name, value in options.items()})
        self.log: list[int] = []
        self.begin = 0
        self.id = "one"
        self.offset = self.initialOffset()

    def _cluster(self) -> tuple[dict[str, tuple[int, int, int]], dict[str, int], dict[str, str]]:
        if not self.id:
            return {}, {}, {}
        last = self.log[-1] if self.log else 0
        return {"orders/0": (self.begin, len(self.log), last)}, {"acks/0": 7}, {"orders": self.id}

    def _newer(self, name: str, begin: int, end: int, epoch: int) -> int:
        return next((n for n in range(begin, end) if self.log[n] > epoch), end)

    def look(self) -> list[dict[str, Any]]:
        """Return the rows of the next look, which are the same when it is read again."""
        before = self.offset
        batches, self.offset = self.read(before)
        again = [
            row
            for batch in self.readBetweenOffsets(before, self.offset)
            for row in batch.to_pylist()
        ]
        assert [row for batch in batches for row in batch.to_pylist()] == again
        assert json.loads(json.dumps(self.offset)) == self.offset
        return again


def asked(rows: list[dict[str, Any]], kind: int) -> list[tuple[int, int, int]]:
    return [(row["first"], row["last"], row["again"]) for row in rows if row["kind"] == kind]


def of_look(rows: list[dict[str, Any]], *names: str) -> list[int]:
    [row] = [row for row in rows if row["kind"] == Kind.LOOK]
    return [row[name] for name in names]


def test_a_log_that_was_replaced_is_read_again_up_to_where_it_had_ended(tmp_path: Path) -> None:
    file = tmp_path / "acked.jsonl"
    cluster = Cluster(tmp_path)
    for end in (40, 60, 100):
        cluster.log = [0] * end
        with file.open("a") as lines:
            lines.write("x\n" * 10)
        rows = cluster.look()
        assert of_look(rows, "reset") == [NONE]
        assert asked(rows, RECORDS) == []
        assert asked(rows, LINES) == [(end_of_file(file) - 20, end_of_file(file), 0)]
    cluster.log = [0] * 70 + [1] * 10
    rows = cluster.look()
    assert of_look(rows, "reset", "hole", "hole_end") == [70, 80, 100 + WINDOW]
    assert asked(rows, RECORDS) == [(70, 80, 0)]
    assert asked(rows, LINES) == [(40, 60, 1)], "from the mark at which the log ended at 60"
    assert asked(rows, TOPIC_LINES) == [], "the topic had no line since"
    cluster.log += [1] * 5
    rows = cluster.look()
    assert of_look(rows, "reset", "hole", "hole_end") == [NONE, 85, 100 + WINDOW]
    assert asked(rows, RECORDS) == [(80, 85, 0)]
    cluster.log += [1] * 50
    assert asked(cluster.look(), RECORDS) == [(85, 135, 0)]
    cluster.log += [1] * WINDOW
    assert asked(cluster.look(), RECORDS) == [(135, 100 + WINDOW, 0)]
    rows = cluster.look()
    assert (asked(rows, RECORDS), asked(rows, LINES)) == ([], [])


def end_of_file(file: Path) -> int:
    return file.stat().st_size


def test_a_new_epoch_without_a_truncation_replaces_nothing(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.log = [0] * 10
    cluster.look()
    cluster.log += [3] * 4
    rows = cluster.look()
    assert of_look(rows, "reset", "hole", "hole_end") == [10, 14, 14 + WINDOW]
    assert asked(rows, RECORDS) == [(10, 14, 0)], "others may have been fetched before"


def test_a_log_that_ends_earlier_is_cut_even_without_a_new_epoch(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.log = [0] * 10
    cluster.look()
    cluster.log = [0] * 6
    assert of_look(cluster.look(), "reset", "hole", "hole_end") == [6, 6, 10 + WINDOW]
    assert of_look(cluster.look(), "reset", "hole", "hole_end") == [NONE, 6, 10 + WINDOW]


def test_a_topic_that_was_deleted_and_created_is_a_new_one(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, start=5)
    cluster.log = [0] * 10
    assert of_look(cluster.look(), "start") == [5]
    cluster.id = ""
    assert cluster.look() == []
    cluster.id, cluster.log = "two", [0] * 3
    rows = cluster.look()
    assert of_look(rows, "recreated", "reset", "start") == [1, 0, 0]
    assert asked(rows, RECORDS) == [(0, 3, 0)]


def test_only_whole_lines_are_read_and_a_shorter_file_from_its_start(tmp_path: Path) -> None:
    file = tmp_path / "acked.jsonl"
    cluster = Cluster(tmp_path)
    file.write_text("one\ntwo\nthr")
    rows = cluster.look()
    assert asked(rows, LINES) == [(0, 8, 0)]
    file.write_text("one\ntwo\nthree\n")
    rows = cluster.look()
    assert asked(rows, LINES) == [(8, 14, 0)]
    read = [
        row
        for batch in expanded(cluster_rows(cluster.offset, rows), {})
        for row in batch.to_pylist()
    ]
    assert [(row["kind"], row["value"]) for row in read if row["value"]] == [(Kind.ACK, b"three\n")]
    file.write_text("1\n")
    assert asked(cluster.look(), LINES) == [(0, 2, 0)]


def cluster_rows(_: Offset, rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    from ackproof_spark.watch.looks import CONTROL

    return iter([pa.RecordBatch.from_pylist(rows, schema=CONTROL)])


def test_without_an_answer_time_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path)
    cluster.look()
    before = cluster.offset

    def silent(self: Cluster) -> None:
        raise TimeoutError

    monkeypatch.setattr(Cluster, "_cluster", silent)
    assert cluster.look() == []
    assert cluster.offset == before


def test_the_marks_of_a_long_watch_are_few(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    for _ in range(500):
        cluster.look()
    numbers = [mark["number"] for mark in cluster.offset["marks"]]
    assert numbers[0] == 1
    assert numbers[-4:] == [497, 498, 499, 500]
    assert len(numbers) < 45
