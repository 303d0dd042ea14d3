"""Clusters of real brokers for tests, each with its own run id."""

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

#: Settings that fence a broker earlier than after 9 s. A session has many heartbeats, so that a
#: slow broker is not fenced.
NOTICED = {"broker.session.timeout.ms": 6000, "broker.heartbeat.interval.ms": 500}


def boot(
    engine: DockerClient,
    spec: ClusterSpec,
    *,
    kafka: str = DEFAULT_KAFKA,
    logs: Path | None = None,
) -> AbstractContextManager[KafkaCluster]:
    """Boot a cluster of this version, and remove it at the end."""
    return booted(
        spec,
        client=engine,
        image=images.ensure(kafka, client=engine).reference,
        run_id=f"test-{uuid4().hex[:8]}",
        sidecar=lambda: images.ensure_sidecar(client=engine),
        kafka=kafka,
        logs=logs,
    )
