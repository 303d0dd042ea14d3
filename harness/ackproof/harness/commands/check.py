"""`ackproof check`: stored runs judged again, and histories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ackproof.harness.commands import histories
from ackproof.harness.commands.shared import LOCAL_SPARK, Json, Spark, exit_with, print_json, stdout


def check(
    paths: Annotated[list[Path], typer.Argument(help="Run directories, or history files (JSON).")],
    *,
    spark: Spark = LOCAL_SPARK,
    as_json: Json = False,
    subscribe: histories.Subscribe = None,
    isolation_level: histories.IsolationLevel = None,
    acks: histories.AcksOption = None,
    idempotence: histories.Idempotence = None,
    ww_deps: histories.WwDeps = None,
) -> None:
    """Judge stored runs again, each from its directory alone; or check histories for anomalies.

    Recovers the ledger of a killed run. A history is a JSON file of what clients sent and polled.

    Examples: [bold]ackproof check runs/latest[/], [bold]ackproof check history.json --json[/]
    """
    from ackproof.harness.analysis import judge_run
    from ackproof.harness.report import print_run

    settings = {
        "sub_via": None if subscribe is None else "subscribe" if subscribe else "assign",
        "isolation_level": isolation_level,
        "acks": acks,
        "idempotence": idempotence,
        "ww_deps": ww_deps,
    }
    if histories.are_histories(paths):
        reports = histories.check_histories(paths, settings)
        if as_json:
            print_json([histories.document(one) for one in reports])
        else:
            histories.print_reports(stdout(), reports)
        raise typer.Exit(histories.exit_code(reports))
    if any(value is not None for value in settings.values()):
        raise typer.BadParameter("a run directory has its own configuration", param_hint="settings")
    verdicts = [judge_run(run_dir.resolve()) for run_dir in paths]
    if as_json:
        documents = [verdict.model_dump(mode="json") for verdict in verdicts]
        print_json(documents if len(documents) > 1 else documents[0])
    else:
        for run_dir, verdict in zip(paths, verdicts, strict=True):
            print_run(stdout(), verdict, run_dir)
    exit_with(verdicts)
