"""The results that are stored of shipped scenarios, and the pages of docs/catalogue made from them.

`ci/catalogue` writes the pages after its runs; `ci/catalogue --pages` writes them again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import catalogue_plots
import catalogue_tables

from ackproof.comparison.statistics import clopper_pearson
from ackproof.judgement.expectations import check_expectations, conclude, effective_expectations
from ackproof.report.formatting import plural
from ackproof.runs.verdict import COUNTS, CauseReport, Expectation, Metrics, Word
from ackproof.scenario import shipped
from ackproof.scenario.case import Case
from ackproof.scenario.loader import Configured, load
from ackproof.scenario.model import Expect
from ackproof_spark.anomaly import Anomaly

DOCS = Path(__file__).parents[1] / "docs" / "catalogue"
RESULTS = DOCS / "results.json"

Result = dict[str, Any]

_MADE = "<!-- Made by `ci/catalogue --pages` from results.json and scenarios/. -->"
_ALPHA = 0.05
#: Seconds from which on the table of faults tells how long one took to be in force.
_PARTS_S = 5.0
#: `ackproof_model.prediction.diagram` draws so.
_LEGEND = (
    "In the diagrams A, B and C are the replicas in the order of the assignment; A leads first. An "
    "arrow is a request or a response, from `o` to its head. `*` marks each participant of a step "
    "that is no message. The sentence below a diagram says what is lost."
)

#: How the sentence of a cause begins: `several replicas lost their bytes (B9): 1,204 records`.
_CAUSE = re.compile(r"(?:unexplained|.*?\((B\d+)\)): ([\d,]+) record")
#: Rows do not have what availability is measured from.
_NOT_STORED = Metrics(
    duration_s=0, acked_per_s=0, unavailability_s=0, unavailability_gap_s=0, ack_latency_ms=None
)


def write() -> None:
    """Write every page, and remove those of scenarios that are gone."""
    made = pages(stored())
    for old in {*DOCS.glob("*.md"), *DOCS.glob("*.svg")} - set(made):
        old.unlink()
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")


def name_of(arm: Configured) -> str:
    return shipped.name_of(arm.path)


@cache
def everything() -> dict[str, list[Configured]]:
    """Return the arms of each shipped scenario, by its name."""
    return {shipped.name_of(path): load(path) for path in shipped.files()}


def stored() -> list[Result]:
    """Return the stored results, the oldest first: the id of a run begins with its time."""
    if not RESULTS.exists():
        return []
    found = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    return sorted(found, key=lambda one: str(one["run"]))


def store(results: Sequence[Result]) -> None:
    """Add results; those of a run that is stored already replace the old ones."""
    new = {one["run"]: one for one in results}
    kept = {one["run"]: one for one in stored()} | new
    lines = [json.dumps(kept[run], ensure_ascii=False) + "\n" for run in sorted(kept)]
    RESULTS.write_text("".join(lines), encoding="utf-8")


def runs_of(arm: Configured, results: Sequence[Result] | None = None) -> list[Result]:
    """Return the stored runs of an arm that are not inconclusive, the oldest first."""
    return [one for one in _all_of(arm, results) if one["verdict"] != "inconclusive"]


def _all_of(arm: Configured, results: Sequence[Result] | None) -> list[Result]:
    key = (name_of(arm), arm.name, arm.scenario.kafka)
    return [
        one
        for one in (stored() if results is None else results)
        if (one["scenario"], one["arm"], one["kafka"]) == key
    ]


def judged_today(arm: Configured, one: Result) -> tuple[Word, str]:
    """Return the verdict of a stored run by what its arm expects now, and the reason.

    A row tells only the first causes, and the counts above 0; sends of the probe are among those
    that failed. It does not tell availability. The oldest rows count nothing but lost records.
    """
    told = set(effective_expectations(arm.scenario))
    told -= {"availability", "read_availability", "write_availability"}
    if arm.scenario.workload.probe:
        told -= {"failed", "unknown"}
    if f"cause {arm.scenario.expect.cause} (observed" in one["reason"]:
        told -= {"cause"}  # it was met, by the causes that the row does not tell as well
    if "observed" not in one:
        told &= {"loss", "cause"}
    return conclude([line for line in _judged(arm, one) if line.what in told], [])


def _judged(arm: Configured, one: Result) -> list[Expectation]:
    """Return each count of a stored run beside what its arm expects now."""
    counts = dict.fromkeys((*map(str, Anomaly), *COUNTS), 0) | one.get(
        "observed", {"lost": one["lost"]}
    )
    return check_expectations(arm.scenario.expect, counts, _NOT_STORED, _causes(one))


def as_expected(arm: Configured, one: Result) -> bool:
    """Return whether a run held when it was judged, and holds by what its arm expects now."""
    return one["verdict"] == "holds" and judged_today(arm, one)[0] is Word.HOLDS


def _causes(one: Result) -> list[CauseReport]:
    """Return the causes that a row tells, with no more than their cases and counts."""
    return [
        CauseReport.model_construct(
            case=found[1] or "unexplained", count=int(found[2].replace(",", ""))
        )
        for found in map(_CAUSE.match, one["causes"])
        if found
    ]


def pages(results: Sequence[Result]) -> dict[Path, str]:
    """Return the text of every file: the list of cases, a page a case, tables, and plots."""
    every = everything()
    cases = {name: arms for name, arms in every.items() if arms[0].scenario.case}
    others = {name: arms for name, arms in every.items() if name not in cases}
    found = {
        DOCS / "README.md": _overview(cases, results),
        DOCS / "scenarios.md": _others(others, results),
        DOCS / "tables.md": "\n".join([_MADE, *catalogue_tables.lines(every, results)]),
    }
    for arms in cases.values():
        found[DOCS / f"{arms[0].path.stem}.md"] = _page(arms, results)
        for number, arm in enumerate(arms, start=1):
            runs = runs_of(arm, results)
            if runs and runs[-1].get("plot"):
                title = f"{case_of(arms).id}, {arm.name}: {runs[-1]['run']}"
                found[_plot_path(arm, number)] = catalogue_plots.timeline(
                    runs[-1]["plot"], title=title
                )
    return found


def case_of(arms: Sequence[Configured]) -> Case:
    case = arms[0].scenario.case
    assert case is not None, f"{arms[0].path} has no case"
    return case


def _plot_path(arm: Configured, number: int) -> Path:
    return DOCS / f"{arm.path.stem}-{number}.svg"


def _overview(cases: Mapping[str, Sequence[Configured]], results: Sequence[Result]) -> str:
    lines = [
        _MADE,
        "# Catalogue of known losses",
        "",
        "Each case is a scenario in `scenarios/catalogue/`, found by its number: `ackproof run",
        "B6`, `ackproof predict B6`, `ackproof scenarios show B6`. Some arms lose records. Where",
        "there is one, a safe twin loses none: the same faults on another version, or with the",
        "configuration that its section names. `ci/catalogue` runs them and writes these pages.",
        "*Lost in* counts stored runs that were conclusive, with the exact 95 % interval of the",
        "rate; *as expected* counts those that meet what the arm expects now. *+1* is a run that",
        "was inconclusive. The records are those of the newest.",
        "[Tables](tables.md) · [other scenarios](scenarios.md)",
        "",
        *_head("case"),
    ]
    for name, arms in cases.items():
        title = f"[{case_of(arms).id}]({Path(name).name}.md) {case_of(arms).title}"
        lines += _rows(title, arms, results)
    return "\n".join(lines) + "\n"


def _others(others: Mapping[str, Sequence[Configured]], results: Sequence[Result]) -> str:
    lines = [
        _MADE,
        "# Other shipped scenarios",
        "",
        "Recommended configurations, guarantees, claims and examples: what their arms expect, and",
        "what stored runs did. Columns as in the [catalogue](README.md). `your-configuration` has",
        "Kafka's defaults where nothing is given, and loses with them although it expects no loss.",
        "",
        *_head("scenario"),
    ]
    for name, arms in others.items():
        lines += _rows(f"`{name}`", arms, results)
    return "\n".join(lines) + "\n"


def _head(first: str) -> list[str]:
    """Return the head of a table whose rows `_rows` makes."""
    columns = "arm", "Kafka", "expected", "as expected", "lost in", "lost / acked", "predicted"
    return [f"| {' | '.join((first, *columns))} |", "|---" * (len(columns) + 1) + "|"]


def _rows(title: str, arms: Sequence[Configured], results: Sequence[Result]) -> list[str]:
    lines = []
    for arm in arms:
        cells = [title, arm.name, arm.scenario.kafka, _expected(arm.scenario.expect)]
        runs = runs_of(arm, results)
        inconclusive = len(_all_of(arm, results)) - len(runs)
        cells += _counts(arm, runs, inconclusive=inconclusive)
        lines.append(f"| {' | '.join(cells)} |")
        title = ""
    return lines


def _expected(expect: Expect) -> str:
    """Return whether a loss is expected, and what else is."""
    loss = {"some": "a loss", "none": "no loss", "any": "either"}[expect.loss]
    others = [key for key, value in expect if value == "some" and key != "loss"]
    return ", ".join([loss, *(key.replace("_", " ") for key in others)])


def _counts(arm: Configured, runs: Sequence[Result], *, inconclusive: int) -> list[str]:
    """Return the cells `as expected`, `lost in`, `lost / acked` and `predicted`."""
    if arm.skip:
        return ["skipped", "", "", ""]
    if not runs:
        return ["not run", "", "", ""]
    last = runs[-1]
    met = sum(as_expected(arm, one) for one in runs)
    others = f" +{inconclusive}" if inconclusive else ""
    records = f"{last['lost']:,} / {last['acked']:,}"
    return [f"{met} of {len(runs)}{others}", losing(runs), records, last["predicted"]]


def losing(runs: Sequence[Result]) -> str:
    """Return how many runs lost records, with the interval of the rate."""
    lost = sum(one["lost"] > 0 for one in runs)
    rate = clopper_pearson(lost, len(runs), _ALPHA)
    return f"{lost} of {len(runs)} runs ({rate.low:.0%} to {rate.high:.0%})"


def _page(arms: Sequence[Configured], results: Sequence[Result]) -> str:
    case = case_of(arms)
    lines = [_MADE, f"# {case.id}: {case.title}", "", case.shows, ""]
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
    if any(one["diagram"] for one in newest):
        lines += ["", _LEGEND]
    for number, arm in enumerate(arms, start=1):
        if runs := runs_of(arm, results):
            lines += ["", *_arm(arm, runs, _plot_path(arm, number).name)]
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
    lines = [
        f"## {arm.name or arm.scenario.name} (Kafka {arm.scenario.kafka})",
        "",
        f"Run `{last['run']}`: lost {last['lost']:,} of {last['acked']:,} acked records; the worst "
        f"partition acked nothing for {last['unavailable_s']:.1f} s. Records were lost in "
        f"{losing(runs)}.{_seen(arm, runs)}",
        "",
        f"Prediction of a loss: {last['predicted']}.{_why(last)}",
        "",
        f"Verdict {last['verdict']}: {last['reason']}.",
    ]
    if last["verdict"] == "holds" and not as_expected(arm, last):
        unmet = judged_today(arm, last)[1]
        lines += ["", f"The run does not meet what the arm expects now: {unmet}."]
    if last["causes"]:
        lines += ["", *(f"- {cause}" for cause in last["causes"]), *_further(last)]
    if last["findings"]:
        lines += ["", *(f"- Finding: {text}" for text in last["findings"])]
    if last.get("plot"):
        lines += ["", f"![{arm.name}: sends, faults and leaders over time]({plot})"]
    lines += _faults(last)
    # A trace without a diagram is of the bounds: it ends where a loss is possible, and shows none.
    if last["diagram"]:
        lines += ["", "The model's shortest way to a loss:", "", "```", *last["diagram"], "```"]
        lines += [line for step in last.get("trace", [])[-1:] for line in ("", step)]
    return lines


def _why(one: Result) -> str:
    """Return the model's reason, where neither a diagram nor the word alone tells it."""
    known = one.get("why") if one["predicted"] == "possible" and not one["diagram"] else ""
    return f" No order of steps is shown: {known}." if known else ""


