"""Stores results of drawn runs, compares them with today's predictions, and writes the page."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ackproof.judgement.findings import contradictions, of_availability
from ackproof.prediction.predict import predict, settling_s
from ackproof.runs.verdict import Step, Verdict, Word
from ackproof.scenario.loader import load
from ackproof.scenario.model import Scenario
from ackproof_faults import registered

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "tests" / "results" / "predictions.jsonl"
PAGE = ROOT / "docs" / "predictions.md"

#: A stored run: `seed`, `scenario`, `run`, `seconds`, `inconclusive` (why; empty if it is not),
#: `observed` (without zeros), `steps` (of the probe), `findings` (not about a predicted word).
Result = dict[str, Any]

#: What can become of each word, as the tables count it.
_COLUMNS = {
    "impossible": ("came true", "contradicted", "inconclusive"),
    "possible": ("happened", "did not happen", "inconclusive"),
    "certain": ("came true", "contradicted", "inconclusive"),
}

_INTRO = """\
# Predictions, compared with real brokers

Made by `ci/lab/predictions --page` from tests/results/predictions.jsonl. `ci/lab/predictions 300 1
--run` draws scenarios (a seed gives one), runs those that are not stored yet, and stores the
results; `100 10001 --share-groups --run` does it for scenarios with a share group, from seed 10001
on. The predictions on this page are those of the model as it is now. A result has the schedule
that was run; after a change of the drawing its seed may draw another one.

*impossible*: said / came true (it did not happen) / contradicted (it did) / inconclusive.
*possible*: said / happened / did not happen / inconclusive. *certain*: said / came true /
contradicted / inconclusive. A run in which a fault was not proved, or a record could not be looked
up, is inconclusive: it neither supports nor refutes a word, unless it shows what was impossible. A
word is about one anomaly of one run. A run counts under each of its faults and their families.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One word about one anomaly of one run. `seen`: how often the anomaly was observed."""

    anomaly: str
    word: str
    seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A stored run and today's prediction of it."""

    seed: int
    kafka: str
    faults: tuple[str, ...]
    method: str
    inconclusive: str
    said: tuple[Said, ...]
    contradictions: tuple[str, ...]
    findings: tuple[str, ...]

    @property
    def families(self) -> frozenset[str]:
        return frozenset(map(family, self.faults))


def family(fault: str) -> str:
    """Return the fault's folder in `ackproof_faults`."""
    return registered()[fault].__module__.split(".")[1]


def result(path: Path, verdict: Verdict, seconds: float) -> Result:
    """Return what is stored of a run of the scenario file `path`."""
    words = set(verdict.predicted)
    return {
        "seed": verdict.seed,
        "run": verdict.run_id,
        "seconds": round(seconds, 1),
        "inconclusive": verdict.reason if verdict.verdict is Word.INCONCLUSIVE else "",
        "observed": {key: count for key, count in verdict.observed.items() if count},
        "steps": [step.model_dump(mode="json") for step in verdict.steps],
        "findings": [
            f"{one.anomaly}: {one.explanation}"
            for one in verdict.findings
            if one.anomaly not in words | {"readable", "writable"}
        ],
        "scenario": json.loads(path.read_text(encoding="utf-8")),
    }


def stored() -> dict[int, Result]:
    """Return the stored results by seed."""
    if not RESULTS.exists():
        return {}
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    return {one["seed"]: one for one in map(json.loads, lines)}


def store(one: Result) -> None:
    """Add a result, one line each, in the order of seeds."""
    every = stored() | {one["seed"]: one}
    lines = [
        json.dumps(every[seed], sort_keys=True, ensure_ascii=False) + "\n" for seed in sorted(every)
    ]
    partial = RESULTS.with_suffix(".partial")
    partial.write_text("".join(lines), encoding="utf-8")
    partial.replace(RESULTS)


