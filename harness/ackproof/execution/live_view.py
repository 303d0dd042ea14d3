"""The live view of a run, and the live job that adds to it.

Outcomes, rates, leaders, ISR and faults in force come from the harness. Reads, lag, unseen sends
and loss candidates come from the live job (`ackproof_spark.live`), a Spark process at a lower
priority than clients and brokers. If the job fails, the run and the view continue without it,
because the verdict depends on the final log only.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from rich.markup import escape
from rich.table import Table

from ackproof.cluster.admin import Admin
from ackproof.errors import SparkError
from ackproof.progress import Reporter
from ackproof.waiting import Repeating, wait_for
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_spark.ledger_stream import OUTCOMES, PATTERN, read_piece
from ackproof_spark.tables import LOCATION

#: Added to the job's niceness (see nice(1)).
_NICENESS = 5
#: Maximum seconds of the job's start, of reading to the end offsets, and of its stop.
_START_S, _END_S, _STOP_S = 120.0, 120.0, 10.0
#: Seconds between refreshes of the view, and over which rates are computed.
_REFRESH_S, _RATE_S = 0.5, 5.0
#: Characters of the job's log that a failure quotes.
_LOG_TAIL = 1000
#: The columns of `tables.LIVE_PARTITIONS` that only the job knows.
_OF_JOB = ("read", "lag", "unseen", "candidates")
_NO_SENDS = [0] * len(OUTCOMES)


@contextlib.contextmanager
def followed(
    run_dir: Path,
    *,
    bootstrap_servers: str,
    settings: Mapping[str, str],
    topics: Sequence[str],
    faults: Callable[[], Sequence[str]],
    reporter: Reporter,
) -> Iterator[LiveView]:
    """Show a run in progress.

    `settings` are the client's connection settings, by librdkafka's names; `faults` returns the
    faults in force. A failure of the job is reported once.
    """
    admin = Admin(bootstrap_servers, settings=settings, timeout_s=1)
    job = LiveJob(run_dir, bootstrap_servers=bootstrap_servers, settings=settings, topics=topics)
    counts = LedgerCounts(run_dir)
    view = LiveView(
        job, counts=counts, topics=topics, admin=admin, faults=faults, reporter=reporter
    )
    with job, view:
        # The JVM starts before the producers, which would compete for the CPU.
        with view.without_job_on_error(), reporter.phase("starting the live job"):
            job.await_start()
        yield view


class LiveJob:
    """The process of the live job; the context starts and stops it."""

    def __init__(
        self,
        run_dir: Path,
        *,
        bootstrap_servers: str,
        settings: Mapping[str, str],
        topics: Sequence[str],
    ) -> None:
        self._table = run_dir / LOCATION["live_partitions"]
        self._settings = dict(settings)
        self._log = run_dir / "live" / "job.log"
        self._command = [
            *(sys.executable, "-m", "ackproof_spark.live", "--supervised"),
            *("--run-dir", str(run_dir), "--bootstrap", bootstrap_servers),
            *(part for topic in topics for part in ("--topic", topic)),
        ]
        self._process: subprocess.Popen[str]  # while the context is open

    def __enter__(self) -> Self:
        self._log.parent.mkdir(exist_ok=True)
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C in the terminal must not reach it
            )
        with contextlib.suppress(ProcessLookupError):
            # The JVM, which starts later, inherits the priority.
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICENESS)
        self._say({"client": self._settings})
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        assert self._process.stdin is not None  # the job ends with it
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def await_start(self) -> None:
        """Wait for the first micro-batch, which takes 10 s and more.

        Raises SparkError if the job has ended or takes too long.
        """
        wait_for(
            lambda: self._table.exists() or self.over,
            bool,
            within_s=_START_S,
            failure=lambda _: SparkError(f"the live job did not start within {_START_S:g} s"),
        )
        self.check()

    def end(self, ends: Mapping[TopicPartition, int]) -> None:
        """Wait until the job has read up to `ends` (exclusive), written its tables and ended.

        Raises SparkError if it fails or takes too long.
        """
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, partition), end in ends.items():
            by_topic.setdefault(topic, {})[str(partition)] = end
        try:
            self._say({"ends": by_topic})
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            raise SparkError(f"the live job did not end within {_END_S:g} s") from None
        self.check()

    def check(self) -> None:
        """Raise SparkError if the job has failed, with the end of its log."""
        if status := self._process.poll():
            tail = self._log.read_text(errors="replace")[-_LOG_TAIL:].strip()
            raise SparkError(f"the live job ended with {status}: {tail}")

    @property
    def over(self) -> bool:
        return self._process.poll() is not None

    def rows(self) -> Sequence[Mapping[str, Any]]:
        import pyarrow.parquet as pq

        try:
            return list(pq.read_table(self._table).to_pylist())
        except FileNotFoundError:
            return []  # it has not started yet

    def _say(self, line: Mapping[str, Any]) -> None:
        """Write to standard input, because other users can read arguments."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has failed: `check` raises the reason
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()


