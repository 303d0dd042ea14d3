"""The final log: the JVM classifies bytes as `record.decode` does, and ends are as read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from ackproof_spark import tables
from ackproof_spark.reading import final_log
from ackproof_spark.reading.final_log import (
    PartitionEnd,
    read_final_log,
    take_final_log,
    write_final_log,
)
from ackproof_spark.reading.record_columns import parse_records
from ackproof_spark.record import (
    END_MARKER,
    HEADER_SIZE,
    MAGIC,
    decode,
    encoder,
    run_token,
)

pytestmark = pytest.mark.spark

RUN_ID = "r"
SCHEMA = "topic string, partition int, offset bigint, timestamp timestamp, value binary"
NOW = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


@st.composite
def _values(draw) -> bytes | None:
    run_id = draw(st.sampled_from([RUN_ID, RUN_ID, "another"]))
    number = st.integers(0, 2**63 - 1) | st.integers(0, 300)
    size = draw(st.integers(HEADER_SIZE, 80))
    whole = encoder(run_id=run_id, producer=draw(number), size=size)(draw(number))
    how = draw(st.sampled_from(["whole", "flip", "cut", "noise", "magic", "none"]))
    if how == "flip":
        damaged = bytearray(whole)
        damaged[draw(st.integers(0, size - 1))] ^= draw(st.integers(1, 255))
        return bytes(damaged)
    return {
        "whole": whole,
        "cut": whole[: draw(st.integers(0, size - 1))],
        "noise": draw(st.binary(max_size=70)),
        "magic": MAGIC + draw(st.binary(max_size=70)),
        "none": None,
    }[how]


def _expected(value: bytes | None) -> tuple[str, int | None, int | None, int, str | None]:
    size = len(value or b"")
    decoded = None if value is None else decode(value)
    if decoded is not None and decoded[0] == run_token(RUN_ID):
        return ("intact", decoded[1], decoded[2], size, None)
    ours = value is not None and value.startswith(MAGIC)
    state = "corrupt" if ours and decoded is None else "foreign"
    return (state, None, None, size, None if value is None else value[:64].hex().upper())


def test_spark_and_python_classify_values_alike(spark):
    values: list[bytes | None] = []

    @seed(1)
    @settings(
        max_examples=500,
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(_values())
    def draw(value):
        values.append(value)

    draw()
    records = spark.createDataFrame(
        [("t", 0, offset, NOW, value) for offset, value in enumerate(values)], SCHEMA
    )
    rows = sorted(parse_records(records, run_id=RUN_ID).collect(), key=lambda row: row["offset"])
    judged = [
        (row["state"], row["producer"], row["sequence"], row["size"], row["head"]) for row in rows
    ]
    assert judged == [_expected(value) for value in values]
    assert {state for state, *_ in judged} == {"intact", "corrupt", "foreign"}


def _end(partition: int, begin: int, end: int, **rest) -> PartitionEnd:
    return PartitionEnd(topic="t", partition=partition, begin_offset=begin, end_offset=end, **rest)


def test_stored_tables_have_the_declared_types_and_the_ends_as_read(spark, tmp_path):
    encode = encoder(run_id=RUN_ID, producer=1, size=40)
    offsets = [(0, 0), (0, 1), (1, 5), (1, 7)]
    records = spark.createDataFrame([("t", p, o, NOW, encode(o)) for p, o in offsets], SCHEMA)
    ends = [
        _end(0, 0, 2),
        _end(1, 5, 9),
        _end(2, 3, 8),
        _end(3, 4, 4),
        _end(4, 0, 0, complete=False, reason="no leader"),
    ]
    log = write_final_log(
        parse_records(records, run_id=RUN_ID), run_id=RUN_ID, ends=ends, run_dir=tmp_path
    )
    assert log.records == len(offsets)
    assert [(end.complete, end.reason) for end in log.ends] == [
        (True, None),
        (False, "read up to 8 of 9"),
        (False, "read up to 3 of 8"),
        (True, None),
        (False, "no leader"),
    ]
    stored = pq.read_table(tmp_path / tables.LOCATION["final_log"])
    assert [(f.name, f.type) for f in stored.schema] == [(f.name, f.type) for f in tables.FINAL_LOG]
    assert stored["written_at"].to_pylist() == [NOW] * len(offsets)
    stored_ends = pq.read_table(tmp_path / tables.LOCATION["partition_ends"])
    assert stored_ends.schema.equals(tables.PARTITION_ENDS)
    assert stored_ends["reason"].to_pylist() == [end.reason for end in log.ends]


def test_an_empty_range_gives_an_empty_log_without_a_broker(spark, tmp_path):
    ends = [_end(0, 3, 3)]
    log = read_final_log(
        spark, run_id=RUN_ID, bootstrap_servers="127.0.0.1:1", ends=ends, options={}
    )
    assert log.columns == tables.FINAL_LOG.names
    written = write_final_log(log, run_id=RUN_ID, ends=ends, run_dir=tmp_path)
    assert (written.records, written.ends) == (0, tuple(ends))


_WITHOUT_CONNECTOR = """
import json, os
from ackproof_spark.errors import AnalysisError
from ackproof_spark.reading.final_log import PartitionEnd, read_final_log
from ackproof_spark.spark.session import choose, session, stop

