from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ackproof_faults import (
    CommandResult,
    Fault,
    FaultError,
    inject,
)
from ackproof_faults.control import NoFault
from ackproof_faults.network.isolate_replication import IsolateReplication
from ackproof_faults.process.stops import Kill, Restart
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


DOWN = {1: 137, 2: 137, 3: 137}


def answer(status: int, output: str) -> CommandResult:
    return CommandResult(exit_status=status, output=output)


@pytest.mark.parametrize(
    ("kind", "state", "why"),
    [
        (Kill, {"exit_of_kill": None}, "still runs"),
        (Kill, {"exit_of_kill": 1}, "exit status 1"),
        (Kill, {"exits": DOWN}, "already down"),
        (Restart, {"exits": DOWN}, "already down"),
        (Restart, {"exit_of_term": 137}, "not by a controlled shutdown"),
        (IsolateReplication, {"exits": DOWN | {1: None}}, "no other broker runs"),
        (IsolateReplication, {"says": [answer(1, "not permitted")]}, "not permitted"),
        (
            IsolateReplication,
            {"says": [answer(0, ""), answer(0, ""), answer(0, "internal=0\nexternal=0\n")]},
            "still reaches INTERNAL",
        ),
        (
            IsolateReplication,
            {"says": [answer(0, ""), answer(0, ""), answer(0, "internal=124\nexternal=124\n")]},
            "more than replication is cut",
        ),
    ],
)
def test_a_fault_without_its_effect_is_not_verified(
    kind: type[Fault], state: dict[str, Any], why: str
) -> None:
    guard = inject(kind(target=1), FakeCluster(**copy.deepcopy(state)), clock=Clock())
    assert not guard.window.verified
    assert why in guard.window.evidence


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
    cluster.says = [answer(1, "busy")]
    with pytest.raises(FaultError, match="busy"):
        guard.heal()
    assert guard.window.healed_at is None


def test_a_target_without_a_node_is_an_error() -> None:
    with pytest.raises(FaultError, match="names no broker"):
        inject(Kill(target="leader of orders-0"), FakeCluster(now_leader=None), clock=Clock())
