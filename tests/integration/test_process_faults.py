"""Process faults on real brokers, observed by the other nodes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ackproof.cluster.booted import KafkaCluster
from ackproof_faults import Fault, FaultError
from ackproof_faults.process.stops import CrashLoop, KillCluster, OomKill, Pause, RollingRestart
from integration.faulting import in_force, recover
from kafka_clusters import NOTICED
from waiting import until

pytestmark = pytest.mark.cluster

PLACES = [("orders", n) for n in range(3)]

#: A pause of fewer seconds ends before the session expires.
SHORT_S = NOTICED["broker.session.timeout.ms"] / 1000 - 2


@pytest.fixture(autouse=True)
def _whole(cluster: KafkaCluster) -> None:
    """Start each test with full ISRs."""
    cluster.await_full_isr(PLACES)


def fencings(cluster: KafkaCluster, broker: int, folder: Path) -> int:
    """Return how many times the controller fenced the broker."""
    log = cluster.take_metadata_log(folder)
    return [one.state for one in log.brokers if one.broker == broker].count("fenced")


@pytest.mark.slow
def test_a_long_pause_gets_a_broker_fenced_and_a_short_one_does_not(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    def briefly() -> tuple[float, int]:
        """Return the longest pause in seconds, and how many times the broker was fenced."""
        before = fencings(cluster, 2, tmp_path)
        with in_force(cluster, Pause(target=2)) as guard:
            pass
        until(guard.recovered, "not resumed")
        assert guard.window.healed_at is not None
        frozen = guard.window.healed_at - guard.window.injected_at
        return frozen.total_seconds(), fencings(cluster, 2, tmp_path) - before

    # A machine that stands still itself makes the pause longer.
    _, fenced = until(briefly, good=lambda seen: seen[0] < SHORT_S)
    assert fenced == 0
    with in_force(cluster, Pause(target=2)) as guard:
        until(
            lambda: cluster.brokers_known_to(1),
            good=lambda listed: bool(listed) and 2 not in listed,
        )
    recover(cluster, guard)
    assert fencings(cluster, 2, tmp_path) > 0


@pytest.mark.slow
def test_a_broker_without_memory_is_killed_by_the_kernel(cluster: KafkaCluster) -> None:
    guard = in_force(cluster, OomKill(target="leader of orders-0"))
    (killed,) = guard.window.nodes
    assert not cluster.interfaces.metadata.answers(killed)
    recover(cluster, guard)


@pytest.mark.slow
def test_a_crash_loop_appears_as_registrations_in_the_metadata_log(cluster: KafkaCluster) -> None:
    began = datetime.now(UTC)
    guard = in_force(cluster, CrashLoop(target=3, times=3))
    assert not cluster.interfaces.metadata.answers(3)
    recover(cluster, guard)
    # One registration more, after heal.
    assert cluster.nodes[3].log_since(began).count("Starting log cleanup") >= 3


@pytest.mark.slow
@pytest.mark.parametrize(("stop", "wait"), [("clean", "isr"), ("hard", "none")])
def test_a_rolling_restart_restarts_every_broker(
    cluster: KafkaCluster, stop: str, wait: str
) -> None:
    began = datetime.now(UTC)
    fault = RollingRestart.model_validate(
        {"fault": "rolling_restart", "target": "all", "stop": stop, "wait": wait}
    )
    guard = in_force(cluster, fault)
    recover(cluster, guard)
    for number in (1, 2, 3):
        said = cluster.nodes[number].log_since(began)
        assert "Starting log cleanup" in said
        assert ("Terminating process due to signal SIGTERM" in said) == (stop == "clean")


@pytest.mark.slow
def test_all_brokers_are_killed_and_return(cluster: KafkaCluster) -> None:
    guard = in_force(cluster, KillCluster())
    assert not any(cluster.interfaces.metadata.answers(number) for number in (1, 2, 3))
    recover(cluster, guard)


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
def test_a_fault_that_was_not_injected_is_not_verified(cluster: KafkaCluster, fault: Fault) -> None:
    running = {1: None}  # exit status by broker, for `rolling_restart`
    with pytest.raises(FaultError):
        fault.verify(cluster.interfaces, [1], running)
