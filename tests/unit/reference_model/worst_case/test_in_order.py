"""The search in the order of faults: what conditions, healing and applied elections exclude."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ackproof_model import (
    Configuration,
    Effect,
    Elects,
    ElrIs,
    Ends,
    FaultEvent,
    Injection,
    IsrSize,
    LateFetches,
    LateMetadata,
    LeaderIs,
    QuorumLost,
    Role,
    Stalls,
)
from ackproof_model.effects import Reassigns
from ackproof_model.worst_case.in_order import (
    Ordered,
    excludes_losses,
    search,
    unsupported,
)
from ackproof_model.worst_case.scheduled import METADATA_S, Key, Steps

SAFE = Configuration(
    kafka_version="4.4.0",
    acks="all",
    idempotence=True,
    retries=100,
    max_in_flight=5,
    replication_factor=3,
    min_insync_replicas=2,
)


def fault(*effects: Effect, target: int | Role = 0, **fields: Any) -> Injection:
    return Injection(
        fault="any",
        effects=effects,
        targets=frozenset({target}),
        **fields,
    )


def searched(*schedule: Injection, configuration: Configuration = SAFE) -> Ordered:
    assert not unsupported(configuration, schedule)
    found = search(configuration, schedule, max_states=60_000)
    assert found.complete
    return found


ORDER = fault(Reassigns(to=(2, 0, 1)))
ELECT = Elects(topic="orders", partition=0, unclean=False)
#: Replica 2 leads in between, ends, and the first leader ends after it.
ENDS = (fault(Ends(), target=2, heal_or_after=60.0), fault(Ends(), heal_or_after=60.0))


def elected(after: float, *, held: Effect | None = None) -> tuple[Injection, ...]:
    before = (fault(held, target=0),) if held else ()
    election = fault(ELECT, heal_or_after=after)
    first, last = ENDS
    ended = FaultEvent(fault=len(before) + 1, event="ended")
    return (ORDER, *before, election, replace(first, when=(ended,)), last)


@pytest.mark.parametrize(
    ("schedule", "lost"),
    [
        (elected(METADATA_S - 1), True),
        (elected(METADATA_S + 1), False),
        (elected(METADATA_S + 1, held=LateMetadata(brokers=(0,))), True),
        (elected(METADATA_S + 1, held=LateFetches(followers=(2,))), False),
        ((ORDER, *ENDS), False),
    ],
)
def test_a_leader_misses_an_election_unless_it_has_certainly_applied_it(
    schedule: tuple[Injection, ...], lost: bool
) -> None:
    assert searched(*schedule).lost is lost


def test_a_condition_on_the_leader_orders_what_happens() -> None:
    alone = replace(SAFE, replication_factor=1, min_insync_replicas=1)
    power = fault(Ends(log="empty"))
    assert searched(power, configuration=alone).lost
    never = replace(power, when=(LeaderIs(replica=0, equal=False),))
    assert not searched(never, configuration=alone).lost
    assert searched(replace(never, or_after=20.0), configuration=alone).lost


def test_a_condition_on_the_eligible_replicas_orders_what_happens() -> None:
    alone = replace(SAFE, replication_factor=1, min_insync_replicas=1)
    power = fault(Ends(log="empty"))
    none, one = (ElrIs(members=frozenset(members)) for members in ((), {0}))
    assert searched(replace(power, when=(none,)), configuration=alone).lost
    assert not searched(replace(power, when=(one,)), configuration=alone).lost


@pytest.mark.parametrize(("held", "most"), [(True, 1), (False, 2)])
def test_a_held_connection_lets_one_fetch_pass_that_was_on_its_way(held: bool, most: int) -> None:
    two = replace(SAFE, replication_factor=2)
    never = fault(Ends(), when=(ElrIs(members=frozenset({0})),))
    schedule = (fault(LateFetches(followers=(1,), held=held), target=0), never)
    assert passed(Steps(two, schedule), follower=1) == most
    unfollowed = (fault(LateFetches(followers=(0,), held=held), target=1), never)
    assert passed(Steps(two, unfollowed), follower=0) == 0
    healed = (replace(schedule[0], heal_when=(IsrSize(op="==", size=2),)), never)
    assert passed(Steps(two, healed), follower=1) == 2


def passed(steps: Steps, *, follower: int) -> int:
    """Return how often a follower fetches at most after the first fault has begun."""
    most: dict[Key, int] = {steps.start: 0}
    waiting = [steps.start]
    while waiting:
        key = waiting.pop()
        for label, after in steps.successors(key):
            counts = label[:2] == ("fetch", follower) and steps.read(key).progress.begun
            number = most[key] + bool(counts)
            if number > most.get(after, -1):
                most[after] = number
                waiting.append(after)
    return max(most.values())


def test_a_trace_names_the_faults_and_the_loss() -> None:
    alone = replace(SAFE, replication_factor=1, min_insync_replicas=1)
    trace = searched(fault(Ends(log="empty"), target=Role.LEADER), configuration=alone).trace
    assert "Fault 1 (any) begins." in trace
    assert trace[-1] == "A leads without record 1, which was acked: it is lost."


def test_a_loss_is_excluded_only_where_late_fetch_responses_cause_none() -> None:
    assert excludes_losses(SAFE)
    old = replace(SAFE, kafka_version="3.9.0")
    assert not excludes_losses(old)
    assert excludes_losses(replace(old, replication_factor=1, min_insync_replicas=1))


@pytest.mark.parametrize(
    ("configuration", "schedule"),
    [
        (replace(SAFE, acks="1", idempotence=False), ()),
        (replace(SAFE, kafka_version="2.8.2"), ()),
        (replace(SAFE, unclean_leader_election=True), ()),
        (SAFE, (fault(QuorumLost()),)),
        (SAFE, (fault(Ends(), target=Role.ANY_ONE),)),
        (SAFE, (fault(Stalls(), target=1), fault(Ends(clean=True)))),
        (SAFE, (fault(Reassigns(to=(5, 1, 2))),)),
    ],
)
def test_what_the_search_does_not_follow_is_refused(
    configuration: Configuration, schedule: tuple[Injection, ...]
) -> None:
    assert unsupported(configuration, schedule)
    with pytest.raises(ValueError, match="schedule has"):
        search(configuration, schedule, max_states=1)
