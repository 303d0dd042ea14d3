"""Runs shipped scenarios on brokers, and stores one line a run in tests/results/catalogue.jsonl.

`ci/lab/catalogue` calls it. All runs share one process: one Spark session, and one cluster where a
cluster may serve the next run, too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import catalogue_pages
from rich.console import Console
from truth import end_as_by_ctrl_c

from ackproof.cluster.pool import ClusterPool
from ackproof.containers.engine import connect
from ackproof.errors import AckproofError, ExitCode
from ackproof.execution.runner import recorded
from ackproof.judgement.judge import judge_run
from ackproof.judgement.overview.collect import overview_of
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.progress import ConsoleReporter
from ackproof.report.wording import cause_title
from ackproof.runs.directory import table_rows
from ackproof.runs.overview import Overview
from ackproof.runs.verdict import FaultReport, Step, Verdict, exit_code
from ackproof.scenario import shipped
from ackproof.scenario.changes import Overrides
from ackproof.scenario.loader import Configured, load
from ackproof.scenario.selection import share
from ackproof_faults.conditions.durations import parse_duration

RUNS = Path(__file__).parents[2] / "runs" / "catalogue"

#: Causes and findings of a run that a page shows; further causes are of fewer records.
_SHOWN = 2
#: Runs with more sends are not shown record by record.
_FEW = 20
#: Bins of a plot.
_BINS = 120

#: It expects what its users want, and Kafka's defaults, with which it is shipped, do not do that.
_FOR_USERS = "your-configuration"


def main() -> int:
    """Run the selected arms and return the exit code of the suite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--kafka", default="", help="only arms of this version; or `default`")
    parser.add_argument("--on", default="", help="run arms that name no version on this one")
    parser.add_argument("--arm", default="", help="only the arm of this name")
    parser.add_argument("--times", type=int, default=1, help="how often each arm is run")
    parser.add_argument("--shard", default="", metavar="I/N")
    parser.add_argument(
        "--up-to", type=int, metavar="N", help="as often as an arm lacks of N stored runs"
    )
    parser.add_argument("--budget", default="", metavar="TIME", help="begin no run after this time")
    chosen = parser.parse_args()
    end_as_by_ctrl_c()
    arms = selected(
        chosen.names, kafka=chosen.kafka, arm=chosen.arm, shard=chosen.shard, on=chosen.on
    )
    until = time.monotonic() + parse_duration(chosen.budget) if chosen.budget else None
    return run_all(list(_repeated(arms, chosen.times, chosen.up_to)), until=until)


def selected(
    names: Iterable[str], *, kafka: str = "", arm: str = "", shard: str = "", on: str = ""
) -> list[Configured]:
    """Return the arms to run, those of the same cluster side by side."""
    kafka = DEFAULT_KAFKA if kafka == "default" else kafka
    files: dict[Path, None] = {}
    for name in names or [""]:
        found = shipped.find(name) if name else shipped.folder()
        if found is None:
            sys.exit(f"{name}: no shipped scenario has this name (ackproof scenarios lists them)")
        files |= dict.fromkeys(sorted(found.rglob("*.yaml")) if found.is_dir() else [found])
    arms = [
        one
        for path in files
        for one in (_on(on, path, arm) if on else catalogue_pages.arms_of(path))
        if kafka in ("", one.scenario.kafka) and arm in ("", one.name) and not one.skip
    ]
    arms.sort(key=lambda one: (one.scenario.kafka, one.scenario.cluster.model_dump_json()))
    return share(arms, shard)


def _on(version: str, path: Path, arm: str) -> list[Configured]:
    """Return the arms that name no version, with this one."""
    overrides = Overrides(merged={"kafka": version}, sources={("kafka",): "--on"})
    arms = load(path, lambda document: overrides, lambda name, _: arm in ("", name))
    return [one for one in arms if "kafka" not in one.varied]


def _repeated(arms: Iterable[Configured], times: int, up_to: int | None) -> Iterator[Configured]:
    """Yield each arm as often as it is to run, one after the other: on one cluster if it may."""
    results = catalogue_pages.stored()
    for arm in arms:
        runs = catalogue_pages.runs_by_version(arm, results)[arm.scenario.kafka]
        stored = sum(one["verdict"] != "inconclusive" for one in runs)
        yield from [arm] * (times if up_to is None else max(0, up_to - stored))


def run_all(arms: Sequence[Configured], *, until: float | None) -> int:
    """Run the arms one after the other, and store each result at once; return the exit code.

    A run is judged while the next one is recorded: a recording mostly waits for brokers.
    """
    reporter = ConsoleReporter(Console(stderr=True))
    judged: list[tuple[Configured, Future[Verdict]]] = []
    failed = False
    engine = connect()
    with ThreadPoolExecutor(max_workers=1) as judge, ClusterPool(engine, reuse=True) as pool:
        for number, arm in enumerate(arms, start=1):
            if until is not None and time.monotonic() > until:
                reporter.note(f"{len(arms) - number + 1} runs are left: the time is over")
                break
            reporter.note(f"{catalogue_pages.name_of(arm)}: {arm.name} ({number} of {len(arms)})")
            try:
                run_dir = recorded(arm, out=RUNS, client=engine, reporter=reporter, pool=pool)
            except AckproofError as error:
                reporter.note(f"{arm.name} was not run: {error}")
                failed = True
                continue
            judged.append((arm, judge.submit(_judge, arm, run_dir, reporter)))
    verdicts = [(arm, one.result()) for arm, one in judged]
    code = exit_code(one.verdict for arm, one in verdicts if arm.scenario.name != _FOR_USERS)
    return int(ExitCode.ENVIRONMENT if failed and code != ExitCode.VIOLATED else code)


