"""Kafka's own command-line tools, run inside a node's container."""

from __future__ import annotations

import shlex

from ackproof.cluster.node import KafkaNode
from ackproof.cluster.state import ClusterState
from ackproof.containers import commands
from ackproof.containers.images import CLASSPATH
from ackproof.errors import ClusterError

# Whether a class is in one of the jars. A JVM would take a second for each question.
_HAS = f'has() {{ grep -lsqF "${{1//.//}}.class" {CLASSPATH}.jar; }}'
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx128m"


def command(classes: tuple[str, ...], arguments: str) -> str:
    """Return a bash command that runs the first class that exists; `arguments` are bash, too.

    Tools have moved between packages. The newest package comes first.
    """
    *first, last = classes
    tries = "".join(f"if has {name}; then {_java(name, arguments)}; el" for name in first)
    return f"{_HAS}\n{tries}se {_java(last, arguments)}; fi" if first else _java(last, arguments)


def _java(name: str, arguments: str) -> str:
    return f"java {_JVM} -cp '{CLASSPATH}' {name} {arguments}"


def run(node: KafkaNode, classes: tuple[str, ...], *arguments: str) -> str:
    """Run a tool in the node's container and return its output.

    Raises ClusterError with the tool's last lines if it fails.
    """
    return run_script(node, command(classes, shlex.join(arguments)), classes[0].rpartition(".")[2])


def run_script(node: KafkaNode, script: str, name: str) -> str:
    """Run a bash script in the node's container; `name` is for the error message."""
    done = commands.run(node.container, ["bash", "-c", script])
    output, errors = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
    if done.exit_code != 0:
        last_lines = "\n".join((output + errors).strip().splitlines()[-8:])
        raise ClusterError(f"{name} at {node.spec.name} failed ({done.exit_code}): {last_lines}")
    return output


def run_at_a_broker(cluster: ClusterState, classes: tuple[str, ...], *arguments: str) -> str:
    """Run a tool at a running broker, with this broker as its `--bootstrap-server`."""
    node = a_running_broker(cluster)
    bootstrap = ("--bootstrap-server", internal_address(cluster, node))
    return run(node, classes, *bootstrap, *arguments)


def a_running_broker(cluster: ClusterState) -> KafkaNode:
    """Return a broker that runs and is not paused; raise ClusterError if there is none."""
    for broker in cluster.running_brokers():
        return cluster.nodes[broker]
    raise ClusterError("no broker is running, so Kafka's tools have no bootstrap server")


def internal_address(cluster: ClusterState, node: KafkaNode) -> str:
    """Return the node's INTERNAL listener as tools inside the network name it."""
    return f"{node.spec.name}:{cluster.topology.port('INTERNAL')}"
