"""A program of the user: how it is looked for, started with its variables, and ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ackproof.clients.program import PR_SET_PDEATHSIG
from ackproof.errors import ScenarioError, WorkloadError
from ackproof.scenario.application import Program

#: Characters of a program's output that a message quotes.
_LOG_TAIL = 2000

#: Exit statuses of a program that ended because of SIGTERM, itself or by its runtime.
_TERMINATED = (0, -signal.SIGTERM, 128 + signal.SIGTERM)


def require_program(program: Program, where: str) -> None:
    """Raise ScenarioError if there is no such program; `where` is its key in the scenario."""
    name = program.command[0]
    path = program.environment.get("PATH", _search_path())
    if shutil.which(name, path=path) is None:
        raise ScenarioError(
            f"{where}.command: {name!r} is no program that can be run",
            hint="Give a program and its arguments. It is looked for in PATH, or by its path "
            "from the folder in which ackproof runs, and must be executable.",
        )


class OwnProgram:
    """A program in a session of its own, which is signalled with its children.

    `noun` names it in messages, `where` is its key in the scenario. Its output goes to the file
    `output`. It gets the signal `orphaned` when the harness is gone.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        noun: str,
        where: str,
        environment: Mapping[str, str],
        variables: Mapping[str, str],
        output: Path,
        orphaned: signal.Signals = signal.SIGTERM,
    ) -> None:
        self._noun, self._output = noun, output
        self._asked_to_end = False
        libc = ctypes.CDLL(None)
        with output.open("ab") as log:
            try:
                self.process = subprocess.Popen(
                    command,
                    env={**os.environ, "PATH": _search_path(), **environment, **variables},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    # One system call, safe after fork.
                    preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, orphaned),  # noqa: PLW1509
                )
            except OSError as error:
                raise WorkloadError(
                    f"{noun} cannot be started: {command[0]!r}: {error.strerror}",
                    hint=f"{where}.command is a program and its arguments.",
                ) from error

    def terminate(self) -> None:
        """Ask it to end with SIGTERM; a second call changes nothing."""
        if self.process.poll() is None and not self._asked_to_end:
            self._asked_to_end = True
            self.signal(signal.SIGTERM)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """Kill it with the children that it left, and wait."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    @property
    def trouble(self) -> str:
        """How it ended, if not as it should; empty while it runs."""
        status = self.process.poll()
        if status is None or status in (_TERMINATED if self._asked_to_end else (0,)):
            return ""
        tail = self._output.read_text(errors="replace")[-_LOG_TAIL:].strip()
        how = f"by signal {-status}" if status < 0 else f"with exit status {status}"
        return f"{self._noun} ended {how}" + (f": {tail}" if tail else "")


def _search_path() -> str:
    """Return PATH, in which `python` has ackproof unless a virtual environment is active."""
    path = os.environ.get("PATH", os.defpath)
    if "VIRTUAL_ENV" in os.environ:
        return path
    return f"{Path(sys.executable).parent}{os.pathsep}{path}"
