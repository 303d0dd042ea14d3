"""Drawn schedules, and the comparison of their runs with the model's words."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import predictions_draw as drawing
import predictions_page as pages
import predictions_share_groups as with_share_group
import pytest

from ackproof.prediction.predict import predict
from ackproof.scenario.loader import load
from ackproof_faults import registered
from ackproof_faults.operations.groups import GroupOperation
from ackproof_faults.process.stops import Kill
from ackproof_spark.anomaly import OF_SHARE_GROUPS

#: SHA-256 of what seeds 10001, 10006, …, 10096 draw with a share group.
DRAWN_BEFORE_RESETS = "224e655263e0a5749833f7bac59430054a73eba0594cab8e193d85d292916213"

#: A leader that alone has the last acked records dies before the ISR can shrink.
CUT = {
    "fault": "isolate_replication",
    "target": "leader of orders-0",
    "when": ["300 acked", "isr of orders-0 == 3"],
}
KILL = {
    "fault": "kill",
    "target": "leader of orders-0",
    "when": "200 more acked",
    "or_after": "5s",
    "heal_when": "leader of orders-0 changed",
}


def stored(observed: dict[str, int], *, inconclusive: str = "", **workload: Any) -> dict[str, Any]:
    return {
        "seed": 1,
        "run": "run-1",
        "seconds": 1.0,
        "inconclusive": inconclusive,
        "observed": {"sent": 900, "acked": 900} | observed,
        "steps": [],
        "findings": [],
        "scenario": {
            "version": 1,
            "name": "drawn-1",
            "kafka": "4.3.1",
            "topics": {"orders": {"partitions": 1}},
            "workload": {
                "topic": "orders",
                "settings": {"acks": 1, "enable.idempotence": False},
                **workload,
            },
            "faults": [CUT, KILL],
            "expect": {"loss": "any"},
        },
    }


def contradictions(result: dict[str, Any]) -> list[str]:
    (one,) = pages.compared([result])
    return list(one.contradictions)


def test_a_certain_loss_that_did_not_happen_is_a_contradiction() -> None:
    assert contradictions(stored({"lost": 200})) == []
    assert contradictions(stored({})) == [
        "lost is certain, every path of the model leads to this, yet none was observed"
    ]
    assert contradictions(stored({}, inconclusive="kill: not verified")) == []


def test_a_model_with_a_broken_rule_is_contradicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is told that a kill does nothing; the same run now refutes it."""
    monkeypatch.setattr(Kill, "effects", ())
    (told,) = contradictions(stored({"lost": 200}))
    assert told.startswith("lost is impossible")
    (told,) = contradictions(stored({"lost": 200}, inconclusive="kill: not verified"))
    assert told.startswith("lost is impossible")


def test_a_stored_run_that_lost_records_is_not_contradicted() -> None:
    """Unclean election between followers that died one after the other, in ZooKeeper mode."""
    run = pages.stored()[46]
    assert run["observed"]["lost"] == 5
    assert contradictions(run) == []


def test_words_are_counted_by_what_became_of_them() -> None:
    def became(word: str, seen: int, *, conclusive: bool) -> str:
        said = pages.Said(anomaly="lost", word=word, seen=seen)
        return pages.outcome(said, conclusive=conclusive)

    assert became("impossible", 0, conclusive=True) == "came true"
    assert became("impossible", 1, conclusive=True) == "contradicted"
    assert became("impossible", 1, conclusive=False) == "contradicted"
    assert became("certain", 1, conclusive=False) == "came true"
    assert became("certain", 0, conclusive=True) == "contradicted"
    assert became("possible", 1, conclusive=True) == "happened"
    assert became("possible", 0, conclusive=True) == "did not happen"
    for word in ("impossible", "possible", "certain"):
        assert became(word, 0, conclusive=False) == "inconclusive"


def test_the_page_counts_an_inconclusive_run_as_such() -> None:
    runs = pages.compared([stored({"lost": 200}), stored({}, inconclusive="kill: not verified")])
    page = pages.page(runs)
    assert "2 schedules were run, 1 of them conclusively, and 1 lost acked records" in page
    (lost,) = (line for line in page.splitlines() if line.startswith("| lost |"))
    assert lost == "| lost | - | - | 2 / 1 / 0 / 1 |"
    assert "- seed 1, Kafka 4.3.1: kill: not verified" in page


def test_a_seed_always_draws_the_same_scenario(tmp_path: Path) -> None:
    texts = [drawing.draw(7, drawing.VERSIONS, tmp_path).read_text() for _ in range(2)]
    assert texts[0] == texts[1]
    assert texts[0] != drawing.draw(8, drawing.VERSIONS, tmp_path).read_text()


def test_one_version_is_drawn_without_an_upgrade(tmp_path: Path) -> None:
    scenarios = [load(drawing.draw(seed, ["4.4.0"], tmp_path))[0].scenario for seed in range(60)]
    assert {one.kafka for one in scenarios} == {"4.4.0"}
    assert all(fault.name != "upgrade" for one in scenarios for fault in one.every_fault)


