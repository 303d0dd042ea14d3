from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ackproof_faults import (
    CommandResult,
    Fault,
    FaultError,
    inject,
)
from ackproof_faults.control import NoFault
from ackproof_faults.network.isolate_replication import IsolateReplication
from ackproof_faults.process.kill import Kill
from ackproof_faults.process.restart import Restart
from support.fake_cluster import FakeCluster


class Clock:
    """Moves on by one second each time it is read."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.mark.parametrize("kind", [Kill, Restart, IsolateReplication, NoFault])
def test_a_fault_that_holds_is_verified_healed_and_recovered_in_that_order(
    kind: type[Fault],
) -> None:
    cluster = FakeCluster()
    with inject(kind(target="leader of orders-0"), cluster, clock=Clock()) as guard:
        assert guard.window.verified
        assert guard.window.evidence
        assert not guard.recovered()
    assert guard.recovered()
    window = guard.window
    assert window.verified_at is not None
    assert window.healed_at is not None
    assert window.recovered_at is not None
    assert window.injected_at < window.verified_at < window.healed_at < window.recovered_at


@pytest.mark.parametrize("kind", [Kill, Restart, IsolateReplication, NoFault])
def test_healing_twice_is_a_no_op(kind: type[Fault]) -> None:
    cluster = FakeCluster()
    guard = inject(kind(target=1), cluster, clock=Clock())
    guard.heal()
    healed, actions = guard.window.healed_at, (len(cluster.done), len(cluster.scripts))
    guard.heal()
    assert guard.window.healed_at == healed
    assert (len(cluster.done), len(cluster.scripts)) == actions


def test_a_kill_that_the_broker_survives_is_not_verified() -> None:
    cluster = FakeCluster()
    cluster.processes.kill = lambda node: None
    guard = inject(Kill(target=1), cluster, clock=Clock())
    assert not guard.window.verified
    assert "still runs" in guard.window.evidence


@pytest.mark.parametrize("kind", [Kill, Restart])
def test_a_broker_that_is_already_down_is_not_verified(kind: type[Fault]) -> None:
    cluster = FakeCluster()
    cluster.processes.kill(1)
    guard = inject(kind(target=1), cluster, clock=Clock())
    assert not guard.window.verified
    assert "already down" in guard.window.evidence


def test_a_cut_without_other_brokers_is_not_verified() -> None:
    cluster = FakeCluster()
    cluster.processes.kill(2)
    cluster.processes.kill(3)
    guard = inject(IsolateReplication(target=1), cluster, clock=Clock())
    assert not guard.window.verified


def test_another_exit_status_is_not_a_verified_kill() -> None:
    guard = inject(Kill(target=1), FakeCluster(exit_of_kill=1), clock=Clock())
    assert not guard.window.verified
    assert "exit status 1" in guard.window.evidence


def test_a_restart_that_needed_sigkill_is_not_verified() -> None:
    guard = inject(Restart(target=1), FakeCluster(exit_of_term=137), clock=Clock())
    assert not guard.window.verified


def test_killed_brokers_are_started_again_and_recover_when_in_sync() -> None:
    cluster = FakeCluster(recovered=False)
    guard = inject(Kill(target=[1, 2]), cluster, clock=Clock())
    guard.heal()
    assert cluster.done == ["kill 1", "kill 2", "start 1", "start 2"]
    assert not guard.recovered()
    cluster.recovered = True
    assert guard.recovered()


def test_replication_is_cut_at_every_other_broker_and_in_both_directions() -> None:
    cluster = FakeCluster()
    inject(IsolateReplication(target=1), cluster, clock=Clock())
    rules = {broker: script for broker, script in cluster.scripts if "nft -f" in script}
    assert set(rules) == {2, 3}
    for script in rules.values():
        assert "ip daddr 10.0.0.1 tcp dport 9092 counter drop" in script
        assert "ip saddr 10.0.0.1 tcp sport 9092 counter drop" in script


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("internal=0\nexternal=0\n", "still reaches INTERNAL"),
        ("internal=124\nexternal=124\n", "more than replication is cut"),
    ],
)
def test_a_cut_without_effect_or_with_too_much_is_not_verified(said: str, why: str) -> None:
    fine = CommandResult(exit_status=0, output="")
    cluster = FakeCluster(says=[fine, fine, CommandResult(exit_status=0, output=said)])
    guard = inject(IsolateReplication(target=1), cluster, clock=Clock())
    assert not guard.window.verified
    assert why in guard.window.evidence


def test_rules_that_nft_refuses_are_not_verified() -> None:
    refusal = CommandResult(exit_status=1, output="Operation not permitted")
    guard = inject(IsolateReplication(target=1), FakeCluster(says=[refusal]), clock=Clock())
    assert not guard.window.verified
    assert "Operation not permitted" in guard.window.evidence


def test_a_cut_is_healed_only_at_running_brokers() -> None:
    cluster = FakeCluster()
    guard = inject(IsolateReplication(target=1), cluster, clock=Clock())
    cluster.processes.kill(2)
    cluster.scripts.clear()
    guard.heal()
    assert [broker for broker, _ in cluster.scripts] == [3]


def test_rules_that_stay_are_an_error() -> None:
    cluster = FakeCluster()
    guard = inject(IsolateReplication(target=1), cluster, clock=Clock())
    cluster.says = [CommandResult(exit_status=1, output="busy")]
    with pytest.raises(FaultError, match="busy"):
        guard.heal()
    assert guard.window.healed_at is None


def test_a_target_without_a_node_is_an_error() -> None:
    with pytest.raises(FaultError, match="names no broker"):
        inject(Kill(target="leader of orders-0"), FakeCluster(now_leader=None), clock=Clock())
