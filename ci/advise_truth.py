"""Compares advice about dead clusters with what happens: each alternative on a copy of its own.

`ci/advise-truth` calls it. A state is drawn: brokers are killed, stopped and started while records
are sent; then all nodes die, and one machine may lose power. Of an alternative that keeps
everything no acked record may be missing; offsets that are lost for certain must be.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from ackproof.advise.alternatives import Alternative, alternatives
from ackproof.advise.dead_cluster import Settings, dead_cluster, dump_of
from ackproof.advise.disks import read_disks
from ackproof.advise.screen import distinct
from ackproof.cluster.booted import KafkaCluster, booted
from ackproof.cluster.fork import copy_disks, forked
from ackproof.containers import images
from ackproof.containers.commands import run_sidecar
from ackproof.containers.engine import connect
from ackproof.errors import AckproofError, ClusterError
from ackproof.scenario.cluster import CONTROLLER_ID, ClusterSpec
from ackproof.scenario.topics import TopicSpec
from ackproof.waiting import wait_for
from ackproof_faults.conditions.durations import parse_duration
from ackproof_model.advice import Elect, Offsets, Start
from ackproof_model.configuration import Acks
from ackproof_spark.forensics.segments import batches

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "tests" / "results" / "advise_truth.jsonl"
VERSIONS = ("3.9.2", "4.1.2", "4.4.0")
#: Alternatives of one state that are carried out, each on a copy.
_FORKS = 4
_RECORDS = 200
_SESSION_S = 3
_PLACE = ("orders", 0)
_BROKERS = (1, 2, 3)
SPEC = ClusterSpec(
    brokers=3,
    settings={
        "broker.session.timeout.ms": _SESSION_S * 1000,
        "broker.heartbeat.interval.ms": 500,
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A state: settings, what happens to brokers one after the other, and a loss of power."""

    kafka: str
    minimum: int
    acks: Acks
    events: tuple[tuple[str, int], ...]
    without_power: int | None


def draw(seed: int) -> Drawn:
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    up, events = set(_BROKERS), []
    for _ in range(chance.randint(1, 4)):
        down = set(_BROKERS) - up
        starts = bool(down) and (len(up) == 1 or chance.random() < 0.3)
        broker = chance.choice(sorted(down if starts else up))
        events.append(("start" if starts else chance.choice(["kill", "kill", "stop"]), broker))
        up ^= {broker}
    # A clean stop flushes the logs, so that a later loss of power takes nothing.
    flushed = {broker for broker in _BROKERS if ("stop", broker) in events and broker not in up}
    return Drawn(
        kafka=chance.choice(VERSIONS),
        minimum=chance.choice([1, 2]),
        acks=chance.choice(["1", "all"]),
        events=tuple(events),
        without_power=chance.choice([None, None, *sorted({*_BROKERS} - flushed)]),
    )


def send(cluster: KafkaCluster, acks: str, first: int) -> dict[int, int]:
    """Send records while brokers may be down; return the numbers of the acked ones by offset."""
    acked: dict[int, int] = {}
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": acks,
            "delivery.timeout.ms": 3000,
            "batch.num.messages": 20,
            "log_level": 0,
        }
    )

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            acked[message.offset()] = number_of(message.value())

    for number in range(first, first + _RECORDS):
        producer.produce(_PLACE[0], f"<{number}>", partition=_PLACE[1], on_delivery=delivered)
    producer.flush(10)
    producer.close()
    return acked


def number_of(value: bytes) -> int:
    return int(value[1:-1])


def on_disks(disks: Path) -> set[int]:
    """Return the numbers of all records that a disk has; earlier events may have lost others."""
    segments = disks.glob(f"*/*/{_PLACE[0]}-{_PLACE[1]}/*.log")
    found = (re.findall(rb"<(\d+)>", segment.read_bytes()) for segment in segments)
    return {int(number) for numbers in found for number in numbers}


