"""One node of the cluster: a container that keeps its identity when it is killed and restarted.

Identity and data lie in a named volume, the address is fixed, and a broker's client ports are
pinned. A restarted node therefore has the same node id, the same log and the same address.
"""

from __future__ import annotations

import base64
import io
import itertools
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from docker.errors import APIError, NotFound
from docker.models.containers import Container
from docker.types import DriverConfig, EndpointConfig, Mount
from testcontainers.core.container import DockerContainer

from ackproof.cluster.container_node import ContainerNode
from ackproof.cluster.network import ClusterNetwork
from ackproof.cluster.node_files import (
    COPIED,
    FORMAT_DIR,
    configuration_files,
    jvm_options,
    new_identity,
    start_script,
)
from ackproof.cluster.security import Security
from ackproof.cluster.topology import ZOOKEEPER_PORT, NodeSpec, Topology, published_port
from ackproof.containers.engine import archive, labels
from ackproof.containers.images import VOLUME_DIR
from ackproof.errors import ClusterError

#: How often a file is read that brokers replace.
_READS = 5


class KafkaNode(ContainerNode, DockerContainer):  # type: ignore[misc]  # testcontainers is half-typed
    def __init__(
        self, spec: NodeSpec, topology: Topology, factory: NodeFactory, *, image: str, address: str
    ) -> None:
        """Describe the container; it is created by `boot`."""
        super().__init__(image)
        self._container: Container | None = None
        self.spec = spec
        self._address = address
        self.volume = f"ackproof-{factory.run_id}-{spec.name}"
        marks = labels(factory.run_id)
        clock = factory.clock if spec.role == "broker" else b""
        # The engine creates the volume with the container, which saves a request.
        self._mount = Mount(
            VOLUME_DIR, self.volume, labels=marks, driver_config=_sized_disk(spec.disk)
        )
        network = factory.network.name
        # testcontainers cannot request a fixed address.
        self.with_kwargs(
            entrypoint=["/bin/bash", "-c", start_script(spec, topology, clock=bool(clock))],
            user="root",  # owns a new volume; apache/kafka's image has a user of its own
            hostname=spec.name,
            labels=marks,
            network=network,
            networking_config={
                network: EndpointConfig("1.40", aliases=[spec.name], ipv4_address=address)
            },
            stop_signal="SIGTERM",
            mounts=[self._mount],
            **_limits(spec),
        )
        self.with_name(self.volume)
        self.with_env("KAFKA_OPTS", jvm_options(spec.heap))
        self.with_env("NODE_ID", str(spec.node_id))
        self.with_env("ZOOKEEPERS", " ".join(node.name for node in topology.controllers))
        content = archive(
            configuration_files(
                spec,
                topology,
                checkpoint=factory.checkpoint,
                security=factory.security,
                clock=clock,
            )
        )
        if factory.security is None:
            self.with_env("CONFIGURATION", base64.b64encode(content).decode())
        else:
            self.with_copy_into_container(content, COPIED, mode=0o600)
        if spec.role == "zookeeper":
            self.ports[f"{ZOOKEEPER_PORT}/tcp"] = ("127.0.0.1", spec.external_port)
        elif spec.role == "broker":
            for listener in ("EXTERNAL", *topology.listeners):
                published = ("127.0.0.1", published_port(spec, listener))
                self.ports[f"{topology.ports[listener]}/tcp"] = published

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def address(self) -> str:
        return self._address

    @property
    def directories(self) -> Sequence[str]:
        return self.spec.directories

    @property
    def container(self) -> Container:
        """The container; raises ClusterError before `boot`."""
        if self._container is None:
            raise ClusterError(f"{self.name} has not been started")
        return self._container

    def boot(self) -> None:
        """Create the container with its volume and start it for the first time.

        Raises ClusterError with the engine's reason, for example a port that is in use.
        """
        try:
            if self.spec.disk is not None:
                self._keep_disk_mounted()
            self.start()
        except APIError as error:
            if "already allocated" in str(error) or "address already in use" in str(error):
                raise ClusterError(
                    f"{self.name} cannot have port {self.spec.external_port} of 127.0.0.1: "
                    "another process listens on it",
                    hint="Start again: each start chooses other ports.",
                ) from error
            raise ClusterError(f"{self.name} cannot be started: {error.explanation}") from error

    def _keep_disk_mounted(self) -> None:
        """Start a container that mounts the disk: a tmpfs loses its content with its last mount."""
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

    def discard(self, logs: Path | None) -> None:
        """Remove the container but not its volume; save its log in the folder `logs`."""
        if logs is not None:
            self.save_log(logs)
        self.container.remove(force=True)

    def save_log(self, folder: Path, *, since: datetime | None = None) -> None:
        """Append the node's log (after `since`) to `folder`/<name>.log; the node may be stopped."""
        after = None if since is None else since.timestamp()
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{self.name}.log").open("ab") as file:
            for chunk in self.container.logs(stream=True, follow=False, since=after):
                file.write(chunk)

    def renew_identity(self, cluster_id: str) -> None:
        """Format each log directory that is empty as a new one when the node starts again.

        A replaced disk has a directory id of its own (KIP-858).
        """
        self.container.put_archive(FORMAT_DIR, archive(new_identity(self.spec, cluster_id)))

    def read_file(self, path: str) -> bytes:
        """Return the content of a file of the container; raise ClusterError if it is absent.

        The engine's answer ends too early if the broker replaces the file meanwhile.
        """
        for _ in range(_READS):
            try:
                stream, _stat = self.container.get_archive(path)
            except NotFound:
                raise ClusterError(f"{self.name} has no file {path}") from None
            with (
                suppress(tarfile.ReadError),
                tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive,
            ):
                file = archive.extractfile(archive.getmembers()[0])
                if file is None:
                    raise ClusterError(f"{path} of {self.name} is not a file")
                return file.read()
        raise ClusterError(f"{path} of {self.name} was replaced while it was read, {_READS} times")

    def log_since(self, since: datetime) -> str:
        return str(self.container.logs(since=since.timestamp()).decode(errors="replace"))

    def log_tail(self) -> str:
        return str(self.container.logs(tail=15).decode(errors="replace"))


