"""One node of the cluster: a container that can be killed and comes back as itself.

Identity and data lie in a named volume, the address is fixed, and a broker's EXTERNAL port is
pinned, so that a node that was killed returns with the same id, the same log and the same place.
"""

from __future__ import annotations

import contextlib
import textwrap
from typing import TYPE_CHECKING

from testcontainers.core.container import DockerContainer

from ackproof.harness.cluster.engine import labels
from ackproof.harness.cluster.images import CLASSPATH, JAVA_OPTIONS
from ackproof.harness.cluster.topology import DATA_DIR, LISTENER_PORTS, NodeSpec, Topology
from ackproof.harness.errors import ClusterError

if TYPE_CHECKING:
    from docker.models.containers import Container
    from docker.models.volumes import Volume

    from ackproof.harness.cluster.network import ClusterNetwork

_CONFIG_DIR = "/etc/ackproof"

# Formatting happens once: a volume that holds meta.properties is a node that comes back. The
# controller is formatted by Kafka's own tool, which writes the feature levels of its version.
_START = f"""
set -e
if [ ! -f {DATA_DIR}/meta.properties ]; then
  mkdir -p {DATA_DIR}
  if [ -n "$CLUSTER_ID" ]; then
    java $FORMAT_OPTS -cp '{CLASSPATH}' kafka.tools.StorageTool format \\
      --cluster-id "$CLUSTER_ID" --config {_CONFIG_DIR}/server.properties
  else
    cp {_CONFIG_DIR}/meta.properties {DATA_DIR}/meta.properties
  fi
fi
exec java $KAFKA_OPTS -cp '{CLASSPATH}' kafka.Kafka {_CONFIG_DIR}/server.properties
"""

# Kafka 4 logs through log4j 2, Kafka 3 through log4j 1; each ignores the other's file.
_LOG4J2 = """
<Configuration status="WARN">
  <Appenders>
    <Console name="out">
      <PatternLayout pattern="[%d{yyyy-MM-dd'T'HH:mm:ss,SSS}{UTC}] %p %m (%c)%n"/>
    </Console>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""
_LOG4J1 = """
log4j.rootLogger=INFO, stdout
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
        self._volume: Volume | None = None
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
        self.with_env("FORMAT_OPTS", f"{_SMALL_JVM} -Xmx64m {_log_options()}")
        if spec.role == "controller":
            self.with_env("CLUSTER_ID", topology.cluster_id)
        else:
            self._file("meta.properties", topology.meta_properties(spec))
        self._file("server.properties", topology.server_properties(spec))
        self._file("log4j2.xml", _LOG4J2)
        self._file("log4j.properties", _LOG4J1)
        if spec.external_port is not None:
            self.ports[f"{LISTENER_PORTS['EXTERNAL']}/tcp"] = ("127.0.0.1", spec.external_port)

    def _file(self, name: str, text: str) -> None:
        content = textwrap.dedent(text).encode()
        self.with_copy_into_container(content, f"{_CONFIG_DIR}/{name}")

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
            self._volume = client.volumes.create(self._volume_name, labels=self._labels)
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

    def remove(self) -> None:
        """Remove the container and its volume, whatever state they are in."""
        from docker.errors import NotFound

        # `ackproof clean` in another terminal may have been faster.
        if self._container is not None:
            with contextlib.suppress(NotFound):
                self._container.remove(force=True, v=True)
            self._container = None
        if self._volume is not None:
            with contextlib.suppress(NotFound):
                self._volume.remove(force=True)
            self._volume = None


def _log_options() -> str:
    return (
        f"-Dlog4j2.configurationFile={_CONFIG_DIR}/log4j2.xml "
        f"-Dlog4j.configuration=file:{_CONFIG_DIR}/log4j.properties"
    )
