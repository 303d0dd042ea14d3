"""The overview of a run: bins, quantiles, lanes, losses, histories and advice from its tables."""

from __future__ import annotations

import shutil
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.judgement import evidence
from ackproof.judgement.evidence import Evidence
from ackproof.judgement.overview.collect import overview_of, write
from ackproof.judgement.overview.losses import merge
from ackproof.judgement.overview.safer import safer, safest
from ackproof.prediction.predict import predict
from ackproof.runs.directory import PredictionRecord
from ackproof.runs.overview import MAX_LANES, Mark, Overview, Timeline
from ackproof.runs.verdict import CauseReport, PredictionReport
from ackproof.scenario import loader
from ackproof.scenario.client import JavaProducerSettings
from ackproof_spark import by_time
from ackproof_spark.forensics.cases import TITLES, Case
from ackproof_spark.tables import LOCATION, OPTIONAL
from support import synthetic_run as synthetic
from support.run_directories import RunDirectory

ACKS = Path(__file__).parents[4] / "scenarios" / "acks.yaml"
NEEDED = [name for name in LOCATION if name not in OPTIONAL]
STALLED, RESUMED = 10.0, 20.0
OF_RECORD = ("topic", "partition", "offset", "producer", "sequence")


def finest(directory: Path) -> Timeline:
    timeline = overview_of(directory).timeline(bins=600)
    assert timeline is not None
    return timeline


def acked(directory: Path) -> pa.Table:
    table = pq.read_table(directory / LOCATION["ledger"])
    return table.filter(pa.compute.equal(table["outcome"], "acked"))


def micros(column: pa.ChunkedArray) -> np.ndarray:
    return column.cast(pa.int64()).to_numpy()


def files(directory: Path, name: str) -> list[Path]:
    path = directory / LOCATION[name]
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path]


def test_every_send_falls_into_one_bin_of_each_timeline(acks_1):
    observed = acks_1.verdict.observed
    assert observed["acked"] > observed["lost"] > 0
    timelines = overview_of(acks_1.directory).timelines
    assert len(timelines) > 1
    for timeline in timelines:
        for outcome in ("acked", "unknown", "failed", "lost"):
            assert sum(getattr(timeline, outcome)) == observed[outcome]


def test_acks_count_at_the_time_of_the_ack(acks_1):
    timeline, table = finest(acks_1.directory), acked(acks_1.directory)
    origin = micros(pq.read_table(acks_1.directory / LOCATION["ledger"])["sent_at"]).min()
    seconds = (micros(table["resolved_at"]) - origin) / 1e6
    wanted, _ = np.histogram(seconds, np.arange(len(timeline.acked) + 1) * timeline.width)
    np.testing.assert_array_equal(timeline.acked, wanted)


def test_bins_are_bounded_and_wide_enough_for_twenty_sends(acks_1):
    overview = overview_of(acks_1.directory)
    assert len(overview.timeline(bins=60).acked) <= 61
    assert len(overview.timeline(bins=1).acked) <= 61
    assert np.mean(finest(acks_1.directory).acked) >= 20


def test_quantiles_are_within_a_percent_and_the_longest_is_exact(acks_1):
    timeline, table = finest(acks_1.directory), acked(acks_1.directory)
    sent = micros(table["sent_at"])
    latency = (micros(table["resolved_at"]) - sent) / 1000
    where = (sent - sent.min()) // round(timeline.width * 1e6)
    for index in range(len(timeline.acked)):
        values = latency[where == index]
        if not values.size:
            assert timeline.p99[index] is None
            continue
        assert timeline.longest[index] == pytest.approx(values.max(), rel=1e-8)
        for share, got in ((0.5, timeline.p50[index]), (0.99, timeline.p99[index])):
            exact = np.quantile(values, share, method="inverted_cdf")
            assert got == pytest.approx(exact, rel=0.0101)


def test_the_result_does_not_depend_on_the_batch_size(acks_1, monkeypatch):
    whole = overview_of(acks_1.directory)
    monkeypatch.setattr(evidence, "_BATCH", 97)
    assert overview_of(acks_1.directory) == whole


def test_lanes_show_leader_epoch_and_isr_over_time(acks_1):
    overview = overview_of(acks_1.directory)
    lane = overview.lanes[0]
    assert (lane.topic, lane.partition, lane.replicas) == ("orders", 0, 3)
    states = [(span.leader, span.epoch, len(span.isr)) for span in lane.spans]
    assert states == [(1, 0, 3), (2, 1, 2), (2, 1, 3), (1, 2, 3)]
    starts = [span.start for span in lane.spans]
    assert starts[:2] == [0.0, pytest.approx(synthetic.ELECTED, abs=0.01)]
    assert starts[1:] == [span.end for span in lane.spans[:-1]]
    assert lane.spans[-1].end == overview.end


