"""Counts missed leader epochs, and losses by them, in a run without held requests.

`ci/lab/missed-epochs` calls it. In each turn broker 2, the preferred leader of every partition, is
restarted, so that 3 leads. When 2 is in sync again, 3 is paused until the balancer has elected 2
and 2 was stopped again, which makes 3 the leader; then 3 is killed. The pause is shorter than a
broker's session, so 3 stays in the ISR, and may apply both elections at once.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from ackproof.cluster.pool import ClusterPool
from ackproof.containers.engine import connect
from ackproof.execution.runner import recorded
from ackproof.judgement.judge import judge_run
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.progress import ConsoleReporter
from ackproof.runs.directory import table_rows
from ackproof.scenario.loader import load

RUNS = Path(__file__).parents[2] / "runs" / "missed-epochs"

#: The quantile of the normal distribution for two sides and 95 %.
_Z = 1.959964

#: A replica's truncation and the leader's acks belong to its election within these times.
_BEFORE, _AFTER = timedelta(seconds=30), timedelta(seconds=5)

_PREVIOUS = re.compile(r"Previous leader (?:Some\()?(\d+)\)? and previous leader epoch was (\d+)")


def main() -> int:
    """Print the counts; return 0 unless the run is inconclusive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", default=DEFAULT_KAFKA)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--time", default="30m", help="begin no turn after this time")
    parser.add_argument("--rate", default="500/s")
    parser.add_argument("--judge", metavar="RUN", type=Path, help="count in a run that is stored")
    chosen = parser.parse_args()
    run_dir = chosen.judge or _run(chosen)
    verdict = judge_run(run_dir)
    print(json.dumps({"verdict": verdict.verdict, "reason": verdict.reason, **counts(run_dir)}))
    return 0 if verdict.verdict == "holds" else 1


def _run(chosen: argparse.Namespace) -> Path:
    RUNS.mkdir(parents=True, exist_ok=True)
    path = RUNS / "missed-epochs.yaml"
    path.write_text(json.dumps(scenario(chosen)))  # YAML contains JSON
    (configured,) = load(path)
    engine, reporter = connect(), ConsoleReporter(Console(stderr=True))
    with ClusterPool(engine, reuse=False) as pool:
        return recorded(configured, out=RUNS, client=engine, reporter=reporter, pool=pool)


def scenario(chosen: argparse.Namespace) -> dict[str, Any]:
    turn = [
        {"fault": "restart", "id": "first", "target": 2, "when": "leader of orders-0 == 2",
         "or_after": "30s", "heal_when": "leader of orders-0 == 3", "heal_after": "10s"},
        {"fault": "pause", "id": "paused", "target": 3, "when": "isr of orders-0 == 3",
         "or_after": "60s", "heal_when": "again began", "heal_after": "15s"},
        {"fault": "restart", "id": "again", "target": 2, "when": "leader of orders-0 == 2",
         "or_after": "16s", "heal_when": "gone began", "heal_after": "30s"},
        {"fault": "kill", "id": "gone", "target": 3, "when": ["paused ended", "1 more acked"],
         "or_after": "10s", "heal_when": "leader of orders-0 == 1", "heal_after": "90s"},
        {"fault": "none", "id": "whole", "when": "gone recovered", "heal_after": "1s"},
    ]  # fmt: skip
    return {
        "version": 1,
        "name": "missed-epochs",
        "kafka": chosen.kafka,
        "seed": 1,
        "cluster": {
            "settings": {
                "auto.leader.rebalance.enable": True,
                "leader.imbalance.check.interval.seconds": 12,
                "leader.imbalance.per.broker.percentage": 0,
                # On a busy machine a shutdown in the pause takes 20 s and more.
                "broker.session.timeout.ms": 40000,
            }
        },
        "topics": {
            "orders": {
                "assignment": [[2, 3, 1]] * chosen.partitions,
                "settings": {"min.insync.replicas": 2, "unclean.leader.election.enable": False},
            }
        },
        "workload": {
            "topic": "orders",
            "producers": 4,
            "rate": chosen.rate,
            "records": 100_000_000,
            "seconds": "240m",
            "tail": 100,
            "may_stop_for": ["OUT_OF_ORDER_SEQUENCE_NUMBER"],
            "settings": {
                "acks": "all", "enable.idempotence": True, "delivery.timeout.ms": 120_000,
            },
        },
        "expect": {"loss": "any"},
        "faults": [{"sequence": turn, "for": chosen.time}],
    }  # fmt: skip


