"""The comparison of an audit's words with real brokers, as far as it needs no brokers."""

from __future__ import annotations

from dataclasses import replace

import audit_schedules
import audit_truth
import pytest
from audit_schedules import LOSES, SURVIVES, Drawn, Schedule

from ackproof.audit.replication import found_sets
from ackproof_model.perturbations import Counts
from ackproof_model.planning import Operation, OperationKind

SAFE = Drawn(
    kafka="3.8.1",
    replicas=3,
    minimum=2,
    acks="all",
    idempotence=True,
    unclean=False,
    racks=0,
)


def operations(*steps: tuple[OperationKind, int]) -> tuple[Operation, ...]:
    return tuple(Operation(kind=kind, broker=broker) for kind, broker in steps)


LAG_THEN_POWER = Schedule(
    operations=operations(
        (OperationKind.LAG, 1),
        (OperationKind.LOSE_POWER, 0),
        (OperationKind.START, 0),
    )
)


def test_draws_are_repeated_and_differ():
    drawn = [audit_schedules.draw(41, number) for number in range(40)]
    assert drawn == [audit_schedules.draw(41, number) for number in range(40)]
    assert len(set(drawn)) > 30
    assert all(one.minimum <= one.replicas for one in drawn)


def test_schedule_is_read_as_it_was_written():
    schedule = replace(LAG_THEN_POWER, extra="controllers", wiped=True)
    assert Schedule.of(schedule.document()) == schedule
    assert str(schedule) == "lag 2, lose power 1, start 1, disks wiped, controllers"
    document = schedule.document()
    for operation in document["operations"]:
        del operation["to"]  # as lines were stored before operations had it
    assert Schedule.of(document) == schedule


def test_a_budget_without_a_loss_has_no_schedule():
    drawn = replace(SAFE, minimum=1, replicas=2)
    question = audit_schedules.question_of(audit_schedules._setup(drawn))
    found = audit_schedules._realized(question, Counts(power_losses=1, shrinks=1))
    assert found is not None
    assert found.lost
    assert audit_schedules._realized(question, Counts(power_losses=1)) is None


@pytest.mark.parametrize(
    ("schedule", "replicas", "failures"),
    [
        pytest.param(LAG_THEN_POWER, 3, ("lag", "power_loss"), id="healing is no failure"),
        pytest.param(
            replace(LAG_THEN_POWER, wiped=True, extra="controllers"),
            3,
            ("controllers", "disk_replaced", "lag"),
            id="wiped, and controllers",
        ),
        pytest.param(
            Schedule(operations=operations(*((OperationKind.LAG, one) for one in (0, 1, 2)))),
            3,
            ("lag", "lag"),
            id="more followers than a topic has",
        ),
    ],
)
def test_schedule_makes_an_operators_failures(
    schedule: Schedule, replicas: int, failures: tuple[str, ...]
):
    assert schedule.failures(replicas) == failures


def test_same_schedule_loses_with_weak_settings_and_keeps_with_strong_ones():
    weak = audit_schedules.claim(replace(SAFE, minimum=1, replicas=2), LAG_THEN_POWER)
    assert weak is not None
    assert (weak.word, weak.failures) == (LOSES, ("lag", "power_loss"))
    assert weak.plan.lost
    strong = audit_schedules.claim(replace(SAFE, kafka="4.4.0"), LAG_THEN_POWER)
    assert strong is not None
    assert (strong.word, strong.contradicted) == (SURVIVES, False)


def test_operations_on_other_brokers_leave_a_topic_as_it_is():
    alone = replace(SAFE, replicas=1, minimum=1)
    assert audit_schedules.claim(alone, Schedule(operations=LAG_THEN_POWER.operations[:1])) is None
    said = audit_schedules.claim(alone, LAG_THEN_POWER)
    assert said is not None
    assert (said.word, said.failures) == (LOSES, ("power_loss",))
    start, lag, *_ = said.plan.stages
    assert (len(said.plan.stages), lag) == (4, start)


