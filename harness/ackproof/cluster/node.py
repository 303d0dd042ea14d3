"""One node of the cluster: a container that can be killed and comes back as itself.

Identity and data lie in a named volume, the address is fixed, and a broker's client ports are
pinned, so that a node that was killed returns with the same id, the same log and the same place.
"""

from __future__ import annotations

import base64
import io
import tarfile
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from testcontainers.core.container import DockerContainer

from ackproof.cluster import zookeeper
from ackproof.cluster.formatting import meta_properties
from ackproof.cluster.topology import (
    CONFIG_DIR,
    DATA_DIR,
    VOLUME_DIR,
    NodeSpec,
    Topology,
    published_port,
)
from ackproof.containers import fake_clock
from ackproof.containers.engine import (
    archive,
    freeze,
    frozen,
    labels,
)
from ackproof.containers.image_build import template
from ackproof.containers.images import CLASSPATH, JAVA_OPTIONS
from ackproof.errors import ClusterError
from ackproof.waiting import wait_for

if TYPE_CHECKING:
    from docker.models.containers import Container
    from docker.types import DriverConfig

    from ackproof.cluster.network import ClusterNetwork

_FORMAT_DIR = f"{CONFIG_DIR}/format"

CONFIG = f"{CONFIG_DIR}/server.properties"
_EXEC = f"exec java $KAFKA_OPTS -cp '{CLASSPATH}'"

# Configuration comes in the environment: copying files into four containers before they start takes
# the engine longer than a broker takes to load its classes. Where there are secrets in it, they are
# copied all the same: an environment is anybody's to see. Written once, so that a file that was
# changed since stays as it is.
_COPIED = "/etc/ackproof.tgz"
_CONFIGURE = f"""
if [ ! -d {CONFIG_DIR} ]; then
  mkdir -m 0700 {CONFIG_DIR}
  if [ -f {_COPIED} ]; then
    tar xzf {_COPIED} -C {CONFIG_DIR} && rm {_COPIED}
  else
    base64 -d <<< "$CONFIGURATION" | tar xz -C {CONFIG_DIR}
  fi
fi
unset CONFIGURATION
"""

# Formatting happens once: a directory that holds meta.properties is one that comes back.
_FORMAT_ONCE = f"""
for directory in {_FORMAT_DIR}/*; do
  data={VOLUME_DIR}/${{directory##*/}}
  if [ ! -f $data/meta.properties ]; then
    mkdir -p $data
    cp $directory/* $data
  fi
done
"""
_EXEC_KAFKA = f"{_EXEC} kafka.Kafka {CONFIG}"
_START_ZOOKEEPER = f"""
mkdir -p {DATA_DIR} && echo $NODE_ID > {DATA_DIR}/myid
{_EXEC} {zookeeper.MAIN} {CONFIG}
"""

