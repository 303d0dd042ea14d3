"""The files and the start script of a node's container.

`server.properties`, `meta.properties` (cluster, node and directory: `MetaProperties`, version 1),
logging, and of a controller a checkpoint with the feature levels of its Kafka version. The
checkpoint does not depend on the cluster, so Kafka's tool writes it once for each image and the
harness caches it. Formatting each node by the tool would add a second to every boot. Its path is
the tool's: `bootstrap.checkpoint`, from 4.4 on the first snapshot of the metadata log (KIP-1170).

ZooKeeper's jars are dependencies of Kafka, so its nodes run from the same image.
"""

from __future__ import annotations

import base64
import shlex
import uuid
from collections.abc import Mapping, Sequence
from hashlib import sha256

from docker import DockerClient
from docker.types import LogConfig

from ackproof.cluster.security import Security
from ackproof.cluster.times import ZOOKEEPER_TICK_MS
from ackproof.cluster.topology import (
    ZOOKEEPER_PORT,
    NodeSpec,
    Topology,
    host_port,
)
from ackproof.containers import fake_clock
from ackproof.containers.engine import archive, labels, unpacked
from ackproof.containers.image_build import template
from ackproof.containers.images import CONFIG_DIR, DATA_DIR, JAVA_OPTIONS, VOLUME_DIR
from ackproof.containers.kafka_tools import CLASSPATH
from ackproof.errors import ClusterError
from ackproof.machine import cache_dir, exclusive, silent
from ackproof.safe_files import replacing
from ackproof.scenario import topics as internal_topics
from ackproof.scenario.types import setting_text
from ackproof_model.kafka_settings import BROKER_RACK

CONFIG = f"{CONFIG_DIR}/server.properties"
FORMAT_DIR = f"{CONFIG_DIR}/format"
#: The copy of a configuration with secrets.
COPIED = "/etc/ackproof.tgz"
#: The user of a node's JVM inside its container; it needs no entry in the image's passwd.
USER = 1000


_DEFAULTS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    # Off by default before 1.0.
    "delete.topic.enable": "true",
    # By default a new group waits three seconds for more members.
    "group.initial.rebalance.delay.ms": "0",
    # Few threads suffice for a test, and four JVMs share the machine.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
    # JMX is not used, and registering a thousand beans delays the start.
    "metric.reporters": "",
    # Brokers boot at the same time as ZooKeeper; the default is the session timeout.
    "zookeeper.connection.timeout.ms": "60000",
}

_QUORUM_PORT, _ELECTION_PORT = 2888, 3888

#: A killed broker stays registered until its session times out; a broker that starts earlier finds
#: its id registered and exits. The script therefore waits until the broker is no longer in
#: ZooKeeper's list of sessions and their ephemeral nodes (`dump`).
_AWAIT_DEREGISTRATION = f"""
registered() {{
  for server in $ZOOKEEPERS; do
    timeout 2 bash -c "exec 3<>/dev/tcp/$server/{ZOOKEEPER_PORT} && echo dump >&3 && cat <&3" \\
      2> /dev/null | grep -qE "/brokers/ids/$NODE_ID\\$" && return 0
  done
  return 1
}}
while registered; do sleep 0.1; done
"""

# The script begins as root, to which a new volume belongs. The JVM is a user without rights where
# the image has `setpriv` (Debian's do, Alpine's do not). Faults change files as root, hence `chown`
# at each start.
_EXEC = f"""
user="setpriv --reuid={USER} --regid={USER} --clear-groups --bounding-set=-all --no-new-privs"
$user true 2> /dev/null && chown -R {USER}:{USER} {VOLUME_DIR} {CONFIG_DIR} || user=
exec $user java $KAFKA_OPTS -cp '{CLASSPATH}'"""

# The configuration comes in an environment variable, because the engine copies files slowly. A
# configuration with secrets is copied all the same, because an environment is readable. It is
# written once, so that later changes of a file stay.
_CONFIGURE = f"""
if [ ! -d {CONFIG_DIR} ]; then
  mkdir -m 0700 {CONFIG_DIR}
  if [ -f {COPIED} ]; then
    tar xzf {COPIED} -C {CONFIG_DIR} && rm {COPIED}
  else
    base64 -d <<< "$CONFIGURATION" | tar xz -C {CONFIG_DIR}
  fi
fi
unset CONFIGURATION
"""

