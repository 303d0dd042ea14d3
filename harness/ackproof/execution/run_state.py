"""What is known of a run while it goes on, and how it is put on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from ackproof.ledger import finalize
from ackproof.observation.clocks import Clock
from ackproof.observation.leader_polling import Poll
from ackproof.runs import directory as runs
from ackproof.scenario.loader import Configured
from ackproof_faults import FaultWindow, Schedule
from ackproof_spark import tables
from ackproof_spark.tables import LOCATION


class Recording:
    """What is known of a run while it goes on, and how it is put on disk in the end."""

    def __init__(self, configured: Configured, run_dir: Path, *, replays: str = "") -> None:
        self.configured = configured
        self.replays = replays
        self.run_dir = run_dir
        self.run_id = run_dir.name
        self.image = ""
        self.started_at = now()
        self.troubles: list[str] = []
        self.clocks: list[Clock] = []
        self.reused = False
        self.unobserved: list[str] = []
        self.bottlenecks: list[str] = []
        self.poll: Poll | None = None
        self.readers: list[str] = []
        self.schedule: Schedule | None = None
        #: Has the live job read up to the ends of all partitions, and end; None without one.
        self.end_live: Callable[[Mapping[tuple[str, int], int]], None] | None = None
        self._written: list[FaultWindow] = []

    def write(self, table: str, rows: Sequence[object]) -> None:
        """Write one table of the run directory."""
        schema = getattr(tables, table.upper())
        runs.write_table(self.run_dir / LOCATION[table], schema, self.run_id, rows)

    def __enter__(self) -> None:
        """Say that the run goes on, and in which process."""
        self._write_record(finished=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put on disk how the run ended."""
        if isinstance(error, KeyboardInterrupt):
            self.troubles.append("interrupted")
        elif error is not None:
            self.troubles.append(str(error) or type(error).__name__)
        finalize.close(self.run_dir)
        self.write_windows()
        self._write_record(finished=True)

    def write_windows(self) -> None:
        """Write the fault windows, if any changed since the last time."""
        windows = self.schedule.windows if self.schedule else []
        if windows != self._written:
            rows = [window_row(number, window) for number, window in enumerate(windows)]
            self.write("fault_windows", rows)
            self._written = windows

    def _write_record(self, *, finished: bool) -> None:
        runs.write_model(
            self.run_dir / "run.json",
            runs.RunRecord(
                run_id=self.run_id,
                configuration_name=self.configured.name,
                configuration=self.configured.varied,
                image=self.image,
                pid=os.getpid(),
                started_at=self.started_at,
                finished_at=now() if finished else None,
                troubles=self.troubles,
                reused=self.reused,
                replays=self.replays,
                unobserved=self.unobserved,
                bottlenecks=self.bottlenecks,
                readers=self.readers,
                clocks=self.clocks,
            ),
        )


def window_row(index: int, window: FaultWindow) -> dict[str, object]:
    """Return a window as a row of the table `fault_windows`."""
    return {
        "window": index,
        "fault": window.fault,
        "target": window.target,
        "nodes": list(window.nodes),
        "parameters": window.parameters,
        "trigger": window.trigger,
        "injected_at": window.injected_at,
        "verified_at": window.verified_at,
        "healed_at": window.healed_at,
        "recovered_at": window.recovered_at,
        "verified": window.verified,
        "evidence": window.evidence,
        "facts": json.dumps(window.facts) if window.facts else None,
    }


def now() -> datetime:
    """Return the current time, as every table has it."""
    return datetime.now(UTC)