#: Kafka 4 logs through log4j 2, older ones through log4j 1; each ignores the other's file. The
#: class archive in the image was made with these same files.
_LOGGING = ("log4j2.xml", "log4j.properties")

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
        network: ClusterNetwork,
        address: str,
        clock: bytes = b"",
    ) -> None:
        """Describe the container; `clock` is the preload of a clock of its own, if it has one."""
        from docker.types import EndpointConfig, Mount

        super().__init__(image)
        self._container: Container | None = None
        self.spec = spec
        self.address = address
        self.volume = f"ackproof-{run_id}-{spec.name}"
        # The engine makes the volume with the container: one request less.
        self._mount = Mount(
            VOLUME_DIR, self.volume, labels=labels(run_id), driver_config=_of_size(spec.disk)
        )
        assert network.network is not None  # the network is created before its nodes
        # Of testcontainers' networking only the name is used: it cannot ask for a fixed address.
        self.with_kwargs(
            entrypoint=["/bin/bash", "-c", _CONFIGURE + _start(spec, topology, clock)],
            user="root",  # owns a fresh volume; apache/kafka's image runs as a user of its own
            hostname=spec.name,
            labels=labels(run_id),
            network=network.network.name,
            networking_config={
                network.network.name: EndpointConfig(
                    "1.40", aliases=[spec.name], ipv4_address=address
                )
            },
            stop_signal="SIGTERM",
            mounts=[self._mount],
            **_limits(spec),
        )
        self.with_name(f"ackproof-{run_id}-{spec.name}")
        heap = f"-Xms{spec.heap} -Xmx{spec.heap}"
        self.with_env("KAFKA_OPTS", f"{heap} {_SMALL_JVM} {_log_options()}")
        self.with_env("NODE_ID", str(spec.node_id))
        self.with_env("ZOOKEEPERS", " ".join(node.name for node in topology.controllers))
        files = {
            "server.properties": topology.server_properties(spec).encode(),
            **{name: template(f"kafka/{name}").encode() for name in _LOGGING},
            **({} if topology.zookeeper else _format(spec, topology.cluster_id, checkpoint)),
            **({fake_clock.LIBRARY: clock} if clock else {}),
        }
        if topology.security is None:
            self.with_env("CONFIGURATION", base64.b64encode(archive(files)).decode())
        else:
            content = archive({**files, **topology.security.broker_files()})
            self.with_copy_into_container(content, _COPIED, mode=0o600)
        if spec.role == "zookeeper":
            self.ports[f"{zookeeper.CLIENT_PORT}/tcp"] = ("127.0.0.1", spec.external_port)
        elif spec.role == "broker":
            for listener in ("EXTERNAL", *topology.listeners):
                published = ("127.0.0.1", published_port(spec, listener))
                self.ports[f"{topology.port(listener)}/tcp"] = published

    @property
    def container(self) -> Container:
        """The container behind it; raises ClusterError before `boot`."""
        if self._container is None:
            raise ClusterError(f"{self.spec.name} has not been started")
        return self._container

    def boot(self) -> None:
        """Create the container with its volume and start it for the first time.

        Raises ClusterError with the engine's reason (a port that is taken, say).
        """
        from docker.errors import APIError

        try:
            if self.spec.disk is not None:
                self._hold_disk()
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

    def _hold_disk(self) -> None:
        """Keep a disk in memory mounted while the node is down: it would be gone with the mount."""
        name = f"{self.volume}-disk"
        client = self.get_docker_client().client
        if not client.containers.list(all=True, filters={"name": f"^{name}$"}):
            client.containers.run(
                self.image,
                entrypoint=["sleep", "infinity"],
                name=name,
                mounts=[self._mount],
                labels=self._mount["VolumeOptions"]["Labels"],
                network_mode="none",
                init=True,
                detach=True,
            )

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

    def pause(self) -> None:
        """Freeze every process of the container; a no-op if it is frozen."""
        freeze(self.container)

    def resume(self) -> None:
        """Let the frozen processes go on; a no-op if they do."""
        if self.paused():
            self.container.unpause()

    def paused(self) -> bool:
        """Whether the container is frozen."""
        return frozen(self.container)

    def discard(self, logs: Path | None) -> None:
        """Remove the container, its volume not; what it logged is kept in the folder `logs`."""
        if logs is not None:
            self.save_log(logs)
        self.container.remove(force=True)

    def save_log(self, folder: Path, *, since: datetime | None = None) -> None:
        """Append what the node logged to `folder`/<name>.log, streamed, whatever state it is in."""
        after = None if since is None else since.timestamp()
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{self.spec.name}.log").open("ab") as file:
            for chunk in self.container.logs(stream=True, follow=False, since=after):
                file.write(chunk)

    def log_has(self, text: str, since: datetime) -> bool:
        """Whether the node logged a line with `text` since then; lines are read as a stream."""
        wanted = text.encode()
        after = since.timestamp()
        lines = self.container.logs(stream=True, follow=False, since=after)
        return any(wanted in line for line in lines)

    def renew_identity(self, cluster_id: str) -> None:
        """Have each of the node's directories formatted as a new one, when it is empty.

        A disk that was replaced has a directory id of its own (KIP-858).
        """
        files = {
            name.removeprefix("format/"): content
            for name, content in _format(self.spec, cluster_id, b"").items()
            if name.endswith("meta.properties")
        }
        self.container.put_archive(_FORMAT_DIR, archive(files))

    def exit_status(self) -> int | None:
        """Return the exit status of the process, None while it runs."""
        self.container.reload()
        state = self.container.attrs["State"]
        return None if state["Running"] else int(state["ExitCode"])

    def out_of_memory(self) -> bool:
        """Whether the kernel's out-of-memory killer ended the process."""
        self.container.reload()
        return bool(self.container.attrs["State"]["OOMKilled"])

    def read_file(self, path: str) -> bytes:
        """Return a file of the container or its disk; raise ClusterError if there is none."""
        from docker.errors import NotFound

        try:
            stream, _ = self.container.get_archive(path)
        except NotFound:
            raise ClusterError(f"{self.spec.name} has no {path}") from None
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive:
            file = archive.extractfile(archive.getmembers()[0])
            if file is None:
                raise ClusterError(f"{path} of {self.spec.name} is no file")
            return file.read()

    def log_since(self, since: datetime) -> str:
        """Return what the node has logged since then."""
        return str(self.container.logs(since=since.timestamp()).decode(errors="replace"))

    def await_logged(self, text: str, *, since: datetime, within_s: float) -> str:
        """Wait until the node has logged a line with `text`, and return it.

        Raises ClusterError after `within_s`, or when the node has ended without such a line.
        """

        def look() -> tuple[str | None, int | None]:
            ended = self.exit_status()
            lines = self.log_since(since).splitlines()
            return next((line for line in lines if text in line), None), ended

        line, ended = wait_for(
            look,
            lambda seen: seen != (None, None),
            within_s=within_s,
            failure=lambda _: ClusterError(
                f"{self.spec.name} has not logged {text!r} within {within_s:g} s"
            ),
        )
        if line is None:
            raise ClusterError(
                f"{self.spec.name} has ended with exit status {ended} and did not log {text!r}"
            )
        return line

    def log_tail(self, lines: int = 15) -> str:
        """Return the last lines of the node's log, for error messages."""
        return str(self.container.logs(tail=lines).decode(errors="replace"))


