"""Parts of a schedule that were not executed when the workload ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.execution.fault_phase import Load, goes_on, pause_after, unfinished
from ackproof.scenario.model import Scenario
from support.run_directories import small


@pytest.mark.parametrize(
    ("sent_all", "running", "done", "needs_sends", "on"),
    [
        (True, False, False, False, True),
        (True, True, False, False, True),  # it keeps a transaction open
        (True, True, True, False, False),
        (True, True, False, True, False),
        (False, True, True, False, True),  # of the tail
        (False, True, False, True, True),
        (False, False, False, False, False),
    ],
)
def test_a_schedule_goes_on_after_the_last_record_while_it_waits_for_the_cluster(
    sent_all: bool, running: bool, done: bool, needs_sends: bool, on: bool
) -> None:
    schedule: Any = SimpleNamespace(done=done, needs_sends=needs_sends)
    clients: Any = SimpleNamespace(has_sent_all=sent_all)
    assert goes_on(schedule, clients, running=running) is on


@pytest.mark.parametrize(
    ("used_s", "pause_s"),
    [(0.0001, 0.01), (0.002, 0.01), (0.03, 0.12), (2.0, 0.25)],  # 0.03 s: 1,000 partitions
)
def test_the_schedule_leaves_the_cpu_to_others_after_a_costly_look_at_the_cluster(
    used_s: float, pause_s: float
) -> None:
    assert pause_after(used_s) == pytest.approx(pause_s)


class Fault:
    name, target, when, heal_when = "alter_config", "all", "10 acked", "after 5s"


class Left:
    """A schedule whose workload ended: one fault in force, and one that never began."""

    held_back = ""
    waiting, unended = [Fault()], [Fault()]


@pytest.mark.parametrize(
    ("may_stop_for", "named"), [([], ["never began", "did not end"]), (["_FATAL"], ["never began"])]
)
def test_a_fault_may_remain_in_force_if_a_producer_may_stop(
    may_stop_for: list[str], named: list[str]
) -> None:
    scenario = Scenario.model_validate(small(workload={"may_stop_for": may_stop_for}))
    left: Any = Left()
    troubles = unfinished(left, scenario)
    assert [words for words in ("never began", "did not end") if words in str(troubles)] == named


def test_a_machine_that_cannot_keep_up_is_reported_once() -> None:
    load = Load(now=0, waited=0)
    quiet = (
        {"now": 2, "waited": 2, "late": 0.02},  # too early to tell
        {"now": 6, "waited": 6, "late": 0.02},  # clients start
        {"now": 12, "waited": 12, "late": 0.0005},  # a client uses all that is left
        {"now": 18, "waited": 12, "late": 0.02},  # nobody waits for a CPU
    )
    assert [load.tick(**tick) for tick in quiet] == [""] * len(quiet)
    assert load.tick(now=28, waited=21.7, late=0.02).startswith(
        "this machine cannot keep up: processes wait for a CPU in 97% of the time. Counts"
    )
    assert load.tick(now=38, waited=31.7, late=0.02) == ""
