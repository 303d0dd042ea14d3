"""A comparison with fake trials: order, looks, failures, budget, resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ackproof.comparison import store as stored
from ackproof.comparison.compare import Comparison
from ackproof.comparison.store import ComparisonPlan, label, order, require_confirmed
from ackproof.comparison.summary import Summary
from ackproof.errors import ClusterError, RunDirectoryError, ScenarioError
from ackproof.scenario.loader import Configured, load
from support.fake_trials import ACKS, NAMES, SCENARIOS, FakeTrials, Loses, all_loses_nothing
from support.recorded_schedules import Quiet


def plan(**changes: object) -> ComparisonPlan:
    return ComparisonPlan.model_validate(
        {
            "comparison_id": "c",
            "configurations": NAMES,
            "seed": 1,
            "trials": 30,
            "confidence": 0.95,
            "margin": 0.2,
            **changes,
        }
    )


def compared(
    out: Path, loses: Loses, **changes: object
) -> tuple[FakeTrials, Summary, stored.ComparisonStore]:
    store = stored.create(out, plan(**changes), ACKS)
    fake = FakeTrials(loses, out=out)
    return fake, Comparison(store, fake, Quiet()).run(), store


def test_it_ends_when_every_pair_is_settled(tmp_path: Path) -> None:
    fake, summary, _ = compared(tmp_path, all_loses_nothing)
    assert summary.ended == "settled"
    assert len(fake.tried) < 90
    settled = {(pair.a, pair.b): pair.settled for pair in summary.pairs}
    assert settled[NAMES[0], NAMES[2]] == "different"
    assert settled[NAMES[0], NAMES[1]] == "alike"
    assert summary.cell(NAMES[2]).losing == 0
    assert summary.cell(NAMES[0]).lost is not None


def test_every_round_runs_each_configuration_once_in_a_reproducible_order(tmp_path: Path) -> None:
    """A trial gets the next configuration of its round."""
    orders = [order(plan(), NAMES, number) for number in range(1, 11)]
    assert all(sorted(names) == sorted(NAMES) for names in orders)
    assert len({tuple(names) for names in orders}) > 2
    assert orders == [order(plan(), NAMES, number) for number in range(1, 11)]
    fake, *_ = compared(tmp_path, all_loses_nothing, trials=2)
    assert [trial.scenario.seed for trial in fake.tried] == [1, 1, 1, 2, 2, 2]
    assert [trial.name for trial in fake.tried] == [*orders[0], *orders[1]]
    assert fake.following == [name for names in orders[:2] for name in [*names[1:], ""]]


def test_other_configurations_continue_after_a_failed_boot(tmp_path: Path) -> None:
    def loses(configured: Configured) -> int | Exception:
        if configured.name == "acks=0":
            return ClusterError("no quorum")
        return all_loses_nothing(configured)

    fake, summary, store = compared(tmp_path, loses)
    assert [trial.name for trial in fake.tried].count("acks=0") == 2
    assert summary.cell("acks=0").failed == 2
    assert summary.cell("acks=0").error == "no quorum"
    settled = {(pair.a, pair.b): pair.settled for pair in summary.pairs}
    assert settled[NAMES[1], NAMES[2]] == "different"
    assert len(list(store.results())) == len(fake.tried) - 2


def test_a_comparison_without_any_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no quorum"):
        compared(tmp_path, lambda _: ClusterError("no quorum"))


def test_inconclusive_trials_count_only_if_they_lost(tmp_path: Path) -> None:
    _, summary, _ = compared(tmp_path, lambda trial: -1 if "all" in trial.name else 5, trials=3)
    cell = summary.cell(NAMES[2])
    assert (cell.trials, cell.inconclusive) == (0, 3)
    assert (cell.lost_share_low, cell.lost_share_high) == (0.0, 1.0)


def test_a_spent_budget_ends_the_comparison_between_trials(tmp_path: Path) -> None:
    fake, summary, _ = compared(tmp_path, all_loses_nothing, budget_s=0.0)
    assert fake.tried == []
    assert summary.ended == "budget"


def test_a_resumed_comparison_has_the_result_of_an_uninterrupted_one(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()

    def now_and_then(trial: Configured) -> int:
        """Half of the early trials and all later trials lose, so looks differ."""
        seed = trial.scenario.seed
        return 100 if "all" not in trial.name and (seed > 6 or seed % 2) else 0

    whole, expected, _ = compared(tmp_path / "whole", now_and_then)

    def interrupted(trial: Configured) -> int | BaseException:
        return KeyboardInterrupt() if trial.scenario.seed == 11 else now_and_then(trial)

    store = stored.create(tmp_path / "cut", plan(), ACKS)
    first = FakeTrials(interrupted, out=tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        Comparison(store, first, Quiet()).run()
    trials = store.directory / "trials.jsonl"
    trials.write_text(trials.read_text() + '{"configuration": "acks=0", "rou')
    again = stored.resume(store.directory)
    second = FakeTrials(now_and_then, out=tmp_path / "cut")
    summary = Comparison(again, second, Quiet()).run()
    tried = [(trial.name, trial.scenario.seed) for trial in first.tried[:-1] + second.tried]
    assert tried == [(trial.name, trial.scenario.seed) for trial in whole.tried]
    assert [p.settled for p in summary.pairs] == [p.settled for p in expected.pairs]
    assert [p.p_value for p in summary.pairs] == [p.p_value for p in expected.pairs]
    assert len(list(again.results())) == len(whole.tried)


def test_trials_of_another_version_are_refused(tmp_path: Path) -> None:
    compared(tmp_path, lambda _: 0)
    [trials] = tmp_path.glob("*/trials.jsonl")
    lines = [json.loads(line) for line in trials.read_text().splitlines()]
    lines[1]["measures"]["availability"] = 0.5
    trials.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(
        RunDirectoryError, match=r"jsonl:2 is damaged, or of another version: .*avail"
    ):
        stored.resume(trials.parent)


def test_a_directory_without_a_plan_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match=r"no plan\.json"):
        stored.resume(tmp_path)


def test_a_long_comparison_must_be_confirmed(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"90 runs .* take up to"):
        require_confirmed(ACKS, plan(), out=tmp_path, yes=False)
    for confirmed in (plan(budget_s=60.0), plan(trials=1)):
        assert "take up to" in require_confirmed(ACKS, confirmed, out=tmp_path, yes=False)
    assert require_confirmed(ACKS, plan(), out=tmp_path, yes=True).startswith("90 runs")
    # One run of each cannot settle anything.
    for trials, less in ((1, False), (30, True)):
        several = plan().model_copy(update={"trials": trials})
        said = require_confirmed(ACKS, several, out=tmp_path, yes=True)
        assert ("if every pair" in said) == less


def test_labels_contain_the_scenario_only_if_there_are_several() -> None:
    assert [label(one, ACKS) for one in ACKS] == NAMES
    both = [*ACKS, *load(SCENARIOS / "versions.yaml")]
    assert label(both[0], both) == "acks: acks=0"
    assert label(load(SCENARIOS / "acks-all.yaml")[0], ACKS) == "acks-all"
