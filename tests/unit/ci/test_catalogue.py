"""The pages of docs/catalogue are what the stored results say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import catalogue_pages as catalogue
import catalogue_plots
import catalogue_runs
import pytest

from ackproof.scenario import shipped
from ackproof.scenario.loader import Configured
from unit.harness.report import synthetic

ROOT = Path(__file__).parents[3]
#: Entries that set up, build, show or write something.
NOT_TESTS = {
    *("demo", "image", "kafka_keys", "left-by", "nightly", "picture", "reference", "release"),
    *("sbom", "setup", "site", "test"),
}


def result(**changes: Any) -> dict[str, Any]:
    return {
        "scenario": "catalogue/b06-last-replica-standing",
        "arm": "3.9.1",
        "kafka": "3.9.1",
        "run": "run-1",
        "verdict": "holds",
        "reason": "as expected",
        "acked": 2000,
        "lost": 1234,
        "observed": {"lost": 1234},
        "predicted": "possible",
        "unavailable_s": 3.25,
        "findings": [],
        "causes": ["last replica standing lost its bytes (B6): 1,234 records"],
        "timeline": [
            [1.5, "kill", "leader", "ended"],
            [2.0, "none", "all", "nothing"],
            [4.0, "power_loss", "leader", "cut | here"],
        ],
        "diagram": ["producer o-> 1"],
    } | changes


def test_the_committed_pages_are_current() -> None:
    made = catalogue.pages(catalogue.stored())
    written = {
        path: path.read_text()
        for path in catalogue.DOCS.iterdir()
        if path.suffix in (".md", ".svg")
    }
    assert written == made, "run: ci/catalogue --pages"


def test_every_stored_result_is_of_an_arm_that_exists() -> None:
    arms = {
        (name, arm.name, arm.scenario.kafka)
        for name, arms in catalogue.everything().items()
        for arm in arms
    }
    stored = {(one["scenario"], one["arm"], one["kafka"]) for one in catalogue.stored()}
    assert stored <= arms, "remove the lines of arms that are gone from results.json"


def test_a_page_tells_what_a_run_lost_and_why() -> None:
    made = catalogue.pages([result(run="run-0", lost=0), result()])
    page = made[catalogue.DOCS / "b06-last-replica-standing.md"]
    assert "lost 1,234 of 2,000 acked records" in page
    assert "1 of 2 runs (1% to 99%)" in page
    assert "last replica standing lost its bytes (B6): 1,234 records" in page
    assert "| 2.5 |  | power_loss | leader | cut \\| here |" in page
    assert "producer o-> 1" in page
    overview = made[catalogue.DOCS / "README.md"]
    assert "same schedule" not in overview
    counts = "2 of 2 | 1 of 2 runs (1% to 99%) | 1,234 / 2,000 | possible |"
    assert f"| 3.9.1 | 3.9.1 | a loss | {counts}" in overview


def arm_of(name: str, arm: str = "3.9.1") -> Configured:
    [found] = [one for one in catalogue.everything()[name] if one.name == arm]
    return found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"verdict": "violated"}, False),
        ({"causes": ["unexplained: 1,234 records of orders-0: unexplained"]}, False),
        ({"causes": ["unclean leader election (B4): 1 record of orders-0"]}, False),
        (
            {
                "causes": ["unclean leader election (B4): 1 record of orders-0"],
                "reason": "as expected: loss some (observed 9), cause B6 (observed B6)",
            },
            True,
        ),
        ({"observed": {}, "causes": []}, False),
        ({"observed": {"lost": 1234, "phantom": 1}}, False),
        ({"observed": {"lost": 1234, "duplicated": 7}}, True),
    ],
)
def test_a_run_is_as_expected_by_what_its_arm_expects_now(
    changes: dict[str, Any], expected: bool
) -> None:
    arm = arm_of("catalogue/b06-last-replica-standing")
    assert arm.scenario.expect.cause == "B6"
    assert catalogue.as_expected(arm, result(**changes)) is expected


def test_a_row_without_counts_is_compared_in_what_it_tells() -> None:
    arm = arm_of("catalogue/b17-retry-duplicate", "not idempotent")
    assert arm.scenario.expect.duplicates == "some"
    one = result(lost=0, observed={}, causes=[])
    assert not catalogue.as_expected(arm, one)
    del one["observed"]
    assert catalogue.as_expected(arm, one)
    assert not catalogue.as_expected(arm, one | {"lost": 1})


def test_a_page_tells_that_a_run_does_not_meet_what_is_expected_now() -> None:
    causes = ["a cause (of KAFKA-1) (B4): 1,234 records of orders-0"]
    made = catalogue.pages([result(causes=causes)])
    page = made[catalogue.DOCS / "b06-last-replica-standing.md"]
    assert "does not meet what the arm expects now: cause: B4 observed, B6 expected." in page
    assert "| a loss | 0 of 1 |" in made[catalogue.DOCS / "README.md"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, None),
        ({"lost": 1235}, "- … and 1 more record\n"),
        ({"lost": 3234}, "- … and 2,000 more records\n"),
        ({"lost": 3234, "further": [3, 2000]}, "- … and 2,000 more records, of 3 further causes\n"),
        ({"lost": 1235, "further": [1, 1]}, "- … and 1 more record, of 1 further cause\n"),
        ({"further": [0, 0]}, None),
    ],
)
def test_a_page_tells_how_many_records_have_causes_that_it_leaves_out(
    changes: dict[str, Any], says: str | None
) -> None:
    page = catalogue.pages([result(**changes)])[catalogue.DOCS / "b06-last-replica-standing.md"]
    if says is None:
        assert "… and" not in page
    else:
        assert f"1,234 records\n{says}" in page


def test_a_row_tells_what_a_run_did(tmp_path: Path) -> None:
    synthetic.make(tmp_path / "run-1", synthetic.Options(rate=300))
    told = synthetic.tell(tmp_path / "run-1")
    [cause] = told.causes
    four = [cause.model_copy(update={"count": count}) for count in (9, 7, 5, 3)]
    arm = arm_of("catalogue/b06-last-replica-standing")
    told = told.model_copy(update={"causes": four})
    row = catalogue_runs.line_of(arm, told, tmp_path / "run-1") | {"kafka": "3.9.1"}
    assert len(row["causes"]) == 2
    assert row["further"] == [2, 8]
    # The run began 12 s before the first send.
    assert [(at, fault, healed) for at, fault, _, _, healed, _ in row["timeline"]] == [
        (18.0, "isolate_replication", 29.6),
        (19.5, "kill", 29.0),
    ]
    assert all(0 <= at - begun < 1 for at, *_, begun in row["timeline"])
    path = catalogue.DOCS / "b06-last-replica-standing.md"
    assert "| 1.5 | 11.0 | kill | leader of orders-0 |" in catalogue.pages([row])[path]
    row["timeline"][1][5] = 13.5  # it took 6 s until it was in force
    assert "| -4.5 to 1.5 | 11.0 | kill |" in catalogue.pages([row])[path]


def test_a_page_says_where_a_case_loses_records_or_that_it_loses_none() -> None:
    def line(stem: str) -> str:
        return " ".join(catalogue.loses_on(catalogue.everything()[f"catalogue/{stem}"]))

    assert line("b06-last-replica-standing").startswith("Loses on 0.11 to 3.9")
    assert line("b18-reorder") == "Loses nothing; reorders on every version"
    assert line("b14-hanging-transaction").startswith("Affects up to 3.5; nothing is lost")
    assert line("b30-frozen-high-watermark").startswith("Shows a false loss since 3.7")


@pytest.mark.parametrize(
    ("windows", "healed"),
    [
        ([[0.5, 1.7, "kill leader"], [3.0, 9.1, "power_loss leader"]], ("1.2", "8.6")),
        ([[0.5, 1.7, "kill leader"]], ("", "")),
    ],
)
def test_the_plot_of_an_older_row_tells_when_its_faults_were_healed(
    windows: list[list[Any]], healed: tuple[str, str]
) -> None:
    plot = {"width": 1.0, "acked": [1], "lost": [0], "windows": windows, "leaders": []}
    page = catalogue.pages([result(plot=plot)])[catalogue.DOCS / "b06-last-replica-standing.md"]
    assert f"| 0.0 | {healed[0]} | kill |" in page
    assert f"| 2.5 | {healed[1]} | power_loss |" in page


def test_a_diagram_is_explained_and_ends_with_what_is_lost() -> None:
    path = catalogue.DOCS / "b06-last-replica-standing.md"
    trace = ["A appends record 1.", "Acked and lost: record 1."]
    rows = [result(trace=trace), result(arm="4.3.1", kafka="4.3.1", trace=trace)]
    page = catalogue.pages(rows)[path]
    assert page.count("A leads first") == 1
    assert page.count("producer o-> 1\n```\n\nAcked and lost: record 1.\n") == 2
    assert trace[0] not in page


def test_a_trace_of_the_bounds_is_left_out() -> None:
    made = catalogue.pages([result(diagram=[], trace=["A appends record 1."])])
    page = made[catalogue.DOCS / "b06-last-replica-standing.md"]
    assert "A appends record 1." not in page
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
    made = catalogue.pages([result(plot=points)])
    [(path, plot)] = [(path, text) for path, text in made.items() if path.suffix == ".svg"]
    assert f"]({path.name})" in made[catalogue.DOCS / "b06-last-replica-standing.md"]
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


def test_an_inconclusive_run_proves_nothing() -> None:
    made = catalogue.pages([result(verdict="inconclusive")])
    assert "1,234" not in "".join(made.values())


def test_a_run_that_is_judged_again_replaces_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "RESULTS", tmp_path / "results.json")
    catalogue.store([result(run="a"), result(run="b")])
    catalogue.store([result(run="a", lost=7), result(run="c")])
    assert [(one["run"], one["lost"]) for one in catalogue.stored()] == [
        ("a", 7),
        ("b", 1234),
        ("c", 1234),
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


def test_every_shipped_scenario_is_run_and_every_entry_is_called() -> None:
    run = {arm.path for arm in catalogue_runs.selected([])}
    skipped = {arm.path for arms in catalogue.everything().values() for arm in arms if arm.skip}
    assert run | skipped == set(shipped.files())
    called = "".join((ROOT / "ci" / one).read_text() for one in ("test", "nightly"))
    entries = {
        path.name for path in (ROOT / "ci").iterdir() if path.is_file() and os.access(path, os.X_OK)
    }
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
    made = catalogue.pages(
        [
            result(
                scenario="tables/crash-and-recovery",
                arm="one dies on 3.9.1",
                steps=steps,
                probe=[0.9, 0.5],
                acked_per_s=99.6,
                ack_ms=[1.5, 20.0],
                records=[["acked", 7, 7], ["acked", 8, None]],
            )
        ]
    )
    page = made[catalogue.DOCS / "tables.md"]
    assert "| 1,234 / 2,000 | 100 | 1.5 / 20 | 3.2 | 90% | 50% | `run-1` |" in page
    assert (
        "| one dies on 3.9.1 |  | nothing | 5.0 | yes | yes |\n"
        "|  | alone | kill 1 | 9.0 | yes (7.1 s) | no (0.4 s) |\n"
    ) in page
    assert "| m1 | acked | 7 | 7 |\n| m2 | acked | 8 | no |" in page
