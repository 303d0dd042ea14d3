"""What the comparisons with real brokers share: clusters by seed, stored results, and readers."""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from ackproof.cluster.booted import KafkaCluster
from ackproof.errors import AckproofError
from ackproof_faults.conditions.durations import parse_duration
from ackproof_faults.evidence import FaultError
from ackproof_faults.interfaces.cluster import TopicPartition

#: The folder of stored results.
RESULTS = Path(__file__).parents[2] / "tests" / "results"

Result = dict[str, Any]


def stored(file: Path) -> list[Result]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def store(file: Path, results: Sequence[Mapping[str, Any]]) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.writelines(json.dumps(one) + "\n" for one in results)


def end_as_by_ctrl_c() -> None:
    """Let signals raise KeyboardInterrupt, so that `timeout` or a closed terminal leaves nothing.

    Processes that a shell starts in the background ignore Ctrl-C otherwise.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def options(description: str | None, *, results: Path, clusters: int) -> argparse.ArgumentParser:
    """Return the options of a comparison that draws clusters by seed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--budget", default="720m")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--first", type=int, default=100, help="first seed; for several machines")
    parser.add_argument("--clusters", type=int, default=clusters, help="the most clusters to boot")
    parser.add_argument("--results", type=Path, default=results)
    return parser


def judgements(
    given: argparse.Namespace, judge: Callable[[int], list[Result]]
) -> Iterator[tuple[int, list[Result]]]:
    """Judge and store the clusters of seeds that are not stored, and yield each with its seed."""
    done = {one["seed"] for one in stored(given.results)}
    until = time.monotonic() + parse_duration(given.budget)
    seeds = (seed for seed in range(given.first, given.first + 1000) if seed not in done)
    for seed in islice(seeds, 0 if given.table else given.clusters):
        if time.monotonic() > until:
            return
        try:
            results = judge(seed)
        except (AckproofError, FaultError) as error:
            print(f"{seed}: not decided: {error}", flush=True)
            continue
        store(given.results, results)
        yield seed, results


def read_to_ends(
    cluster: KafkaCluster, places: Sequence[TopicPartition]
) -> dict[TopicPartition, dict[int, int]]:
    """Return the numbers of all records up to an end marker, by offset.

    A partition is left out if its marker was not read in two minutes.
    """
    ends = cluster.admin.write_end_markers(places) if places else {}
    found: dict[TopicPartition, dict[int, int]] = {place: {} for place in places}
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "truth",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "log_level": 0,
        }
    )
    consumer.assign([KafkaPartition(*place, 0) for place in ends])
    left, deadline = dict(ends), time.monotonic() + 120
    while left and time.monotonic() < deadline:
        for one in consumer.consume(1000, timeout=1):
            place = one.topic(), one.partition()
            if one.error() is None and one.offset() < ends[place]:
                found[place][one.offset()] = int(one.value())
            elif one.error() is None:
                left.pop(place, None)
    consumer.close()
    return {place: numbers for place, numbers in found.items() if place not in left}
