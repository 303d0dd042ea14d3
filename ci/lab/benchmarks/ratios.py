"""Every bench once, as ratios to a peer of the same run, and the page of their history."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ackproof.containers.engine import connect
from benchmarks.boot import bench_boot
from benchmarks.check import bench_check
from benchmarks.faults import bench_faults
from benchmarks.ledger import bench_ledger, fresh_broker
from benchmarks.link import bench_link
from benchmarks.model import bench_model

STORED = Path(__file__).parents[3] / "tests" / "results" / "bench.jsonl"

#: Number of measurements in the table, the latest ones.
SHOWN = 8

_CHECK_RECORDS = 10_000_000
_LEDGER_RECORDS = 250_000
_LINK_RECORDS = 250_000

#: Of the benches whose single turns differ by half.
_TURNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratios:
    """The ratios of all benches, and on what machine.

    at: seconds since 1970 when the first began. load: of the last minute before it. ratios: by
    bench and name, as in `MEANING`.
    """

    at: float
    cores: int
    load: float
    ratios: dict[str, dict[str, float]]


#: By bench: what its ratios compare, and whether less or more of them is better.
MEANING = {
    "boot": ("seconds until a cluster is ready, to those of one stock broker", "less"),
    "check": (f"seconds of all checks of {_CHECK_RECORDS:,} sends, to DuckDB's queries", "less"),
    "ledger 32": ("acked sends a second, values of 32 bytes", "more"),
    "ledger 1024": ("acked sends a second, values of 1 KiB", "more"),
    "model": ("states a second, with all cores to with one", "more"),
    "link": ("records a second through the Kafka proxy, to past it", "more"),
    "faults": ("seconds to inject, to those of an empty sidecar container", "less"),
}


def bench_all(scenario: Path, *, say: Callable[[str], None]) -> Ratios:
    """Run each bench once, one after the other; `scenario` is that of the boot."""
    at, load = time.time(), os.getloadavg()[0]
    ratios = {}
    for bench, measured in _each(scenario):
        say(bench)
        ratios[bench] = measured
    return Ratios(at=at, cores=os.cpu_count() or 1, load=load, ratios=ratios)


def _each(scenario: Path) -> Iterator[tuple[str, dict[str, float]]]:
    client = connect()
    boot = bench_boot(client, scenario, repetitions=_TURNS)
    yield "boot", {"fresh": boot.ratio, "reused": boot.reused_ratio}
    yield "check", _check()
    with fresh_broker() as (cluster, peers):
        for size in (32, 1024):
            ledger = bench_ledger(
                cluster.bootstrap_servers,
                peers,
                records=_LEDGER_RECORDS,
                size=size,
                processes=2,
                repetitions=_TURNS,
            )
            yield f"ledger {size}", ledger.ratios
    one, all_cores = (bench_model(workers=workers) for workers in (1, os.cpu_count() or 1))
    yield "model", {"all_cores_to_one": all_cores.states_per_s / one.states_per_s}
    link = bench_link(records=_LINK_RECORDS, size=100, pings=100, repetitions=_TURNS)
    yield "link", {"proxied_to_direct": link.throughput}
    faults = bench_faults(client, repetitions=1)
    yield "faults", {each.fault: faults.ratio(each.inject_s) for each in faults.faults}


def _check() -> dict[str, float]:
    check = bench_check(records=_CHECK_RECORDS, repetitions=_TURNS)
    to = {"to_anti_join": check.to_anti_join, "to_group_by": check.to_group_by}
    # A comparison that missed what was planted has no speed.
    return {name: value for name, value in to.items() if value is not None and check.exact}


def store(commit: str, ratios: Mapping[str, Any]) -> None:
    with STORED.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"commit": commit, **ratios}) + "\n")


def stored() -> list[dict[str, Any]]:
    return [json.loads(line) for line in STORED.read_text(encoding="utf-8").splitlines()]


def table(measurements: list[dict[str, Any]]) -> str:
    """Return the table of these measurements, oldest first, each with the commit it measured."""
    shown = measurements[-SHOWN:]
    dates = [
        datetime.datetime.fromtimestamp(each["at"], datetime.UTC).date().isoformat()
        for each in shown
    ]
    heads = [
        f"{date}, `{each['commit']}`, {each['cores']} cores, load {each['load']:.1f}"
        for date, each in zip(dates, shown, strict=True)
    ]
    lines = [f"| bench | {' | '.join(heads)} |", "|---|" + "---:|" * len(shown)]
    for bench, (compared, better) in MEANING.items():
        lines.append(f"| **{bench}**: {compared}; {better} is better |" + " |" * len(shown))
        names = dict.fromkeys(name for each in shown for name in each["ratios"].get(bench, {}))
        for name in names:
            values = [each["ratios"].get(bench, {}).get(name) for each in shown]
            cells = ["" if value is None else f"{value:.2f}" for value in values]
            lines.append(
                f"| {name.replace('_to_', ' / ').replace('_', ' ')} | {' | '.join(cells)} |"
            )
    return "\n".join(lines) + "\n"
