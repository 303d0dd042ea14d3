"""Synthetic run directories, complete as after a real run: orders-0 loses its leader.

Times are in seconds after the first send: at 6 replication from broker 1 is cut, at 7.5 broker 1 is
killed, at 16.5 the controller fences it and elects broker 2, at 17 it starts again, at 22 every ISR
is full. The effect on orders-0 depends on `acks`; orders-1 and orders-2 have other leaders.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ackproof.runs.directory import PredictionRecord, write_model
from ackproof.runs.verdict import (
    CauseReport,
    Expectation,
    FaultReport,
    Finding,
    Latency,
    Metrics,
    PartitionAvailability,
    PredictionReport,
    ProbeMetrics,
    Share,
    Verdict,
    Word,
)
from ackproof_model import Diagram, Line
from ackproof_spark import tables
from support.run_directories import RunDirectory

START = datetime(2026, 11, 21, 12, 4, 0, 250_000, tzinfo=UTC)
CUT, KILLED, ELECTED, RESTARTED, RECOVERED = 6.0, 7.5, 16.5, 17.0, 22.0
PARTITIONS = 3

TRACE = [
    "orders-0: leader 1, ISR {1, 2, 3}",
    "isolate_replication: brokers 2 and 3 no longer fetch from 1",
    "a record is appended at leader 1 at offset n; acks=1, so it is acked at once",
    "kill: broker 1 dies while n stands in its log only",
    "the controller fences 1 and elects 2 from the ISR, at leader epoch 1; its log ends at n",
    "broker 1 comes back, truncates to n: the acked record is gone",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Properties of a synthetic run."""

    acks: str = "1"
    seconds: float = 40.0
    rate: int = 1500
    seed: int = 1
    #: Number of lost records that the model excludes.
    unexplained: int = 0
    #: Whether the second fault was verified.
    verified: bool = True
    #: Rows of fault_windows; None for those of `fault_windows()`.
    windows: list[dict[str, Any]] | None = None


def at(second: float) -> datetime:
    return START + timedelta(seconds=round(second, 6))


def micros(second: float) -> int:
    """Return a time in microseconds since 1970."""
    return int(at(second).timestamp() * 1e6)


def verdict_of(directory: Path) -> Verdict:
    return Verdict.model_validate_json((directory / "verdict.json").read_bytes())


def make(directory: Path, options: Options, *, name: str | None = None) -> Verdict:
    """Write a complete run directory and return its verdict."""
    sends, windows = _simulate(options), options.windows or fault_windows(options)
    verdict = _verdict(directory.name, options, sends, windows, name or f"acks={options.acks}")
    run = _create(directory, options.acks, verdict.configuration_name)
    _write_ledger(run, sends)
    run.write("final_log", _final_log(sends))
    run.write("partition_ends", _ends(sends))
    run.write("fault_windows", windows)
    run.write("partition_states", _states())
    run.write("broker_states", _brokers())
    run.write("anomalies", _anomalies(sends))
    write_model(directory / "verdict.json", verdict)
    return verdict


_SHARE = Share(share=0.75, outages=1, longest_s=9.25)
PROBE = ProbeMetrics(
    read=_SHARE,
    write=_SHARE,
    partitions=[PartitionAvailability(topic="orders", partition=0, read=_SHARE, write=_SHARE)],
    writes={},
)

DIAGRAM = Diagram(
    participants=("producer", "controller", "A", "B", "C"),
    lines=(
        Line(at="1", text="fault 1: isolate_replication", marks=(2,), kind="fault"),
        Line(at="2", text="record 2", arrow=(0, 2)),
        Line(at="3", text="ack for record 2", arrow=(2, 0)),
        Line(at="4", text="fence", marks=(1, 2)),
    ),
)


