"""`ackproof doctor`: check this machine."""

from __future__ import annotations

from dataclasses import asdict

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
    """Check what ackproof needs on this machine, and say how to get what is missing.

    Example: [bold]ackproof doctor[/]
    """
    from ackproof.doctor import examine
    from ackproof.report.console_tables import print_checks

    checks = examine(out)
    if as_json:
        print_json([asdict(one) for one in checks])
    else:
        print_checks(stdout(), checks)
    if any(one.state == "missing" for one in checks):
        raise typer.Exit(ExitCode.ENVIRONMENT)
