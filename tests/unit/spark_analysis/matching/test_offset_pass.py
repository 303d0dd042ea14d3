"""The pass by offset: the rows that remain, its plans, and the layouts that it refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from ackproof_spark import tables
from ackproof_spark.anomaly import Anomaly
from ackproof_spark.matching.offset_pass import Unmatched, unmatched
from ackproof_spark.matching.row_groups import (
    Layout,
    RecordGroup,
    Sizing,
    TakeGeneralPath,
    read_layout,
)
from ackproof_spark.matching.slices import slices
from ackproof_spark.reading.run_tables import RunTables
from benchmarks.planted import plant
from spark_histories import parse, write_run

SENDS = 900_000
FORCED = Sizing(from_rows=0)
NEVER = Sizing(placed=2.0)  # no run has so large a share of sends with an offset
UNDECIDABLE = "topic string, partition int, producer long, sequence long, reason string"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[Path, set]:
    run_dir = tmp_path_factory.mktemp("planted") / "run"
    planted = plant(run_dir, records=SENDS, seed=3)
    return run_dir, planted.anomalies


@pytest.mark.spark
@pytest.mark.parametrize(
    "sizing",
    [
        FORCED,
        # golden/ has these with histories of a few rows.
        pytest.param(Sizing(), marks=pytest.mark.slow),
        pytest.param(NEVER, marks=pytest.mark.slow),
        pytest.param(Sizing(from_rows=0, rows_a_slice=200_000), marks=pytest.mark.slow),
        pytest.param(Sizing(from_rows=0, few=0), marks=pytest.mark.slow),
    ],
)
def test_exactly_the_planted_anomalies_are_found(spark, run, tmp_path, sizing):
    from ackproof_spark.checks.comparison import compare

    run_dir, planted = run
    compare(spark, run_dir, output=tmp_path, sizing=sizing)
    names = ["anomaly", "partition", "producer", "sequence", "offset"]
    rows = pq.read_table(tmp_path / tables.LOCATION["anomalies"], columns=names).to_pylist()
    found = [tuple(row[name] for name in names) for row in rows]
    assert set(found) == planted
    assert len(found) == len(planted)


@pytest.fixture
def left(spark, run) -> Iterator[Callable[[Sizing], Unmatched]]:
    """Return a function that reduces the tables of the run."""
    with ExitStack() as caches:
        whole = RunTables.read(spark, run[0])
        yield lambda sizing: unmatched(spark, run[0], whole, sizing=sizing, caches=caches)


def executed(frame) -> str:
    """Return the physical plan of a frame."""
    with redirect_stdout(StringIO()) as printed:
        frame.explain()
    return printed.getvalue()


@pytest.mark.spark
def test_nearly_all_rows_are_dropped_without_an_exchange(spark, run, left):
    reduced = left(replace(FORCED, few=0))
    for table in (reduced.ledger, reduced.final_log):
        assert table.count() < SENDS / 500
        plan = executed(table)
        assert "MapInArrow" in plan
        assert "Exchange" not in plan
        assert "FileScan" not in plan  # the Python workers read the files
    assert sum(reduced.outcomes.values()) == SENDS
    # The control: the general path shuffles both tables.
    plan = executed(RunTables.read(spark, run[0]).suspects)
    assert "Exchange" in plan
    assert plan.count("FileScan") == 2


@pytest.mark.slow
@pytest.mark.spark
def test_the_driver_compares_a_small_run_itself(run, left):
    one, other = left(Sizing()), left(Sizing(from_rows=read_layout(None, run[0]).rows))
    assert one.outcomes == other.outcomes
    for here, in_tasks in ((one.ledger, other.ledger), (one.final_log, other.final_log)):
        assert "Scan" in executed(here)
        assert "MapInArrow" not in executed(here)
        assert Counter(here.collect()) == Counter(in_tasks.collect())


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sizing", "reason"),
    [
        (Sizing(few=10), "do not match"),
        pytest.param(Sizing(from_rows=0, lookups=3), "more than 3", marks=pytest.mark.slow),
    ],
)
def test_too_many_remaining_rows_or_names_take_the_general_path(left, sizing, reason):
    with pytest.raises(TakeGeneralPath, match=reason):
        left(sizing)


@pytest.mark.slow
@pytest.mark.spark
def test_undecidable_sends_are_passed_on(spark, run):
    run_dir, _ = run
    reasons = spark.createDataFrame([("t", 0, 1, 7, "why")], UNDECIDABLE)
    whole = replace(RunTables.read(spark, run_dir), undecidable=reasons)
    with ExitStack() as caches:
        left = unmatched(spark, run_dir, whole, sizing=FORCED, caches=caches)
        assert left.undecidable is reasons


def test_a_time_beyond_pythons_years_is_no_error(run, tmp_path):
    folder = tmp_path / tables.LOCATION["final_log"]
    folder.mkdir()
    (tmp_path / tables.LOCATION["ledger"]).symlink_to(run[0] / tables.LOCATION["ledger"])
    for path in (run[0] / tables.LOCATION["final_log"]).glob("*.parquet"):
        log = pq.read_table(path, schema=tables.FINAL_LOG).slice(0, 1)
        at = log.schema.get_field_index("written_at")
        late = pa.array([2**62], tables.TIME)
        pq.write_table(log.set_column(at, log.schema.field(at), late), folder / path.name)
    assert {group.rows for group in read_layout(None, tmp_path).records} == {1}


def test_slices_cover_every_row_group_and_own_each_once(run):
    layout = read_layout(None, run[0])
    pieces = slices(layout, sizing=Sizing(from_rows=0, rows_a_slice=150_000), cores=2)
    assert len(pieces) > 8
    assert pieces[0].begin is None
    assert pieces[-1].end is None
    assert all(one.end == other.begin for one, other in pairwise(pieces))
    owned = [group for piece in pieces for group in piece.owned]
    assert sorted(owned) == sorted((group.path, group.number) for group in layout.sends)
    read = {(group.path, group.number) for piece in pieces for group in piece.records}
    assert read == {(group.path, group.number) for group in layout.records}


def test_a_layout_that_the_pass_cannot_use_is_refused_with_its_reason(run, tmp_path):
    layout = read_layout(None, run[0])
    with pytest.raises(TakeGeneralPath, match="must be held at once"):
        slices(layout, sizing=Sizing(from_rows=0, buffer_bytes=1000), cores=1)
    with pytest.raises(TakeGeneralPath, match="sends have no offset"):
        slices(layout, sizing=Sizing(from_rows=0, placed=1.0), cores=1)
    with pytest.raises(TakeGeneralPath, match="cannot read"):
        read_layout(None, "nowhere://run")
    with pytest.raises(TakeGeneralPath, match="cannot read"):
        read_layout(None, tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda log: log.replace_schema_metadata(), None),
        (lambda log: log.sort_by([("offset", "ascending")]), "more than one partition"),
    ],
)
def test_a_log_of_several_partitions_in_one_row_group_is_refused(run, tmp_path, change, reason):
    folder = tmp_path / tables.LOCATION["final_log"]
    folder.mkdir()
    (tmp_path / tables.LOCATION["ledger"]).symlink_to(run[0] / tables.LOCATION["ledger"])
    files = sorted((run[0] / tables.LOCATION["final_log"]).iterdir())
    several = files[:1] if reason is None else files
    log = pq.read_table(several, schema=tables.FINAL_LOG)
    pq.write_table(change(log), folder / "part-0.parquet", row_group_size=2**30)
    if reason is None:
        read_layout(None, tmp_path)
    else:
        with pytest.raises(TakeGeneralPath, match=reason):
            read_layout(None, tmp_path)


@pytest.mark.spark
def test_a_log_out_of_order_takes_the_general_path(spark, tmp_path):
    """The statistics do not show the order, so the pass begins and stops."""
    from ackproof_spark.checks.comparison import compare

    history = {
        "sends": [f"1/{i} to 0: acked at {i}" for i in range(10)],
        "log": [f"0@{i}: 1/{i}" for i in range(10) if i != 4],
        "ends": ["0: 0-10"],
    }
    write_run(tmp_path, {"orders": parse(history)})
    [file] = (tmp_path / tables.LOCATION["final_log"]).iterdir()
    log = pq.read_table(file)
    pq.write_table(log.sort_by([("offset", "descending")]), file)
    whole = RunTables.read(spark, tmp_path)
    with ExitStack() as caches, pytest.raises(TakeGeneralPath, match="not sorted by offset"):
        unmatched(spark, tmp_path, whole, sizing=FORCED, caches=caches)
    found = compare(spark, tmp_path, sizing=FORCED).counts
    assert {anomaly: count for anomaly, count in found.items() if count} == {Anomaly.LOST: 1}


@pytest.mark.parametrize(("last", "aligned"), [(10**6, True), (10**15, False)])
def test_a_log_with_a_far_offset_takes_the_general_path(last: int, aligned: bool) -> None:
    groups = [
        RecordGroup(
            path="log",
            number=number,
            rows=100,
            topic="orders",
            partition=0,
            first=offset,
            last=offset + 99,
            constant={},
        )
        for number, offset in enumerate([0, last])
    ]
    layout = Layout(filesystem=LocalFileSystem(), sends=(), records=tuple(groups))
    if aligned:
        assert slices(layout, sizing=FORCED, cores=2)
        return
    with pytest.raises(TakeGeneralPath, match=f"orders has 200 rows at offsets 0 to {last + 99}"):
        slices(layout, sizing=FORCED, cores=2)
