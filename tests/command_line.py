"""The `ackproof` command, run in this process."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ackproof.cli import main


def ackproof(*arguments: object) -> int:
    """Run the command and return its exit code; arguments and signal handlers are restored."""
    before = {number: signal.getsignal(number) for number in main._INTERRUPTS}
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["ackproof", *map(str, arguments)])
            patch.setattr(sys, "stdout", sys.stdout)
            with pytest.raises(SystemExit) as ended:
                main.main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return int(ended.value.code or 0)


def captured(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command in the checkout and capture its output. It shares this process's Spark."""
    output, errors = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(Path(__file__).parents[1]),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        code = ackproof(*arguments)
    line = list(map(str, arguments))
    return subprocess.CompletedProcess(line, code, output.getvalue(), errors.getvalue())


def invoked(*arguments: object, width: int = 200) -> Result:
    """Run the command on a wide screen; its errors are raised."""
    return CliRunner().invoke(
        main.app, list(map(str, arguments)), env={"COLUMNS": str(width)}, catch_exceptions=False
    )
