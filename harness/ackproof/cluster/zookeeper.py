"""ZooKeeper in the controller's place, for the Kafka versions that keep their metadata there.

Its jars are among Kafka's dependencies, so its nodes run from the same image. What it holds can be
asked from outside: `State` reads the znodes in which the controller and the leaders commit
leadership and ISR. Brokers hand out the same, but learn of an ISR that a leader changed only
seconds later (`ReplicaManager.maybePropagateIsrChanges`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ackproof.cluster.admin import PartitionView, TopicPartition
from ackproof.errors import ClusterError

if TYPE_CHECKING:
    from kazoo.client import KazooClient  # type: ignore[import-untyped]

    from ackproof.cluster.topology import NodeSpec

CLIENT_PORT = 2181
_QUORUM_PORT, _ELECTION_PORT = 2888, 3888
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
SNAPSHOT_DIR = "version-2"
"""Where in its data directory ZooKeeper keeps transaction logs and snapshots."""

#: A broker that was killed stays registered until its session times out, and one that comes back
#: earlier finds itself there and gives up. So it waits until ZooKeeper's list of sessions with
#: their ephemeral nodes no longer has it.
AWAIT_DEREGISTRATION = f"""
registered() {{
  for server in $ZOOKEEPERS; do
    timeout 2 bash -c "exec 3<>/dev/tcp/$server/{CLIENT_PORT} && echo dump >&3 && cat <&3" \\
      2> /dev/null | grep -qE "/brokers/ids/$NODE_ID\\$" && return 0
  done
  return 1
}}
while registered; do sleep 0.1; done
"""


def properties(data_dir: str, nodes: Sequence[NodeSpec]) -> str:
    """Return the text of a ZooKeeper node's configuration.

    Nothing is ever purged, so that the transaction log tells the whole story.
    """
    lines = [
        f"dataDir={data_dir}",
        f"clientPort={CLIENT_PORT}",
        "tickTime=2000",
        "initLimit=10",
        "syncLimit=5",
        "maxClientCnxns=0",
        "autopurge.purgeInterval=0",
        "preAllocSize=1024",  # KB of zeroes at the end of each log, not 64 MB
        "admin.enableServer=false",
        "4lw.commands.whitelist=dump,srvr",
    ]
    if len(nodes) > 1:
        lines += [
            f"server.{node.node_id}={node.name}:{_QUORUM_PORT}:{_ELECTION_PORT}" for node in nodes
        ]
    return "\n".join(lines) + "\n"


class State:
    """The committed state of a Kafka cluster, as its znodes have it."""

    def __init__(self, servers: str, *, timeout_s: float = 5.0) -> None:
        self._servers = servers
        self._timeout_s = timeout_s
        self._client: KazooClient | None = None

    def brokers(self) -> frozenset[int]:
        """Return the ids of registered brokers; empty while ZooKeeper does not answer."""
        try:
            answer = self._connected().get_children_async("/brokers/ids")
            return frozenset(map(int, answer.get(timeout=self._timeout_s)))
        except _unanswered():
            return frozenset()

    def partitions(self) -> Mapping[TopicPartition, PartitionView]:
        """Return every partition of every topic; empty while ZooKeeper does not answer."""
        try:
            return self._partitions(self._connected())
        except _unanswered():
            return {}

    def close(self) -> None:
        """End the session; the next question begins another."""
        if self._client is not None:
            self._client.stop()
            self._client.close()
            self._client = None

    def _partitions(self, client: KazooClient) -> Mapping[TopicPartition, PartitionView]:
        from kazoo.exceptions import NoNodeError  # type: ignore[import-untyped]

        names = client.get_children_async("/brokers/topics").get(timeout=self._timeout_s)
        asked = [client.get_async(f"/brokers/topics/{name}") for name in names]
        assigned = {
            (name, int(number)): tuple(replicas)
            for name, answer in zip(names, asked, strict=True)
            for number, replicas in json.loads(answer.get(timeout=self._timeout_s)[0])[
                "partitions"
            ].items()
        }
        states = {place: client.get_async(state_path(*place)) for place in assigned}
        found = {}
        for place, answer in states.items():
            try:
                state = json.loads(answer.get(timeout=self._timeout_s)[0])
            except NoNodeError:
                continue  # assigned, and not yet created
            found[place] = PartitionView(
                leader=None if state["leader"] < 0 else state["leader"],
                replicas=assigned[place],
                isr=tuple(state["isr"]),
            )
        return found

    def _connected(self) -> KazooClient:
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import KazooTimeoutError  # type: ignore[import-untyped]

        if self._client is None:
            quiet = logging.getLogger("ackproof.zookeeper")
            quiet.setLevel(logging.CRITICAL)  # that a node is down is what we asked for, not news
            client = KazooClient(self._servers, timeout=self._timeout_s, logger=quiet)
            try:
                client.start(timeout=self._timeout_s)
            except KazooTimeoutError as error:
                client.close()
                raise ClusterError(f"ZooKeeper at {self._servers} does not answer") from error
            self._client = client
        return self._client


def _unanswered() -> tuple[type[Exception], ...]:
    """Return what is raised when ZooKeeper does not answer, or does not have it."""
    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

    return (KazooException, KazooTimeoutError, ClusterError)


def state_path(topic: str, partition: int) -> str:
    """Return the znode that holds a partition's leader, leader epoch and ISR."""
    return f"/brokers/topics/{topic}/partitions/{partition}/state"