choose("local[1]")
spark = session()
end = PartitionEnd(topic="t", partition=0, begin_offset=0, end_offset=1)
try:
    read_final_log(spark, run_id="r", bootstrap_servers="127.0.0.1:1", ends=[end], options={})
    message = ""
except AnalysisError as error:
    message = str(error)
zone = spark.conf.get("spark.sql.session.timeZone")
same = session() is spark
stop()
print(json.dumps({"message": message, "zone": zone, "same": same}))
"""


@pytest.mark.slow
def test_a_session_is_quiet_leaves_no_files_and_reports_a_missing_connector(tmp_path):
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_CONNECTOR],
        capture_output=True,
        text=True,
        check=False,
        cwd=here,
        env={
            **os.environ,
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "TMPDIR": str(temporary),
            "TZ": "Asia/Tokyo",
        },
    )
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert "python -m ackproof_spark.spark.connector" in result["message"]
    assert (result["zone"], result["same"]) == ("UTC", True)
    assert list(here.iterdir()) == []
    assert list(temporary.iterdir()) == []


def raw(spark, *records: tuple[int, int, bytes | None]):
    return spark.createDataFrame(
        [("t", p, offset, NOW, value) for p, offset, value in records], SCHEMA
    )


@pytest.fixture
def take(spark, tmp_path, monkeypatch):
    """Take a final log of these raw records; return it, and the ranges that were read."""

    def taken(records, ends, **options):
        asked = []

        def read_records(spark, *, ends, **rest):
            asked.append([(end.partition, end.begin_offset, end.end_offset) for end in ends])
            wanted = " or ".join(
                f"(partition = {end.partition} and offset >= {end.begin_offset}"
                f" and offset < {end.end_offset})"
                for end in ends
            )
            return records.where(wanted)

        monkeypatch.setattr(final_log, "read_records", read_records)
        log = take_final_log(
            spark,
            run_id=RUN_ID,
            bootstrap_servers="127.0.0.1:1",
            ends=ends,
            run_dir=tmp_path,
            options={},
            **options,
        )
        return log, asked

    return taken


def test_a_partition_whose_end_marker_was_read_is_complete(spark, take):
    mine = encoder(run_id=RUN_ID, producer=1, size=40)
    records = raw(
        spark,
        (0, 0, mine(0)),
        (0, 2, END_MARKER),
        (1, 5, mine(1)),
        (1, 6, None),
        (1, 7, END_MARKER),
    )
    log, asked = take(records, [_end(0, 0, 2), _end(1, 5, 7), _end(2, 3, 3)])
    assert [(end.complete, end.reason) for end in log.ends] == [(True, None)] * 3
    assert asked == [[(0, 0, 3), (1, 5, 8), (2, 3, 3)]]
    offsets = [(row["partition"], row["offset"]) for row in log.log.collect()]
    assert sorted(offsets) == [(0, 0), (1, 5), (1, 6)]


def test_a_partition_without_its_end_marker_is_read_again_and_reported(spark, take):
    """An end marker of an earlier run is a record like any other."""
    mine = encoder(run_id=RUN_ID, producer=1, size=40)
    records = raw(spark, (0, 0, mine(0)), (0, 3, END_MARKER), (1, 0, END_MARKER), (1, 1, mine(1)))
    log, asked = take(records, [_end(0, 0, 3), _end(1, 0, 4)])
    assert [(end.complete, end.reason) for end in log.ends] == [
        (True, None),
        (False, "read up to 2 of 4"),
    ]
    assert asked[1:] == [[(0, 1, 4), (1, 2, 5)]]
    assert log.records == 3
