"""`ackproof doctor`: what this machine can do."""

from __future__ import annotations

import typer

from ackproof.cli.options import (
    RUNS,
    Json,
    Out,
    print_json,
    stdout,
)
from ackproof.errors import ExitCode


def doctor(out: Out = RUNS, as_json: Json = False) -> None:
    """Say what this machine can and cannot do, and what to do about it."""
    from ackproof.containers.doctor import examine
    from ackproof.report.console_tables import print_checks

    checks = examine(out)
    if as_json:
        from dataclasses import asdict

        print_json([asdict(one) for one in checks])
    else:
        print_checks(stdout(), checks)
    if any(one.state == "missing" for one in checks):
        raise typer.Exit(ExitCode.ENVIRONMENT)
