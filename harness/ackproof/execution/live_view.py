"""The live job beside a run: a process of its own, and what it finds, shown while the run goes on.

The job (`ackproof_spark.live`) only reads, at a lower priority than clients and brokers,
and it is no witness: whatever becomes of it, the run goes on, and the verdict is that of the final
log.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.markup import escape

from ackproof.background import Repeating
from ackproof.cluster.admin import Admin, TopicPartition
from ackproof.errors import SparkError
from ackproof.execution.live_table import LivePartition, live_line, live_table
from ackproof.progress import Reporter
from ackproof.waiting import wait_for
from ackproof_faults import FaultWindow
from ackproof_spark.tables import LOCATION

#: How much lower the job's priority is (see nice(1)).
_NICENESS = 5

#: How long the job may take to start, to end, and to stop when nobody waits for its end, seconds.
_START_S = 120.0
_END_S = 120.0
_STOP_S = 10.0

#: How often the view is refreshed, and over how long rates are taken, seconds.
_REFRESH_S = 0.5
_RATE_S = 5.0

_LOG_TAIL = 1000


@contextlib.contextmanager
def followed(
    run_dir: Path,
    *,
    bootstrap_servers: str,
    settings: Mapping[str, str],
    topics: Sequence[str],
    windows: Callable[[], Sequence[FaultWindow]],
    reporter: Reporter,
) -> Iterator[Callable[[Mapping[TopicPartition, int]], None]]:
    """Follow a run and show it; yield what ends the job, given where each partition ends.

    `settings` are what a client needs to be let in, by librdkafka's names; `windows` the fault
    windows so far. A job that fails is told of, and the run goes on.
    """

    def in_force() -> list[str]:
        return [f"{w.fault} of {w.target}" for w in windows() if w.verified and not w.healed_at]

    following = LiveJob(
        run_dir, bootstrap_servers=bootstrap_servers, settings=settings, topics=topics
    )
    with following as job:
        with _troubles_told(reporter), reporter.phase("starting the live job"):
            job.await_start()
        admin = Admin(bootstrap_servers, settings=settings, timeout_s=1)
        with LiveView(job, admin=admin, faults=in_force, reporter=reporter) as view:

            def end(ends: Mapping[TopicPartition, int]) -> None:
                if not view.failed:
                    with _troubles_told(reporter), reporter.phase("ending the live job"):
                        job.end(ends)

            yield end


@contextlib.contextmanager
def _troubles_told(reporter: Reporter) -> Iterator[None]:
    try:
        yield
    except SparkError as error:
        _tell(reporter, error)


def _tell(reporter: Reporter, error: SparkError) -> None:
    reporter.note(f"[yellow]without its live view, the run goes on:[/] {escape(error.message)}")


class LiveJob:
    """The process that follows one run; entering starts it, leaving stops it in any case."""

    def __init__(
        self,
        run_dir: Path,
        *,
        bootstrap_servers: str,
        settings: Mapping[str, str],
        topics: Sequence[str],
    ) -> None:
        self._run_dir = run_dir
        self._settings = dict(settings)
        self._log = run_dir / "live" / "job.log"
        self._command = [
            *(sys.executable, "-m", "ackproof_spark.live", "--supervised"),
            *("--run-dir", str(run_dir), "--bootstrap", bootstrap_servers),
            *(part for topic in topics for part in ("--topic", topic)),
        ]
        self._process: subprocess.Popen[str] | None = None
        self._read_at = 0
        self._rows: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        """Start the process, and return at once."""
        self._log.parent.mkdir(exist_ok=True)
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C in the terminal is not for it
            )
        with contextlib.suppress(ProcessLookupError):
            # Before it starts its JVM, which inherits it.
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICENESS)
        with contextlib.suppress(BrokenPipeError):  # it has failed: `check` says why
            self._say({"client": self._settings})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the process if it still runs."""
        process = self._started()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def await_start(self) -> None:
        """Wait until its first micro-batch, which is slow, is done.

        Raises SparkError if the job has ended, or is not there in time.
        """
        wait_for(
            lambda: self._place.exists() or self.over,
            bool,
            within_s=_START_S,
            failure=lambda _: SparkError(f"the live job did not start within {_START_S:g} s"),
        )
        self.check()

    def end(self, ends: Mapping[TopicPartition, int]) -> None:
        """Have the job read up to `ends` (exclusive) and write what is left; wait for that.

        Raises SparkError if it fails or is not ready in time.
        """
        process = self._started()
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, partition), end in ends.items():
            by_topic.setdefault(topic, {})[str(partition)] = end
        try:
            self._say({"ends": by_topic})
            process.wait(_END_S)
        except BrokenPipeError:
            process.wait()
        except subprocess.TimeoutExpired:
            raise SparkError(f"the live job did not end within {_END_S:g} s") from None
        self.check()

    def check(self) -> None:
        """Raise SparkError if the job has failed."""
        process = self._started()
        if process.poll():
            tail = self._log.read_text(errors="replace")[-_LOG_TAIL:].strip()
            raise SparkError(f"the live job ended with {process.returncode}: {tail}")

    @property
    def over(self) -> bool:
        """Whether the process has ended, well or not."""
        return self._started().poll() is not None

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows of `tables.LIVE_PARTITIONS` as the job last wrote them."""
        import pyarrow.parquet as pq

        try:
            changed = self._place.stat().st_mtime_ns
            if changed != self._read_at:
                self._rows = pq.read_table(self._place).to_pylist()
                self._read_at = changed
        except FileNotFoundError:
            pass  # it has not started yet
        return self._rows

    @property
    def _place(self) -> Path:
        return self._run_dir / LOCATION["live_partitions"]

    def _say(self, line: Mapping[str, Any]) -> None:
        """Write to its standard input, which nobody else can read."""
        process = self._started()
        assert process.stdin is not None
        process.stdin.write(json.dumps(line) + "\n")
        process.stdin.flush()

    def _started(self) -> subprocess.Popen[str]:
        assert self._process is not None, "enter it first"
        return self._process


class LiveView(Repeating):
    """Shows a live job until it is left; from a thread of its own, so that nobody has to wait."""

    def __init__(
        self,
        job: LiveJob,
        *,
        admin: Admin,
        faults: Callable[[], Sequence[str]],
        reporter: Reporter,
    ) -> None:
        super().__init__(every_s=_REFRESH_S, name="live view")
        self._job = job
        self._admin = admin
        self._faults = faults
        self._reporter = reporter
        self._acked: dict[TopicPartition, deque[tuple[float, int]]] = {}
        #: Whether the job has failed, and the reporter was told.
        self.failed = False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Show no more, but for a last line that stays."""
        super().__exit__(kind, error, trace)
        self._reporter.hide()
        if not self.failed:
            self._reporter.note(live_line(self.partitions(), []))

    def partitions(self) -> list[LivePartition]:
        """Return what is known of each partition now."""
        views = self._admin.partitions()
        now = time.monotonic()
        found = []
        for row in self._job.rows():
            place = (row["topic"], row["partition"])
            view = views.get(place)
            found.append(
                LivePartition(
                    topic=row["topic"],
                    partition=row["partition"],
                    leader=view.leader if view else None,
                    isr=view.isr if view else (),
                    acked=row["acked"],
                    acked_per_s=self._rate(place, now, row["acked"]),
                    failed=row["failed"],
                    unknown=row["unknown"],
                    read=row["read"],
                    lag=row["lag"],
                    unseen=row["unseen"],
                    candidates=row["candidates"],
                )
            )
        return found

    def turn(self) -> bool:
        """Show what is known now; the job's failure is told once, and ends it."""
        over = self._job.over  # asked first: a failure after this is found the next time
        try:
            self._job.check()
        except SparkError as error:
            self.failed = True
            _tell(self._reporter, error)
        if over:
            return True
        partitions, faults = self.partitions(), self._faults()
        if partitions:
            self._reporter.show(live_table(partitions, faults), line=live_line(partitions, faults))
        return False

    def _rate(self, place: TopicPartition, now: float, acked: int) -> float:
        history = self._acked.setdefault(place, deque())
        history.append((now, acked))
        while len(history) > 2 and now - history[0][0] > _RATE_S:
            history.popleft()
        then, before = history[0]
        return (acked - before) / (now - then) if now > then else 0.0