def test_with_more_partitions_than_lanes_those_with_fewest_changes_are_hidden(acks_1, copied):
    directory = copied(acks_1.directory)
    path = directory / LOCATION["partition_states"]
    table = pq.read_table(path)
    quiet = table.slice(1, 1)
    column = table.schema.get_field_index("partition")
    many = [
        quiet.set_column(column, table.schema.field(column), pa.array([number], pa.int32()))
        for number in range(3, 40)
    ]
    pq.write_table(pa.concat_tables([table, *many]), path)
    overview = overview_of(directory)
    assert len(overview.lanes) == MAX_LANES
    assert overview.hidden_lanes == 40 - MAX_LANES
    assert {0, 1, 2} <= {lane.partition for lane in overview.lanes}


def test_losses_are_placed_by_offset(acks_1):
    losses = overview_of(acks_1.directory).losses
    (lane,) = losses.lanes
    assert losses.count == lane.count == acks_1.verdict.observed["lost"]
    assert (lane.by, lane.topic, lane.partition) == ("offset", "orders", 0)
    assert sum(mark.count for mark in lane.marks) == lane.count
    assert lane.end >= lane.log_end > lane.marks[-1].last


def test_losses_without_offset_are_placed_by_sequence(acks_0):
    losses = overview_of(acks_0.directory).losses
    assert {(lane.by, lane.producer) for lane in losses.lanes} == {("sequence", 0), ("sequence", 1)}
    last = pa.compute.max(pq.read_table(acks_0.directory / LOCATION["ledger"])["sequence"]).as_py()
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
    assert merge(np.array(positions)) == marks


def test_marks_are_bounded_and_lose_no_record():
    positions = np.cumsum(np.random.default_rng(1).integers(1, 1000, 5000))
    marks = merge(positions)
    assert len(marks) <= 50
    assert sum(mark.count for mark in marks) == 5000
    assert (marks[0].first, marks[-1].last) == (positions[0], positions[-1])
    assert all(a.last < b.first for a, b in pairwise(marks))


def test_losses_under_the_same_fault_are_one_group_with_its_extent(acks_1):
    losses = overview_of(acks_1.directory).losses
    [group], [lane] = losses.groups, losses.lanes
    assert group.count == lane.count > 1
    assert (group.first_offset, group.last_offset) == (lane.marks[0].first, lane.marks[-1].last)
    assert group.first.window == 1
    assert group.first.offset == group.first_offset
    assert group.first.resolved_at == group.first_acked_at < group.last_acked_at
    assert group.first.found.startswith("record of producer")


def test_losses_under_each_fault_are_a_group_in_order_of_time(acks_0, acks_all):
    groups = overview_of(acks_0.directory).losses.groups
    assert [group.first.window for group in groups] == [1, 2]
    assert groups[0].last_acked_at < groups[1].first_acked_at
    assert all(group.first_offset is None for group in groups)
    assert sum(group.count for group in groups) == acks_0.verdict.observed["lost"]
    assert overview_of(acks_all.directory).losses.groups == []


def test_equal_histories_are_merged_with_their_extent(explained):
    most, single = overview_of(explained.directory).histories
    lost = explained.verdict.observed["lost"]
    assert (most.count, single.count) == (lost - 1, 1)
    assert (most.isr, single.isr) == ([1, 2, 3], [1])
    assert single.offset == single.first_offset == single.last_offset
    assert most.first_offset == single.offset + 1
    assert most.first_acked_at < most.last_acked_at
    assert most.held_by == []


def test_a_damaged_or_missing_table_has_no_histories(explained, copied):
    directory = copied(explained.directory)
    [file] = files(directory, "lost_stories")
    file.write_bytes(file.read_bytes()[:-9])
    assert overview_of(directory).histories == []
    shutil.rmtree(directory / LOCATION["lost_stories"])
    assert overview_of(directory).histories == []


def test_missing_tables_of_an_interrupted_run_are_reported(interrupted):
    overview = overview_of(interrupted)
    missing = "\n".join(overview.missing)
    for name in ("anomalies", "final_log", "partition_ends", "producer-1.parquet"):
        assert name in missing
    assert "fault_windows" not in missing
    assert overview.losses is None
    assert sum(overview.timelines[0].acked) > 0
    assert overview.windows[1].healed_at is None


