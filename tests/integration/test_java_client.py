"""What a Java producer knows of sends that fail: certainly not written, or perhaps written.

On 2.6.2, whose leaders demand min.insync.replicas even of a topic with fewer replicas.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from docker import DockerClient

from ackproof.clients.process import ProducerProcess
from ackproof.clients.specs import ProducerSpec
from ackproof.cluster.booted import KafkaCluster
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.ledger.producer_ledger import recover, stream_path
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.topics import TopicSpec
from integration.sending import log_end
from kafka_clusters import boot
from waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NOT_IDEMPOTENT = {"acks": "all", "enable.idempotence": "false", "retry.backoff.ms": 10}


@pytest.fixture(scope="module")
def alone(engine: DockerClient) -> Iterator[KafkaCluster]:
    """A cluster of one broker."""
    with boot(engine, ClusterSpec(brokers=1, heap="128m"), kafka="2.6.2") as cluster:
        yield cluster


@contextmanager
def producing(
    cluster: KafkaCluster, folder: Path, topic_settings: dict[str, object], **fields: object
) -> Iterator[ProducerProcess]:
    topic = f"t-{uuid4().hex[:8]}"
    spec = {"replication_factor": 1, "settings": topic_settings}
    cluster.create_topics({topic: TopicSpec.model_validate(spec)})
    process = ProducerProcess(
        ProducerSpec(
            run_id="java",
            number=0,
            topic=topic,
            partitions=1,
            bootstrap_servers=cluster.bootstrap_servers,
            progress=folder / "page",
            ledger=stream_path(folder, 0),
            java=DEFAULT_KAFKA,
            **fields,  # type: ignore[arg-type]
        )
    )
    process.start()
    try:
        yield process
    finally:
        process.kill()


def ledger_of(process: ProducerProcess) -> pa.Table:
    assert process.wait(120) == 0, process.error
    assert process.spec.ledger is not None
    return recover(process.spec.ledger)


@pytest.mark.parametrize(("retries", "outcome"), [(0, "failed"), (2, "unknown")])
def test_a_refusal_is_certain_unless_an_attempt_came_before_it(
    alone: KafkaCluster, tmp_path: Path, retries: int, outcome: str
) -> None:
    settings = NOT_IDEMPOTENT | {"retries": retries}
    demanding: dict[str, object] = {"min.insync.replicas": 2}
    with producing(alone, tmp_path, demanding, records=20, settings=settings) as process:
        ledger = ledger_of(process)
    assert set(ledger["error"].to_pylist()) == {"NOT_ENOUGH_REPLICAS"}
    assert set(ledger["outcome"].to_pylist()) == {outcome}
    assert log_end(alone, process.spec.topic)[0] == 0


def test_a_send_without_an_answer_may_be_written(alone: KafkaCluster, tmp_path: Path) -> None:
    timeouts = {"request.timeout.ms": 2000, "delivery.timeout.ms": 3000}
    fields = {"settings": NOT_IDEMPOTENT | timeouts, "rate": 100.0, "seconds": 60.0}
    with producing(alone, tmp_path, {}, **fields) as process:
        until(lambda: process.progress().acked > 0)
        alone.nodes[1].pause()
        try:
            until(lambda: process.progress().unknown + process.progress().failed > 0)
            process.stop()
            ledger = ledger_of(process)
        finally:
            alone.nodes[1].resume()
    told = set(zip(ledger["error"].to_pylist(), ledger["outcome"].to_pylist(), strict=True))
    # Once the client has given up its metadata, send() itself refuses: that is certain.
    assert {outcome for error, outcome in told if error == "_MSG_TIMED_OUT"} == {"unknown"}