def compared(results: Iterable[Result]) -> list[Compared]:
    """Predict every stored run again, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        return [_compared(one, Path(folder) / "drawn.yaml") for one in results]


def _compared(one: Result, path: Path) -> Compared:
    path.write_text(json.dumps(one["scenario"]), encoding="utf-8")
    scenario: Scenario = load(path)[0].scenario
    found = predict(scenario)
    conclusive, observed = not one["inconclusive"], one["observed"]
    against = [
        *contradictions(found.predicted, observed, conclusive=conclusive),
        *of_availability(
            found.prediction.availability,
            [Step.model_validate(step) for step in one["steps"]],
            settling_s=settling_s(scenario),
            conclusive=conclusive,
        ),
    ]
    return Compared(
        seed=one["seed"],
        kafka=scenario.kafka,
        faults=tuple(dict.fromkeys(fault.name for fault in scenario.every_fault)),
        method=found.prediction.bounds.partition(":")[0],
        inconclusive=one["inconclusive"],
        said=tuple(
            Said(anomaly=anomaly, word=word, seen=observed.get(anomaly, 0))
            for anomaly, word in found.predicted.items()
        ),
        contradictions=tuple(
            f"{finding.anomaly} is {finding.predicted}, {finding.explanation}"
            for finding in against
        ),
        findings=tuple(one["findings"]),
    )


def page(runs: Sequence[Compared]) -> str:
    """Return the page, in Markdown."""
    decided = [one for one in runs if not one.inconclusive]
    against = [(one, text) for one in runs for text in one.contradictions]
    lines = [
        _INTRO,
        f"{len(runs)} schedules were run, {len(decided)} of them conclusively, and "
        f"{sum(any(s.anomaly == 'lost' and s.seen for s in one.said) for one in runs)} lost "
        f"acked records. {len(against)} contradictions.",
        *_table("anomaly", runs, lambda one, said: (said.anomaly,)),
        *_table("Kafka", runs, lambda one, said: (one.kafka,)),
        *_table("fault family", runs, lambda one, said: sorted(one.families)),
        *_table("method", runs, lambda one, said: (one.method,)),
        *_table("fault", runs, lambda one, said: one.faults),
    ]
    lines += ["", "## Contradictions", ""]
    lines += [f"- seed {one.seed}, Kafka {one.kafka}: {text}" for one, text in against] or ["None."]
    lines += [
        "",
        "## Other findings",
        "",
        "Of the traces of controllers and replicas, and of readers.",
        "",
    ]
    lines += [
        f"- seed {one.seed}, Kafka {one.kafka}: {text[:200]}"
        for one in runs
        for text in one.findings
    ] or ["None."]
    lines += ["", "## Inconclusive runs", ""]
    lines += [
        f"- seed {one.seed}, Kafka {one.kafka}: {one.inconclusive[:200]}"
        for one in runs
        if one.inconclusive
    ] or ["None."]
    return "\n".join(lines) + "\n"


def _table(title: str, runs: Sequence[Compared], keys: Any) -> list[str]:
    """Return a table of words by a key; a word counts under each key of its run."""
    cells: Counter[tuple[str, str, str]] = Counter()
    for one in runs:
        for said in one.said:
            for key in keys(one, said):
                cells[key, said.word, outcome(said, conclusive=not one.inconclusive)] += 1
    lines = ["", f"## By {title}", "", f"| {title} | {' | '.join(_COLUMNS)} |"]
    lines.append(f"|---|{'---:|' * len(_COLUMNS)}")
    for key in sorted({key for key, _, _ in cells}):
        row = []
        for word, columns in _COLUMNS.items():
            total = sum(count for (k, w, _), count in cells.items() if (k, w) == (key, word))
            counts = [str(cells[key, word, column]) for column in columns]
            row.append(" / ".join([str(total), *counts]) if total else "-")
        lines.append(f"| {key} | {' | '.join(row)} |")
    return lines


def outcome(said: Said, *, conclusive: bool) -> str:
    """Return what a run says of a word."""
    happened = said.seen > 0
    if not (happened or conclusive):
        return "inconclusive"
    if said.word == "possible":
        return "happened" if happened else "did not happen"
    return "came true" if happened == (said.word == "certain") else "contradicted"
