"""A member of a share group that is a program of the user, followed by its delivery log."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Mapping

from ackproof.clients.own_program import OwnProgram
from ackproof.clients.process import ConsumerProcess
from ackproof.clients.shared_page import Progress, State, now_us
from ackproof.clients.specs import ConsumerSpec
from ackproof.ledger import delivery_log
from ackproof.ledger.arrow_stream import TableStream
from ackproof.ledger.log_lines import GrowingLog
from ackproof_spark.tables import CONSUMER_EVENTS


def consumer_process(spec: ConsumerSpec, secrets: Mapping[str, str]) -> ConsumerProcess:
    """Return the process of a consumer, which is ackproof's or a program of the user."""
    own = spec.share is not None and spec.share.program is not None
    return (OwnWorker if own else ConsumerProcess)(spec, secrets=secrets)


class OwnWorker(ConsumerProcess):
    """Its page has its state only; what it did is in its delivery log."""

    def __init__(self, spec: ConsumerSpec, *, secrets: Mapping[str, str]) -> None:
        super().__init__(spec, secrets=secrets)
        assert spec.share is not None  # the caller's case, as that of its parts
        assert spec.share.program is not None
        assert spec.share.deliveries is not None
        self._own, self._path = spec.share.program, spec.share.deliveries
        self._log = GrowingLog(self._path, delivery_log.is_delivery)
        self._program: OwnProgram
        self._end_by = float("inf")
        self._hangs = False

    def start(self) -> None:
        spec = self.spec
        spec.progress.with_suffix(".json").write_text(spec.to_json())
        self._path.parent.mkdir(exist_ok=True)
        events = TableStream(spec.events, CONSUMER_EVENTS, spec.columns)
        events.write_rows(("at", "poll", "event"), [(now_us(), 0, "started")])
        events.close()
        self._program = OwnProgram(
            self._own.command,
            noun=self.name,
            where=f"workload.consumers.{spec.group}.application",
            environment=self._own.environment,
            variables={
                "ACKPROOF_BOOTSTRAP_SERVERS": spec.bootstrap_servers,
                "ACKPROOF_TOPIC": spec.topic,
                "ACKPROOF_GROUP": spec.group,
                "ACKPROOF_DELIVERIES": str(self._path.resolve()),
                "ACKPROOF_SETTINGS": json.dumps({**spec.settings, **self._secrets}),
            },
            output=self.log,
            orphaned=signal.SIGKILL,  # it may be suspended
        )
        self._process = self._program.process
        self.page.state = State.CONSUMING

    @property
    def error(self) -> str:
        if self._hangs:
            return f"{self.name} still ran {self._own.ends_within:g} s after SIGTERM and was killed"
        return self._program.trouble

    def progress(self) -> Progress:
        """Return how many records it has acquired, as `sent`."""
        return Progress(sent=self._log.count())

    def stop(self) -> None:
        """Ask it to end with SIGTERM; kill it if it was asked too long ago."""
        if self.returncode is not None:
            return
        if self._end_by == float("inf"):
            self._end_by = time.monotonic() + self._own.ends_within
            self._program.terminate()
        elif time.monotonic() > self._end_by:
            self._hangs = True
            self._program.kill()

    def send_signal(self, signal: int) -> None:
        self._program.signal(signal)

    def kill(self) -> None:
        if self._process is not None:
            self._program.kill()
