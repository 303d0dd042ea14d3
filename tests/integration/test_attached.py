"""An attached cluster: workload, checks, and faults through listed containers and commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient
from rich.console import Console
from ruamel.yaml import YAML

from ackproof.cluster import preflight
from ackproof.cluster.attached import attached
from ackproof.cluster.booted import KafkaCluster
from ackproof.errors import AckproofError, ClusterError
from ackproof.execution.runner import run
from ackproof.progress import ConsoleReporter
from ackproof.runs.verdict import Verdict, Word
from ackproof.scenario.attach import AttachSpec
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.loader import load
from ackproof.scenario.topics import TopicSpec
from kafka_clusters import boot
from waiting import until

pytestmark = pytest.mark.cluster

TOPIC = "mine-orders"
LEADER = f"leader of {TOPIC}-0"


def run_attached(
    cluster: KafkaCluster, engine: DockerClient, folder: Path, **changes: Any
) -> Verdict:
    document = {
        "version": 1,
        "name": "attached",
        "cluster": {
            "attach": {
                "bootstrap": cluster.bootstrap_servers,
                "i_own": cluster.bootstrap_servers,
                "topic_prefix": "mine-",
                "containers": {
                    broker: cluster.nodes[broker].container.name for broker in cluster.broker_ids()
                },
            }
        },
        "topics": {TOPIC: {"settings": {"min.insync.replicas": 2}}},
        **changes,
    }
    path = folder / "s.yaml"
    YAML().dump(document, path)
    (configured,) = load(path)
    with (folder / "said").open("w") as said:
        reporter = ConsoleReporter(Console(file=said))
        _, verdict = run(configured, out=folder / "runs", client=engine, reporter=reporter)
    # The run's topics are deleted, and others are not. Kafka itself creates internal topics.
    until(lambda: {name for name, _ in cluster.partitions() if name[:2] != "__"} == {"orders"})
    return verdict


def workload(acks: str) -> dict[str, Any]:
    settings = {"acks": acks, "enable.idempotence": acks == "all"}
    return {"topic": TOPIC, "rate": "1500/s", "tail": 500, "settings": settings}


def pause(target: str, cluster: KafkaCluster) -> dict[str, Any]:
    """Return a fault that pauses brokers with the engine's command line."""
    name = str(cluster.nodes[1].container.name).removesuffix("1") + "$BROKER"
    return {
        "fault": "command",
        "target": target,
        "when": "1000 acked",
        "inject": f"docker pause {name}",
        "verify": f"docker inspect --format 'paused: {{{{.State.Paused}}}}' {name} | grep true",
        "heal": f"! docker inspect --format '{{{{.State.Paused}}}}' {name} | grep true "
        f"|| docker unpause {name}",
    }


@pytest.mark.slow
def test_acks_all_loses_nothing_when_a_container_is_killed(
    cluster: KafkaCluster, engine: DockerClient, tmp_path: Path
) -> None:
    kill = {
        "fault": "docker",
        "target": LEADER,
        "when": "1000 acked",
        "heal_when": f"{LEADER} changed",
    }
    verdict = run_attached(cluster, engine, tmp_path, workload=workload("all"), faults=[kill])
    assert verdict.verdict is Word.HOLDS, verdict.reason
    assert [fault.verified for fault in verdict.faults] == [True]
    assert verdict.observed["acked"] > 1000
    assert verdict.predicted["lost"] == "impossible"
    assert "not observed: the metadata log" in verdict.reason


@pytest.mark.slow
def test_acks_1_loses_records_that_no_follower_fetched(
    cluster: KafkaCluster, engine: DockerClient, tmp_path: Path
) -> None:
    """Positive control: the same checks find a loss."""
    # Followers are thawed when the leader is killed, so they have not fetched meanwhile.
    cut = {**pause(f"followers of {TOPIC}-0", cluster), "heal_when": "death began"}
    kill = {
        "fault": "docker",
        "id": "death",
        "target": LEADER,
        "when": "300 more acked",
        "heal_when": f"{LEADER} changed",
    }
    verdict = run_attached(
        cluster,
        engine,
        tmp_path,
        workload=workload("1"),
        faults=[cut, kill],
        expect={"loss": "some"},
    )
    assert verdict.verdict is Word.HOLDS, verdict.reason
    assert verdict.observed["lost"] >= 300 - 1
    assert verdict.predicted["lost"] == "possible"
    assert "paused: true" in verdict.faults[0].evidence


@pytest.mark.slow
def test_a_command_that_fails_makes_the_run_inconclusive(
    cluster: KafkaCluster, engine: DockerClient, tmp_path: Path
) -> None:
    broken = {**pause(LEADER, cluster), "inject": "echo no such thing; exit 3"}
    verdict = run_attached(cluster, engine, tmp_path, workload=workload("all"), faults=[broken])
    assert verdict.verdict is Word.INCONCLUSIVE
    assert "no such thing" in verdict.reason


def attach(bootstrap: str, **client: str) -> AttachSpec:
    return AttachSpec(bootstrap=bootstrap, topic_prefix="mine-", client=dict(client))


def refusal(spec: AttachSpec, topic: str = TOPIC) -> AckproofError:
    one = TopicSpec(replication_factor=1)
    with pytest.raises(ClusterError) as refused, attached(spec, {topic: one}):
        pass
    return refused.value


def test_a_cluster_that_does_not_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_ANSWER_S", 1.0)
    assert "no broker answers at 127.0.0.1:1" in str(refusal(attach("127.0.0.1:1")))


def test_an_existing_topic_is_refused(cluster: KafkaCluster) -> None:
    message = str(refusal(attach(cluster.bootstrap_servers), "orders"))
    assert "orders exists already" in message
    assert ("orders", 0) in cluster.partitions()


@pytest.fixture(scope="module")
def strict(engine: DockerClient) -> Iterator[KafkaCluster]:
    """A broker with SASL, on which clients have no permission."""
    spec = ClusterSpec.model_validate(
        {
            "brokers": 1,
            "security": {"sasl": "plain"},
            "settings": {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
            },
        }
    )
    with boot(engine, spec) as made:
        yield made


@pytest.mark.slow
def test_a_wrong_password_is_refused_and_not_shown(strict: KafkaCluster) -> None:
    settings = {**strict.client_settings, "sasl.password": "hunter2"}
    message = str(refusal(attach(strict.bootstrap_servers, **settings)))
    assert "refuses the login" in message
    assert "hunter2" not in message


@pytest.mark.slow
def test_a_missing_permission_to_create_topics_is_refused(strict: KafkaCluster) -> None:
    message = str(refusal(attach(strict.bootstrap_servers, **strict.client_settings)))
    assert "does not allow to create the topic 'mine-orders'" in message
