"""The harness's side of a client process."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Generic, TypeVar

from ackproof.clients import java_client, librdkafka_wheel
from ackproof.clients.shared_page import Progress, ProgressPage, State
from ackproof.clients.specs import ConsumerSpec, ProbeSpec, ProducerSpec
from ackproof.errors import WorkloadError
from ackproof_spark.spark import client_settings

#: Characters of the log that an error quotes if the process could not store one itself.
_LOG_TAIL = 2000

_Spec = TypeVar("_Spec", ProducerSpec, ConsumerSpec, ProbeSpec)


class ClientProcess(Generic[_Spec]):
    """One client in a process of its own, so that it can be killed without the harness.

    `secrets` are its security settings by librdkafka's names. They are passed through standard
    input, not in a file or on the command line. Next to the page at `spec.progress` are the
    specification (`.json`) and the output of the process (`.log`).
    """

    def __init__(self, spec: _Spec, *, secrets: Mapping[str, str] | None = None) -> None:
        self._secrets = dict(secrets or {})
        self.spec: _Spec = dataclasses.replace(spec, parent=os.getpid())
        self.log = spec.progress.with_suffix(".log")
        self.page = ProgressPage(spec.progress, create=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    def start(self) -> None:
        path = self.spec.progress.with_suffix(".json")
        path.write_text(self.spec.to_json())
        environment = dict(os.environ)
        if isinstance(self.spec, ProbeSpec) or self.spec.java is None:
            if not isinstance(self.spec, ProbeSpec):
                environment = librdkafka_wheel.environment(self.spec.librdkafka)
            command = [sys.executable, "-m", f"ackproof.clients.{self.spec.noun}", str(path)]
            secrets = json.dumps(self._secrets)
        else:
            path = path.with_suffix(".properties")
            path.write_text(java_client.properties(java_client.fields(self.spec)))
            command = java_client.command(self.spec.java, self.spec.noun, path)
            secrets = java_client.properties(client_settings.for_java(self._secrets))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal must not reach it
            )
        assert self._process.stdin is not None  # requested above
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            pipe.write(secrets.encode())

    @property
    def pid(self) -> int:
        """The process id. Raises `WorkloadError` before `start`."""
        return self._started().pid

    @property
    def state(self) -> State:
        return self.page.state

    @property
    def returncode(self) -> int | None:
        """None while the process runs; then 0, an `ExitCode`, or the negative signal number."""
        return self._started().poll()

    @property
    def error(self) -> str:
        """The error with which the process ended; empty without one, and while it runs."""
        code = self.returncode
        if not code:
            return ""
        if self.page.error:
            return self.page.error
        tail = self.log.read_text(errors="replace")[-_LOG_TAIL:]
        return f"{self.name} ended with {code}\n{tail}".rstrip()

    @property
    def busy_share(self) -> float:
        """The share of its working time in which the client's one thread used the CPU, 0 to 1.

        Near 1 the client was the bottleneck, not the cluster.
        """
        worked_us = self.page.updated_at - self.page.started_at
        return self.page.busy / worked_us if worked_us > 0 else 0.0

    @property
    def late_share(self) -> float:
        """The share of acks, 0 to 1, that were late because the client stalled, see `Stalls`."""
        acked = self.progress().acked
        return self.page.late / acked if acked else 0.0

    def progress(self) -> Progress:
        """Return the counts that the process published last, at most about 10 ms ago."""
        return self.page.read()

    def stop(self) -> None:
        """Ask the process to end when all sends have an outcome or all records are consumed."""
        self.page.stop = True

    def resume(self) -> None:
        self.page.resumed = True

    def send_signal(self, signal: int) -> None:
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
                f"{self.name} still runs "
                f"({self.state.name.lower()}, {progress.in_flight} sends in flight)",
                hint="Stop it and wait longer than delivery.timeout.ms, or kill it: its ledger "
                "stays readable.",
            ) from None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise WorkloadError(f"{self.name} was not started", hint="Call start() first.")
        return self._process


class ProducerProcess(ClientProcess[ProducerSpec]):
    """A producer, which writes a ledger, and a log of its transactions."""


class ConsumerProcess(ClientProcess[ConsumerSpec]):
    """A consumer, which writes its reads, its events, and the effects of its processing."""


class ProbeProcess(ClientProcess[ProbeSpec]):
    """The probe, which writes the ledgers of its producers, and its reads."""
