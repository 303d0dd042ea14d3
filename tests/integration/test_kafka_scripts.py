"""Commands that our texts print run in a broker's container."""

from __future__ import annotations

import pytest

from ackproof.advise.screen import election_command, settings_command
from ackproof.cluster.booted import KafkaCluster
from ackproof.containers import commands

pytestmark = pytest.mark.cluster

#: Commands of texts by what they print.
PRINTED = {
    "Valid replica already elected": election_command(("orders", 0)),
    "Completed updating config for topic orders": settings_command(
        "orders", "min.insync.replicas=1"
    ),
}

#: Those of pages: without `--bootstrap-server`, which is added, and with the tools' own words.
OF_PAGES = {
    "Topic: orders": "kafka-topics.sh --describe",
    "No partition reassignments found": "kafka-reassign-partitions.sh --list",
    "TransactionalId": "kafka-transactions.sh list",
    "metadata.version": "kafka-features.sh describe",
    "LeaderId": "kafka-metadata-quorum.sh describe --status",
}


def run(cluster: KafkaCluster, command: str) -> str:
    node = cluster.running_broker()
    address = cluster.internal_address(node)
    if "HOST:PORT" not in command:
        name, _, rest = command.partition(" ")
        command = f"{name} --bootstrap-server HOST:PORT {rest}"
    done = commands.run(node.container, ["bash", "-c", command.replace("HOST:PORT", address)])
    assert done.exit_code == 0, done.stdout + done.stderr
    return done.stdout.decode()


@pytest.mark.parametrize("output", PRINTED)
def test_commands_of_advice_run_in_a_container(cluster: KafkaCluster, output: str) -> None:
    assert output in run(cluster, PRINTED[output])


@pytest.mark.slow
@pytest.mark.parametrize("output", OF_PAGES)
def test_commands_of_pages_run_in_a_container(cluster: KafkaCluster, output: str) -> None:
    assert output in run(cluster, OF_PAGES[output])


@pytest.mark.slow
def test_a_metadata_log_is_printed_in_a_container(cluster: KafkaCluster) -> None:
    controller = next(node for node in cluster.nodes.values() if node.spec.role != "broker")
    script = (
        "kafka-dump-log.sh --cluster-metadata-decoder --skip-record-metadata --files "
        "$(ls /var/lib/ackproof/data/__cluster_metadata-0/*.log | paste -sd,)"
    )
    done = commands.run(controller.container, ["bash", "-c", script])
    assert done.exit_code == 0, done.stderr
    assert b"TOPIC_RECORD" in done.stdout
