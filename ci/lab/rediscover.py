"""Measures how soon `explore` finds known defects of Kafka: `ci/lab/rediscover` calls it.

An exploration is told a version, a configuration and limits, and nothing of the catalogue's
schedules. It is over with the first run that shows the defect.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import truth
from rich.console import Console
from truth import end_as_by_ctrl_c, store, stored

from ackproof.containers.engine import connect
from ackproof.errors import AckproofError
from ackproof.exploration.coverage import reached
from ackproof.exploration.document import operations_in_words
from ackproof.exploration.folder import Exploration, Folder
from ackproof.exploration.loop import Explorer
from ackproof.exploration.next_schedule import Strategy
from ackproof.exploration.results import Result, Results, certain_pairs
from ackproof.planning.compiler import client_holds
from ackproof.progress import ConsoleReporter
from ackproof.runs.directory import read_verdict
from ackproof.scenario.loader import validate
from ackproof.scenario.model import Scenario
from ackproof_faults.conditions.durations import parse_duration
from ackproof_model.adversary import Budgets

RUNS = Path(__file__).parents[2] / "runs" / "rediscovery"
RESULTS = truth.RESULTS / "rediscovery.jsonl"

#: What says of which exploration a line is.
_SERIES = ("defect", "mode", "seed")

#: More states are not counted.
_MOST_STATES = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """How a finding is recognised as a defect.

    case: the judge reports this cause. also: another anomaly that shows it, whatever its cause.
    fenced: for certain, a broker registered, so that it was not
    eligible any more, and was elected as the last known leader although it was still fenced.
    """

    anomaly: str
    case: str = ""
    also: str = ""
    fenced: bool = False

    def of(self, result: Result, cases: Collection[str]) -> bool:
        """Whether a result shows the defect; cases: the causes that the judge reports."""
        fenced = any(
            step == "restart" and before.elr == (before.last_known,) == (after.leader,)
            for step, before, after in result.certain
        )
        anomalies = {found.anomaly for found in result.findings}
        return self.also in anomalies or (
            self.anomaly in anomalies
            and (not self.case or self.case in cases)
            and (not self.fenced or fenced)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A known defect, and what an exploration is told to find it.

    assignment: the replicas of the only partition; there are three brokers. workload: what differs.
    """

    name: str
    kafka: str
    limits: Budgets
    sign: Sign
    assignment: Sequence[int] = (1, 2, 3)
    acks: str = "all"
    min_insync_replicas: int = 2
    unclean: bool = False
    features: Mapping[str, int] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)

    def scenario(self) -> Scenario:
        return validate(
            {
                "version": 1,
                "name": f"rediscover-{self.name.lower()}",
                "kafka": self.kafka,
                "seed": 1,
                "cluster": {"brokers": 3, "features": dict(self.features)},
                "topics": {
                    "orders": {
                        "assignment": [list(self.assignment)],
                        "settings": {
                            "min.insync.replicas": self.min_insync_replicas,
                            "unclean.leader.election.enable": self.unclean,
                        },
                    }
                },
                "workload": {
                    "topic": "orders",
                    # A broker handles one request of a connection at a time, so one producer has no
                    # more than one batch that waits for a follower.
                    "producers": 4,
                    "settings": {
                        "acks": self.acks,
                        "enable.idempotence": "transactions" in self.workload,
                    },
                    **self.workload,
                },
            }
        )


