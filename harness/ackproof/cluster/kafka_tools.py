"""Kafka's own command-line tools, run inside a node's container."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from ackproof.containers.images import CLASSPATH
from ackproof.errors import ClusterError

if TYPE_CHECKING:
    from ackproof.cluster.cluster import KafkaCluster
    from ackproof.cluster.node import KafkaNode

# Whether a class is in one of the jars; asking a JVM would take a second each.
_HAS = f'has() {{ grep -lsqF "${{1//.//}}.class" {CLASSPATH}.jar; }}'
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx128m"


def command(classes: tuple[str, ...], arguments: str) -> str:
    """Return a bash command that runs the first of `classes` there is; `arguments` are bash too.

    Tools moved from one package to another over the years; the newest place comes first.
    """
    *first, last = classes
    tries = "".join(f"if has {name}; then {_java(name, arguments)}; el" for name in first)
    return f"{_HAS}\n{tries}se {_java(last, arguments)}; fi" if first else _java(last, arguments)


def _java(name: str, arguments: str) -> str:
    return f"java {_JVM} -cp '{CLASSPATH}' {name} {arguments}"


def run(node: KafkaNode, classes: tuple[str, ...], *arguments: str) -> str:
    """Run a tool in the node's container and return what it printed.

    Raises ClusterError with the tool's words if it fails.
    """
    return run_script(node, command(classes, shlex.join(arguments)), classes[0].rpartition(".")[2])


def run_script(node: KafkaNode, script: str, name: str) -> str:
    """Run a bash script in the node's container; `name` is for the error message."""
    result: Any = node.container.exec_run(["bash", "-c", script], demux=True)
    output, errors = ((stream or b"").decode(errors="replace") for stream in result.output)
    if result.exit_code != 0:
        said = "\n".join((output + errors).strip().splitlines()[-8:])
        raise ClusterError(f"{name} at {node.spec.name} failed ({result.exit_code}): {said}")
    return str(output)


def running(cluster: KafkaCluster) -> list[int]:
    """Return the brokers that run and are not frozen."""
    return [
        broker
        for broker in cluster.broker_ids()
        if cluster.exit_status(broker) is None and not cluster.nodes[broker].paused()
    ]


def any_running(cluster: KafkaCluster) -> int:
    """Return a broker that runs; raise ClusterError if none does."""
    for broker in running(cluster):
        return broker
    raise ClusterError("no broker runs that Kafka's tools could ask")


def inside(cluster: KafkaCluster) -> str:
    """Return where tools inside the network begin."""
    node = cluster.nodes[any_running(cluster)]
    return f"{node.spec.name}:{cluster.port('INTERNAL')}"