def test_lag_that_is_no_failure_of_a_schedule_says_nothing():
    withheld = (Operation(kind=OperationKind.WITHHOLD, broker=0), *LAG_THEN_POWER.operations[1:])
    weak = replace(SAFE, minimum=1, replicas=2)
    assert audit_schedules.claim(weak, LAG_THEN_POWER) is not None
    assert audit_schedules.claim(weak, Schedule(operations=withheld)) is None


@pytest.mark.parametrize(
    ("replicas", "racks", "failures"),
    [
        pytest.param(3, 2, ("crash", "rack"), id="two brokers of a rack"),
        pytest.param(3, 0, ("crash", "power_loss", "power_loss"), id="without racks"),
        pytest.param(2, 2, ("crash", "rack"), id="one broker of a rack"),
        pytest.param(1, 2, ("rack",), id="one replica"),
    ],
)
def test_brokers_that_lose_power_at_once_are_a_rack(
    replicas: int, racks: int, failures: tuple[str, ...]
):
    kill, lost = OperationKind.KILL, OperationKind.LOSE_POWER
    schedule = next(
        one for one in audit_schedules.of_racks("4.4.0") if one.operations[0].kind is kill
    )
    assert schedule.operations[1] == Operation(kind=lost, broker=0, settled=False)
    drawn = replace(SAFE, kafka="4.4.0", replicas=replicas, minimum=1, racks=racks)
    said = audit_schedules.claim(drawn, schedule)
    assert said is not None
    assert (said.word, said.failures) == (LOSES, failures)


def test_survived_set_that_loses_in_the_model_is_a_contradiction(monkeypatch: pytest.MonkeyPatch):
    def wrong(setup):
        found = found_sets(setup)
        return replace(found, losing=(), survived=(("lag", "power_loss"),))

    monkeypatch.setattr(audit_schedules, "found_sets", wrong)
    said = audit_schedules.claim(replace(SAFE, minimum=1, replicas=2), LAG_THEN_POWER)
    assert said is not None
    assert (said.word, said.contradicted) == (SURVIVES, True)


@pytest.mark.parametrize(
    ("lost", "still"),
    [
        pytest.param([], [LOSES, SURVIVES], id="not tried"),
        pytest.param([0], [LOSES], id="a loss that did not happen"),
        pytest.param([0, 0, 0], [], id="thrice"),
        pytest.param([7], [], id="lost"),
        pytest.param([None], [LOSES, SURVIVES], id="not read"),
    ],
)
def test_words_are_open_until_a_try_decides_them(lost: list[int | None], still: list[str]):
    said = audit_schedules.claim(replace(SAFE, minimum=1, replicas=2), LAG_THEN_POWER)
    assert said is not None
    claims = {number: replace(said, word=word) for number, word in enumerate((LOSES, SURVIVES))}
    tries = [{"number": number, "acked": 99, "lost": one} for number in claims for one in lost]
    assert [one.word for one in audit_truth.open_words(claims, tries).values()] == still


def test_table_counts_what_runs_showed():
    def run(number: int, word: str, lost: int | None, acked: int = 500):
        return {
            "number": number,
            "word": word,
            "failures": ["crash"],
            "acked": acked,
            "lost": lost,
        }

    tries = [
        [run(1, LOSES, 0), run(6, LOSES, 0)],
        [run(1, LOSES, 3)],
        [run(2, SURVIVES, 3), run(3, SURVIVES, 0)],
        [run(4, SURVIVES, None), run(5, SURVIVES, 0, acked=2)],
    ]
    results = [
        {"kafka": "4.4.0", "schedule": schedule, "tries": one}
        for schedule, one in zip("aabc", tries, strict=True)
    ]
    assert list(audit_truth.table(results)) == [
        "6 configurations, 3 schedules; 1 of 3 tries of a loss lost",
        "| word | failures | configurations | runs | lost | right | undecided |",
        "|---|---|---|---|---|---|---|",
        "| loses | all | 2 | 3 | 1 | 1 | 1 |",
        "| loses | crash | 2 | 3 | 1 | 1 | 1 |",
        "| survives | all | 2 | 2 | 1 | 1 | 2 |",
        "| survives | crash | 2 | 2 | 1 | 1 | 2 |",
    ]
