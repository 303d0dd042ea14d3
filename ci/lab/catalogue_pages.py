"""The results that are stored of shipped scenarios, and the catalogue's pages made from them.

`ci/lab/catalogue` stores results; `ci/site` builds the pages. The list of cases in
docs/catalogue/README.md is made from the scenarios alone, and written by `ci/reference`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import catalogue_plots
import catalogue_tables

from ackproof.comparison.statistics import clopper_pearson
from ackproof.judgement.expectations import (
    ANOMALY_OF,
    check_expectations,
    conclude,
    effective_expectations,
)
from ackproof.kafka_versions import numbers
from ackproof.report.formatting import plural
from ackproof.runs.verdict import COUNTS, CauseReport, Expectation, Metrics, Word
from ackproof.scenario import shipped
from ackproof.scenario.loader import Configured, load
from ackproof.scenario.model import Case, Expect
from ackproof_spark.anomaly import Anomaly

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "tests" / "results" / "catalogue.jsonl"

#: A stored run: `observed` is without zeros, `cause` is the case of most lost records, `predicted`
#: is the word for a loss, `predicted_others` are those for other anomalies that the arm expects.
#: The newest conclusive run of an arm also has `details`, and a `reason`; so has every run that
#: does not hold. Arms without a version have runs on every version that has been the default.
Result = dict[str, Any]

_ALPHA = 0.05
#: Folders of scenarios whose runs are read side by side.
_COMPARED = ("recommended", "tables")
#: The table of faults shows when a fault began to take effect if this took longer.
_PARTS_S = 5.0
#: `ackproof_model.prediction.diagram` draws these diagrams.
_LEGEND = (
    "In the diagrams A, B and C are the replicas in the order of the assignment; A leads first. An "
    "arrow is a request or a response, from `o` to its head. `*` marks each participant of a step "
    "that is no message. The sentence below a diagram says what is lost."
)
#: Rows do not have what availability is measured from.
_NOT_STORED = Metrics(
    duration_s=0, acked_per_s=0, unavailability_s=0, unavailability_gap_s=0, ack_latency_ms=None
)


def name_of(arm: Configured) -> str:
    return shipped.name_of(arm.path)


@cache
def everything() -> dict[str, list[Configured]]:
    """Return the arms of each shipped scenario, by its name."""
    return {shipped.name_of(path): arms_of(path) for path in shipped.files()}


@cache
def arms_of(path: Path) -> list[Configured]:
    return load(path)


def stored() -> list[Result]:
    """Return the stored results, the oldest first: the id of a run begins with its time."""
    if not RESULTS.exists():
        return []
    found = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    return sorted(found, key=lambda one: str(one["run"]))


def store(results: Sequence[Result]) -> None:
    """Add results; a run that is stored already is replaced, and older runs lose their details."""
    by_run = {one["run"]: one for one in (*stored(), *results)}
    conclusive = [one for one in by_run.values() if one["verdict"] != "inconclusive"]
    conclusive.sort(key=lambda one: (numbers(one["kafka"]), one["run"]))
    newest = {_arm_of(one): one["run"] for one in conclusive}
    lines = []
    for run, one in sorted(by_run.items()):
        if newest.get(_arm_of(one)) != run:
            one.pop("details", None)
            if one["verdict"] == "holds":
                one.pop("reason", None)
        lines.append(json.dumps(one, ensure_ascii=False) + "\n")
    RESULTS.write_text("".join(lines), encoding="utf-8")


def _arm_of(result: Result) -> tuple[str, str]:
    return result["scenario"], result["arm"]


def runs_of(arm: Configured, results: Sequence[Result]) -> list[Result]:
    """Return the conclusive runs of an arm on its newest version that has any, the oldest first."""
    by_version = runs_by_version(arm, results).values()
    return next(filter(None, map(_conclusive, by_version)), [])


def runs_by_version(arm: Configured, results: Sequence[Result]) -> dict[str, list[Result]]:
    """Return all runs of an arm by Kafka version, the newest version first."""
    named = (name_of(arm), arm.name)
    of_arm = [one for one in results if _arm_of(one) == named]
    versions = {arm.scenario.kafka, *(one["kafka"] for one in of_arm)}
    return {
        version: [one for one in of_arm if one["kafka"] == version]
        for version in sorted(versions, key=numbers, reverse=True)
    }


def _conclusive(runs: Sequence[Result]) -> list[Result]:
    return [one for one in runs if one["verdict"] != "inconclusive"]


def judged_today(arm: Configured, one: Result) -> tuple[Word, str]:
    """Return the verdict of a stored run by what its arm expects now, and the reason.

    A row has no availability, and its failed sends include those of the probe. The oldest rows have
    counts of acked and lost records only.
    """
    compared = set(effective_expectations(arm.scenario))
    compared -= {"availability", "read_availability", "write_availability"}
    if arm.scenario.workload.probe:
        compared -= {"failed", "unknown"}
    if "sent" not in one["observed"]:
        compared &= {"loss", "cause"}
    return conclude([line for line in _judged(arm, one) if line.what in compared], [])


def _judged(arm: Configured, one: Result) -> list[Expectation]:
    """Return each count of a stored run beside what its arm expects now."""
    counts = dict.fromkeys((*map(str, Anomaly), *COUNTS), 0) | one["observed"]
    known: dict[str, Any] = {"case": one.get("cause"), "count": 1}
    causes = [CauseReport.model_construct(**known)] if "cause" in one else []
    return check_expectations(arm.scenario.expect, counts, _NOT_STORED, causes)


def as_expected(arm: Configured, one: Result) -> bool:
    """Return whether a run held when it was judged, and holds by what its arm expects now."""
    return one["verdict"] == "holds" and judged_today(arm, one)[0] is Word.HOLDS


def pages(results: Sequence[Result]) -> dict[str, str]:
    """Return the files of the site, by their names in docs/catalogue: pages and plots."""
    compared = {
        name: [(arm, runs_of(arm, results)) for arm in arms]
        for name, arms in everything().items()
        if name.partition("/")[0] in _COMPARED
    }
    made = {
        "scenarios.md": _others(results),
        "tables.md": "\n".join(catalogue_tables.lines(compared)),
    }
    for name, arms in _cases().items():
        stem = Path(name).name
        made[f"{stem}.md"] = _page(arms, results)
        for number, arm in enumerate(arms, start=1):
            runs = runs_of(arm, results)
            if runs and (plot := runs[-1]["details"].get("plot")):
                title = f"{case_of(arms).id}, {arm.name}: {runs[-1]['run']}"
                made[_plot_name(arm, number)] = catalogue_plots.timeline(plot, title=title)
    return made


def _cases() -> dict[str, list[Configured]]:
    return {name: arms for name, arms in everything().items() if arms[0].scenario.case}


def case_of(arms: Sequence[Configured]) -> Case:
    case = arms[0].scenario.case
    assert case is not None, f"{arms[0].path} has no case"
    return case


def _plot_name(arm: Configured, number: int) -> str:
    return f"{arm.path.stem}-{number}.svg"


def cases() -> str:
    """Return the list of cases, as docs/catalogue/README.md has it."""
    lines = ["| case | | where |", "|---|---|---|"]
    for name, arms in _cases().items():
        label, where = loses_on(arms)
        link = f"[{case_of(arms).id}](../../scenarios/{name}.yaml)"
        lines.append(f"| {link} | {cell(case_of(arms).title)} | {cell(f'{label} {where}')} |")
    return "\n".join(lines) + "\n"


def overview(results: Sequence[Result]) -> str:
    """Return the table of every arm of every case with its stored runs."""
    lines = _head("case")
    for name, arms in _cases().items():
        title = f"[{case_of(arms).id}]({Path(name).name}.md) {case_of(arms).title}"
        lines += _rows(title, arms, results)
    return "\n".join(lines) + "\n"


def _others(results: Sequence[Result]) -> str:
    lines = [
        "# Other shipped scenarios",
        "",
        "Recommended configurations, guarantees, claims and examples: what their arms expect, and",
        "what stored runs did. Columns as in the [catalogue](README.md). `your-configuration` has",
        "Kafka's defaults where nothing is given, and loses with them although it expects no loss.",
        "",
        *_head("scenario"),
    ]
    for name, arms in everything().items():
        if not arms[0].scenario.case:
            lines += _rows(f"`{name}`", arms, results)
    return "\n".join(lines) + "\n"


def _head(first: str) -> list[str]:
    """Return the head of a table whose rows `_rows` makes."""
    columns = "arm", "Kafka", "expected", "as expected", "lost in", "lost / acked", "predicted"
    return [f"| {' | '.join((first, *columns))} |", "|---" * (len(columns) + 1) + "|"]


def _rows(title: str, arms: Sequence[Configured], results: Sequence[Result]) -> list[str]:
    lines = []
    for arm in arms:
        for kafka, every in runs_by_version(arm, results).items():
            cells = [title, arm.name, kafka, _expected(arm.scenario.expect)]
            runs = _conclusive(every)
            cells += _counts(arm, runs, inconclusive=len(every) - len(runs))
            lines.append(f"| {' | '.join(cells)} |")
            title = ""
    return lines


def _expected(expect: Expect) -> str:
    """Return whether a loss is expected, and what else is."""
    loss = {"some": "a loss", "none": "no loss", "any": "either"}[expect.loss]
    others = [key for key, value in expect if value == "some" and key != "loss"]
    return ", ".join([loss, *(key.replace("_", " ") for key in others)])


def predicted_others(arm: Configured, predicted: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return what a stored run has of the prediction beside that of a loss."""
    words = {
        anomaly: str(predicted[anomaly])
        for key, anomaly in ANOMALY_OF.items()
        if key != "loss" and getattr(arm.scenario.expect, key) == "some" and anomaly in predicted
    }
    return {"predicted_others": words} if words else {}


