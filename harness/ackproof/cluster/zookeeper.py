"""The committed state of a Kafka cluster in ZooKeeper, for the versions that keep it there.

The controller and the leaders commit leaders and ISRs to znodes. Brokers learn of an ISR that a
leader changed only seconds later (`ReplicaManager.maybePropagateIsrChanges`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from kazoo.client import KazooClient  # type: ignore[import-untyped]
from kazoo.exceptions import KazooException, NoNodeError  # type: ignore[import-untyped]
from kazoo.handlers.threading import KazooTimeoutError  # type: ignore[import-untyped]

from ackproof.cluster.admin import PartitionView
from ackproof_faults.interfaces.cluster import TopicPartition

_ANSWER_S = 5.0


class ZooKeeperMetadata:
    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._client: KazooClient | None = None

    def partitions(self) -> Mapping[TopicPartition, PartitionView]:
        """Return every partition of every topic; empty while ZooKeeper does not answer."""
        try:
            return self._partitions(self._connected())
        except (KazooException, KazooTimeoutError):
            return {}

    def _partitions(self, client: KazooClient) -> Mapping[TopicPartition, PartitionView]:
        names = client.get_children_async("/brokers/topics").get(timeout=_ANSWER_S)
        requests = [client.get_async(f"/brokers/topics/{name}") for name in names]
        assigned = {
            (name, int(number)): tuple(replicas)
            for name, answer in zip(names, requests, strict=True)
            for number, replicas in json.loads(answer.get(timeout=_ANSWER_S)[0])[
                "partitions"
            ].items()
        }
        states = {
            (topic, number): client.get_async(f"/brokers/topics/{topic}/partitions/{number}/state")
            for topic, number in assigned
        }
        views = {}
        for partition, answer in states.items():
            try:
                state = json.loads(answer.get(timeout=_ANSWER_S)[0])
            except NoNodeError:
                continue  # assigned but not yet created
            views[partition] = PartitionView(
                leader=None if state["leader"] < 0 else state["leader"],
                replicas=assigned[partition],
                isr=tuple(state["isr"]),
            )
        return views

    def _connected(self) -> KazooClient:
        if self._client is None:
            quiet = logging.getLogger("ackproof.zookeeper")
            quiet.setLevel(logging.CRITICAL)  # faults stop nodes on purpose
            client = KazooClient(self._servers, timeout=_ANSWER_S, logger=quiet)
            try:
                client.start(timeout=_ANSWER_S)
            except KazooTimeoutError:
                client.close()
                raise
            self._client = client
        return self._client
