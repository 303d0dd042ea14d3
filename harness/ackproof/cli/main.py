"""The `ackproof` command.

Exit codes: 0 holds, 1 violated, 2 usage or bad input, 3 inconclusive (also: interrupted),
4 environment. Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TextIO, cast

import typer

from ackproof.cli import (
    baseline,
    bench,
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
    scenarios,
    schedule,
    schema,
    shrink,
    validate,
    warehouse,
)
from ackproof.cli.options import print_error, stderr
from ackproof.errors import AckproofError, ExitCode, translated

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Test whether a Kafka cluster keeps every record that it acknowledged, under faults.",
    epilog="Exit codes: 0 holds, 1 violated, 2 usage or bad input, 3 inconclusive, 4 environment.",
)
_COMMANDS: dict[str, Callable[..., None]] = {
    "run": run.run,
    "compare": compare.compare,
    "predict": predict.predict,
    "plan": plan.plan,
    "replay": replay.replay,
    "shrink": shrink.shrink,
    "check": check.check,
    "report": report.report,
    "runs": runs.runs,
    "show": runs.show,
    "open": runs.open_report,
    "validate": validate.validate,
    "schedule": schedule.schedule,
    "faults": faults.faults,
    "schema": schema.schema,
    "dashboard": dashboard.dashboard,
    "doctor": doctor.doctor,
    "clean": clean.clean,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
app.add_typer(scenarios.app, name="scenarios")
app.add_typer(warehouse.app, name="warehouse")
app.add_typer(baseline.app, name="baseline")
app.add_typer(image.app, name="image")
app.add_typer(bench.app, name="bench")

#: What typer returns after a KeyboardInterrupt: 128 + SIGINT.
_INTERRUPTED = 130
#: A closed terminal (SIGHUP) is to leave no more behind than Ctrl-C does.
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DEFECT = "This may be a bug in ackproof. Set ACKPROOF_TRACEBACK=1 to see where it happened."


def main() -> None:
    """Run the command. Every error becomes one message and an exit code."""
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    # Libraries log tracebacks of their own, such as py4j when a signal interrupts it.
    logging.getLogger().addHandler(logging.NullHandler())
    sys.stdout = cast("TextIO", _Results(sys.stdout))
    sys.exit(_run_command())


def _run_command() -> int:
    try:
        with translated():
            # The code of a command that ended with typer.Exit, else None; 130 after Ctrl-C.
            code = app(standalone_mode=False) or ExitCode.HOLDS
    except typer.TyperException as error:
        error.show()  # type: ignore[attr-defined]  # every one that typer raises has it
        return ExitCode.USAGE
    except AckproofError as error:
        print_error(error)
        return error.exit_code
    except Exception as error:
        # Python's own exit code for an exception is 1, which here means: acked records were lost.
        print_error(AckproofError(f"unexpected {type(error).__name__}: {error}", hint=_DEFECT))
        if os.environ.get("ACKPROOF_TRACEBACK"):
            raise
        return ExitCode.ENVIRONMENT
    if code == _INTERRUPTED:
        stderr().print("interrupted: the cluster is removed, recorded data is kept")
        return ExitCode.INCONCLUSIVE
    return int(code)


class _Results:
    """Standard output. Once its reader has closed the pipe (`| head`), it drops what is written.

    So the exit code is that of the command, whoever reads its output.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            return self._drop(len(text))

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop(0)

    def _drop(self, written: int) -> int:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_interrupts: list[int] = []


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt at the first signal only: later ones must not stop the cleanup."""
    _interrupts.append(number)
    if len(_interrupts) == 1:
        raise KeyboardInterrupt
    stderr().print("still cleaning up (`ackproof clean` removes what is left)")