def _seen(arm: Configured, runs: Sequence[Result]) -> str:
    """Return what else the newest run counted, and in how many runs what is expected was seen."""
    told = [one for one in runs if "observed" in one]
    if not told:
        return ""
    lines = [{line.what: line.observed for line in _judged(arm, one)} for one in (told[-1], *told)]
    expected = [key for key, value in arm.scenario.expect if value == "some" and key != "loss"]
    text = "".join(
        f" {key.replace('_', ' ').capitalize()}: in "
        f"{sum(line.get(key, '0') != '0' for line in lines[1:])} of {len(told)} runs."
        for key in expected
    )
    others = {
        anomaly: count
        for anomaly, count in told[-1]["observed"].items()
        if anomaly not in ("sent", "acked", "lost")
    }
    if others:
        counts = ", ".join(f"{count:,} {anomaly}" for anomaly, count in others.items())
        text += f" The run also counted {counts}."
    return text


def _faults(one: Result) -> list[str]:
    """Return the table of the faults, in seconds after the first was in force.

    A fault of several parts, such as a rolling restart, is in force once the last of them has
    begun: then the row says since when. Older rows do not know it.
    """
    happened = [fault for fault in one["timeline"] if fault[1] != "none"]
    if not happened:
        return []
    first = happened[0][0]
    lines = [
        "",
        "| in force, s after the first | healed, s | fault | target | evidence |",
        "|---|---|---|---|---|",
    ]
    for row, end in zip(happened, _ends(one, happened), strict=True):
        at, fault, target, evidence = row[:4]
        begun = row[5] if len(row) > 5 and at - row[5] > _PARTS_S else None
        in_force = ("" if begun is None else f"{begun - first:.1f} to ") + f"{at - first:.1f}"
        healed = "" if end is None else f"{end - first:.1f}"
        lines.append(f"| {in_force} | {healed} | {fault} | {target} | {cell(evidence)} |")
    return lines


def _ends(one: Result, happened: Sequence[Sequence[Any]]) -> list[float | None]:
    """Return when each fault was healed; older rows tell it by the windows of their plots."""
    if len(happened[0]) > 4:
        return [fault[4] for fault in happened]
    windows = (one.get("plot") or {}).get("windows", ())
    if len(windows) != len(happened):
        return [None] * len(happened)
    lasted = [end - begin for begin, end, _ in windows]
    return [fault[0] + seconds for fault, seconds in zip(happened, lasted, strict=True)]


def _further(one: Result) -> list[str]:
    """Return the line of the lost records whose causes a row does not tell."""
    told = sum(cause.count for cause in _causes(one))
    causes, records = one.get("further") or (0, one["lost"] - told)
    if records <= 0:
        return []
    of = f", of {plural(causes, 'further cause')}" if causes else ""
    return [f"- … and {plural(records, 'more record')}{of}"]


def cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
