"""CPU time of audits: of a producer's file, and of thousands of topics without a version."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

#: What decides which failures lose records: replicas, `min.insync.replicas` and
#: `unclean.leader.election.enable` of a topic; '' for a setting that it does not have.
_REPLICAS, _MINIMA, _UNCLEAN = (1, 2, 3, 4), ("", "1", "2", "3", "4"), ("", "true")
#: Each of these has so many kinds, which differ in what Kafka removes on purpose.
_RETENTION_DAYS = 10
KINDS = len(_REPLICAS) * len(_MINIMA) * len(_UNCLEAN) * _RETENTION_DAYS

_PRODUCER = "bootstrap.servers=localhost:9092\nacks=all\n"
_MAIN = "from ackproof.cli.main import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditBench:
    """Seconds of CPU time of whole processes, the median of some turns.

    start_s: of `ackproof --version`. producer_s: of an audit of a producer's file. topics_s: of an
    audit of `topics` topics of `kinds` kinds of settings and this producer.
    """

    topics: int
    kinds: int
    start_s: float
    producer_s: float
    topics_s: float

    @property
    def producer_to_start(self) -> float:
        return self.producer_s / self.start_s

    @property
    def ms_per_kind(self) -> float:
        return 1000 * (self.topics_s - self.producer_s) / self.kinds


def bench_audit(*, topics: int, repetitions: int) -> AuditBench:
    """Audit in turns; each command runs once before, so that its modules are compiled."""
    with TemporaryDirectory() as made:
        producer, described = Path(made, "producer.properties"), Path(made, "topics.txt")
        producer.write_text(_PRODUCER)
        described.write_text("".join(describe(topics)))
        commands = {
            "start_s": ["--version"],
            "producer_s": ["audit", str(producer)],
            "topics_s": ["audit", str(described), str(producer)],
        }
        cpu_s("--version"), cpu_s("audit", str(producer))
        turns = [
            {name: cpu_s(*words) for name, words in commands.items()} for _ in range(repetitions)
        ]
    medians = {name: median(turn[name] for turn in turns) for name in commands}
    return AuditBench(topics=topics, kinds=min(topics, KINDS), **medians)


def cpu_s(*words: str) -> float:
    """Return the seconds of CPU time of a command. Raises CalledProcessError if it fails.

    Its modules are compiled once, as an installation compiles them, whatever the environment says.
    """
    before = _of_children()
    whole = [sys.executable, "-c", _MAIN, *words]
    kept = {key: one for key, one in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(whole, check=False, stdout=subprocess.DEVNULL, env=kept)
    if done.returncode not in (0, 1):  # an audit that finds a risk ends with 1
        raise subprocess.CalledProcessError(done.returncode, words)
    return _of_children() - before


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def describe(topics: int) -> Iterator[str]:
    """Yield topics as `kafka-topics --describe` prints them, of all kinds in turn."""
    kinds = [*product(range(1, _RETENTION_DAYS + 1), _REPLICAS, _MINIMA, _UNCLEAN)]
    for number in range(topics):
        days, replicas, minimum, unclean = kinds[number % KINDS]
        settings = {
            "min.insync.replicas": minimum,
            "unclean.leader.election.enable": unclean,
            "retention.ms": str(days * 86_400_000),
        }
        yield _described(f"topic-{number:05}", range(1, replicas + 1), settings)


def _described(name: str, brokers: Sequence[int], settings: dict[str, str]) -> str:
    listed = ",".join(map(str, brokers))
    configs = ",".join(f"{key}={value}" for key, value in settings.items() if value)
    return (
        f"Topic: {name}\tPartitionCount: 1\tReplicationFactor: {len(brokers)}\t"
        f"Configs: {configs}\n"
        f"\tTopic: {name}\tPartition: 0\tLeader: 1\tReplicas: {listed}\tIsr: {listed}\n"
    )
