"""Cost of the ledger: our producer with and without it, and Kafka's own producers.

Each variant sends as many records. They take turns, so that other load affects all alike:

`plain`: our producer loop with the same values, without delivery reports and ledger;
`ledgered`: our producer as in every run;
`java`: the same, with Kafka's Java client;
`verifiable` and `perf_test`: see `peers`;
`ledgered_together` and `perf_test_together`: several processes of each at once.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

from ackproof.clients.process import ProducerProcess
from ackproof.clients.specs import ProducerSpec
from ackproof.cluster.booted import KafkaCluster, booted
from ackproof.containers import commands, images
from ackproof.containers.engine import connect
from ackproof.errors import ClusterError, WorkloadError
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.ledger.producer_ledger import stream_path
from ackproof.scenario.cluster import ClusterSpec
from ackproof.waiting import Repeating
from benchmarks.peers import AS_OURS, Peers, together

#: Timeout of one turn, seconds.
_TURN_S = 600.0

_PARTITIONS = 3

#: After this many sends queues and buffers are full, and memory should be constant.
WARM = 1_000_000

_SAMPLE_S = 0.2
_MEMORY_S = 3600.0

#: The records are not needed, so the broker may remove them soon.
_KEEP = {"retention.bytes": str(64 << 20), "segment.bytes": str(32 << 20)}

#: The reported ratios: dividend and divisor.
_RATIOS = {
    "ledgered_to_plain": ("ledgered", "plain"),
    "ledgered_to_verifiable": ("ledgered", "verifiable"),
    "ledgered_to_perf_test": ("ledgered", "perf_test"),
    "java_to_perf_test": ("java", "perf_test"),
    "together_to_perf_test": ("ledgered_together", "perf_test_together"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerBench:
    """Acked records a second by variant and turn, and the ledger's bytes per send on disk.

    `records`: of one process in one turn; `size`: length of a value in bytes; `processes`: number
    of processes of the `_together` variants.
    """

    records: int
    size: int
    processes: int
    rates: Mapping[str, Sequence[float]]
    bytes_per_send: float

    @property
    def ratios(self) -> dict[str, float]:
        """Ratios of rates: medians over turns."""
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
    say: Callable[[str], None] = lambda _: None,
) -> LedgerBench:
    """Measure every variant against the cluster at `bootstrap_servers`, in a topic of its own.

    All use acks=all. `say` reports each turn. Raises WorkloadError if a producer fails or a record
    is not acked, ClusterError if the topic cannot be created.
    """
    topic = f"ackproof-bench-{uuid4().hex[:8]}"
    turns: dict[str, list[float]] = {}
    bytes_per_send = 0.0
    with (
        bench_topic(bootstrap_servers, topic),
        tempfile.TemporaryDirectory(prefix="ackproof-bench-") as scratch,
    ):
        for turn in range(repetitions):

            def spec(variant: str, number: int = 0, *, turn: int = turn) -> ProducerSpec:
                run_dir = Path(scratch) / f"{turn}-{variant}"
                (run_dir / "ledger").mkdir(parents=True, exist_ok=True)
                return ProducerSpec(
                    run_id=topic,
                    number=number,
                    topic=topic,
                    partitions=_PARTITIONS,
                    bootstrap_servers=bootstrap_servers,
                    progress=run_dir / f"progress-{number}",
                    ledger=None if variant == "plain" else stream_path(run_dir, number),
                    java=DEFAULT_KAFKA if variant == "java" else None,
                    settings=dict(AS_OURS) if variant == "java" else {"acks": "all"},
                    records=records,
                    size=size,
                )

            ledgered = spec("ledgered")
            several = [spec("ledgered_together", number) for number in range(processes)]
            variants: dict[str, Callable[[], float]] = {
                "plain": partial(send_all, spec("plain")),
                "ledgered": partial(send_all, ledgered),
                "java": partial(send_all, spec("java")),
                # Fewer records suffice for a rate, and this producer is slow.
                "verifiable": partial(peers.verifiable, topic, max(1, records // 5)),
                "perf_test": partial(peers.perf_test, topic, records, size),
                "ledgered_together": partial(_send_together, several),
                "perf_test_together": partial(
                    peers.perf_test, topic, records, size, processes=processes
                ),
            }
            if turn == 0:
                send_all(spec("warm"))  # warm up the broker, which has just started
            for name, send in variants.items():
                rate = send()
                turns.setdefault(name, []).append(rate)
                say(
                    f"{size} bytes, turn {turn + 1} of {repetitions}, {name}: {rate:,.0f} records/s"
                )
            assert ledgered.ledger is not None
            bytes_per_send = ledgered.ledger.stat().st_size / records
    return LedgerBench(
        records=records,
        size=size,
        processes=processes,
        rates={name: tuple(rates) for name, rates in turns.items()},
        bytes_per_send=bytes_per_send,
    )


def send_all(spec: ProducerSpec) -> float:
    """Run a producer and return its sends per second. Raises WorkloadError if it fails."""
    return _send_together([spec])


def _send_together(specs: Sequence[ProducerSpec]) -> float:
    with ExitStack() as running:
        processes = [ProducerProcess(spec) for spec in specs]
        for process in processes:
            running.callback(process.kill)
            process.start()
        return together([sends_per_second(process, process.wait(_TURN_S)) for process in processes])


def sends_per_second(process: ProducerProcess, code: int | None) -> float:
    """Return the rate of a producer that ended with `code`.

    Raises WorkloadError if it failed, or a record of a producer with a ledger was not acked.
    """
    progress, spec = process.progress(), process.spec
    if code or (spec.ledger is not None and progress.acked != spec.records):
        raise WorkloadError(
            f"the benchmark's producer ended with {code} and {progress}: {process.error}",
            hint="Measure a healthy cluster.",
        )
    started_at, ended_at = process.page.started_at, process.page.updated_at
    return progress.sent / (ended_at - started_at) * 1e6


@contextmanager
def bench_topic(
    bootstrap: str, name: str, settings: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Create a topic, and delete it at the end. Raises ClusterError if it cannot be created."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(name, _PARTITIONS, 1, config=dict(settings or {}))
    try:
        admin.create_topics([topic])[name].result(60)
    except KafkaException as error:
        raise ClusterError(f"cannot create the benchmark's topic: {error.args[0].str()}") from error
    try:
        yield
    finally:
        admin.delete_topics([name])[name].result(60)


@contextmanager
def fresh_broker(*proxied: str) -> Iterator[tuple[KafkaCluster, Peers]]:
    """Boot one broker: replication would hide the cost of the producer.

    proxied: further listeners, which lead through the Kafka proxy. Raises the same errors as
    `booted`.
    """
    client = connect()
    with booted(
        ClusterSpec(brokers=1, heap="512m", listeners=list(proxied), proxied=list(proxied)),
        client=client,
        image=images.ensure(client=client).reference,
        run_id=f"bench-{uuid4().hex[:8]}",
    ) as cluster:
        broker = cluster.nodes[1]

        def exec_in_broker(command: list[str]) -> str:
            return commands.run(broker.container, command).stdout.decode(errors="replace")

        bootstrap = f"{broker.spec.name}:{cluster.topology.ports['INTERNAL']}"
        yield cluster, Peers(exec_in_broker=exec_in_broker, bootstrap=bootstrap)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMemory:
    """Peak resident memory in bytes up to `WARM` sends (`warm`) and after them (`later`)."""

    records: int
    size: int
    rate: float
    warm: int
    later: int

    @property
    def growth(self) -> float:
        """`later` divided by `warm`."""
        return self.later / self.warm


class MemoryWatch(Repeating):
    """Records the peak memory of a producer up to `WARM` sends and after them."""

    def __init__(self, process: ProducerProcess) -> None:
        super().__init__(every_s=_SAMPLE_S, name="client memory")
        self._process = process
        self.warm = self.later = 0

    def turn(self) -> bool:
        """Sample once; return whether the producer has ended."""
        import psutil

        try:
            resident = psutil.Process(self._process.pid).memory_info().rss
        except psutil.NoSuchProcess:
            return True
        if self._process.progress().acked <= WARM:
            self.warm = max(self.warm, resident)
        else:
            self.later = max(self.later, resident)
        return False


def bench_memory(bootstrap_servers: str, *, records: int, size: int) -> ClientMemory:
    """Send `records`, more than `WARM`, with a ledger, and sample the producer's memory.

    Raises WorkloadError if it fails, ClusterError if the topic cannot be created.
    """
    topic = f"ackproof-bench-{uuid4().hex[:8]}"
    with (
        bench_topic(bootstrap_servers, topic, _KEEP),
        tempfile.TemporaryDirectory(prefix="ackproof-bench-") as scratch,
    ):
        run_dir = Path(scratch)
        (run_dir / "ledger").mkdir()
        process = ProducerProcess(
            ProducerSpec(
                run_id=topic,
                number=0,
                topic=topic,
                partitions=3,
                bootstrap_servers=bootstrap_servers,
                progress=run_dir / "progress",
                ledger=stream_path(run_dir, 0),
                settings={"acks": "all"},
                records=records,
                size=size,
            )
        )
        process.start()
        try:
            with MemoryWatch(process) as watch:
                code = process.wait(_MEMORY_S)
        finally:
            process.kill()
        return ClientMemory(
            records=records,
            size=size,
            rate=sends_per_second(process, code),
            warm=watch.warm,
            later=watch.later,
        )
