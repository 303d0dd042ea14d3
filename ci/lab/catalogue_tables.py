"""The page of tables: figures of the stored runs that are read side by side."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ackproof.scenario.loader import Configured

Result = dict[str, Any]

_HEAD = """\
# Tables

Figures of stored runs, the newest of each arm: what is lost, what it costs in throughput and in
latency, and how long a partition could be read and written. *acked nothing* is the time in which
sends of the worst partition waited without an ack; *readable* and *writable* are shares of the time
by the probe, which reads and writes (acks=all) every partition all the time. *acked / s* is the
median of all stored runs of an arm, with the least and the most of them."""

_STEPS_HEAD = """\
What the probe could do with the partition at the end of each step, and for how many of its seconds
before. Steps of half a second and less are left out."""

_STEP_COLUMNS = ("arm", "step", "in force", "seconds", "readable", "writable")

_COLUMNS = (
    "arm",
    "Kafka",
    "lost / acked",
    "acked / s",
    "ack p50 / p99 ms",
    "acked nothing, s",
    "readable",
    "writable",
    "run",
)


def lines(scenarios: Mapping[str, Sequence[tuple[Configured, Sequence[Result]]]]) -> list[str]:
    """Return the lines of the page; `scenarios` are the arms of each, with their stored runs."""
    made = [*_HEAD.splitlines()]
    for name, arms in scenarios.items():
        about = " ".join(arms[0][0].scenario.description.split())
        made += ["", f"## {name}", "", about, "", *_table(_COLUMNS)]
        made += [_row(arm, runs) for arm, runs in arms]
        newest = [(arm, runs[-1]["details"]) for arm, runs in arms if runs]
        if any(one.get("steps") for _, one in newest):
            made += ["", *_STEPS_HEAD.splitlines(), "", *_table(_STEP_COLUMNS)]
            made += [line for arm, one in newest for line in _steps(arm, one.get("steps", []))]
        for arm, one in newest:
            if one.get("records"):
                made += ["", f"{arm.name}, record by record:", ""]
                made += _table(("record", "outcome", "offset of its ack", "in the final log"))
                made += [
                    f"| m{number} | {outcome} | {_offset(acked)} | {_offset(final)} |"
                    for number, (outcome, acked, final) in enumerate(one["records"], start=1)
                ]
    return [*made, ""]


def _offset(offset: int | None) -> str:
    return "no" if offset is None else f"{offset}"


def _table(columns: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def _row(arm: Configured, runs: Sequence[Result]) -> str:
    name = arm.name or arm.scenario.name
    if not runs:
        cells = [name, arm.scenario.kafka, "not run", *[""] * (len(_COLUMNS) - 3)]
        return f"| {' | '.join(cells)} |"
    one = runs[-1]
    details, observed = one["details"], one["observed"]
    latency = details.get("ack_ms")
    probe = details.get("probe")
    cells = [
        name,
        one["kafka"],
        f"{observed.get('lost', 0):,} / {observed.get('acked', 0):,}",
        _rate([run["acked_per_s"] for run in runs if "acked_per_s" in run]),
        f"{latency[0]:,.1f} / {latency[1]:,.0f}" if latency else "",
        f"{details['unavailable_s']:.1f}",
        *(f"{share:.0%}" for share in probe or ()),
        *([] if probe else ["", ""]),
        f"`{one['run']}`",
    ]
    return f"| {' | '.join(cells)} |"


def _rate(rates: Sequence[float]) -> str:
    if len(rates) < 2:
        return "".join(f"{rate:,.0f}" for rate in rates)
    middle = statistics.median(rates)
    return f"{middle:,.0f} ({min(rates):,.0f} to {max(rates):,.0f}, {len(rates)} runs)"


def _steps(arm: Configured, steps: Sequence[Result]) -> list[str]:
    """Return a row for each period between faults; those too short to tell are left out."""
    told = [step for step in steps if "unknown" not in (step["readable"], step["writable"])]
    return [
        f"| {arm.name if number == 0 else ''} | {', '.join(step.get('named', ()))} "
        f"| {', '.join(step['in_force']) or 'nothing'} | {step['s']:.1f} "
        f"| {_able(step, 'readable')} | {_able(step, 'writable')} |"
        for number, step in enumerate(told)
    ]


def _able(step: Result, what: str) -> str:
    seconds = step.get(f"{what}_s")
    return f"{step[what]}" if seconds is None else f"{step[what]} ({seconds:.1f} s)"
