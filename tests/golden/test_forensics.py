"""Forensics on runs written by hand: every story, divergence and gap, and similar cases.

Each topic is a run of its own, in the notation of `spark_histories`, with the evidence of its
cluster: states of partition 0, the batches of its replicas, and lines of the brokers' logs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from ackproof.judgement.judge import fault_kinds
from ackproof_spark.anomaly import Anomaly
from ackproof_spark.forensics.cases import Settings
from ackproof_spark.spark.small_data import FEW, small_plans
from ackproof_spark.tables import LOCATION
from spark_histories import RUN_ID, History, _at, parse, write_run, write_table

pytestmark = pytest.mark.spark

#: first offset, last offset, leader epoch, and a batch's other columns
Batch = tuple[int, int, int] | tuple[int, int, int, Mapping[str, Any]]
ALL = (1, 2, 3)


@dataclass(frozen=True, kw_only=True)
class Left:
    """The evidence of partition 0. states: second, leader, epoch, ISR."""

    history: History
    states: Sequence[tuple[float, int, int, tuple[int, ...]]]
    replicas: Mapping[int, Sequence[Batch]]
    #: second, broker, kind, epoch, offset, high watermark (of a warning)
    events: Sequence[tuple[Any, ...]] = ()
    expected: Sequence[str] = ()
    kafka: str = "4.3.1"
    anomalies: Sequence[str] = field(default=())
    #: second of the commit, and start offset: a transaction of producer id 7 that was aborted later
    hung: tuple[float, int] | None = None


def same(*batches: Batch) -> dict[int, Sequence[Batch]]:
    return dict.fromkeys(ALL, batches)


def history(lost_from: int, acked: int, *, sent: float = 10, end: int | None = None, **more: Any):
    """Sequences 0 to `acked` - 1 acked at their offsets; sequences 100 and on replaced them.

    Those from `lost_from` on were replaced, and acked much later.
    """
    end = acked if end is None else end
    sends = [f"1/{i} to 0: acked at {i} [{sent + i}-{sent + i}.5]" for i in range(acked)]
    log = [f"0@{i}: 1/{i}" for i in range(lost_from)]
    for at in range(lost_from, end):
        sends.append(f"1/{100 + at} to 0: acked at {at} [{500 + at}-{501 + at}]")
        log.append(f"0@{at}: 1/{100 + at}")
    return parse({"sends": sends, "log": log, "ends": [f"0: 0-{end}"], **more})


MARKER = {"transactional": True, "control": True}
FAILOVER = [(0, 1, 0, ALL), (40, 2, 1, (2, 3)), (60, 2, 1, ALL)]
KILLED = {"windows": ["3: 35-50"]}
B2 = Left(
    history=history(3, 6, end=5, **KILLED),
    states=FAILOVER,
    replicas=same((0, 2, 0), (3, 4, 1)),
    events=[
        (41, 3, "truncated", None, 3),
        (55, 1, "below-high-watermark", None, 3, 5),
        (55, 1, "truncated", None, 3),
    ],
    expected=["1/3 B2 by 1 in 0, then 2 in 1 from 3, cut by 1"] * 3,
)
#: Offsets 3 to 5 were acked at 213 s and later, and broker 2 had led since 40 s.
ZOMBIE = replace(
    B2,
    history=history(3, 6, sent=210, end=6, **KILLED),
    replicas=same((0, 2, 0), (3, 5, 1)),
    expected=["1/3 B3 by 1 in 0, then 2 in 1 from 3, cut by -"] * 3,
    events=[],
)
ENDS_5 = history(5, 5).ends
#: Broker 2 acked 3 to 5 from 53 s on; broker 1 had written other records there before.
OLDER = Left(
    history=history(3, 6, sent=50, windows=["2: 95-105"]),
    states=[(0, 1, 0, (1,)), (40, 2, 1, (2,)), (100, 1, 2, (1,))],
    replicas=same((0, 5, 0)),
    events=[(40, 2, "leader", 1, 3), (100, 1, "leader", 2, 6)],
    expected=["1/3 B4 by 2 in 1, then 1 in 2 from 6, cut by -"] * 3,
)
#: Offsets 3 to 5 were acked by 15.5 s; broker 2, in sync, truncated them, and leads from 40 s on.
LATE_RESPONSE = replace(
    B2,
    kafka="3.9.0",
    events=[(38, 2, "truncated", None, 3), (55, 1, "truncated", None, 3)],
    expected=["1/3 B12 by 1 in 0, then 2 in 1 from 3, cut by 1"] * 3,
)
#: The record at 2 was acked as committed, and is not read.
ENDED = Left(
    history=parse(
        {
            "sends": [f"1/{i} to 0: acked at {i}" for i in range(3)],
            "log": ["0@0: 1/0", "0@1: 1/1"],
            "ends": ["0: 0-4"],
        }
    ),
    states=FAILOVER[:1],
    replicas=same((0, 1, 0), (2, 2, 0, {"transactional": True}), (3, 3, 0, MARKER)),
    expected=["1/2 B13 by 1 in 0, then - in - from -, cut by -"],
)
#: The records at 2 and 3 were acked as committed. Broker 2, which had not been in sync, was elected
#: after the commit, without the marker; the one at 5, after the closing record, is the harness's.
OPEN = {"transactional": True, "producer_id": 7, "producer_epoch": 0}
UNCLEAN = [(0, 1, 0, ALL), (30, 1, 0, (1,)), (40, 2, 1, (2,)), (60, 2, 1, ALL)]


def hung(producer: int, cause: str, **more: Any) -> Left:
    log = ["0@0: 9/0", "0@1: 9/1"]
    left = Left(
        history=parse(
            {
                "sends": [f"{producer}/{i} to 0: acked at {i} [{i}-{i}.5]" for i in (2, 3)],
                "log": log,
                "ends": ["0: 0-4"],
                "windows": ["3: 35-50"],
            }
        ),
        states=UNCLEAN,
        replicas=same((0, 1, 0), (2, 3, 0, OPEN), (4, 4, 1), (5, 5, 1, {**MARKER, **OPEN})),
        events=[(55, 1, "truncated", None, 4)],
        hung=(34, 2),
        expected=[f"{producer}/2 {cause}"] * 2,
    )
    return replace(left, **more)


WITH_ACKS_1 = {
    "b2": B2,
    "b2_silent": replace(  # the next leader wrote nothing: its start is only in its log line
        B2,
        history=history(3, 6, end=3, **KILLED),
        replicas=same((0, 2, 0)),
        events=[(40, 2, "leader", 1, 3)],
        expected=["1/3 B2 by 1 in 0, then 2 in 1 from 3, cut by -"] * 3,
    ),
    # Before 0.11 batches have no epoch: the leader's loaded log or its election decides.
    "b5_loaded": replace(
        B2,
        states=[(0, 1, 0, ALL), (5, 1, 0, (1,)), (40, 1, 1, (1,)), (60, 1, 1, ALL)],
        kafka="0.10.2.2",
        replicas=same((0, 4, -1)),
        events=[(0, 1, "loaded", None, 0), (35, 1, "loaded", None, 3)],
        expected=["1/3 B5 by 1 in 0, then 1 in 1 from 3, cut by -"] * 3,
    ),
    "b4_undated": replace(
        B2,
        states=[(0, 1, 0, ALL), (5, 1, 0, (1, 2)), (40, 2, 1, (2,)), (50, 3, 2, (3,))],
        kafka="0.10.2.2",
        replicas=same((0, 4, -1)),
        events=[],
        expected=["1/3 B4 by 1 in 0, then 3 in 2 from -, cut by -"] * 3,
    ),
    "b2_mute": replace(  # and here its start is unknown
        B2,
        history=history(3, 6, end=3, **KILLED),
        replicas=same((0, 2, 0)),
        events=[],
        expected=["1/3 unexplained by 1 in 0, then 2 in 1 from -, cut by -"] * 3,
    ),
    "b2_second": replace(  # the first failover did not lose them, the second did
        B2,
        states=[*FAILOVER[:1], (2, 2, 1, (2, 1)), (40, 1, 2, (1, 3))],
        history=history(3, 6, end=5, **KILLED),
        replicas=same((0, 0, 0), (1, 2, 1), (3, 4, 2)),
        events=[],
        expected=["1/3 B2 by 2 in 1, then 1 in 2 from 3, cut by -"] * 3,
    ),
    "b3": ZOMBIE,
    "b3_closing": replace(  # the closing record of the run has the offset of the lost one
        ZOMBIE,
        history=history(3, 4, sent=210, end=3, **KILLED),
        replicas=same((0, 2, 0), (3, 3, 1)),
        expected=ZOMBIE.expected[:1],
    ),
    "b3_marker": replace(  # a marker has the offset of the lost one
        ZOMBIE,
        history=replace(history(3, 4, sent=210, end=3), ends=ENDS_5),
        replicas=same((0, 2, 0), (3, 3, 1, {**MARKER, "producer_id": 8}), (4, 5, 1)),
        expected=ZOMBIE.expected[:1],
    ),
    "b3_longer": replace(  # the zombie's log was longer than the successor's at the end
        ZOMBIE,
        history=history(3, 6, sent=210, end=5, **KILLED),
        replicas=same((0, 2, 0), (3, 4, 1)),
    ),
    "b4": replace(
        B2,
        states=[(0, 1, 0, ALL), (30, 1, 0, (1,)), (40, 2, 1, (2,)), (60, 2, 1, ALL)],
        expected=["1/3 B4 by 1 in 0, then 2 in 1 from 3, cut by 1"] * 3,
    ),
    "b4_older": OLDER,
    "cut_older": replace(  # broker 1 may have got its records after the election
        OLDER,
        events=[*OLDER.events, (101, 1, "truncated", None, 2)],
        expected=["1/3 unexplained by 2 in 1, then - in - from -, cut by -"] * 3,
    ),
    "shorter": replace(  # the same broker leads again, with a shorter log
        B2,
        states=[(0, 1, 0, (1,)), (35, -1, 1, (1,)), (40, 1, 2, (1,)), (60, 1, 2, ALL)],
        replicas=same((0, 2, 0), (3, 4, 2)),
        events=[],
        expected=["1/3 B5 by 1 in 0, then 1 in 2 from 3, cut by -"] * 3,
    ),
    "shorter_elr": replace(  # the same as last known leader: it was alone when it acked, too
        B2,
        states=[(0, 1, 0, (1,)), (35, -1, 1, ()), (40, 1, 2, (1,)), (60, 1, 2, ALL)],
        replicas=same((0, 2, 0), (3, 4, 2)),
        events=[],
        expected=["1/3 B5 by 1 in 0, then 1 in 2 from 3, cut by -"] * 3,
    ),
    "unread": Left(
        history=parse(
            {
                "sends": [f"1/{i} to 0: acked at {i}" for i in range(4)],
                "log": ["0@0: 1/0", "0@1: 1/1", "0@3: 1/3"],
                "ends": ["0: 0-4"],
            }
        ),
        states=FAILOVER[:1],
        replicas=same((0, 3, 0)),
        expected=["1/2 unexplained by 1 in 0, then - in - from -, cut by -"],
        anomalies=[
            "gap at 2: offset 2: the segments of brokers 1, 2, 3 hold a batch there, yet "
            "nothing was read"
        ],
    ),
    "recreated": Left(  # the failover of the second topic did not lose records of the first one
        history=history(0, 6, end=5, **KILLED),
        states=[*FAILOVER, (70, 1, 0, ALL), (90, 2, 1, (2, 3)), (95, 2, 1, ALL)],
        replicas=same((0, 1, 0), (2, 4, 1)),
        events=[(96, 1, "truncated", None, 2)],
        expected=["1/0 recreated by - in -, then - in - from -, cut by -"] * 6,
    ),
    "of_probe": Left(  # the probe writes with acks=all, so this loss breaks a promise
        history=parse(
            {
                "sends": ["1000000/3 to 0: acked at 3 [13-13.5]"],
                "log": ["0@0: 1/0", "0@3: 1/1"],
                "ends": ["0: 0-5"],
                **KILLED,
            }
        ),
        states=FAILOVER,
        replicas=same((0, 2, 0), (3, 4, 1)),
        expected=["1000000/3 unexplained by 1 in 0, then 2 in 1 from 3, cut by -"],
    ),
    "swallowed": Left(  # another record is there, in the same epoch, without another leader
        history=history(3, 4, end=4),
        states=FAILOVER[:1],
        replicas=same((0, 3, 0)),
        expected=["1/3 unexplained by 1 in 0, then - in - from -, cut by -"],
    ),
    "unknown": replace(
        B2,
        states=[],
        expected=["1/3 unexplained by - in -, then - in - from -, cut by -"] * 3,
    ),
}
WITH_ACKS_0 = {
    "b1": Left(
        history=parse(
            {
                "sends": ["1/0 to 0: acked [1-1.1]", "1/1 to 0: acked [30-30.1]"],
                "log": ["0@0: 1/0"],
                "ends": ["0: 0-1"],
                "windows": ["3: 29-50"],
            }
        ),
        states=FAILOVER,
        replicas=same((0, 0, 0)),
        expected=["1/1 B1 by 1 in 0, then 2 in 1 from -, cut by -"],
    ),
    "b1_late": Left(  # the client got the new metadata only after a while
        history=parse({"sends": ["1/0 to 0: acked [45-45.1]"], "log": [], "ends": ["0: 0-0"]}),
        states=FAILOVER,
        replicas=same(),
        expected=["1/0 B1 by 1 in 0, then 2 in 1 from -, cut by -"],
    ),
    "b1_far": Left(  # without a fault or a leader change near that time
        history=parse({"sends": ["1/0 to 0: acked [300-300.1]"], "log": [], "ends": ["0: 0-0"]}),
        states=FAILOVER,
        replicas=same(),
        expected=["1/0 unexplained by 1 in 0, then 2 in 1 from -, cut by -"],
    ),
}
WITH_ACKS_ALL = {
    "b6": replace(
        B2,
        states=[
            (0, 1, 0, (1, 3)),
            (30, 1, 0, (1,)),
            (36, -1, 1, (1,)),
            (40, 1, 2, (1,)),
            (60, 1, 2, ALL),
        ],
        replicas=same((0, 2, 0), (3, 4, 2)),
        events=[(55, 3, "truncated", None, 3)],
        expected=["1/3 B6 by 1 in 0, then 1 in 2 from 3, cut by 3"] * 3,
    ),
    "b12": LATE_RESPONSE,
    "b12_fixed": replace(
        LATE_RESPONSE,
        kafka="3.9.1",
        expected=["1/3 unexplained by 1 in 0, then 2 in 1 from 3, cut by 1"] * 3,
    ),
    "b12_others": replace(  # before the acks, after their offsets, another broker, and too late
        LATE_RESPONSE,
        events=[
            (12, 2, "truncated", None, 3),
            (38, 2, "truncated", None, 6),
            (38, 3, "truncated", None, 3),
            (41, 2, "truncated", None, 3),
        ],
        expected=["1/3 unexplained by 1 in 0, then 2 in 1 from 3, cut by 3"] * 3,
    ),
    "b13": ENDED,
    "b13_other": replace(  # the marker is another producer's
        ENDED,
        replicas=same(
            (0, 1, 0),
            (2, 2, 0, {"transactional": True}),
            (3, 3, 0, {**MARKER, "producer_id": 8}),
        ),
        expected=["1/2 unexplained by 1 in 0, then - in - from -, cut by -"],
    ),
    "b13_coordinator": replace(  # a coordinator that aborts by itself raises the epoch
        ENDED,
        replicas=same(
            (0, 1, 0),
            (2, 2, 0, {"transactional": True}),
            (3, 3, 0, {**MARKER, "producer_epoch": 0}),
        ),
        expected=["1/2 unexplained by 1 in 0, then - in - from -, cut by -"],
    ),
    "hung": hung(21, "B4 by 1 in 0, then 2 in 1 from 4, cut by 1"),
    "hung_before": hung(  # the commit was acked after the unclean election
        22, "unexplained by 2 in 1, then - in - from -, cut by -", hung=(45, 2), events=[]
    ),
    "hung_clean": hung(
        23,
        "unexplained by 1 in 0, then 2 in 1 from 4, cut by 1",
        states=FAILOVER,
    ),
    "hung_second": hung(  # the first election after the commit was clean
        24,
        "B4 by 2 in 1, then 1 in 2 from 4, cut by -",
        states=[*FAILOVER[:2], (50, 1, 2, (1,)), (60, 1, 2, ALL)],
        replicas=same((0, 1, 0), (2, 3, 0, OPEN), (4, 4, 2), (5, 5, 2, {**MARKER, **OPEN})),
        events=[],
    ),
    "hung_skipped": hung(
        26,
        "B58 by 1 in 0, then 2 in 1 from 4, cut by 1",
        states=FAILOVER,
        events=[(35, 3, "marker-skipped"), (55, 1, "truncated", None, 4)],
    ),
    "hung_skipped_before": hung(  # the marker of an earlier transaction, before they were sent
        27,
        "unexplained by 1 in 0, then 2 in 1 from 4, cut by 1",
        states=FAILOVER,
        events=[(1, 3, "marker-skipped"), (55, 1, "truncated", None, 4)],
    ),
    "hung_other": hung(  # another transaction hung, which began later
        25, "B13 by 1 in 0, then - in - from -, cut by -", hung=(34, 4), events=[]
    ),
    "promised": replace(  # a violation of acks=all without a legal reason
        B2, expected=["1/3 unexplained by 1 in 0, then 2 in 1 from 3, cut by 1"] * 3
    ),
}

WHOLE = history(20, 20)
BYTES = ((0, 9, 0), (10, 19, 0))


def described(offset: int, last: int, epoch: int = 0, checksum: str = "7b", more: str = "") -> str:
    return f"offsets {offset}-{last}, epoch {epoch}, 100 bytes, checksum {checksum}{more}"


def differing(**broker_2: Any) -> dict[int, Sequence[Batch]]:
    return {1: BYTES, 2: (BYTES[0], (10, 19, 0, broker_2)), 3: BYTES}


def diverged(offset: int, last: int, second: str, batches: int = 1) -> str:
    return (
        f"diverged at {offset}: broker 1: {described(offset, last)}; broker 2: {second}; "
        f"broker 3: {described(offset, last)}; {batches} batches differ"
    )


def replicas(
    batches: Mapping[int, Sequence[Batch]], anomalies: Sequence[str] = (), **more: Any
) -> Left:
    more = {"history": WHOLE, "states": FAILOVER[:1], **more}
    return Left(replicas=batches, anomalies=anomalies, **more)


ABORTED = (10, 12, 0, {"transactional": True})

AGREEMENT = {
    "agree": replicas(same(*BYTES)),
    "flipped": replicas(
        differing(crc_ok=False),
        [diverged(10, 19, described(10, 19, more=", which the bytes do not match"))],
    ),
    "all_flipped": replicas(
        same((0, 9, 0, {"crc_ok": False}), BYTES[1]),
        [
            "diverged at 0: "
            + "; ".join(
                f"broker {b}: {described(0, 9, more=', which the bytes do not match')}" for b in ALL
            )
            + "; 1 batches differ"
        ],
    ),
    "other_bytes": replicas(
        differing(crc=0xABC), [diverged(10, 19, described(10, 19, checksum="abc"))]
    ),
    "other_epoch": replicas(
        differing(leader_epoch=1), [diverged(10, 19, described(10, 19, epoch=1))]
    ),
    "too_short": replicas(
        {1: BYTES, 2: BYTES[:1], 3: BYTES}, [diverged(10, 19, "no batch starts here")]
    ),
    "hole": replicas({1: BYTES, 2: BYTES[1:], 3: BYTES}, [diverged(0, 9, "no batch starts here")]),
    "lagging": replicas(  # not in sync: it may have any records
        {1: BYTES, 2: ((0, 9, 0, {"crc": 5}),), 3: BYTES},
        states=[*FAILOVER[:1], (30, 1, 0, (1, 3))],
    ),
    "ahead": replicas(  # above the high watermark replicas may differ in length
        {1: (*BYTES, (20, 25, 0)), 2: BYTES, 3: (*BYTES, (20, 29, 0))}
    ),
    "marker": replicas(
        same((0, 9, 0), (10, 10, 0, {"control": True}), (11, 19, 0)),
        history=replace(WHOLE, log=[one for one in WHOLE.log if one.offset != 10], sends=[]),
    ),
    "aborted": replicas(  # the whole batch is hidden from readers with read_committed
        same((0, 9, 0), ABORTED, (13, 13, 0, {"control": True}), (14, 19, 0)),
        history=replace(
            WHOLE, log=[one for one in WHOLE.log if not 10 <= one.offset <= 13], sends=[]
        ),
    ),
    "half_hidden": replicas(
        same((0, 9, 0), ABORTED, (13, 19, 0)),
        [
            "gap at 11: offsets 11-12: the segments of brokers 1, 2, 3 hold a batch there, yet "
            "nothing was read"
        ],
        history=replace(
            WHOLE, log=[one for one in WHOLE.log if not 11 <= one.offset <= 12], sends=[]
        ),
    ),
    "gap": replicas(
        same((0, 9, 0), (13, 19, 0)),
        ["gap at 10: offsets 10-12: no replica holds a batch there"],
        history=replace(
            WHOLE, log=[one for one in WHOLE.log if not 10 <= one.offset <= 12], sends=[]
        ),
    ),
    "gap_at_both_ends": replicas(
        same((1, 18, 0)),
        [
            "gap at 0: offset 0: no replica holds a batch there",
            "gap at 19: offset 19: no replica holds a batch there",
        ],
        history=replace(WHOLE, log=WHOLE.log[1:-1], sends=[]),
    ),
    "not_read_to_its_end": replicas(
        same(*BYTES),
        history=replace(
            WHOLE,
            log=WHOLE.log[:5],
            sends=[],
            ends=[replace(WHOLE.ends[0], reason="read up to 5 of 20")],
        ),
    ),
}


def pause_producer(run_dir, *, number: int) -> None:
    """Add a window of `pause_client` beside the first fault window, whose target is broker 1."""
    windows = pq.read_table(run_dir / LOCATION["fault_windows"]).to_pylist()
    hit = {"fault": "pause_client", "nodes": list(ALL), "parameters": '{"client": "producer 1"}'}
    write_table(run_dir, "fault_windows", [*windows, windows[0] | hit | {"window": number}])


def write(run_dir, topics: Mapping[str, Left], *, incomplete: Sequence[str] = ()) -> None:
    write_run(run_dir, {topic: left.history for topic, left in topics.items()})
    rows = defaultdict(list)
    for index, (topic, left) in enumerate(topics.items()):
        here = {"topic": topic, "partition": 0}
        rows["partition_states"] += [
            {
                **here,
                "at": _at(index, second),
                "metadata_offset": number,
                "leader": leader,
                "leader_epoch": epoch,
                # Only in 'recreated' the leader epoch falls: the topic is new.
                "partition_epoch": 0 if number and epoch < left.states[number - 1][2] else number,
                "replicas": list(ALL),
                "isr": list(isr),
                # The leader before; only in 'shorter_elr' the ISR becomes empty.
                "last_known_elr": [left.states[number - 1][1]] if not isr else [],
            }
            for number, (second, leader, epoch, isr) in enumerate(left.states)
        ]
        for broker, batches in left.replicas.items():
            rows["replica_batches"] += [here | _batch(broker, *one) for one in batches]
            end = max((one[1] + 1 for one in batches), default=0)
            whole = {"complete": topic not in incomplete, "end_offset": end}
            rows["replica_logs"].append({**here, **whole, "broker": broker})
        names = ("at", "broker", "kind", "leader_epoch", "offset", "high_watermark")
        rows["broker_events"] += [
            {**here, **dict(zip(names, (_at(index, second), *event), strict=False))}
            for second, *event in left.events
        ]
        if left.hung is not None:
            committed, start = left.hung
            hung = {"producer_id": 7, "start_offset": start, "aborted_at": _at(index, 90)}
            rows["hanging_transactions"].append({**here, **hung})
            (producer,) = {send.producer for send in left.history.sends}
            ends = {"first_sequence": 0, "end_sequence": 4, "ended_at": _at(index, committed)}
            rows["transactions"].append({"producer": producer, "outcome": "committed", **ends})
    for table in ("partition_states", "replica_logs", "replica_batches", "broker_events"):
        write_table(run_dir, table, rows[table])
    for table in ("hanging_transactions", "transactions"):
        if rows[table]:
            write_table(run_dir, table, rows[table])


def _batch(broker: int, base: int, last: int, epoch: int, more: Mapping[str, Any] = {}) -> dict:
    offsets = {"base_offset": base, "last_offset": last, "records": last - base + 1}
    sums = {"size": 100, "magic": 2, "crc": 123, "crc_ok": True}
    names = {"broker": broker, "segment": "00000000000000000000.log", "leader_epoch": epoch}
    return {**names, **offsets, **sums, "producer_id": -1, "producer_epoch": -1, **more}


def judged(spark, run_dir, acks: Mapping[str, str], *, rows: int = 0):
    """Return causes, counts of differing replicas, stories and anomalies of a run.

    The run is compared, planned for `rows`; `acks` of the producers are by topic.
    """
    from ackproof_spark.checks.comparison import compare
    from ackproof_spark.forensics.causes import explain
    from ackproof_spark.forensics.differences import compare_replicas
    from ackproof_spark.reading.run_tables import StoredRun

    lost = compare(spark, run_dir).counts[Anomaly.LOST]
    settings = {
        topic: Settings(acks=value, kafka_version=EVERY[topic][1].kafka)
        for topic, value in acks.items()
    }
    run, causes = StoredRun(spark=spark, run_dir=run_dir), []
    with small_plans(spark, rows=rows):
        if lost:
            causes = explain(run, RUN_ID, few=rows <= FEW, settings=settings, faults=fault_kinds())
        replicas = compare_replicas(run, RUN_ID)
    stories: dict[str, list[str]] = {}
    for row in pq.read_table(run_dir / LOCATION["lost_stories"]).to_pylist() if lost else ():
        stories.setdefault(row["topic"], []).append(_story(row))
    anomalies: dict[str, list[str]] = {}
    for row in pq.read_table(run_dir / LOCATION["anomalies"]).to_pylist():
        if row["anomaly"] in ("diverged", "gap"):
            text = f"{row['anomaly']} at {row['offset']}: {row['found']}"
            anomalies.setdefault(row["topic"], []).append(text)
    return causes, replicas, stories, anomalies


def _story(row: Mapping[str, Any]) -> str:
    shown = {key: "-" if value is None else value for key, value in row.items()}
    return (
        "{producer}/{sequence} {case} by {leader} in {leader_epoch}, then {next_leader} in "
        "{next_leader_epoch} from {next_leader_start}, cut by {truncated_by}"
    ).format(**shown)


def _first_only(stories: Sequence[str]) -> list[str]:
    """Return the stories with the first record's name: in a cause, they differ in nothing else."""
    return sorted(stories)[:1] + [
        sorted(stories)[0].split(" ")[0] + " " + story.partition(" ")[2]
        for story in sorted(stories)[1:]
    ]


