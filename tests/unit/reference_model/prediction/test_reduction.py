"""What is left out of the states once the final leader is known changes no answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ackproof_model import (
    AnyOf,
    Condition,
    Configuration,
    Elapsed,
    FaultEvent,
    Injection,
    IsrIs,
    LeaderChanged,
    Stalls,
)
from ackproof_model.prediction import reduction, stepping
from ackproof_model.prediction.availability import availability
from ackproof_model.prediction.model import Model
from ackproof_model.prediction.search import SEARCHED, explore
from ackproof_model.prediction.state import DROPPED
from ackproof_model.prediction.stepping import Stepping
from ackproof_model.replication.state import NOBODY
from unit.reference_model.schedules import (
    ACKED,
    KILL,
    LEADER,
    POWER_LOSS,
    SHUTDOWN,
    ZOMBIE,
    injection,
)

#: Of a follower: with a new leader epoch for each ISR, the leader learns of its own.
CUT_FOLLOWER = (replace(ZOMBIE[0], targets=frozenset({1}), heal_or_after=5.0),)


def limit_of_elr(stop: object, end: object = POWER_LOSS) -> tuple[Injection, ...]:
    """The last two in-sync replicas stop; the first one returns when the second recovered."""
    return (
        injection(
            "stop",
            stop,
            targets=frozenset({1}),
            when=(ACKED,),
            heal_when=(FaultEvent(fault=1, event="recovered"),),
        ),
        injection(
            "end",
            end,
            targets=frozenset({0}),
            when=(IsrIs(members=frozenset({0})),),
            heal_when=(FaultEvent(fault=2, event="began"),),
        ),
        injection("none", when=(Elapsed(seconds=8.0),), heal_or_after=1.0),
    )


TWO = {"replication_factor": 2, "min_insync_replicas": 1}
CASES = {
    "a zombie, acks=1": (ZOMBIE, {"acks": "1"}),
    "a zombie, acks=all": (ZOMBIE, {}),
    "a zombie, idempotent": (ZOMBIE, {"idempotence": True}),
    "a zombie, acks=0": (ZOMBIE, {"acks": "0"}),
    "a zombie, one retry": (ZOMBIE, {"retries": 1, "acks": "1", **TWO}),
    "a zombie on 3.9.1": (ZOMBIE, {"kafka_version": "3.9.1", **TWO}),
    "a zombie on 2.6.2": (ZOMBIE, {"kafka_version": "2.6.2", "acks": "1", **TWO}),
    "a follower is cut off on 2.6.2": (CUT_FOLLOWER, {"kafka_version": "2.6.2", "acks": "1"}),
    "a follower is cut off, acks=0": (
        CUT_FOLLOWER,
        {"kafka_version": "2.6.2", "acks": "0", **TWO},
    ),
    "a kill and a power loss": (limit_of_elr(KILL), TWO),
    "a kill and a power loss, acks=1": (
        limit_of_elr(KILL),
        {"acks": "1", "replication_factor": 2},
    ),
    "a clean stop and a power loss": (limit_of_elr(SHUTDOWN), {"idempotence": True, **TWO}),
    "two kills": (limit_of_elr(KILL, KILL), {"idempotence": True, **TWO}),
}

Configure = Callable[..., Configuration]


def answers(configure: Configure, case: str, *, reduction: bool = True) -> tuple[object, int]:
    """Return all that a prediction says of a case, and how many states were searched."""
    schedule, settings = CASES[case]
    configuration = configure(**({"session_timeout_s": 3.0, "kafka_version": "4.3.1"} | settings))
    model = Model(configuration, schedule, reduction=reduction)
    found = explore(model, max_states=150_000)
    assert found.complete
    counts = [(found.having[name] > 0, found.having[name] == found.final) for name in SEARCHED]
    told = counts, found.final > 0, found.stuck > 0, found.at_risk
    return (*told, availability(model, found.available)), found.states


#: Each has a shorter case beside it. `test_a_wrong_reduction_changes_an_answer` has the first, too.
LONG = {
    *("a zombie, acks=1", "a zombie, acks=all", "a zombie, acks=0", "a zombie, idempotent"),
    *("a kill and a power loss", "a clean stop and a power loss"),
}


@pytest.mark.parametrize(
    "case", [pytest.param(one, marks=[pytest.mark.slow] if one in LONG else []) for one in CASES]
)
def test_what_is_left_out_changes_no_answer(configure: Configure, case: str) -> None:
    told, states = answers(configure, case)
    whole, every = answers(configure, case, reduction=False)
    assert told == whole
    assert 2 * states < every


@pytest.mark.parametrize(
    ("module", "name", "wrong", "case"),
    [
        # The final log is left out although records may still come out of order.
        (
            reduction,
            "_first_open",
            lambda model, status: model.records,
            "a follower is cut off on 2.6.2",
        ),
        # An old leader forgets the record that it is to ack.
        (
            reduction,
            "_old_leader",
            lambda model, state, number: state.brokers[number]._replace(log=()),
            "a zombie, acks=1",
        ),
        # Records that are queued count as never sent.
        (
            stepping,
            "without_past_records",
            lambda model, client, past: client._replace(
                status=(DROPPED,) * past + client.status[past:]
            ),
            "a kill and a power loss, acks=1",
        ),
        # Nothing happens after the last fault.
        (
            stepping,
            "awaits_heals_only",
            lambda model, state: state.run.alone,
            "a kill and a power loss, acks=1",
        ),
    ],
)
def test_a_wrong_reduction_changes_an_answer(
    configure: Configure,
    monkeypatch: pytest.MonkeyPatch,
    *,
    module: object,
    name: str,
    wrong: object,
    case: str,
) -> None:
    told, _ = answers(configure, case)
    monkeypatch.setattr(module, name, wrong)
    assert answers(configure, case)[0] != told


#: Requests wait for brokers that are stalled, cut off or dead, and time out.
WAITING = (
    injection("pause", Stalls(), targets=LEADER, heal_or_after=60.0),
    injection("kill", KILL, targets=frozenset({1}), heal_or_after=60.0),
)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"acks": "1"},
        {"idempotence": True, "kafka_version": "2.6.2"},
        {"delivery_timeout_s": 20.0},
        {"retries": 1, "replication_factor": 2},
    ],
)
@pytest.mark.parametrize("schedule", [WAITING, ZOMBIE], ids=["stalled", "cut off"])
def test_shared_steps_are_those_of_the_rules(
    configure: Configure, schedule: tuple[Injection, ...], settings: dict[str, object]
) -> None:
    """A new `Stepping` shares nothing, so it runs the rules for its state alone."""
    configuration = configure(**({"session_timeout_s": 3.0, "kafka_version": "4.3.1"} | settings))
    shared = explore(Model(configuration, schedule), max_states=4_000).stepping

    def steps(stepping: Stepping, number: int) -> list[tuple[object, ...]]:
        return [
            (label, stepping.state(after), timer) for label, after, timer in stepping.steps(number)
        ]

    for number in range(0, len(shared.pairs), 5):
        alone = Stepping(Model(configuration, schedule))
        same = alone.number(*alone.pair(shared.state(number)))
        assert steps(shared, number) == steps(alone, same)


@pytest.mark.parametrize(
    ("heal_when", "when", "remembered"),
    [
        ((), (), set()),
        ((LeaderChanged(),), (), {0}),
        ((), (LeaderChanged(),), {0}),
        ((), (AnyOf(alternatives=(LeaderChanged(), Elapsed(seconds=5.0))),), {0}),
    ],
)
def test_the_leader_before_a_fault_is_remembered_where_a_condition_compares_it(
    configure: Configure,
    heal_when: tuple[Condition, ...],
    when: tuple[Condition, ...],
    remembered: set[int],
) -> None:
    schedule = (
        injection("first", KILL, targets=frozenset({0}), heal_when=heal_when),
        injection("none", when=when),
    )
    model = Model(configure(kafka_version="4.3.1"), schedule)
    assert model.compares_leader == remembered
    found = explore(model, max_states=5_000).stepping
    leaders = {found.state(n).run.leaders[:1] for n in range(len(found.pairs))} - {()}
    assert leaders == ({(0,)} if remembered else {(NOBODY,)})
