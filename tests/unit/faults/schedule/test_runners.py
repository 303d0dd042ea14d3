from __future__ import annotations

from typing import Any

import pytest

from ackproof_faults import FaultError
from ackproof_faults.interfaces.kafka_proxy import Rule
from ackproof_faults.network.isolate_replication import IsolateReplication
from ackproof_faults.network.link import LinkFault
from ackproof_faults.process.stops import Kill
from ackproof_faults.schedule.blocks import ParallelBlock, SequenceBlock
from support.fake_cluster import FakeCluster
from support.recorded_schedules import World, begun, names


@pytest.mark.parametrize(
    ("fields", "acked", "seconds", "trigger"),
    [
        ({"when": "100 acked"}, 100, 0, "100 acked"),
        ({"when": "100 acked", "or_after": "5s"}, 0, 5, "after 5s"),
        ({"or_after": "5s"}, 0, 5, "after 5s"),
    ],
)
def test_a_fault_begins_on_its_condition_or_when_its_time_is_up(
    fields: dict[str, Any], acked: int, seconds: float, trigger: str
) -> None:
    """The next one waits for it."""
    world = World(acked=max(0, acked - 1))
    schedule = world.schedule(Kill(target=1, **fields), Kill(target=2))
    assert begun(world, schedule, max(0, seconds - 0.1)) == [0]
    assert "start of kill of broker 1" in schedule.waiting_for
    world.acked = acked
    assert begun(world, schedule, seconds) == [2]
    assert [window.trigger for window in schedule.windows] == [trigger, "at once"]


def test_waiting_for_names_unmet_and_unknown_conditions() -> None:
    world = World()
    world.acked = 7
    world.cluster.state.now_isr = [1, 2, 3]
    when = ["5 acked", "isr of orders-0 == 1"]
    schedule = world.schedule(Kill(target=1, when=when))
    schedule.tick()
    start = "the start of kill of broker 1 (isr of orders-0 == 1"
    assert schedule.waiting_for == f"{start} does not hold)"
    world.cluster.state.now_isr = None
    schedule.tick()
    assert schedule.waiting_for == f"{start} is unknown)"


@pytest.mark.parametrize(
    ("second", "needs"),
    [
        ({"when": "isr of orders-0 == 1"}, False),
        ({"when": ["isr of orders-0 == 1", "20 more acked"]}, True),
        ({"when": ["isr of orders-0 == 1", "20 acked"]}, False),  # they are acked
        ({"when": "20 more acked or leader of orders-0 changed"}, False),
        ({"when": "20 more acked", "or_after": "5s"}, False),
        ({"when": "20 more sent"}, True),
        ({"when": "kill ended"}, False),
    ],
)
def test_a_schedule_needs_sends_if_a_condition_cannot_hold_without(
    second: dict[str, Any], needs: bool
) -> None:
    world = World(acked=30)
    world.cluster.state.now_isr = [1, 2, 3]
    first = Kill(target=1, heal_when="isr of orders-0 == 2")
    schedule = world.schedule(first, Kill(target=2, **second))
    schedule.tick()
    assert len(schedule.windows) == 1
    assert schedule.needs_sends is needs
    in_branch = {"parallel": [first.model_copy(), Kill(target=2, **second)]}
    branches = world.schedule(ParallelBlock.model_validate(in_branch))
    branches.tick()
    assert branches.needs_sends is needs


@pytest.mark.parametrize(
    ("bound", "needs"), [({}, True), ({"repeat": 2}, False), ({"for": "1m"}, False)]
)
def test_an_endless_loop_ends_with_the_sends(bound: dict[str, Any], needs: bool) -> None:
    world = World(acked=30)
    kill = Kill(target=1, heal_after="5s")
    loop = SequenceBlock.model_validate({"sequence": [kill], "every": "1s", **bound})
    schedule = world.schedule(loop)
    schedule.tick()
    assert schedule.needs_sends is needs


def test_more_counts_from_the_verification_of_the_fault_before() -> None:
    world = World(acked=50)
    cut = IsolateReplication(target="leader of orders-0", when="50 acked")
    schedule = world.schedule(cut, Kill(target="leader of orders-0", when="10 more acked"))
    run = world.cluster.network.run

    def acks_while_injecting(broker: int, script: str) -> object:
        world.acked += 100  # acked while the cut is being put into force: not counted
        return run(broker, script)

    world.cluster.network.run = acks_while_injecting
    schedule.tick()
    schedule.tick()
    assert names(schedule) == ["isolate_replication"]
    world.acked += 10
    schedule.tick()
    assert names(schedule) == ["isolate_replication", "kill"]


@pytest.mark.parametrize("before", [1, None])
def test_fault_is_healed_when_the_leader_has_changed(before: int | None) -> None:
    """A leader that was unknown before the fault has not changed."""
    world = World(cluster=FakeCluster(now_leader=before))
    schedule = world.schedule(Kill(target=1, heal_when="leader of orders-0 changed"))
    for leader in (before, None, 1):
        world.cluster.now_leader = leader
        schedule.tick()
        assert schedule.windows[0].healed_at is None
    world.cluster.now_leader = 2
    schedule.tick()
    assert schedule.done is (before is not None)


def test_last_known_leader_is_used_while_the_leader_is_unknown() -> None:
    world = World()
    schedule = world.schedule(
        Kill(target=3), Kill(target=1, when="10 acked", heal_when="leader of orders-0 changed")
    )
    schedule.tick()
    world.cluster.now_leader = None
    world.acked = 10
    schedule.tick()
    assert len(schedule.windows) == 2
    world.cluster.now_leader = 1
    schedule.tick()
    assert schedule.windows[1].healed_at is None
    world.cluster.now_leader = 2
    schedule.tick()
    assert schedule.windows[1].healed_at is not None


