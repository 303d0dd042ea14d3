"""Formatting a node's volume: what `kafka-storage format` would write, without a JVM each time.

A node's `meta.properties` names cluster, node and directory (`MetaProperties`, version 1). A
controller needs `bootstrap.checkpoint` besides: the feature levels of its Kafka version, as its
own tool writes them. That file says nothing of a cluster, so the tool is run once for an image and
its output kept; it would cost a second of every boot, on the path that all brokers wait for.
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

_ARGUMENTS = "/tmp/format.arguments"  # noqa: S108 - in a container of its own
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

    Ids that begin with a dash are skipped, as Kafka itself does: tools take them for flags.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def meta_properties(*, cluster_id: str, node_id: int) -> str:
    """Return the text of a node's meta.properties, with a directory id of its own."""
    return f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={new_id()}\n"


def feature_arguments(features: Mapping[str, int | str]) -> tuple[str, ...]:
    """Return what `kafka-storage format` is told of feature levels.

    A metadata version may be named by its release (`4.0`, `4.0-IV3`) as well as by its level.
    """
    found: list[str] = []
    for name, level in sorted(features.items()):
        if name == "metadata.version" and not str(level).isdigit():
            found += ["--release-version", str(level)]
        else:
            found += ["--feature", f"{name}={level}"]
    return tuple(found)


def bootstrap_checkpoint(
    client: DockerClient,
    image: str,
    features: Mapping[str, int | str],
    *,
    run_id: str,
    scram: str = "",
) -> bytes:
    """Return the bootstrap.checkpoint of the image's Kafka, from its own tool.

    `features` are levels other than the version's own. `scram` are credentials (KIP-900), secret:
    they reach the tool in a file, and such a checkpoint is made anew each time.

    Raises ClusterError with the tool's words if it fails, or does not know a level.
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

    They go into a file that `java` reads: a command line is anybody's to see.
    """
    from docker.types import LogConfig

    words = (*_TOOL, "--cluster-id", new_id(), *arguments)
    container = client.containers.create(
        image,
        entrypoint=["/bin/bash", "-ec", _FORMAT],
        labels=labels(run_id),
        network_mode="none",
        log_config=LogConfig(type="json-file"),  # the engine cannot read back all others
    )
    try:
        folder, _, name = _ARGUMENTS.rpartition("/")
        text = "".join(f'"{word}"\n' for word in words)
        container.put_archive(folder, archive({name: text.encode()}))
        container.start()
        # Not followed while it runs: an engine may close the log before its only line is in.
        status = container.wait()["StatusCode"]
        content = base64.b64decode(container.logs(stderr=False))
        if status != 0 or not content:
            said = container.logs(tail=5).decode(errors="replace")
            raise ClusterError(f"{image} cannot format a controller (exit {status}): {said}")
    finally:
        container.remove(force=True, v=True)
    return content
