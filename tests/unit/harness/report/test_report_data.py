from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.errors import RunDirectoryError
from ackproof.report.data import losses as lost
from ackproof.report.data import tables
from ackproof.report.data.losses import Mark, read_groups
from ackproof.report.data.partitions import MAX_LANES
from ackproof.report.data.run import read_run
from ackproof.report.html import write_html
from ackproof.runs.directory import read_verdict
from ackproof_spark.tables import LOCATION, OPTIONAL
from unit.harness.report import synthetic

NEEDED = [name for name in LOCATION if name not in OPTIONAL]


def ledger_of(directory: Path) -> pa.Table:
    return pq.read_table(directory / LOCATION["ledger"])


def copy_of(directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(directory, tmp_path / "run"))


def test_every_send_falls_into_one_bin(acks_1):
    sends = read_run(acks_1.directory).sends
    observed = acks_1.verdict.observed
    assert sends.acked.sum() == observed["acked"] > 0
    assert sends.unknown.sum() == observed["unknown"] > 0
    assert sends.failed.sum() == 0
    assert sends.lost.sum() == observed["lost"] > 0


def test_acks_count_at_the_time_of_the_ack(acks_1):
    sends = read_run(acks_1.directory).sends
    table = ledger_of(acks_1.directory)
    origin = table["sent_at"].cast(pa.int64()).to_numpy().min()
    table = table.filter(pa.compute.equal(table["outcome"], "acked"))
    seconds = (table["resolved_at"].cast(pa.int64()).to_numpy() - origin) / 1e6
    wanted, _ = np.histogram(seconds, np.arange(len(sends.acked) + 1) * sends.width)
    np.testing.assert_array_equal(sends.acked, wanted)


def test_bins_are_bounded_and_wide_enough_for_twenty_sends(acks_1):
    run = read_run(acks_1.directory, max_bins=60)
    assert len(run.sends.acked) <= 61
    assert run.sends.acked.sum() == acks_1.verdict.observed["acked"]
    assert read_run(acks_1.directory).sends.acked.mean() >= 20


def test_quantiles_are_within_a_percent_and_extremes_exact(acks_1):
    sends = read_run(acks_1.directory).sends
    table = ledger_of(acks_1.directory)
    table = table.filter(pa.compute.equal(table["outcome"], "acked"))
    sent = table["sent_at"].cast(pa.int64()).to_numpy()
    latency = (table["resolved_at"].cast(pa.int64()).to_numpy() - sent) / 1000
    where = (sent - sent.min()) // round(sends.width * 1e6)
    for index in range(len(sends.acked)):
        values = latency[where == index]
        if not values.size:
            assert np.isnan(sends.p99[index])
            continue
        assert sends.minimum[index] == values.min()
        assert sends.maximum[index] == values.max()
        for share, got in ((0.5, sends.p50[index]), (0.99, sends.p99[index])):
            exact = np.quantile(values, share, method="inverted_cdf")
            assert got == pytest.approx(exact, rel=0.0101)


def test_the_result_does_not_depend_on_the_batch_size(acks_1, monkeypatch):
    whole = read_run(acks_1.directory)
    monkeypatch.setattr(tables, "_BATCH", 97)
    pieces = read_run(acks_1.directory)
    assert (pieces.sends.acked == whole.sends.acked).all()
    np.testing.assert_array_equal(pieces.sends.p99, whole.sends.p99)
    assert pieces.losses == whole.losses
    assert pieces.lanes == whole.lanes


def test_lanes_show_leader_epoch_and_isr_over_time(acks_1):
    run = read_run(acks_1.directory)
    lane = run.lanes[0]
    assert (lane.topic, lane.partition, lane.replicas) == ("orders", 0, 3)
    assert [(span.leader, span.epoch, len(span.isr)) for span in lane.spans] == [
        (1, 0, 3),
        (2, 1, 2),
        (2, 1, 3),
        (1, 2, 3),
    ]
    starts = [span.start for span in lane.spans]
    assert starts[:2] == [0.0, pytest.approx(synthetic.ELECTED, abs=0.01)]
    assert starts[1:] == [span.end for span in lane.spans[:-1]]
    assert lane.spans[-1].end == run.end


def test_with_more_partitions_than_lanes_those_with_fewest_changes_are_hidden(acks_1, tmp_path):
    directory = copy_of(acks_1.directory, tmp_path)
    path = directory / LOCATION["partition_states"]
    table = pq.read_table(path)
    quiet = table.slice(1, 1)
    column = table.schema.get_field_index("partition")
    many = [
        quiet.set_column(column, table.schema.field(column), pa.array([number], pa.int32()))
        for number in range(3, 40)
    ]
    pq.write_table(pa.concat_tables([table, *many]), path)
    run = read_run(directory)
    assert len(run.lanes) == MAX_LANES
    assert run.hidden_lanes == 40 - MAX_LANES
    assert {0, 1, 2} <= {lane.partition for lane in run.lanes}


def test_losses_are_placed_by_offset(acks_1):
    losses = read_run(acks_1.directory).losses
    (lane,) = losses.lanes
    assert losses.count == lane.count == acks_1.verdict.observed["lost"]
    assert (lane.by, lane.topic, lane.partition) == ("offset", "orders", 0)
    assert sum(mark.count for mark in lane.marks) == lane.count
    assert lane.end >= lane.log_end > lane.marks[-1].last