@pytest.mark.parametrize("name", NEEDED)
def test_any_table_may_be_missing_or_empty(acks_1, copied, name):
    directory = copied(acks_1.directory)
    assert overview_of(directory).missing == []
    for file in files(directory, name):
        pq.write_table(pq.read_table(file).slice(0, 0), file)
    overview = overview_of(directory)
    assert overview.missing == []
    assert overview.origin is not None
    path = directory / LOCATION[name]
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    missing = overview_of(directory).missing
    assert [sentence.split(":")[0] for sentence in missing] == [str(LOCATION[name])]


def test_a_table_with_other_columns_is_reported(acks_1, copied):
    directory = copied(acks_1.directory)
    pq.write_table(pa.table({"a": [1]}), directory / LOCATION["partition_ends"])
    assert overview_of(directory).missing == [
        "partition_ends.parquet: lacks end_offset, partition, topic."
    ]


@pytest.mark.spark
def test_spark_groups_as_arrow_does_and_the_judge_stores_the_overview(spark, with_clients, copied):
    directory = copied(with_clients)
    cells = by_time.Cells(origin=synthetic.micros(0), width=100_000)
    groupings = cells.sends(), cells.acked_ends(), cells.read_ends(), cells.transactions()
    for grouping in groupings:
        batches = Evidence(run_dir=directory).batches(grouping.table, grouping.columns)
        ours, theirs = grouping.answer(batches), grouping.answer_in_spark(spark, directory)
        keys = [(key, "ascending") for key in grouping.keys]
        assert ours.num_rows > 0
        assert theirs.sort_by(keys).equals(ours.sort_by(keys).cast(theirs.schema))
    collected = overview_of(directory)
    write(Evidence(run_dir=directory), synthetic.verdict_of(directory), spark, directory)
    stored = Overview.model_validate_json((directory / "overview.json").read_bytes())
    assert stored == collected == overview_of(directory)


def test_a_stored_overview_is_taken_as_it_is_unless_it_is_damaged(acks_1, copied):
    directory = copied(acks_1.directory)
    collected = overview_of(directory)
    stored = collected.model_copy(update={"end": 7.0})
    (directory / "overview.json").write_text(stored.model_dump_json())
    assert overview_of(directory) == stored
    (directory / "overview.json").write_text(stored.model_dump_json()[:-9])
    assert overview_of(directory) == collected


def reads(ledger: pa.Table, group: str, *, stalls: bool = False) -> list[dict[str, Any]]:
    """Return the reads of a group: each ack at once, or no reads between STALLED and RESUMED."""
    rows = []
    for row in ledger.to_pylist():
        at = max(row["resolved_at"], synthetic.START)
        if stalls and STALLED < (at - synthetic.START).total_seconds() < RESUMED:
            at = synthetic.at(RESUMED)
        rows.append({"group": group, "read_at": at} | {key: row[key] for key in OF_RECORD})
    return rows


def ended(outcome: str, second: float | None, number: int) -> dict[str, Any]:
    at = None if second is None else synthetic.at(second)
    return {"transaction": number, "outcome": outcome, "ended_at": at}


def probes() -> list[dict[str, Any]]:
    """Return attempts in each tenth of a second; writing fails between STALLED and RESUMED."""
    rows = []
    for tick in range(400):
        for action in ("read", "write"):
            answers = action == "read" or not STALLED <= tick / 10 < RESUMED
            at = synthetic.at(tick / 10)
            answered = at + timedelta(milliseconds=5) if answers else None
            row = {"topic": "orders", "partition": 0, "action": action, "at": at}
            rows.append({**row, "answered_at": answered, "ok": answers})
    return rows


@pytest.fixture(scope="module")
def with_clients(tmp_path_factory, acks_all) -> Path:
    directory = tmp_path_factory.mktemp("clients") / "run"
    shutil.copytree(acks_all.directory, directory)
    ledger = acked(directory)
    transactions = [
        *(ended("committed", 5.0, number) for number in range(7)),
        *(ended("aborted", 30.0, number) for number in range(3)),
        ended("unknown", None, 9),
    ]
    run = RunDirectory(path=directory)
    run.write("reads", [*reads(ledger, "steady"), *reads(ledger, "stalling", stalls=True)])
    run.write("transactions", transactions)
    run.write("probe", probes())
    return directory


def test_a_group_that_stalls_falls_behind_and_catches_up(with_clients):
    timeline = finest(with_clients)
    assert list(timeline.unread) == ["stalling", "steady"]
    stalling, steady = map(np.array, timeline.unread.values())
    seconds = np.arange(len(stalling)) * timeline.width
    assert not steady.any(), "it had read everything by the end of each bin"
    assert (stalling[(seconds > STALLED + 1) & (seconds < RESUMED - 1)] > 0).all()
    assert not stalling[(seconds < STALLED - 1) | (seconds > RESUMED + 1)].any()


