"""A client process, as the harness holds it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Generic, TypeVar

from ackproof.clients.consumer_spec import ConsumerSpec
from ackproof.clients.shared_page import (
    Order,
    Progress,
    ProgressPage,
    State,
)
from ackproof.clients.spec import ProducerSpec
from ackproof.errors import WorkloadError

#: How much of the log goes into an error that the process could not state itself, characters.
_LOG_TAIL = 2000

_Spec = TypeVar("_Spec", ProducerSpec, ConsumerSpec)


class ClientProcess(Generic[_Spec]):
    """One client in a process of its own, so that it can be killed like any other client.

    `secrets` are settings that let it in (librdkafka's names); they go through its standard input,
    because a file stays and a command line is anybody's to see. Beside the page at
    `spec.progress` stand the specification (`.json`) and whatever the process and librdkafka print
    (`.log`).
    """

    #: What the client is, in words; its program is the module of that name.
    noun = "client"

    def __init__(self, spec: _Spec, *, secrets: Mapping[str, str] | None = None) -> None:
        self._secrets = dict(secrets or {})
        self.spec: _Spec = dataclasses.replace(spec, parent=os.getpid())
        self.log = spec.progress.with_suffix(".log")
        self._page = ProgressPage(spec.progress, create=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """What it is called: ``producer 0``."""
        return f"{self.noun} {self.spec.number}"

    def start(self) -> None:
        """Start the process; returns at once. `state` says when it is producing."""
        path = self.spec.progress.with_suffix(".json")
        path.write_text(self.spec.to_json())
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"ackproof.clients.{self.noun}", str(path)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is not for it
            )
        assert self._process.stdin is not None  # asked for above
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(json.dumps(self._secrets).encode())

    @property
    def pid(self) -> int:
        """The process's id. Raises `WorkloadError` before `start`."""
        return self._started().pid

    @property
    def state(self) -> State:
        """Where the process says it is."""
        return self._page.state

    @property
    def returncode(self) -> int | None:
        """None while the process runs; then 0, an `ExitCode`, or minus the signal."""
        return self._started().poll()

    @property
    def error(self) -> str:
        """Why the process ended, if not as it should; empty while it runs or if all is well."""
        code = self.returncode
        if not code:
            return ""
        if self._page.error:
            return self._page.error
        tail = self.log.read_text(errors="replace")[-_LOG_TAIL:]
        return f"{self.name} ended with {code}\n{tail}".rstrip()

    @property
    def span_us(self) -> tuple[int, int]:
        """When the first send was made and when the counts last changed, microseconds UTC."""
        return self._page.started_at, self._page.updated_at

    @property
    def busy_share(self) -> float:
        """The share of its working time in which the client's one thread used a CPU, 0 to 1.

        Near 1 the client could not have gone faster, whatever the cluster did.
        """
        started_at, ended_at = self.span_us
        return self._page.busy / (ended_at - started_at) if ended_at > started_at else 0.0

    @property
    def late_share(self) -> float:
        """The share of acks, 0 to 1, that were late because the client stalled, see `Stalls`."""
        acked = self.progress().acked
        return self._page.late / acked if acked else 0.0

    def progress(self) -> Progress:
        """Return the counts as the process last published them: at most some 10 ms old."""
        return self._page.read()

    def stop(self) -> None:
        """Ask for the end: when all sends have their outcomes, or all there is was consumed."""
        self._page.ask_to_stop()

    def resume(self) -> None:
        """Have a process that is `State.PAUSED` go on."""
        self._page.ask_to_resume()

    @property
    def order(self) -> Order:
        """What the process was told to do wrong."""
        return self._page.order

    def give(self, order: Order, *, milliseconds: int = 0) -> None:
        """Tell the process what to do wrong from now on; `obeyed` counts."""
        self._page.give(order, milliseconds=milliseconds)

    @property
    def obeyed(self) -> int:
        """How often the process did what it was told, since it was told."""
        return self._page.obeyed

    def send_signal(self, signal: int) -> None:
        """Send the process a signal; a no-op if it has ended."""
        self._started().send_signal(signal)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return `returncode`.

        Raises `WorkloadError` if the process still runs after `timeout` seconds.
        """
        try:
            return self._started().wait(timeout)
        except subprocess.TimeoutExpired:
            progress = self.progress()
            raise WorkloadError(
                f"{self.name} still runs after {timeout} s "
                f"({self.state.name.lower()}, {progress.under_way} sends under way)",
                hint="stop it and wait longer than delivery.timeout.ms, or kill it: its ledger "
                "stays readable",
            ) from None

    def kill(self) -> None:
        """SIGKILL the process, if it runs, and wait for its end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise WorkloadError(f"{self.name} was not started", hint="call start() first")
        return self._process


class ProducerProcess(ClientProcess[ProducerSpec]):
    """A producer: writes a ledger, and transactions if it has any."""

    noun = "producer"


class ConsumerProcess(ClientProcess[ConsumerSpec]):
    """A consumer: writes what it read, what happened to it, and what it processed."""

    noun = "consumer"