def test_every_fault_is_drawn(tmp_path: Path) -> None:
    wanted = set(registered()) - set(drawing.LEFT_OUT)
    drawn: set[str] = set()
    for main in range(len(wanted)):
        seed = main if main % 5 else main + len(wanted)  # every fifth seed has no main fault
        scenario = load(drawing.draw(seed, drawing.VERSIONS, tmp_path))[0].scenario
        drawn |= {fault.name for fault in scenario.every_fault}
    assert drawn == wanted


def test_drawn_share_groups_have_words_that_runs_can_contradict(tmp_path: Path) -> None:
    said: set[tuple[str, str]] = set()
    for seed in (10001, 10002, 10010):
        path = drawing.draw(seed, with_share_group.VERSIONS, tmp_path, share_groups=True)
        scenario = load(path)[0].scenario
        assert scenario.share_groups == ["workers"]
        assert scenario.workload.transactions is None
        said |= set(predict(scenario).predicted.items())
    words = dict.fromkeys(map(str, OF_SHARE_GROUPS))
    assert {word for anomaly, word in said if anomaly in words} >= {"impossible", "possible"}


def test_every_fault_of_share_groups_is_drawn(tmp_path: Path) -> None:
    for seed, fault in enumerate(with_share_group.OWN):
        path = drawing.draw(2 * seed + 1, ["4.4.0"], tmp_path, share_groups=True)
        first = next(iter(load(path)[0].scenario.every_fault))
        assert first.name == fault["fault"], seed


def test_later_seeds_change_the_offsets_of_a_share_group_whose_members_are_down(
    tmp_path: Path,
) -> None:
    drawn = set()
    own, resets = len(with_share_group.OWN), len(with_share_group.RESETS)
    for index in range(own, own + resets):
        seed = 20_001 + 2 * ((index - 20_001 // 2) % (own + resets))
        path = drawing.draw(seed, with_share_group.VERSIONS, tmp_path, share_groups=True)
        scenario = load(path)[0].scenario
        for reset in scenario.every_fault:
            if isinstance(reset, GroupOperation):
                (down,) = [one for one in scenario.every_fault if one.id == "down"]
                assert (down.name, str(reset.when[0])) == ("crash_client", "down began")
                assert (str(down.heal_when[0]), reset.group) == (f"{reset.name} began", "workers")
                assert predict(scenario).predicted["replayed"] == (
                    "impossible" if getattr(reset, "to", "") == "latest" else "possible"
                )
                drawn.add(f"{reset.name} {getattr(reset, 'to', '')}".strip())
    to = {f"reset_offsets {to}" for to in ("earliest", "latest", 50)}
    assert drawn == to | {"delete_offsets"}


def test_later_seeds_let_a_share_group_read_records_of_transactions(tmp_path: Path) -> None:
    levels = set()
    for seed in range(20_002, 20_042, 2):
        path = drawing.draw(seed, with_share_group.VERSIONS, tmp_path, share_groups=True)
        workload = load(path)[0].scenario.workload
        level = workload.consumers["workers"].group_settings.get("share.isolation.level")
        assert (level is None) is (workload.transactions is None)
        levels.add(level)
    assert levels == {None, "read_committed", "read_uncommitted"}


def test_seeds_whose_runs_are_stored_draw_what_was_run(tmp_path: Path) -> None:
    """Let new seeds draw what is new, from a number on, as `LATER_FROM` does."""
    digest = sha256()
    for seed in range(10_001, 10_101, 5):
        path = drawing.draw(seed, ("4.2.2", "4.3.1", "4.4.0"), tmp_path, share_groups=True)
        digest.update(path.read_bytes())
    assert digest.hexdigest() == DRAWN_BEFORE_RESETS


def test_a_record_that_a_share_group_never_got_contradicts_its_prediction() -> None:
    one = stored({}, consumers={"workers": {"via": "share"}})
    one["scenario"] |= {"kafka": "4.4.0", "faults": [], "expect": {"undelivered": "any"}}
    assert contradictions(one) == []
    one["observed"]["undelivered"] = 3
    (told,) = contradictions(one)
    assert told.startswith("undelivered is impossible")


def test_every_fifth_seed_is_one_from_which_records_cannot_escape(tmp_path: Path) -> None:
    for seed in (65, 225):  # cut and killed; cut and without power
        scenario = load(drawing.draw(seed, drawing.VERSIONS, tmp_path))[0].scenario
        assert predict(scenario).predicted["lost"] == "certain", seed


def test_results_are_stored_by_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "RESULTS", tmp_path / "predictions.jsonl")
    pages.store(stored({}) | {"seed": 2})
    pages.store(stored({}))
    pages.store(stored({"lost": 3}))
    assert [one["observed"].get("lost", 0) for one in pages.stored().values()] == [3, 0]
    assert [json.loads(line)["seed"] for line in pages.RESULTS.read_text().splitlines()] == [1, 2]
