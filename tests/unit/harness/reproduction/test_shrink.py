"""`shrink` with fake trials: candidates, exclusions by the model, end and resume."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ackproof.errors import ClusterError, RunDirectoryError
from ackproof.reproduction import reductions
from ackproof.reproduction.oracle import (
    LossOracle,
    Predict,
    ShrinkPlan,
    ShrinkStore,
    create,
    predict_briefly,
    resume,
)
from ackproof.reproduction.shrink import Shrink
from ackproof.reproduction.summary import ShrinkResult, answers_without, headline, write_story
from ackproof.runs.directory import PredictionRecord, write_model
from ackproof.runs.verdict import PredictionReport
from ackproof.scenario.loader import Configured, load
from ackproof.scenario.model import Scenario
from command_line import ackproof
from support.fake_trials import FakeTrials, verdict
from support.recorded_schedules import (
    RUN_ID,
    Quiet,
    World,
    play,
    scenario,
    store,
)

TWELVE = Path(__file__).parents[3] / "integration" / "twelve_steps.yaml"
#: Steps of it, by their ids in a replay: the leader is cut off, and then killed.
CULPRITS = {"step-6", "step-8"}

Loses = Callable[[Scenario], int | BaseException]


def twelve() -> Configured:
    """Return the twelve steps of a replay, with ids and absolute numbers of acks."""
    [configured] = load(TWELVE)
    faults = []
    for number, fault in enumerate(configured.scenario.faults):
        written = fault.model_dump(mode="json", by_alias=True)
        written |= {"id": f"step-{number + 1}", "when": [f"{200 * (number + 1)} acked"]}
        faults.append(written)
    document = configured.scenario.model_dump(mode="json", by_alias=True, exclude={"matrix"})
    again = Scenario.model_validate({**document, "faults": faults})
    return Configured(scenario=again, name="", varied={}, path=TWELVE)


def two_matter(one: Scenario) -> int:
    return 7 if {fault.id for fault in one.faults} >= CULPRITS else 0


def begun(
    tmp_path: Path, loses: Loses, *, trials: int = 3, losses: int = 2, of: Configured | None = None
) -> tuple[ShrinkStore, FakeTrials]:
    plan = ShrinkPlan(
        shrink_id="shrunk", run_id=RUN_ID, anomaly="lost", trials=trials, losses=losses
    )
    created = create(tmp_path, plan, of or twelve())
    made = FakeTrials(by_scenario(loses), out=created.directory / "runs")
    made.out.mkdir()
    return created, made


def by_scenario(loses: Loses) -> Callable[[Configured], int | BaseException]:
    return lambda configured: loses(configured.scenario)


def says(likelihood: Callable[[Scenario], str]) -> Predict:
    """Return a model that predicts this for loss, with a trace unless it is impossible."""

    def predict(one: Scenario) -> PredictionRecord:
        said = likelihood(one)
        trace = [] if said == "impossible" else ["a way"]
        report = PredictionReport(trace=trace, reasons={}, bounds="")
        return PredictionRecord.model_validate({"predicted": {"lost": said}, "prediction": report})

    return predict


#: Exact for up to two steps; for more it excludes nothing, like an unfinished search.
KNOWING = says(
    lambda one: "impossible" if len(one.faults) < 3 and not two_matter(one) else "possible"
)
IGNORANT = says(lambda one: "possible")


def shrunk(
    tmp_path: Path, loses: Loses, *, predict: Predict = KNOWING, **options: Any
) -> tuple[ShrinkResult, FakeTrials]:
    kept, made = begun(tmp_path, loses, **options)
    return Shrink(LossOracle(kept, made, Quiet(), predict=predict)).run(), made


def test_a_number_at_which_only_some_trials_lose_is_not_kept(tmp_path: Path) -> None:
    def mostly(one: Scenario) -> int:
        """With fewer records, two of three trials lose."""
        turns.append(one)
        fewer = (one.workload.records or 0) < 60_000
        return 0 if fewer and len(turns) % 3 == 0 else two_matter(one)

    turns: list[Scenario] = []
    result, _ = shrunk(tmp_path, mostly)
    assert result.ended == "minimal"
    assert "records" not in [change.what for change in result.changes]
    assert "tail" in [change.what for change in result.changes]
    assert (result.losing, result.trials) == (3, 3)


@pytest.mark.slow
def test_twelve_steps_are_reduced_to_the_two_that_are_needed(tmp_path: Path) -> None:
    """The first candidate of the real model has both steps."""
    result, made = shrunk(tmp_path, two_matter, predict=predict_briefly)
    assert (result.ended, set(result.kept)) == ("minimal", CULPRITS)
    assert [len(trial.scenario.faults) for trial in made.tried[:4]] == [12, 12, 2, 2]
    assert result.excluded >= 3, "no step, and each of the two alone, were not run"
    assert not any(len(trial.scenario.faults) == 1 for trial in made.tried)
    [minimal] = load(tmp_path / "shrunk" / "minimal.yaml")
    assert {fault.id for fault in minimal.scenario.faults} == CULPRITS
    assert two_matter(minimal.scenario)
    assert minimal.scenario.kafka == twelve().scenario.kafka


def test_delta_debugging_without_a_model_finds_the_same_steps(tmp_path: Path) -> None:
    guided, spared = shrunk(tmp_path / "guided", two_matter)
    result, made = shrunk(tmp_path / "unguided", two_matter, predict=IGNORANT)
    assert set(result.kept) == set(guided.kept) == CULPRITS
    assert result.excluded == 0
    assert len(made.tried) > len(spared.tried)
    for step, answer in answers_without(result).items():
        assert answer is not None, f"no answer for the steps without {step}"
        assert (answer.loses, answer.losing) == (False, 0)


def test_a_model_that_excludes_the_run_itself_excludes_no_candidate(tmp_path: Path) -> None:
    result, _ = shrunk(tmp_path, two_matter, predict=says(lambda _: "impossible"))
    assert set(result.kept) == CULPRITS
    assert result.excluded == 0
    assert "impossible for this run" in result.notes[0]


def test_a_wrong_first_guess_does_not_change_the_result(tmp_path: Path) -> None:
    def three_matter(one: Scenario) -> int:
        return int({fault.id for fault in one.faults} >= {*CULPRITS, "step-11"})

    result, _ = shrunk(tmp_path, three_matter)
    assert set(result.kept) == {*CULPRITS, "step-11"}


def test_numbers_are_reduced_while_the_scenario_still_loses(tmp_path: Path) -> None:
    def needs_time(one: Scenario) -> int:
        waits = {fault.id: fault.when[0].count for fault in one.faults}
        return 3 if two_matter(one) and waits["step-8"] - waits["step-6"] >= 150 else 0

    result, _ = shrunk(tmp_path, needs_time)
    [minimal] = load(tmp_path / "shrunk" / "minimal.yaml")
    first, second = (fault.when[0].count for fault in minimal.scenario.faults)
    assert first == 1
    assert 150 <= second - first < 400
    assert minimal.scenario.workload.tail == 0
    assert minimal.scenario.workload.records < 60000
    assert [change.what for change in result.changes][:1] == ["step-6 begins"]


def test_brokers_and_controllers_that_are_not_needed_are_removed(tmp_path: Path) -> None:
    configured = twelve()
    document = configured.scenario.model_dump(mode="json", by_alias=True, exclude={"matrix"})
    document["cluster"] |= {"brokers": 5, "controllers": 3}
    document["topics"]["orders"] |= {"assignment": [[5, 4, 3]]}
    big = Configured(
        scenario=Scenario.model_validate(document), name="", varied={}, path=configured.path
    )
    result, _ = shrunk(tmp_path, two_matter, of=big)
    [minimal] = load(tmp_path / "shrunk" / "minimal.yaml")
    assert (minimal.scenario.cluster.brokers, minimal.scenario.cluster.controllers) == (3, 1)
    assert minimal.scenario.topic.assignment == []
    assert {"brokers", "controllers"} <= {change.what for change in result.changes}
    assert "brokers: 1" not in {answer.what for answer in result.answers}, "fewer than replicas"


def test_conditions_on_a_removed_step_are_removed() -> None:
    first = {"fault": "kill", "target": 1, "id": "step-1", "heal_after": "1s"}
    second = {
        "fault": "kill",
        "target": 2,
        "id": "step-2",
        "when": ["50 acked", "step-1 recovered"],
        "heal_when": "step-1 ended",
    }
    both = scenario(first, second)
    alone = reductions.keep_steps(both, [1])
    assert alone is not None
    assert (str(alone.faults[0].when), str(alone.faults[0].heal_when)) == ("50 acked", "at once")
    assert reductions.keep_steps(both, [0, 1]) == both
    second["when"] = ["50 acked or step-1 recovered"]
    alone = reductions.keep_steps(scenario(first, second), [1])
    assert alone is not None
    assert str(alone.faults[0].when) == "50 acked"


def test_a_broker_that_a_fault_targets_is_kept(tmp_path: Path) -> None:
    document = scenario(
        {"fault": "kill", "target": 4, "id": "step-1", "heal_after": "1s"},
        cluster={"brokers": 5},
    )
    [brokers, _] = reductions.nodes(document)
    assert (brokers.value, brokers.least) == (5, 4)


@pytest.mark.parametrize(("losing", "enough"), [([0, 1, 1], True), ([1, 0], None)])
def test_trials_stop_once_the_answer_is_decided(
    losing: list[int], enough: bool | None, tmp_path: Path
) -> None:
    answers = iter([*losing, *([0] * 50)])
    result, made = shrunk(tmp_path, lambda _: next(answers, 0), trials=3, losses=2)
    first = result.answers[0]
    assert first.loses is (enough or False)
    assert first.trials == (len(losing) if enough else 3)
    assert len(made.tried) == result.trials_run


def test_a_replay_without_loss_ends_the_shrink(tmp_path: Path) -> None:
    result, made = shrunk(tmp_path, lambda _: 0)
    assert (result.ended, result.minimal, len(made.tried)) == ("not-again", None, 2)
    story = write_story(tmp_path / "shrunk", result).read_text()
    assert "did not reproduce lost records (lost in 0 of 2 trials)" in story


def test_rare_losses_of_other_candidates_do_not_change_the_result(tmp_path: Path) -> None:
    chance = random.Random(3)

    def noisy(one: Scenario) -> int:
        return two_matter(one) or int(chance.random() < 0.05)

    result, _ = shrunk(tmp_path, noisy, predict=IGNORANT, trials=5, losses=4)
    assert set(result.kept) >= CULPRITS


def test_a_spent_budget_ends_with_the_result_so_far(tmp_path: Path) -> None:
    kept, made = begun(tmp_path, two_matter)
    oracle = LossOracle(kept, made, Quiet(), deadline=float("-inf"), predict=KNOWING)
    result = Shrink(oracle).run()
    assert (result.ended, result.minimal, made.tried) == ("budget", None, [])


def test_an_interrupted_shrink_resumes_where_it_stopped(tmp_path: Path) -> None:
    kept, made = begun(tmp_path, two_matter)

    def interrupted(one: Scenario) -> int | BaseException:
        return KeyboardInterrupt() if len(made.tried) > 4 else two_matter(one)

    made.loses = by_scenario(interrupted)
    with pytest.raises(KeyboardInterrupt):
        Shrink(LossOracle(kept, made, Quiet(), predict=KNOWING)).run()
    stored = ShrinkResult.model_validate_json((kept.directory / "shrink.json").read_text())
    assert (stored.ended, set(stored.kept)) == ("interrupted", CULPRITS)
    again = resume(kept.directory)
    tried = len(made.tried)
    made.loses = by_scenario(two_matter)
    result = Shrink(LossOracle(again, made, Quiet(), predict=KNOWING)).run()
    assert result.ended == "minimal"
    assert all(len(trial.scenario.faults) == 2 for trial in made.tried[tried:]), (
        "a cached answer was computed again"
    )


def test_a_failed_trial_is_repeated_once_and_then_ends_the_shrink(tmp_path: Path) -> None:
    failures = iter([ClusterError("no quorum")])

    def once(one: Scenario) -> int | BaseException:
        return next(failures, None) or two_matter(one)

    result, _ = shrunk(tmp_path / "once", once)
    assert set(result.kept) == CULPRITS
    with pytest.raises(ClusterError, match="no quorum"):
        shrunk(tmp_path / "always", lambda _: ClusterError("no quorum"))


def test_the_story_lists_the_kept_steps_and_why_each_is_needed(tmp_path: Path) -> None:
    result, _ = shrunk(tmp_path, two_matter)
    story = write_story(tmp_path / "shrunk", result).read_text()
    assert headline(result) == "2 of 12 steps are enough: 3 of 3 trials had lost records."
    for part in (
        "No further step or number can be reduced.",
        "**step-6**: isolate_replication of leader of orders-0",
        "without it: impossible by the model, not run",
        "- step-1: none, 200 acked",
        "at least 2 of 3 trials do, smaller numbers only if all do",
        "ackproof run",
    ):
        assert part in story


# The command


@pytest.fixture
def losing_run(tmp_path: Path) -> Path:
    """Return a stored run of two kills that lost records."""
    kills = [{"fault": "kill", "target": one, "heal_after": "1s"} for one in (1, 2)]
    world, one = World(), scenario(*kills)
    rows = play(one, world)
    run_dir = store(tmp_path / RUN_ID, one, world.windows, rows)
    configured = Configured(scenario=one, name="", varied={}, path=TWELVE)
    write_model(run_dir / "verdict.json", verdict(configured, 1, RUN_ID, lost=5))
    return run_dir


@pytest.fixture
def shrink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.setattr("ackproof.containers.engine.connect", lambda: None)
    monkeypatch.setattr("ackproof.reproduction.oracle.predict", lambda one, **_: IGNORANT(one))

    def run(*arguments: str, loses: Loses = lambda one: len(one.faults)) -> int:
        made = FakeTrials(by_scenario(loses))

        def stand_in(*_: object, out: Path, **__: object) -> FakeTrials:
            made.out = out
            out.mkdir(exist_ok=True)
            return made

        monkeypatch.setattr("ackproof.trials.on_clusters", stand_in)
        return ackproof("shrink", *arguments, "--out", tmp_path)

    return run


def test_the_command_prints_the_story_or_json(
    shrink: Callable[..., int], losing_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shrink(losing_run.name, "--json", "--budget", "1h") == 0
    printed = json.loads(capsys.readouterr().out)
    assert len(printed["kept"]) == 1
    directory = Path(printed["directory"])
    assert load(directory / printed["minimal"])[0].scenario.name == "recorded-minimal"
    assert shrink("--resume", str(directory)) == 0
    assert "1 of 2 steps is enough" in capsys.readouterr().out


def test_a_replay_without_loss_is_inconclusive(
    shrink: Callable[..., int], losing_run: Path
) -> None:
    assert shrink(str(losing_run), loses=lambda _: 0) == 3
    assert shrink(str(losing_run), "--budget", "0s") == 3


def test_an_interrupted_command_prints_how_to_resume(
    shrink: Callable[..., int], losing_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shrink(str(losing_run), loses=lambda _: KeyboardInterrupt()) == 3
    assert "ackproof shrink --resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name either a run directory or --resume DIR"),
        (("RUN", "--resume", "x"), "and not both"),
        (("nothing-there",), "no such run"),
        (("RUN", "--losses", "4"), "4 is more than --trials 3"),
        (("RUN", "--budget", "soon"), "'soon' is not a time"),
        (("RUN", "--anomaly", "phantom"), "has no phantom records"),
        (("--resume", "RUN"), "not a directory of `ackproof shrink`"),
    ],
)
def test_bad_options_are_reported_in_one_sentence(
    shrink: Callable[..., int],
    losing_run: Path,
    arguments: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shrink(*(str(losing_run) if one == "RUN" else one for one in arguments)) == 2
    assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    kept, _ = begun(tmp_path, two_matter)
    (kept.directory / "trials.jsonl").write_text("{}\n")
    with pytest.raises(RunDirectoryError, match="damaged"):
        resume(kept.directory)
