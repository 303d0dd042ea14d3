"""Traces of one partition: what the rules lead to is explained, and what they do not is refuted."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from ackproof_model.replication.log_truncation import agreed, truncation_offset
from ackproof_model.validation.partition_replay import replay
from ackproof_model.validation.partition_trace import (
    Acked,
    Election,
    Ends,
    Fetches,
    Follows,
    Leads,
    Loads,
    Log,
    Shrinks,
    Step,
    Trace,
    Truncates,
)
from ackproof_model.validation.replication_rules import ReplicationRules
from specifications.partition_mutants import (
    ALL,
    BELOW_MIN,
    MIN_1,
    MUTANTS,
    RULES,
    WRONG,
    acked,
    add,
    alter,
    behind,
    drop,
    failover,
    log,
    mutations,
    one_ack,
    powerless,
    starts,
    together,
)
from specifications.wrong_rules import with_wrong


def idle() -> Trace:
    """Two elections, between which nothing is written."""
    final = log((0, 0), end=100)

    def moves(broker: int, epoch: int, leader: int) -> list[Step]:
        return [
            Follows(broker=broker, end=100, epoch=epoch, leader=leader),
            Fetches(broker=broker, end=100, epoch=epoch),
        ]

    def stops(broker: int) -> Loads:
        return Loads(broker=broker, end=100)

    def ends(broker: int) -> Ends:
        return Ends(broker=broker, end=100, log=final)

    return Trace(
        name="orders-0",
        elections=(
            Election(epoch=0, leader=1, isr=ALL),
            Election(epoch=1, leader=2, isr=(2, 3)),
            Election(epoch=1, leader=2, isr=ALL),
            Election(epoch=2, leader=3, isr=(1, 3)),
        ),
        brokers={
            1: (*starts(1), stops(1), *moves(1, 1, 2), *moves(1, 2, 3), ends(1)),
            2: (
                *starts(2),
                Leads(broker=2, end=100, epoch=1, isr=(2, 3), high_watermark=100),
                stops(2),
                *moves(2, 2, 3),
                ends(2),
            ),
            3: (
                *starts(3),
                *moves(3, 1, 2),
                Leads(broker=3, end=100, epoch=2, isr=(1, 3), high_watermark=100),
                ends(3),
            ),
        },
        acks=(Acked(offset=99, everyone=True, epoch=0, lost=False, first=3),),
    )


GOOD = {
    "idle": (idle, RULES),
    "failover": (failover, RULES),
    "one ack": (one_ack, RULES),
    "powerless": (powerless, ReplicationRules(min_isr=1)),
    "together": (together, RULES),
}


@pytest.mark.parametrize("life", GOOD)
def test_what_the_rules_lead_to_is_explained_to_its_end(life: str) -> None:
    make, rules = GOOD[life]
    found = replay(make(), rules)
    assert found.mismatch is None, str(found.mismatch)
    assert found.explained == found.total > 15


def test_every_kind_of_step_is_taken_by_some_trace() -> None:
    taken = {kind for make, rules in GOOD.values() for kind in replay(make(), rules).coverage}
    assert taken == {
        "ack by all in sync",
        "ack by the leader alone",
        "elected, or the ISR changed",
        "fetcher begins",
        "fetcher begins after a late append of the one before",
        "follows",
        "follows nobody",
        "leads",
        "leads again after a restart",
        "log in the end",
        "log loaded",
        "log loaded, shorter after a power loss",
        "shrinks the ISR",
        "truncates by epoch",
    }


@pytest.mark.parametrize("life", GOOD)
def test_the_order_in_which_brokers_are_heard_changes_nothing(life: str) -> None:
    make, rules = GOOD[life]
    trace, chance = make(), random.Random(1)
    for _ in range(200):
        late = {broker: chance.random() for broker in trace.brokers}
        shuffled = replace(
            trace,
            brokers={
                broker: tuple(replace(one, at=late[broker]) for one in steps)
                for broker, steps in trace.brokers.items()
            },
            elections=tuple(replace(one, at=chance.random()) for one in trace.elections),
        )
        assert replay(shuffled, rules).mismatch is None


@pytest.mark.parametrize("name", WRONG)
def test_what_the_rules_do_not_lead_to_is_refuted_by_one_guard(name: str) -> None:
    guard, make, rules, words = WRONG[name]
    found = replay(make(), rules)
    assert found.mismatch is not None
    assert re.search(words, str(found.mismatch)), str(found.mismatch)
    assert found.explained < found.total
    with with_wrong(MUTANTS[guard]):
        without = replay(make(), rules)
    assert without.mismatch is None, str(without.mismatch)


def test_each_guard_has_a_wrong_trace() -> None:
    assert {one.guard for one in mutations() if one.refuted} == set(MUTANTS)


@pytest.mark.parametrize(
    "trace",
    [
        behind(high_watermark=90),
        behind(isr=(1, 3)),  # broker 2 was not in the ISR: it is elected uncleanly
    ],
)
def test_only_a_member_of_the_isr_has_all_that_is_committed(trace: Trace) -> None:
    assert replay(trace, RULES).mismatch is None


def test_below_min_insync_replicas_the_high_watermark_moved_until_3_7() -> None:
    trace = replace(powerless(), acks=())
    assert "fewer than 2 in sync" in str(replay(trace, BELOW_MIN).mismatch)
    assert replay(trace, replace(BELOW_MIN, freeze=False)).mismatch is None


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (
            add(failover(), 1, 1, Leads(broker=1, end=5, epoch=0, isr=ALL)),
            "epoch 0 has begun, led by 1",
        ),
        (
            add(together(), 2, 3, Leads(broker=2, end=100, epoch=0, isr=ALL)),
            "it leads only as the controller has elected it",
        ),
        (
            add(
                alter(powerless(), 1, -1, end=75, log=log((0, 0), end=75)),
                *(1, 4, Loads(broker=1, end=75, lossy=True, before=90)),
                Leads(broker=1, end=75, epoch=2, isr=(1,)),
            ),
            "epoch 2 has begun at 80, which its log lacks",
        ),
        (add(failover(), 1, 2, Loads(broker=1, end=140)), "it has no leader to fetch from"),
        (add(failover(), 1, 1, Truncates(broker=1, end=0)), "only a follower that fetches"),
        (add(failover(), 1, 1, Fetches(broker=1, end=0, epoch=0)), "only as a follower in epoch 0"),
        (
            add(failover(), 3, 2, Shrinks(broker=3, end=0, high_watermark=0)),
            "only a leader asks",
        ),
        (
            replace(failover(), acks=(Acked(offset=5, everyone=True, epoch=1, lost=False),)),
            "it would have written that offset in epoch 0",
        ),
        (
            acked(failover(), offset=249, epoch=1, first=0, last=0),
            "it would have written that offset in epoch 0",
        ),
        (acked(failover(), first=2, last=1), "no leader could have acked it then"),
    ],
)
def test_a_step_out_of_place_is_refused(trace: Trace, words: str) -> None:
    assert words in str(replay(trace, RULES).mismatch)


def test_the_longest_part_that_fits_is_told_with_what_was_before_and_what_the_rules_allow() -> None:
    found = replay(alter(failover(), 1, 4, end=90), RULES)
    assert str(found.mismatch) == (
        "orders-0: broker 1 truncates to offset 90 (it was 0-129 of epoch 0, following in epoch "
        "1); by the rules: its leader has 0-99 of epoch 0, 100- of epoch 1, with which it agrees "
        "up to 100"
    )
    assert sum(found.coverage.values()) == found.explained > 8


def test_what_a_power_loss_took_may_have_been_acked_if_nobody_knows_how_much_it_was() -> None:
    unknown = acked(alter(powerless(), 1, 2, before=None), offset=5000)
    assert replay(unknown, MIN_1).mismatch is None
    known = acked(powerless(), offset=5000)
    assert "broker 1 reached 120" in str(replay(known, MIN_1).mismatch)


def test_of_a_disk_that_was_not_read_nothing_is_claimed() -> None:
    unread = drop(failover(), 2, -1)
    longer = alter(unread, 3, -1, end=260, log=log((0, 0), (1, 100), end=260))
    assert replay(longer, RULES).mismatch is None


def test_a_hundred_thousand_records_cost_no_more_than_ten() -> None:
    trace = failover()
    for broker in ALL:
        end = 100_000_000
        trace = alter(trace, broker, -1, end=end, log=log((0, 0), (1, 100), end=end))
    assert replay(trace, RULES).explained == replay(failover(), RULES).explained


def test_truncating_again_and_again_ends_where_two_logs_agree() -> None:
    chance = random.Random(7)
    for _ in range(3000):
        shared = sorted(chance.choices(range(3), k=chance.randint(0, 6)))
        leader = [*shared, *sorted(chance.choices((3, 5, 8), k=chance.randint(0, 5)))]
        follower = [*shared, *sorted(chance.choices((4, 6, 7), k=chance.randint(0, 5)))]
        log_ = of(follower)
        # A leader's epoch is above all that a follower has.
        epochs = (*of(leader).epochs, (9, len(leader)))
        while (kept := truncation_offset(epochs, len(leader), *log_)) < log_.end:
            log_ = log_.cut(kept)
        assert log_.end == agreed(tuple(leader), tuple(follower)) == len(shared)
        assert log_ == of(shared)


def of(records: list[int]) -> Log:
    """Return the log whose records have these epochs."""
    starts = {epoch: records.index(epoch) for epoch in dict.fromkeys(records)}
    return Log(tuple(starts.items()), len(records))
