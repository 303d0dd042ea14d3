"""What Kafka promises, by settings, schedules and losses."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.exploration.guarantee import broken, promise, survivable
from ackproof.runs.verdict import Finding
from ackproof_model.adversary import AdversaryModel
from ackproof_model.coverage import Pair, Shape
from ackproof_model.planning import Operation, OperationKind, Operations, Plan, carried_out
from unit.reference_model.planning.schedules import OUTSIDE, REJOINED, REJOINING

KILLS = tuple(Operation(kind=OperationKind.KILL, broker=number) for number in range(3))
POWER = tuple(Operation(kind=OperationKind.LOSE_POWER, broker=number) for number in range(3))
START = tuple(Operation(kind=OperationKind.START, broker=number) for number in range(3))
#: With eligible leader replicas, and without.
ELR, OLDER = AdversaryModel(kafka_version="4.4.0"), AdversaryModel(kafka_version="3.4.1")


def plan_of(model: AdversaryModel, *operations: Operation) -> Plan:
    """Return the plan of operations that are possible where logs are not flushed."""
    plan = carried_out(replace(model, flush_every_record=False), operations)
    assert plan is not None
    return replace(plan, model=model)


def found_in(plan: Plan, verdict: Any, *certain: Pair) -> list[Finding]:
    return list(broken(plan, verdict, certain))


def lost(records: int, *cases: str, diverged: int | None = None) -> Any:
    causes = [SimpleNamespace(case=case) for case in cases]
    observed = {"lost": records} | ({} if diverged is None else {"diverged": diverged})
    return SimpleNamespace(
        observed=observed, predicted=dict.fromkeys(observed, "possible"), causes=causes
    )


@pytest.mark.parametrize(
    ("model", "operations", "cuts"),
    [
        (ELR, (), "no broker in sync"),
        (OLDER, KILLS, "no broker in sync"),
        (ELR, POWER[:1], "only 1 of 3 brokers"),
        (ELR, (POWER[0], START[0], POWER[0]), "only 1 of 3 brokers"),
        (replace(ELR, min_insync_replicas=3), POWER[:2], "only 2 of 3 brokers"),
        (replace(OLDER, flush_every_record=True), POWER, "no broker in sync"),
    ],
)
def test_a_loss_that_kafka_promises_not_to_have_is_found_though_predicted(
    model: AdversaryModel, operations: Operations, cuts: str
) -> None:
    [found] = found_in(plan_of(model, *operations), lost(7, "B31", "B14", "B14"))
    assert (found.anomaly, found.predicted, found.observed) == ("lost", "possible", 7)
    assert f"although {cuts} lost" in found.explanation
    assert found.explanation.endswith("(B14, B31)")


def test_a_loss_without_a_cause_says_so() -> None:
    [found] = found_in(plan_of(ELR, *KILLS), lost(1))
    assert found.explanation.endswith("(no known cause)")


@pytest.mark.parametrize(
    ("model", "operations", "records"),
    [
        (ELR, (), 0),
        (replace(ELR, acks="1"), KILLS, 7),
        (replace(ELR, unclean_election=True), KILLS, 7),
        (AdversaryModel(kafka_version="0.10.2.2"), KILLS, 7),  # unclean elections by default
        (ELR, POWER[:2], 7),
        (OLDER, POWER[:1], 7),
    ],
)
def test_other_losses_break_no_promise(
    model: AdversaryModel, operations: Operations, records: int
) -> None:
    assert not found_in(plan_of(model, *operations), lost(records, "B4"))


def test_replicas_in_sync_never_differ_whatever_the_settings() -> None:
    unclean = replace(OLDER, acks="1", unclean_election=True)
    plan = plan_of(unclean, *POWER)
    [found] = found_in(plan, lost(7, diverged=2))
    assert (found.anomaly, found.predicted, found.observed) == ("diverged", "possible", 2)
    assert not found_in(plan, lost(7, diverged=0))
    both = found_in(plan_of(OLDER, *KILLS), lost(7, diverged=2))
    assert [found.anomaly for found in both] == ["lost", "diverged"]


def test_a_replica_that_is_not_in_sync_may_lose_its_log() -> None:
    plan = plan_of(REJOINING, *REJOINED)
    assert promise(plan)
    [found] = found_in(plan, lost(7, "B31"), OUTSIDE)
    assert "although no broker in sync lost the end of a log (B31)" in found.explanation
    inside = OUTSIDE._replace(before=Shape(0, (0, 1, 2)), after=Shape(0, (0, 1, 2)))
    assert not found_in(plan, lost(7, "B31"), inside), "the run may have gone otherwise"
    assert not promise(plan_of(OLDER, *POWER[:1]))


def test_of_two_power_losses_in_one_shape_a_run_may_show_only_one() -> None:
    twice = plan_of(REJOINING, *REJOINED[:4], START[1], POWER[1])
    assert promise(twice)
    assert not found_in(twice, lost(7, "B31"), OUTSIDE)


def test_the_last_known_leader_may_not_lose_its_log() -> None:
    """It is elected once no replica is eligible."""
    returned = (KILLS[0], START[0], POWER[0])
    one = plan_of(ELR, KILLS[1], KILLS[2], *returned)
    now = one.stages[-1].plan_state.state.controller
    assert (now.isr, now.elr, now.last_known) == (0, 0b100, 0)
    [found] = found_in(one, lost(7))
    assert "only 1 of 3 brokers" in found.explanation
    assert not promise(plan_of(ELR, KILLS[1], POWER[2], *returned))


def test_replicas_in_sync_and_eligible_ones_may_not_all_lose_their_logs() -> None:
    late = [Operation(kind=OperationKind.LAG, broker=number) for number in (2, 1)]
    assert promise(plan_of(ELR, late[0], POWER[2], POWER[0])), "2 is neither"
    assert not promise(plan_of(ELR, *late, POWER[1], POWER[0])), "1 is eligible"


@pytest.mark.parametrize(
    ("model", "outside"),
    [(OLDER, True), (ELR, False), (replace(OLDER, flush_every_record=True), False)],
)
def test_only_outside_the_isr_is_a_power_loss_searched_that_kafka_promises_to_survive(
    model: AdversaryModel, *, outside: bool
) -> None:
    assert survivable(model).budgets.outside_isr is outside


@pytest.mark.parametrize("anomaly", ["aborted-read", "hanging-transaction"])
@pytest.mark.parametrize(("cuts", "found"), [((), 1), (POWER[:1], 1), (POWER[:2], 0)])
def test_transactions_end_as_their_producers_were_told_while_records_are_kept(
    anomaly: str, cuts: Operations, found: int
) -> None:
    own = lost(0)
    own.observed[anomaly], own.predicted[anomaly] = 20, "possible"
    findings = found_in(plan_of(ELR, *cuts), own)
    assert [(one.anomaly, one.observed) for one in findings] == [(anomaly, 20)] * found
    own.observed[anomaly] = 0
    assert not found_in(plan_of(ELR), own)