#: How many pairs schedules pass through in some time, where no defect is known.
NOTHING = Defect(
    name="nothing",
    kafka="4.4.0",
    limits=Budgets(kills=2, power_losses=1, shrinks=2, in_all=2),
    sign=Sign(anomaly=""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfReach:
    """A known defect that no operation of `explore` can show."""

    name: str
    kafka: str
    why: str


DEFECTS = (
    Defect(
        name="B10",
        kafka="0.10.2.2",
        limits=Budgets(kills=2),
        sign=Sign(anomaly="lost", case="B10"),
    ),
    Defect(
        name="B11",
        kafka="1.1.1",
        limits=Budgets(kills=2),
        sign=Sign(anomaly="diverged"),
        assignment=(1, 2),
        acks="1",
        min_insync_replicas=1,
        unclean=True,
    ),
    Defect(
        name="B31",
        kafka="3.4.1",
        limits=Budgets(kills=1, power_losses=1, leader_moves=1),
        sign=Sign(anomaly="lost", case="B31"),
    ),
    Defect(
        name="KAFKA-19522",
        kafka="4.0.0",
        limits=Budgets(kills=1, power_losses=1, shrinks=1),
        sign=Sign(anomaly="lost", fenced=True),
        features={"eligible.leader.replicas.version": 1},
    ),
    Defect(
        name="B56",
        kafka="4.4.0",
        limits=Budgets(kills=2, leader_moves=1),
        sign=Sign(anomaly="lost", case="B56"),
    ),
    Defect(
        name="B57",
        kafka="4.4.0",
        limits=Budgets(kills=1, shrinks=1, reassignments=2),
        sign=Sign(anomaly="lost", case="B57"),
        assignment=(1, 2),  # with a third replica the states within the limits are too many
    ),
    Defect(
        name="B14",
        kafka="3.4.1",
        limits=Budgets(kills=1),
        sign=Sign(anomaly="aborted-read", also="hanging-transaction"),
        workload={"transactions": {"size": 20, "timeout": "60s"}},
    ),
    Defect(
        name="B15",
        kafka="4.1.2",
        limits=Budgets(kills=1),
        sign=Sign(anomaly="lost", case="B13", also="aborted-read"),
        workload={
            "client": {"java": "4.3.1"},
            "producers": 1,  # each is a JVM
            "transactions": {"size": 20, "timeout": "60s", "abort": 0.5},
        },
    ),
)

OUT_OF_REACH = (
    OutOfReach(
        name="B12",
        kafka="3.9.0",
        why="it needs a held response of a fetch, producers that stand still until then, a second "
        "partition that keeps the fetcher, and ten operations: a schedule has at most eight",
    ),
    OutOfReach(
        name="B32",
        kafka="Java client 3.9.1",
        why="it needs several partitions, and no operation delays all Produce requests to a broker",
    ),
    OutOfReach(
        name="KAFKA-20742",
        kafka="4.3.1",
        why="the model counts no states of share groups, and no operation adds partitions",
    ),
)


def main() -> int:
    """Explore what is not stored, and print the table; return 1 if a defect was not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [one.name for one in (*DEFECTS, NOTHING)]
    parser.add_argument("defects", nargs="*", metavar="DEFECT", help=f"of {', '.join(names)}")
    parser.add_argument("--mode", action="append", choices=[*Strategy], help="only this one")
    parser.add_argument("--seed", action="append", type=int, help="default: 1")
    parser.add_argument("--for", dest="limit", default="60m", help="the time of each exploration")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only print what is stored")
    parser.add_argument("--commit", default="", help="of ackproof, stored with each line")
    given = parser.parse_args()
    if unknown := sorted(set(given.defects) - set(names)):
        parser.error(f"no such defect: {unknown[0]}; there are {', '.join(names)}")
    end_as_by_ctrl_c()
    done = {tuple(one[key] for key in _SERIES) for one in stored(given.results)}
    code = 0
    chosen = [one for one in (*DEFECTS, NOTHING) if one.name in (given.defects or names)]
    for seed in () if given.table else given.seed or [1]:
        for defect in chosen:
            for mode in map(Strategy, given.mode or [*Strategy]):
                if (defect.name, mode, seed) in done:
                    continue
                try:
                    line = _explored(defect, mode, seed, parse_duration(given.limit), given.commit)
                except AckproofError as error:
                    print(f"{defect.name} {mode} {seed}: not decided: {error}", flush=True)
                    code = 1
                    continue
                store(given.results, [line])
                code = code if line["found"] or defect is NOTHING else 1
                print(line, flush=True)
    print("\n".join(table(stored(given.results))))
    return code


def _explored(
    defect: Defect, mode: Strategy, seed: int, limit_s: float, commit: str
) -> dict[str, Any]:
    """Explore until the defect is found, or for this time, and return the line of results."""
    scenario = defect.scenario()
    path = RUNS / f"{defect.name}-{mode}-{seed}"
    shutil.rmtree(path, ignore_errors=True)
    began = time.time()
    everything = reached(scenario, defect.limits, max_states=_MOST_STATES)
    folder = Folder(path, Exploration.of(scenario, everything.model))
    folder.open()
    reporter = ConsoleReporter(Console(stderr=True))
    ways = folder.ways(everything, reporter.note, client_holds(scenario)).by(mode)
    first, until = time.time(), time.monotonic() + limit_s
    with folder.seed(seed, first=seed):
        Explorer(
            scenario=scenario,
            everything=everything,
            folder=folder,
            ways=ways,
            seed=seed,
            engine=connect(),
            reporter=reporter,
        ).explore(lambda: time.monotonic() < until and not shown_by(defect, folder))
    name = shown_by(defect, folder)
    results = until_shown(folder.results(), name)
    shown = results[name] if name else None
    # A run is judged while the next is recorded, so the finding is older than the end.
    verdict = folder.runs / shown.run / "verdict.json" if shown else None
    return {
        "defect": defect.name,
        "kafka": defect.kafka,
        "mode": mode,
        "seed": seed,
        "limit_s": round(limit_s),
        "found": shown is not None,
        "seconds": verdict and round(verdict.stat().st_mtime - first),
        "planning_s": round(first - began),
        "schedules": len(results),
        "origin": shown and shown.proposal.origin,
        "schedule": shown and operations_in_words(scenario, shown.proposal.schedule.operations),
        "share": round(len(certain_pairs(results)) / len(everything.pairs), 4),
        "load": round(os.getloadavg()[1], 1),
        "commit": commit,
    }


def shown_by(defect: Defect, folder: Folder) -> str:
    """Return the name of the first result that shows a defect, '' if none does."""
    for name, result in folder.results().items():
        if result.findings:
            verdict = read_verdict(folder.runs / result.run)
            if defect.sign.of(result, {cause.case for cause in verdict.causes}):
                return name
    return ""


def until_shown(results: Results, name: str) -> Results:
    """Return the results up to this one; all without a name."""
    return {each: one for each, one in results.items() if not name or each <= name}


def table(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield how often and how soon each defect was found in each mode, and what is out of reach.

    Not found is what only a schedule shows that ended after the limit.
    """
    columns = "defect, mode (seeds), found in minutes, seconds, schedules, pairs, load"
    yield f"| {' | '.join(columns.split(', '))} |"
    yield "|---" * len(columns.split(", ")) + "|"
    for defect in (*DEFECTS, NOTHING):
        for mode in Strategy:
            own = [one for one in lines if (one["defect"], one["mode"]) == (defect.name, mode)]
            if own:
                found = [one for one in own if one["found"] and one["seconds"] <= one["limit_s"]]
                number = "-" if defect is NOTHING else len(found)
                cells = (
                    f"{defect.name} on {defect.kafka}",
                    f"{mode} ({', '.join(str(one['seed']) for one in own)})",
                    f"{number} of {len(own)} in {_limits(own)}",
                    _spread([one["seconds"] for one in found]),
                    _spread([one["schedules"] for one in own]),
                    f"{_spread([round(100 * one['share']) for one in own])} %",
                    _spread([round(one["load"]) for one in own]),
                )
                yield f"| {' | '.join(cells)} |"
    hours = sum((one["seconds"] or one["limit_s"]) + one["planning_s"] for one in lines) / 3600
    yield ""
    yield f"{len(lines)} explorations, {hours:.1f} hours in all. Out of reach are:"
    yield ""
    for one in OUT_OF_REACH:
        yield f"- {one.name} on {one.kafka}: {one.why}"


def _limits(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the limits of explorations in minutes, such as `12, 20`."""
    return ", ".join(str(limit) for limit in sorted({round(one["limit_s"] / 60) for one in lines}))


def _spread(numbers: Sequence[float]) -> str:
    """Return the median, with the smallest and the largest number."""
    if not numbers:
        return "-"
    text, least, most = f"{statistics.median(numbers):g}", min(numbers), max(numbers)
    return text if least == most else f"{text} ({least:g} to {most:g})"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write("rediscover: interrupted; every exploration that ended is stored\n")
        sys.exit(130)
