"""Time until a cluster is ready, compared with one stock broker, and its phases.

The stock broker is Kafka's distribution in a container: one node in combined mode. Kafka's own tool
formats the storage in a separate JVM, then the broker starts, both with the options of Kafka's
scripts: default heap, G1, all tiers of compilation, JMX, no class archive. Its time is from the
start of the container to the first answered request. The published `apache/kafka` image has class
archives (KIP-975), so a broker with a class archive is measured as well.

Our cluster has a controller and three brokers on empty volumes. Its time is from reading the
scenario until every partition has its full ISR; a second time is that of reusing the same cluster.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.cluster.admin import Admin
from ackproof.cluster.booted import booted
from ackproof.cluster.network import reserved_ports
from ackproof.cluster.node_files import new_id
from ackproof.cluster.pool import renewed
from ackproof.containers import images
from ackproof.containers.engine import labels
from ackproof.containers.image_build import template
from ackproof.containers.kafka_tools import CLASSPATH
from ackproof.errors import ClusterError
from ackproof.scenario.loader import load
from ackproof.waiting import wait_for

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

#: JVM options of bin/kafka-run-class.sh, and heaps of kafka-storage.sh and kafka-server-start.sh.
_STOCK_JVM = (
    "-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true -Dcom.sun.management.jmxremote=true "
    "-Dcom.sun.management.jmxremote.authenticate=false -Dcom.sun.management.jmxremote.ssl=false"
)
_STOCK_TOOL_HEAP = "-Xmx256M"
_STOCK_BROKER_HEAP = "-Xmx1G -Xms1G"

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
echo "$LOGGING" > /tmp/log4j2.xml
logging=-Dlog4j2.configurationFile=/tmp/log4j2.xml
java {_STOCK_TOOL_HEAP} {_STOCK_JVM} $ARCHIVE $logging -cp '{CLASSPATH}' \\
  kafka.tools.StorageTool format --cluster-id "$CLUSTER_ID" --config /tmp/server.properties
exec java {_STOCK_BROKER_HEAP} {_STOCK_JVM} $ARCHIVE $logging -cp '{CLASSPATH}' \\
  kafka.Kafka /tmp/server.properties
"""

_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BootBench:
    """Seconds of every repetition.

    `ours_s`: a fresh cluster; `reused_s`: the same cluster prepared for the next run; `stock_s`: a
    stock broker; `archived_s`: a stock broker with a class archive. `phases_s`: medians of the
    phases of `ours_s`.
    """

    ours_s: tuple[float, ...]
    reused_s: tuple[float, ...]
    stock_s: tuple[float, ...]
    archived_s: tuple[float, ...]
    phases_s: Mapping[str, float]

    @property
    def ratio(self) -> float:
        """Median of a fresh cluster divided by that of a stock broker."""
        return statistics.median(self.ours_s) / statistics.median(self.stock_s)

    @property
    def reused_ratio(self) -> float:
        """Median of a reused cluster divided by that of a stock broker."""
        return statistics.median(self.reused_s) / statistics.median(self.stock_s)


def bench_boot(client: DockerClient, scenario: Path, *, repetitions: int = 5) -> BootBench:
    """Boot all variants in turn; raise ClusterError if one does not start."""
    image = images.ensure(client=client).reference
    images.ensure_sidecar(client=client)
    ours, reused, stock, archived, laps = [], [], [], [], []
    for number in range(repetitions):
        stock.append(_stock(client, image, archive=()))
        archived.append(_stock(client, image, archive=images.JAVA_OPTIONS))
        measured = _ours(client, scenario, f"bench-boot-{new_id()[:6].lower()}-{number}")
        ours.append(measured[0])
        reused.append(measured[1])
        laps.append(measured[2].seconds)
    return BootBench(
        ours_s=tuple(ours),
        reused_s=tuple(reused),
        stock_s=tuple(stock),
        archived_s=tuple(archived),
        phases_s={phase: statistics.median(one[phase] for one in laps) for phase in laps[0]},
    )


class PhaseTimes:
    """Seconds that each phase of a boot took, in order."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.monotonic()

    def end(self, phase: str) -> None:
        """Add the time since the last phase ended to this phase."""
        now = time.monotonic()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._since
        self._since = now


def _ours(client: DockerClient, path: Path, run_id: str) -> tuple[float, float, PhaseTimes]:
    """Return the seconds until ready, fresh and reused, and where the first went."""
    began, times = time.monotonic(), PhaseTimes()
    scenario = load(path)[0].scenario
    image = images.ensure(scenario.kafka, client=client)
    times.end("scenario and image")
    with booted(
        scenario.cluster,
        client=client,
        image=image.reference,
        run_id=run_id,
        kafka=scenario.kafka,
        ended=times.end,
    ) as cluster:
        cluster.create_topics(scenario.topics)
        times.end("topics at full ISR")
        fresh = time.monotonic() - began
        began = time.monotonic()
        renewed(cluster)
        cluster.create_topics(scenario.topics)
        return fresh, time.monotonic() - began, times


def _stock(client: DockerClient, image: str, *, archive: Sequence[str]) -> float:
    with reserved_ports() as ports:
        port = next(ports)
        began = time.monotonic()
        with _stock_container(client, image, port, archive) as container:
            _await_answer(Admin(f"127.0.0.1:{port}", timeout_s=1), container)
            return time.monotonic() - began


@contextlib.contextmanager
def _stock_container(
    client: DockerClient, image: str, port: int, archive: Sequence[str]
) -> Iterator[Container]:
    container = client.containers.run(
        image,
        entrypoint=["/bin/bash", "-ec", _STOCK],
        environment={
            "PORT": str(port),
            "CLUSTER_ID": new_id(),
            "ARCHIVE": " ".join(archive),
            "LOGGING": template("kafka/log4j2.xml"),
        },
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
