"""The stored results of shipped scenarios, and the pages of the catalogue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import audit_cases
import audit_stops
import catalogue_pages as catalogue
import catalogue_plots
import catalogue_runs
import pytest

from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.scenario import shipped
from ackproof.scenario.loader import Configured
from support import synthetic_run as synthetic

ROOT = Path(__file__).parents[3]
#: Entries that set up, build, show or write something.
NOT_TESTS = {
    *("demo", "image", "kafka_keys", "lab/left-by", "new-kafka", "nightly", "picture", "reference"),
    *("release", "sbom", "setup", "site", "test"),
}
STEM = "b06-last-replica-standing"
PAGE = f"{STEM}.md"


def result(**changes: Any) -> dict[str, Any]:
    """Return a stored run; changes of `details` are merged into them."""
    details = {
        "unavailable_s": 3.25,
        "causes": ["last replica standing lost its bytes (B6): 1,234 records"],
        "timeline": [
            [1.5, "kill", "leader", "ended", 4.5, 1.4],
            [4.0, "power_loss", "leader", "cut | here", None, 4.0],
        ],
        "diagram": ["producer o-> 1"],
        "lost_by": "Acked and lost: record 1.",
    } | changes.pop("details", {})
    return {
        "run": "run-1",
        "scenario": f"catalogue/{STEM}",
        "arm": "3.9.1",
        "kafka": "3.9.1",
        "verdict": "holds",
        "observed": {"sent": 2100, "acked": 2000, "lost": 1234},
        "predicted": "possible",
        "cause": "B6",
        "reason": "as expected",
        "details": details,
    } | changes


def test_every_stored_result_is_of_an_arm_that_exists() -> None:
    arms = {(name, arm.name) for name, arms in catalogue.everything().items() for arm in arms}
    stored = {(one["scenario"], one["arm"]) for one in catalogue.stored()}
    assert stored <= arms, "remove the lines of arms that are gone from catalogue.jsonl"


def test_a_page_shows_what_a_run_lost_and_why() -> None:
    runs = [result(run="run-0", observed={"sent": 1, "acked": 1}), result()]
    page = catalogue.pages(runs)[PAGE]
    assert "lost 1,234 of 2,000 acked records" in page
    assert "1 of 2 runs (1% to 99%)" in page
    assert "last replica standing lost its bytes (B6): 1,234 records" in page
    assert "| 0.0 | 3.0 | kill | leader | ended |" in page
    assert "| 2.5 |  | power_loss | leader | cut \\| here |" in page
    runs.append(result(run="run-2", verdict="inconclusive", observed={}))
    assert catalogue.pages(runs)[PAGE] == page
    counts = "1 of 2 +1 | 1 of 2 runs (1% to 99%) | 1,234 / 2,000 | possible |"
    assert f"| 3.9.1 | 3.9.1 | a loss | {counts}" in catalogue.overview(runs)


def test_a_row_shows_the_prediction_of_each_anomaly_that_its_arm_expects() -> None:
    words = {"lost": "impossible", "unprocessed": "possible", "reordered": "possible"}
    skipped, kept = (
        catalogue.predicted_others(arm_of("catalogue/b36-latest-and-added-partitions", arm), words)
        for arm in ("latest", "earliest")
    )
    assert (skipped, kept) == ({"predicted_others": {"unprocessed": "possible"}}, {})
    overview = catalogue.overview([result(predicted="impossible", **skipped)])
    assert " | 1,234 / 2,000 | impossible, unprocessed possible |" in overview


def arm_of(name: str, arm: str = "3.9.1") -> Configured:
    [found] = [one for one in catalogue.everything()[name] if one.name == arm]
    return found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"verdict": "violated"}, False),
        ({"cause": "unexplained"}, False),
        ({"cause": "B4"}, False),
        ({"observed": {"sent": 9}}, False),
        ({"observed": {"sent": 9, "lost": 9, "phantom": 1}}, False),
        ({"observed": {"sent": 9, "lost": 9, "duplicated": 7}}, True),
    ],
)
def test_a_run_is_compared_with_what_its_arm_expects_now(
    changes: dict[str, Any], expected: bool
) -> None:
    arm = arm_of(f"catalogue/{STEM}")
    assert (arm.scenario.expect.loss, arm.scenario.expect.cause) == ("some", "B6")
    assert catalogue.as_expected(arm, result(**changes)) is expected


def test_a_row_with_few_counts_is_compared_in_these() -> None:
    arm = arm_of("catalogue/b17-retry-duplicate", "not idempotent")
    assert arm.scenario.expect.duplicates == "some"
    for observed, expected in (({"sent": 9}, False), ({"acked": 9}, True), ({"lost": 1}, False)):
        assert catalogue.as_expected(arm, result(observed=observed)) is expected


def test_a_page_shows_further_causes_and_unmet_expectations() -> None:
    assert "… and" not in catalogue.pages([result()])[PAGE]
    for further, text in (
        ([0, 1], "1 more record"),
        ([3, 20], "20 more records, of 3 further causes"),
    ):
        runs = [result(cause="B4", details={"further": further})]
        page = catalogue.pages(runs)[PAGE]
        assert f"1,234 records\n- … and {text}\n" in page
        unmet = "does not meet what the arm expects now: cause: B4 observed, B6 expected."
        assert unmet in page
        assert "| a loss | 0 of 1 |" in catalogue.overview(runs)


def test_a_row_has_what_a_run_did(tmp_path: Path) -> None:
    synthetic.make(tmp_path / "run-1", synthetic.Options(rate=300))
    told = synthetic.explain(tmp_path / "run-1")
    [cause] = told.causes
    four = [cause.model_copy(update={"count": count}) for count in (9, 7, 5, 3)]
    arm = arm_of("catalogue/b06-last-replica-standing")
    told = told.model_copy(update={"causes": four})
    row = catalogue_runs.line_of(arm, told, tmp_path / "run-1") | {"kafka": "3.9.1"}
    details = row["details"]
    assert len(details["causes"]) == 2
    assert details["further"] == [2, 8]
    # The run began 12 s before the first send.
    assert [(at, fault, healed) for at, fault, _, _, healed, _ in details["timeline"]] == [
        (18.0, "isolate_replication", 29.6),
        (19.5, "kill", 29.0),
    ]
    assert all(0 <= at - begun < 1 for at, *_, begun in details["timeline"])
    assert "| 1.5 | 11.0 | kill | leader of orders-0 |" in catalogue.pages([row])[PAGE]
    details["timeline"][1][5] = 13.5  # it took 6 s until it was in force
    assert "| -4.5 to 1.5 | 11.0 | kill |" in catalogue.pages([row])[PAGE]


def test_a_page_says_where_a_case_loses_records_or_that_it_loses_none() -> None:
    def line(stem: str) -> str:
        return " ".join(catalogue.loses_on(catalogue.everything()[f"catalogue/{stem}"]))

    assert line("b06-last-replica-standing").startswith("Loses on 0.11 to 3.9")
    assert line("b18-reorder") == "Loses nothing; reorders on every version"
    assert line("b14-hanging-transaction").startswith("Affects up to 3.5; nothing is lost")
    assert line("b30-frozen-high-watermark").startswith("Shows a false loss since 3.7")


def test_each_version_that_was_the_default_has_a_row() -> None:
    earlier = result(arm="current", kafka="4.3.1", observed={"sent": 9, "acked": 9})
    del earlier["details"]
    rows = catalogue.overview([earlier, result(run="run-2", arm="current", kafka=DEFAULT_KAFKA)])
    now, before = [line for line in rows.splitlines() if line.startswith("|  | current | 4.")][:2]
    assert now.startswith(f"|  | current | {DEFAULT_KAFKA} | no loss | 0 of 1 |")
    assert before.startswith("|  | current | 4.3.1 | no loss | 1 of 1 |")


def test_a_diagram_is_explained_and_ends_with_what_is_lost() -> None:
    page = catalogue.pages([result(), result(arm="current", kafka=DEFAULT_KAFKA)])[PAGE]
    assert page.count("A leads first") == 1
    assert page.count("producer o-> 1\n```\n\nAcked and lost: record 1.\n") == 2
    without = result()
    del without["details"]["diagram"]
    page = catalogue.pages([without])[PAGE]
    assert "shortest way" not in page
    assert "A leads first" not in page


def test_a_plot_shows_sends_faults_and_leaders() -> None:
    points = {
        "width": 1.0,
        "acked": [10, 0, 5],
        "lost": [3, 0, 0],
        "windows": [[1.0, 2.0, "kill leader <1>"]],
        "partition": "orders-0",
        "leaders": [[0.0, 1.0, 1, 3], [1.0, 1.2, -1, 3], [1.2, 3.0, 2, 2]],
    }
    made = catalogue.pages([result(details={"plot": points})])
    [(name, plot)] = [(name, text) for name, text in made.items() if name.endswith(".svg")]
    assert f"]({name})" in made[PAGE]
    assert "kill leader &lt;1&gt;" in plot
    assert plot.count("#cc3311") == 2  # one bar, and the legend
    assert "2, ISR 2" in plot


def test_a_plot_cuts_off_bars_that_would_flatten_the_others() -> None:
    def plot(acked: list[int], lost: list[int]) -> str:
        points = {"width": 0.5, "acked": acked, "lost": lost, "windows": [], "leaders": []}
        return catalogue_plots.timeline(points, title="")

    flat = plot([10, 0, 10, 10, 400], [0, 0, 0, 0, 300])
    assert ">60/s<" in flat  # three medians of 10 in half a second
    assert "the highest, at 2 s: 800/s, of which 600/s are lost" in flat
    assert flat.count('y="20.0"') == 2  # the highest bar, acked and lost, ends at the top
    assert flat.count('height="33.3"') == 3
    whole = plot([10, 0, 20], [0, 0, 0])
    assert ">40/s<" in whole
    assert "cut off" not in whole
    assert ">2/s<" in plot([], [])


def test_only_the_newest_conclusive_run_of_an_arm_keeps_its_details(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "RESULTS", tmp_path / "results.jsonl")
    catalogue.store([result(run="a"), result(run="b")])
    catalogue.store(
        [result(run="a", cause="B4"), result(run="c"), result(run="b2", verdict="violated")]
    )
    catalogue.store([result(run="d", verdict="inconclusive")])
    assert [
        (one["run"], one["cause"], "reason" in one, "details" in one) for one in catalogue.stored()
    ] == [
        ("a", "B4", False, False),
        ("b", "B6", False, False),
        ("b2", "B6", True, False),
        ("c", "B6", True, True),
        ("d", "B6", True, False),
    ]


def test_arms_are_selected_by_name_version_and_shard() -> None:
    def names(*given: str, kafka: str = "", shard: str = "") -> list[str]:
        chosen = catalogue_runs.selected(given, kafka=kafka, shard=shard)
        return [f"{catalogue.name_of(arm)} {arm.name}" for arm in chosen]

    assert {one.split()[0] for one in names("b6")} == {"catalogue/b06-last-replica-standing"}
    assert names("B6", kafka="0.10.2.2") == []
    assert {one.split("/")[0] for one in names("tables")} == {"tables"}
    every = names("catalogue")
    assert [one for one in every if "b22-" in one] == [
        "catalogue/b22-sequence-reset installed librdkafka"  # the other arm is skipped
    ]
    parts = [names("catalogue", shard=f"{part}/3") for part in (1, 2, 3)]
    assert sorted(one for part in parts for one in part) == sorted(every)
    with pytest.raises(SystemExit, match="B60"):
        names("B60")


def test_every_shipped_scenario_is_run() -> None:
    run = {arm.path for arm in catalogue_runs.selected([])}
    skipped = {arm.path for arms in catalogue.everything().values() for arm in arms if arm.skip}
    assert run | skipped == set(shipped.files())


def test_every_entry_is_listed_and_called() -> None:
    entries = {
        str(path.relative_to(ROOT / "ci"))
        for folder in (ROOT / "ci", ROOT / "ci" / "lab")
        for path in folder.iterdir()
        if path.is_file() and os.access(path, os.X_OK)
    }
    index = (ROOT / "ci" / "README.md").read_text()
    assert {one for one in entries if f"`ci/{one}" not in index} == set()
    called = "".join((ROOT / "ci" / one).read_text() for one in ("test", "nightly", "slow"))
    assert {one for one in entries if f"ci/{one}" not in called} <= NOT_TESTS


def test_a_comparison_of_runs_is_a_table() -> None:
    steps = [
        {"s": 5.0, "in_force": [], "readable": "yes", "writable": "yes"},
        {"s": 0.2, "in_force": ["kill 1"], "readable": "unknown", "writable": "no"},
        {
            "s": 9.0,
            "in_force": ["kill 1"],
            "named": ["alone"],
            "readable": "yes",
            "writable": "no",
            "readable_s": 7.1,
            "writable_s": 0.4,
        },
    ]
    run = result(
        scenario="tables/crash-and-recovery",
        arm="one dies on 3.9.1",
        acked_per_s=99.6,
        details={
            "steps": steps,
            "probe": [0.9, 0.5],
            "ack_ms": [1.5, 20.0],
            "records": [["acked", 7, 7], ["acked", 8, None]],
        },
    )
    page = catalogue.pages([run])["tables.md"]
    assert "| 1,234 / 2,000 | 100 | 1.5 / 20 | 3.2 | 90% | 50% | `run-1` |" in page
    assert (
        "| one dies on 3.9.1 |  | nothing | 5.0 | yes | yes |\n"
        "|  | alone | kill 1 | 9.0 | yes (7.1 s) | no (0.4 s) |\n"
    ) in page
    assert "| m1 | acked | 7 | 7 |\n| m2 | acked | 8 | no |" in page


def test_stops_that_an_audit_looks_up_are_those_of_the_model():
    assert audit_stops.FILE.read_text() == audit_stops.text(), "run ci/reference"


def test_runs_that_an_audit_cites_are_those_that_are_stored():
    assert audit_cases.FILE.read_text() == audit_cases.text(), "run ci/reference"
    assert audit_cases.document()["B5"]["lost"]["2.6.2"] != [0, 0]
    assert audit_cases.document()["B39"]["archived"]["4.4.0"] != [0, 0]
