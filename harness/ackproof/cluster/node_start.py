"""The start script of a node's container, and the files that it reads."""

from __future__ import annotations

from ackproof.cluster import zookeeper
from ackproof.cluster.formatting import meta_properties
from ackproof.cluster.topology import NodeSpec, Topology
from ackproof.containers import fake_clock
from ackproof.containers.image_build import template
from ackproof.containers.images import CLASSPATH, JAVA_OPTIONS
from ackproof.containers.paths import CONFIG_DIR, DATA_DIR, VOLUME_DIR

CONFIG = f"{CONFIG_DIR}/server.properties"
FORMAT_DIR = f"{CONFIG_DIR}/format"
#: Where a configuration with secrets is copied to.
COPIED = "/etc/ackproof.tgz"
#: The user of a node's JVM inside its container; it needs no entry in the image's passwd.
USER = 1000

# The script begins as root, to which a new volume belongs. The JVM is a user without rights where
# the image has `setpriv` (Debian's do, Alpine's do not). Faults change files as root, hence `chown`
# at each start.
_EXEC = f"""
user="setpriv --reuid={USER} --regid={USER} --clear-groups --bounding-set=-all --no-new-privs"
$user true 2> /dev/null && chown -R {USER}:{USER} {VOLUME_DIR} {CONFIG_DIR} || user=
exec $user java $KAFKA_OPTS -cp '{CLASSPATH}'"""

# The configuration comes in an environment variable: copying files into four containers before
# they start takes the engine longer than a broker takes to load its classes. A configuration with
# secrets is copied all the same, because everybody can read an environment. It is written once, so
# that a file that was changed later keeps its content.
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
    cp $directory/* $data
  fi
done
"""
_EXEC_KAFKA = f"{_EXEC} kafka.Kafka {CONFIG}"
_START_ZOOKEEPER = f"""
mkdir -p {DATA_DIR} && echo $NODE_ID > {DATA_DIR}/myid
{_EXEC} {zookeeper.MAIN} {CONFIG}
"""

#: Kafka 4 logs through log4j 2, older versions through log4j 1; each ignores the other's file. The
#: class archive in the image was made with these same files.
_LOGGING = ("log4j2.xml", "log4j.properties")

#: Options for a JVM that lives for a short time: light compilation, no concurrent GC threads.
_SMALL_JVM = " ".join(("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *JAVA_OPTIONS))


def start_script(spec: NodeSpec, topology: Topology, *, clock: bool) -> str:
    """Return the bash script that configures the node and then becomes its JVM (`exec`)."""
    if spec.role == "zookeeper":
        return _CONFIGURE + _START_ZOOKEEPER
    before = zookeeper.AWAIT_DEREGISTRATION if topology.zookeeper else f"set -e\n{_FORMAT_ONCE}"
    return _CONFIGURE + "\n".join([before, fake_clock.PRELOAD if clock else "", _EXEC_KAFKA])


def jvm_options(heap: str) -> str:
    """Return the node's `KAFKA_OPTS`."""
    return (
        f"-Xms{heap} -Xmx{heap} {_SMALL_JVM} "
        f"-Dlog4j2.configurationFile={CONFIG_DIR}/log4j2.xml "
        f"-Dlog4j.configuration=file:{CONFIG_DIR}/log4j.properties"
    )


def configuration_files(
    spec: NodeSpec, topology: Topology, *, checkpoint: bytes, clock: bytes
) -> dict[str, bytes]:
    """Return the files of the node's `CONFIG_DIR` by name; secret on a secured cluster.

    `clock` is the preload for an adjustable clock, empty without one.
    """
    return {
        "server.properties": topology.server_properties(spec).encode(),
        **{name: template(f"kafka/{name}").encode() for name in _LOGGING},
        **({} if topology.zookeeper else _formatted_files(spec, topology.cluster_id, checkpoint)),
        **({fake_clock.LIBRARY: clock} if clock else {}),
        **(topology.security.broker_files() if topology.security else {}),
    }


def new_identity(spec: NodeSpec, cluster_id: str) -> dict[str, bytes]:
    """Return a new meta.properties for each log directory, by its path in `FORMAT_DIR`."""
    return {
        f"{directory.rpartition('/')[2]}/meta.properties": meta_properties(
            cluster_id=cluster_id, node_id=spec.node_id
        ).encode()
        for directory in spec.directories
    }


def _formatted_files(spec: NodeSpec, cluster_id: str, checkpoint: bytes) -> dict[str, bytes]:
    files = new_identity(spec, cluster_id)
    if spec.voter:
        files[f"{spec.directories[0].rpartition('/')[2]}/bootstrap.checkpoint"] = checkpoint
    return {f"format/{path}": content for path, content in files.items()}
