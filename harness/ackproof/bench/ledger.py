"""What the ledger costs: the same producer with and without it, and Kafka's own producers.

Ways of sending the same number of records, in turns, so that whatever else the machine does hits
all alike:

`plain`: our producer loop, same values, without delivery reports and without a ledger;
`ledgered`: our producer as every run uses it;
`verifiable` and `perf_test`: see `peers`;
`ledgered_together` and `perf_test_together`: as many processes of each at once.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from ackproof.bench.peers import Peers, together
from ackproof.clients.process import ProducerProcess
from ackproof.clients.spec import ProducerSpec, Setting
from ackproof.cluster.boot import booted
from ackproof.cluster.cluster import KafkaCluster
from ackproof.containers import images
from ackproof.containers.engine import connect
from ackproof.errors import ClusterError, WorkloadError
from ackproof.ledger.producer_ledger import stream_path
from ackproof.scenario.cluster import ClusterSpec

#: How long one turn may take, seconds.
_TURN_S = 600.0

#: Whose rate is divided by whose: the ratios that are reported, by name.
_RATIOS = {
    "ledgered_to_plain": ("ledgered", "plain"),
    "ledgered_to_verifiable": ("ledgered", "verifiable"),
    "ledgered_to_perf_test": ("ledgered", "perf_test"),
    "together_to_perf_test": ("ledgered_together", "perf_test_together"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerBench:
    """Acked records a second by way, of each turn in order, and the ledger's bytes a send on disk.

    `records` are those of one process in one turn, `size` is a value's length in bytes, and
    `processes` how many send together.
    """

    records: int
    size: int
    processes: int
    rates: Mapping[str, Sequence[float]]
    bytes_per_send: float

    @property
    def ratios(self) -> dict[str, float]:
        """One way's rate as a multiple of another's: medians over turns."""
        return {
            name: statistics.median(
                a / b for a, b in zip(self.rates[above], self.rates[below], strict=True)
            )
            for name, (above, below) in _RATIOS.items()
        }


def bench_ledger(
    bootstrap_servers: str,
    peers: Peers,
    *,
    records: int,
    size: int,
    processes: int,
    repetitions: int,
    partitions: int = 3,
    replication_factor: int = 1,
    settings: Mapping[str, Setting] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> LedgerBench:
    """Measure every way against the cluster at `bootstrap_servers`, in a topic of its own.

    `settings` are librdkafka's, for our ways; all use acks=all. `say` hears of each turn. Raises
    `WorkloadError` if a producer fails or anything is not acked, and `ClusterError` if the topic
    cannot be made.
    """
    topic = f"ackproof-bench-{uuid4().hex[:8]}"
    turns: dict[str, list[float]] = {}
    bytes_per_send = 0.0
    with (
        bench_topic(bootstrap_servers, topic, partitions, replication_factor),
        tempfile.TemporaryDirectory(prefix="ackproof-bench-") as scratch,
    ):
        for turn in range(repetitions):

            def spec(way: str, number: int = 0, *, turn: int = turn) -> ProducerSpec:
                run_dir = Path(scratch) / f"{turn}-{way}"
                (run_dir / "ledger").mkdir(parents=True, exist_ok=True)
                return ProducerSpec(
                    run_id=topic,
                    number=number,
                    topic=topic,
                    partitions=partitions,
                    bootstrap_servers=bootstrap_servers,
                    progress=run_dir / f"progress-{number}",
                    ledger=None if way == "plain" else stream_path(run_dir, number),
                    settings={"acks": "all", **(settings or {})},
                    records=records,
                    size=size,
                )

            ledgered = spec("ledgered")
            several = [spec("ledgered_together", number) for number in range(processes)]
            ways: dict[str, Callable[[], float]] = {
                "plain": partial(send_all, spec("plain")),
                "ledgered": partial(send_all, ledgered),
                # A rate needs no more of them, and it takes its time.
                "verifiable": partial(peers.verifiable, topic, max(1, records // 5)),
                "perf_test": partial(peers.perf_test, topic, records, size),
                "ledgered_together": partial(_send_together, several),
                "perf_test_together": partial(
                    peers.perf_test, topic, records, size, processes=processes
                ),
            }
            if turn == 0:
                send_all(spec("warm"))  # the broker, which has just been started
            for name, send in ways.items():
                rate = send()
                turns.setdefault(name, []).append(rate)
                say(
                    f"{size} bytes, turn {turn + 1} of {repetitions}, {name}: {rate:,.0f} records/s"
                )
            assert ledgered.ledger is not None  # asked for above
            bytes_per_send = ledgered.ledger.stat().st_size / records
    return LedgerBench(
        records=records,
        size=size,
        processes=processes,
        rates={name: tuple(rates) for name, rates in turns.items()},
        bytes_per_send=bytes_per_send,
    )


def send_all(spec: ProducerSpec) -> float:
    """Run a producer to its end; return its sends a second. Raises WorkloadError if it fails."""
    return _send_together([spec])


def _send_together(specs: Sequence[ProducerSpec]) -> float:
    with ExitStack() as running:
        processes = [ProducerProcess(spec) for spec in specs]
        for process in processes:
            running.callback(process.kill)
            process.start()
        return together([_rate(process) for process in processes])


def _rate(process: ProducerProcess) -> float:
    """Wait for a producer's end; return its sends a second."""
    code, spec = process.wait(_TURN_S), process.spec
    progress = process.progress()
    if code or (spec.ledger is not None and progress.acked != spec.records):
        raise WorkloadError(
            f"the benchmark's producer ended with {code} and {progress}: {process.error}",
            hint="the cluster must be healthy to be measured",
        )
    started_at, ended_at = process.span_us
    return progress.sent / (ended_at - started_at) * 1e6


@contextmanager
def bench_topic(
    bootstrap: str,
    name: str,
    partitions: int,
    replication_factor: int,
    settings: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Have a topic as long as the benchmark runs. Raises ClusterError if it cannot be made."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(name, partitions, replication_factor, config=dict(settings or {}))
    try:
        admin.create_topics([topic])[name].result(60)
    except KafkaException as error:
        raise ClusterError(
            f"cannot create the benchmark's topic: {error.args[0].str()}",
            hint=f"{partitions} partitions, replication factor {replication_factor}",
        ) from error
    try:
        yield
    finally:
        admin.delete_topics([name])[name].result(60)


@contextmanager
def fresh_broker() -> Iterator[tuple[KafkaCluster, Peers]]:
    """Boot one broker for a benchmark: replication would hide what the producer costs.

    Raises what `booted` raises.
    """
    client = connect()
    with booted(
        ClusterSpec(brokers=1, heap="512m"),
        client=client,
        image=images.ensure(client=client).reference,
        run_id=f"bench-ledger-{uuid4().hex[:8]}",
        sidecar=lambda: images.ensure_sidecar(client=client),
    ) as cluster:
        broker = cluster.nodes[1]

        def exec_in_broker(command: list[str]) -> str:
            output: Any = broker.container.exec_run(command, stderr=False).output
            return str(output.decode(errors="replace"))

        bootstrap = f"{broker.spec.name}:{cluster.topology.port('INTERNAL')}"
        yield cluster, Peers(exec_in_broker=exec_in_broker, bootstrap=bootstrap)
