"""A replay repeats the recorded faults, also on slower clusters and for random schedules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ackproof.errors import RunDirectoryError
from ackproof.reproduction.recorded_run import recorded_run
from ackproof.reproduction.replay import Replay, compare_runs
from ackproof.runs.directory import read_verdict, write_model
from ackproof.runs.verdict import Verdict
from ackproof.scenario.loader import Configured, dump, load
from ackproof_faults import plain
from command_line import ackproof
from support.fake_trials import verdict
from support.recorded_schedules import Acks, World, always, play, scenario, store


def kill(target: Any = 1, **more: Any) -> dict[str, Any]:
    return {"fault": "kill", "target": target, **more}


def recorded(tmp_path: Path, *faults: Any, acks: Acks = always, **changes: Any) -> Any:
    """Return the simulated cluster of a run of these steps, and the scenario of its replay."""
    world, one = World(), scenario(*faults, **changes)
    rows = play(one, world, acks=acks)
    run_dir = store(tmp_path / "run", one, world.windows, rows)
    return world, recorded_run(run_dir).scenario


def begun(world: World) -> list[tuple[str, tuple[int, ...]]]:
    return [(window.fault, window.nodes) for window in world.windows]


NEMESIS = {
    "random": [kill("any broker"), {"fault": "isolate_replication", "target": "any 2 brokers"}],
    "for": "20s",
    "lasting": ["200ms", "2s"],
    "stable": ["100ms", "1s"],
}
SCHEDULES: dict[str, list[dict[str, Any]]] = {
    "on acks": [kill(1, when="300 acked", heal_after="1s"), kill(2, when="500 more acked")],
    "on time": [kill(1, or_after="2s", heal_after="1s"), kill(2, when="after 4s")],
    "at once": [kill(1, heal_after="1s"), kill(2)],
    "a nemesis": [NEMESIS],
    "a loop": [{"sequence": [kill("any broker", heal_after="300ms")], "repeat": 4, "every": "1s"}],
    "branches": [
        {
            "parallel": [
                kill(1, when="900 acked", heal_when="the-cut ended"),
                {"fault": "isolate_replication", "target": 2, "id": "the-cut", "heal_after": "2s"},
                {"sequence": [kill(3, or_after="500ms")]},
            ]
        },
        kill(2, when="after 1s"),
    ],
}


@pytest.mark.parametrize("rate", [250, 1000, 4000])
@pytest.mark.parametrize("steps", SCHEDULES.values(), ids=SCHEDULES.keys())
def test_every_fault_begins_at_the_same_number_of_acks(
    steps: list[dict[str, Any]], rate: int, tmp_path: Path
) -> None:
    then, replay = recorded(tmp_path, *steps, blast_radius={"brokers": 2}, seed=7)
    assert plain(replay.faults)
    now = World()
    play(replay, now, rate=rate)
    assert begun(now) == begun(then)
    assert len(begun(now)) == len(replay.faults) >= 2
    for fault, before, after in zip(replay.faults, then.windows, now.windows, strict=True):
        acked_then = 1000 * before.injected_at.timestamp()
        acked_now = rate * after.injected_at.timestamp()
        assert acked_now >= acked_then - 20, f"{fault.id} began before its milestone"
        for other, late in zip(then.windows, now.windows, strict=True):
            if other.recovered_at and other.recovered_at <= before.injected_at:
                assert late.recovered_at is not None
                assert late.recovered_at <= after.injected_at


def test_a_step_that_began_on_acks_waits_for_the_same_number(tmp_path: Path) -> None:
    _, replay = recorded(tmp_path, *SCHEDULES["on acks"])
    first, second = replay.faults
    assert str(first.when) in ("300 acked", "310 acked")
    assert 800 <= second.when[0].count <= 820
    assert not second.when[0].more


def test_a_condition_on_the_cluster_is_unchanged(tmp_path: Path) -> None:
    steps = [
        kill(1, when=["200 acked", "isr of orders-0 == 3"], heal_when="leader of orders-0 == 1"),
        kill(2, when="leader of orders-0 == 1"),
    ]
    _, replay = recorded(tmp_path, *steps)
    first, second = replay.faults
    assert str(first.when).endswith(" acked and isr of orders-0 == 3")
    assert str(first.heal_when) == "leader of orders-0 == 1"
    assert "leader of orders-0 == 1" in str(second.when)
    assert "acked" not in str(second.when)


def test_alternatives_that_count_become_acks_and_those_on_the_cluster_stay(tmp_path: Path) -> None:
    state = "leader of orders-0 == 1 or isr of orders-0 == 3"
    steps = [
        kill(1, id="first", when="300 acked or leader of orders-0 == 2", heal_after="1s"),
        kill(2, when=state, heal_when="first recovered or 9 acked or isr of orders-0 == 2"),
        kill(3, heal_when="last recovered or first ended"),
        kill(1, id="last", when="after 2s", heal_after="1s"),
    ]
    _, replay = recorded(tmp_path, *steps)
    first, second, third, _ = replay.faults
    assert str(first.when) in ("300 acked", "310 acked")
    assert str(second.when) == state
    assert str(second.heal_when) == "9 acked or isr of orders-0 == 2"
    assert str(third.heal_when) == "step-1 ended"


def test_a_condition_that_was_never_met_is_removed(tmp_path: Path) -> None:
    _, replay = recorded(tmp_path, kill(1, when="isr of orders-0 == 2", or_after="2s"))
    assert 1990 <= replay.faults[0].when[0].count <= 2020
    assert len(replay.faults[0].when) == 1


def test_acks_of_aborted_transactions_count(tmp_path: Path) -> None:
    world, one = World(), scenario(kill(1, when="300 acked"))
    rows = [{**row, "outcome": "aborted", "offset": None} for row in play(one, world)]
    replay = recorded_run(store(tmp_path / "run", one, world.windows, rows)).scenario
    assert 300 <= replay.faults[0].when[0].count <= 310
    assert replay.faults[0].when[0].outcome == "acked"


def test_without_acks_a_step_waits_for_sends(tmp_path: Path) -> None:
    cut = {"fault": "isolate_replication", "target": "leader of orders-0", "when": "1000 acked"}
    then, replay = recorded(
        tmp_path, cut, kill(1, or_after="5s"), acks=lambda seconds: not 1.2 < seconds < 30
    )
    assert str(replay.faults[1].when).endswith(" sent")
    now = World()
    play(replay, now, acks=lambda seconds: not 1.15 < seconds < 30)  # with fewer acks
    assert begun(now) == begun(then)
    apart = (now.windows[1].injected_at - now.windows[0].injected_at).total_seconds()
    assert 4.8 < apart < 5.2


def test_without_acks_and_sends_a_step_waits_for_time(tmp_path: Path) -> None:
    world, one = World(), scenario(kill(1, or_after="1s", heal_after="1s"), kill(2, or_after="7s"))
    rows = [row for row in play(one, world) if row["sequence"] < 2000]
    replay = recorded_run(store(tmp_path / "run", one, world.windows, rows)).scenario
    assert str(replay.faults[1].when).startswith("after 7")


def test_replicas_are_assigned_as_at_the_start_of_the_run(tmp_path: Path) -> None:
    world = World()
    one = scenario(kill(1), topics={"orders": {"partitions": 2}})
    rows = play(one, world)
    where = [[2, 3, 1], [3, 1, 2]]
    others = {"audit": [[1, 2, 3], [1, 2, 3]]}
    run_dir = store(tmp_path / "run", one, world.windows, rows, replicas=where, beside=others)
    again = recorded_run(run_dir)
    assert again.scenario.topic.assignment == where
    assert again.configured.varied == {"a": 1}


def test_a_fault_that_never_began_is_left_out_and_reported(tmp_path: Path) -> None:
    world, one = World(), scenario(kill(1, heal_after="1s"))
    rows = play(one, world)
    longer = scenario(kill(1, heal_after="1s"), kill(2, when="100000 acked"))
    again = recorded_run(store(tmp_path / "run", longer, world.windows, rows))
    assert [fault.target.brokers for fault in again.scenario.faults] == [(1,)]
    assert again.notes == ("1 of 2 faults never began and are left out",)


def test_a_replay_is_a_valid_scenario_file(tmp_path: Path) -> None:
    _, replay = recorded(tmp_path, *SCHEDULES["branches"])
    for defaults in (True, False):
        dump(replay, tmp_path / "again.yaml", defaults=defaults)
        [again] = load(tmp_path / "again.yaml")
        assert again.scenario == replay


def test_a_fault_with_keys_of_its_own_is_read_back(tmp_path: Path) -> None:
    scripts = {"inject": "true", "verify": "echo held", "heal": "true"}
    attach = {"bootstrap": "kafka:9092", "topic_prefix": "orders", "i_own": "kafka:9092"}
    command = {"fault": "command", "target": 1, **scripts}
    _, replay = recorded(tmp_path, command, cluster={"attach": attach})
    assert replay.faults[0].inject_command == "true"


def test_a_directory_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match=r"no run\.json"):
        recorded_run(tmp_path)


def test_a_step_has_the_client_or_topic_of_its_fault(tmp_path: Path) -> None:
    world, one = World(), scenario({"fault": "none", "target": "all"}, kill(1, heal_after="1s"))
    rows = play(one, world)
    run_dir = judged(store(tmp_path / "run", one, world.windows, rows), one, lost=0)
    assert [step.hit for step in compare_runs(run_dir, run_dir).steps] == ["", None]


# The command


def judged(run_dir: Path, one: Any, *, lost: int) -> Path:
    """Write a verdict into a stored run."""
    made = verdict(
        Configured(scenario=one, name="", varied={}, path=run_dir), 1, run_dir.name, lost=lost
    )
    write_model(run_dir / "verdict.json", made)
    return run_dir


@pytest.fixture
def replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return the command with a simulated cluster."""
    one = scenario(kill(1, when="300 acked", heal_after="1s"), kill(2, when="500 more acked"))
    world = World()
    rows = play(one, world)
    judged(store(tmp_path / "then", one, world.windows, rows), one, lost=5)
    monkeypatch.setattr("ackproof.containers.engine.connect", lambda: None)

    def command(*arguments: str, lost: int = 7, begins: int = 2) -> int:
        def run(configured: Configured, *, replays: str, **_: object) -> tuple[Path, Verdict]:
            assert replays == "then"
            again = World()
            rows = play(configured.scenario, again)
            windows = again.windows[:begins]
            run_dir = store(tmp_path / "again", configured.scenario, windows, rows)
            return judged(run_dir, configured.scenario, lost=lost), read_verdict(run_dir)

        monkeypatch.setattr("ackproof.execution.runner.run", run)
        return ackproof("replay", *arguments, "--out", tmp_path)

    return command


def test_the_command_reports_an_equal_replay(
    replay: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay("then") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "The replay agrees with the stored run" in said
    assert "lost 5 7" in said
    assert "1. kill of broker 1, after acks" in said
    stored = Replay.model_validate_json((tmp_path / "again" / "replay.json").read_text())
    assert (stored.replays, stored.same) == ("then", True)
    assert (tmp_path / "again" / "report.html").exists()
    assert (tmp_path / "again" / "junit.xml").exists()


@pytest.mark.parametrize(("lost", "begins"), [(0, 2), (7, 1)])
def test_another_anomaly_or_a_missing_fault_is_a_different_replay(
    replay: Callable[..., int], lost: int, begins: int, capsys: pytest.CaptureFixture[str]
) -> None:
    replay("then", "--json", lost=lost, begins=begins)
    printed = json.loads(capsys.readouterr().out)
    assert printed["same"] is False
    assert [step["now_acked"] is None for step in printed["steps"]] == [False, begins == 1]


def test_an_unknown_run_is_reported_in_one_sentence(
    replay: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay("nothing-there") == 2
    assert "no such run" in capsys.readouterr().err
