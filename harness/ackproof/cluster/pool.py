"""Provides the clusters of several runs: new, booted ahead, or reused.

A cluster is reused if the next run has the same image, version and `cluster:`, the previous run
ended without trouble, and its faults leave no trace after they are healed. Before that, its topics
are deleted, and `renewed` verifies that every node runs, every broker is unfenced, no packet
filter or queueing rule is left, and no broker remembers the high watermark of a deleted topic. A
cluster with consumer offsets or transactions is not reused, because those internal topics cannot be
deleted. Empty internal topics stay: every librdkafka consumer makes the brokers create them.

Broker epochs and producer ids continue, JVMs are warm, and the metadata log and the nodes' logs
contain the previous run (they are cut at the start of this run). This does not change verdicts. It
changes latencies, so a comparison boots a cluster for each configuration.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from docker import DockerClient
from docker.errors import DockerException
from requests import RequestException

from ackproof.cluster.booted import KafkaCluster, booted
from ackproof.containers.engine import connect
from ackproof.errors import AckproofError, ClusterError
from ackproof.machine import Say, silent
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.model import Scenario
from ackproof.scenario.topics import OF_COORDINATORS
from ackproof.waiting import wait_for
from ackproof_faults.evidence import FaultError

_WITHIN_S = 30.0

#: The high watermarks of a directory's partitions. A broker writes them every 5 s
#: (`replica.high.watermark.checkpoint.interval.ms`), unless the directory has no partition.
_CHECKPOINT = "replication-offset-checkpoint"
_CHECKPOINT_WITHIN_S = 7.0

#: A record of the controllers' log has the time of its batch, which may begin before this run
#: requests its topics (`controller.quorum.append.linger.ms` is 25).
_BATCH = timedelta(milliseconds=250)

#: Memory that the engine must have for each node before a second cluster is booted.
_BYTES_A_NODE = 1 << 30

#: Prints rules that a network fault may have left. `ip nat` is the engine's own table (its name
#: server), and `noqueue` is the queue of a device without rules.
_RULES = "nft list tables | grep -vx 'table ip nat'; tc qdisc show | grep -v ' noqueue ' || :"


@dataclass(slots=True, kw_only=True)
class Lease:
    """A cluster for a run, and its removal.

    `reused`: a previous run has used it. `reusable`: the run has ended without trouble.
    """

    cluster: KafkaCluster
    removal: contextlib.ExitStack
    reused: bool = False
    reusable: bool = False


class _Kind(NamedTuple):
    """Runs of the same kind can use the same cluster."""

    image: str
    kafka: str
    cluster: ClusterSpec


class ClusterPool(contextlib.AbstractContextManager["ClusterPool"]):
    """Provides the clusters of several runs, and removes them in a thread after each run.

    With `reuse` the next run uses the cluster of the previous run if possible. Without a client, it
    connects to the engine when the first cluster is needed. Leaving the context waits until every
    cluster is removed.
    """

    def __init__(
        self, client: DockerClient | None, *, reuse: bool = False, say: Say = silent
    ) -> None:
        self._client = client
        self._reuse = reuse
        self._say = say
        self._threads = ThreadPoolExecutor(max_workers=2)
        self._removals: list[Future[None]] = []
        self._leased: _Kind | None = None
        self._idle: tuple[_Kind, Lease] | None = None
        self._ahead: tuple[_Kind, Future[Lease]] | None = None
        #: Whether the next run's cluster is left up after the run.
        self.leave_up = False
        #: The cluster that was left up.
        self.left: KafkaCluster | None = None

    @contextlib.contextmanager
    def lease(self, scenario: Scenario, *, image: str, run_id: str, logs: Path) -> Iterator[Lease]:
        """Yield a cluster without topics; raise ClusterError if a node does not boot."""
        self._await_removals()
        kind = _Kind(image=image, kafka=scenario.kafka, cluster=scenario.cluster)
        lease = self._renewed(kind) or self._booted_ahead(kind) or self._boot(kind, run_id)
        lease.cluster.logs = logs
        self._leased = kind
        try:
            yield lease
        except BaseException:
            self._remove(lease)
            raise
        finally:
            self._leased = None
        if self.leave_up:
            lease.cluster.leave_up()
            self.left = lease.cluster
        if lease.reusable and self._reuse and not self.leave_up and leaves_no_trace(scenario):
            self._idle = kind, lease
        else:
            self._remove(lease)

    def boot_ahead(self, scenario: Scenario, *, run_id: str) -> None:
        """Boot the cluster of the next run in a thread, if it is of the leased cluster's kind.

        Call it when the current run measures nothing any more. The next run leases the cluster
        before it starts its clients, so no run is measured while a cluster boots.
        """
        kind = self._leased
        if kind is None or self._reuse or (scenario.kafka, scenario.cluster) != kind[1:]:
            return
        memory = (self._client or connect()).info().get("MemTotal", 0)
        if memory >= 2 * (kind.cluster.brokers + kind.cluster.controllers) * _BYTES_A_NODE:
            self._ahead = kind, self._threads.submit(self._boot, kind, run_id)

    def _boot(self, kind: _Kind, run_id: str) -> Lease:
        removal = contextlib.ExitStack()
        cluster = removal.enter_context(
            booted(
                kind.cluster,
                client=self._client or connect(),
                image=kind.image,
                run_id=run_id,
                kafka=kind.kafka,
            )
        )
        return Lease(cluster=cluster, removal=removal)

    def _booted_ahead(self, kind: _Kind) -> Lease | None:
        """Return the cluster that was booted ahead, if it booted and is of this kind."""
        if self._ahead is None:
            return None
        made, boot = self._ahead
        try:
            lease = boot.result()  # an interrupt here leaves it to `__exit__`
        except (AckproofError, DockerException, RequestException) as problem:
            self._ahead = None
            self._say(f"the cluster is booted again: {problem}")
            return None
        self._ahead = None
        if made == kind:
            return lease
        self._remove(lease)
        return None

    def _renewed(self, kind: _Kind) -> Lease | None:
        """Return the idle cluster, renewed; remove it and return None if that is not possible."""
        if self._idle is None:
            return None
        made, lease = self._idle
        if made == kind:
            try:
                renewed(lease.cluster)  # an interrupt here leaves it to `__exit__`
            except (ClusterError, FaultError) as problem:
                self._say(f"the cluster of the previous run is not reused: {problem}")
            else:
                self._idle = None
                lease.cluster.since = datetime.now(UTC) - _BATCH
                return Lease(cluster=lease.cluster, removal=lease.removal, reused=True)
        self._idle = None
        self._remove(lease)
        self._await_removals()
        return None

    def _remove(self, lease: Lease) -> None:
        self._removals.append(self._threads.submit(lease.removal.close))

    def _await_removals(self) -> None:
        while self._removals:
            self._removals.pop().result()

    def __exit__(self, *_: object) -> None:
        if self._idle is not None:
            self._remove(self._idle[1])
        if self._ahead is not None and self._ahead[1].exception() is None:
            self._remove(self._ahead[1].result())
        self._idle = self._ahead = None
        self._threads.shutdown()
        self._await_removals()


def leaves_no_trace(scenario: Scenario) -> bool:
    return scenario.cluster.reuse and all(fault.traceless for fault in scenario.every_fault)


def renewed(cluster: KafkaCluster) -> None:
    """Delete every topic and check the nodes, the brokers and the network rules.

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
        deleted = {topic for topic, _ in partitions} - OF_COORDINATORS
        cluster.admin.delete_topics(sorted(deleted))
        _await(
            lambda: {topic for topic, _ in cluster.partitions()} <= OF_COORDINATORS,
            "topics of the previous run still exist",
        )
        # A broker that is killed would take it for that of a new topic of the same name.
        _await(
            lambda: not any(deleted & _checkpointed(cluster, broker) for broker in brokers),
            "a broker remembers the high watermark of a deleted topic",
            within_s=_CHECKPOINT_WITHIN_S,
        )
        for check in checks:
            check.result()
    _await(
        lambda: all(cluster.brokers_known_to(broker) == set(brokers) for broker in brokers),
        "a broker is fenced",
    )


