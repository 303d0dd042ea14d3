"""Annotations and summaries for CI systems, baselines, and the scripts of ci/."""

from __future__ import annotations

import json
import os
import random
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from ackproof.cli.options import budget_seconds
from ackproof.comparison import baseline
from ackproof.comparison.baseline import Baseline, changes
from ackproof.errors import RunDirectoryError, ScenarioError
from ackproof.report.ci import announce, error_commands, step_summary
from ackproof.runs.verdict import Expectation, Verdict, Word
from ackproof.scenario.loader import load
from ackproof.scenario.selection import share
from command_line import ackproof
from documented import unknown_words
from support.fake_trials import ACKS, verdict

ROOT = Path(__file__).parents[3]
FILES = sorted(
    path
    for host in ("github", "gitlab", "jenkins")
    for path in (ROOT / "ci" / "templates" / host).iterdir()
)
SCRIPTS = sorted(
    path
    for folder in (ROOT / "ci", ROOT / "ci" / "lab")
    for path in folder.iterdir()
    if path.is_file() and not path.suffix
)


def violated(index: int, *, what: str = "loss") -> Verdict:
    made = verdict(ACKS[index], 1, "run-1", lost=5)
    wish = Expectation(what=what, wanted="none", observed="5", met=False)
    return made.model_copy(
        update={"verdict": Word.VIOLATED, "expectations": [wish], "reason": "5 lost, none expected"}
    )


def line(command: str) -> str:
    """Return the text of the line that an annotation points at."""
    number = int(command.split("line=")[1].split(",", maxsplit=1)[0])
    return ACKS[0].path.read_text().splitlines()[number - 1]


def test_an_annotation_is_at_the_expectation_that_was_not_met() -> None:
    [command] = error_commands(ACKS, [violated(2)])
    assert command.startswith("::error file=")
    assert line(command).strip() == "expect: {loss: none, duplicates: none, reordered: none}"
    assert command.endswith("::loss: expected none, observed 5")
    assert "title=acks=all%2C min.insync.replicas=2%3A violated" in command


def test_an_inconclusive_run_is_a_warning_and_one_that_holds_is_not_annotated() -> None:
    unclear = verdict(ACKS[0], 1, "run-1", lost=-1)
    [command] = error_commands(ACKS, [unclear, verdict(ACKS[1], 1, "run-2", lost=0)])
    assert command.startswith("::warning file=")
    assert line(command).strip() == "acks=0:"


def test_the_summary_has_a_row_for_each_run_and_reasons_of_violations() -> None:
    said = step_summary([verdict(ACKS[0], 1, "run-1", lost=3), violated(2)])
    assert "| ✅ | acks=0 | possible | lost 3 of 1,000 acked records |" in said
    assert "**acks=all, min.insync.replicas=2**: 5 lost, none expected" in said


def test_nothing_is_announced_outside_of_github_actions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.md"
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    announce(ACKS, [violated(2)])
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    announce(ACKS, [violated(2)])
    announce(ACKS, [violated(2)])
    assert capsys.readouterr().err.count("::error") == 2
    assert summary.read_text().count("| ❌ |") == 2


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_every_item_is_in_exactly_one_shard(of: int) -> None:
    parts = [share(range(10), f"{number}/{of}") for number in range(1, of + 1)]
    assert sorted(item for part in parts for item in part) == list(range(10))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert share(range(10), "") == list(range(10))


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_an_invalid_shard_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match="is not a shard"):
        share([], text)


def sampled(mean: float, runs: int, *, measure: str = "unavailability_s") -> Any:
    random.seed(int(mean * 10) + runs)
    return {"acks": {measure: [random.gauss(mean, 0.1 * mean) for _ in range(runs)]}}


def unavailable(*seconds: float) -> Any:
    return {"acks": {"unavailability_s": list(seconds)}}


#: Times that differ much from run to run.
WIDE = (5.0, 20.0, 7.0, 18.0, 9.0, 16.0, 11.0, 14.0, 6.0, 19.0)


@pytest.mark.parametrize(
    ("before", "now", "judged"),
    [
        (sampled(10, 10), sampled(10, 9), "no worse"),
        (sampled(10, 10), sampled(20, 9), "worse"),
        (sampled(10, 10), sampled(5, 9), "no worse"),
        (sampled(1000, 10, measure="acked_per_s"), sampled(500, 9, measure="acked_per_s"), "worse"),
        (
            sampled(1000, 10, measure="acked_per_s"),
            sampled(2000, 9, measure="acked_per_s"),
            "no worse",
        ),
        # A significant change within the tolerance, and a large one within the noise.
        (unavailable(*(10 + n / 1000 for n in range(10))), unavailable(*[10.5] * 10), "no worse"),
        (unavailable(*WIDE), unavailable(*(value + 2.5 for value in WIDE)), "no worse"),
        (sampled(10, 10), sampled(99, 1), "too few runs"),
    ],
)
def test_a_regression_is_significant_and_exceeds_the_tolerance(
    before: Any, now: Any, judged: str
) -> None:
    [change] = changes(Baseline(configurations=before), now, tolerance=0.1)
    assert change.judged == judged


def test_inconclusive_runs_are_not_measured() -> None:
    made = [verdict(ACKS[0], 1, "run-1", lost=0), verdict(ACKS[0], 2, "run-2", lost=-1)]
    assert len(baseline.samples(made)["acks/acks=0"]["unavailability_s"]) == 1