class Missed(NamedTuple):
    """A broker led again without having learned that another led in between."""

    partition: int
    broker: int
    offset: int
    at: datetime


def counts(run_dir: Path) -> dict[str, Any]:
    """Return turns, elections, missed epochs, acks below a truncation, losses and their bound."""
    windows = [one for one in table_rows(run_dir, "fault_windows") if one["verified_at"]]
    began = sorted(one["injected_at"] for one in windows if one["fault"] == "pause")
    killed = [one["injected_at"] for one in windows if one["fault"] == "kill"]
    events = list(table_rows(run_dir, "broker_events"))
    missed = list(missed_epochs(events))
    acked = [one for one in table_rows(run_dir, "ledger") if one["outcome"] == "acked"]
    lost = [one for one in table_rows(run_dir, "anomalies") if one["anomaly"] == "lost"]
    turns = _turns(began, killed)
    losing = _turns(began, [one["resolved_at"] for one in lost])
    return {
        "run": run_dir.name,
        "turns": len(turns),
        "elections": elections(table_rows(run_dir, "partition_states")),
        "missed_epochs": len(missed),
        "turns_with_a_missed_epoch": len(_turns(began, [one.at for one in missed])),
        "acks_below_a_truncation": early_acks(acked, events, missed),
        "acked": len(acked),
        "lost": len(lost),
        "turns_that_lost": len(losing),
        "upper_bound": round(wilson(len(losing), len(turns)), 4) if turns else None,
    }


def _turns(began: Sequence[datetime], times: Iterable[datetime]) -> set[int]:
    """Return the turns in which these times are."""
    return {bisect(began, at) for at in times}


def elections(states: Iterable[Mapping[str, Any]]) -> int:
    """Return how often a partition got another leader."""
    leaders: dict[int, int] = {}
    count = 0
    for one in states:
        if one["leader"] >= 0:
            before = leaders.get(one["partition"], one["leader"])
            count += before != one["leader"]
            leaders[one["partition"]] = one["leader"]
    return count


def missed_epochs(events: Iterable[Mapping[str, Any]]) -> Iterator[Missed]:
    """Yield the leaders that name themselves as the previous leader of an older epoch."""
    for one in events:
        if one["kind"] != "leader" or not (previous := _PREVIOUS.search(one["text"])):
            continue
        leader, epoch = map(int, previous.groups())
        if leader == one["broker"] and one["leader_epoch"] > epoch + 1:
            yield Missed(
                partition=one["partition"], broker=leader, offset=one["offset"], at=one["at"]
            )


def early_acks(
    acked: Iterable[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    missed: Sequence[Missed],
) -> int:
    """Return the acks of such leaders for records that a replica had truncated shortly before.

    Those records are below the leader's log end at its election.
    """
    below: dict[int, list[tuple[int, int, datetime]]] = {}
    for one in missed:
        truncated = [
            event["offset"]
            for event in events
            if event["kind"] == "truncated"
            and event["partition"] == one.partition
            and event["broker"] != one.broker
            and one.at - _BEFORE <= event["at"] <= one.at + _AFTER
        ]
        if truncated:
            below.setdefault(one.partition, []).append((min(truncated), one.offset, one.at))
    return sum(
        any(
            first <= one["offset"] < end and at <= one["resolved_at"] <= at + _AFTER
            for first, end, at in below.get(one["partition"], ())
        )
        for one in acked
    )


def wilson(losing: int, turns: int) -> float:
    """Return the upper end of Wilson's interval of 95 % for a share."""
    share, square = losing / turns, _Z**2
    centre = share + square / (2 * turns)
    spread = _Z * math.sqrt(share * (1 - share) / turns + square / (4 * turns**2))
    return (centre + spread) / (1 + square / turns)


if __name__ == "__main__":
    sys.exit(main())