def broken(cluster: KafkaCluster, drawn: Drawn) -> dict[int, int]:
    """Let the events happen, and end all nodes; return the acked records by offset."""
    acked = send(cluster, drawn.acks, 0)
    for number, (what, broker) in enumerate(drawn.events, 1):
        node = cluster.nodes[broker]
        {"kill": node.kill, "stop": node.terminate, "start": node.start_again}[what]()
        running = set(cluster.running_brokers())
        wait_for(
            lambda: set(cluster.admin.brokers()),
            running.__eq__,
            within_s=60,
            failure=lambda _: ClusterError("the brokers' list did not change"),
        )
        acked |= send(cluster, drawn.acks, number * _RECORDS)
    for node in cluster.nodes.values():
        if node.exit_status() is None:
            node.kill()
    return acked


def cut(cluster: KafkaCluster, broker: int, disks: Path, chance: random.Random) -> None:
    """Cut a replica's last segment at the start of a batch, as a loss of power does."""
    node = cluster.nodes[broker]
    folder = disks / node.name / "data" / f"{_PLACE[0]}-{_PLACE[1]}"
    last = sorted(folder.glob("*.log"))[-1]
    with last.open("rb") as file:
        starts = [batch.position for batch in batches(file, size=last.stat().st_size)]
    size = chance.choice(starts or [0])
    volume = {node.volume: {"bind": "/volume", "mode": "rw"}}
    path = f"/volume/data/{folder.name}/{last.name}"
    run_sidecar(
        cluster.client,
        cluster.sidecar,
        f"truncate -s {size} {path}",
        run_id=cluster.run_id,
        volumes=volume,
    )
    with last.open("rb+") as file:
        file.truncate(size)


def settled(cluster: KafkaCluster, started: set[int]) -> None:
    """Wait until the started brokers are in the ISR, or there has been no leader for a while."""
    leaderless_since = time.monotonic()

    def calm() -> bool:
        nonlocal leaderless_since
        view = cluster.admin.partitions().get(_PLACE)
        if view is None or view.leader is not None or set(cluster.admin.brokers()) != started:
            leaderless_since = time.monotonic()
        if view is not None and view.leader in started:
            return set(view.isr) == started
        return time.monotonic() - leaderless_since > 3 * _SESSION_S

    wait_for(
        calm,
        bool,
        within_s=180,
        every_s=0.3,
        failure=lambda _: ClusterError(f"the copy did not settle: {cluster.admin.partitions()}"),
    )


def carried_out(
    original: KafkaCluster, steps: Alternative, acked: Mapping[int, int], run_id: str
) -> tuple[int | None, list[int]]:
    """Carry out steps on a copy; return the leader, and the offsets of missing acked records."""
    with forked(original, SPEC, run_id=run_id, start=[CONTROLLER_ID]) as fork:
        started: set[int] = set()
        for step in steps.steps:
            if isinstance(step, Start):
                with ThreadPoolExecutor(max_workers=len(step.brokers)) as pool:
                    list(pool.map(lambda broker: fork.nodes[broker].boot(), step.brokers))
                started |= set(step.brokers)
            elif isinstance(step, Elect) and fork.admin.partitions()[_PLACE].leader is None:
                fork.interfaces.operations.elect([_PLACE], unclean=True)
            settled(fork, started)
        leader = fork.admin.partitions()[_PLACE].leader
        if leader is None:
            return None, []
        found = read(fork)
        return leader, sorted(at for at, number in acked.items() if found.get(at) != number)


def read(cluster: KafkaCluster) -> dict[int, int]:
    """Return the numbers of all records up to an end marker, by offset."""
    end = cluster.admin.write_end_markers([_PLACE])[_PLACE]
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "truth",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(*_PLACE, 0)])
    found: dict[int, int] = {}
    deadline = time.monotonic() + 120
    while max(found, default=-1) < end and time.monotonic() < deadline:
        for one in consumer.consume(1000, timeout=1):
            if one.error() is None:
                found[one.offset()] = number_of(one.value()) if one.offset() < end else -1
    consumer.close()
    if max(found, default=-1) < end:
        raise ClusterError(f"the copy cannot be read up to offset {end}")
    return found


def inside(offsets: Iterable[Offsets], at: int) -> bool:
    return any(one.first <= at <= one.last for one in offsets)