def test_faults_with_unmet_heal_triggers_are_listed() -> None:
    world = World()
    schedule = world.schedule(Kill(target=1, heal_after="5s"))
    schedule.tick()
    assert [fault.name for fault in schedule.unended] == ["kill"]
    world.seconds = 5
    schedule.tick()
    assert schedule.unended == []


def test_a_fault_without_an_end_lasts_until_the_others_are_healed() -> None:
    world = World()
    cut = IsolateReplication(target=1)
    schedule = world.schedule(cut, Kill(target=1, heal_after="3s"))
    assert begun(world, schedule, 0) == [2]
    assert [window.healed_at for window in schedule.windows] == [None, None]
    world.seconds = 3
    schedule.tick()
    assert schedule.windows[1].healed_at is not None
    schedule.tick()
    assert schedule.windows[0].healed_at is not None


def test_a_schedule_is_not_done_before_everything_has_recovered() -> None:
    world = World(cluster=FakeCluster(recovered=False))
    schedule = world.schedule(Kill(target=1, heal_after="1s"))
    schedule.tick()
    assert schedule.in_force == ["kill of broker 1"]
    world.seconds = 1
    schedule.tick()
    assert not schedule.done
    assert schedule.in_force == []
    assert "recovery from kill of broker 1" in schedule.waiting_for
    world.cluster.recovered = True
    schedule.tick()
    assert schedule.done


def test_heal_all_heals_newest_first_and_cancels_waiting_faults() -> None:
    world = World()
    schedule = world.schedule(Kill(target=1), Kill(target=2), Kill(target=3, when="9 acked"))
    assert len(schedule.waiting) == 3
    schedule.tick()
    schedule.tick()
    world.cluster.done.clear()
    schedule.heal_all()
    assert world.cluster.done == ["start 2", "start 1"]
    world.acked = 9
    schedule.tick()
    assert names(schedule) == ["kill", "kill"]


def test_heal_all_tries_every_fault_before_it_raises() -> None:
    world = World()
    schedule = world.schedule(IsolateReplication(target=3), Kill(target=1), Kill(target=2))
    for _ in range(3):
        schedule.tick()
    start = world.cluster.processes.start

    def start_all_but_two(broker: int) -> None:
        if broker == 2:
            raise FaultError("no room")
        start(broker)

    world.cluster.processes.start = start_all_but_two
    with pytest.raises(FaultError, match="kill of broker 2: no room"):
        schedule.heal_all()
    assert "start 1" in world.cluster.done


def test_empty_schedule_is_done_at_once() -> None:
    schedule = World().schedule()
    schedule.tick()
    assert schedule.done
    assert schedule.waiting_for == "nothing"


class QuietProxy:
    """A proxy behind which no message passes until `messages` says so."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def add(self, rule: Rule) -> None: ...

    def remove(self, rule: Rule) -> None: ...

    def hits(self, rule: Rule, *, at_least: int, within_s: float) -> list[str]:
        return self.messages

    def held(self, rule: Rule) -> int:
        return 0


def held_fetches(**fields: Any) -> LinkFault:
    return LinkFault.model_validate(
        {"target": 1, "api": "Fetch", "direction": "request", "action": "hold", **fields}
    )


def test_a_fault_that_waits_for_its_first_message_does_not_hold_up_the_next() -> None:
    proxy = QuietProxy()
    world = World(cluster=FakeCluster(proxy=proxy))
    schedule = world.schedule(
        held_fetches(id="slow", within="20s", heal_after="2s"),
        Kill(target=2, id="gone", heal_after="1s"),
        Kill(target=3, when="slow began", heal_after="1s"),
    )
    assert begun(world, schedule, 5) == [2]
    assert schedule.windows[0].verified_at is None
    assert schedule.windows[0].healed_at is None
    assert (
        "first message of link" in schedule.waiting_for or "start of kill" in schedule.waiting_for
    )
    proxy.messages = ["Fetch v17 request 1"]
    schedule.tick()
    assert "Fetch v17 request 1" in schedule.windows[0].evidence
    assert names(schedule) == ["link", "kill", "kill"]
    world.seconds = 6.9
    schedule.tick()
    assert schedule.windows[0].healed_at is None  # two seconds after its first message
    world.seconds = 7
    schedule.tick()
    assert schedule.windows[0].healed_at is not None


def test_a_fault_without_a_message_is_not_verified_when_its_patience_or_the_run_is_over() -> None:
    world = World(cluster=FakeCluster(proxy=QuietProxy()))
    first, second = held_fetches(within="3s"), held_fetches(target=2, within="90s")
    schedule = world.schedule(first, second, Kill(target=3, heal_after="1s"))
    schedule.tick()
    world.seconds = 2
    schedule.tick()
    assert [window.evidence for window in schedule.windows[:2]] == ["", ""]
    world.seconds = 3
    schedule.tick()
    said = [window.evidence for window in schedule.windows[:2]]
    assert said[0].startswith("not verified: no Fetch request passed broker 1 within 3 s")
    assert said[1] == ""
    schedule.heal_all()
    assert schedule.windows[1].evidence.startswith("not verified")
    assert not any(window.verified for window in schedule.windows[:2])


def test_more_counts_from_the_first_message_unless_the_next_fault_has_begun_before() -> None:
    proxy = QuietProxy()
    world = World(cluster=FakeCluster(proxy=proxy), acked=50)
    schedule = world.schedule(held_fetches(), Kill(target=2, when="10 more acked"))
    schedule.tick()
    world.acked = 59
    proxy.messages = ["Fetch"]
    schedule.tick()
    world.acked = 68
    schedule.tick()
    assert names(schedule) == ["link"]
    world.acked = 69
    schedule.tick()
    assert names(schedule) == ["link", "kill"]
