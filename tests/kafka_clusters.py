"""Clusters of real brokers for tests, each under a name of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from uuid import uuid4

from docker import DockerClient

from ackproof.cluster.boot import booted
from ackproof.cluster.cluster import KafkaCluster
from ackproof.containers import images
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.scenario.cluster import ClusterSpec

#: Settings with which a broker that is gone is missed sooner than after 9 s, but not one that is
#: merely slow: it has many heartbeats in a session.
NOTICED = {"broker.session.timeout.ms": 6000, "broker.heartbeat.interval.ms": 500}


def boot(
    engine: DockerClient,
    spec: ClusterSpec,
    *,
    kafka: str = DEFAULT_KAFKA,
    logs: Path | None = None,
) -> AbstractContextManager[KafkaCluster]:
    """Boot a cluster of this version; leaving it removes it."""
    return booted(
        spec,
        client=engine,
        image=images.ensure(kafka, client=engine).reference,
        run_id=f"test-{uuid4().hex[:8]}",
        sidecar=lambda: images.ensure_sidecar(client=engine),
        kafka=kafka,
        logs=logs,
    )
