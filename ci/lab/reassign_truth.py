"""Compares `ackproof advise reassign` with what plans do on brokers, in runs of the harness.

`ci/lab/advise-truth reassign` calls it. Each drawn run moves the partitions of a topic, whose
replicas are drawn, to the same brokers, with or without brokers that were killed before, and kills
a broker afterwards. The forecast of each partition is made from the controllers' metadata log up to
the request. Runs of other scenarios are compared, too: `reassign RUN…`, such as those of B57.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import truth
from rich.console import Console
from truth import judgements, options, store, stored

from ackproof.advise import reassigning
from ackproof.advise.reassigning import Seen
from ackproof.cluster.pool import ClusterPool
from ackproof.containers.engine import connect
from ackproof.execution.runner import recorded
from ackproof.judgement.judge import judge_run
from ackproof.progress import ConsoleReporter
from ackproof.runs.directory import table_rows
from ackproof.scenario.loader import load
from ackproof_faults.interfaces.cluster import TopicPartition

RESULTS = truth.RESULTS / "reassign_truth.jsonl"
RUNS = Path(__file__).parents[2] / "runs" / "reassign-truth"
VERSIONS = ("4.4.0", "4.1.2", "3.9.2")
_BROKERS = (1, 2, 3, 4)
_PARTITIONS = 8
_TOPIC = "orders"


def scenario(seed: int) -> dict[str, Any]:
    """Draw replicas, brokers that are down, the brokers to move to, and the one killed last."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    down = chance.sample(_BROKERS, chance.choice([0, 0, 1, 2]))
    to = chance.sample(_BROKERS, 3)
    killed = chance.choice([one for one in _BROKERS if one not in down])
    last = "1000 acked"
    faults: list[dict[str, Any]] = []
    for broker in down:
        faults.append(
            {"fault": "kill", "id": f"down{broker}", "target": broker, "when": last,
             "heal_when": "gone ended", "heal_after": "240s"}
        )  # fmt: skip
        last = "after 12s"
    faults += [
        {"fault": "reassign", "id": "move", "topic": _TOPIC, "to": to, "when": last,
         "within": "60s", "heal_after": "20s"},
        {"fault": "kill", "id": "gone", "target": killed, "when": "move ended",
         "heal_after": "15s"},
    ]  # fmt: skip
    return {
        "version": 1,
        "name": "reassign-truth",
        "kafka": VERSIONS[seed % len(VERSIONS)],
        "seed": seed,
        "cluster": {
            "brokers": len(_BROKERS),
            "settings": {
                "broker.session.timeout.ms": 6000,
                "replica.lag.time.max.ms": 8000,
                "auto.leader.rebalance.enable": False,
            },
        },
        "topics": {
            _TOPIC: {
                "assignment": [chance.sample(_BROKERS, 3) for _ in range(_PARTITIONS)],
                "settings": {"min.insync.replicas": 2, "unclean.leader.election.enable": False},
            }
        },
        "workload": {
            "topic": _TOPIC,
            "rate": "200/s",
            "seconds": "400s",
            "tail": 100,
            "probe": False,
            "may_stop_for": ["OUT_OF_ORDER_SEQUENCE_NUMBER"],
            "settings": {"acks": "all", "enable.idempotence": True, "delivery.timeout.ms": 120_000},
        },
        "expect": {"loss": "any"},
        "faults": faults,
    }


def judged(seed: int) -> list[dict[str, Any]]:
    """Run a drawn plan, and compare it."""
    RUNS.mkdir(parents=True, exist_ok=True)
    path = RUNS / f"{seed}.yaml"
    path.write_text(json.dumps(scenario(seed)))  # YAML contains JSON
    (configured,) = load(path)
    engine, reporter = connect(), ConsoleReporter(Console(stderr=True))
    with ClusterPool(engine, reuse=False) as pool:
        run_dir = recorded(configured, out=RUNS, client=engine, reporter=reporter, pool=pool)
    judge_run(run_dir)
    return [{"seed": seed, **row} for row in compared(run_dir)]


