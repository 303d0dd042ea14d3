"""What a comparison tried: purpose, faults, causes of losses, versions and command.

It stands above the table, for readers who did not write the scenario.
"""

from __future__ import annotations

import importlib.metadata
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from ackproof.comparison.store import ComparisonStore, begun
from ackproof.errors import AckproofError
from ackproof.report import formatting as fmt
from ackproof.report import wording
from ackproof.runs.verdict import Verdict
from ackproof.scenario.loader import Configured, load_stored

#: Maximum number of drawn schedules, causes and commands that are listed.
_MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """`label`: what it is, in a word; `command`: whether `text` is one."""

    label: str
    text: str
    command: bool = False


def of_comparison(store: ComparisonStore, verdicts: Sequence[Verdict]) -> list[Fact]:
    """Return the facts of a planned comparison, with the command that repeats it."""
    plan = store.plan
    files = dict.fromkeys(configured.path.name for configured in store.configurations)
    folder = _from_here(store.directory / "scenarios")
    options = ["--trials", str(plan.trials)] if plan.trials > 1 else []
    if plan.trials > 1:
        options += ["--order-seed", str(plan.seed), "--confidence", f"{plan.confidence:g}"]
        options += ["--margin", f"{plan.margin:g}"]
    if plan.budget_s is not None:
        options += ["--budget", f"{plan.budget_s:g}s"]
    if plan.shard:
        options += ["--shard", plan.shard]
    scenario = folder / next(iter(files)) if len(files) == 1 else folder
    command = shlex.join(["ackproof", "compare", str(scenario), *options])
    return _facts(verdicts, store.configurations, [command])


def of_runs(verdicts: Sequence[Verdict], run_dirs: Sequence[Path]) -> list[Fact]:
    """Return the facts of stored runs, with the commands that repeat them."""
    configured = []
    for directory in run_dirs:
        try:
            configured.append(load_stored(directory))
        except AckproofError:  # of another version, or damaged: the page names it
            continue
    scenarios = [str(_from_here(directory / "scenario.yaml")) for directory in run_dirs]
    commands = [shlex.join(["ackproof", "run", scenario]) for scenario in scenarios]
    return _facts(verdicts, configured, commands)


def _facts(
    verdicts: Sequence[Verdict], configured: Sequence[Configured], commands: Sequence[str]
) -> list[Fact]:
    if not verdicts:
        return []
    scenarios = {one.scenario.name: one.scenario for one in configured}
    purposes = [
        Fact(label="Scenario", text=f"{name}: {' '.join(about.split())}" if about else name)
        for name in dict.fromkeys(verdict.scenario for verdict in verdicts)
        for about in [scenarios[name].description if name in scenarios else ""]
    ]
    return [
        *purposes,
        *(Fact(label="Faults", text=text) for text in _listed(_faults(verdicts), "schedule")),
        *(Fact(label="Losses", text=text) for text in _listed(_causes(verdicts), "cause")),
        Fact(label="Made", text=_made(verdicts)),
        *(Fact(label="Again", text=command, command=True) for command in commands[:_MOST]),
    ]


def _listed(texts: Sequence[str], noun: str) -> list[str]:
    if len(texts) <= _MOST:
        return list(texts)
    left = len(texts) - _MOST + 1
    return [*texts[: _MOST - 1], f"and {fmt.plural(left, f'more {noun}')}"]


def _faults(verdicts: Sequence[Verdict]) -> list[str]:
    """Return each schedule that began, in order; with its configurations if they differ."""
    schedules: dict[str, list[str]] = {}
    for verdict in verdicts:
        schedules.setdefault(", then ".join(begun(verdict.faults)) or "none", []).append(
            verdict.name
        )
    if len(schedules) == 1:
        return list(schedules)
    return [
        f"{schedule} ({fmt.listing(map(fmt.quoted, dict.fromkeys(names)))})"
        for schedule, names in schedules.items()
    ]


def _causes(verdicts: Sequence[Verdict]) -> list[str]:
    """Return each cause of lost records with the configurations and their number."""
    counts: Counter[tuple[str, str]] = Counter()
    for verdict in verdicts:
        for cause in verdict.causes:
            counts[wording.cause_title(cause), verdict.name] += cause.count
    titles = dict.fromkeys(title for title, _ in counts)
    return [
        f"{title}: "
        + fmt.listing(
            f"{fmt.plural(number, 'record')} with {fmt.quoted(name)}"
            for (cause, name), number in counts.items()
            if cause == title
        )
        for title in titles
    ]


def _made(verdicts: Sequence[Verdict]) -> str:
    days = sorted({f"{verdict.started_at.astimezone(UTC):%Y-%m-%d}" for verdict in verdicts})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    kafka = wording.kafka(", ".join(dict.fromkeys(verdict.kafka_version for verdict in verdicts)))
    seeds = fmt.seeds({verdict.seed for verdict in verdicts})
    runs, version = fmt.plural(len(verdicts), "run"), importlib.metadata.version("ackproof")
    return f"{when} (UTC), {runs}, {seeds}; {kafka}, ackproof {version}"


def _from_here(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
