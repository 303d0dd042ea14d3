"""Counts missed leader epochs, and losses by them, in runs without held requests.

`ci/lab/missed-epochs` calls it. In each turn broker 3, which leads every partition, is cut off from
the controllers for some seconds, and nothing else is. Meanwhile the balancer elects broker 2, and,
after a change of the preferred order, 3 again. Once 3 reaches the controllers it may apply both
elections at once; after its first ack it is killed. All partitions of a turn are one try.

(While 3 does not reach the controllers, no other broker can end by SIGTERM: a controller lets a
broker shut down only once every active broker has read that its leaders have moved.)
"""

from __future__ import annotations

import argparse
import json
import math
import re
import signal
import sys
import time
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import truth
from rich.console import Console
from truth import store, stored

from ackproof.cluster.pool import ClusterPool
from ackproof.containers.engine import connect
from ackproof.execution.runner import recorded
from ackproof.judgement.judge import judge_run
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.progress import ConsoleReporter
from ackproof.runs.directory import table_rows
from ackproof.scenario.loader import load
from ackproof_faults.conditions.durations import parse_duration

RUNS = Path(__file__).parents[2] / "runs" / "missed-epochs"

RESULTS = truth.RESULTS / "missed_epochs.jsonl"

#: The fault with which the leader of a turn is cut off.
_BEGINS = "partition"

#: Counts of a run that are summed.
SUMMED = ("turns", "elections", "missed_epochs", "turns_with_a_missed_epoch",
          "acks_below_a_truncation", "acked", "lost", "turns_that_lost")  # fmt: skip

#: The quantile of the normal distribution for two sides and 95 %.
_Z = 1.959964

#: A replica's truncation and the leader's acks belong to its election within these times.
_BEFORE, _AFTER = timedelta(seconds=30), timedelta(seconds=5)

_PREVIOUS = re.compile(r"Previous leader (?:Some\()?(\d+)\)? and previous leader epoch was (\d+)")


def main() -> int:
    """Run until as many turns are stored as are wanted; return 0 unless a run is inconclusive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", default=DEFAULT_KAFKA)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=50, help="in all, with those that are stored")
    parser.add_argument("--per-run", type=int, default=5, help="turns of a run, judged together")
    parser.add_argument("--session", default="30s", help="broker.session.timeout.ms")
    parser.add_argument("--rate", default="500/s")
    parser.add_argument("--budget", default="720m", help="begin no run after this time")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only print what is stored")
    parser.add_argument("--judge", metavar="RUN", type=Path, help="count in a run that is stored")
    chosen = parser.parse_args()
    if chosen.judge:
        print(json.dumps(_judged(chosen.judge)))
        return 0
    # As Ctrl-C, so that `timeout` or a closed terminal leaves nothing behind.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    found = [one for one in stored(chosen.results) if _alike(one, chosen)]
    until = time.monotonic() + parse_duration(chosen.budget)
    code = 0
    while not chosen.table and (left := chosen.turns - total(found)["turns"]) > 0:
        if time.monotonic() > until:
            break
        one = _run(chosen, min(left, chosen.per_run))
        store(chosen.results, [one])
        found.append(one)
        print(f"{total(found)['turns']} of {chosen.turns} turns: {json.dumps(one)}", flush=True)
        if one["verdict"] != "holds":
            code = 1
            if not one["turns"]:
                break
    print(json.dumps(total(found)))
    return code


def _alike(one: Mapping[str, Any], chosen: argparse.Namespace) -> bool:
    return (one["kafka"], one["partitions"]) == (chosen.kafka, chosen.partitions)


def _run(chosen: argparse.Namespace, turns: int) -> dict[str, Any]:
    """Run some turns on a new cluster, and return their line of the results."""
    RUNS.mkdir(parents=True, exist_ok=True)
    path = RUNS / "missed-epochs.yaml"
    path.write_text(json.dumps(scenario(chosen, turns)))  # YAML contains JSON
    (configured,) = load(path)
    engine, reporter = connect(), ConsoleReporter(Console(stderr=True))
    with ClusterPool(engine, reuse=False) as pool:
        run_dir = recorded(configured, out=RUNS, client=engine, reporter=reporter, pool=pool)
    return {"kafka": chosen.kafka, "partitions": chosen.partitions, **_judged(run_dir)}


def _judged(run_dir: Path) -> dict[str, Any]:
    verdict = judge_run(run_dir)
    return {"verdict": verdict.verdict, "reason": verdict.reason, **counts(run_dir)}


def scenario(chosen: argparse.Namespace, turns: int) -> dict[str, Any]:
    order = {"fault": "reassign", "topic": "orders", "within": "60s", "heal_after": "1s"}
    waits = {"fault": "none", "heal_after": "1s"}
    turn = [
        {**order, "id": "first", "to": [3, 2, 1], "when": "isr of orders-0 == 3"},
        {**waits, "id": "leads", "when": "leader of orders-0 == 3", "or_after": "30s"},
        {"fault": _BEGINS, "id": "cut", "target": 3, "peers": "controllers",
         "when": "isr of orders-0 == 3", "or_after": "30s", "heal_when": "back ended"},
        {**order, "id": "away", "to": [2, 3, 1]},
        {**waits, "id": "led", "when": "leader of orders-0 == 2", "or_after": "10s"},
        # Should 3 end, broker 1 is the next.
        {**order, "id": "again", "to": [3, 1, 2]},
        {**waits, "id": "back", "when": "leader of orders-0 == 3", "or_after": "10s"},
        {"fault": "kill", "id": "gone", "target": 3, "when": ["cut ended", "1 more acked"],
         "or_after": "10s", "heal_when": "leader of orders-0 == 1", "heal_after": "60s"},
        {**waits, "id": "whole", "when": "gone recovered"},
    ]  # fmt: skip
    return {
        "version": 1,
        "name": "missed-epochs",
        "kafka": chosen.kafka,
        "seed": 1,
        "cluster": {
            "settings": {
                "auto.leader.rebalance.enable": True,
                "leader.imbalance.check.interval.seconds": 2,
                "leader.imbalance.per.broker.percentage": 0,
                "broker.session.timeout.ms": round(1000 * parse_duration(chosen.session)),
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
            # A probe has two clients for each partition.
            "probe": False,
            "may_stop_for": ["OUT_OF_ORDER_SEQUENCE_NUMBER"],
            "settings": {
                "acks": "all", "enable.idempotence": True, "delivery.timeout.ms": 120_000,
            },
        },
        "expect": {"loss": "any"},
        "faults": [{"sequence": turn, "repeat": turns}],
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
    began = beginnings(windows)
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
    }


def total(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums of results, and the bound of the share of turns that lose."""
    sums: dict[str, Any] = {key: sum(one[key] for one in found) for key in SUMMED}
    turns = sums["turns"]
    return {**sums, "upper_bound": round(wilson(sums["turns_that_lost"], turns), 4) if turns else 1}


def beginnings(windows: Iterable[Mapping[str, Any]]) -> list[datetime]:
    """Return when each turn cut its leader off."""
    return sorted(one["injected_at"] for one in windows if one["fault"] == _BEGINS)


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
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write("missed-epochs: interrupted; every run that was judged is stored\n")
        sys.exit(130)
