"""Observations that contradict the prediction, and records that readers disagree about."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.judgement.evidence import micros
from ackproof.judgement.findings import (
    Disagreements,
    contradictions,
    of_availability,
    of_high_watermarks,
    of_listed_ends,
)
from ackproof.ledger.probed_ends import NAME, EndStream
from ackproof.proxy.follower_fetches import EarlyHighWatermark
from ackproof.proxy.listed_ends import ListedEnd
from ackproof.runs.verdict import PartAvailability, PartitionState, Step
from ackproof_spark.tables import LOCATION
from support.run_directories import START, at


@pytest.mark.parametrize(
    ("likelihood", "anomaly", "count", "conclusive", "found"),
    [
        ("impossible", "lost", 3, False, True),
        ("impossible", "lost", 0, True, False),
        ("impossible", "unprocessed", 2, True, True),
        ("impossible", "unprocessed", 2, False, False),  # unfinished work shows it as well
        ("certain", "lost", 0, True, True),
        ("certain", "lost", 0, False, False),
        ("certain", "lost", 3, True, False),
        ("possible", "lost", 3, True, False),
        ("possible", "lost", 0, True, False),
        ("impossible", "removed", 3, True, True),
        ("certain", "removed", 0, True, True),
    ],
)
def test_contradictions_of_the_prediction_are_findings(
    likelihood, anomaly, count, conclusive, found
):
    findings = contradictions({anomaly: likelihood}, {anomaly: count}, conclusive=conclusive)
    assert [(each.anomaly, each.observed) for each in findings] == [(anomaly, count)] * found


compared = partial(of_availability, settling_s=4)


def step(readable: str, *, seconds: float = 10, begun: int = 1) -> Step:
    state = {"topic": "orders", "partition": 0, "readable": readable, "writable": "unknown"}
    return Step(
        in_force=[0],
        begun=begun,
        healed=[],
        begin=START,
        end=at(seconds),
        partitions=[PartitionState(**state, readable_s=0, writable_s=0)],
    )


def part(readable: str) -> PartAvailability:
    return PartAvailability(
        part="after fault 1 (kill) begins", begun=1, healed=[], readable=readable, writable="can"
    )


@pytest.mark.parametrize(
    ("predicted", "observed", "likelihood"),
    [
        (["cannot"], "yes", "impossible"),
        (["can"], "no", "certain"),
        (["can"], "yes", None),
        (["cannot"], "no", None),
        (["either"], "yes", None),
        (["either"], "no", None),
        (["can", "cannot"], "yes", None),
        (["can"], "unknown", None),
        (["cannot"], "unknown", None),
    ],
)
def test_only_contradictions_of_a_part_are_findings(predicted, observed, likelihood):
    findings = compared(list(map(part, predicted)), [step(observed)], conclusive=True)
    assert [each.predicted for each in findings] == ([] if likelihood is None else [likelihood])


def test_a_finding_names_partition_and_part():
    [finding] = compared([part("cannot")], [step("yes")], conclusive=False)
    assert finding.explanation == "orders-0, after fault 1 (kill) begins: the probe could"
    assert (finding.anomaly, finding.observed) == ("readable", 1)


def test_inconclusive_runs_other_parts_and_short_steps_are_not_compared():
    assert compared([part("can")], [step("no")], conclusive=False) == []
    assert compared([part("cannot")], [step("yes", begun=2)], conclusive=True) == []
    assert compared([part("cannot")], [step("yes", seconds=8)], conclusive=True) == []


def test_anomalies_of_a_disputed_record_are_not_definite():
    record = {"topic": "orders", "partition": 0, "offset": 3, "producer": 0, "sequence": 7}
    disputed = Disagreements(rows=[{**record, "reader": "kafka", "state": "intact"}])
    assert [(each.anomaly, each.observed) for each in disputed.findings] == [("disagreement", 1)]
    anomalies = [
        {**record, "anomaly": "lost"},
        {**record, "anomaly": "lost", "offset": None},  # the same send
        {**record, "anomaly": "lost", "offset": 4, "sequence": 8},
        {**record, "anomaly": "duplicated", "sequence": 9},  # at the same offset
    ]
    agreed = disputed.undisputed({"lost": 3, "duplicated": 1}, anomalies)
    assert agreed == {"lost": 1, "duplicated": 0}
    assert Disagreements(rows=[]).findings == []


EARLY = EarlyHighWatermark(
    at=at(5),
    leader=3,
    follower=1,
    topic="orders",
    partition=0,
    leader_epoch=2,
    fetched=393,
    high_watermark=400,
)


def state_of(second, isr, topic="orders"):
    return {
        "at": at(second),
        "metadata_offset": second,
        "topic": topic,
        "partition": 0,
        "isr": isr,
    }


@pytest.mark.parametrize(
    ("states", "faults", "found"),
    [
        ([state_of(1, [3, 2]), state_of(4, [3, 1])], ["link"], 1),
        ([state_of(1, [3, 1]), state_of(4, [3, 2])], ["link"], 0),
        ([state_of(1, [3, 2]), state_of(6, [3, 1])], ["link"], 0),  # it joined later
        ([state_of(4, [3, 1], "others")], ["link"], 0),
        ([], [], 0),
        ([state_of(4, [3, 1])], ["link", "skew_clock"], 0),
    ],
)
def test_only_a_member_of_the_isr_must_have_fetched_up_to_the_high_watermark(states, faults, found):
    evidence = SimpleNamespace(
        faults=[SimpleNamespace(fault=name) for name in faults],
        record=SimpleNamespace(early_high_watermarks=[EARLY]),
        rows=lambda table: states if table == "partition_states" else [],
    )
    assert len(of_high_watermarks(evidence)) == found


def role_of(second, broker, kind, epoch):
    place = {"topic": "orders", "partition": 0}
    return {**place, "at": at(second), "broker": broker, "kind": kind, "leader_epoch": epoch}


def leads_from(second, leader, epoch):
    return {**state_of(second, [1, 2, 3]), "leader": leader, "leader_epoch": epoch}


LED = [leads_from(0, 1, 0), leads_from(10, 2, 1), leads_from(20, 1, 2)]
#: Broker 1 learns late that it leads again.
ROLES = [role_of(0, 1, "leader", 0), role_of(10, 2, "leader", 1), role_of(25, 1, "leader", 2)]


@pytest.mark.parametrize(
    ("told", "lost", "acks", "found"),
    [
        ((8, 1, 100), "impossible", "all", 1),  # offset 100 was acked at 5 s
        ((8, 1, 101), "impossible", "all", 0),
        ((4, 1, 100), "impossible", "all", 0),  # not acked yet
        ((12, 2, 100), "impossible", "all", 1),
        ((12, 1, 100), "impossible", "all", 0),  # it was deposed
        ((22, 1, 100), "impossible", "all", 0),  # it does not know yet that it leads again
        ((26, 1, 100), "impossible", "all", 1),
        ((26, 1, 100), "possible", "all", 0),
        ((26, 1, 100), "impossible", "1", 0),
    ],
)
def test_a_leader_never_answers_an_end_below_an_offset_that_was_acked_before(
    told, lost, acks, found, tmp_path
):
    second, broker, end = told
    listed = ListedEnd(at=at(second), broker=broker, topic="orders", partition=0, end=end)
    assert len(of_listed_ends(acked(tmp_path, lost, acks, [listed]))) == found


@pytest.mark.parametrize(
    ("told", "lost", "apart_ms", "found"),
    [
        ((8, 0, 100), "impossible", 0, 1),  # offset 100 was acked at 5 s
        ((8, 0, 101), "impossible", 0, 0),
        ((4, 0, 100), "impossible", 0, 0),  # not acked yet
        ((12, 1, 100), "impossible", 0, 1),
        ((12, 0, 100), "impossible", 0, 0),  # by a leader that was deposed
        ((22, 2, 100), "impossible", 0, 1),
        ((22, 0, 100), "impossible", 0, 0),  # by a leader that does not know its new epoch yet
        ((8, 0, 100), "possible", 0, 0),
        ((8, 0, 100), "impossible", 1_100, 0),  # clocks: it may have been deposed
        ((8, 0, 100), "impossible", None, 0),  # clocks that were not compared
    ],
)
def test_nor_to_the_probe_which_knows_the_epoch_of_the_leader(
    told, lost, apart_ms, found, tmp_path
):
    second, epoch, end = told
    evidence = acked(tmp_path, lost, "all", [])
    if apart_ms is not None:
        clock = SimpleNamespace(offset_ms=apart_ms, give_or_take_ms=1)
        evidence.record.clocks.append(clock)
    evidence.clients.mkdir()
    stream = EndStream(evidence.clients / NAME)
    row = {"at": micros(at(second)), "leader_epoch": epoch, "end": end}
    stream.write([{"topic": "orders", "partition": 0, **row}])  # and is killed
    assert len(of_listed_ends(evidence)) == found


def acked(tmp_path, lost, acks, listed):
    """Evidence of two acks at offsets 100 and 300, and of ends that the proxy saw."""
    rows = [
        {"topic": "orders", "partition": 0, "offset": 100, "outcome": "acked"},
        {"topic": "orders", "partition": 0, "offset": 300, "outcome": "acked"},
        {"topic": "orders", "partition": 0, "offset": None, "outcome": "failed"},
        {"topic": "others", "partition": 0, "offset": 900, "outcome": "acked"},
    ]
    times = [at(5), at(50), at(1), at(1)]
    ledger = [
        {"producer": 0, "sequence": 0, "error": None, "sent_at": time, "resolved_at": time, **row}
        for row, time in zip(rows, times, strict=True)
    ]
    folder = tmp_path / LOCATION["ledger"]
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(ledger), folder / "0.parquet")
    tables = {"partition_states": LED, "broker_events": ROLES}
    return SimpleNamespace(
        faults=[SimpleNamespace(fault="link")],
        record=SimpleNamespace(listed_ends=listed, clocks=[]),
        prediction=SimpleNamespace(predicted={"lost": lost}),
        scenario=SimpleNamespace(
            sends={"orders": SimpleNamespace(settings=SimpleNamespace(acks=acks))}
        ),
        run_dir=tmp_path,
        clients=tmp_path / "clients",
        has=lambda table: True,
        rows=lambda table: tables.get(table, []),
    )