def test_transactions_count_at_their_end(with_clients):
    timeline = finest(with_clients)
    at = {
        outcome: (np.flatnonzero(counts) * timeline.width).tolist()
        for outcome, counts in timeline.transactions.items()
    }
    assert at == {"committed": [5.0], "aborted": [30.0], "unknown": []}
    assert [sum(counts) for counts in timeline.transactions.values()] == [7, 3, 0]
    assert timeline.untimed_transactions == 1


def test_an_outage_of_writing_is_in_its_track(with_clients, acks_all):
    [probed] = overview_of(with_clients).probed
    [read], write = probed.tracks["read"], probed.tracks["write"]
    assert read.available
    assert [span.available for span in write] == [True, False, True]
    assert (write[1].start, write[1].end) == (STALLED, pytest.approx(RESUMED, abs=0.01))
    assert overview_of(acks_all.directory).probed == []


def test_a_damaged_table_of_clients_is_reported(with_clients, copied):
    torn = copied(with_clients)
    [file] = files(torn, "reads")
    file.write_bytes(file.read_bytes()[:-400])
    overview = overview_of(torn)
    assert not overview.timelines[0].unread
    assert overview.timelines[0].transactions
    assert any("reads" in sentence for sentence in overview.missing)


def test_the_models_trace_is_that_of_the_prediction(explained, acks_all):
    assert overview_of(explained.directory).trace == synthetic.DIAGRAM
    assert overview_of(acks_all.directory).trace is None


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_the_model_is_asked_about_safer_settings_after_a_loss(acks_1, client):
    scenario = loader.load(acks_1.directory / "scenario.yaml")[0].scenario
    if client == "java":
        java = JavaProducerSettings.of({"acks": 1}, "4.3.1", "producer")
        workload = scenario.workload.model_copy(update={"settings": java})
        scenario = scenario.model_copy(update={"workload": workload})
    report = PredictionReport(trace=[], reasons={}, bounds="")
    asked = []

    def predict(changed) -> PredictionRecord:
        asked.append(changed.workload.settings.acks)
        return PredictionRecord(predicted={"lost": "possible"}, prediction=report)

    advice = safer(scenario, acks_1.verdict, predict)
    assert asked == ["all"]
    [step] = advice.steps
    assert (advice.replicas, step.changes, step.predicted) == (3, {"acks": "all"}, "possible")


@pytest.mark.parametrize("replicas", [1, 3])
def test_the_model_is_not_asked_if_settings_cannot_help(acks_1, refuses, replicas):
    scenario = loader.load(ACKS)[2].scenario
    topic = scenario.topic.model_copy(update={"replication_factor": replicas})
    scenario = scenario.model_copy(update={"topics": {"orders": topic}})
    advice = safer(scenario, acks_1.verdict, refuses)
    assert (advice.replicas, advice.steps) == (replicas, [])


@pytest.mark.parametrize(
    ("case", "reason"),
    [(Case.B57, TITLES[Case.B57]), (Case.UNEXPLAINED, "a leader missed an epoch"), (None, "")],
)
def test_advice_names_what_was_seen_before_what_the_model_foresees(acks_1, refuses, case, reason):
    scenario = loader.load(ACKS)[2].scenario
    nothing = dict.fromkeys(("first_offset", "last_offset", "first_acked_at", "last_acked_at"))
    where = {"count": 3, "topic": "orders", "partition": 0, "window": None, "sentence": ""}
    causes = [CauseReport(case=case, title=TITLES[case], **where, **nothing)] if case else []
    foreseen = {"lost": "a leader missed an epoch"} if case else {}
    report = PredictionReport(trace=[], reasons=foreseen, bounds="")
    verdict = acks_1.verdict.model_copy(update={"causes": causes, "prediction": report})
    assert safer(scenario, verdict, refuses).reason == reason


@pytest.mark.parametrize(
    ("kafka", "expected"),
    [
        ("3.9.1", [("min.insync.replicas", "possible"), ("Kafka", "impossible")]),
        ("4.4.0", [("min.insync.replicas", "impossible")]),
    ],
)
def test_the_steps_go_on_to_a_version_without_loss(acks_1, kafka, expected):
    """By the real model: a leader alone in the ISR loses power."""
    own = loader.load(ACKS.parent / "your-configuration.yaml")[0].scenario
    scenario = own.model_copy(update={"kafka": kafka})
    foreseen = acks_1.verdict.model_copy(update={"predicted": predict(scenario).predicted})
    steps = safer(scenario, foreseen, predict).steps
    assert [(next(iter(step.changes)), step.predicted) for step in steps] == expected


