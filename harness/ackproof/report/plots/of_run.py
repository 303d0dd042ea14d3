"""All plots of a run."""

from __future__ import annotations

from ackproof.report.data.run import Run
from ackproof.report.plots import clients
from ackproof.report.plots.availability import availability
from ackproof.report.plots.faults import faults
from ackproof.report.plots.figure import Figure
from ackproof.report.plots.loss_map import loss_map
from ackproof.report.plots.quantiles import quantiles
from ackproof.report.plots.rate import rate
from ackproof.report.plots.timeline import timeline


def figures(run: Run) -> list[Figure]:
    """Return the plots for which the run has data, in reading order."""
    plots = [
        faults(run),
        rate(run, run.sends) if run.sends else None,
        timeline(run),
        availability(run),
        quantiles(run, run.sends) if run.sends else None,
        loss_map(run.losses) if run.losses else None,
        *clients.figures(run),
    ]
    return [figure for figure in plots if figure is not None]
