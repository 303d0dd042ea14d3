"""`ackproof check`: judge stored runs again, or check recorded histories."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ackproof.cli import acked_files, history_files, options
from ackproof.errors import AckproofError


@options.grouped
def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Run directories, or history files (JSON, or Jepsen's history.edn). Not both.",
            show_default=False,
        ),
    ] = None,
    *,
    logs: acked_files.AckedLogs,
    out: options.Out = options.RUNS,
    spark: options.Spark = options.LOCAL_SPARK,
    as_json: options.Json = False,
    of_histories: history_files.Settings,
) -> None:
    """Judge stored runs again, check histories for anomalies, or look up acked records.

    A run needs no cluster any more; the ledger of a run that was killed is recovered. A history has
    the operations of clients: their sends and polls. It is a JSON file, or the history.edn that
    Jepsen's Kafka workload writes to its store. An acked log lists the sends of your application;
    each of them is looked up on a running cluster.

    Examples: [bold]ackproof check runs/latest[/], [bold]ackproof check history.edn --json[/],
    [bold]ackproof check --acked acked.jsonl --bootstrap localhost:9092[/]
    """
    from ackproof.spark_session import start_early

    settings = of_histories.given
    if logs.acked or logs.bootstrap:
        acked_files.check(logs, paths, settings, out=out, as_json=as_json)
    if not paths:
        raise typer.BadParameter(
            "name run directories or history files, or acked logs with --acked",
            param_hint="PATHS",
        )
    histories = history_files.are_histories(paths)
    if settings and not histories:
        raise typer.BadParameter(
            "these options are for history files; a run directory has its own settings",
            param_hint="--subscribe, --acks, …",
        )
    if any(map(os.path.exists, paths)):
        start_early()  # while the rest of ackproof is imported, and the files are read
    if histories:
        reports = history_files.check_histories(paths, settings)
        if as_json:
            options.print_json([history_files.document(one) for one in reports])
        else:
            for report in reports:
                history_files.print_report(options.stdout(), report)
        raise typer.Exit(history_files.exit_code(reports))
    _judge_runs(paths, out, as_json=as_json)


def _judge_runs(paths: Sequence[Path], out: Path, *, as_json: bool) -> None:
    """Judge runs; a missing or damaged run must not hide the losses of the others."""
    from ackproof.judgement.judge import judge_run
    from ackproof.report.terminal import print_run

    verdicts = []
    failures: list[AckproofError] = []
    for path in paths:
        try:
            run_dir = options.find_run(path, out)
            verdict = judge_run(run_dir)
        except AckproofError as error:
            if len(paths) == 1:
                raise
            failures.append(error)
            continue
        verdicts.append(verdict)
        if not as_json:
            print_run(options.stdout(), verdict, run_dir)
    if as_json:
        documents = [verdict.model_dump(mode="json") for verdict in verdicts]
        options.print_json(documents if len(paths) > 1 else documents[0])
    for failure in failures[:-1]:
        options.print_error(failure)
    options.exit_with(verdicts, failures[-1] if failures else None)
