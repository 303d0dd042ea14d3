"""A correct log of some thousand records, and one change: exactly its anomalies are reported.

The records are real bytes, parsed by the same expressions as Kafka's records.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
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
SENDS = 1500
PARTITIONS = 3
SIZE = 64

Log = dict[tuple[int, int], bytes]
"""(partition, offset) to value."""


def _faultless() -> tuple[list[Send], Log]:
    draw = random.Random(7)
    sends: list[Send] = []
    log: Log = {}
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
PARTITION, OFFSET = 1, 700
PRODUCER, SEQUENCE = record.decode(FAULTLESS[PARTITION, OFFSET])[1:]
THIS = f"{PRODUCER}/{SEQUENCE}"
BEHIND = next(
    offset
    for offset in range(OFFSET + 1, ENDS[PARTITION])
    if record.decode(FAULTLESS[PARTITION, offset])[1] == PRODUCER
)
NEXT_SEQUENCE = record.decode(FAULTLESS[PARTITION, BEHIND])[2]


def _drop(log: Log) -> None:
    del log[PARTITION, OFFSET]


def _drop_tail(log: Log) -> None:
    del log[PARTITION, ENDS[PARTITION] - 1]


def _duplicate(log: Log) -> None:
    log[PARTITION, ENDS[PARTITION]] = log[PARTITION, OFFSET]


def _swap(log: Log) -> None:
    first, second = (PARTITION, OFFSET), (PARTITION, BEHIND)
    log[first], log[second] = log[second], log[first]


def _never_sent(log: Log) -> None:
    value = record.encoder(run_id=RUN_ID, producer=9, size=SIZE)(77)
    log[PARTITION, ENDS[PARTITION]] = value


def _of_another_run(log: Log) -> None:
    value = record.encoder(run_id="another", producer=9, size=SIZE)(77)
    log[PARTITION, ENDS[PARTITION]] = value


def _foreign(log: Log) -> None:
    log[PARTITION, ENDS[PARTITION]] = b"AKP"


def _tombstone(log: Log) -> None:
    log[PARTITION, ENDS[PARTITION]] = None


def _flip(position: int) -> Callable[[Log], None]:
    def flip(log: Log) -> None:
        value = bytearray(log[PARTITION, OFFSET])
        value[position] ^= 0x01
        log[PARTITION, OFFSET] = bytes(value)

    return flip


def _cut(log: Log) -> None:
    log[PARTITION, OFFSET] = log[PARTITION, OFFSET][:31]


def _cut_padding(log: Log) -> None:
    log[PARTITION, OFFSET] = log[PARTITION, OFFSET][:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bite:
    damage: Callable[[Log], None]
    expected: list[str]


def _last(partition: int) -> str:
    producer, sequence = record.decode(FAULTLESS[partition, ENDS[partition] - 1])[1:]
    return f"{producer}/{sequence}"


HERE = f"on {PARTITION} at {OFFSET}"
AT_THE_END = f"on {PARTITION} at {ENDS[PARTITION]}"
CHECKSUM = "the bytes do not match their checksum"
BITES = {
    "nothing": Bite(damage=lambda log: None, expected=[]),
    "drop one": Bite(
        damage=_drop, expected=[f"lost {THIS} {HERE}: a gap: no record at offset {OFFSET}"]
    ),
    "drop the last": Bite(
        damage=_drop_tail,
        expected=[
            f"unseen {_last(PARTITION)} on {PARTITION} at {ENDS[PARTITION] - 1}: "
            f"read up to {ENDS[PARTITION] - 1} of {ENDS[PARTITION]}"
        ],
    ),
    "duplicate one": Bite(
        damage=_duplicate,
        expected=[
            f"duplicated {THIS} {AT_THE_END}: copy 2 of 2, at offsets {OFFSET}, {ENDS[PARTITION]}"
        ],
    ),
    "swap two": Bite(
        damage=_swap,
        expected=[
            f"inconsistent {THIS} {HERE}: it stands at offset {BEHIND}",
            f"inconsistent {PRODUCER}/{NEXT_SEQUENCE} on {PARTITION} at {BEHIND}: "
            f"it stands at offset {OFFSET}",
            f"reordered {THIS} on {PARTITION} at {BEHIND}: "
            f"behind sequence {NEXT_SEQUENCE}, which stands at offset {OFFSET}",
        ],
    ),
    "add one never sent": Bite(
        damage=_never_sent, expected=[f"phantom 9/77 {AT_THE_END}: never sent"]
    ),
    "add one of another run": Bite(
        damage=_of_another_run,
        expected=[f"phantom {AT_THE_END}: of another run: its producer 9 sequence 77"],
    ),
    "add a foreign one": Bite(
        damage=_foreign, expected=[f"phantom {AT_THE_END}: foreign: starts with 414B50"]
    ),
    "add a tombstone": Bite(
        damage=_tombstone, expected=[f"phantom {AT_THE_END}: foreign: an empty record"]
    ),
    "flip a bit of the checksum": Bite(
        damage=_flip(4), expected=[f"corrupt {THIS} {HERE}: {CHECKSUM}"]
    ),
    "flip a bit of the run": Bite(
        damage=_flip(15),
        expected=[
            f"corrupt {THIS} {HERE}: {CHECKSUM}; their header names no send of this run",
        ],
    ),
    "flip a bit of the sequence": Bite(
        damage=_flip(31),
        expected=[
            f"corrupt {THIS} {HERE}: {CHECKSUM}; "
            f"their header says producer {PRODUCER} sequence {SEQUENCE ^ 1}"
        ],
    ),
    "flip a bit of the padding": Bite(
        damage=_flip(SIZE - 1), expected=[f"corrupt {THIS} {HERE}: {CHECKSUM}"]
    ),
    "cut a header": Bite(
        damage=_cut, expected=[f"corrupt {THIS} {HERE}: cut short: 31 bytes are left"]
    ),
    "cut a padding": Bite(damage=_cut_padding, expected=[f"corrupt {THIS} {HERE}: {CHECKSUM}"]),
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
    for name, bite in BITES.items():
        log = dict(FAULTLESS)
        bite.damage(log)
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
    assert compared[1][TOPICS[name]] == BITES[name].expected


def test_sends_and_anomalies_are_counted(compared):
    result, _ = compared
    assert (result.sent, result.acked) == (len(SENT) * len(BITES),) * 2
    assert (result.failed, result.unknown) == (0, 0)
    expected = [line.split()[0] for bite in BITES.values() for line in bite.expected]
    assert result.counts == {anomaly: expected.count(anomaly) for anomaly in Anomaly}
    assert [row["anomaly"] for row in result.shown] == sorted(expected, key=[*Anomaly].index)
