"""The files that `kafka-storage format` writes to a volume, without a JVM for each node.

A node's `meta.properties` names cluster, node and directory (`MetaProperties`, version 1). A
controller also needs `bootstrap.checkpoint`: the feature levels of its Kafka version. That file
does not depend on the cluster, so Kafka's tool runs once for each image and its output is cached;
the tool would add a second to every boot.
"""

from __future__ import annotations

import base64
import shlex
import uuid
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from ackproof.cache import cache_dir, exclusive, silent
from ackproof.containers.engine import archive, labels
from ackproof.containers.images import CLASSPATH
from ackproof.errors import ClusterError

if TYPE_CHECKING:
    from docker import DockerClient

_ARGUMENTS = "/tmp/format.arguments"  # noqa: S108 - inside a container
_TOOL = (
    *("-cp", CLASSPATH, "kafka.tools.StorageTool", "format"),
    *("--config", "/tmp/server.properties"),  # noqa: S108
)
_FORMAT = f"""
cat > /tmp/server.properties <<PROPERTIES
process.roles=controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=CONTROLLER://:9093
controller.listener.names=CONTROLLER
log.dirs=/tmp/data
PROPERTIES
java @{_ARGUMENTS} >&2
base64 -w 0 /tmp/data/bootstrap.checkpoint
"""


def new_id() -> str:
    """Return a random id in Kafka's form (`org.apache.kafka.common.Uuid`): 22 URL-safe characters.

    Ids that begin with a dash are skipped, as Kafka does, because tools read them as options.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def meta_properties(*, cluster_id: str, node_id: int) -> str:
    """Return the text of a meta.properties with a new directory id."""
    return f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={new_id()}\n"


def feature_arguments(features: Mapping[str, int | str]) -> tuple[str, ...]:
    """Return the options of `kafka-storage format` for these feature levels.

    A metadata version may be named by its release (`4.0`, `4.0-IV3`) or by its level.
    """
    options: list[str] = []
    for name, level in sorted(features.items()):
        if name == "metadata.version" and not str(level).isdigit():
            options += ["--release-version", str(level)]
        else:
            options += ["--feature", f"{name}={level}"]
    return tuple(options)


def bootstrap_checkpoint(
    client: DockerClient,
    image: str,
    features: Mapping[str, int | str],
    *,
    run_id: str,
    scram: str = "",
) -> bytes:
    """Return the bootstrap.checkpoint of the image's Kafka, written by its own tool.

    `features` are levels other than the version's defaults. `scram` are credentials (KIP-900),
    secret: the tool reads them from a file, and a checkpoint with credentials is not cached.

    Raises ClusterError with the tool's output if it fails, for example for an unknown level.
    """
    image_id = str(client.images.get(image).id).removeprefix("sha256:")
    arguments = feature_arguments(features)
    if scram:
        return _formatted(client, image, (*arguments, "--add-scram", scram), run_id=run_id)
    text = shlex.join(arguments)
    name = f"{image_id}-{sha256(text.encode()).hexdigest()[:12]}" if text else image_id
    path = cache_dir() / "bootstrap" / name
    if path.exists() and (content := path.read_bytes()):
        return content
    with exclusive("bootstrap", silent):
        content = _formatted(client, image, arguments, run_id=run_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_bytes(content)
        partial.rename(path)
    return content


def _formatted(client: DockerClient, image: str, arguments: Sequence[str], *, run_id: str) -> bytes:
    """Run Kafka's tool with these arguments and return the checkpoint that it wrote.

    `java` reads the arguments from a file, because everybody can read a command line.
    """
    from docker.types import LogConfig

    words = (*_TOOL, "--cluster-id", new_id(), *arguments)
    container = client.containers.create(
        image,
        entrypoint=["/bin/bash", "-ec", _FORMAT],
        labels=labels(run_id),
        network_mode="none",
        log_config=LogConfig(type="json-file"),  # not every other driver can be read back
    )
    try:
        folder, _, name = _ARGUMENTS.rpartition("/")
        text = "".join(f'"{word}"\n' for word in words)
        container.put_archive(folder, archive({name: text.encode()}))
        container.start()
        # The log is read after the end: an engine may close a followed log before its only line.
        status = container.wait()["StatusCode"]
        content = base64.b64decode(container.logs(stderr=False))
        if status != 0 or not content:
            output = container.logs(tail=5).decode(errors="replace")
            raise ClusterError(f"{image} cannot format a controller (exit {status}): {output}")
    finally:
        container.remove(force=True, v=True)
    return content
