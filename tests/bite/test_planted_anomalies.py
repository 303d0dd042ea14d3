"""A correct log of some hundred records, and one change: exactly its anomalies are reported.

The records are real bytes, parsed by the same expressions as Kafka's records.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from ackproof_spark import record
from ackproof_spark.anomaly import Anomaly
from ackproof_spark.tables import Outcome
from spark_histories import (
    RUN_ID,
    History,
    Send,
    anomalies_of,
    show,
    write_run,
)

pytestmark = pytest.mark.spark

PRODUCERS = 2
SENDS = 300
PARTITIONS = 3
SIZE = 64

Log = Mapping[tuple[int, int], bytes | None]
"""(partition, offset) to value."""
Change = Callable[[Log], Log]


def _faultless() -> tuple[list[Send], dict[tuple[int, int], bytes]]:
    draw = random.Random(7)
    sends: list[Send] = []
    log: dict[tuple[int, int], bytes] = {}
    next_offset = [0] * PARTITIONS
    encode = [record.encoder(run_id=RUN_ID, producer=p, size=SIZE) for p in range(PRODUCERS)]
    for sequence in range(SENDS):
        for producer in range(PRODUCERS):
            partition = draw.randrange(PARTITIONS)
            offset = next_offset[partition]
            next_offset[partition] += 1
            log[partition, offset] = encode[producer](sequence)
            sends.append(
                Send(
                    producer=producer,
                    sequence=sequence,
                    partition=partition,
                    outcome=Outcome.ACKED,
                    offset=offset,
                    sent=sequence / 100,
                    resolved=sequence / 100 + 0.01,
                )
            )
    return sends, log


SENT, FAULTLESS = _faultless()
ENDS = {p: 1 + max(offset for q, offset in FAULTLESS if q == p) for p in range(PARTITIONS)}
PARTITION, OFFSET = 1, 140
PRODUCER, SEQUENCE = record.decode(FAULTLESS[PARTITION, OFFSET])[1:]
THIS = f"{PRODUCER}/{SEQUENCE}"
BEHIND = next(
    offset
    for offset in range(OFFSET + 1, ENDS[PARTITION])
    if record.decode(FAULTLESS[PARTITION, offset])[1] == PRODUCER
)
NEXT_SEQUENCE = record.decode(FAULTLESS[PARTITION, BEHIND])[2]


def _drop(offset: int) -> Change:
    return lambda log: {at: value for at, value in log.items() if at != (PARTITION, offset)}


def _append(value: bytes | None) -> Change:
    return lambda log: {**log, (PARTITION, ENDS[PARTITION]): value}


def _replace(new: Callable[[bytes], bytes]) -> Change:
    return lambda log: {**log, (PARTITION, OFFSET): new(FAULTLESS[PARTITION, OFFSET])}


def _flip(position: int) -> Change:
    return _replace(
        lambda value: value[:position] + bytes([value[position] ^ 1]) + value[position + 1 :]
    )


def _swap(log: Log) -> Log:
    first, second = (PARTITION, OFFSET), (PARTITION, BEHIND)
    return {**log, first: log[second], second: log[first]}


def _strange(run_id: str) -> bytes:
    return record.encoder(run_id=run_id, producer=9, size=SIZE)(77)


def _last(partition: int) -> str:
    producer, sequence = record.decode(FAULTLESS[partition, ENDS[partition] - 1])[1:]
    return f"{producer}/{sequence}"


HERE = f"on {PARTITION} at {OFFSET}"
AT_THE_END = f"on {PARTITION} at {ENDS[PARTITION]}"
CHECKSUM = "the bytes do not match their checksum"
BITES: dict[str, tuple[Change, list[str]]] = {
    "nothing": (dict, []),
    "drop one": (_drop(OFFSET), [f"lost {THIS} {HERE}: no readable record at offset {OFFSET}"]),
    "drop the last": (
        _drop(ENDS[PARTITION] - 1),
        [
            f"unseen {_last(PARTITION)} on {PARTITION} at {ENDS[PARTITION] - 1}: "
            f"read up to {ENDS[PARTITION] - 1} of {ENDS[PARTITION]}"
        ],
    ),
    "duplicate one": (
        _append(FAULTLESS[PARTITION, OFFSET]),
        [f"duplicated {THIS} {AT_THE_END}: copy 2 of 2, at offsets {OFFSET}, {ENDS[PARTITION]}"],
    ),
    "swap two": (
        _swap,
        [
            f"inconsistent {THIS} {HERE}: it stands at offset {BEHIND}",
            f"inconsistent {PRODUCER}/{NEXT_SEQUENCE} on {PARTITION} at {BEHIND}: "
            f"it stands at offset {OFFSET}",
            f"reordered {THIS} on {PARTITION} at {BEHIND}: "
            f"behind sequence {NEXT_SEQUENCE}, which stands at offset {OFFSET}",
        ],
    ),
    "add one never sent": (_append(_strange(RUN_ID)), [f"phantom 9/77 {AT_THE_END}: never sent"]),
    "add one of another run": (
        _append(_strange("another")),
        [f"phantom {AT_THE_END}: of another run: its producer 9 sequence 77"],
    ),
    "add a foreign one": (_append(b"AKP"), [f"phantom {AT_THE_END}: foreign: starts with 414B50"]),
    "add a tombstone": (_append(None), [f"phantom {AT_THE_END}: foreign: an empty record"]),
    "flip a bit of the checksum": (_flip(4), [f"corrupt {THIS} {HERE}: {CHECKSUM}"]),
    "flip a bit of the run": (
        _flip(15),
        [
            f"corrupt {THIS} {HERE}: {CHECKSUM}; their header names no send of this run",
        ],
    ),
    "flip a bit of the sequence": (
        _flip(31),
        [
            f"corrupt {THIS} {HERE}: {CHECKSUM}; "
            f"their header says producer {PRODUCER} sequence {SEQUENCE ^ 1}"
        ],
    ),
    "flip a bit of the padding": (_flip(SIZE - 1), [f"corrupt {THIS} {HERE}: {CHECKSUM}"]),
    "cut a header": (
        _replace(lambda value: value[:31]),
        [f"corrupt {THIS} {HERE}: cut short: 31 bytes are left"],
    ),
    "cut a padding": (_replace(lambda value: value[:-1]), [f"corrupt {THIS} {HERE}: {CHECKSUM}"]),
}
TOPICS = {name: f"t{index}" for index, name in enumerate(BITES)}


@pytest.fixture(scope="module")
def compared(spark, tmp_path_factory):
    from ackproof_spark.checks.comparison import compare
    from ackproof_spark.reading.final_log import PartitionEnd, write_final_log
    from ackproof_spark.reading.record_columns import parse_records

    run_dir = tmp_path_factory.mktemp("bite")
    write_run(
        run_dir,
        {topic: History(sends=SENT, log=[], ends=[]) for topic in TOPICS.values()},
        log=False,
    )
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows, ends = [], []
    for name, (damage, _) in BITES.items():
        log = damage(FAULTLESS)
        rows += [
            (TOPICS[name], partition, offset, start + timedelta(milliseconds=offset), value)
            for (partition, offset), value in log.items()
        ]
        for partition in range(PARTITIONS):
            last = max(offset for p, offset in log if p == partition)
            ends.append(
                PartitionEnd(
                    topic=TOPICS[name],
                    partition=partition,
                    begin_offset=0,
                    end_offset=max(ENDS[partition], last + 1),
                )
            )
    records = spark.createDataFrame(
        rows, "topic string, partition int, offset bigint, timestamp timestamp, value binary"
    )
    written = write_final_log(
        parse_records(records, run_id=RUN_ID), run_id=RUN_ID, ends=ends, run_dir=run_dir
    )
    assert written.records == len(rows)
    result = compare(spark, run_dir)
    found: dict[str, list[str]] = {topic: [] for topic in TOPICS.values()}
    for row in anomalies_of(run_dir):
        found[row["topic"]].append(show(row))
    return result, found


@pytest.mark.parametrize("name", BITES)
def test_exactly_the_planted_anomaly_is_reported(name, compared):
    assert compared[1][TOPICS[name]] == BITES[name][1]


def test_sends_and_anomalies_are_counted(compared):
    result, _ = compared
    assert (result.sent, result.acked) == (len(SENT) * len(BITES),) * 2
    assert (result.failed, result.unknown) == (0, 0)
    expected = [line.split()[0] for _, lines in BITES.values() for line in lines]
    assert result.counts == {anomaly: expected.count(anomaly) for anomaly in Anomaly}
    assert [row["anomaly"] for row in result.shown] == sorted(expected, key=[*Anomaly].index)
