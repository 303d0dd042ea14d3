"""The `ackproof` command.

Exit codes: 0 holds, 1 violated, 2 usage or bad input, 3 inconclusive (also: interrupted),
4 environment. Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

import typer

from ackproof.cli import (
    baseline,
    bench_boot,
    bench_check,
    bench_faults,
    bench_ledger,
    bench_link,
    bench_model,
    check,
    clean,
    compare,
    dashboard,
    doctor,
    faults,
    image,
    plan,
    predict,
    replay,
    report,
    run,
    runs,
    schedule,
    schema,
    shrink,
    validate,
    warehouse,
)
from ackproof.cli.options import complain, stderr
from ackproof.errors import AckproofError, ExitCode

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Prove that Kafka keeps what it acknowledged, on the cluster and configuration you run.",
)
bench_app = typer.Typer(no_args_is_help=True, help="Measure ackproof against a peer, as ratios.")
app.add_typer(image.app, name="image")
app.add_typer(bench_app, name="bench")
bench_app.command("boot")(bench_boot.boot)
bench_app.command("check")(bench_check.check)
bench_app.command("ledger")(bench_ledger.ledger)
bench_app.command("model")(bench_model.model)
bench_app.command("link")(bench_link.link)
bench_app.command("faults")(bench_faults.faults)
app.add_typer(warehouse.app, name="warehouse")
app.command("dashboard")(dashboard.dashboard)
app.command("compare")(compare.compare)
app.add_typer(baseline.app, name="baseline")
app.command("runs")(runs.runs)
app.command("show")(runs.show)
app.command("open")(runs.open_report)
app.command("schedule")(schedule.schedule)
app.command("plan")(plan.plan)
app.command("replay")(replay.replay)
app.command("shrink")(shrink.shrink)
app.command("run")(run.run)
app.command("predict")(predict.predict)
app.command("check")(check.check)
app.command("report")(report.report)
app.command("validate")(validate.validate)
app.command("doctor")(doctor.doctor)
app.command("faults")(faults.faults)
app.command("schema")(schema.schema)
app.command("clean")(clean.clean)

#: What typer makes of a KeyboardInterrupt: 128 + SIGINT.
_INTERRUPTED = 130
#: A closed terminal leaves no more behind than Ctrl-C does.
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DEFECT = "This may be a defect of ackproof; ACKPROOF_TRACEBACK=1 shows where it happened."


def main() -> None:
    """Run the command; every error a user can meet is one message and an exit code."""
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    sys.exit(_run_command())


def _run_command() -> int:
    try:
        # Returns the code of a command that ended with typer.Exit, else None; typer turns Ctrl-C
        # into 130.
        code = app(standalone_mode=False) or ExitCode.HOLDS
    except typer.TyperException as error:
        error.show()  # type: ignore[attr-defined]  # every one that typer raises has it
        return ExitCode.USAGE
    except AckproofError as error:
        complain(error)
        return error.exit_code
    except Exception as error:
        # Python would end with 1, which says that acknowledged records were lost.
        complain(AckproofError(f"unexpected {type(error).__name__}: {error}", hint=_DEFECT))
        if os.environ.get("ACKPROOF_TRACEBACK"):
            raise
        return ExitCode.ENVIRONMENT
    if code == _INTERRUPTED:
        stderr().print("interrupted: the cluster is gone, what was recorded is kept")
        return ExitCode.INCONCLUSIVE
    return int(code)


_interrupts: list[int] = []


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the work on the first Ctrl-C; later ones must not end the cleaning up."""
    _interrupts.append(number)
    if len(_interrupts) == 1:
        raise KeyboardInterrupt
    stderr().print("still cleaning up (`ackproof clean` removes what is left)")
