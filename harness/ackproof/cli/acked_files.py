"""`ackproof check --acked FILE …`: acked logs of an application against a running cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ackproof.cli.options import exit_with, print_json, stderr, stdout, write_reports

_option: Any = partial(
    typer.Option, rich_help_panel="Acked logs of your application (docs/reference/acked-log.md)"
)

Acked = Annotated[
    list[Path] | None,
    _option(
        "--acked",
        metavar="FILE",
        help="An acked log: JSON lines, .csv, .parquet, or the output of "
        "kafka-verifiable-producer; may be repeated.",
    ),
]
Bootstrap = Annotated[
    str,
    _option("--bootstrap", metavar="HOST:PORT,…", help="The cluster that the sends went to."),
]
ClientConfig = Annotated[
    Path | None,
    _option(
        "--client-config",
        metavar="FILE",
        help="Properties of the client, in librdkafka's names (TLS, SASL).",
    ),
]
Header = Annotated[
    str, _option("--header", metavar="NAME", help="The header that holds a record's id.")
]
EndMarker = Annotated[
    bool,
    _option(
        "--end-marker",
        help="Write one record to each partition with acks=all: its offset proves where the log "
        "ends. Without it, absent sends acked at or after the high watermark are unseen, not lost.",
    ),
]


def check(
    paths: Sequence[Path] | None,
    of_histories: Mapping[str, object],
    *,
    logs: Sequence[Path],
    bootstrap: str,
    client_config: Path | None,
    header: str,
    end_marker: bool,
    out: Path,
    as_json: bool,
) -> NoReturn:
    from ackproof.execution.acked_check import AckedCheck, check_acked
    from ackproof.own_config.reading import client_settings
    from ackproof.progress import ConsoleReporter
    from ackproof.report.terminal import print_run

    if not (logs and bootstrap):
        log = next(iter(logs or paths or [Path("FILE")]))
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
    others = {name for name, value in of_histories.items() if value is not None} - {"acks"}
    if others:
        raise typer.BadParameter(f"these options are for history files: {', '.join(others)}")
    run_dir, verdict = check_acked(
        AckedCheck(
            logs=logs,
            bootstrap_servers=bootstrap,
            settings=client_settings(client_config) if client_config else {},
            header=header,
            acks=str(of_histories["acks"] or ""),
            end_markers=end_marker,
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