def test_there_is_no_advice_if_loss_is_excluded_or_not_modelled(acks_all, unverified, refuses):
    scenario = loader.load(ACKS)[0].scenario
    assert safer(scenario, acks_all.verdict, refuses) is None
    assert safer(scenario, unverified.verdict, refuses) is None
    other_make = acks_all.verdict.model_copy(update={"predicted": {"lost": "not modelled"}})
    assert safer(scenario, other_make, refuses) is None


LATE_END = """
version: 1
name: late-end
kafka: "4.3.1"
cluster: {listeners: [LINK], proxied: [LINK]}
topics: {orders: {partitions: 1, replication_factor: 3, settings: {min.insync.replicas: 2}}}
workload:
  topic: orders
  listener: LINK
  client: %s
  settings: {acks: all, enable.idempotence: true}
  transactions: {size: 100, abort: 50%%}
  consumers: {billing: {settings: {isolation.level: %s}}}
faults:
  - {fault: link, target: all, api: EndTxn, direction: request, action: hold, when: 200 acked}
"""


@pytest.mark.parametrize(
    ("client", "isolation", "excluded"),
    [
        ("librdkafka", "read_committed", ["lost", "aborted-read"]),
        ("librdkafka", "read_uncommitted", ["lost"]),
        ("java", "read_uncommitted", []),
    ],
)
def test_a_client_with_protocol_2_excludes_what_late_requests_cause(
    acks_1, tmp_path, client, isolation, excluded
):
    """By the real model; read_uncommitted reads what is aborted with every client."""
    path = tmp_path / "late-end.yaml"
    path.write_text(LATE_END % (client, isolation))
    scenario = loader.load(path)[0].scenario
    foreseen = acks_1.verdict.model_copy(
        update={"observed": {}, "predicted": predict(scenario).predicted}
    )
    assert foreseen.predicted["aborted-read"] == "possible"
    advice = safer(scenario, foreseen, predict)
    assert advice.protocol_2 == excluded


def test_protocol_2_is_not_credited_with_what_settings_exclude(acks_1, tmp_path):
    """A model says that safe settings exclude the loss, and protocol 2 the aborted read as well."""
    path = tmp_path / "late-end.yaml"
    path.write_text(LATE_END % ("librdkafka", "read_committed"))
    scenario = loader.load(path)[0].scenario
    topic = scenario.topic.model_copy(update={"settings": {"min.insync.replicas": 1}})
    scenario = scenario.model_copy(update={"topics": {"orders": topic}})
    report = PredictionReport(trace=[], reasons={}, bounds="")

    def says(changed) -> PredictionRecord:
        left = "impossible" if changed.workload.client.java else "possible"
        predicted = {"lost": "impossible", "aborted-read": left}
        return PredictionRecord(predicted=predicted, prediction=report)

    predicted = {"lost": "possible", "aborted-read": "possible"}
    foreseen = acks_1.verdict.model_copy(update={"predicted": predicted})
    assert safer(scenario, foreseen, says).protocol_2 == ["aborted-read"]


@pytest.fixture
def refuses():
    def refuse(_: object) -> PredictionRecord:
        raise AssertionError("the model was asked")

    return refuse


def test_the_safest_settings_and_their_changes():
    acks_0, acks_1, acks_all = (configured.scenario for configured in loader.load(ACKS))
    assert safest(acks_1)[1] == {"acks": "all"}
    assert safest(acks_all)[1] == {}
    weak = acks_1.topics["orders"].model_copy(
        update={"settings": {"unclean.leader.election.enable": True}}
    )
    changed, changes = safest(acks_0.model_copy(update={"topics": {"orders": weak}}))
    assert changes == {
        "acks": "all",
        "min.insync.replicas": 2,
        "unclean.leader.election.enable": False,
    }
    assert changed.topic.min_insync_replicas == 2
    assert changed.topic.unclean_leader_election is False
    assert changed.workload.settings.acks == "all"
    defaults = weak.model_copy(update={"settings": {"min.insync.replicas": 2}})
    old = acks_1.model_copy(update={"kafka": "0.10.2.2", "topics": {"orders": defaults}})
    assert "unclean.leader.election.enable" in safest(old)[1]


@pytest.mark.parametrize("acks", [0, 1])
def test_the_advice_for_the_shipped_comparison_is_its_safe_configuration(acks):
    """The real model, asked about the safer settings, excludes the loss that it predicts."""
    losing = loader.load(ACKS)[acks].scenario
    assert predict(losing).predicted["lost"] == "certain"
    assert predict(safest(losing)[0]).predicted["lost"] == "impossible"