# A directory with meta.properties was formatted by an earlier start.
_FORMAT_ONCE = f"""
for directory in {FORMAT_DIR}/*; do
  data={VOLUME_DIR}/${{directory##*/}}
  if [ ! -f $data/meta.properties ]; then
    mkdir -p $data
    cp -r $directory/. $data
  fi
done
"""
_EXEC_KAFKA = f"{_EXEC} kafka.Kafka {CONFIG}"
_ZOOKEEPER_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_START_ZOOKEEPER = f"""
mkdir -p {DATA_DIR} && echo $NODE_ID > {DATA_DIR}/myid
{_EXEC} {_ZOOKEEPER_MAIN} {CONFIG}
"""

#: Kafka 4 logs through log4j 2, older versions through log4j 1; each ignores the other's file. The
#: class archive in the image was made with these same files.
_LOGGING = ("log4j2.xml", "log4j.properties")

#: Options for a JVM that lives for a short time: light compilation, no concurrent GC threads.
_SMALL_JVM = " ".join(("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *JAVA_OPTIONS))

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
cd /tmp/data
set -o pipefail
tar cz $(find . -name '*.checkpoint') | base64 -w 0
"""


def start_script(spec: NodeSpec, topology: Topology, *, clock: bool) -> str:
    """Return the bash script that configures the node and then becomes its JVM (`exec`)."""
    if spec.role == "zookeeper":
        return _CONFIGURE + _START_ZOOKEEPER
    formats = topology.metadata.formats_directories
    before = f"set -e\n{_FORMAT_ONCE}" if formats else _AWAIT_DEREGISTRATION
    return _CONFIGURE + "\n".join([before, fake_clock.PRELOAD if clock else "", _EXEC_KAFKA])


def jvm_options(heap: str) -> str:
    return (
        f"-Xms{heap} -Xmx{heap} {_SMALL_JVM} "
        f"-Dlog4j2.configurationFile={CONFIG_DIR}/log4j2.xml "
        f"-Dlog4j.configuration=file:{CONFIG_DIR}/log4j.properties"
    )


def configuration_files(
    spec: NodeSpec,
    topology: Topology,
    *,
    checkpoint: Mapping[str, bytes],
    security: Security | None,
    clock: bytes,
) -> dict[str, bytes]:
    """Return the files of the node's `CONFIG_DIR` by name; secret on a secured cluster.

    `clock` is the preload for an adjustable clock, empty without one.
    """
    formatted = topology.metadata.formats_directories
    return {
        "server.properties": server_properties(spec, topology, security).encode(),
        **{name: template(f"kafka/{name}").encode() for name in _LOGGING},
        **(_formatted_files(spec, topology.cluster_id, checkpoint) if formatted else {}),
        **({fake_clock.LIBRARY: clock} if clock else {}),
        **(security.broker_files() if security else {}),
    }


def server_properties(spec: NodeSpec, topology: Topology, security: Security | None = None) -> str:
    if spec.role == "zookeeper":
        return _text(_zookeeper_settings(topology))
    properties: dict[str, object] = {
        **_DEFAULTS,
        **internal_topics.default_settings(len(topology.brokers)),
        **topology.settings,
        **spec.settings,
        **_listeners(spec, topology, security),
        **topology.metadata.settings(spec, topology),
        "log.dirs": ",".join(spec.directories),
    }
    if security is not None and spec.role == "broker":
        properties |= security.broker_settings(topology.client_listeners, folder=CONFIG_DIR)
    if spec.rack is not None:
        properties[BROKER_RACK] = spec.rack
    return _text(properties)


def _text(properties: Mapping[str, object]) -> str:
    return "".join(f"{key}={setting_text(value)}\n" for key, value in sorted(properties.items()))


def _listeners(
    spec: NodeSpec, topology: Topology, security: Security | None
) -> Mapping[str, object]:
    names = [*topology.metadata.listeners, *topology.client_listeners]
    protocols = dict.fromkeys(names, "PLAINTEXT")
    if security is not None:
        protocols |= dict.fromkeys(topology.client_listeners, security.spec.protocol)
    common = {"listener.security.protocol.map": ",".join(map(":".join, protocols.items()))}
    if spec.role == "controller":
        return {**common, "listeners": f"CONTROLLER://:{topology.ports['CONTROLLER']}"}
    bound = [name for name in names if name != "CONTROLLER" or spec.voter]
    advertised = {
        "INTERNAL": topology.inside(spec, "INTERNAL"),
        **{name: f"127.0.0.1:{host_port(spec, name)}" for name in topology.client_listeners},
    }
    return {
        **common,
        "inter.broker.listener.name": "INTERNAL",
        "listeners": ",".join(f"{name}://:{topology.ports[name]}" for name in bound),
        "advertised.listeners": ",".join(f"{name}://{at}" for name, at in advertised.items()),
    }


def _zookeeper_settings(topology: Topology) -> Mapping[str, object]:
    """Return a ZooKeeper node's settings; its transaction logs keep every change of the run."""
    ensemble = {
        f"server.{node.node_id}": f"{node.name}:{_QUORUM_PORT}:{_ELECTION_PORT}"
        for node in topology.controllers
    }
    return {
        "dataDir": DATA_DIR,
        "clientPort": ZOOKEEPER_PORT,
        "tickTime": ZOOKEEPER_TICK_MS,
        "initLimit": 10,
        "syncLimit": 5,
        "maxClientCnxns": 0,
        "autopurge.purgeInterval": 0,
        "preAllocSize": 1024,  # KB of zeroes at the end of each log, not 64 MB
        "admin.enableServer": False,
        "4lw.commands.whitelist": "dump,srvr",
        **(ensemble if len(ensemble) > 1 else {}),
    }


def new_identity(spec: NodeSpec, cluster_id: str) -> dict[str, bytes]:
    """Return a new meta.properties for each log directory, by its path in `FORMAT_DIR`."""
    return {
        f"{directory.rpartition('/')[2]}/meta.properties": meta_properties(
            cluster_id=cluster_id, node_id=spec.node_id
        ).encode()
        for directory in spec.directories
    }


def _formatted_files(
    spec: NodeSpec, cluster_id: str, checkpoint: Mapping[str, bytes]
) -> dict[str, bytes]:
    files = new_identity(spec, cluster_id)
    if spec.voter:
        first = spec.directories[0].rpartition("/")[2]
        files |= {f"{first}/{path}": content for path, content in checkpoint.items()}
    return {f"format/{path}": content for path, content in files.items()}


def new_id() -> str:
    """Return a random id in Kafka's form (`org.apache.kafka.common.Uuid`): 22 URL-safe characters.

    Ids that begin with a dash are skipped, as Kafka does, because tools read them as options.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def meta_properties(*, cluster_id: str, node_id: int) -> str:
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
) -> Mapping[str, bytes]:
    """Return the checkpoint of the image's Kafka by its path, written by Kafka's own tool.

    `features` are levels other than the version's defaults. `scram` are credentials (KIP-900),
    secret: the tool reads them from a file, and a checkpoint with credentials is not cached.

    Raises ClusterError with the tool's output if it fails, for example for an unknown level.
    """
    image_id = str(client.images.get(image).id).removeprefix("sha256:")
    arguments = feature_arguments(features)
    if scram:
        scrams = (*arguments, "--add-scram", scram)
        return unpacked(_formatted(client, image, scrams, run_id=run_id))
    text = shlex.join(arguments)
    name = f"{image_id}-{sha256(text.encode()).hexdigest()[:12]}" if text else image_id
    path = cache_dir() / "formatted" / name
    if path.exists() and (content := path.read_bytes()):
        return unpacked(content)
    with exclusive("bootstrap", silent):
        content = _formatted(client, image, arguments, run_id=run_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            partial.write_bytes(content)
    return unpacked(content)


def _formatted(client: DockerClient, image: str, arguments: Sequence[str], *, run_id: str) -> bytes:
    """Run Kafka's tool with these arguments and return a tar of the checkpoint that it wrote.

    `java` reads the arguments from a file, because a command line is readable.
    """
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
