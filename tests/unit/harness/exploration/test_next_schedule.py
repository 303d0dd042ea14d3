"""Proposals: what they aim at, and that a stored exploration proposes the same again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from ackproof.exploration.examined import REPEATED, examined
from ackproof.exploration.folder import Folder
from ackproof.exploration.next_schedule import Strategy, Ways, next_schedule
from ackproof.exploration.results import (
    NOT_RUN,
    Proposal,
    Result,
    Results,
    Schedule,
    certain_pairs,
    counts,
)
from ackproof.runs.verdict import Finding
from ackproof_model.adversary import AdversaryModel, Budgets
from ackproof_model.planning import (
    CLIENT_HOLDS,
    Operation,
    OperationKind,
    Operations,
    Plan,
    carried_out,
    drawn,
    permitted,
    shortest_divergence,
    shortest_loss,
)
from unit.harness.exploration.explorations import opened, proposed_again, reached
from unit.reference_model.planning.schedules import (
    ELECTING,
    MISSED_EPOCH,
    in_time,
)


def ran(seed: int, results: Results, begun: list[Schedule], ways: Ways) -> Result:
    """Return the result of the next schedule on brokers that do what the planner expects."""
    known = counts(results)
    number = known.get(seed, 0) + len(begun)
    proposal = next_schedule(seed, number, results, begun=begun, ways=ways)
    plan = permitted(ways.model, proposal.schedule.operations)
    assert plan is not None
    passed = {pair for stage in plan.stages for pair in stage.pairs}
    return Result(
        seed=seed,
        number=number,
        known=known,
        proposal=proposal,
        verdict="holds",
        reason="",
        certain=tuple(sorted(passed & reached().pairs)),
        new=len(passed - certain_pairs(results)),
    )


def explored(path: Path, *, runs: int) -> tuple[Folder, Ways]:
    """Explore with two seeds in turn; each runs a schedule while its last is judged."""
    folder, ways = opened(path)
    judged: dict[int, Result] = {}
    for run in range(runs):
        seed = 3 + run % 2
        results = dict(folder.results())
        last = [judged[seed].proposal.schedule] if seed in judged else []
        result = ran(seed, results, last, ways)
        if seed in judged:
            folder.add(judged[seed])
        judged[seed] = result
    for result in judged.values():
        folder.add(result)
    return folder, ways


def test_the_first_schedules_aim_and_the_later_ones_mutate(tmp_path: Path) -> None:
    folder, ways = explored(tmp_path / "explored", runs=60)
    results = folder.results()
    assert len(results) == 60
    assert certain_pairs(results) >= frozenset().union(*ways.pairs.values())
    origins = [one.proposal.origin for one in results.values()]
    assert set(origins) >= {"aimed", "mutated"}
    assert results["3-00029"].proposal.origin == "mutated"
    parents = {one.proposal.parent for one in results.values() if one.proposal.parent}
    assert all(results[name].new for name in parents)
    mutated = [
        one.proposal.schedule for one in results.values() if one.proposal.origin == "mutated"
    ]
    assert max(Counter(mutated).values()) <= 2, "two processes may mutate at the same time"


def test_a_stored_exploration_proposes_the_same_again(tmp_path: Path) -> None:
    explored(tmp_path / "explored", runs=40)
    folder, ways = opened(tmp_path / "explored")
    results = folder.results()
    assert {one.seed for one in results.values()} == {3, 4}
    for result in results.values():
        again = proposed_again(result, results, ways)
        assert again == result.proposal, result.name


def test_other_results_and_other_seeds_lead_elsewhere(tmp_path: Path) -> None:
    _, ways = opened(tmp_path / "explored")
    first = ran(3, {}, [], ways)
    results = {first.name: first}
    assert first.proposal.origin == "aimed"
    then = [next_schedule(3, 1, known, begun=[], ways=ways) for known in ({}, results)]
    assert then[0] != then[1]
    proposals = {next_schedule(seed, 0, {}, begun=[], ways=ways) for seed in range(10)}
    assert len(proposals) > 1


def test_a_schedule_that_did_not_lead_to_its_pairs_is_left_after_some_tries(
    tmp_path: Path,
) -> None:
    _, ways = opened(tmp_path / "explored")
    results: dict[str, Result] = {}
    for _ in range(60):
        result = ran(0, results, [], ways)
        results[result.name] = result.model_copy(update={"certain": (), "new": 0})
    origins = Counter(one.proposal.origin for one in results.values())
    assert origins["drawn"], "there is nothing to mutate"
    tried = Counter(
        one.proposal.schedule.operations
        for one in results.values()
        if one.proposal.origin == "aimed"
    )
    assert tried.keys() == ways.pairs.keys()
    assert max(tried.values()) < 8


def test_a_run_that_does_not_count_stands_for_its_schedule(tmp_path: Path) -> None:
    """As with ZooKeeper: each pair is aimed at once, and then plans with more pairs are mutated."""
    _, ways = opened(tmp_path / "explored")
    results: dict[str, Result] = {}
    aims = list[Operations]()
    for _ in range(40):
        result = ran(0, results, [], ways)
        results[result.name] = result.model_copy(
            update={"certain": (), "new": 0, "not_counted": "there is no metadata log"}
        )
        if result.proposal.origin == "aimed":
            aims.append(result.proposal.schedule.operations)
    assert len(aims) == len(set(aims))
    assert frozenset().union(*map(ways.through, aims)) >= frozenset().union(*ways.pairs.values())
    last = results["0-00039"].proposal
    assert last.origin == "mutated"
    assert last.parent in results
    unrun = {name: one.model_copy(update={"verdict": NOT_RUN}) for name, one in results.items()}
    assert next_schedule(0, 40, unrun, begun=[], ways=ways).origin == "aimed"


def test_a_run_that_does_not_count_is_carried_out_in_the_model_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = AdversaryModel(kafka_version="2.6.2", budgets=Budgets(kills=1))
    ways = Ways(model=model, pairs={})
    results: dict[str, Result] = {}
    for number in range(20):
        operations = drawn(model, Random(number))
        proposal = Proposal(schedule=Schedule(operations=operations, records=5), origin="drawn")
        result = Result(
            seed=3, number=number, known={}, proposal=proposal, verdict="holds", reason=""
        )
        results[result.name] = result.model_copy(update={"not_counted": "no metadata log"})
    asked = Counter[Operations]()

    def counting(model: AdversaryModel, operations: Operations) -> Plan | None:
        asked[operations] += 1
        return carried_out(model, operations)

    monkeypatch.setattr("ackproof.exploration.next_schedule.carried_out", counting)
    for number in (20, 21):
        next_schedule(3, number, results, begun=[], ways=ways)
    assert asked == Counter({one.proposal.schedule.operations for one in results.values()})


def test_a_schedule_with_which_replicas_diverge_breaks_a_promise_whatever_the_settings() -> None:
    model = AdversaryModel(
        kafka_version="1.1.1",
        acks="1",
        replicas=2,
        min_insync_replicas=1,
        unclean_election=True,
        budgets=Budgets(kills=2),
    )
    diverging = shortest_divergence(model)
    losing = shortest_loss(model)
    assert diverging is not None
    assert losing is not None
    ways = Ways.of(model, [losing.operations, diverging.operations])
    assert ways.breaking == (diverging.operations,)
    first = next_schedule(3, 0, {}, begun=[], ways=ways)
    assert (first.origin, first.schedule.operations) == ("aimed", diverging.operations)


def test_what_loses_by_the_model_comes_first_and_not_forever() -> None:
    kept = Ways.of(ELECTING, [in_time(MISSED_EPOCH)])
    assert not kept.breaking
    ways = Ways.of(ELECTING, [in_time(MISSED_EPOCH), MISSED_EPOCH])
    assert ways.breaking == (MISSED_EPOCH,)
    results: dict[str, Result] = {}
    for number in range(4):
        proposal = next_schedule(3, number, results, begun=[], ways=ways)
        aimed = proposal.schedule.operations == MISSED_EPOCH
        assert (proposal.origin, aimed) == ("aimed", number < 3)
        result = Result(
            seed=3, number=number, known={}, proposal=proposal, verdict="holds", reason=""
        )
        results[result.name] = result
    first = (*MISSED_EPOCH[:-1], replace(MISSED_EPOCH[-1], settled=False))
    both = replace(ways, breaking=(first, MISSED_EPOCH))
    results = {}
    order = []
    for _ in range(4):
        result = ran(3, results, [], both)
        results[result.name] = result
        order.append(result.proposal.schedule.operations)
    assert order == [first, MISSED_EPOCH] * 2, "each once, then again"
    by_design = Ways.of(replace(ELECTING, unclean_election=True), [MISSED_EPOCH])
    assert not by_design.breaking, "Kafka promises nothing"


def test_a_blind_exploration_does_not_aim_at_losses_and_a_drawn_one_only_draws() -> None:
    directed = Ways.of(ELECTING, [MISSED_EPOCH, in_time(MISSED_EPOCH)])
    assert directed.by(Strategy.DIRECTED) == directed
    blind = directed.by(Strategy.BLIND)
    assert (blind.breaking, list(blind.pairs)) == ((), [in_time(MISSED_EPOCH)])
    first = next_schedule(3, 0, {}, begun=[], ways=blind)
    assert (first.origin, first.schedule.operations) == ("aimed", in_time(MISSED_EPOCH))

    found = ran(3, {}, [], blind).model_copy(update={"findings": (LOST,), "new": 5})
    origins = {
        strategy: {
            next_schedule(
                3, number, {found.name: found}, begun=[], ways=directed.by(strategy)
            ).origin
            for number in range(1, 20)
        }
        for strategy in Strategy
    }
    assert origins == {
        Strategy.DIRECTED: {"examined"},
        Strategy.BLIND: {"examined"},
        Strategy.DRAWN: {"drawn"},
    }


LOST = Finding(anomaly="lost", predicted="impossible", observed=3, explanation="3 are gone")


#: Brokers with a planted defect lose if a schedule has both.
NEEDED = (
    Operation(kind=OperationKind.KILL, broker=2),
    Operation(kind=OperationKind.WITHHOLD, broker=0, settled=False),
)
FIRST = Schedule(
    operations=(
        *NEEDED,
        Operation(kind=OperationKind.JOIN, broker=0, ends=OperationKind.WITHHOLD),
        Operation(kind=OperationKind.START, broker=2),
    ),
    records=20,
)


def found_out(ways: Ways, *, shows: Callable[[int], bool]) -> dict[str, Result]:
    """Explore from a result that found something, until nothing is left to examine."""
    results: dict[str, Result] = {}
    result = Result(
        seed=3,
        number=0,
        known={},
        proposal=Proposal(schedule=FIRST, origin="drawn"),
        verdict="violated",
        reason="",
        findings=(LOST,),
    )
    while not results or result.proposal.origin == "examined":
        results[result.name] = result
        result = ran(3, results, [], ways)
        if set(NEEDED) <= set(result.proposal.schedule.operations) and shows(result.number):
            result = result.model_copy(update={"findings": (LOST,)})
    return results


def test_a_finding_is_reduced_and_repeated_before_anything_else(tmp_path: Path) -> None:
    _, ways = opened(tmp_path / "explored")
    [found] = examined(ways.model, found_out(ways, shows=lambda _: True))
    assert found.schedule == Schedule(operations=NEEDED, records=20)
    assert (found.runs, found.shown, found.done) == (1 + REPEATED, 1 + REPEATED, True)

    [found] = examined(ways.model, found_out(ways, shows=lambda number: number % 2 == 0))
    assert found.schedule == Schedule(operations=NEEDED, records=20)
    assert found.shown < found.runs
    assert found.runs == 1 + REPEATED

    [found] = examined(ways.model, found_out(ways, shows=lambda _: False))
    assert found.schedule == FIRST
    assert (found.runs, found.shown, found.results) == (1 + REPEATED, 1, 1)


def test_a_schedule_that_runs_meanwhile_is_not_examined_again(tmp_path: Path) -> None:
    _, ways = opened(tmp_path / "explored")
    results = found_out(ways, shows=lambda _: True)
    del results[max(results)]
    [found] = examined(ways.model, results)
    assert not found.done
    assert next_schedule(3, 99, results, begun=[], ways=ways).origin == "examined"
    assert next_schedule(3, 99, results, begun=[found.schedule], ways=ways).origin != "examined"


def holding(ways: Ways) -> Ways:
    """Return the same ways for a scenario with transactions."""
    return Ways.of(ways.model, list(ways.pairs), CLIENT_HOLDS)


def test_what_holds_a_request_of_a_transaction_is_aimed_at_first_and_then_like_others(
    tmp_path: Path,
) -> None:
    _, without = opened(tmp_path / "explored")
    ways = holding(without)
    results: dict[str, Result] = {}
    for _ in range(80):
        result = ran(3, results, [], ways)
        results[result.name] = result
    schedules = [one.proposal.schedule.operations for one in results.values()]
    kinds = [[one.kind for one in operations] for operations in schedules]
    assert kinds[:6] == [[kind] for kind in CLIENT_HOLDS] * 3
    assert schedules.count(ways.holding[0]) == 3
    assert {kind for each in kinds[6:] for kind in each} >= {*CLIENT_HOLDS}, "by mutations"
    for result in results.values():
        assert proposed_again(result, results, ways) == result.proposal
    by = {strategy: ways.by(strategy) for strategy in Strategy}
    assert [bool(each.holding) for each in by.values()] == [True, False, False]
    assert all(each.holds == CLIENT_HOLDS for each in by.values())
    proposals = (next_schedule(3, number, {}, begun=[], ways=without) for number in range(40))
    asked = (one.kind for each in proposals for one in each.schedule.operations)
    assert {*asked}.isdisjoint(CLIENT_HOLDS)


def test_a_drawn_exploration_holds_requests_of_transactions(tmp_path: Path) -> None:
    _, without = opened(tmp_path / "explored")
    ways = holding(without).by(Strategy.DRAWN)
    proposals = (next_schedule(3, number, {}, begun=[], ways=ways) for number in range(60))
    assert {one.kind for each in proposals for one in each.schedule.operations} >= {*CLIENT_HOLDS}
