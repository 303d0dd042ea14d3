"""The search: packed states do what the specification does, reductions lose nothing, limits."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace

import pytest

from ackproof_model.adversary import AdversaryModel, Budgets, search
from ackproof_model.adversary.explorer import Explorer, Tails
from ackproof_model.adversary.state import initial
from ackproof_model.adversary.successors import lost, successors

MANY = Budgets(records=3, kills=2, power_losses=1, clean_stops=1, shrinks=1, fencings=1, in_all=4)
QUESTIONS = [
    AdversaryModel(kafka_version="4.1.0", budgets=MANY),
    AdversaryModel(kafka_version="3.9.1", budgets=MANY, min_insync_replicas=1),
    AdversaryModel(kafka_version="3.4.0", budgets=MANY, acks="1"),
    AdversaryModel(kafka_version="3.4.0", budgets=replace(MANY, outside_isr=True)),
    AdversaryModel(kafka_version="2.8.2", budgets=MANY, unclean_election=True),
    AdversaryModel(kafka_version="0.10.2", budgets=replace(MANY, records=2)),
    AdversaryModel(kafka_version="4.0.1", budgets=MANY, elr_enabled=True, replicas=2),
    AdversaryModel(kafka_version="4.3.1", budgets=replace(MANY, always_lagging=True)),
    AdversaryModel(kafka_version="2.8.2", budgets=replace(MANY, leader_moves=2), replicas=2),
    AdversaryModel(
        kafka_version="4.3.1", budgets=replace(MANY, reassignments=2), replicas=2, spare_brokers=2
    ),
    AdversaryModel(
        kafka_version="4.0.1",
        elr_enabled=True,
        budgets=replace(MANY, reassignments=3),
        replicas=2,
        spare_brokers=1,
        targets=((0,), (1, 2), (2, 0, 1)),
        min_insync_replicas=1,
        unclean_election=True,
        misses_epochs=True,
    ),
]


@pytest.mark.parametrize("model", QUESTIONS)
@pytest.mark.parametrize("reduction", [True, False])
def test_packed_states_lead_where_the_specification_says(model, reduction):
    model = replace(model, reduction=reduction)
    explorer, chance = Explorer(model), random.Random(7)
    level, compared = [explorer.start], 0
    for _ in range(25):
        following = set()
        for head, tail in chance.sample(level, min(25, len(level))):
            state = explorer.read(head, tail)
            assert explorer.pack(state) == (head, tail)
            found: Tails = defaultdict(set)
            losing = explorer.expand(head, [tail], found)
            assert losing == ([tail] if lost(state) else [])
            if not losing:
                reached = {(where, one) for where, tails in found.items() for one in tails}
                assert reached == {explorer.pack(one) for _, one in successors(model, state)}
                following |= reached
                compared += len(reached)
        level = sorted(following)
    assert compared > 500


def others_slow(first: str, *others: str) -> list[object]:
    """Return versions as parameters: the others repeat what the first checks."""
    return [first, *(pytest.param(version, marks=pytest.mark.slow) for version in others)]


@pytest.mark.parametrize("version", others_slow("3.9.1", "0.10.2", "2.8.2", "3.6.2", "4.1.0"))
@pytest.mark.parametrize("acks", ["1", "all"])
@pytest.mark.parametrize(
    "budgets",
    [
        *({"kills": 1}, {"power_losses": 1}, {"fencings": 1}, {"clean_stops": 1}),
        *({"leader_moves": 1}, {"clean_stops": 1, "shrinks": 1}),
    ],
)
@pytest.mark.parametrize("unclean", [False, True])
def test_reductions_change_no_answer(version, acks, budgets, unclean):
    model = AdversaryModel(
        kafka_version=version,
        acks=acks,
        replicas=2,
        min_insync_replicas=1,
        unclean_election=unclean,
        budgets=Budgets(records=1, **budgets),
    )
    reduced, whole = search(model), search(replace(model, reduction=False))
    assert len(reduced.trace) == len(whole.trace)
    assert reduced.states <= whole.states
    assert reduced.complete
    assert whole.complete


@pytest.mark.parametrize("version", others_slow("4.3.1", "3.7.2", "3.9.1", "4.1.0"))
@pytest.mark.parametrize("acks", ["1", "all"])
@pytest.mark.parametrize("budgets", [{"reassignments": 1, "kills": 1}, {"reassignments": 2}])
def test_reductions_change_no_answer_of_moves(version, acks, budgets):
    model = AdversaryModel(
        kafka_version=version,
        acks=acks,
        replicas=1,
        min_insync_replicas=1,
        spare_brokers=1,
        targets=((0,), (1,), (1, 0)),
        budgets=Budgets(records=1, **budgets),
    )
    reduced, whole = search(model), search(replace(model, reduction=False))
    assert len(reduced.trace) == len(whole.trace)
    assert reduced.states < whole.states
    assert reduced.complete
    assert whole.complete


@pytest.mark.parametrize(("version", "loses"), [("3.4.1", True), ("3.5.1", False)])
def test_before_3_5_a_power_loss_outside_the_isr_may_lose_records(version, loses):
    """KIP-903: a replica joins for what it had."""
    budgets = Budgets(kills=1, power_losses=1, shrinks=1)
    anywhere = AdversaryModel(kafka_version=version, budgets=budgets)
    assert search(anywhere).lost
    found = search(replace(anywhere, budgets=replace(budgets, outside_isr=True)))
    assert found.complete or found.lost
    assert found.lost is loses
    before = [initial(found.model), *(state for _, state in found.trace)]
    for (what, *names), state in zip((label for label, _ in found.trace), before, strict=False):
        assert what != "lose power" or not state.controller.isr >> names[0] & 1


@pytest.mark.parametrize(("minimum", "loses"), [(1, True), (2, False)])
def test_lag_without_end_allows_what_any_number_of_shrinks_allows(minimum, loses):
    model = AdversaryModel(kafka_version="4.3.1", min_insync_replicas=minimum, replicas=2)
    power = Budgets(power_losses=1)
    endless = search(replace(model, budgets=replace(power, always_lagging=True)))
    assert endless.complete or endless.lost
    for shrinks in (1, 3):
        counted = search(replace(model, budgets=replace(power, shrinks=shrinks)))
        assert counted.lost is endless.lost is loses
        assert len(counted.trace) == len(endless.trace)


@pytest.mark.parametrize(
    "model",
    [
        *(
            AdversaryModel(
                kafka_version="4.1.0", acks=acks, budgets=Budgets(records=2, kills=1, shrinks=1)
            )
            for acks in ("1", "all")
        ),
        pytest.param(
            AdversaryModel(
                kafka_version="4.3.1",
                replicas=2,
                spare_brokers=1,
                budgets=Budgets(reassignments=1, kills=1),
            ),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_several_processes_find_the_same(model):
    alone, shared = search(model), search(model, workers=2)
    assert shared.trace == alone.trace
    assert (shared.lost, shared.complete) == (alone.lost, alone.complete)
    if not alone.lost:
        assert (shared.states, shared.levels) == (alone.states, alone.levels)


def test_without_room_nothing_is_impossible():
    model = AdversaryModel(kafka_version="4.1.0", budgets=Budgets(kills=2))
    answer = search(model, max_states=100)
    assert (answer.lost, answer.complete, answer.impossible) == (False, False, False)
    assert "INCOMPLETE" in answer.scope


def test_the_scope_names_each_budget():
    answer = search(
        AdversaryModel(kafka_version="4.1.0", budgets=Budgets(records=2, clean_stops=1))
    )
    assert answer.impossible
    assert "3 replicas, 2 records; at most 1 clean stops, 1 in all;" in answer.scope


def test_every_trace_is_a_way():
    model = AdversaryModel(kafka_version="3.9.1", budgets=Budgets(power_losses=1, shrinks=2))
    answer = search(model)
    state = initial(model)
    for label, after in answer.trace:
        assert (label, after) in list(successors(model, state))
        state = after
    assert lost(state) == 1


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_search_may_start_in_any_state(workers):
    model = AdversaryModel(kafka_version="3.9.1", budgets=Budgets(power_losses=1, shrinks=2))
    whole = search(model)
    _, start = whole.trace[5]
    left = dict(zip(Budgets.KINDS, start.left, strict=False))
    rest = replace(model, start=start, budgets=Budgets(**left, in_all=start.left[-1]))
    assert search(rest, workers=workers).trace == whole.trace[6:]
    # One replica alone in the ISR loses what it acked with its power; a full ISR does not.
    once = replace(model, min_insync_replicas=1, budgets=Budgets(power_losses=1))
    full = initial(once)
    alone = full.controller._replace(isr=1)
    leader = full.brokers[0]._replace(isr=1)
    shrunk = full._replace(controller=alone, brokers=(leader, *full.brokers[1:]))
    assert search(once).impossible
    assert search(replace(once, start=shrunk), workers=workers).lost


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Budgets(kills=8), "kills is 8"),
        (lambda: Budgets(records=-1), "records is -1"),
        (lambda: Budgets(kills=5, shrinks=5), "10 perturbations in all"),
        (lambda: AdversaryModel(kafka_version="4.1.0", replicas=6), "replicas is 6"),
        (
            lambda: AdversaryModel(kafka_version="4.1.0", min_insync_replicas=0),
            "min_insync_replicas",
        ),
        (lambda: AdversaryModel(kafka_version="four"), "is not a version"),
    ],
)
def test_bad_questions_are_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong()


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(
    "model",
    [
        AdversaryModel(kafka_version="4.1.0", budgets=Budgets(records=2, kills=1, shrinks=1)),
        *(
            pytest.param(model, marks=pytest.mark.slow)
            for model in (
                AdversaryModel(kafka_version="3.9.1", budgets=Budgets(power_losses=1, shrinks=2)),
                AdversaryModel(
                    kafka_version="4.1.0", replicas=4, budgets=Budgets(kills=1, shrinks=1)
                ),
            )
        ),
    ],
)
def test_a_search_goes_on_where_it_stood(tmp_path, model, workers):
    whole = search(model, workers=workers)
    assert whole.states > 1000
    first = search(model, workers=workers, max_states=500, keep=tmp_path)
    assert (first.complete, first.lost) == (False, False)
    (kept,) = tmp_path.iterdir()
    written = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    told: list[int] = []
    second = search(
        model, workers=workers, keep=tmp_path, say=lambda level, states: told.append(level)
    )
    assert told[0] == first.levels + 1  # the levels before were not searched again
    assert all(path.stat().st_mtime_ns == at for path, at in written.items())
    assert replace(second, memory_bytes=0) == replace(whole, memory_bytes=0)
    again = search(model, workers=workers, keep=tmp_path)
    assert (again.states, again.levels, again.trace) == (whole.states, whole.levels, whole.trace)


def test_a_level_that_not_all_had_written_is_searched_again(tmp_path):
    model = AdversaryModel(kafka_version="4.1.0", budgets=Budgets(records=2, kills=1))
    whole = search(model, workers=2, keep=tmp_path)
    (kept,) = tmp_path.iterdir()
    last = max(int(path.name.split("-")[1]) for path in kept.iterdir())
    (kept / f"level-{last // 2}-1.jsonl").unlink()
    assert replace(search(model, workers=2, keep=tmp_path), memory_bytes=0) == replace(
        whole, memory_bytes=0
    )


def test_another_question_is_kept_elsewhere(tmp_path):
    for kills in (0, 1):
        model = AdversaryModel(kafka_version="4.1.0", budgets=Budgets(kills=kills))
        assert search(model, keep=tmp_path).states == search(model).states
    assert len(list(tmp_path.iterdir())) == 2


def test_a_damaged_level_is_not_taken_for_one(tmp_path):
    model = AdversaryModel(kafka_version="4.1.0", budgets=Budgets(kills=1))
    search(model, keep=tmp_path)
    (kept,) = tmp_path.iterdir()
    (kept / "level-1-0.jsonl").write_text("[]\n[1, ")
    with pytest.raises(ValueError, match="Expecting value"):
        search(model, keep=tmp_path)