def explain(directory: Path) -> Verdict:
    """Add the stories of its lost records to a run: two histories, which differ by their ISR."""
    run = RunDirectory(path=directory, run_id=directory.name)
    lost = run.rows("anomalies")
    rows = [
        {
            **{name: record[name] for name in ("topic", "partition", "producer", "sequence")},
            **{name: record[name] for name in ("offset", "sent_at", "window")},
            "acked_at": record["resolved_at"],
            "leader": 1,
            "leader_epoch": 0,
            "isr": [1, 2, 3] if number else [1],
            "next_leader": 2,
            "next_leader_epoch": 1,
            **dict.fromkeys(("next_leader_start", "next_leader_high_watermark"), lost[0]["offset"]),
            "elected_at": at(ELECTED),
            "election": "clean",
            "truncated_by": 1,
            "truncated_to": lost[0]["offset"],
            "truncated_at": at(RESTARTED + 1),
            "held_by": [],
            "case": "B2",
        }
        for number, record in enumerate(lost)
    ]
    run.write("lost_stories", rows)
    made = verdict_of(directory)
    cause = CauseReport(
        case="B2",
        title="acks=1, leader lost before replication",
        count=len(rows),
        topic="orders",
        partition=0,
        first_offset=rows[0]["offset"],
        last_offset=rows[-1]["offset"],
        first_acked_at=rows[0]["acked_at"],
        last_acked_at=rows[-1]["acked_at"],
        window=2,
        sentence=f"{len(rows)} records of orders-0: leader 1 was killed",
    )
    metrics = made.metrics.model_copy(update={"probe": PROBE})
    explained = made.model_copy(update={"causes": [cause], "metrics": metrics})
    foreseen = PredictionRecord(
        predicted=explained.predicted, prediction=explained.prediction, diagram=DIAGRAM
    )
    write_model(directory / "prediction.json", foreseen)
    write_model(directory / "verdict.json", explained)
    return explained


def make_interrupted(directory: Path) -> None:
    """Write the run directory of a run that was killed during its second fault."""
    options = Options(seconds=9.0)
    run = _create(directory, "1", "acks=1, killed", troubles=["broker 1 did not come back"])
    _write_ledger(run, _simulate(options))
    torn = run.file("ledger", "producer-1")
    torn.write_bytes(torn.read_bytes()[:-400])
    open_end = dict.fromkeys(("healed_at", "recovered_at"))
    run.write("fault_windows", [window | open_end for window in fault_windows(options)])
    run.write("partition_states", [state for state in _states() if state["at"] < at(9.0)])


def _create(directory: Path, acks: str, name: str, **record: Any) -> RunDirectory:
    topic = {"partitions": PARTITIONS, "settings": {"min.insync.replicas": 2}}
    settings = {"acks": acks, "enable.idempotence": False}
    return RunDirectory.create(
        directory,
        {
            "version": 1,
            "name": "acks",
            "topics": {"orders": topic},
            "workload": {"topic": "orders", "producers": 2, "rate": 1500, "settings": settings},
        },
        run_id=directory.name,
        configuration_name=name,
        image="ackproof/kafka:4.3.1",
        started_at=at(-12),
        finished_at=None,
        **record,
    )


def _write_ledger(run: RunDirectory, sends: dict[str, np.ndarray]) -> None:
    for producer in (0, 1):
        mine = sends["producer"] == producer
        own = {name: column[mine] for name, column in sends.items()}
        run.write("ledger", _ledger(own), name=f"producer-{producer}")


