"""Runs the catalogue, stores one line a run, and writes docs/catalogue/*.md from these lines.

`ci/catalogue` calls it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ackproof.errors import ExitCode
from ackproof.report.wording import cause_title
from ackproof.runs.verdict import CauseReport
from ackproof.scenario import shipped
from ackproof.scenario.case import Case
from ackproof.scenario.loader import Configured, load
from ackproof.scenario.model import Expect
from ackproof.scenario.shards import Shard, share

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "catalogue"
RESULTS = DOCS / "results.json"
RUNS = ROOT / "runs" / "catalogue"

Result = dict[str, Any]

#: Exit codes of `ackproof run` in rising order; any other is a defect, and outranks them.
_RANK = (ExitCode.HOLDS, ExitCode.INCONCLUSIVE, ExitCode.ENVIRONMENT, ExitCode.VIOLATED)
_MADE = "<!-- Made by `ci/catalogue --pages` from results.json and scenarios/catalogue. -->"
#: Causes and findings of a run that a page tells; further causes are of fewer records.
_TOLD = 2


def main() -> int:
    """Run the selected cases and return the exit code of the suite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--kafka", default="", help="only arms of this version")
    parser.add_argument("--shard", default="", metavar="I/N")
    parser.add_argument("--pages", action="store_true", help="run nothing, write the pages")
    chosen = parser.parse_args()
    worst = int(ExitCode.HOLDS)
    if not chosen.pages:
        cases = selected(chosen.ids, kafka=chosen.kafka, shard=chosen.shard)
        for case in cases:
            code, results = run(case, kafka=chosen.kafka)
            store(results)
            sys.stderr.write(f"catalogue: {case} ended with {code}\n")
            worst = max(worst, code, key=lambda one: _RANK.index(one) if one in _RANK else 9)
    for path, text in pages(stored()).items():
        path.write_text(text, encoding="utf-8")
    return worst


def catalogue() -> dict[str, list[Configured]]:
    """Return the arms of each case, by its id."""
    found = {}
    for path in sorted((shipped.folder() / "catalogue").glob("*.yaml")):
        arms = load(path)
        found[case_of(arms).id] = arms
    return found


def case_of(arms: Sequence[Configured]) -> Case:
    case = arms[0].scenario.case
    assert case is not None, f"{arms[0].path} has no case"
    return case


def selected(ids: Iterable[str], *, kafka: str, shard: str) -> list[str]:
    """Return the cases that have an arm to run."""
    every = catalogue()
    wanted = [one.upper() for one in ids] or [one.upper() for one in every]
    if unknown := set(wanted) - {one.upper() for one in every}:
        sys.exit(f"{', '.join(sorted(unknown))}: no such case ({', '.join(every)})")
    runnable = [
        case
        for case, arms in every.items()
        if case.upper() in wanted and any(kafka in ("", one.scenario.kafka) for one in arms)
        if not all(one.skip for one in arms)
    ]
    return share(runnable, Shard.parse(shard))


