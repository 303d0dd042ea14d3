"""What the ledger costs: the same producer with and without it, and Kafka's own ledger.

Three ways of sending the same number of records, in turns, so that whatever else the machine
does hits all three alike:

`plain`: our producer loop, same values, without delivery reports and without a ledger;
`ledgered`: our producer as every run uses it;
`verifiable`: `org.apache.kafka.tools.VerifiableProducer`, whose printed line per acked record is
the ledger of Kafka's own system tests.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from ackproof.harness.clients.process import ProducerProcess
from ackproof.harness.clients.spec import ProducerSpec, Setting
from ackproof.harness.cluster import images
from ackproof.harness.cluster.cluster import booted
from ackproof.harness.cluster.engine import connect
from ackproof.harness.cluster_spec import ClusterSpec
from ackproof.harness.errors import ClusterError, WorkloadError
from ackproof.harness.ledger import stream_path

#: How long one turn may take, seconds.
_TURN_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerBench:
    """Acked records a second of each turn, in order, and the ledger's bytes a send on disk."""

    records: int
    size: int
    plain: tuple[float, ...]
    ledgered: tuple[float, ...]
    verifiable: tuple[float, ...]
    bytes_per_send: float

    @property
    def ledgered_to_plain(self) -> float:
        """The ledgered rate as a share of the plain one: the median over turns."""
        return _median_ratio(self.ledgered, self.plain)

    @property
    def ledgered_to_verifiable(self) -> float:
        """The ledgered rate as a multiple of the verifiable producer's: the median over turns."""
        return _median_ratio(self.ledgered, self.verifiable)


def bench_ledger(
    bootstrap_servers: str,
    exec_in_broker: Callable[[list[str]], str],
    *,
    bootstrap_in_broker: str = "localhost:9092",
    records: int = 1_000_000,
    size: int = 32,
    partitions: int = 3,
    replication_factor: int = 1,
    repetitions: int = 3,
    settings: Mapping[str, Setting] | None = None,
) -> LedgerBench:
    """Measure all three ways against the cluster at `bootstrap_servers`, in a topic of its own.

    `exec_in_broker` runs a command in a broker's container and returns what it printed;
    `bootstrap_in_broker` is where that command finds the cluster. `size` is our value's length in
    bytes (the verifiable producer's values are its numbers, so shorter). `settings` are
    librdkafka's, for our two ways; all three use acks=all. Raises `WorkloadError` if a
    producer fails or anything is not acked, and `ClusterError` if the topic cannot be made.
    """
    topic = f"ackproof-bench-{uuid4().hex[:8]}"
    turns: dict[str, list[float]] = {"plain": [], "ledgered": [], "verifiable": []}
    bytes_per_send = 0.0
    with (
        _Topic(bootstrap_servers, topic, partitions, replication_factor),
        tempfile.TemporaryDirectory(prefix="ackproof-bench-") as scratch,
    ):
        for turn in range(repetitions):
            for name in ("plain", "ledgered"):
                run_dir = Path(scratch) / f"{turn}-{name}"
                (run_dir / "ledger").mkdir(parents=True)
                stream = stream_path(run_dir, 0)
                spec = ProducerSpec(
                    run_id=topic,
                    number=0,
                    topic=topic,
                    partitions=partitions,
                    bootstrap_servers=bootstrap_servers,
                    progress=run_dir / "progress",
                    ledger=stream if name == "ledgered" else None,
                    settings={"acks": "all", **(settings or {})},
                    records=records,
                    size=size,
                )
                turns[name].append(send_all(spec))
                if name == "ledgered":
                    bytes_per_send = stream.stat().st_size / records
            turns["verifiable"].append(
                _verifiable(exec_in_broker, bootstrap_in_broker, topic, records)
            )
    return LedgerBench(
        records=records,
        size=size,
        bytes_per_send=bytes_per_send,
        **{name: tuple(rates) for name, rates in turns.items()},
    )


def send_all(spec: ProducerSpec) -> float:
    """Run a producer to its end; return its sends a second. Raises WorkloadError if it fails."""
    process = ProducerProcess(spec)
    process.start()
    try:
        code = process.wait(_TURN_S)
    finally:
        process.kill()
    progress = process.progress()
    if code or (spec.ledger is not None and progress.acked != spec.records):
        raise WorkloadError(
            f"the benchmark's producer ended with {code} and {progress}: {process.error}",
            hint="the cluster must be healthy to be measured",
        )
    started_at, ended_at = process.span_us
    return progress.sent / (ended_at - started_at) * 1e6


def _verifiable(
    exec_in_broker: Callable[[list[str]], str], bootstrap: str, topic: str, records: int
) -> float:
    # One printed line a record; the last one sums up, measured by the tool itself. Its values are
    # so short that a full send buffer of them is more than the default heap of 256 MB holds.
    command = (
        'java -Xmx1g -cp "/opt/kafka/libs/*" org.apache.kafka.tools.VerifiableProducer'
        f" --bootstrap-server {bootstrap} --topic {topic} --max-messages {records}"
        " --throughput -1 --acks -1 | tail -n 1"
    )
    output = exec_in_broker(["sh", "-c", command])
    try:
        summary = json.loads(output.strip().splitlines()[-1])
        acked, rate = int(summary["acked"]), float(summary["avg_throughput"])
    except (IndexError, KeyError, ValueError) as error:
        raise WorkloadError(
            f"the verifiable producer printed no summary but {output[-500:]!r}",
            hint="the broker's image needs kafka-tools in /opt/kafka/libs and java",
        ) from error
    if acked != records:
        raise WorkloadError(
            f"the verifiable producer got {acked} of {records} records acked",
            hint="the cluster must be healthy to be measured",
        )
    return rate


class _Topic:
    """A topic that lives as long as the benchmark."""

    def __init__(self, bootstrap: str, name: str, partitions: int, replication: int) -> None:
        from confluent_kafka.admin import AdminClient

        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._name, self._partitions, self._replication = name, partitions, replication

    def __enter__(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic

        topic = NewTopic(self._name, self._partitions, self._replication)
        try:
            self._admin.create_topics([topic])[self._name].result(60)
        except KafkaException as error:
            raise ClusterError(
                f"cannot create the benchmark's topic: {error.args[0].str()}",
                hint=f"{self._partitions} partitions, replication factor {self._replication}",
            ) from error

    def __exit__(self, *_: object) -> None:
        self._admin.delete_topics([self._name])[self._name].result(60)


def _median_ratio(above: tuple[float, ...], below: tuple[float, ...]) -> float:
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def bench_on_fresh_broker(*, records: int, repetitions: int) -> LedgerBench:
    """Measure against one broker of its own: replication would hide what the producer costs.

    Raises what `bench_ledger` and `booted` raise.
    """
    client = connect()
    spec = ClusterSpec(brokers=1, heap="512m")
    run_id = f"bench-ledger-{uuid4().hex[:8]}"
    image = images.ensure(client=client).reference
    with booted(
        spec,
        client=client,
        image=image,
        run_id=run_id,
        sidecar=lambda: images.ensure_sidecar(client=client),
    ) as cluster:
        broker = cluster.nodes[1]

        def exec_in_broker(command: list[str]) -> str:
            output: Any = broker.container.exec_run(command, stderr=False).output
            return str(output.decode(errors="replace"))

        return bench_ledger(
            cluster.bootstrap_servers,
            exec_in_broker,
            bootstrap_in_broker=f"{broker.spec.name}:{cluster.port('INTERNAL')}",
            records=records,
            repetitions=repetitions,
        )