def compared(run_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield each reassigned partition of a run with its forecast, and what became of it."""
    configured = load(run_dir / "scenario.yaml")[0].scenario
    dump = (run_dir / "metadata.log").read_text(encoding="utf-8")
    windows = sorted(table_rows(run_dir, "fault_windows"), key=lambda row: row["injected_at"])
    moves = [one for one in windows if one["fault"] == "reassign" and one["verified_at"]]
    lost = Counter(
        (row["topic"], row["partition"])
        for row in table_rows(run_dir, "anomalies")
        if row["anomaly"] == "lost"
    )
    for number, move in enumerate(moves):
        parameters = json.loads(move["parameters"])
        later = [one["injected_at"] for one in moves[number + 1 :]]
        before = _seen(dump, configured.kafka, until=move["injected_at"])
        after = _seen(dump, configured.kafka, until=later[0] if later else None)
        plan: dict[TopicPartition, tuple[int, ...]] = {
            place: tuple(parameters["to"])
            for place in before.placements
            if place[0] == parameters["topic"] and parameters.get("partition") in (None, place[1])
        }
        running = _running(windows, before, move["injected_at"])
        seen = replace(
            before,
            placements={
                place: replace(one, running=running) for place, one in before.placements.items()
            },
        )
        forecasts = reassigning.judged(
            seen, plan, cancels=False, acks=lambda _: ("all",), stated=True
        )
        for said in forecasts:
            ended = after.placements[said.place]
            completed = set(ended.replicas) == set(said.target or ())
            completed = completed and not (ended.adding or ended.removing)
            gone = 0 if later else lost[said.place]  # of a loss the last move is the cause, if any
            yield {
                "run": run_dir.name,
                "kafka": configured.kafka,
                "partition": said.place[1],
                "replicas": said.now.replicas,
                "isr": said.now.isr,
                "elr": said.now.elr,
                "to": said.target,
                "down": sorted(set(_BROKERS) - running),
                "harms": [str(one) for one in said.harms],
                "left_eligible": sorted(set(ended.elr) - set(ended.replicas)),
                "completed": completed,
                "lost": gone,
                # A move that a later request interrupted may have become complete.
                "right": (completed == said.outcome.completes or bool(later and not completed))
                and (said.may_lose or not gone),
            }


def _seen(dump: str, kafka: str, *, until: datetime | None) -> Seen:
    """Return the partitions as the controllers had them before a time; at the end without one."""
    lines = []
    for line in dump.splitlines(keepends=True):
        at = line.partition("CreateTime: ")[2].partition(" ")[0]
        if until is not None and at.isdecimal() and int(at) >= until.timestamp() * 1000:
            break
        lines.append(line)
    return reassigning.of_metadata("".join(lines), kafka, {})


def _running(windows: Iterable[Mapping[str, Any]], seen: Seen, at: datetime) -> frozenset[int]:
    """Return the brokers that no fault has ended at a time."""
    every = next(iter(seen.placements.values())).running
    ended = {
        node
        for one in windows
        if one["fault"] in ("kill", "restart", "power_loss")
        and one["injected_at"] <= at
        and (one["healed_at"] is None or one["healed_at"] > at)
        for node in one["nodes"]
    }
    return frozenset(every - ended)


def table(results: Iterable[Mapping[str, Any]]) -> str:
    """Return, by what the advice says, how many moves were made, forecast right, and lost."""
    counts: dict[str, Counter[str]] = {}
    for one in results:
        said = ", ".join(one["harms"]) or "may be moved"
        counts.setdefault(said, Counter()).update(
            moved=1,
            right=int(one["right"]),
            completed=int(one["completed"]),
            lost=int(one["lost"] > 0),
        )
    columns = ("moved", "right", "completed", "lost")
    lines = [
        "| advice | moved | forecast right | completed | lost records |",
        "|---|---|---|---|---|",
    ]
    for said, of_said in sorted(counts.items()):
        lines.append(f"| {said} | " + " | ".join(str(of_said[one]) for one in columns) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = options(__doc__, results=RESULTS, clusters=1000)
    parser.add_argument("runs", nargs="*", type=Path, help="compare these runs, and store them")
    given = parser.parse_args()
    known = {one["run"] for one in stored(given.results)}
    for run in given.runs:
        if run.name not in known:
            store(given.results, [{"seed": None, **row} for row in compared(run)])
    if not given.runs:
        for seed, results in judgements(given, judged):
            wrong = [one for one in results if not one["right"]]
            print(f"{seed}: {len(results)} moves, wrong: {wrong}", flush=True)
    results = stored(given.results)
    print(table(results))
    sys.exit(not all(one["right"] for one in results))


if __name__ == "__main__":
    main()
