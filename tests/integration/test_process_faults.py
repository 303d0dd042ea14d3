"""Processes of real brokers frozen, starved, crashed and restarted; seen by the others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from docker import DockerClient

from ackproof.cluster.cluster import KafkaCluster
from ackproof.errors import ClusterError
from ackproof.observation import observer
from ackproof.scenario.model import ClusterSpec, TopicSpec
from ackproof.waiting import wait_for
from ackproof_faults import Fault, FaultError
from ackproof_faults.process.crash_loop import CrashLoop
from ackproof_faults.process.kill_cluster import KillCluster
from ackproof_faults.process.oom_kill import OomKill
from ackproof_faults.process.pause import Pause
from ackproof_faults.process.rolling_restart import RollingRestart
from integration.faulting import in_force, recover
from kafka_clusters import NOTICED, boot
from waiting import until

pytestmark = pytest.mark.cluster

PLACES = [("orders", n) for n in range(3)]

#: A pause of fewer seconds ends well before a session does.
SHORT_S = NOTICED["broker.session.timeout.ms"] / 1000 - 2


@pytest.fixture(scope="module")
def brokers(engine: DockerClient) -> Iterator[KafkaCluster]:
    """Three brokers whose sessions end soon."""
    with boot(engine, ClusterSpec(settings=NOTICED)) as cluster:
        cluster.create_topics({"orders": TopicSpec(partitions=3)})
        yield cluster


@pytest.fixture(autouse=True)
def _whole(brokers: KafkaCluster) -> None:
    """Begin each test with every ISR full."""
    brokers.await_full_isr(PLACES)


def fencings(cluster: KafkaCluster, broker: int, folder: Path) -> int:
    """Return how often the controller has fenced the broker."""
    log = observer.take_metadata_log(cluster, folder)
    return [one.state for one in log.brokers if one.broker == broker].count("fenced")


def test_a_long_pause_gets_a_broker_fenced_and_a_short_one_does_not(
    brokers: KafkaCluster, tmp_path: Path
) -> None:
    def briefly() -> tuple[float, int]:
        """Return for how many seconds it was frozen at the most, and how often it was fenced."""
        before = fencings(brokers, 2, tmp_path)
        with in_force(brokers, Pause(target=2)) as guard:
            pass
        until(guard.recovered, "not resumed")
        assert guard.window.healed_at is not None
        frozen = guard.window.healed_at - guard.window.injected_at
        return frozen.total_seconds(), fencings(brokers, 2, tmp_path) - before

    _, fenced = wait_for(
        briefly,
        lambda seen: seen[0] < SHORT_S,  # a machine that stands still itself makes it longer
        within_s=120,
        failure=lambda seen: ClusterError(f"no short pause, but one of {seen[0]:g} s"),
    )
    assert fenced == 0
    with in_force(brokers, Pause(target=2)) as guard:
        wait_for(
            lambda: brokers.brokers_known_to(1),
            lambda listed: bool(listed) and 2 not in listed,
            within_s=90,
            failure=lambda listed: ClusterError(f"not fenced: {listed}"),
        )
    recover(brokers, guard)
    assert fencings(brokers, 2, tmp_path) > 0


@pytest.mark.slow
def test_a_broker_without_memory_is_killed_by_the_kernel(brokers: KafkaCluster) -> None:
    guard = in_force(brokers, OomKill(target="leader of orders-0"))
    (killed,) = guard.window.nodes
    assert not brokers.interfaces.metadata.answers(killed)
    recover(brokers, guard)


@pytest.mark.slow
def test_a_crash_loop_has_as_many_lives_in_the_log(brokers: KafkaCluster) -> None:
    began = datetime.now(UTC)
    guard = in_force(brokers, CrashLoop(target=3, times=3))
    assert not brokers.interfaces.metadata.answers(3)
    recover(brokers, guard)
    # One life more: heal's.
    assert brokers.nodes[3].log_since(began).count("Starting log cleanup") >= 3


@pytest.mark.slow
@pytest.mark.parametrize(("stop", "wait"), [("clean", "isr"), ("hard", "none")])
def test_a_rolling_restart_gives_every_broker_a_new_life(
    brokers: KafkaCluster, stop: str, wait: str
) -> None:
    began = datetime.now(UTC)
    fault = RollingRestart.model_validate(
        {"fault": "rolling_restart", "target": "all", "stop": stop, "wait": wait}
    )
    guard = in_force(brokers, fault)
    recover(brokers, guard)
    for number in (1, 2, 3):
        said = brokers.nodes[number].log_since(began)
        assert "Starting log cleanup" in said
        assert ("Terminating process due to signal SIGTERM" in said) == (stop == "clean")


@pytest.mark.slow
def test_a_whole_cluster_dies_and_comes_back(brokers: KafkaCluster) -> None:
    guard = in_force(brokers, KillCluster())
    assert not any(brokers.interfaces.metadata.answers(number) for number in (1, 2, 3))
    recover(brokers, guard)


@pytest.mark.parametrize(
    "fault",
    [
        Pause(target=1),
        OomKill(target=1),
        CrashLoop(target=1),
        RollingRestart(target=1),
        KillCluster(),
    ],
    ids=lambda fault: fault.name,
)
def test_a_fault_that_was_not_injected_is_not_verified(brokers: KafkaCluster, fault: Fault) -> None:
    running = {1: None}  # exit status by broker, for `rolling_restart`
    with pytest.raises(FaultError):
        fault.verify(brokers.interfaces, [1], running)
