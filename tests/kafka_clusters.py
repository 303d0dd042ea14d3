"""Clusters of real brokers for tests, each with its own name."""

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

#: A dead broker is fenced sooner than after 9 s. A slow one is not fenced, because a session has
#: many heartbeats.
NOTICED = {"broker.session.timeout.ms": 6000, "broker.heartbeat.interval.ms": 500}


def boot(
    engine: DockerClient,
    spec: ClusterSpec,
    *,
    kafka: str = DEFAULT_KAFKA,
    logs: Path | None = None,
) -> AbstractContextManager[KafkaCluster]:
    """Boot a cluster of this version; it is removed at the end of the context."""
    return booted(
        spec,
        client=engine,
        image=images.ensure(kafka, client=engine).reference,
        run_id=f"test-{uuid4().hex[:8]}",
        kafka=kafka,
        logs=logs,
    )
