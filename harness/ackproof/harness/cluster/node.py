"""One node of the cluster: a container that can be killed and comes back as itself.

Identity and data lie in a named volume, the address is fixed, and a broker's EXTERNAL port is
pinned, so that a node that was killed returns with the same id, the same log and the same place.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from testcontainers.core.container import DockerContainer

from ackproof.harness.cluster.engine import labels
from ackproof.harness.cluster.formatting import meta_properties
from ackproof.harness.cluster.images import CLASSPATH, JAVA_OPTIONS
from ackproof.harness.cluster.topology import DATA_DIR, LISTENER_PORTS, NodeSpec, Topology
from ackproof.harness.errors import ClusterError

if TYPE_CHECKING:
    from docker.models.containers import Container

    from ackproof.harness.cluster.network import ClusterNetwork

_PARENT, _NAME = "/etc", "ackproof"
_CONFIG_DIR = f"{_PARENT}/{_NAME}"
_FORMAT_DIR = f"{_CONFIG_DIR}/format"

# Formatting happens once: a volume that holds meta.properties is a node that comes back.
_START = f"""
set -e
if [ ! -f {DATA_DIR}/meta.properties ]; then
  mkdir -p {DATA_DIR}
  cp {_FORMAT_DIR}/* {DATA_DIR}
fi
exec java $KAFKA_OPTS -cp '{CLASSPATH}' kafka.Kafka {_CONFIG_DIR}/server.properties
"""

# Kafka 4 logs through log4j 2, Kafka 3 through log4j 1; each ignores the other's file. Four fifths
# of what a broker logs while it starts would be its own settings.
_LOG4J2 = """
<Configuration status="WARN">
  <Appenders>
    <Console name="out">
      <PatternLayout pattern="[%d{yyyy-MM-dd'T'HH:mm:ss,SSS}{UTC}] %p %m (%c)%n"/>
    </Console>
  </Appenders>
  <Loggers>
    <Logger name="org.apache.kafka.common.config.AbstractConfig" level="WARN"/>
    <Root level="INFO"><AppenderRef ref="out"/></Root>
  </Loggers>
</Configuration>
"""
_LOG4J1 = """
log4j.rootLogger=INFO, stdout
log4j.logger.org.apache.kafka.common.config.AbstractConfig=WARN
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d{ISO8601}] %p %m (%c)%n
"""

#: A short-lived JVM: interpret and compile lightly, no concurrent collector threads.
_SMALL_JVM = " ".join(("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *JAVA_OPTIONS))


class KafkaNode(DockerContainer):  # type: ignore[misc]  # testcontainers is half-typed
    """One controller or broker in a container of its own."""

    def __init__(
        self,
        spec: NodeSpec,
        topology: Topology,
        *,
        image: str,
        run_id: str,
        checkpoint: bytes,
        heap: str,
        network: ClusterNetwork,
        address: str,
    ) -> None:
        from docker.types import EndpointConfig

        super().__init__(image)
        self._container: Container | None = None
        self.spec = spec
        self.address = address
        self._labels = labels(run_id)
        self._volume_name = f"ackproof-{run_id}-{spec.name}"
        assert network.network is not None  # the network is created before its nodes
        # Of testcontainers' networking only the name is used: it cannot ask for a fixed address.
        self.with_kwargs(
            entrypoint=["/bin/bash", "-c", _START],
            user="root",  # owns a fresh volume; apache/kafka's image runs as a user of its own
            hostname=spec.name,
            labels=self._labels,
            network=network.network.name,
            networking_config={
                network.network.name: EndpointConfig(
                    "1.40", aliases=[spec.name], ipv4_address=address
                )
            },
            stop_signal="SIGTERM",
        )
        self.with_name(f"ackproof-{run_id}-{spec.name}")
        self.with_volume_mapping(self._volume_name, DATA_DIR.rpartition("/")[0], "rw")
        self.with_env("KAFKA_OPTS", f"-Xms{heap} -Xmx{heap} {_SMALL_JVM} {_log_options()}")
        files = {
            "format/meta.properties": meta_properties(
                cluster_id=topology.cluster_id, node_id=spec.node_id
            ).encode(),
            "server.properties": topology.server_properties(spec).encode(),
            "log4j2.xml": _LOG4J2.encode(),
            "log4j.properties": _LOG4J1.encode(),
        }
        if spec.role == "controller":
            files["format/bootstrap.checkpoint"] = checkpoint
        self._files = files
        if spec.external_port is not None:
            self.ports[f"{LISTENER_PORTS['EXTERNAL']}/tcp"] = ("127.0.0.1", spec.external_port)

    @property
    def container(self) -> Container:
        """The container behind it; raises ClusterError before `boot`."""
        if self._container is None:
            raise ClusterError(f"{self.spec.name} has not been started")
        return self._container

    def boot(self) -> None:
        """Create the volume and the container and start it for the first time.

        Raises ClusterError with the engine's reason (a port that is taken, say).
        """
        from docker.errors import APIError

        client = self.get_docker_client().client
        try:
            client.volumes.create(self._volume_name, labels=self._labels)
            with tempfile.TemporaryDirectory() as scratch:
                # One folder, not file by file: the engine takes a while for each copy.
                self.with_copy_into_container(self._write_files(Path(scratch)), _PARENT)
                self.start()
        except APIError as error:
            if "already allocated" in str(error) or "address already in use" in str(error):
                raise ClusterError(
                    f"{self.spec.name} cannot have port {self.spec.external_port} of 127.0.0.1: "
                    "something else listens there",
                    hint="Start again: another port is chosen each time.",
                ) from error
            raise ClusterError(
                f"{self.spec.name} cannot be started: {error.explanation}"
            ) from error

    def _write_files(self, scratch: Path) -> Path:
        for name, content in self._files.items():
            path = scratch / _NAME / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return scratch / _NAME

    def kill(self) -> None:
        """Send SIGKILL and wait until the process is gone; a no-op if it already is."""
        from docker.errors import APIError

        try:
            self.container.kill(signal="SIGKILL")
        except APIError as error:
            if self.exit_status() is None:
                raise ClusterError(f"{self.spec.name} cannot be killed: {error}") from error
        self.container.wait()

    def terminate(self, within_s: float = 60) -> None:
        """Send SIGTERM and wait for a controlled shutdown; SIGKILL after `within_s`."""
        self.container.stop(timeout=int(within_s))

    def start_again(self) -> None:
        """Start the stopped container; a no-op if it runs."""
        self.container.start()

    def exit_status(self) -> int | None:
        """Return the exit status of the process, None while it runs."""
        self.container.reload()
        state = self.container.attrs["State"]
        return None if state["Running"] else int(state["ExitCode"])

    def log_tail(self, lines: int = 15) -> str:
        """Return the last lines of the node's log, for error messages."""
        return str(self.container.logs(tail=lines).decode(errors="replace"))


def _log_options() -> str:
    return (
        f"-Dlog4j2.configurationFile={_CONFIG_DIR}/log4j2.xml "
        f"-Dlog4j.configuration=file:{_CONFIG_DIR}/log4j.properties"
    )