def _predicted(one: Result) -> str:
    others = one.get("predicted_others", {}).items()
    return ", ".join([one["predicted"], *(f"{anomaly} {word}" for anomaly, word in others)])


def _counts(arm: Configured, runs: Sequence[Result], *, inconclusive: int) -> list[str]:
    """Return the cells `as expected`, `lost in`, `lost / acked` and `predicted`."""
    if arm.skip:
        return ["skipped", "", "", ""]
    if not runs:
        return ["not run", "", "", ""]
    last = runs[-1]
    met = sum(as_expected(arm, one) for one in runs)
    others = f" +{inconclusive}" if inconclusive else ""
    records = f"{count(last, 'lost'):,} / {count(last, 'acked'):,}"
    return [f"{met} of {len(runs)}{others}", losing(runs), records, _predicted(last)]


def count(one: Result, anomaly: str) -> int:
    return int(one["observed"].get(anomaly, 0))


def losing(runs: Sequence[Result]) -> str:
    """Return how many runs lost records, with the interval of the rate."""
    lost = sum(count(one, "lost") > 0 for one in runs)
    rate = clopper_pearson(lost, len(runs), _ALPHA)
    return f"{lost} of {len(runs)} runs ({rate.low:.0%} to {rate.high:.0%})"


def _page(arms: Sequence[Configured], results: Sequence[Result]) -> str:
    case = case_of(arms)
    lines = [f"# {case.id}: {case.title}", "", case.shows, ""]
    label, where = loses_on(arms)
    facts = {
        label: where,
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
    newest = [runs[-1] for arm in arms if (runs := runs_of(arm, results))]
    if any("diagram" in one["details"] for one in newest):
        lines += ["", _LEGEND]
    for number, arm in enumerate(arms, start=1):
        if runs := runs_of(arm, results):
            lines += ["", *_arm(arm, runs, _plot_name(arm, number))]
    return "\n".join(lines) + "\n"


def loses_on(arms: Sequence[Configured]) -> tuple[str, str]:
    """Return the label and the text of the line that says where a case loses records."""
    text = case_of(arms).loses_on
    if any(arm.scenario.expect.loss == "some" for arm in arms):
        return "Loses on", text
    if text.startswith("loses "):
        return "Loses", text.removeprefix("loses ")
    return "Shows" if text.startswith("a false loss") else "Affects", text


def _arm(arm: Configured, runs: Sequence[Result], plot: str) -> list[str]:
    """Return the section of an arm: its newest run, and how many of all its runs lost records."""
    last = runs[-1]
    details = last["details"]
    lines = [
        f"## {arm.name or arm.scenario.name} (Kafka {last['kafka']})",
        "",
        f"Run `{last['run']}`: lost {count(last, 'lost'):,} of {count(last, 'acked'):,} acked "
        f"records; the worst partition acked nothing for {details['unavailable_s']:.1f} s. Records "
        f"were lost in {losing(runs)}.{_seen(arm, runs)}",
        "",
        f"Prediction of a loss: {_predicted(last)}.{_why(last)}",
        "",
        f"Verdict {last['verdict']}: {last['reason']}.",
    ]
    if last["verdict"] == "holds" and not as_expected(arm, last):
        unmet = judged_today(arm, last)[1]
        lines += ["", f"The run does not meet what the arm expects now: {unmet}."]
    if "causes" in details:
        lines += ["", *(f"- {cause}" for cause in details["causes"])]
        if "further" in details:
            causes, records = details["further"]
            of = f", of {plural(causes, 'further cause')}" if causes else ""
            lines.append(f"- … and {plural(records, 'more record')}{of}")
    if "findings" in details:
        lines += ["", *(f"- Finding: {text}" for text in details["findings"])]
    if "plot" in details:
        lines += ["", f"![{arm.name}: sends, faults and leaders over time]({plot})"]
    lines += _faults(details.get("timeline", ()))
    if "diagram" in details:
        lines += ["", "The model's shortest way to a loss:", "", "```", *details["diagram"], "```"]
        lines += ["", details["lost_by"]] if "lost_by" in details else []
    return lines


def _why(one: Result) -> str:
    """Return the model's reason, where neither a diagram nor the word alone tells it."""
    details = one["details"]
    if one["predicted"] != "possible" or "diagram" in details or "why" not in details:
        return ""
    return f" No order of steps is shown: {details['why']}."


def _seen(arm: Configured, runs: Sequence[Result]) -> str:
    """Return what else the newest run counted, and in how many runs what is expected was seen."""
    counted = [one for one in runs if "sent" in one["observed"]]
    if not counted:
        return ""
    lines = [{line.what: line.observed for line in _judged(arm, one)} for one in counted]
    expected = [key for key, value in arm.scenario.expect if value == "some" and key != "loss"]
    text = "".join(
        f" {key.replace('_', ' ').capitalize()}: in "
        f"{sum(line.get(key, '0') != '0' for line in lines)} of {len(counted)} runs."
        for key in expected
    )
    others = {
        anomaly: seen
        for anomaly, seen in counted[-1]["observed"].items()
        if anomaly not in ("sent", "acked", "lost")
    }
    if others:
        counts = ", ".join(f"{seen:,} {anomaly}" for anomaly, seen in others.items())
        text += f" The run also counted {counts}."
    return text


def _faults(timeline: Sequence[Sequence[Any]]) -> list[str]:
    """Return the table of the faults, in seconds after the first was in force.

    A fault of several parts, such as a rolling restart, is in force once the last of them has
    begun: then the row shows both times.
    """
    if not timeline:
        return []
    first = timeline[0][0]
    lines = [
        "",
        "| in force, s after the first | healed, s | fault | target | evidence |",
        "|---|---|---|---|---|",
    ]
    for at, fault, target, evidence, end, begun in timeline:
        since = f"{begun - first:.1f} to " if at - begun > _PARTS_S else ""
        healed = "" if end is None else f"{end - first:.1f}"
        lines.append(
            f"| {since}{at - first:.1f} | {healed} | {fault} | {target} | {cell(evidence)} |"
        )
    return lines


def cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
