"""The state of a run in progress, and its record in the run directory."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from ackproof.cluster.attached import AttachedCluster
from ackproof.cluster.booted import KafkaCluster
from ackproof.execution.live_view import LiveView
from ackproof.proxy.follower_fetches import EarlyHighWatermark
from ackproof.proxy.listed_ends import ListedEnd
from ackproof.runs import directory as runs
from ackproof.runs.directory import COMMIT_VARIABLES, Clock, RunRecord
from ackproof.runs.recovery import seal
from ackproof.scenario.loader import Configured
from ackproof_faults import FaultWindow, Schedule
from ackproof_spark import tables
from ackproof_spark.tables import LOCATION

RunCluster = KafkaCluster | AttachedCluster


class RunState:
    """The state of a run in progress. On entry and exit it writes `run.json`."""

    def __init__(self, configured: Configured, run_dir: Path, *, replays: str = "") -> None:
        self.configured = configured
        self.replays = replays
        self.run_dir = run_dir
        self.run_id = run_dir.name
        self.image = ""
        self.started_at = now()
        self.troubles: list[str] = []
        self.schedule_troubles: list[str] = []
        self.clocks: list[Clock] = []
        self.early_high_watermarks: list[EarlyHighWatermark] = []
        self.listed_ends: list[ListedEnd] = []
        self.reused = False
        self.unobserved: list[str] = []
        self.bottlenecks: list[str] = []
        self.late: list[str] = []
        self.readers: list[str] = []
        self.schedule: Schedule | None = None
        self.live: LiveView | None = None
        self._written: list[FaultWindow] = []

    def write(self, table: str, rows: Sequence[object]) -> None:
        schema = getattr(tables, table.upper())
        runs.write_table(self.run_dir / LOCATION[table], schema, self.run_id, rows)

    def __enter__(self) -> None:
        runs.write_model(self.run_dir / "run.json", self._record(finished=False))

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyboardInterrupt):
            self.troubles.append("interrupted")
        elif error is not None:
            self.troubles.append(str(error) or type(error).__name__)
        self.write_windows()
        seal(self.run_dir, self._record(finished=True))

    def write_windows(self) -> None:
        """Write the fault windows if they have changed."""
        windows = self.schedule.windows if self.schedule else []
        if windows != self._written:
            rows = [window_row(number, window) for number, window in enumerate(windows)]
            self.write("fault_windows", rows)
            self._written = windows

    def _record(self, *, finished: bool) -> RunRecord:
        return RunRecord(
            run_id=self.run_id,
            configuration_name=self.configured.name,
            configuration=self.configured.varied,
            overrides=self.configured.overrides.document(),
            commit=next(filter(None, map(os.environ.get, COMMIT_VARIABLES)), ""),
            image=self.image,
            pid=os.getpid(),
            started_at=self.started_at,
            finished_at=now() if finished else None,
            troubles=[*self.schedule_troubles, *self.troubles],
            schedule_troubles=self.schedule_troubles,
            reused=self.reused,
            replays=self.replays,
            unobserved=self.unobserved,
            bottlenecks=self.bottlenecks,
            late=self.late,
            readers=self.readers,
            early_high_watermarks=self.early_high_watermarks,
            listed_ends=self.listed_ends,
            clocks=self.clocks,
        )


def window_row(index: int, window: FaultWindow) -> dict[str, object]:
    facts = json.dumps(window.facts) if window.facts else None
    return {"window": index, **asdict(window), "verified": window.verified, "facts": facts}


def now() -> datetime:
    return datetime.now(UTC)