def test_losses_without_offset_are_placed_by_sequence(acks_0):
    losses = read_run(acks_0.directory).losses
    assert {(lane.by, lane.producer) for lane in losses.lanes} == {("sequence", 0), ("sequence", 1)}
    last = pa.compute.max(ledger_of(acks_0.directory)["sequence"]).as_py()
    assert max(lane.end for lane in losses.lanes) == last + 1


@pytest.mark.parametrize(
    ("positions", "marks"),
    [
        ([4, 5, 6], [Mark(first=4, last=6, count=3)]),
        ([4, 6], [Mark(first=4, last=4, count=1), Mark(first=6, last=6, count=1)]),
        ([7], [Mark(first=7, last=7, count=1)]),
    ],
)
def test_only_adjacent_positions_share_a_mark(positions, marks):
    assert list(lost._merge(np.array(positions))) == marks


def test_marks_are_bounded_and_lose_no_record():
    positions = np.cumsum(np.random.default_rng(1).integers(1, 1000, 5000))
    marks = lost._merge(positions, 50)
    assert len(marks) <= 50
    assert sum(mark.count for mark in marks) == 5000
    assert (marks[0].first, marks[-1].last) == (positions[0], positions[-1])
    assert all(a.last < b.first for a, b in pairwise(marks))


def test_losses_under_the_same_fault_are_one_group_with_its_extent(acks_1):
    [group] = read_groups(acks_1.directory)
    [lane] = read_run(acks_1.directory).losses.lanes
    assert group.count == lane.count > 1
    assert (group.first_offset, group.last_offset) == (lane.marks[0].first, lane.marks[-1].last)
    assert group.first.window == 1
    assert group.first.offset == group.first_offset
    assert group.first.resolved_at == group.first_acked_at < group.last_acked_at
    assert group.first.found.startswith("record of producer")


def test_losses_under_each_fault_are_a_group_in_order_of_time(acks_0):
    groups = read_groups(acks_0.directory)
    assert [group.first.window for group in groups] == [1, 2]
    assert groups[0].last_acked_at < groups[1].first_acked_at
    assert all(group.first_offset is None for group in groups)
    assert sum(group.count for group in groups) == acks_0.verdict.observed["lost"]


def test_without_losses_there_is_no_group(acks_all):
    assert read_groups(acks_all.directory) == ()


def test_an_interrupted_run_names_what_is_missing(interrupted):
    run = read_run(interrupted)
    missing = "\n".join(run.missing)
    for name in ("verdict.json", "anomalies", "final_log", "partition_ends", "part-1.parquet"):
        assert name in missing
    assert "fault_windows" not in missing
    assert run.verdict is None
    assert run.losses is None
    assert run.sends.acked.sum() > 0
    assert run.windows[1].healed_at is None


def test_a_complete_run_misses_nothing(acks_1):
    assert read_run(acks_1.directory).missing == ()


@pytest.mark.parametrize("name", NEEDED)
def test_any_table_may_be_missing(acks_1, tmp_path, name):
    directory = copy_of(acks_1.directory, tmp_path)
    path = directory / LOCATION[name]
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    run = read_run(directory)
    assert [sentence.split(":")[0] for sentence in run.missing] == [str(LOCATION[name])]


@pytest.mark.parametrize("name", NEEDED)
def test_any_table_may_be_empty(acks_1, tmp_path, name):
    directory = copy_of(acks_1.directory, tmp_path)
    path = directory / LOCATION[name]
    for file in sorted(path.glob("*.parquet")) if path.is_dir() else [path]:
        pq.write_table(pq.read_table(file).slice(0, 0), file)
    run = read_run(directory)
    assert run.missing == ()
    assert run.origin is not None


def test_damaged_verdict_and_foreign_table_are_named(acks_1, tmp_path):
    directory = copy_of(acks_1.directory, tmp_path)
    (directory / "verdict.json").write_text('{"verdict": "maybe"}')
    pq.write_table(pa.table({"a": [1]}), directory / LOCATION["partition_ends"])
    missing = "\n".join(read_run(directory).missing)
    assert "verdict.json: cannot be read" in missing
    assert "partition_ends.parquet: lacks end_offset" in missing


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"started_at": "0001-01-01T00:00:00+14:00"}, "is outside the years 1 to 9999 in UTC"),
        ({"observed": {"acked": 1, "lost": 10**400}}, "observed.lost: Input should be less than"),
    ],
)
def test_a_verdict_that_cannot_be_shown_is_named(acks_1, tmp_path, change, said):
    directory = copy_of(acks_1.directory, tmp_path)
    verdict = json.loads((directory / "verdict.json").read_text()) | change
    (directory / "verdict.json").write_text(json.dumps(verdict))
    assert any(said in sentence for sentence in read_run(directory).missing)
    write_html(tmp_path / "report.html", [directory], title="damaged")
    with pytest.raises(RunDirectoryError, match="is damaged"):
        read_verdict(directory)


def test_times_as_spark_writes_them_are_read(acks_1, tmp_path):
    directory = copy_of(acks_1.directory, tmp_path)
    for name in ("ledger", "anomalies"):
        for file in (directory / LOCATION[name]).glob("*.parquet"):
            pq.write_table(pq.read_table(file), file, use_deprecated_int96_timestamps=True)
    spark, ours = read_run(directory), read_run(acks_1.directory)
    assert (spark.sends.acked == ours.sends.acked).all()
    assert spark.losses == ours.losses


def test_a_directory_that_is_not_a_run_directory_is_refused(tmp_path):
    with pytest.raises(RunDirectoryError, match="not a run directory"):
        read_run(tmp_path)
    with pytest.raises(RunDirectoryError, match="is not a directory"):
        read_run(tmp_path / "nowhere")