def _checkpointed(cluster: KafkaCluster, broker: int) -> set[str]:
    """Return the topics whose high watermark a broker reads after an unclean stop."""
    topics = set()
    node = cluster.nodes[broker]
    for directory in node.directories:
        with contextlib.suppress(ClusterError):  # not written yet
            lines = node.read_file(f"{directory}/{_CHECKPOINT}").decode().splitlines()
            topics |= {line.split()[0] for line in lines[2:]}  # after a version and a count
    return topics


def _is_empty(cluster: KafkaCluster, topic: str, partition: int) -> bool:
    """Whether a partition has never had a record, or its topic is not internal."""
    if topic not in OF_COORDINATORS:
        return True
    end = cluster.admin.log_end(topic, partition)
    return end is not None and end[0] == 0


def _require_no_rules(cluster: KafkaCluster, broker: int) -> None:
    result = cluster.interfaces.network.run(broker, _RULES)
    if result.exit_status != 0 or result.output.strip():
        raise ClusterError(f"broker {broker} has network rules left: {result.output.strip()}")


def _await(condition: Callable[[], bool], problem: str, *, within_s: float = _WITHIN_S) -> None:
    wait_for(
        condition,
        bool,
        within_s=within_s,
        failure=lambda _: ClusterError(f"{problem} after {within_s:g} s"),
    )
