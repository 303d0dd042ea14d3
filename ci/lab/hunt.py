"""Hunts for losses with `explore` on the recommended configuration: `ci/lab/hunt` calls it.

What was looked at and how long is stored, whether or not anything was found.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import truth
from truth import store, stored

from ackproof.runs.directory import read_verdict
from ackproof.scenario.loader import dump, validate
from ackproof.scenario.model import Scenario
from ackproof_faults.conditions.durations import parse_duration
from ackproof_spark.forensics.cases import Case

ACKPROOF = Path(sys.executable).with_name("ackproof")
RUNS = Path(__file__).parents[2] / "runs" / "hunt"
RESULTS = truth.RESULTS / "hunts.jsonl"
KAFKA = "4.4.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """The recommended configuration, what is added to it, and the limits of its exploration.

    Most limits leave out what loses by a known case: three faults with a power loss (B7, B9), two
    kills after an election (B56), and two moves (B57). What is found is examined before anything
    else is run.
    """

    name: str
    limits: Mapping[str, int] = field(default_factory=dict)
    cluster: Mapping[str, Any] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)

    def scenario(self) -> Scenario:
        document = {
            "version": 1,
            "name": self.name,
            "kafka": KAFKA,
            "cluster": {"brokers": 3, **self.cluster},
            "topics": {
                "orders": {
                    "assignment": [[1, 2, 3]],
                    "settings": {
                        "min.insync.replicas": 2,
                        "unclean.leader.election.enable": False,
                    },
                }
            },
            "workload": {
                "topic": "orders",
                # One producer has no more than one batch that waits for a follower.
                "producers": 4,
                "settings": {"acks": "all", "enable.idempotence": True},
                **self.workload,
            },
        }
        return validate(document)


HUNTS = (
    Hunt(name="recommended"),
    Hunt(name="three-faults", limits={"kills": 1, "shrinks": 1, "in-all": 3}),
    Hunt(name="three-without-power-loss", limits={"power-losses": 0, "in-all": 3}),
    Hunt(name="without-elr", cluster={"features": {"eligible.leader.replicas.version": 0}}),
    Hunt(
        name="transactions",
        # A transaction waits for a partition without a leader longer than a minute.
        workload={"transactions": {"size": 20, "abort": 0.1, "timeout": "10m"}},
    ),
    Hunt(name="elections", limits={"kills": 1, "leader-moves": 1}),
    Hunt(
        name="moves",
        limits={"kills": 1, "power-losses": 0, "shrinks": 1, "reassignments": 1},
        cluster={"brokers": 4},
    ),
    Hunt(name="two-directories", cluster={"log_dirs": 2}),
)


def main() -> int:
    """Explore each in turn, store a line each, and print the table.

    Returns 1 if something was found that no known case explains.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    names = [one.name for one in HUNTS]
    parser.add_argument("hunts", nargs="*", metavar="HUNT", help=f"of {', '.join(names)}")
    parser.add_argument("--for", dest="limit", default="60m", help="the time of all together")
    parser.add_argument("--at-once", type=int, default=2, help="clusters at once (%(default)s)")
    parser.add_argument("--out", type=Path, default=RUNS, help="the folder of the explorations")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only print what is stored")
    parser.add_argument("--commit", default="", help="of ackproof, stored with each line")
    given = parser.parse_args()
    if unknown := sorted(set(given.hunts) - set(names)):
        parser.error(f"no such hunt: {unknown[0]}; there are {', '.join(names)}")
    # As Ctrl-C, so that `timeout` or a closed terminal leaves nothing behind.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    chosen = [one for one in HUNTS if one.name in (given.hunts or names)]
    if not given.table:
        at_once = min(given.at_once, len(chosen))
        seconds = round(parse_duration(given.limit) * at_once / len(chosen))
        given.out.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(max_workers=given.at_once) as pool:
            hunts = (pool.submit(_hunted, one, seconds, given.out) for one in chosen)
            for done in list(hunts):
                line = {**done.result(), "commit": given.commit}
                store(given.results, [line])
                print(line, flush=True)
    lines = stored(given.results)
    print("\n".join(table(lines)))
    own = (one for one in lines if one["hunt"] in {each.name for each in chosen})
    return int(any(one["unknown"] for one in own))


def _hunted(hunt: Hunt, seconds: int, out: Path) -> dict[str, Any]:
    """Explore for this time, and return the line of results. Raises CalledProcessError."""
    scenario = out / f"{hunt.name}.yaml"
    dump(hunt.scenario(), scenario, defaults=False)
    stored_before = len(_results(hunt, out))
    limits = [text for kind, number in hunt.limits.items() for text in (f"--{kind}", str(number))]
    how = ("--for", f"{seconds}s", "--out", str(out), "--json")
    began = time.monotonic()
    with (out / f"{hunt.name}.log").open("a", encoding="utf-8") as log:
        explored = subprocess.run(
            [ACKPROOF, "explore", scenario, *limits, *how],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            check=False,
        )
    if explored.returncode not in (0, 1):
        raise subprocess.CalledProcessError(explored.returncode, f"explore {hunt.name}")
    (document,) = json.loads(explored.stdout)
    did = document["explored"]
    cases = {one["run"]: _cases(out / f"explored-{hunt.name}", one) for one in did["findings"]}
    return {
        "hunt": hunt.name,
        "kafka": document["kafka_version"],
        "limits": document["budget"],
        "seconds": round(time.monotonic() - began),
        "schedules": did["schedules"] - stored_before,
        "pairs": document["pairs"],
        "certain": document["certain"],
        "all_schedules": did["schedules"],
        "not_counted": len(did["not_counted"]),
        "found": sorted({one["anomaly"] for one in did["findings"]}),
        "cases": sorted({case for known in cases.values() for case in known}),
        "unknown": sorted(run for run, known in cases.items() if not known),
        "load": round(os.getloadavg()[1], 1),
    }


def _cases(folder: Path, finding: Mapping[str, Any]) -> set[str]:
    """Return the cases of all losses of a finding's run, none if no known case explains one."""
    causes = read_verdict(folder / "runs" / finding["run"]).causes
    cases = {cause.case for cause in causes}
    return set() if Case.UNEXPLAINED in cases else cases


def _results(hunt: Hunt, out: Path) -> Sequence[Path]:
    return sorted(out.glob(f"explored-{hunt.name}/results/*.json"))


def table(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield how long each was hunted, how much was passed through, and what was found."""
    columns = "configuration, limits, hours, schedules, pairs for certain, found, known cases"
    names = [*columns.split(", "), "runs without a known case"]
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for hunt in HUNTS:
        own = [one for one in lines if one["hunt"] == hunt.name]
        if own:
            last = own[-1]
            cells = (
                *(hunt.name, last["limits"], f"{sum(one['seconds'] for one in own) / 3600:.1f}"),
                str(sum(one["schedules"] for one in own)),
                f"{last['certain']} of {last['pairs']} ({last['certain'] / last['pairs']:.0%})",
                ", ".join(last["found"]) or "nothing",
                ", ".join(last["cases"]) or "-",
                str(len(last["unknown"])),
            )
            yield f"| {' | '.join(cells)} |"
    hours = sum(one["seconds"] for one in lines) / 3600
    yield ""
    yield f"{hours:.1f} hours in all."


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write("hunt: interrupted; every run that was judged is stored\n")
        sys.exit(130)
