"""One cluster for several runs of a suite, where the next run cannot tell: else it is rebuilt.

A cluster is given on if the next run asks for the same image, version and `cluster:`, the run
before ended without trouble, and its faults are known to leave nothing behind once they are healed.
Before it is given on it is made like new, and that is verified: every node runs, every broker is
unfenced, no packet filter or queueing rule is left, and every topic of the run before is deleted. A
cluster that has come to hold consumer offsets or transactions is not given on: those topics cannot
be renewed.

What does carry over: broker and producer ids count on, JVMs are warm, and the metadata log and the
nodes' logs hold the run before (they are cut where this run begins). None of it can make a record
lost or safe, so verdicts stay comparable; latencies do not, and so a comparison boots each
configuration anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ackproof.cache import Say, silent
from ackproof.cluster.cluster import KafkaCluster, booted
from ackproof.containers import images
from ackproof.containers.engine import connect
from ackproof.errors import ClusterError
from ackproof.waiting import wait_for
from ackproof_faults import FaultError

if TYPE_CHECKING:
    from docker import DockerClient

    from ackproof.scenario.cluster import ClusterSpec
    from ackproof.scenario.model import Scenario

#: Topics in which Kafka keeps what outlives a client.
_STATEFUL = ("__consumer_offsets", "__transaction_state", "__share_group_state")

_WITHIN_S = 30.0

#: Prints what a network fault may have left. The table is the engine's own (its name server); a
#: network device without rules has no queue.
_RULES = "nft list tables | grep -vx 'table ip nat'; tc qdisc show | grep -v ' noqueue ' || :"


@dataclass(slots=True, kw_only=True)
class Lease:
    """A cluster for one run. `reused`: it has served a run before."""

    cluster: KafkaCluster
    reused: bool
    fit: bool = False

    def give_back(self) -> None:
        """Say that the run ended without trouble: the cluster may serve the next."""
        self.fit = True


class ClusterPool:
    """Keeps the cluster of the run before for the next, if it may have it; one at a time.

    With `reuse` off, every run gets a cluster of its own. Without a client the engine is asked for
    when a cluster is. Leaving the context removes what is kept.
    """

    def __init__(
        self, client: DockerClient | None, *, reuse: bool = False, say: Say = silent
    ) -> None:
        self._client = client
        self._reuse = reuse
        self._say = say
        self._kept: tuple[tuple[str, str, ClusterSpec], KafkaCluster] | None = None
        self._holding = contextlib.ExitStack()

    @contextlib.contextmanager
    def lease(self, scenario: Scenario, *, image: str, run_id: str, logs: Path) -> Iterator[Lease]:
        """Yield a cluster without topics; raise ClusterError if a node does not come up."""
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
                    sidecar=lambda: images.ensure_sidecar(client=engine),
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
        finally:
            if lease.fit and self._reuse and leaves_no_trace(scenario):
                self._kept = kind, cluster
            else:
                self.close()

    def _renewed(self, kind: tuple[str, str, ClusterSpec]) -> KafkaCluster | None:
        """Return the kept cluster, like new; None, and nothing kept, if it will not do."""
        if self._kept is not None and self._kept[0] == kind:
            _, cluster = self._kept
            self._kept = None
            try:
                renewed(cluster)
            except (ClusterError, FaultError) as problem:
                self._say(f"the cluster of the run before is not used again: {problem}")
            else:
                return cluster
        self.close()
        return None

    def close(self) -> None:
        """Remove the cluster that is kept, if there is one."""
        self._kept = None
        self._holding.close()

    def __enter__(self) -> Self:
        """Return the pool."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove what is kept."""
        self.close()


def leaves_no_trace(scenario: Scenario) -> bool:
    """Whether a run of this scenario leaves a cluster that the next cannot tell from a new one."""
    return scenario.cluster.reuse and all(fault.traceless for fault in scenario.every_fault)


def renewed(cluster: KafkaCluster) -> None:
    """Delete every topic and verify that the cluster is as healthy as a new one.

    Raises ClusterError with what is wrong, FaultError if the engine cannot say.
    """
    brokers = [broker.node_id for broker in cluster.topology.brokers]
    dead = [node.spec.name for node in cluster.nodes.values() if node.exit_status() is not None]
    if dead:
        raise ClusterError(f"{', '.join(dead)} does not run")
    with ThreadPoolExecutor(max_workers=len(brokers)) as pool:
        checks = [pool.submit(_require_no_rules, cluster, broker) for broker in brokers]
        topics = {topic for topic, _ in cluster.partitions()}
        if state := sorted(topics & set(_STATEFUL)):
            raise ClusterError(f"it holds {', '.join(state)}")
        cluster.admin.delete_topics(sorted(topics))
        _await(lambda: not cluster.partitions(), "topics of the run before are still there")
        for check in checks:
            check.result()
    _await(
        lambda: all(cluster.listed_by(broker) == set(brokers) for broker in brokers),
        "a broker is fenced",
    )


def _require_no_rules(cluster: KafkaCluster, broker: int) -> None:
    result = cluster.run_beside(broker, _RULES)
    if result.exit_status != 0 or result.output.strip():
        raise ClusterError(f"broker {broker} has network rules left: {result.output.strip()}")


def _await(condition: Callable[[], bool], problem: str) -> None:
    wait_for(
        condition,
        bool,
        within_s=_WITHIN_S,
        failure=lambda _: ClusterError(f"after {_WITHIN_S:g} s {problem}"),
    )
