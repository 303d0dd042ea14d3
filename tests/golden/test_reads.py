"""Histories with reads, hand-made and random: records that were read and are gone or elsewhere.

`reads/*.json` has the notation of `spark_histories`. Spark is compared with the expected rows and
with a definition in plain Python.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.tables import Outcome, RecordState
from golden.oracle import _stands_for
from golden.random_runs import damaged_history
from spark_histories import History, Read, parse, show, write_run

CASES = {
    name: case
    for file in sorted((Path(__file__).parent / "reads").glob("*.json"))
    for name, case in json.loads(file.read_text(encoding="utf-8")).items()
}
SEED = 20260103
#: `ci/lab/histories` raises their number.
HISTORIES = min(150, int(os.environ.get("ACKPROOF_HISTORIES", "30")))


def changed(history: History) -> list[str]:
    """Return the reads whose record is gone or elsewhere.

    They are written as by `spark_histories.show`, without `found`.
    """
    ends = {end.partition: end for end in history.ends}
    intact, standing = set(), set()  # a corrupt record stands for its send, too
    corrupt_names, corrupt_offsets = set(), set()
    for item in history.log:
        if item.state is RecordState.INTACT:
            intact.add((item.partition, item.producer, item.sequence))
            standing.add((item.partition, item.producer, item.sequence, item.offset))
        elif item.state is RecordState.CORRUPT:
            name = _stands_for(item, history)
            if name:
                corrupt_names.add((item.partition, *name))
                standing.add((item.partition, *name, item.offset))
            else:
                corrupt_offsets.add((item.partition, item.offset))
    first: dict[tuple[int, int, int], Read] = {}
    for read in sorted(history.reads, key=lambda read: (read.at, read.consumer, read.offset)):
        name = (read.partition, read.producer, read.sequence)
        end = ends.get(read.partition)
        states = [one for one in history.created if one.partition == read.partition]
        created = [one.at for one in states if one.replicas == states[0].replicas]
        if (
            read.producer is None
            or (*name, read.offset) in standing
            or (name in corrupt_names and name not in intact)
            or (read.partition, read.offset) in corrupt_offsets
            or end is None
            or read.offset < end.begin
            or (len(created) > 1 and read.at < max(created))
        ):
            continue
        offsets = [item.offset for item in history.log if item.partition == read.partition]
        if end.reason is None or any(offset >= read.offset for offset in offsets):
            first.setdefault(name, read)
    return sorted(
        f"{Anomaly.MISPLACED_READ if name in intact else Anomaly.READ_THEN_GONE} "
        f"{name[1]}/{name[2]} on {name[0]} at {read.offset}"
        for name, read in first.items()
    )


def with_reads(draw: random.Random) -> History:
    """Return a damaged history with reads by two consumers, also of records that are missing."""
    history = damaged_history(draw)
    names = [
        (send.partition, send.offset, send.producer, send.sequence)
        for send in history.sends
        if send.offset is not None
    ]
    names += [
        (draw.randrange(3), draw.randrange(40), send.producer, send.sequence)
        for send in history.sends
        if send.outcome is not Outcome.ACKED
    ]
    reads = [
        Read(
            partition=partition,
            offset=offset,
            producer=producer,
            sequence=sequence,
            consumer=draw.randrange(2),
            at=float(draw.randrange(50)),
        )
        for partition, offset, producer, sequence in names
        for _ in range(draw.choice([0, 1, 1, 2]))
    ]
    return History(sends=history.sends, log=history.log, ends=history.ends, reads=reads)


def found_by_spark(spark, run_dir: Path, histories: dict[str, History]) -> dict[str, list[dict]]:
    from ackproof_spark.checks.reads import changed
    from ackproof_spark.reading.run_tables import RunTables, StoredRun
    from ackproof_spark.spark.small_data import small_plans

    write_run(run_dir, histories)
    with small_plans(spark, rows=0):
        run = StoredRun(spark=spark, run_dir=run_dir)
        rows = changed(RunTables.of(run), run).toArrow().to_pylist()
    by_topic = defaultdict(list)
    for row in rows:
        by_topic[row["topic"]].append(row)
    return by_topic


@pytest.mark.spark
def test_spark_agrees_with_known_histories_and_with_the_definition_on_random_ones(spark, tmp_path):
    draw = random.Random(SEED)
    known = {f"t{index}": case for index, case in enumerate(CASES.values())}
    drawn = {f"random{index}": with_reads(draw) for index in range(HISTORIES)}
    histories = {topic: parse(case) for topic, case in known.items()} | drawn
    found = found_by_spark(spark, tmp_path, histories)
    shown = {topic: sorted(map(show, found[topic])) for topic in known}
    assert shown == {topic: sorted(case["expected"]) for topic, case in known.items()}
    for topic, history in drawn.items():
        rows = sorted(show(row, found=False) for row in found[topic])
        assert rows == changed(history), f"seed {SEED}, {topic}: {history}"
    kinds = Counter(row["anomaly"] for topic in drawn for row in found[topic])
    assert min(kinds[Anomaly.READ_THEN_GONE], kinds[Anomaly.MISPLACED_READ] * 5) > HISTORIES


@pytest.mark.parametrize("name", CASES)
def test_the_definition_agrees_with_the_hand_made_histories(name):
    expected = [line.partition(": ")[0].partition(" in ")[0] for line in CASES[name]["expected"]]
    assert changed(parse(CASES[name])) == sorted(expected)