EVERY = {
    topic: (acks, left)
    for acks, topics in (("1", WITH_ACKS_1), ("0", WITH_ACKS_0), ("all", WITH_ACKS_ALL))
    for topic, left in topics.items()
}


@pytest.fixture(scope="module")
def of_acks(spark, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("acks")
    write(run_dir, {topic: left for topic, (_, left) in EVERY.items()})
    pause_producer(run_dir, number=4)
    return judged(spark, run_dir, {topic: acks for topic, (acks, _) in EVERY.items()})


@pytest.mark.parametrize("topic", EVERY)
def test_every_lost_record_has_its_story(topic, of_acks):
    stories = of_acks[2]
    assert _first_only(stories.get(topic, [])) == list(EVERY[topic][1].expected)


@pytest.mark.parametrize("topic", EVERY)
def test_records_of_one_story_are_one_cause(topic, of_acks):
    left = EVERY[topic][1]
    causes = [one for one in of_acks[0] if one.topic == topic]
    (cause,) = causes
    assert cause.count == len(left.expected)
    assert cause.case == left.expected[0].split(" ")[1]
    assert cause.sentence.startswith(f"{cause.count} record")


def test_a_cause_names_offsets_times_and_the_fault(of_acks):
    (cause,) = [one for one in of_acks[0] if one.topic == "b2"]
    assert (cause.first_offset, cause.last_offset) == (3, 5)
    assert (cause.last_acked_at - cause.first_acked_at).total_seconds() == 2
    assert cause.window == 3  # the first topic's own number
    assert "leader 1 was killed (kill, fault 4) before the next leader" in cause.sentence
    assert "; acked before or after pause_client of producer 1 (fault 5); " in cause.sentence
    assert "broker 1 truncated to 3 at 00:00:55.000, below its high watermark 5" in cause.sentence


def test_a_cause_says_that_a_transaction_hung_and_who_aborted_it(of_acks):
    (cause,) = [one for one in of_acks[0] if one.topic == "hung"]
    assert (
        "and a replica that was not in sync was elected; the log kept them without the COMMIT "
        "marker of their transaction, which hung until ackproof aborted it; "
    ) in cause.sentence


def test_a_cause_names_the_fault_that_deleted_the_topic(of_acks):
    (cause,) = [one for one in of_acks[0] if one.topic == "recreated"]
    assert "created after they were acked, with an empty log; meanwhile kill of " in cause.sentence


@pytest.fixture(scope="module")
def agreement(spark, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("agreement")
    write(run_dir, AGREEMENT)
    return judged(spark, run_dir, {})


@pytest.mark.parametrize("topic", AGREEMENT)
def test_divergences_and_gaps_are_reported_with_their_offset(topic, agreement):
    anomalies = agreement[3]
    assert sorted(anomalies.get(topic, [])) == sorted(AGREEMENT[topic].anomalies)


def test_divergences_and_gaps_are_counted(agreement):
    expected = [text for left in AGREEMENT.values() for text in left.anomalies]
    assert agreement[1] == {
        Anomaly.DIVERGED: sum(text.startswith("diverged") for text in expected),
        Anomaly.GAP: sum(text.startswith("gap") for text in expected),
    }


@pytest.mark.parametrize(
    "rows", [FEW, pytest.param(FEW + 1, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_counts_of_0_are_left_out_if_replica_logs_are_incomplete(spark, tmp_path, rows):
    topics = {"agree": AGREEMENT["agree"], "flipped": AGREEMENT["flipped"]}
    write(tmp_path, topics, incomplete=["agree"])
    _, replicas, _, _ = judged(spark, tmp_path, {}, rows=rows)
    assert replicas == {Anomaly.DIVERGED: 1}  # the number of gaps is unknown


@pytest.mark.slow
@pytest.mark.parametrize("rows", [FEW, FEW + 1], ids=["few", "many"])
def test_a_run_without_evidence_has_stories(spark, tmp_path, rows):
    write_run(tmp_path, {"b2": B2.history})
    _, replicas, stories, _ = judged(spark, tmp_path, {"b2": "1"}, rows=rows)
    assert replicas == {}
    assert _first_only(stories["b2"]) == list(WITH_ACKS_1["unknown"].expected)
