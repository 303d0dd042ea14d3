"""Time to inject, verify, heal and recover from faults.

On an idle cluster of three brokers. Inject and heal times limit the timing of a schedule; verify
comes after them, and recovery is Kafka's own time. For comparison one `docker run --rm … true` is
measured on the same engine, the minimum cost of a fault in a sidecar.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ackproof.cluster.booted import KafkaCluster, booted
from ackproof.cluster.node_files import new_id
from ackproof.containers import commands, images
from ackproof.errors import ClusterError
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.topics import TopicSpec
from ackproof.waiting import wait_for
from ackproof_faults import Fault, FaultError, registered

if TYPE_CHECKING:
    from docker import DockerClient

_FAULTS: tuple[dict[str, object], ...] = (
    {"fault": "kill"},
    {"fault": "partition"},
    {"fault": "partition", "peers": "clients"},
    {"fault": "isolate_replication"},
    {"fault": "isolate"},
    {"fault": "pause"},
    {"fault": "reset_connections"},
    {"fault": "power_loss", "partitions": "orders-0", "last": 1},
)
_TARGET = 1
_RECOVER_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultTimes:
    """Seconds of every repetition of one fault."""

    fault: str
    inject_s: tuple[float, ...]
    verify_s: tuple[float, ...]
    heal_s: tuple[float, ...]
    recover_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultBench:
    """The times of all faults, and of an empty sidecar."""

    sidecar_s: tuple[float, ...]
    faults: tuple[FaultTimes, ...]

    def ratio(self, times: Sequence[float]) -> float:
        """Return the median divided by that of the empty sidecar."""
        return statistics.median(times) / statistics.median(self.sidecar_s)


def bench_faults(client: DockerClient, *, repetitions: int = 3) -> FaultBench:
    """Inject, verify and heal each fault; raise ClusterError if one cannot be verified."""
    image = images.ensure(client=client).reference
    run_id = f"bench-faults-{new_id()[:6].lower()}"
    with booted(
        ClusterSpec(settings={"broker.session.timeout.ms": 3000}),
        client=client,
        image=image,
        run_id=run_id,
    ) as cluster:
        cluster.create_topics({"orders": TopicSpec(assignment=[[1, 2, 3]])})
        run = partial(commands.run_sidecar, client, cluster.sidecar, "true", run_id=run_id)
        empty = [_seconds(partial(run, network_mode="none")) for _ in range(repetitions)]
        times = [_times(cluster, _fault(fields), repetitions) for fields in _FAULTS]
    return FaultBench(sidecar_s=tuple(empty), faults=tuple(times))


def _fault(fields: dict[str, object]) -> Fault:
    return registered()[str(fields["fault"])].model_validate({"target": _TARGET, **fields})


def _times(cluster: KafkaCluster, fault: Fault, repetitions: int) -> FaultTimes:
    times: list[tuple[float, float, float, float]] = []
    for _ in range(repetitions):
        _write(cluster)
        try:
            times.append(_repetition(cluster, fault))
        except FaultError as error:
            raise ClusterError(f"{fault.name}: {error}") from error
    peers = getattr(fault, "peers", None)
    inject, verify, heal, recover = zip(*times, strict=True)
    return FaultTimes(
        fault=f"{fault.name} from {peers}" if peers else fault.name,
        inject_s=inject,
        verify_s=verify,
        heal_s=heal,
        recover_s=recover,
    )


def _repetition(cluster: KafkaCluster, fault: Fault) -> tuple[float, float, float, float]:
    target, begin = [_TARGET], time.monotonic()
    done = fault.inject(cluster.interfaces, target)
    inject = time.monotonic() - begin
    return (
        inject,
        _seconds(lambda: fault.verify(cluster.interfaces, target, done)),
        _seconds(lambda: fault.heal(cluster.interfaces, target, done)),
        _seconds(lambda: _recover(cluster, fault, done)),
    )


def _write(cluster: KafkaCluster) -> None:
    """Write a record, so that a fault that removes records has one to remove."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    producer.produce("orders", b"x", partition=0)
    producer.flush(30)
    producer.close()


def _recover(cluster: KafkaCluster, fault: Fault, done: object) -> None:
    wait_for(
        lambda: fault.verify_healed(cluster.interfaces, [_TARGET], done),
        bool,
        within_s=_RECOVER_S,
        failure=lambda _: ClusterError(f"{fault.name} did not recover in {_RECOVER_S:g} s"),
    )
    cluster.await_full_isr([("orders", 0)])


def _seconds(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began