def _start(spec: NodeSpec, topology: Topology, clock: bytes) -> str:
    """Return the bash script that is the node's process until it turns into the JVM."""
    if spec.role == "zookeeper":
        return _START_ZOOKEEPER
    before = zookeeper.AWAIT_DEREGISTRATION if topology.zookeeper else f"set -e\n{_FORMAT_ONCE}"
    return "\n".join([before, fake_clock.PRELOAD if clock else "", _EXEC_KAFKA])


def _format(spec: NodeSpec, cluster_id: str, checkpoint: bytes) -> dict[str, bytes]:
    """Return what each of the node's directories holds when it is new."""
    folders = [directory.rpartition("/")[2] for directory in spec.directories]
    files = {
        f"format/{folder}/meta.properties": meta_properties(
            cluster_id=cluster_id, node_id=spec.node_id
        ).encode()
        for folder in folders
    }
    if spec.voter:
        files[f"format/{folders[0]}/bootstrap.checkpoint"] = checkpoint
    return files


def _limits(spec: NodeSpec) -> dict[str, object]:
    """Return the engine's words for the container's memory (without swap) and CPUs."""
    limits: dict[str, object] = {}
    if spec.memory is not None:
        limits |= {"mem_limit": spec.memory, "memswap_limit": spec.memory}
    if spec.cpus is not None:
        limits["nano_cpus"] = round(spec.cpus * 1e9)
    return limits


def _of_size(size: int | None) -> DriverConfig | None:
    """Return the engine's words for a disk of so many bytes, which lies in memory."""
    from docker.types import DriverConfig

    if size is None:
        return None
    return DriverConfig("local", {"type": "tmpfs", "device": "tmpfs", "o": f"size={size}"})


def _log_options() -> str:
    return (
        f"-Dlog4j2.configurationFile={CONFIG_DIR}/log4j2.xml "
        f"-Dlog4j.configuration=file:{CONFIG_DIR}/log4j.properties"
    )
