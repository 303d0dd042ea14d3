"""How long until a cluster is ready, against one stock broker on the same engine and image.

The peer is what one gets by starting the published image as it is: one node in combined mode,
formatted by Kafka's tool, with Kafka's default JVM options, from the container's start to its
first answered request. Ours is a controller and three brokers on empty volumes, from reading the
scenario to every partition at full ISR.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.harness.cluster import images
from ackproof.harness.cluster.admin import Admin
from ackproof.harness.cluster.cluster import booted
from ackproof.harness.cluster.engine import labels
from ackproof.harness.cluster.formatting import new_id
from ackproof.harness.cluster.ports import reserved
from ackproof.harness.errors import ClusterError
from ackproof.harness.scenario_file import load
from ackproof.harness.waits import wait_for

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

#: bin/kafka-run-class.sh and bin/kafka-server-start.sh: what a stock broker runs with.
_STOCK_JVM = (
    "-Xmx1G -Xms1G -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 "
    "-XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent"
)

_STOCK = f"""
cat > /tmp/server.properties <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://127.0.0.1:$PORT
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs=/tmp/data
offsets.topic.replication.factor=1
PROPERTIES
java {" ".join(images.JAVA_OPTIONS)} -cp '{images.CLASSPATH}' kafka.tools.StorageTool format \\
  --cluster-id "$CLUSTER_ID" --config /tmp/server.properties
exec java {_STOCK_JVM} {" ".join(images.JAVA_OPTIONS)} -cp '{images.CLASSPATH}' \\
  kafka.Kafka /tmp/server.properties
"""

_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BootBench:
    """Seconds of every repetition, ours and the peer's, and the ratio of the medians."""

    ours_s: tuple[float, ...]
    stock_s: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Ours over the stock broker's: 2 means twice as long."""
        return statistics.median(self.ours_s) / statistics.median(self.stock_s)


def bench_boot(client: DockerClient, scenario: Path, *, repetitions: int = 5) -> BootBench:
    """Boot both, in turns; raise ClusterError if one does not come up."""
    image = images.ensure(client=client).reference
    ours, stock = [], []
    for number in range(repetitions):
        stock.append(_stock(client, image))
        ours.append(_ours(client, scenario, f"bench-boot-{new_id()[:6].lower()}-{number}"))
    return BootBench(ours_s=tuple(ours), stock_s=tuple(stock))


def _ours(client: DockerClient, path: Path, run_id: str) -> float:
    began = time.monotonic()
    scenario = load(path)[0].scenario
    image = images.ensure(scenario.kafka, client=client)
    with booted(
        scenario.cluster,
        client=client,
        image=image.reference,
        run_id=run_id,
        sidecar=lambda: images.ensure_sidecar(client=client),
    ) as cluster:
        cluster.create_topics(scenario.topics)
        return time.monotonic() - began


def _stock(client: DockerClient, image: str) -> float:
    with reserved(1) as (port,):
        began = time.monotonic()
        with _stock_container(client, image, port) as container:
            _await_answer(Admin(f"127.0.0.1:{port}", timeout_s=1), container)
            return time.monotonic() - began


@contextlib.contextmanager
def _stock_container(client: DockerClient, image: str, port: int) -> Iterator[Container]:
    container = client.containers.run(
        image,
        entrypoint=["/bin/bash", "-ec", _STOCK],
        environment={"PORT": str(port), "CLUSTER_ID": new_id()},
        ports={"9092/tcp": ("127.0.0.1", port)},
        labels=labels("bench-boot"),
        detach=True,
    )
    try:
        yield container
    finally:
        container.remove(force=True, v=True)


def _await_answer(admin: Admin, container: Container) -> None:
    wait_for(
        admin.brokers,
        bool,
        within_s=_WITHIN_S,
        failure=lambda _: ClusterError(
            f"the stock broker did not answer within {_WITHIN_S:g} s:\n"
            f"{container.logs(tail=10).decode(errors='replace')}"
        ),
    )