def test_an_invalid_baseline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="no such file"):
        baseline.read_baseline(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(RunDirectoryError, match="is not a baseline"):
        baseline.read_baseline(tmp_path / "bad.json")


def commands(node: Any) -> list[str]:
    """Return every string in a template that runs ackproof."""
    if isinstance(node, dict):
        return [found for value in node.values() for found in commands(value)]
    if isinstance(node, list):
        return [found for value in node for found in commands(value)]
    return [node] if isinstance(node, str) and "ackproof " in node else []


def called(path: Path) -> list[str]:
    """Return the `ackproof` commands of a template."""
    text = path.read_text()
    if path.suffix == ".yml":
        found = commands(YAML(typ="safe").load(text))
    else:
        found = re.findall(r"sh '([^']*)'", text)
    # An option for each file of a variable is one option here.
    each = re.compile(r"\$\{\w+:\+\$\(printf -- ['\"](--\w+) %s ['\"] \$\w+\)\}")
    found = [each.sub(r"\1", one) for one in found]
    return [
        f"ackproof {one.split('ackproof ', 1)[1]}" for one in found if "/ackproof " in f"/{one}"
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_templates_call_existing_commands_and_options(path: Path) -> None:
    lines = called(path)
    assert {line.split()[1] for line in lines} == {"audit", "doctor", "run", "compare", "clean"}
    assert [word for line in lines for word in unknown_words(line)] == []


def test_every_template_has_a_short_and_a_nightly_suite() -> None:
    assert len(FILES) == 3
    for path in FILES:
        text = path.read_text()
        for suite in re.findall(r"chaos/\w+\.yaml", text):
            assert load(ROOT / "scenarios" / suite.removeprefix("chaos/"))
        assert "ackproof run chaos/smoke.yaml" in text
        assert re.search(r"ackproof compare chaos/nightly.yaml --trials \d+ --budget (\w+)", text)


@pytest.mark.parametrize(
    ("said", "seconds"), [("", None), ("90s", 90.0), ("30m", 1800.0), ("3h", 10800.0)]
)
def test_a_budget_may_be_hours(said: str, seconds: float | None) -> None:
    assert budget_seconds(said) == seconds


def test_a_smoke_run_takes_at_most_three_minutes() -> None:
    configurations = load(ROOT / "scenarios" / "smoke.yaml")
    bound = sum(one.scenario.workload.seconds for one in configurations)
    assert bound <= 180


def test_runs_are_listed_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        run_dir = tmp_path / f"run-{number}"
        run_dir.mkdir()
        (run_dir / "run.json").write_text("{}")
    made = verdict(ACKS[0], 1, "run-1", lost=3)
    (tmp_path / "run-1" / "verdict.json").write_text(made.model_dump_json())
    assert ackproof("runs", "--out", str(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "run-1\n  lost 3 of 1,000 acked records" in said
    assert "no verdict" in said
    assert ackproof("runs", "--out", str(tmp_path), "--json") == 0
    assert [one["lost"] for one in json.loads(capsys.readouterr().out)] == [3, None]
    assert ackproof("report", "run-1", "--out", str(tmp_path), "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    page = tmp_path / "run-1" / "report.html"
    assert printed["report"] == str(page)
    assert [one["run_id"] for one in printed["verdicts"]] == ["run-1"]
    assert ackproof("report", "run-9", "--out", str(tmp_path)) == 2
    assert "run-9: no such run" in capsys.readouterr().err
    page.write_text("of a suite")
    assert ackproof("report", "run-1", "--out", str(tmp_path)) == 0
    assert page.read_text() == "of a suite", "it is newer than the verdict"
    os.utime(page, (0, 0))
    capsys.readouterr()
    assert ackproof("report", "run-1", "--out", str(tmp_path)) == 0
    assert "Lost 3 of 1,000 acked records" in capsys.readouterr().out
    assert page.read_text() != "of a suite"
    assert ackproof("report", "run-2", "--out", str(tmp_path)) == 0
    assert "run-2: it has no verdict; judge it with" in capsys.readouterr().err


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_modules_and_files_that_a_script_names_exist(path: Path) -> None:
    script = path.read_text(encoding="utf-8")
    for module, names in re.findall(
        r"^from ((?:ackproof|specifications)\S*) import (.+)$", script, re.M
    ):
        for name in names.split(", "):
            found = hasattr(import_module(module), name) or find_spec(f"{module}.{name}")
            assert found, f"{module} has no {name}"
    for module in re.findall(r"python -m ((?:ackproof|specifications)\S*)", script):
        assert find_spec(module.rstrip(")")), f"there is no module {module}"
    for file in re.findall(r"(?<![\w/])(?:ci|tests|scenarios)/[\w./-]*\w", script):
        assert (ROOT / file).exists(), f"there is no {file}"


def test_no_script_overwrites_a_schema_that_the_command_reads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The shell empties the file before the command reads it."""
    written = re.findall(
        r"ackproof (.*) > docs/", (ROOT / "ci" / "reference").read_text(encoding="utf-8")
    )
    assert written
    monkeypatch.setattr("ackproof.scenario.shipped.folder", lambda *_, **__: tmp_path)
    for options in written:
        assert ackproof(*options.split()) == 0, f"ackproof {options} reads what it writes"