class LedgerCounts:
    """The sends of each partition by outcome, in the order of `OUTCOMES`."""

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / LOCATION["ledger"]
        self._positions: dict[str, int] = {}
        self._counts: dict[TopicPartition, list[int]] = {}

    def update(self) -> Mapping[TopicPartition, Sequence[int]]:
        """Read new rows of the streams, and return the outcomes so far."""
        for path in sorted(self._folder.glob(PATTERN)):
            try:
                piece = read_piece(path, self._positions.get(path.name, 0))
            except FileNotFoundError:
                continue  # the run is over, and the stream was converted to a table
            self._positions[path.name] = piece.end
            if piece.origin is None:
                continue
            for batch in piece.batches:
                partitions = piece.origin.partition_of(batch["sequence"].to_numpy())
                keys = len(OUTCOMES) * partitions + batch["outcome"].to_numpy()
                counts = np.bincount(keys, minlength=len(OUTCOMES) * (int(partitions.max()) + 1))
                for number, added in enumerate(counts.reshape(-1, len(OUTCOMES)).tolist()):
                    if any(added):
                        before = self._counts.get((piece.origin.topic, number), _NO_SENDS)
                        sums = [sum(pair) for pair in zip(before, added, strict=True)]
                        self._counts[piece.origin.topic, number] = sums
        return self._counts


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePartition:
    """The current state of a partition; `tables.LIVE_PARTITIONS` explains the columns.

    `leader` is None without a known leader. `read`, `lag`, `unseen` and `candidates` are None until
    the live job has counted them, `lag` also before the first ack.
    """

    topic: str
    partition: int
    leader: int | None
    isr: Sequence[int]
    acked: int
    acked_per_s: float
    failed: int
    unknown: int
    read: int | None
    lag: int | None
    unseen: int | None
    candidates: int | None


def live_table(partitions: Sequence[LivePartition], faults: Sequence[str]) -> Table:
    """Return a row for each partition; `faults` are those in force."""
    table = Table(box=None, pad_edge=False, title_justify="left", caption_justify="left")
    table.caption = "in force: " + "; ".join(faults) if faults else "no fault in force"
    table.add_column("partition")
    counts = ("acked/s", "acked", "failed", "unknown", "read", "lag", "unseen", "loss candidates")
    for name in ("leader", "isr", *counts):
        table.add_column(name, justify="right")
    for item in partitions:
        table.add_row(
            f"{item.topic}-{item.partition}",
            "[red]none[/]" if item.leader is None else str(item.leader),
            " ".join(map(str, item.isr)) or "?",
            f"{item.acked_per_s:,.0f}",
            f"{item.acked:,}",
            _marked(item.failed, "yellow"),
            _marked(item.unknown, "yellow"),
            _number(item.read),
            _number(item.lag),
            _number(item.unseen),
            "-" if item.candidates is None else _marked(item.candidates, "red"),
        )
    return table


