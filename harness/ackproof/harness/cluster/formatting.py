"""Formatting a node's volume: what `kafka-storage format` would write, without a JVM each time.

A node's `meta.properties` names cluster, node and directory (`MetaProperties`, version 1). A
controller needs `bootstrap.checkpoint` besides: the feature levels of its Kafka version, as its
own tool writes them. That file says nothing of a cluster, so the tool is run once for an image and
its output kept; it would cost a second of every boot, on the path that all brokers wait for.
"""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING

from ackproof.harness.cluster.cache import cache_dir, exclusive, silent
from ackproof.harness.cluster.engine import labels
from ackproof.harness.cluster.images import CLASSPATH
from ackproof.harness.errors import ClusterError

if TYPE_CHECKING:
    from docker import DockerClient

_FORMAT = f"""
cat > /tmp/server.properties <<PROPERTIES
process.roles=controller
node.id=1
controller.quorum.voters=1@localhost:9093
listeners=CONTROLLER://:9093
controller.listener.names=CONTROLLER
log.dirs=/tmp/data
PROPERTIES
java -cp '{CLASSPATH}' kafka.tools.StorageTool format --cluster-id $CLUSTER_ID \\
  --config /tmp/server.properties >&2
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


def bootstrap_checkpoint(client: DockerClient, image: str, *, run_id: str) -> bytes:
    """Return the bootstrap.checkpoint of the image's Kafka, from its own tool.

    Raises ClusterError with the tool's words if it fails.
    """
    from docker.errors import ContainerError
    from docker.types import LogConfig

    image_id = str(client.images.get(image).id).removeprefix("sha256:")
    path = cache_dir() / "bootstrap" / image_id
    if path.exists():
        return path.read_bytes()
    with exclusive("bootstrap", silent):
        try:
            encoded = client.containers.run(
                image,
                entrypoint=["/bin/bash", "-ec", _FORMAT],
                environment={"CLUSTER_ID": new_id()},
                labels=labels(run_id),
                network_mode="none",
                log_config=LogConfig(type="json-file"),  # with others docker-py returns no output
                remove=True,
                stderr=False,
            )
        except ContainerError as error:
            raise ClusterError(f"{image} cannot format a controller: {error}") from error
        content = base64.b64decode(encoded)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_bytes(content)
        partial.rename(path)
    return content
