"""Records that retention or compaction removed are not counted as lost."""

from __future__ import annotations

import pytest

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.comparison import Comparison, compare
from ackproof_spark.matching.row_groups import Sizing
from spark_histories import anomalies_of, parse, write_run

pytestmark = pytest.mark.spark

DEFAULT = Sizing()
#: With and without the plans for few rows.
SIZINGS = [DEFAULT, pytest.param(Sizing(few=0), marks=pytest.mark.slow)]

#: Ten keys: the key of a send is the last digit of its sequence.
TEN = {"t": 10}


def timed(sends: list[str]) -> list[str]:
    return [f"{line} [{at}-{at}.5]" for at, line in enumerate(sends)]


def compared(spark, folder, sends, log, *ends, keys=None, sizing=DEFAULT) -> Comparison:
    write_run(folder, {"t": parse({"sends": timed(sends), "log": log, "ends": ends})})
    return compare(spark, folder, keys=keys, count_removed=True, sizing=sizing)


def counted(result: Comparison) -> tuple[int, int, int | None]:
    return result.counts[Anomaly.LOST], result.counts[Anomaly.UNSEEN], result.removed


SENDS = [f"1/{n} to 0: acked at {n}" for n in range(30)]
NEWEST = [f"0@{n}: 1/{n}" for n in range(20, 30)]


#: By topic: sends, log, ends, the number of keys, the sequences of lost sends, removed sends.
CASES: dict[str, tuple[list[str], list[str], list[str], int | None, list[int], int]] = {
    "replaced": (SENDS, NEWEST, ["0: 0-30"], 10, [], 20),
    "not-compacted": (SENDS, NEWEST, ["0: 0-30"], None, [*range(20)], 0),
    "before-the-begin": (SENDS, NEWEST[:-1], ["0: 20-30"], 10, [29], 20),
    "replaced-by-another-producer": (
        ["1/3 to 0: acked at 0", "2/13 to 0: acked at 1"],
        ["0@1: 2/13"],
        ["0: 0-2"],
        10,
        [],
        1,
    ),
    "the-later-record-is-in-another-partition": (
        ["1/3 to 0: acked at 0", "1/13 to 1: acked at 1", "1/4 to 0: acked at 1"],
        ["1@1: 1/13", "0@1: 1/4"],
        ["0: 0-2", "1: 0-2"],
        10,
        [3],
        0,
    ),
}


@pytest.mark.parametrize("sizing", SIZINGS)
def test_removed_records_are_not_lost(spark, tmp_path, sizing):
    topics = {
        topic: parse({"sends": timed(sends), "log": log, "ends": ends})
        for topic, (sends, log, ends, *_) in CASES.items()
    }
    write_run(tmp_path, topics)
    keys = {topic: case[3] for topic, case in CASES.items() if case[3] is not None}
    result = compare(spark, tmp_path, keys=keys, count_removed=True, sizing=sizing)
    lost = {
        topic: sorted(row["sequence"] for row in anomalies_of(tmp_path) if row["topic"] == topic)
        for topic in CASES
    }
    assert lost == {topic: case[4] for topic, case in CASES.items()}
    removed = sum(case[5] for case in CASES.values())
    assert counted(result) == (sum(map(len, lost.values())), 0, removed)


@pytest.mark.parametrize("sizing", SIZINGS)
def test_the_newest_record_of_a_key_is_lost_if_it_is_absent(spark, tmp_path, sizing):
    # The log has no record of key 7: 7, 17 and 27 are lost. Of key 8 it has 18: 28 is lost.
    log = ["0@18: 1/18", *NEWEST[:7], NEWEST[9]]
    result = compared(spark, tmp_path, SENDS, log, "0: 0-30", keys=TEN, sizing=sizing)
    assert counted(result) == (4, 0, 17)
    assert sorted(row["sequence"] for row in result.shown) == [7, 17, 27, 28]


@pytest.mark.slow
def test_a_send_without_an_offset_may_be_removed_if_the_log_has_its_key(spark, tmp_path):
    sends = ["1/3 to 0: acked", "1/4 to 0: acked", "1/13 to 0: acked at 2"]
    result = compared(spark, tmp_path, sends, ["0@2: 1/13"], "0: 0-3", keys=TEN)
    assert counted(result) == (1, 1, 0)
    (found,) = [row["found"] for row in result.shown if row["anomaly"] == Anomaly.UNSEEN]
    assert found.endswith("compaction may have removed it")


def test_removed_sends_are_counted_only_on_request(spark, tmp_path):
    write_run(tmp_path, {"t": parse({"ends": ["0: 0-0"]})})
    assert compare(spark, tmp_path).removed is None
