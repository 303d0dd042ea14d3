"""Helpers that send records and return their offsets, errors or acked log, and the end of a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

import ackproof as ap
from ackproof.cluster.booted import KafkaCluster
from waiting import until


def send(
    cluster: KafkaCluster,
    topic: str,
    *,
    partition: int = -1,
    listener: str = "EXTERNAL",
    within_s: float = 60,
    **settings: object,
) -> tuple[int, int] | str:
    """Send a record with acks=all by default; return partition and offset, or the error's name.

    `within_s` is long, because the machine may be slow; it is shorter for sends that should fail.
    """
    found: list[tuple[int, int] | str] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap(listener),
            "delivery.timeout.ms": int(within_s * 1000),
            "log_level": 0,
            **settings,
        }
    )
    chosen = {} if partition < 0 else {"partition": partition}
    producer.produce(
        topic,
        b"x",
        # `is None`, because comparing a KafkaError with None leaves an exception behind.
        on_delivery=lambda error, message: found.append(
            (message.partition(), message.offset()) if error is None else error.name()
        ),
        **chosen,
    )
    producer.flush(within_s + 10)
    producer.close()
    return found[0]


def acked(cluster: KafkaCluster, topic: str, **how: object) -> bool:
    """Send a record and return whether it was acked."""
    return isinstance(send(cluster, topic, **how), tuple)  # type: ignore[arg-type]


def log_end(cluster: KafkaCluster, topic: str, partition: int = 0) -> tuple[int, int]:
    """Return high watermark and leader epoch, once the partition has a leader that answers."""
    found = until(
        lambda: cluster.interfaces.metadata.log_end(topic, partition),
        f"nobody tells the end of {topic}-{partition}",
    )
    assert found is not None
    return found


def await_markers(cluster: KafkaCluster, places: list[tuple[str, int]]) -> None:
    """Wait until no transaction is open: markers are written after the client's commit returns."""
    admin = cluster.admin
    until(lambda: admin.stable_offsets(places) == admin.end_offsets(places))


def logged(bootstrap: str, path: Path, first: int, count: int) -> list[dict[str, Any]]:
    """Send records to `orders` with a ledger at `path`, and return the lines of its acked log."""
    with ap.Ledger(path, bootstrap_servers=bootstrap) as ledger:
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
        for number in range(first, first + count):
            producer.produce("orders", b"%d" % number, on_delivery=ledger.on_delivery)
        producer.flush(60)
        producer.close()
    return [json.loads(line) for line in path.read_text().splitlines()]