def _limits(spec: NodeSpec) -> dict[str, object]:
    """Return docker-py's options for the container's memory (without swap) and CPUs."""
    limits: dict[str, object] = {}
    if spec.memory is not None:
        limits |= {"mem_limit": spec.memory, "memswap_limit": spec.memory}
    if spec.cpus is not None:
        limits["nano_cpus"] = round(spec.cpus * 1e9)
    return limits


def _sized_disk(size: int | None) -> DriverConfig | None:
    """Return the volume driver of a disk of this size in memory (tmpfs); None without a size."""
    if size is None:
        return None
    return DriverConfig("local", {"type": "tmpfs", "device": "tmpfs", "o": f"size={size}"})


@dataclass(slots=True, kw_only=True)
class NodeFactory:
    """Creates the nodes of one cluster, also those that are added later.

    `ports` reserves ports of 127.0.0.1 for the lifetime of the cluster. `clock` is the preload for
    adjustable clocks (`fake_clock`), empty if brokers use the machine's clock.
    """

    image: str
    run_id: str
    checkpoint: Mapping[str, bytes]
    network: ClusterNetwork
    ports: Iterator[int]
    security: Security | None = None
    clock: bytes = b""
    addresses: Iterator[int] = field(default_factory=itertools.count)

    def create(
        self, spec: NodeSpec, topology: Topology, *, image: str = "", address: str = ""
    ) -> KafkaNode:
        """Return a node that is not booted yet, with this image and address if they are given."""
        return KafkaNode(
            spec,
            topology,
            self,
            image=image or self.image,
            address=address or self.network.address(next(self.addresses)),
        )
