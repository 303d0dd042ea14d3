"""Draw scenarios at random, predict them, and hold observations of real runs against the words.

`ci/predictions N SEED [--run K]` calls it. Every fault that works on a cluster that ackproof
starts can be drawn, on every version that is listed below.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ackproof.errors import ScenarioError
from ackproof.prediction import replication
from ackproof.scenario.loader import load
from ackproof_faults import registered

VERSIONS = ("0.10.2.2", "2.6.2", "3.9.1", "4.1.2", "4.3.1")

#: What a fault must or may be given, to draw from; a target is drawn unless one is here.
FIELDS: dict[str, list[dict[str, Any]]] = {
    "add_partitions": [{"topic": "orders", "partitions": 4}],
    "alter_config": [
        {"topic": "orders", "key": "min.insync.replicas", "value": 1},
        {"topic": "orders", "key": "unclean.leader.election.enable", "value": True},
        {"topic": "orders", "key": "segment.bytes", "value": 1048576},
    ],
    "change_replication_factor": [{"topic": "orders", "replication_factor": 2}],
    "crash_client": [{"client": "producer 0"}, {"client": "consumer 0", "how": "exit"}],
    "crash_loop": [{"times": 2}],
    "fail_log_dir": [{"log_dir": 2}],
    "fill_buffer": [{"client": "producers"}],
    "flapping": [{"peers": "brokers", "up": "500ms", "down": "500ms"}],
    "link": [
        {"api": "Produce", "direction": "response", "action": "drop", "count": 2},
        {"api": "Produce", "direction": "request", "action": "duplicate"},
        {"api": "Produce", "direction": "request", "action": "delay", "delay": "1s"},
    ],
    "partition": [{"peers": "brokers"}, {"peers": "controllers"}, {"peers": "clients"}],
    "pause_client": [{"client": "producers"}, {"client": "consumers"}],
    "power_loss": [{}, {"last": 20}, {"torn": True}],
    "preferred_election": [{"topic": "orders"}],
    "purge_client": [{"client": "producers"}],
    "reassign": [{"topic": "orders", "to": [3, 1, 2]}],
    "rebalance_storm": [{"client": "consumers"}],
    "recreate_topic": [{"topic": "orders"}],
    "remove_controller": [{"target": "active controller"}],
    "rolling_restart": [{"target": "all"}, {"target": "all", "stop": "hard"}],
    "skew_clock": [{"by": "90m"}, {"by": "-90m"}],
    "skew_timestamps": [{"client": "producers", "by": "90m"}],
    "slow_client": [{"client": "producers", "delay": "200ms"}],
    "split": [{"controllers": "others"}, {"controllers": "targets"}],
    "unclean_election": [{"topic": "orders"}],
    "upgrade": [{"target": "all", "to": "4.3.1"}],
    "upgrade_feature": [{"feature": "transaction.version", "level": 2}],
}  # fmt: skip
TARGETS = ("leader of orders-0", "followers of orders-0", "any broker", "all", 1, [1, 2])
#: Faults that need another cluster, or a user's command.
LEFT_OUT = {"command", "docker", "majorities_ring", "add_controller", "add_broker", "remove_broker"}


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("number", type=int, help="how many scenarios")
    options.add_argument("seed", type=int, help="the seed of the first one")
    options.add_argument("--run", type=int, default=0, metavar="K", help="run K of them")
    options.add_argument("--kafka", nargs="*", default=VERSIONS, help="versions to draw from")
    options.add_argument("--out", type=Path, default=Path("runs/predictions"))
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    seeds = range(given.seed, given.seed + given.number)
    drawn = [draw(seed, given.kafka, given.out) for seed in seeds]
    said: Counter[tuple[str, str]] = Counter()
    methods: Counter[str] = Counter()
    for path in drawn:
        record = replication.predict(load(path)[0].scenario, max_states=20_000)
        said.update(record.predicted.items())
        methods[record.prediction.bounds.partition(":")[0].partition(",")[0]] += 1
    print(f"{given.number} scenarios predicted: {dict(methods)}")
    for (anomaly, word), count in sorted(said.items()):
        print(f"  {anomaly:16} {word:12} {count:5}")
    chance = random.Random(given.seed)  # noqa: S311 - repeatable, not secret
    return compare(chance.sample(drawn, min(given.run, len(drawn))), given.out)


def draw(seed: int, versions: Sequence[str], folder: Path) -> Path:
    """Write a scenario; what the loader refuses is drawn again."""
    chance = random.Random(f"predictions {seed}")  # noqa: S311 - repeatable, not secret
    path = folder / f"drawn-{seed}.yaml"
    while True:
        path.write_text(json.dumps(scenario(chance, seed, versions), indent=1))
        try:
            load(path)
        except (ScenarioError, ValidationError):
            continue
        return path


def scenario(chance: random.Random, seed: int, versions: Sequence[str]) -> dict[str, Any]:
    names = sorted(set(registered()) - LEFT_OUT)
    faults = [fault(chance, chance.choice(names)) for _ in range(chance.choice((1, 1, 2, 2, 3)))]
    used = {step["fault"] for step in faults}
    idempotent = chance.random() < 0.4
    steps: list[dict[str, Any]] = list(faults)
    block = chance.choice(("none", "none", "sequence", "one_of", "parallel"))
    if block == "sequence":
        steps = [{"sequence": faults, "repeat": 2}]
    elif block != "none" and len(faults) > 1:
        steps = [{block: faults}]
    proxied = {"listeners": ["LINK"], "proxied": ["LINK"]} if "link" in used else {}
    consumers = {"readers": {"members": 2}} if any("client" in step for step in faults) else {}
    return {
        "version": 1,
        "name": f"drawn-{seed}",
        "seed": seed,
        "kafka": chance.choice(versions),
        "cluster": {
            "brokers": 3,
            **proxied,
            **({"controllers": 3} if "remove_controller" in used else {}),
            **({"log_dirs": 2} if used & {"fail_log_dir", "replace_disk"} else {}),
            **({"disk": "200m"} if "disk_full" in used else {}),
            **({"clock": "adjustable"} if "skew_clock" in used else {}),
            "settings": {"replica.lag.time.max.ms": chance.choice((5000, 30000))},
        },
        "topics": {
            "orders": {
                "partitions": chance.choice((1, 2)),
                "replication_factor": chance.choice((2, 3, 3)),
                "settings": {
                    "min.insync.replicas": chance.choice((1, 2)),
                    "unclean.leader.election.enable": chance.random() < 0.2,
                },
            }
        },
        "workload": {
            "topic": "orders",
            "rate": "300/s",
            "records": 12000,
            "seconds": "40s",
            "settings": {
                "acks": "all" if idempotent else chance.choice((0, 1, "all", "all")),
                "enable.idempotence": idempotent,
            },
            **({"listener": "LINK"} if proxied else {}),
            **({"consumers": consumers} if consumers else {}),
        },
        "faults": steps,
        "expect": {"loss": "any", "phantom": "any", "corrupt": "any", "unprocessed": "any"},
    }


def fault(chance: random.Random, name: str) -> dict[str, Any]:
    fields = chance.choice(FIELDS.get(name, [{}]))
    step = {"fault": name, "target": chance.choice(TARGETS), "when": "300 more acked"}
    step |= {"or_after": "5s", "heal_after": f"{chance.randint(2, 14)}s"}
    if "client" in fields or "topic" in fields or name in ("kill_cluster", "upgrade_feature"):
        del step["target"]
    return step | fields


def compare(paths: list[Path], out: Path) -> int:
    """Run the scenarios; print for each word how often it was said and came true."""
    told: Counter[tuple[str, bool]] = Counter()
    refuted = []
    for path in paths:
        command = ["ackproof", "run", str(path), "--out", str(out / "runs"), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            verdict = json.loads(done.stdout)
        except json.JSONDecodeError:
            print(f"{path.name}: not run ({done.returncode}): {done.stderr.strip()[-300:]}")
            continue
        print(f"{path.name}: Kafka {verdict['kafka_version']}, {verdict['verdict']}: "
              f"{verdict['reason'][:150]}")  # fmt: skip
        for anomaly, word in verdict["predicted"].items():
            told[word, verdict["observed"].get(anomaly, 0) > 0] += 1
        refuted += [(path.name, finding) for finding in verdict["findings"]]
    for word in ("impossible", "possible", "certain"):
        came, not_so = told[word, True], told[word, False]
        if came + not_so:
            print(f"{word}: said {came + not_so} times, observed {came} times")
    for name, finding in refuted:
        print(f"FINDING {name}: {finding}")
    return 1 if refuted else 0


if __name__ == "__main__":
    sys.exit(main())
