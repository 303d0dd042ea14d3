"""Counts losses that `docs/reports-to-kafka` describes, in runs without held requests.

`ci/lab/without-holds` calls it. A form is a module with the faults of a turn and what it counts of
a run besides losses. All partitions of a turn are one try.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import missed_epochs
import removed_replica
import truth
from rich.console import Console
from truth import end_as_by_ctrl_c, store, stored

from ackproof.cluster.pool import ClusterPool
from ackproof.containers.engine import connect
from ackproof.execution.runner import recorded
from ackproof.judgement.judge import judge_run
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.progress import ConsoleReporter
from ackproof.runs.directory import table_rows
from ackproof.scenario.loader import load
from ackproof_faults.conditions.durations import parse_duration

FORMS = {"missed-epochs": missed_epochs, "removed-replica": removed_replica}

RUNS = Path(__file__).parents[2] / "runs" / "without-holds"

RESULTS = truth.RESULTS / "without_holds.jsonl"

#: What says of which series a run is.
_SERIES = ("form", "kafka", "partitions")

#: The quantile of the normal distribution for two sides and 95 %.
_Z = 1.959964


def main() -> int:
    """Run until as many turns are stored as are wanted; return 0 unless a run is inconclusive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("form", choices=FORMS)
    parser.add_argument("--kafka", default=DEFAULT_KAFKA)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--turns", type=int, default=50, help="in all, with those that are stored")
    parser.add_argument("--per-run", type=int, default=4, help="turns of a run, judged together")
    parser.add_argument("--rate", default="1000/s")
    parser.add_argument("--budget", default="720m", help="begin no run after this time")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only print what is stored")
    parser.add_argument("--judge", metavar="RUN", type=Path, help="count in a run that is stored")
    chosen = parser.parse_args()
    if chosen.judge:
        print(json.dumps(_judged(chosen, chosen.judge)))
        return 0
    end_as_by_ctrl_c()
    series = {key: getattr(chosen, key) for key in _SERIES}
    found = [one for one in stored(chosen.results) if series.items() <= one.items()]
    until = time.monotonic() + parse_duration(chosen.budget)
    code = 0
    while not chosen.table and (left := chosen.turns - total(found)["turns"]) > 0:
        if time.monotonic() > until:
            break
        one = _run(chosen, min(left, chosen.per_run))
        store(chosen.results, [one])
        found.append(one)
        print(f"{total(found)['turns']} of {chosen.turns} turns: {json.dumps(one)}", flush=True)
        if one["verdict"] == "inconclusive":
            code = 1
            if not one["turns"]:
                break
    print(json.dumps(total(found)))
    return code


def _run(chosen: argparse.Namespace, turns: int) -> dict[str, Any]:
    """Run some turns on a new cluster, and return their line of the results."""
    RUNS.mkdir(parents=True, exist_ok=True)
    path = RUNS / f"{chosen.form}.yaml"
    path.write_text(json.dumps(scenario(chosen, turns)))  # YAML contains JSON
    (configured,) = load(path)
    engine, reporter = connect(), ConsoleReporter(Console(stderr=True))
    with ClusterPool(engine, reuse=False) as pool:
        run_dir = recorded(configured, out=RUNS, client=engine, reporter=reporter, pool=pool)
    return {**{key: getattr(chosen, key) for key in _SERIES}, **_judged(chosen, run_dir)}


def _judged(chosen: argparse.Namespace, run_dir: Path) -> dict[str, Any]:
    verdict = judge_run(run_dir)
    return {"verdict": verdict.verdict, "reason": verdict.reason, **counts(chosen.form, run_dir)}


def scenario(chosen: argparse.Namespace, turns: int) -> dict[str, Any]:
    form = FORMS[chosen.form]
    settings = {"min.insync.replicas": 2, "unclean.leader.election.enable": False}
    return {
        "version": 1,
        "name": chosen.form,
        "kafka": chosen.kafka,
        "seed": 1,
        "cluster": {"brokers": form.BROKERS, "settings": dict(form.SETTINGS)},
        "topics": {
            "orders": {
                "assignment": [form.ASSIGNMENT] * chosen.partitions,
                "settings": settings,
            },
            **{name: {**topic, "settings": settings} for name, topic in form.MORE.items()},
        },
        "workload": {
            "topic": "orders",
            "producers": 2,
            "rate": chosen.rate,
            "records": 100_000_000,
            "seconds": "240m",
            "tail": 100,
            # A probe has two clients for each partition.
            "probe": False,
            # Idempotent producers take a core each while their requests wait
            # (docs/reports-to-kafka).
            "settings": {
                "acks": "all", "enable.idempotence": False, "delivery.timeout.ms": 300_000,
            },
        },
        "expect": {"loss": "any"},
        "faults": [{"sequence": steps} for steps in form.turns(turns)],
    }  # fmt: skip


def counts(form: str, run_dir: Path) -> dict[str, Any]:
    """Return the turns of a run, its elections, acks and losses, and what its form counts."""
    module = FORMS[form]
    windows = [one for one in table_rows(run_dir, "fault_windows") if one["verified_at"]]
    began = beginnings(windows, module.ONCE)
    lost = [one["resolved_at"] for one in table_rows(run_dir, "anomalies")
            if one["anomaly"] == "lost"]  # fmt: skip
    return {
        "run": run_dir.name,
        "turns": len(began),
        "elections": elections(table_rows(run_dir, "partition_states")),
        "acked": sum(one["outcome"] == "acked" for one in table_rows(run_dir, "ledger")),
        "lost": len(lost),
        "turns_that_lost": len({turn_of(began, at) for at in lost}),
        **module.counts(run_dir, lambda at: turn_of(began, at)),
    }


def total(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums of results, and the bound of the share of turns that lose."""
    sums = Counter({"turns": 0, "turns_that_lost": 0})
    for one in found:
        sums.update({key: value for key, value in one.items()
                     if isinstance(value, int) and key not in _SERIES})  # fmt: skip
    turns = sums["turns"]
    return {**sums, "upper_bound": round(wilson(sums["turns_that_lost"], turns), 4) if turns else 1}


def beginnings(windows: Iterable[Mapping[str, Any]], fault: str) -> list[datetime]:
    """Return when the fault of each turn was injected."""
    return sorted(one["injected_at"] for one in windows if one["fault"] == fault)


def turn_of(began: Sequence[datetime], at: datetime) -> int:
    """Return the number of the turn in which this time is; 0 before the first."""
    return bisect(began, at)


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
        sys.stderr.write("without-holds: interrupted; every run that was judged is stored\n")
        sys.exit(130)
