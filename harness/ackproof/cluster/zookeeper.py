"""ZooKeeper, for the Kafka versions that keep their metadata there.

ZooKeeper's jars are dependencies of Kafka, so its nodes run from the same image. The controller and
the leaders commit leaders and ISRs to znodes, which `ZooKeeperMetadata` reads. Brokers learn of an
ISR that a leader changed only seconds later (`ReplicaManager.maybePropagateIsrChanges`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ackproof.cluster.admin import PartitionView, TopicPartition
from ackproof.errors import ClusterError

if TYPE_CHECKING:
    from kazoo.client import KazooClient  # type: ignore[import-untyped]

CLIENT_PORT = 2181
_QUORUM_PORT, _ELECTION_PORT = 2888, 3888
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_ANSWER_S = 5.0
SNAPSHOT_DIR = "version-2"
"""Folder of transaction logs and snapshots in ZooKeeper's data directory."""

#: A killed broker stays registered until its session times out; a broker that starts earlier finds
#: its id registered and exits. The script therefore waits until the broker is no longer in
#: ZooKeeper's list of sessions and their ephemeral nodes (`dump`).
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


def properties(data_dir: str, hosts: Mapping[int, str]) -> str:
    """Return the text of a ZooKeeper node's configuration; `hosts` are all nodes by id.

    Transaction logs are not purged, so that they hold every change of the run.
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
    if len(hosts) > 1:
        lines += [
            f"server.{node_id}={host}:{_QUORUM_PORT}:{_ELECTION_PORT}"
            for node_id, host in hosts.items()
        ]
    return "\n".join(lines) + "\n"


class ZooKeeperMetadata:
    """The committed state of a Kafka cluster, read from its znodes."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._client: KazooClient | None = None

    def partitions(self) -> Mapping[TopicPartition, PartitionView]:
        """Return every partition of every topic; empty while ZooKeeper does not answer."""
        try:
            return self._partitions(self._connected())
        except _failures():
            return {}

    def _partitions(self, client: KazooClient) -> Mapping[TopicPartition, PartitionView]:
        from kazoo.exceptions import NoNodeError  # type: ignore[import-untyped]

        names = client.get_children_async("/brokers/topics").get(timeout=_ANSWER_S)
        requests = [client.get_async(f"/brokers/topics/{name}") for name in names]
        assigned = {
            (name, int(number)): tuple(replicas)
            for name, answer in zip(names, requests, strict=True)
            for number, replicas in json.loads(answer.get(timeout=_ANSWER_S)[0])[
                "partitions"
            ].items()
        }
        states = {partition: client.get_async(state_path(*partition)) for partition in assigned}
        found = {}
        for partition, answer in states.items():
            try:
                state = json.loads(answer.get(timeout=_ANSWER_S)[0])
            except NoNodeError:
                continue  # assigned but not yet created
            found[partition] = PartitionView(
                leader=None if state["leader"] < 0 else state["leader"],
                replicas=assigned[partition],
                isr=tuple(state["isr"]),
            )
        return found

    def _connected(self) -> KazooClient:
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import KazooTimeoutError  # type: ignore[import-untyped]

        if self._client is None:
            quiet = logging.getLogger("ackproof.zookeeper")
            quiet.setLevel(logging.CRITICAL)  # faults stop nodes on purpose
            client = KazooClient(self._servers, timeout=_ANSWER_S, logger=quiet)
            try:
                client.start(timeout=_ANSWER_S)
            except KazooTimeoutError as error:
                client.close()
                raise ClusterError(f"ZooKeeper at {self._servers} does not answer") from error
            self._client = client
        return self._client


def _failures() -> tuple[type[Exception], ...]:
    """Return the exceptions for a ZooKeeper that does not answer and for a missing znode."""
    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

    return (KazooException, KazooTimeoutError, ClusterError)


def state_path(topic: str, partition: int) -> str:
    """Return the znode that holds a partition's leader, leader epoch and ISR."""
    return f"/brokers/topics/{topic}/partitions/{partition}/state"
