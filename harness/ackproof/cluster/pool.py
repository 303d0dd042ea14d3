"""Reuses one cluster for several runs of a suite, where this cannot change their verdicts.

A cluster is reused if the next run has the same image, version and `cluster:`, the previous run
ended without trouble, and its faults leave no trace once they are healed. Before that, its topics
are deleted, and `renewed` verifies that every node runs, every broker is unfenced, and no packet
filter or queueing rule is left. A cluster with consumer offsets or transactions is not reused,
because those internal topics cannot be deleted. Empty ones stay: every librdkafka consumer makes
the brokers create them, also the one that reads the final log.

The following carries over: broker epochs and producer ids continue, JVMs are warm, and the metadata
log and the nodes' logs contain the previous run (they are cut at the start of this run). None of it
can make a record lost or safe, so verdicts stay comparable. Latencies do not, so a comparison boots
a cluster for each configuration.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.cache import Say, silent
from ackproof.cluster.boot import booted
from ackproof.cluster.cluster import KafkaCluster
from ackproof.containers.engine import connect
from ackproof.errors import ClusterError
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.model import Scenario
from ackproof.waiting import wait_for
from ackproof_faults.errors import FaultError

if TYPE_CHECKING:
    from docker import DockerClient


#: Internal topics, whose records are state that outlives a client.
_STATEFUL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

_WITHIN_S = 30.0

#: Prints what a network fault may have left. `ip nat` is the engine's own table (its name server),
#: and `noqueue` is the queue of a device without rules.
_RULES = "nft list tables | grep -vx 'table ip nat'; tc qdisc show | grep -v ' noqueue ' || :"


@dataclass(slots=True, kw_only=True)
class Lease:
    """A cluster for one run. `reused`: it has served another run before."""

    cluster: KafkaCluster
    reused: bool
    reusable: bool = False

    def allow_reuse(self) -> None:
        """Mark the run as ended without trouble, so that the cluster may be reused."""
        self.reusable = True


class ClusterPool(contextlib.AbstractContextManager["ClusterPool"]):
    """Keeps the cluster of the previous run for the next one; one cluster at a time.

    Without `reuse` every run gets a new cluster. Without a client, one is connected when the first
    cluster is needed. Leaving the context removes the kept cluster.
    """

    def __init__(
        self, client: DockerClient | None, *, reuse: bool = False, say: Say = silent
    ) -> None:
        self._client = client
        self._reuse = reuse
        self._say = say
        self._kept: tuple[tuple[str, str, ClusterSpec], KafkaCluster] | None = None
        self._holding = contextlib.ExitStack()
        #: Whether the next run's cluster is left up when the run has ended.
        self.leave_up = False
        #: The cluster that was left up.
        self.left: KafkaCluster | None = None

    @contextlib.contextmanager
    def lease(self, scenario: Scenario, *, image: str, run_id: str, logs: Path) -> Iterator[Lease]:
        """Yield a cluster without topics; raise ClusterError if a node does not boot."""
        kind = (image, scenario.kafka, scenario.cluster)
        cluster = self._renewed(kind)
        reused = cluster is not None
        if cluster is None:
            engine = self._client or connect()
            cluster = self._holding.enter_context(
                booted(
                    scenario.cluster,
                    client=engine,
                    image=image,
                    run_id=run_id,
                    kafka=scenario.kafka,
                    logs=logs,
                )
            )
        else:
            cluster.since = datetime.now(UTC)
            cluster.logs = logs
        lease = Lease(cluster=cluster, reused=reused)
        try:
            yield lease
        except BaseException:
            self.close()
            raise
        if self.leave_up:
            cluster.left_up = True
            self.left = cluster
            self.close()
        elif lease.reusable and self._reuse and leaves_no_trace(scenario):
            self._kept = kind, cluster
        else:
            self.close()

    def _renewed(self, kind: tuple[str, str, ClusterSpec]) -> KafkaCluster | None:
        """Return the kept cluster, renewed; remove it and return None if that is not possible."""
        if self._kept is not None and self._kept[0] == kind:
            _, cluster = self._kept
            self._kept = None
            try:
                renewed(cluster)
            except (ClusterError, FaultError) as problem:
                self._say(f"the cluster of the previous run is not reused: {problem}")
            else:
                return cluster
        self.close()
        return None

    def close(self) -> None:
        """Remove the kept cluster, if there is one."""
        self._kept = None
        self._holding.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def leaves_no_trace(scenario: Scenario) -> bool:
    """Whether a cluster can be reused after a run of this scenario."""
    return scenario.cluster.reuse and all(fault.traceless for fault in scenario.every_fault)


def renewed(cluster: KafkaCluster) -> None:
    """Delete every topic and verify that the cluster is as healthy as a new one.

    Raises ClusterError with the problem, FaultError if the engine does not answer.
    """
    brokers = cluster.broker_ids()
    dead = [node.spec.name for node in cluster.nodes.values() if node.exit_status() is not None]
    if dead:
        raise ClusterError(f"{', '.join(dead)} is not running")
    with ThreadPoolExecutor(max_workers=len(brokers)) as pool:
        checks = [pool.submit(_require_no_rules, cluster, broker) for broker in brokers]
        partitions = cluster.partitions()
        if state := sorted({topic for topic, n in partitions if not _is_empty(cluster, topic, n)}):
            raise ClusterError(f"it has state in the internal topics {', '.join(state)}")
        cluster.admin.delete_topics(sorted({topic for topic, _ in partitions} - _STATEFUL))
        _await(
            lambda: {topic for topic, _ in cluster.partitions()} <= _STATEFUL,
            "topics of the previous run still exist",
        )
        for check in checks:
            check.result()
    _await(
        lambda: all(cluster.brokers_known_to(broker) == set(brokers) for broker in brokers),
        "a broker is fenced",
    )


def _is_empty(cluster: KafkaCluster, topic: str, partition: int) -> bool:
    """Whether a partition has never held a record, or belongs to no internal topic."""
    if topic not in _STATEFUL:
        return True
    end = cluster.admin.log_end(topic, partition)
    return end is not None and end[0] == 0


def _require_no_rules(cluster: KafkaCluster, broker: int) -> None:
    result = cluster.interfaces.network.run(broker, _RULES)
    if result.exit_status != 0 or result.output.strip():
        raise ClusterError(f"broker {broker} has network rules left: {result.output.strip()}")


def _await(condition: Callable[[], bool], problem: str) -> None:
    wait_for(
        condition,
        bool,
        within_s=_WITHIN_S,
        failure=lambda _: ClusterError(f"{problem} after {_WITHIN_S:g} s"),
    )
