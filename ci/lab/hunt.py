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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import truth
from truth import end_as_by_ctrl_c, store, stored

from ackproof.errors import ExitCode
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
        workload={
            # With librdkafka a late marker ends the next transaction (B15).
            "client": "java",
            "producers": 2,  # each is a JVM
            # A transaction waits for a partition without a leader longer than a minute.
            "transactions": {"size": 20, "abort": 0.1, "timeout": "10m"},
        },
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
    """Explore all, store a line each, and print the table.

    Returns 1 if something was found that no known case explains, or if an exploration failed.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    names = [one.name for one in HUNTS]
    parser.add_argument("hunts", nargs="*", metavar="HUNT", help=f"of {', '.join(names)}")
    parser.add_argument("--for", dest="limit", default="60m", help="the time of all together")
    parser.add_argument("--at-once", type=int, default=2, help="clusters at once (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (%(default)s)")
    parser.add_argument("--out", type=Path, default=RUNS, help="the folder of the explorations")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only print what is stored")
    parser.add_argument("--commit", default="", help="of ackproof, stored with each line")
    given = parser.parse_args()
    if unknown := sorted(set(given.hunts) - set(names)):
        parser.error(f"no such hunt: {unknown[0]}; there are {', '.join(names)}")
    end_as_by_ctrl_c()
    chosen = [one for one in HUNTS if one.name in (given.hunts or names)]
    failed = False
    if not given.table:
        at_once = min(given.at_once, len(chosen))
        seconds = round(parse_duration(given.limit) * at_once / len(chosen))
        given.out.mkdir(parents=True, exist_ok=True)

        def keep(line: Mapping[str, Any]) -> None:
            store(given.results, [{**line, "commit": given.commit}])
            print(line, flush=True)

        failed = not _hunted(
            chosen, seconds, given.out, seed=given.seed, at_once=at_once, keep=keep
        )
    lines = stored(given.results)
    print("\n".join(table(lines)))
    own = (one for one in lines if one["hunt"] in {each.name for each in chosen})
    return int(failed or any(one["unknown"] for one in own))


def _hunted(
    hunts: Sequence[Hunt],
    seconds: int,
    out: Path,
    *,
    seed: int,
    at_once: int,
    keep: Callable[[Mapping[str, Any]], None],
) -> bool:
    """Explore each for this time, and give `keep` a line of results each; whether all ended well.

    A KeyboardInterrupt ends those that run as Ctrl-C does, and begins no other.
    """
    running: list[subprocess.Popen[str]] = []
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        try:
            begun = [pool.submit(_explored, hunt, seconds, seed, out, running) for hunt in hunts]
            for done in as_completed(begun):
                if (line := done.result()) is not None:
                    keep(line)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.send_signal(signal.SIGINT)  # nothing if it has ended
    return all(done.result() is not None for done in begun)


def _explored(
    hunt: Hunt, seconds: int, seed: int, out: Path, running: list[subprocess.Popen[str]]
) -> dict[str, Any] | None:
    """Explore for this time, as one of the `running`; return the line of results, if it ended."""
    scenario = out / f"{hunt.name}.yaml"
    dump(hunt.scenario(), scenario, defaults=False)
    stored_before = len(_results(hunt, out))
    limits = [text for kind, number in hunt.limits.items() for text in (f"--{kind}", str(number))]
    how = ("--for", f"{seconds}s", "--seed", str(seed), "--out", str(out), "--json")
    began = time.monotonic()
    path = out / f"{hunt.name}.log"
    with (
        path.open("a", encoding="utf-8") as log,
        subprocess.Popen(
            [ACKPROOF, "explore", scenario, *limits, *how],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # a second Ctrl-C would end what the first one began
        ) as process,
    ):
        running.append(process)
        said, _ = process.communicate()
    if process.returncode not in (ExitCode.HOLDS, ExitCode.VIOLATED):
        print(f"{hunt.name}: explore ended with {process.returncode}; see {path}", flush=True)
        return None
    (document,) = json.loads(said)
    did = document["explored"]
    cases = {one["run"]: _cases(out / f"explored-{hunt.name}", one) for one in did["findings"]}
    return {
        "hunt": hunt.name,
        "kafka": document["kafka_version"],
        "limits": document["budget"],
        "seed": seed,
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
    """Yield how long each was hunted, how much was passed through, and what was found.

    Not all lines are of one folder: that with the most pairs says how many were passed through.
    """
    yield "| configuration | limits | hours | schedules | pairs for certain | found |"
    yield "|---|---|---|---|---|---|"
    for hunt in HUNTS:
        own = [one for one in lines if one["hunt"] == hunt.name]
        if own:
            most = max(own, key=itemgetter("certain"))
            cells = (
                *(hunt.name, most["limits"], f"{sum(one['seconds'] for one in own) / 3600:.1f}"),
                str(sum(one["schedules"] for one in own)),
                f"{most['certain']} of {most['pairs']} ({most['certain'] / most['pairs']:.0%})",
                _found(own),
            )
            yield f"| {' | '.join(cells)} |"
    hours = sum(one["seconds"] for one in lines) / 3600
    yield ""
    yield f"{hours:.1f} hours in all."


def _found(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return what was found in words, such as `lost (B7; without a known case in 2 runs)`."""
    found, cases, unknown = (
        sorted({each for one in lines for each in one[key]})
        for key in ("found", "cases", "unknown")
    )
    known = [*cases, *([f"without a known case in {len(unknown)} runs"] if unknown else [])]
    return f"{', '.join(found)} ({'; '.join(known)})" if found else "nothing"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.stderr.write(
            "hunt: interrupted; what was judged is in the folders, and the next call goes on\n"
        )
        sys.exit(130)
