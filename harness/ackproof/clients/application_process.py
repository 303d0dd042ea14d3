"""The application of a scenario: started, followed by its acked log, and ended."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from ackproof.clients.program import PR_SET_PDEATHSIG
from ackproof.clients.shared_page import Progress
from ackproof.clients.supervisor import ClientSupervisor
from ackproof.errors import ScenarioError, WorkloadError
from ackproof.ledger import acked_log
from ackproof.ledger.conversion import AckedLogs, convert
from ackproof.scenario.application import Application
from ackproof.scenario.model import Scenario
from ackproof.scenario.workload import OurProducers, OwnApplication

#: Characters of the application's output that a message quotes.
_LOG_TAIL = 2000

#: Exit statuses of a program that ended because of SIGTERM, itself or by its runtime.
_TERMINATED = (0, -signal.SIGTERM, 128 + signal.SIGTERM)


def acked_logs(application: Application, run_dir: Path) -> list[Path]:
    """Return the acked logs of a run: ackproof's, then the application's own."""
    ours = [acked_log.path(run_dir)] if application.command else []
    return [*ours, *(Path(log) for log in application.logs)]


class ApplicationSupervisor(ClientSupervisor):
    """An application as a run's workload, and consumer groups beside it.

    Entering starts them; leaving kills what still runs. Files of the application in the run
    directory: `application/acked.jsonl`, `application/output.log`.
    """

    def __init__(
        self,
        scenario: Scenario,
        run_dir: Path,
        *,
        bootstrap_servers: str,
        secrets: Mapping[str, str],
    ) -> None:
        super().__init__(scenario, run_dir, bootstrap_servers=bootstrap_servers, secrets=secrets)
        self._application = _application(scenario)
        self._run_dir = run_dir
        self._folder = acked_log.path(run_dir).parent
        self._output = self._folder / "output.log"
        self._environment = {
            **os.environ,
            "PATH": _search_path(),
            **self._application.environment,
            "ACKPROOF_BOOTSTRAP_SERVERS": bootstrap_servers,
            "ACKPROOF_TOPIC": scenario.workload.topic,
            "ACKPROOF_ACKED": str(acked_log.path(run_dir).resolve()),
            "ACKPROOF_SETTINGS": json.dumps({**scenario.workload.client_settings, **secrets}),
        }
        self._process: subprocess.Popen[bytes]  # while the context is open
        self._deadline = 0.0
        self._asked_to_end = False
        self._acked = 0
        self._read_to: dict[Path, int] = {}

    @staticmethod
    def require_startable(scenario: Scenario) -> None:
        """Raise ScenarioError for a missing command or program, or an existing acked log."""
        application = _application(scenario)
        if not application.command:
            raise ScenarioError(
                "workload.application.command is missing, so there is nothing to run",
                hint="Give the command that starts your application; what it has sent already is "
                "judged by: ackproof check FILE --from-cluster HOST:PORT",
            )
        program = application.command[0]
        path = application.environment.get("PATH", _search_path())
        if shutil.which(program, path=path) is None:
            raise ScenarioError(
                f"workload.application.command: {program!r} is no program that can be run",
                hint="Give a program and its arguments. It is looked for in PATH, or by its path "
                "from the folder in which ackproof runs, and must be executable.",
            )
        for log in application.logs:
            if Path(log).exists():
                raise ScenarioError(
                    f"the acked log {log} exists already: its sends are not of this run",
                    hint="Move it away, or judge it with: ackproof check FILE",
                )

    def _start_senders(self) -> None:
        self._process = self._start_application()
        self._deadline = time.monotonic() + self._workload.seconds

    def _start_application(self) -> subprocess.Popen[bytes]:
        self._folder.mkdir(exist_ok=True)
        libc = ctypes.CDLL(None)
        with self._output.open("ab") as output:
            try:
                return subprocess.Popen(
                    self._application.command,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,  # it is ended with its children
                    # One system call, safe after fork: it ends with a harness that is killed.
                    preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),  # noqa: PLW1509
                )
            except OSError as error:
                raise WorkloadError(
                    f"the application cannot be started: {self._application.command[0]!r}: "
                    f"{error.strerror}",
                    hint="workload.application.command is a program and its arguments.",
                ) from error

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        super().__exit__()

    def take_acked_logs(self) -> AckedLogs:
        logs = acked_logs(self._application, self._run_dir)
        return convert(logs, self._run_dir, lenient=True)

    def progress(self) -> Progress:
        """Return the acks in the acked logs so far; other sends are unknown."""
        for path in acked_logs(self._application, self._run_dir):
            if path.exists() and path.suffix not in (".csv", ".parquet"):
                self._acked += self._new_acks(path)
        return Progress(sent=self._acked, acked=self._acked, failed=0, unknown=0)

    def restart_crashed(self) -> bool:
        """Start successors of consumers that crashed as planned.

        Return whether the application still runs, and has time left.
        """
        super().restart_crashed()
        return self._process.poll() is None and time.monotonic() < self._deadline

    def stop_producers(self) -> None:
        if self._process.poll() is None:
            self._asked_to_end = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)

    def await_producers(self) -> list[str]:
        troubles = []
        try:
            status = self._process.wait(self._application.ends_within)
        except subprocess.TimeoutExpired:
            troubles.append(
                f"the application still ran {self._application.ends_within:g} s after SIGTERM and "
                "was killed: sends without an outcome are not in its acked log"
            )
        else:
            if status not in (_TERMINATED if self._asked_to_end else (0,)):
                troubles.append(self._ended_with(status))
        if self.progress().acked == 0:
            troubles.append("the application's acked log has no acked send")
        return troubles

    def _ended_with(self, status: int) -> str:
        tail = self._output.read_text(errors="replace")[-_LOG_TAIL:].strip()
        how = f"by signal {-status}" if status < 0 else f"with exit status {status}"
        return f"the application ended {how}" + (f": {tail}" if tail else "")

    def _new_acks(self, path: Path) -> int:
        """Return the number of acked sends in complete lines since the last call."""
        with path.open("rb") as file:
            file.seek(self._read_to.get(path, 0))
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read_to[path] = self._read_to.get(path, 0) + len(whole)
        return sum(acked_log.is_ack(line) for line in whole.splitlines())


def supervisor_of(scenario: Scenario) -> type[ClientSupervisor]:
    """Return the class that starts the senders of this scenario, and its other clients."""
    ours = isinstance(scenario.senders, OurProducers)
    return ClientSupervisor if ours else ApplicationSupervisor


def _application(scenario: Scenario) -> Application:
    assert isinstance(scenario.senders, OwnApplication)  # `supervisor_of` selects by it
    return scenario.senders.application


def _search_path() -> str:
    """Return PATH, in which `python` has ackproof unless a virtual environment is active."""
    path = os.environ.get("PATH", os.defpath)
    if "VIRTUAL_ENV" in os.environ:
        return path
    return f"{Path(sys.executable).parent}{os.pathsep}{path}"