def _simulate(options: Options) -> dict[str, np.ndarray]:
    random = np.random.default_rng(options.seed)
    count = int(options.seconds * options.rate)
    sent = np.sort(random.uniform(0, options.seconds, count))
    sent[0] = 0.0
    partition = np.arange(count) % PARTITIONS
    producer = (np.arange(count) // PARTITIONS) % 2
    sequence = np.zeros(count, dtype=np.int64)
    for each in (0, 1):
        mine = producer == each
        sequence[mine] = np.arange(mine.sum())
    typical = {"0": 0.00008, "1": 0.0042, "all": 0.0079}[options.acks]
    latency = typical * random.lognormal(0, 0.45, count)
    latency[random.random(count) < 0.002] += 0.04

    here = partition == 0
    cut, dead = (sent >= CUT) & (sent < KILLED), (sent >= KILLED) & (sent < ELECTED)
    waits = here & (dead | cut if options.acks == "all" else dead)
    latency[waits] = ELECTED + 0.25 - sent[waits] + latency[waits]
    # librdkafka sends its queue at a limited rate
    latency[waits] += (np.cumsum(waits)[waits] - 1) * 0.00015
    latency[here & (sent >= ELECTED) & (sent < ELECTED + 0.25)] += 0.25
    outcome = np.full(count, "acked", dtype=object)
    in_flight = here & (sent >= KILLED - 0.02) & (sent < KILLED)
    outcome[in_flight & (options.acks != "all")] = "unknown"
    lost = here & cut & (outcome == "acked") & (options.acks != "all")
    if options.acks == "0":
        lost |= here & (sent >= KILLED) & (sent < KILLED + 0.4)
        latency[here & (sent >= KILLED) & (sent < KILLED + 0.4)] = 0.0001
    others = np.flatnonzero((partition == 1) & (sent > 17.5) & (sent < 19))
    lost[others[:: max(len(others) // max(options.unexplained, 1), 1)][: options.unexplained]] = (
        True
    )

    resolved = sent + latency
    offset = np.full(count, -1, dtype=np.int64)
    for each in range(PARTITIONS):
        written = np.flatnonzero((partition == each) & (outcome == "acked"))
        written = written[np.argsort(resolved[written], kind="stable")]
        numbers = np.arange(written.size)
        if options.acks == "1" and each == 0:
            # the new leader continues at the end of its own log
            gone = int(lost[written].sum())
            numbers[resolved[written] > KILLED] -= gone
        offset[written] = numbers
    return {
        "sent": sent,
        "resolved": resolved,
        "partition": partition,
        "producer": producer,
        "sequence": sequence,
        "outcome": outcome,
        "offset": offset,
        "acked_offset": np.where(options.acks == "0", -1, offset),
        "lost": lost,
    }


def _times(seconds: np.ndarray) -> pa.Array:
    base = int(START.timestamp() * 1e6)
    return pa.array((seconds * 1e6).astype(np.int64) + base).cast(tables.TIME)


def _optional(numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers, mask=numbers < 0)


def _named(sends: dict[str, np.ndarray], chosen: np.ndarray) -> dict[str, Any]:
    names = {name: sends[name][chosen] for name in ("partition", "producer", "sequence")}
    return {"topic": ["orders"] * int(np.count_nonzero(chosen)), **names}


def _ledger(sends: dict[str, np.ndarray]) -> dict[str, Any]:
    return {
        **_named(sends, np.ones_like(sends["lost"])),
        "outcome": sends["outcome"],
        "error": [None if each == "acked" else "_TIMED_OUT" for each in sends["outcome"]],
        "offset": _optional(sends["acked_offset"]),
        "sent_at": _times(sends["sent"]),
        "resolved_at": _times(sends["resolved"]),
    }


def _final_log(sends: dict[str, np.ndarray]) -> dict[str, Any]:
    written = (sends["outcome"] == "acked") & ~sends["lost"]
    return {
        **_named(sends, written),
        "offset": sends["offset"][written],
        "written_at": _times(sends["resolved"][written]),
        "state": ["intact"] * int(written.sum()),
    }


def _ends(sends: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    last = [sends["offset"][sends["partition"] == each].max() for each in range(PARTITIONS)]
    common = {"topic": "orders", "complete": True}
    return [
        common | {"partition": partition, "end_offset": int(offset) + 1}
        for partition, offset in enumerate(last)
    ]


def _anomalies(sends: dict[str, np.ndarray]) -> dict[str, Any]:
    lost = sends["lost"]
    offsets, moments = sends["acked_offset"][lost], sends["resolved"][lost]
    window = np.where(moments < KILLED, 1, np.where(moments < RECOVERED, 2, -1))
    return {
        **_named(sends, lost),
        "anomaly": ["lost"] * offsets.size,
        "offset": _optional(offsets),
        "sent_at": _times(sends["sent"][lost]),
        "resolved_at": _times(moments),
        "window": _optional(window),
        "found": [
            "nothing: the ack has no offset, and no record of this send was read"
            if offset < 0
            else f"record of producer {offset % 2} sequence {sequence + 4000}"
            for offset, sequence in zip(offsets, sends["sequence"][lost], strict=True)
        ],
    }


def fault_windows(options: Options) -> list[dict[str, Any]]:
    common = {"target": "leader of orders-0", "nodes": [1], "parameters": "{}"}
    proof = "broker 1: exit status 137"
    if not options.verified:
        proof = "not verified: broker 1 still answers on its EXTERNAL listener"
    return [
        {
            **common,
            "window": 1,
            "fault": "isolate_replication",
            "trigger": "3000 acked and isr of orders-0 == 3",
            "injected_at": at(CUT - 0.4),
            "verified_at": at(CUT),
            "healed_at": at(RESTARTED + 0.6),
            "recovered_at": at(RECOVERED),
            "verified": True,
            "evidence": "2->1: INTERNAL times out, EXTERNAL answers",
        },
        {
            **common,
            "window": 2,
            "fault": "kill",
            "trigger": "1500 more acked",
            "injected_at": at(KILLED - 0.1),
            "verified_at": at(KILLED) if options.verified else None,
            "healed_at": at(RESTARTED),
            "recovered_at": at(RECOVERED - 0.5),
            "verified": options.verified,
            "evidence": proof,
        },
    ]


def _states() -> list[dict[str, Any]]:
    everyone = [1, 2, 3]
    history = [
        (-4.0, 0, 1, 0, everyone),
        (-4.0, 1, 2, 0, everyone),
        (-4.0, 2, 3, 0, everyone),
        (ELECTED, 0, 2, 1, [2, 3]),
        (ELECTED, 1, 2, 0, [2, 3]),
        (ELECTED, 2, 3, 0, [2, 3]),
        (RECOVERED - 1.2, 1, 2, 0, everyone),
        (RECOVERED - 1.0, 2, 3, 0, everyone),
        (RECOVERED - 0.5, 0, 2, 1, everyone),
        (RECOVERED + 8, 0, 1, 2, everyone),
    ]
    return [
        {
            "at": at(second),
            "metadata_offset": 100 + number,
            "partition_epoch": number,
            "topic": "orders",
            "partition": partition,
            "leader": leader,
            "leader_epoch": epoch,
            "replicas": everyone,
            "isr": isr,
        }
        for number, (second, partition, leader, epoch, isr) in enumerate(history)
    ]


def _brokers() -> list[dict[str, Any]]:
    history = [(-5.0, "registered"), (ELECTED, "fenced"), (RESTARTED + 1, "unfenced")]
    return [
        {"at": at(second), "metadata_offset": 50 + number, "broker": 1, "state": state}
        for number, (second, state) in enumerate(history)
    ]


def _verdict(
    run_id: str,
    options: Options,
    sends: dict[str, np.ndarray],
    windows: list[dict[str, Any]],
    name: str,
) -> Verdict:
    is_acked, safe = sends["outcome"] == "acked", options.acks == "all"
    acked, lost = int(is_acked.sum()), int(sends["lost"].sum())
    milliseconds = 1000 * (sends["resolved"] - sends["sent"])[is_acked]
    p50, p95, p99, p999 = np.percentile(milliseconds, [50, 95, 99, 99.9])
    wanted = "none" if safe else "some"
    met = (lost == 0) == safe
    word, reason = Word.HOLDS, f"loss: {wanted} was expected, and {lost:,} acked records are lost"
    if not met:
        word, reason = Word.VIOLATED, f"loss: {wanted} was expected, but {lost:,} are lost"
    if not options.verified:
        word = Word.INCONCLUSIVE
        reason = "kill of broker 1 was never seen to hold: broker 1 still answers on EXTERNAL"
    contradiction = Finding(
        anomaly="lost",
        predicted="impossible",
        observed=lost,
        explanation="With acks=all and min.insync.replicas=2 an acked record stands on two "
        "replicas; only one broker failed.",
    )
    observed_loss = f"{lost:,} of {acked:,} acked" if lost else "none"
    return Verdict(
        run_id=run_id,
        scenario="acks",
        configuration_name=name,
        seed=options.seed,
        kafka_version="4.3.1",
        image="ackproof/kafka:4.3.1",
        started_at=at(-12),
        finished_at=at(options.seconds + 25),
        verdict=word,
        reason=reason,
        observed={
            "sent": is_acked.size,
            "acked": acked,
            "failed": 0,
            "unknown": int((sends["outcome"] == "unknown").sum()),
            "lost": lost,
            **dict.fromkeys(("duplicated", "reordered", "phantom", "corrupt", "unseen"), 0),
        },
        predicted={
            "lost": "impossible" if safe else "certain",
            **dict.fromkeys(("duplicated", "reordered"), "impossible" if safe else "possible"),
            **dict.fromkeys(("phantom", "corrupt"), "impossible"),
        },
        prediction=PredictionReport(
            trace=[] if safe else TRACE,
            reasons={"phantom": "no rule of the model writes a record that was not sent"},
            bounds="888 states of one partition with 3 replicas; faults: the 2 of the schedule",
        ),
        findings=[contradiction] if safe and lost and options.verified else [],
        expectations=[
            Expectation(what="loss", wanted=wanted, observed=observed_loss, met=met),
            Expectation(what="phantom", wanted="none", observed="none", met=True),
            Expectation(what="corrupt", wanted="none", observed="none", met=True),
        ],
        faults=[FaultReport.of_window(window) for window in windows],
        metrics=Metrics(
            duration_s=options.seconds,
            acked_per_s=acked / options.seconds,
            unavailability_s=ELECTED + 0.25 - (CUT if safe else KILLED),
            unavailability_gap_s=1.0,
            ack_latency_ms=Latency(
                p50=p50, p95=p95, p99=p99, p999=p999, max=float(milliseconds.max())
            ),
        ),
        configuration={"acks": options.acks, "enable.idempotence": safe},
    )
