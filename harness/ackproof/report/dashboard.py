"""The dashboard: one HTML page of trends over the runs of a warehouse, which works offline.

All numbers come from queries of the warehouse's views.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.errors import WarehouseError
from ackproof.report.html import asset, environment, plot_data, provide_library
from ackproof.report.outcome import AS_EXPECTED
from ackproof.report.plots.trends import Trends, figures
from ackproof.runs.verdict import Word
from ackproof.safe_files import replacing

if TYPE_CHECKING:
    from ackproof_spark.warehouse.warehouse import Warehouse

#: Maximum number of runs in the table; the plots have all.
LATEST = 30

_SELECT = {
    "losses": "SELECT * FROM loss_rates ORDER BY scenario, configuration_name, kafka_version",
    "duplicates": "SELECT * FROM duplicates ORDER BY scenario, configuration_name, kafka_version",
    "recoveries": "SELECT * FROM recovery_times WHERE verified AND recovery_s IS NOT NULL "
    "ORDER BY fault, injected_at",
    "causes": "SELECT * FROM loss_causes ORDER BY lost DESC, scenario, configuration_name, `case`",
    "runs": "SELECT run_id, scenario, configuration_name, kafka_version, `commit`, verdict, "
    "reason, outcome, report, acked, lost, duplicated, availability, ack_latency_p99_ms, "
    "date_format(started_at, 'yyyy-MM-dd HH:mm:ss') AS started FROM runs "
    "ORDER BY started_at, run_id",
    "findings": "SELECT r.run_id, r.configuration_name, f.anomaly, f.predicted, f.observed "
    "FROM findings AS f JOIN runs AS r ON f.run_id = r.run_id ORDER BY r.started_at DESC",
}


def read(warehouse: Warehouse) -> Trends:
    """Query a warehouse. Raises WarehouseError if it contains no runs."""
    trends = Trends(**warehouse.queries(_SELECT))
    if not trends.runs:
        raise WarehouseError(
            f"{warehouse.storage.address} contains no runs",
            hint="Load runs first: ackproof warehouse load RUN_DIR --into WAREHOUSE",
        )
    return trends


def write_dashboard(path: Path, trends: Trends, *, title: str) -> None:
    drawn = figures(trends)
    expected = [AS_EXPECTED[Word(run["verdict"])] for run in trends.runs]
    page = (
        environment()
        .get_template("dashboard.html.j2")
        .render(
            title=title,
            trends=trends,
            latest=list(reversed(trends.runs))[:LATEST],
            tally={
                "with loss": sum(run["lost"] > 0 for run in trends.runs),
                "not as expected": expected.count("no"),
                "undecided": expected.count("undecided"),
            },
            drawn=drawn,
            style=asset("report.css"),
            script=asset("report.js"),
            library=provide_library(path.parent),
            figures={f"trend-{figure.name}": plot_data(figure) for figure in drawn},
        )
    )
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")