def _judge(arm: Configured, run_dir: Path, reporter: ConsoleReporter) -> Verdict:
    verdict = judge_run(run_dir)
    catalogue_pages.store([line_of(arm, verdict, run_dir)])
    reporter.note(f"{arm.name} on {verdict.kafka_version}: {verdict.verdict} ({verdict.reason})")
    return verdict


def line_of(arm: Configured, verdict: Verdict, run_dir: Path) -> dict[str, Any]:
    """Return what the pages need of a run."""
    causes = Counter[str]()
    for cause in verdict.causes:
        causes[cause.case] += cause.count
    return {
        "run": verdict.run_id,
        "scenario": catalogue_pages.name_of(arm),
        "arm": arm.name,
        "kafka": verdict.kafka_version,
        "verdict": verdict.verdict,
        "observed": {key: count for key, count in verdict.observed.items() if count},
        "predicted": verdict.predicted["lost"],
        **catalogue_pages.predicted_others(arm, verdict.predicted),
        **({"cause": causes.most_common(1)[0][0]} if causes else {}),
        "acked_per_s": round(verdict.metrics.acked_per_s, 1),
        "reason": verdict.reason,
        "details": {
            key: value
            for key, value in _details(verdict, run_dir).items()
            if value not in (None, [])
        },
    }


def _details(verdict: Verdict, run_dir: Path) -> dict[str, Any]:
    """Return what the pages show of the newest run of an arm; empty values are not stored."""
    metrics = verdict.metrics
    latency, probe = metrics.ack_latency_ms, metrics.probe
    diagram, trace = verdict.prediction.diagram, verdict.prediction.trace
    further = verdict.causes[_SHOWN:]
    return {
        "why": verdict.prediction.reasons.get("lost"),
        "ack_ms": latency and [round(latency.p50, 2), round(latency.p99, 2)],
        "unavailable_s": round(metrics.unavailability_s, 2),
        "probe": probe and [round(probe.read.share, 4), round(probe.write.share, 4)],
        "findings": [one.explanation for one in verdict.findings[:_SHOWN]],
        "causes": [f"{cause_title(one)}: {one.sentence}" for one in verdict.causes[:_SHOWN]],
        "further": further and [len(further), sum(cause.count for cause in further)],
        "timeline": [
            [
                _seconds(verdict.started_at, fault.verified_at),
                fault.fault,
                _hit(fault),
                fault.evidence,
                _seconds(verdict.started_at, fault.healed_at) if fault.healed_at else None,
                _seconds(verdict.started_at, fault.injected_at),
            ]
            for fault in verdict.faults
            if fault.verified_at and fault.fault != "none"
        ],
        "steps": [_step(verdict, step) for step in verdict.steps],
        "records": _records(run_dir) if verdict.observed["sent"] <= _FEW else [],
        "diagram": diagram,
        # A trace without a diagram is of the worst case: it ends where a loss is possible.
        "lost_by": trace[-1] if diagram and trace else None,
        "plot": plot_of(overview_of(run_dir)),
    }


def _hit(fault: FaultReport) -> str:
    """Return the target of a fault, or the client or the topic that it hit in place of nodes."""
    return fault.target if fault.hit is None else fault.hit


def _records(run_dir: Path) -> list[list[Any]]:
    """Return each send: its outcome, the offset of its ack, its offset in the final log."""
    final = {
        (row["producer"], row["sequence"]): row["offset"]
        for row in table_rows(run_dir, "final_log")
    }
    return [
        [row["outcome"], row["offset"], final.get((row["producer"], row["sequence"]))]
        for row in sorted(table_rows(run_dir, "ledger"), key=lambda row: row["sequence"])
    ]


def _seconds(began: datetime, at: datetime) -> float:
    return round((at - began).total_seconds(), 1)


def _step(verdict: Verdict, step: Step) -> dict[str, Any]:
    """Return a period between faults: what was in force, and what the probe could do."""
    first = next(iter(step.partitions), None)
    faults = {fault.window: fault for fault in verdict.faults}
    in_force = [faults[window] for window in step.in_force]
    return {
        "s": round((step.end - step.begin).total_seconds(), 1),
        "in_force": [
            f"{one.fault} {_hit(one)}".rstrip() for one in in_force if one.fault != "none"
        ],
        "named": [one.id for one in in_force if one.fault == "none" and one.id],
        "readable": first.readable if first else "unknown",
        "writable": first.writable if first else "unknown",
        "readable_s": round(first.readable_s, 1) if first else 0.0,
        "writable_s": round(first.writable_s, 1) if first else 0.0,
    }


def plot_of(overview: Overview) -> dict[str, Any] | None:
    """Return the points of a run's plot: sends over time, fault windows, leaders."""
    sends = overview.timeline(bins=_BINS)
    if sends is None:
        return None
    lane = overview.lanes[0] if overview.lanes else None
    return {
        "width": sends.width,
        "acked": sends.acked,
        "lost": sends.lost,
        "windows": [
            [
                round(overview.second(one.injected_at), 1),
                round(overview.second(one.healed_at or one.verified_at), 1),
                f"{one.fault} {_hit(one)}".rstrip(),
            ]
            for one in overview.windows
            if one.verified_at and one.fault != "none"
        ],
        "leaders": [
            [round(span.start, 1), round(span.end, 1), span.leader, len(span.isr)]
            for span in (lane.spans if lane else ())
        ],
    }


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write("catalogue: interrupted; every run that was judged is stored\n")
        sys.exit(130)
