"""Throughput of `ackproof watch`, and of a plain Spark stream that only counts the same events.

An application's records are in a topic of one broker, and its acks in a file. Both streams read all
of them, one after the other, each in a Spark session of its own that has done a small part before.
Seconds of CPU say more than the wall clock's on a busy machine.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ackproof.cluster.booted import KafkaCluster
from ackproof.errors import WorkloadError, translated
from ackproof_spark.record import ID_HEADER
from benchmarks.ledger import bench_topic, fresh_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTITIONS = 3
#: Records of the small part.
_SMALL = 100_000
_VALUE = b"x" * 100
#: Sends between checks of the producer's queue, and sends that may be in it.
_POLL = 1000
_QUEUED = 50_000
_CHECK_S = 0.1
#: All records are there before their acks, and on a slow machine for longer than usual.
_PATIENCE_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of wall clock and of CPU.

    driver: this process. workers: Spark's Python processes.
    """

    wall_s: float
    driver_s: float
    jvm_s: float
    workers_s: float
    broker_s: float

    @property
    def cpu_s(self) -> float:
        """All but those of the broker."""
        return self.driver_s + self.jvm_s + self.workers_s


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchBench:
    """What the watch and the count cost. events: acks and records."""

    events: int
    cores: int
    load: float
    watch: Cost
    count: Cost

    @property
    def events_per_s(self) -> float:
        return self.events / self.watch.wall_s

    @property
    def events_per_cpu_s(self) -> float:
        return self.events / self.watch.cpu_s

    @property
    def ratio(self) -> float:
        """Seconds of the watch, divided by those of the count."""
        return self.watch.wall_s / self.count.wall_s

    @property
    def cpu_ratio(self) -> float:
        return self.watch.cpu_s / self.count.cpu_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """A topic and its acked log."""

    topic: str
    acked: Path
    records: int


def bench_watch(*, records: int, say: Callable[[str], None] = lambda _: None) -> WatchBench:
    """Watch records and their acks, and count both. Raises WorkloadError if one has no match."""
    load = os.getloadavg()[0]
    with (
        fresh_broker() as (cluster, _),
        tempfile.TemporaryDirectory(prefix="ackproof-bench-") as scratch,
        _written(cluster, Path(scratch), _SMALL) as small,
        _written(cluster, Path(scratch), records) as large,
        translated(),
    ):
        costs = []
        for read in (_watch, _count):
            with _session() as spark:
                read(spark, cluster, small)
                before = _now(cluster)
                read(spark, cluster, large)
                costs.append(_since(before, _now(cluster)))
            say(f"{read.__name__[1:]}: {costs[-1]}")
    return WatchBench(
        events=2 * records, cores=os.cpu_count() or 1, load=load, watch=costs[0], count=costs[1]
    )


@contextlib.contextmanager
def _session() -> Iterator[SparkSession]:
    from ackproof_spark.spark.session import lasting, session, stop

    lasting()
    try:
        yield session()
    finally:
        stop()


@contextlib.contextmanager
def _written(cluster: KafkaCluster, scratch: Path, records: int) -> Iterator[_Log]:
    """Write records with ids into a topic, and their acks into a file."""
    from confluent_kafka import Producer

    log = _Log(topic=f"watched-{uuid4().hex[:8]}", acked=scratch / f"{records}", records=records)
    log.acked.mkdir()
    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "enable.idempotence": True,
        "linger.ms": 50,
        "log_level": 0,
    }
    with (
        bench_topic(cluster.bootstrap_servers, log.topic),
        (log.acked / "acked.jsonl").open("w") as file,
    ):

        def on_delivery(name: str, error: Any, message: Any) -> None:
            if error is None:
                place = f'"partition":{message.partition()},"offset":{message.offset()}'
                file.write(f'{{"topic":"{log.topic}",{place},"id":"{name}"}}\n')

        producer = Producer(settings)
        for number in range(records):
            sequence, partition = divmod(number, _PARTITIONS)
            name = f"p{partition}:{sequence}"
            if number % _POLL == 0:
                while len(producer) > _QUEUED:
                    producer.poll(_CHECK_S)
            producer.produce(
                log.topic,
                _VALUE,
                partition=partition,
                headers={ID_HEADER: name},
                on_delivery=partial(on_delivery, name),
            )
        producer.flush()
        file.flush()
        yield log