def judged(seed: int) -> dict[str, Any]:
    """Draw a state, and compare the advice for it with its copies."""
    drawn, chance = draw(seed), random.Random(-seed)  # noqa: S311
    image, client = images.ensure(drawn.kafka).reference, connect()
    run_id = f"truth-{seed}"
    topic = TopicSpec.model_validate(
        {"assignment": [list(_BROKERS)], "settings": {"min.insync.replicas": drawn.minimum}}
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        booted(SPEC, client=client, image=image, run_id=run_id, kafka=drawn.kafka) as cluster,
    ):
        cluster.create_topics({_PLACE[0]: topic})
        acked = broken(cluster, drawn)
        disks = Path(folder)
        copy_disks(cluster, disks)
        if drawn.without_power is not None:
            cut(cluster, drawn.without_power, disks, chance)
        present = on_disks(disks)
        acked = {at: number for at, number in acked.items() if number in present}
        nodes = read_disks([disks])
        settings = Settings(
            kafka=drawn.kafka,
            properties={},
            acks=drawn.acks,
            power_lost=frozenset({drawn.without_power} - {None}),  # type: ignore[arg-type]
        )
        state = dead_cluster(nodes, dump_of(nodes, drawn.kafka), settings)
        best = [one for one in distinct(alternatives(state.situations)) if one.steps]
        outcomes = []
        for number, one in enumerate(best[:_FORKS]):
            said = one.outcomes[_PLACE]
            leader, missing = carried_out(cluster, one, acked, f"{run_id}-{number}")
            risked = [at for at in acked if inside(said.may_lose, at)]
            outcomes.append(
                {
                    "steps": [str(step) for step in one.steps],
                    "verdict": one.verdict,
                    "right": set(missing) <= set(risked)
                    and leader in said.leaders
                    and (
                        leader is None
                        or {at for at in acked if inside(said.loses, at)} <= set(missing)
                    ),
                    "exact": set(missing) == set(risked),
                    "at_risk": len(risked),
                    "missing": len(missing),
                    "leader": leader,
                }
            )
    return {
        "seed": seed,
        "kafka": drawn.kafka,
        "minimum": drawn.minimum,
        "acks": drawn.acks,
        "events": [f"{what} {broker}" for what, broker in drawn.events],
        "without_power": drawn.without_power,
        "acked": len(acked),
        "alternatives": outcomes,
    }


def table(results: Iterable[Mapping[str, Any]]) -> str:
    """Return, by verdict, how many alternatives were carried out, right, and exact."""
    counts: dict[str, Counter[str]] = {}
    for one in (one for result in results for one in result["alternatives"]):
        of_verdict = counts.setdefault(one["verdict"], Counter())
        of_verdict.update(
            carried_out=1,
            right=one["right"],
            exact=one["exact"],
            lost_records=bool(one["missing"]),
        )
    columns = ("carried_out", "right", "exact", "lost_records")
    lines = ["| advice | " + " | ".join(one.replace("_", " ") for one in columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for verdict, of_verdict in sorted(counts.items()):
        lines.append(f"| {verdict} | " + " | ".join(str(of_verdict[one]) for one in columns) + " |")
    return "\n".join(lines)


def stored(results: Path) -> list[dict[str, Any]]:
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return [json.loads(line) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=200)
    parser.add_argument("--budget", default="720m")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--first", type=int, default=0, help="the first seed; for several machines")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    known = {one["seed"] for one in stored(options.results)}
    until, wrong = time.monotonic() + parse_duration(options.budget), 0
    for seed in range(options.first, options.states) if not options.table else ():
        if seed in known or time.monotonic() > until:
            continue
        try:
            result = judged(seed)
        except AckproofError as error:
            print(f"{seed}: not decided: {error}", flush=True)
            continue
        with options.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        bad = [one for one in result["alternatives"] if not one["right"]]
        wrong += len(bad)
        print(f"{seed}: {len(result['alternatives'])} alternatives, wrong: {bad}", flush=True)
    print(table(stored(options.results)))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
