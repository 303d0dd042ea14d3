"""The application of a scenario: started, followed by its acked log, and ended."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from ackproof.clients.own_program import OwnProgram, require_program
from ackproof.clients.shared_page import Progress
from ackproof.clients.supervisor import ClientSupervisor
from ackproof.errors import ScenarioError
from ackproof.ledger import acked_log
from ackproof.ledger.conversion import AckedLogs, convert
from ackproof.ledger.log_lines import GrowingLog
from ackproof.scenario.application import Application
from ackproof.scenario.model import Scenario
from ackproof.scenario.workload import OurProducers, OwnApplication

_WHERE = "workload.application"


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
        self._variables = {
            "ACKPROOF_BOOTSTRAP_SERVERS": bootstrap_servers,
            "ACKPROOF_TOPIC": scenario.workload.topic,
            "ACKPROOF_ACKED": str(acked_log.path(run_dir).resolve()),
            "ACKPROOF_SETTINGS": json.dumps({**scenario.workload.client_settings, **secrets}),
        }
        self._program: OwnProgram  # while the context is open
        self._deadline = 0.0
        self._logs = [
            GrowingLog(path, acked_log.is_ack)
            for path in acked_logs(self._application, run_dir)
            if path.suffix not in (".csv", ".parquet")
        ]

    @staticmethod
    def require_startable(scenario: Scenario) -> None:
        """Raise ScenarioError for a missing command or program, or an existing acked log."""
        ClientSupervisor.require_startable(scenario)
        application = _application(scenario)
        if not application.command:
            raise ScenarioError(
                "workload.application.command is missing, so there is nothing to run",
                hint="Give the command that starts your application; what it has sent already is "
                "judged by: ackproof check FILE --from-cluster HOST:PORT",
            )
        require_program(application, _WHERE)
        for log in application.logs:
            if Path(log).exists():
                raise ScenarioError(
                    f"the acked log {log} exists already: its sends are not of this run",
                    hint="Move it away, or judge it with: ackproof check FILE",
                )

    def _start_senders(self) -> None:
        folder = acked_log.path(self._run_dir).parent
        folder.mkdir(exist_ok=True)
        self._program = OwnProgram(
            self._application.command,
            noun="the application",
            where=_WHERE,
            environment=self._application.environment,
            variables=self._variables,
            output=folder / "output.log",
        )
        self._deadline = time.monotonic() + self._workload.seconds

    def __exit__(self, *_: object) -> None:
        self._program.kill()
        super().__exit__()

    def take_acked_logs(self) -> AckedLogs:
        logs = acked_logs(self._application, self._run_dir)
        return convert(logs, self._run_dir, lenient=True)

    def progress(self) -> Progress:
        """Return the acks in the acked logs so far; other sends are unknown."""
        acked = sum(log.count() for log in self._logs)
        return Progress(sent=acked, acked=acked, failed=0, unknown=0)

    def restart_crashed(self) -> bool:
        """Start successors of consumers that crashed as planned.

        Return whether the application still runs, and has time left.
        """
        super().restart_crashed()
        return self._program.process.poll() is None and time.monotonic() < self._deadline

    def stop_producers(self) -> None:
        self._program.terminate()

    def await_producers(self) -> list[str]:
        troubles = []
        try:
            self._program.process.wait(self._application.ends_within)
        except subprocess.TimeoutExpired:
            troubles.append(
                f"the application still ran {self._application.ends_within:g} s after SIGTERM and "
                "was killed: sends without an outcome are not in its acked log"
            )
        troubles += filter(None, [self._program.trouble])
        if self.progress().acked == 0:
            troubles.append("the application's acked log has no acked send")
        return troubles


def supervisor_of(scenario: Scenario) -> type[ClientSupervisor]:
    """Return the class that starts the senders of this scenario, and its other clients."""
    ours = isinstance(scenario.senders, OurProducers)
    return ClientSupervisor if ours else ApplicationSupervisor


def _application(scenario: Scenario) -> Application:
    assert isinstance(scenario.senders, OwnApplication)  # `supervisor_of` selects by it
    return scenario.senders.application