def _watch(spark: SparkSession, cluster: KafkaCluster, log: _Log) -> None:
    """Watch until all acks are matched. Raises WorkloadError if there is any finding."""
    from ackproof_spark.warehouse.formats import Format
    from ackproof_spark.warehouse.warehouse import Warehouse
    from ackproof_spark.watch.job import Watching, WatchOptions

    ended = Event()
    findings: list[Mapping[str, Any]] = []

    def report(
        found: Sequence[Mapping[str, Any]], partitions: Mapping[Any, Mapping[str, Any]]
    ) -> None:
        findings.extend(found)
        acked, unseen = (
            sum(row[name] for row in partitions.values()) for name in ("acked", "unseen")
        )
        if findings or (acked == log.records and not unseen):
            ended.set()

    options = WatchOptions(
        bootstrap_servers=cluster.bootstrap_servers,
        topics=[log.topic],
        acked_paths=[str(log.acked)],
        start={log.topic: {str(number): 0 for number in range(_PARTITIONS)}},
        patience_s=_PATIENCE_S,
        every_s=0.1,
    )
    with tempfile.TemporaryDirectory(prefix="ackproof-bench-") as scratch:
        warehouse = Warehouse.create(spark, f"{scratch}/warehouse", Format.PARQUET)
        watching = Watching(warehouse, options, report)
        try:
            while not ended.wait(_CHECK_S):
                watching.active()
        finally:
            watching.stop()
    if findings:
        raise WorkloadError(
            f"the watch of the benchmark found {findings[0]}", hint="Measure a healthy cluster."
        )


def _count(spark: SparkSession, cluster: KafkaCluster, log: _Log) -> None:
    """Count records and lines in one stream, and leave everything else to Spark."""
    from pyspark.sql import functions as F  # noqa: N812

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("subscribe", log.topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    lines = spark.readStream.text(str(log.acked))
    kinds = [each.select(F.lit(kind).alias("kind")) for kind, each in enumerate((records, lines))]
    counted: list[Any] = []
    with tempfile.TemporaryDirectory(prefix="ackproof-bench-") as scratch:
        query = (
            kinds[0]
            .unionByName(kinds[1])
            .groupBy("kind")
            .count()
            .writeStream.foreachBatch(lambda batch, _: counted.append(batch.collect()))
            .outputMode("complete")
            .option("checkpointLocation", scratch)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    if sorted(row["count"] for row in counted[-1]) != [log.records] * 2:
        raise WorkloadError(
            f"the stream counted {counted[-1]}, not {log.records:,} records and lines",
            hint="Measure a healthy cluster.",
        )


def _now(cluster: KafkaCluster) -> dict[str, float]:
    """Return seconds of `Cost` until now."""
    import psutil

    me = psutil.Process()
    seconds = {"driver": _own(me), "jvm": 0.0, "workers": 0.0}
    for child in me.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            seconds["jvm" if child.name() == "java" else "workers"] += _own(child)
            # A worker that ended counts for its parent, which is the JVM or Python.
            times = child.cpu_times()
            seconds["workers"] += times.children_user + times.children_system
    usage: Any = cluster.nodes[1].container.stats(stream=False)
    seconds["broker"] = usage["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9
    return {"wall": time.monotonic(), **seconds}


def _own(process: Any) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _since(before: Mapping[str, float], after: Mapping[str, float]) -> Cost:
    return Cost(**{f"{name}_s": after[name] - before[name] for name in before})
