"""`ackproof check --acked FILE …`: acked logs of an application against a running cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ackproof.cli.options import exit_with, print_json, stderr, stdout, write_reports
from ackproof_spark.record import ID_HEADER

_option: Any = partial(
    typer.Option, rich_help_panel="Acked logs of your application (docs/reference/acked-log.md)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AckedLogs:
    """The options for acked logs."""

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


def check(
    options: AckedLogs,
    paths: Sequence[Path] | None,
    of_histories: Mapping[str, object],
    *,
    out: Path,
    as_json: bool,
) -> NoReturn:
    from ackproof.execution.acked_check import AckedCheck, check_acked
    from ackproof.own_config.reading import client_settings
    from ackproof.progress import ConsoleReporter
    from ackproof.report.terminal import print_run

    bootstrap = options.bootstrap
    if not (options.acked and bootstrap):
        log = next(iter(options.acked or paths or [Path("FILE")]))
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
            logs=options.acked,
            bootstrap_servers=bootstrap,
            settings=client_settings(options.client_config) if options.client_config else {},
            header=options.header,
            acks=str(of_histories.get("acks", "")),
            end_markers=options.end_marker,
        ),
        out=out,
        reporter=ConsoleReporter(stderr()),
    )
    write_reports([run_dir], [verdict], title="acked log")
    if as_json:
        print_json(verdict.model_dump(mode="json"))
    else:
        print_run(stdout(), verdict, run_dir)
    exit_with([verdict], None)