def live_line(partitions: Sequence[LivePartition], faults: Sequence[str]) -> str:
    """Return one line with the sums over all partitions, and the highest lag."""

    def total(name: str) -> int:
        return sum(getattr(item, name) or 0 for item in partitions)

    line = (
        f"  live: {total('acked'):,} acked "
        f"({sum(item.acked_per_s for item in partitions):,.0f}/s), {total('failed'):,} failed, "
        f"{total('unknown'):,} unknown"
    )
    if any(item.read is not None for item in partitions):
        line += (
            f", {total('read'):,} read, lag {max(item.lag or 0 for item in partitions):,}, "
            f"{total('unseen'):,} unseen, {total('candidates'):,} loss candidates"
        )
    return line + (f"; in force: {'; '.join(faults)}" if faults else "")


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _marked(count: int, colour: str) -> str:
    return f"[{colour}]{count:,}[/]" if count else "0"


class LiveView(Repeating):
    def __init__(
        self,
        job: LiveJob,
        *,
        counts: LedgerCounts,
        topics: Sequence[str],
        admin: Admin,
        faults: Callable[[], Sequence[str]],
        reporter: Reporter,
    ) -> None:
        super().__init__(every_s=_REFRESH_S, name="live view")
        self._job = job
        self._counts = counts
        self._topics = topics
        self._admin = admin
        self._faults = faults
        self._reporter = reporter
        self._acked: dict[TopicPartition, deque[tuple[float, int]]] = {}
        #: Whether the live job has failed and this was reported, or was stopped.
        self.job_failed = False

    def __exit__(self, *_: object) -> None:
        super().__exit__(*_)
        self._reporter.hide()
        self._reporter.note(live_line(self.partitions(), []))

    def end_job(self, ends: Mapping[TopicPartition, int]) -> None:
        """Wait until the job has read each partition up to its end offset."""
        if not self.job_failed:
            with self.without_job_on_error(), self._reporter.phase("ending the live job"):
                self._job.end(ends)

    def stop_job(self) -> bool:
        """Stop what the job counts, and return whether it ran until now; the view goes on."""
        with self.without_job_on_error():
            self._job.check()
        ran, self.job_failed = not self.job_failed, True
        self._job.stop()
        return ran

    def turn(self) -> bool:
        """Refresh the view; return True once the job has ended with success."""
        over = self._job.over
        with self.without_job_on_error():
            self._job.check()
        if over and not self.job_failed:
            return True
        partitions, faults = self.partitions(), self._faults()
        if partitions:
            self._reporter.show(live_table(partitions, faults), line=live_line(partitions, faults))
        return False

    @contextlib.contextmanager
    def without_job_on_error(self) -> Iterator[None]:
        """Report a SparkError of the job instead of raising it; only once if the job has ended."""
        try:
            yield
        except SparkError as error:
            reported, self.job_failed = self.job_failed, self._job.over
            if not reported:
                self._reporter.note(
                    f"[yellow]the run goes on without its live job:[/] {escape(error.message)}"
                )

    def partitions(self) -> list[LivePartition]:
        views = self._admin.partitions()
        counts = self._counts.update()
        # After a failure the rows of the job are outdated.
        job_rows = [] if self.job_failed else self._job.rows()
        rows = {(row["topic"], row["partition"]): row for row in job_rows}
        now = time.monotonic()
        known = {key for key in views if key[0] in self._topics} | counts.keys() | rows.keys()
        partitions = []
        for key in sorted(known):
            view, row = views.get(key), rows.get(key, {})
            # The job has read the ledger to its end, which `counts` may have missed.
            acked, failed, unknown = (
                max(count, row.get(word, 0))
                for word, count in zip(OUTCOMES, counts.get(key, _NO_SENDS), strict=True)
            )
            partitions.append(
                LivePartition(
                    topic=key[0],
                    partition=key[1],
                    leader=view.leader if view else None,
                    isr=view.isr if view else (),
                    acked=acked,
                    acked_per_s=self._rate(key, now, acked),
                    failed=failed,
                    unknown=unknown,
                    **{name: row.get(name) for name in _OF_JOB},
                )
            )
        return partitions

    def _rate(self, partition: TopicPartition, now: float, acked: int) -> float:
        history = self._acked.setdefault(partition, deque())
        history.append((now, acked))
        while len(history) > 2 and now - history[0][0] > _RATE_S:
            history.popleft()
        then, before = history[0]
        return (acked - before) / (now - then) if now > then else 0.0
