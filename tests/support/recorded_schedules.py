"""Schedules of faults on a simulated cluster, and stored runs of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ackproof.execution.run_state import window_row
from ackproof.scenario.model import Scenario
from ackproof_faults import BlastRadius, Fault, FaultWindow, Schedule, ScheduleContext, SendCounts
from ackproof_faults.schedule.blocks import Block
from support.fake_cluster import FakeCluster
from support.run_directories import RunDirectory

RUN_ID = "20260101T000000Z-recorded-1"
TICK_S = 0.01
#: Seconds since the beginning of a run, and whether sends are acked then.
Acks = Callable[[float], bool]


@dataclass(kw_only=True)
class World:
    """A cluster, a clock and counts of sends; tests advance the clock and the counts."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    seconds: float = 0.0
    acked: int = 0
    sent: int = 0
    #: The windows of the last schedule that `play` ran.
    windows: Sequence[FaultWindow] = ()

    def schedule(
        self, *steps: Fault | Block, seed: int = 0, blast_radius: BlastRadius | None = None
    ) -> Schedule:
        context = ScheduleContext(
            cluster=self.cluster,
            partitions=[("orders", 0)],
            sends=lambda: SendCounts(sent=self.sent, acked=self.acked),
            clock=lambda: datetime.fromtimestamp(self.seconds, tz=UTC),
            monotonic=lambda: self.seconds,
            seed=seed,
            blast_radius=blast_radius or BlastRadius(),
        )
        return Schedule(steps, context)


def names(schedule: Schedule) -> list[str]:
    return [window.fault for window in schedule.windows]


def begun(world: World, schedule: Schedule, *moments: float) -> list[int]:
    """Return how many faults have begun by each of these moments, in seconds."""
    counts = []
    for world.seconds in moments:
        for _ in range(10):
            schedule.tick()
        counts.append(len(schedule.windows))
    return counts


class Quiet:
    """A reporter without output."""

    def note(self, text: str) -> None: ...

    def update(self, text: str) -> None: ...

    def phase(self, text: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def show(self, table: object, *, line: str) -> None: ...

    def hide(self) -> None: ...


def scenario(*faults: dict[str, Any], **changes: Any) -> Scenario:
    settings = {"acks": "all", "enable.idempotence": True}
    return Scenario.model_validate(
        {
            "version": 1,
            "name": "recorded",
            "topics": {"orders": {}},
            "workload": {"topic": "orders", "settings": settings},
            "faults": list(faults),
            **changes,
        }
    )


def always(_: float) -> bool:
    return True


def play(scenario: Scenario, world: World, *, rate: int = 1000, acks: Acks = always) -> list[Any]:
    """Run the schedule of a scenario to its end; return the sends as rows of a ledger."""
    schedule = world.schedule(
        *scenario.faults, seed=scenario.seed, blast_radius=scenario.blast_radius
    )
    rows = []
    while not schedule.done and world.seconds < 120:
        schedule.tick()
        world.seconds += TICK_S
        due = int(world.seconds * rate) - world.sent
        acked = acks(world.seconds)
        at = datetime.fromtimestamp(world.seconds, tz=UTC)
        for _ in range(due):
            outcome = {"outcome": "acked" if acked else "unknown"}
            where = {"topic": "orders", "offset": world.acked if acked else None}
            times = {"sent_at": at, "resolved_at": at}
            rows.append({"sequence": world.sent, **outcome, **where, **times})
            world.sent += 1
            world.acked += acked
    world.windows = schedule.windows
    assert schedule.done, schedule.waiting_for
    return rows


def store(
    run_dir: Path,
    scenario: Scenario,
    windows: Sequence[FaultWindow],
    ledger: Sequence[Any],
    *,
    replicas: Sequence[Sequence[int]] = (),
    beside: Mapping[str, Sequence[Sequence[int]]] | None = None,
) -> Path:
    """Write the files of a run that a replay reads; `beside`: replicas of further topics."""
    now = datetime.fromtimestamp(0, tz=UTC)
    run = RunDirectory.create(
        run_dir, scenario, run_id=RUN_ID, started_at=now, finished_at=now, configuration={"a": 1}
    )
    states = [
        {
            "at": datetime.fromtimestamp(late, tz=UTC),
            "metadata_offset": late,
            "topic": topic,
            "partition": partition,
            "leader": placed[-late],
            "leader_epoch": late,
            "partition_epoch": late,
            "replicas": placed if not late else placed[::-1],
            "isr": placed,
        }
        for late in (1, 0)  # the reassignment comes before the first assignment
        for topic, assignment in {**(beside or {}), "orders": replicas}.items()
        for partition, placed in enumerate(assignment)
    ]
    run.write("ledger", ledger, name="producer-0")
    run.write("fault_windows", [window_row(n, window) for n, window in enumerate(windows)])
    run.write("partition_states", states).write("partition_ends", [])
    (run_dir / "final_log").mkdir()
    return run_dir
