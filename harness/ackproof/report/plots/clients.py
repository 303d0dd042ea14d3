"""The plots of consumers and transactions: unread records, and ends of transactions."""

from __future__ import annotations

from typing import Any

from ackproof.report import formatting as fmt
from ackproof.report.data.clients import transaction_ends, unread_offsets
from ackproof.report.data.run import Run
from ackproof.report.data.sends import Sends
from ackproof.report.data.tables import Numbers
from ackproof.report.plots.figure import Figure, Key, broker_colour
from ackproof.report.plots.time_axis import band_height, bin_starts, timed_layout

_HEIGHT = 190
#: Maximum number of groups in a plot.
_MAX_GROUPS = 6
_COLOURS = {"committed": "@acked", "aborted": "@failed", "unknown": "@unknown"}


def figures(run: Run) -> list[Figure]:
    """Return the plots for which the run has data, in reading order."""
    if run.sends is None or run.origin is None:
        return []
    plots = [_unread(run, run.sends), _transactions(run, run.sends)]
    return [figure for figure in plots if figure is not None]


def _unread(run: Run, sends: Sends) -> Figure | None:
    """Plot how many acked offsets each consumer group has not read yet."""
    groups = unread_offsets(run, sends)
    if not groups:
        return None
    drawn = dict(list(groups.items())[:_MAX_GROUPS])
    colours = {group: broker_colour(number) for number, group in enumerate(drawn, start=1)}
    more = len(groups) - len(drawn)
    return _over_time(
        run,
        sends,
        name="unread",
        title="Acked, not read yet",
        caption="Acked offsets that the consumers of a group have not read yet, in all partitions; "
        f"bins of {sends.width:g} s. Offsets that remain at the end were lost or never read."
        + (f" {more} more groups are not drawn." if more else ""),
        spoken="; ".join(
            f"group {group}: at most {fmt.count(int(values.max()))} behind, "
            f"{fmt.count(int(values[-1]))} at the end"
            for group, values in drawn.items()
        )
        + ".",
        lines={group: (colours[group], values) for group, values in drawn.items()},
    )


def _transactions(run: Run, sends: Sends) -> Figure | None:
    """Plot the cumulative number of ended transactions by outcome; a plateau is a standstill."""
    counts, untimed = transaction_ends(run, sends)
    drawn = {outcome: values for outcome, values in counts.items() if values.any()}
    if not drawn:
        return None
    note = f" No end is known of {fmt.count(untimed)} more." if untimed else ""
    return _over_time(
        run,
        sends,
        name="transactions",
        title="Transactions",
        caption=f"Ended transactions by outcome, cumulative; bins of {sends.width:g} s.{note}",
        spoken=", ".join(
            f"{fmt.count(int(values.sum()))} {outcome}" for outcome, values in drawn.items()
        )
        + f".{note}",
        lines={outcome: (_COLOURS[outcome], values.cumsum()) for outcome, values in drawn.items()},
    )


def _over_time(
    run: Run,
    sends: Sends,
    *,
    name: str,
    title: str,
    caption: str,
    spoken: str,
    lines: dict[str, tuple[str, Numbers]],
) -> Figure:
    """Plot stepped lines over the run's time; `lines` are colours and values by name."""
    height = _HEIGHT + band_height(run)
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": bin_starts(sends),
            "y": values.tolist(),
            "line": {"color": colour, "width": 1.5, "shape": "hv"},
            "hovertemplate": f"%{{y:,.0f}} {line}<extra></extra>",
        }
        for line, (colour, values) in lines.items()
    ]
    return Figure(
        name=name,
        title=title,
        caption=caption,
        spoken=spoken,
        height=height,
        keys=tuple(Key(colour=colour, text=line) for line, (colour, _) in lines.items()),
        traces=traces,
        follow="all",
        layout=timed_layout(
            run,
            height=height,
            bands=True,
            yaxis={"rangemode": "tozero", "tickformat": ",~r", "nticks": 5},
        ),
    )
