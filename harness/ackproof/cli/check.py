"""`ackproof check`: judge stored runs again, check histories, or look up acked records."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ackproof.cli import history_files, options
from ackproof.errors import AckproofError
from ackproof_spark.record import ID_HEADER

_option: Any = partial(
    typer.Option, rich_help_panel="Acked logs of your application (docs/reference/acked-log.md)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AckedLogs:
    acked: Annotated[
        list[Path] | None,
        _option(
            metavar="FILE",
            help="An acked log: JSON lines, .csv, .parquet, or the output of "
            "kafka-verifiable-producer; may be repeated.",
        ),
    ] = None
    bootstrap: Annotated[
        str, _option(metavar="HOST:PORT,…", help="The cluster that the sends went to.")
    ] = ""
    client_config: Annotated[
        Path | None,
        _option(
            metavar="FILE", help="Properties of the client, in librdkafka's names (TLS, SASL)."
        ),
    ] = None
    header: Annotated[str, _option(metavar="NAME", help="The header that holds a record's id.")] = (
        ID_HEADER
    )
    end_marker: Annotated[
        bool,
        _option(
            "--end-marker",
            help="Write one record to each partition with acks=all: its offset proves where the "
            "log ends. Without it, absent sends acked at or after the high watermark are unseen, "
            "not lost.",
        ),
    ] = False


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
    logs: AckedLogs,
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
        _look_up(logs, paths, settings, out=out, as_json=as_json)
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
        from ackproof.runs.verdict import exit_code

        reports = history_files.check_histories(paths, settings)
        if as_json:
            options.print_json([history_files.document(one) for one in reports])
        else:
            for report in reports:
                history_files.print_report(options.stdout(), report)
        raise typer.Exit(exit_code(report.judgement.verdict for report in reports))
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


def _look_up(
    logs: AckedLogs,
    paths: Sequence[Path] | None,
    of_histories: Mapping[str, object],
    *,
    out: Path,
    as_json: bool,
) -> NoReturn:
    """Look up acked records on a running cluster; exit as `check` does."""
    from ackproof.execution.acked_check import AckedCheck, check_acked
    from ackproof.own_config.reading import client_settings
    from ackproof.progress import ConsoleReporter
    from ackproof.report.terminal import print_run

    bootstrap = logs.bootstrap
    if not (logs.acked and bootstrap):
        log = next(iter(logs.acked or paths or [Path("FILE")]))
        raise typer.BadParameter(
            "--acked and --bootstrap belong together: "
            f"ackproof check --acked {log} --bootstrap {bootstrap or 'HOST:PORT'}"
        )
    if not re.fullmatch(r"[^\s,:]+:[0-9]+(,[^\s,:]+:[0-9]+)*", bootstrap):
        raise typer.BadParameter(
            f"{bootstrap!r} is not host:port, comma-separated", param_hint="--bootstrap"
        )
    if paths:
        raise typer.BadParameter("acked logs are checked by themselves: leave out the paths")
    if others := of_histories.keys() - {"acks"}:
        raise typer.BadParameter(f"these options are for history files: {', '.join(others)}")
    run_dir, verdict = check_acked(
        AckedCheck(
            logs=logs.acked,
            bootstrap_servers=bootstrap,
            settings=client_settings(logs.client_config) if logs.client_config else {},
            header=logs.header,
            acks=str(of_histories.get("acks", "")),
            end_markers=logs.end_marker,
        ),
        out=out,
        reporter=ConsoleReporter(options.stderr()),
    )
    options.write_reports([run_dir], [verdict], title="acked log")
    if as_json:
        options.print_json(verdict.model_dump(mode="json"))
    else:
        print_run(options.stdout(), verdict, run_dir)
    options.exit_with([verdict], None)
