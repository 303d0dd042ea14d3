"""The plot of fault windows."""

from __future__ import annotations

from typing import Any

from ackproof.report import formatting as fmt
from ackproof.report import wording
from ackproof.report.data.run import Run
from ackproof.report.plots.figure import (
    ROW_HEIGHT,
    Figure,
    Key,
    lane_axis,
    lane_label,
)
from ackproof.report.plots.time_axis import end_of, timed_layout
from ackproof.runs.verdict import FaultReport

#: Maximum number of faults in the plot; the table has all.
MAX_FAULT_ROWS = 30


def faults(run: Run) -> Figure | None:
    """Plot every fault as a bar: injected, in force, recovering."""
    shown = run.windows[:MAX_FAULT_ROWS]
    if not shown:
        return None
    phases: dict[str, dict[str, list[Any]]] = {
        colour: {"base": [], "x": [], "y": [], "hovertext": []}
        for colour in ("@fault/0.35", "@fault", "@fault/0.15")
    }
    labels = []
    for row, window in enumerate(shown):
        y = -row - 0.76
        for colour, start, end, what in _phases(run, window):
            phases[colour]["base"].append(round(start, 3))
            phases[colour]["x"].append(round(max(end - start, 0.0), 3))
            phases[colour]["y"].append(y)
            phases[colour]["hovertext"].append(f"{fmt.fault(window.window)} {what}")
        note = "" if window.verified else " · not verified"
        labels.append(
            lane_label(
                f"{fmt.fault(window.window)} {wording.fault(window)}{note}",
                -row - 0.46,
            )
        )
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "width": 0.3,
            "hoverinfo": "text",
            "marker": {"color": colour, "line": {"width": 1, "color": "@fault"}},
            **phase,
        }
        for colour, phase in phases.items()
        if phase["x"]
    ]
    more = len(run.windows) - len(shown)
    return Figure(
        name="faults",
        title="Faults",
        caption="When each fault was injected, in force and recovering."
        + (f" {more} more faults are in the table." if more else ""),
        spoken="; ".join(_spoken_window(run, window) for window in shown[:8]) + ".",
        height=ROW_HEIGHT * len(shown) + 40,
        keys=(
            Key(colour="@fault/0.35", text="injected, not yet verified"),
            Key(colour="@fault", text="in force"),
            Key(colour="@fault/0.15", text="healed, recovering"),
        ),
        traces=traces,
        layout=timed_layout(
            run,
            height=ROW_HEIGHT * len(shown) + 40,
            yaxis=lane_axis(len(shown)),
            annotations=labels,
            barmode="overlay",
            hovermode="closest",
        ),
    )


def _phases(run: Run, window: FaultReport) -> list[tuple[str, float, float, str]]:
    """Return colour, start, end and description of each phase of the fault."""
    injected, end = run.second(window.injected_at), end_of(run, window)
    healed = run.second(window.healed_at) if window.healed_at else end
    verified = run.second(window.verified_at) if window.verified_at else healed
    found = [
        (
            "@fault/0.35",
            injected,
            verified,
            f"injected at {fmt.clock(window.injected_at)} UTC"
            + ("" if window.verified_at else ", never verified"),
        )
    ]
    if window.verified_at:
        found.append(
            (
                "@fault",
                verified,
                healed,
                f"in force from {fmt.clock(window.verified_at)} to "
                f"{fmt.clock(window.healed_at)} UTC",
            )
        )
    if window.healed_at:
        found.append(
            (
                "@fault/0.15",
                healed,
                end,
                f"healed at {fmt.clock(window.healed_at)}, recovered at "
                f"{fmt.clock(window.recovered_at)} UTC",
            )
        )
    return found


def _spoken_window(run: Run, window: FaultReport) -> str:
    healed = f"to {run.second(window.healed_at):.1f} s" if window.healed_at else "on, never healed"
    return (
        f"{fmt.fault(window.window)} {wording.fault(window)} from "
        f"{run.second(window.verified_at or window.injected_at):.1f} s {healed}"
        + ("" if window.verified else ", not verified")
    )
