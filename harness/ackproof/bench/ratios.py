"""Every bench once, as ratios: each says how ackproof compares with a peer in the same run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ackproof.bench.boot import bench_boot
from ackproof.bench.check import bench_check
from ackproof.bench.faults import bench_faults
from ackproof.bench.ledger import bench_ledger, fresh_broker
from ackproof.bench.link import bench_link
from ackproof.bench.model import bench_model
from ackproof.containers.engine import connect

_CHECK_RECORDS = 10_000_000
_LEDGER_RECORDS = 250_000
_LINK_RECORDS = 250_000

#: Of the benches whose single turns differ by half.
_TURNS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratios:
    """The ratios of all benches, and on what machine.

    at: seconds since 1970 when the first began. load: of the last minute before it. ratios: by
    bench and name; what each means is in `MEANING`.
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
    """Run each bench once, one after the other; raise what they raise.

    `scenario` is that of the boot. `say` reports each bench that begins.
    """
    at, load = time.time(), os.getloadavg()[0]
    ratios: dict[str, dict[str, float]] = {}
    for bench, measured in _each(scenario, say):
        ratios[bench] = measured
    return Ratios(at=at, cores=os.cpu_count() or 1, load=load, ratios=ratios)


def _each(scenario: Path, say: Callable[[str], None]) -> Iterator[tuple[str, dict[str, float]]]:
    client = connect()
    say("boot")
    boot = bench_boot(client, scenario, repetitions=_TURNS)
    yield "boot", {"fresh": boot.ratio, "reused": boot.reused_ratio}
    say("check")
    yield "check", _check()
    with fresh_broker() as (cluster, peers):
        for size in (32, 1024):
            say(f"ledger {size}")
            ledger = bench_ledger(
                cluster.bootstrap_servers,
                peers,
                records=_LEDGER_RECORDS,
                size=size,
                processes=2,
                repetitions=_TURNS,
            )
            yield f"ledger {size}", ledger.ratios
    say("model")
    one, all_cores = (bench_model(workers=workers) for workers in (1, os.cpu_count() or 1))
    yield "model", {"all_cores_to_one": all_cores.states_per_s / one.states_per_s}
    say("link")
    link = bench_link(records=_LINK_RECORDS, size=100, pings=100, repetitions=_TURNS)
    yield "link", {"proxied_to_direct": link.throughput}
    say("faults")
    faults = bench_faults(client, repetitions=1)
    yield "faults", {each.fault: faults.ratio(each.inject_s) for each in faults.faults}


def _check() -> dict[str, float]:
    check = bench_check(
        records=_CHECK_RECORDS,
        seed=1,
        repetitions=_TURNS,
        peer=True,
        folder=None,
        say=lambda _: None,
    )
    to = {"to_anti_join": check.to_anti_join, "to_group_by": check.to_group_by}
    # A comparison that missed what was planted has no speed.
    return {name: value for name, value in to.items() if value is not None and check.exact}