def run(case: str, *, kafka: str) -> tuple[int, list[Result]]:
    """Run a case; return the exit code and what is stored of each run."""
    version = ["--kafka", kafka] if kafka else []
    command = [sys.executable, "-c", "from ackproof.cli.main import main; main()"]
    done = subprocess.run(
        [*command, "run", case, *version, "--json", "--out", RUNS],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if not done.stdout:
        return done.returncode, []
    verdicts = json.loads(done.stdout)
    verdicts = verdicts if isinstance(verdicts, list) else [verdicts]
    return done.returncode, [summary(case, verdict) for verdict in verdicts]


def summary(case: str, verdict: Result) -> Result:
    """Return what the pages need of a run."""
    began = datetime.fromisoformat(verdict["started_at"])
    return {
        "case": case,
        "arm": verdict["configuration_name"],
        "kafka": verdict["kafka_version"],
        "run": verdict["run_id"],
        "verdict": verdict["verdict"],
        "reason": verdict["reason"],
        "acked": verdict["observed"]["acked"],
        "lost": verdict["observed"]["lost"],
        "predicted": verdict["predicted"]["lost"],
        "unavailable_s": verdict["metrics"]["unavailability_s"],
        "findings": [one["explanation"] for one in verdict["findings"][:_TOLD]],
        "causes": [
            f"{cause_title(CauseReport.model_validate(one))}: {one['sentence']}"
            for one in verdict["causes"][:_TOLD]
        ],
        "timeline": [
            [
                round((datetime.fromisoformat(fault["verified_at"]) - began).total_seconds(), 1),
                fault["fault"],
                fault["target"],
                fault["evidence"],
            ]
            for fault in verdict["faults"]
            if fault["verified_at"]
        ],
        "diagram": verdict["prediction"]["diagram"],
    }


def stored() -> list[Result]:
    """Return the stored results, the oldest first."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def store(results: Sequence[Result]) -> None:
    """Add the results of runs; those of a run that is stored already replace the old ones."""
    new = {one["run"]: one for one in results}
    kept = [one for one in stored() if one["run"] not in new]
    lines = [json.dumps(one, ensure_ascii=False) + "\n" for one in (*kept, *new.values())]
    RESULTS.write_text("".join(lines), encoding="utf-8")


def pages(results: Sequence[Result]) -> dict[Path, str]:
    """Return the text of every page: the list, and one page a case."""
    cases = catalogue()
    found = {DOCS / "README.md": _overview(cases, results)}
    for case, arms in cases.items():
        of_case = [one for one in results if one["case"] == case]
        found[DOCS / f"{arms[0].path.stem}.md"] = _page(arms, of_case)
    return found


def _overview(cases: dict[str, list[Configured]], results: Sequence[Result]) -> str:
    lines = [
        _MADE,
        "# Catalogue of known losses",
        "",
        "Each case is a scenario in `scenarios/catalogue/`, found by its number: `ackproof run",
        "B6`, `ackproof predict B6`, `ackproof scenarios show B6`. Some arms lose records; the",
        "safe twin loses none under the same schedule. `ci/catalogue` runs them and writes",
        "these pages. *Lost in* counts stored runs; the records are those of the newest.",
        "",
        "| case | arm | Kafka | expected | lost in | lost / acked | predicted |",
        "|---|---|---|---|---|---|---|",
    ]
    for case, arms in cases.items():
        title = f"[{case}]({arms[0].path.stem}.md) {case_of(arms).title}"
        for arm in arms:
            runs = _runs(results, case, arm)
            row = [title, arm.name, arm.scenario.kafka, _expected(arm.scenario.expect)]
            lines.append("| " + " | ".join([*row, *_counts(runs, arm.skip)]) + " |")
            title = ""
    return "\n".join(lines) + "\n"


def _expected(expect: Expect) -> str:
    """Return whether a loss is expected, and what else is."""
    loss = {"some": "a loss", "none": "no loss", "any": "either"}[expect.loss]
    others = [key for key, value in expect if value == "some" and key != "loss"]
    return ", ".join([loss, *(key.replace("_", " ") for key in others)])


def _runs(results: Sequence[Result], case: str, arm: Configured) -> list[Result]:
    """Return the runs of an arm, the oldest first: the id of a run begins with its time."""
    of_arm = (case, arm.name, arm.scenario.kafka)
    found = [one for one in results if (one["case"], one["arm"], one["kafka"]) == of_arm]
    return sorted(found, key=lambda one: str(one["run"]))


def _counts(runs: Sequence[Result], skip: str) -> list[str]:
    """Return the cells `lost in`, `lost / acked` and `predicted`."""
    if skip:
        return ["skipped", "", ""]
    decided = [one for one in runs if one["verdict"] != "inconclusive"]
    if not decided:
        return ["not run", "", ""]
    last = decided[-1]
    lost = sum(one["lost"] > 0 for one in decided)
    records = f"{last['lost']:,} / {last['acked']:,}"
    return [f"{lost} of {len(decided)} runs", records, last["predicted"]]


def _page(arms: Sequence[Configured], results: Sequence[Result]) -> str:
    case = case_of(arms)
    lines = [_MADE, f"# {case.id}: {case.title}", "", case.shows, ""]
    facts = {
        "Loses on": case.loses_on,
        "Fixed in": case.fixed_in,
        "Configure instead": case.instead,
        "Sources": ", ".join(case.sources),
        "Skipped": case.skip,
    }
    lines += [f"- **{key}**: {text}" for key, text in facts.items() if text]
    lines += [
        "",
        f"`ackproof run {case.id}` · [scenario](../../scenarios/catalogue/{arms[0].path.name})",
    ]
    for arm in arms:
        runs = _runs(results, case.id, arm)
        decided = [one for one in runs if one["verdict"] != "inconclusive"]
        if decided:
            lines += ["", *_arm(arm, decided)]
    return "\n".join(lines) + "\n"


def _arm(arm: Configured, runs: Sequence[Result]) -> list[str]:
    """Return the section of an arm: its newest run, and how many of all its runs lost records."""
    last = runs[-1]
    lost = sum(one["lost"] > 0 for one in runs)
    lines = [
        f"## {arm.name or arm.scenario.name} (Kafka {arm.scenario.kafka})",
        "",
        f"Run `{last['run']}`: lost {last['lost']:,} of {last['acked']:,} acked records; the worst "
        f"partition acked nothing for {last['unavailable_s']:.1f} s. Predicted: "
        f"{last['predicted']}. {lost} of {len(runs)} stored runs lost records.",
        "",
        f"Verdict {last['verdict']}: {last['reason']}.",
    ]
    if last["causes"]:
        lines += ["", *(f"- {cause}" for cause in last["causes"])]
    if last["findings"]:
        lines += ["", *(f"- Finding: {text}" for text in last["findings"])]
    happened = [one for one in last["timeline"] if one[1] != "none"]
    lines += ["", "| seconds | fault | target | evidence |", "|---|---|---|---|"]
    lines += [
        f"| {at - happened[0][0]:.1f} | {fault} | {target} | {_cell(evidence)} |"
        for at, fault, target, evidence in happened
    ]
    if last["diagram"]:
        lines += ["", "The model's shortest way to a loss:", "", "```", *last["diagram"], "```"]
    return lines


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


if __name__ == "__main__":
    sys.exit(main())
