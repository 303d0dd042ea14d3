"""`ackproof check`: judge stored runs again, check histories, or look up acked records."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
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
    from_cluster: Annotated[
        str,
        _option(
            metavar="HOST:PORT",
            help="Look the sends of acked logs up on this running cluster: its bootstrap servers.",
        ),
    ] = ""
    client_config: Annotated[
        Path | None,
        _option(
            metavar="FILE",
            help="Properties of the client for --from-cluster, in librdkafka's names (TLS, SASL).",
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
        list[str],
        typer.Argument(
            metavar="PATHS",
            help="Run directories, also at an address that Spark knows (s3a://…); or history files "
            "(JSON, or Jepsen's history.edn); or acked logs (JSON lines, .csv, .parquet, or the "
            "output of kafka-verifiable-producer).",
        ),
    ],
    *,
    assume: history_files.Assume = None,
    logs: AckedLogs,
    out: options.Out = options.RUNS,
    spark: options.Spark = options.LOCAL_SPARK,
    metrics: options.Metrics = None,
    as_json: options.Json = False,
) -> None:
    """Judge stored runs again, check histories for anomalies, or look up acked records.

    What a path is, is recognised. A run needs no cluster any more; the ledger of a run that was
    killed is recovered. A history has the operations of clients: their sends and polls. It is a
    JSON file, or the history.edn that Jepsen's Kafka workload writes to its store. An acked log
    lists the sends of your application; each of them is looked up on a running cluster.

    Examples: [bold]ackproof check runs/latest[/], [bold]ackproof check history.edn --json[/],
    [bold]ackproof check acked.jsonl --from-cluster localhost:9092[/]
    """
    from ackproof.runs import addresses
    from ackproof.spark_session import start_early
    from ackproof_spark.spark.session import use_for

    settings = history_files.assumed_settings(assume) if assume else {}
    files = [addresses.path(path) for path in paths if not addresses.is_elsewhere(path)]
    if logs.from_cluster:
        _look_up(logs, files, settings, out=out, metrics=metrics, as_json=as_json)
    histories = len(files) == len(paths) and history_files.are_histories(files)
    if assume and not histories:
        raise typer.BadParameter("a run directory has its own settings", param_hint="--assume")
    if metrics and histories:
        raise typer.BadParameter("a history has no metrics of a run", param_hint="--metrics")
    for path in paths:
        use_for(path)
    if len(files) < len(paths) or any(map(os.path.exists, files)):
        start_early()  # while the rest of ackproof is imported, and the files are read
    if histories:
        from ackproof.runs.verdict import exit_code

        reports = history_files.check_histories(files, settings)
        if as_json:
            options.print_json([history_files.document(one) for one in reports])
        else:
            for report in reports:
                history_files.print_report(options.stdout(), report)
        raise typer.Exit(exit_code(report.judgement.verdict for report in reports))
    _judge_runs(paths, out, metrics=metrics, as_json=as_json)


def _judge_runs(paths: Sequence[str], out: Path, *, metrics: Path | None, as_json: bool) -> None:
    """Judge runs; a missing or damaged run must not hide the losses of the others."""
    from ackproof.judgement.judge import judge_run
    from ackproof.report.terminal import print_run

    results = []
    failures: list[AckproofError] = []
    with ExitStack() as kept:
        for path in paths:
            try:
                with ExitStack() as stack:
                    run = stack.enter_context(options.opened(path, out))
                    verdict = judge_run(run)
                    kept.enter_context(stack.pop_all())
            except AckproofError as error:
                if len(paths) == 1:
                    raise
                failures.append(error)
                continue
            results.append((run.folder, verdict))
            if not as_json:
                print_run(options.stdout(), verdict, run.folder, address=run.address)
        verdicts = [verdict for _, verdict in results]
        if as_json:
            documents = [verdict.model_dump(mode="json") for verdict in verdicts]
            options.print_json(documents if len(paths) > 1 else documents[0])
        for failure in failures[:-1]:
            options.print_error(failure)
        last = failures[-1] if failures else None
        last = options.with_metrics(metrics, results, last)
    options.exit_with(verdicts, last)


def _look_up(
    logs: AckedLogs,
    paths: Sequence[Path],
    assumed: Mapping[str, object],
    *,
    out: Path,
    metrics: Path | None,
    as_json: bool,
) -> NoReturn:
    """Look up acked records on a running cluster; exit as `check` does."""
    from ackproof.execution.acked_check import AckedCheck, check_acked
    from ackproof.own_config.reading import client_settings
    from ackproof.progress import ConsoleReporter
    from ackproof.report.terminal import print_run

    servers = logs.from_cluster
    if not re.fullmatch(r"[^\s,:]+:[0-9]+(,[^\s,:]+:[0-9]+)*", servers):
        raise typer.BadParameter(
            f"{servers!r} is not host:port, comma-separated", param_hint="--from-cluster"
        )
    if others := assumed.keys() - {"acks"}:
        names = ", ".join(sorted(name.replace("_", "-") for name in others))
        raise typer.BadParameter(f"of an acked log only acks: not {names}", param_hint="--assume")
    run_dir, verdict = check_acked(
        AckedCheck(
            logs=paths,
            bootstrap_servers=servers,
            settings=client_settings(logs.client_config) if logs.client_config else {},
            header=logs.header,
            acks=str(assumed.get("acks", "")),
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
    if verdict.observed.get("unseen") and not logs.end_marker:
        options.print_note(
            "--end-marker may decide: it writes one record to each partition, whose offset proves "
            "where the log ends."
        )
    options.exit_with([verdict], options.with_metrics(metrics, [(run_dir, verdict)]))
