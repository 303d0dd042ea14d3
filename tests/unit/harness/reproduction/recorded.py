"""Stored runs of real schedules on a simulated cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ackproof.execution.run_state import window_row
from ackproof.runs import directory as runs
from ackproof.scenario.loader import dump
from ackproof.scenario.model import Scenario
from ackproof_faults import FaultWindow
from ackproof_spark import tables
from support.schedules import World

RUN_ID = "20260101T000000Z-recorded-1"
TICK_S = 0.01
#: Seconds since the beginning of a run, and whether sends are acked then.
Acks = Callable[[float], bool]


class Quiet:
    """A reporter without output."""

    def note(self, text: str) -> None: ...

    def update(self, text: str) -> None: ...

    def phase(self, text: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def show(self, table: object, *, line: str) -> None: ...

    def hide(self) -> None: ...


def scenario(*faults: dict[str, Any], **changes: Any) -> Scenario:
    return Scenario.model_validate(
        {
            "version": 1,
            "name": "recorded",
            "topics": {"orders": {}},
            "workload": {
                "topic": "orders",
                "settings": {"acks": "all", "enable.idempotence": True},
            },
            "faults": list(faults),
            **changes,
        }
    )


def always(_: float) -> bool:
    return True


def play(one: Scenario, world: World, *, rate: int = 1000, acks: Acks = always) -> list[Any]:
    """Run the schedule of a scenario to its end; return the sends as rows of a ledger."""
    schedule = world.schedule(*one.faults, seed=one.seed, blast_radius=one.blast_radius)
    rows = []
    while not schedule.done and world.seconds < 120:
        schedule.tick()
        world.seconds += TICK_S
        due = int(world.seconds * rate) - world.sent
        acked = acks(world.seconds)
        at = datetime.fromtimestamp(world.seconds, tz=UTC)
        for _ in range(due):
            rows.append(
                {
                    "producer": 0,
                    "sequence": world.sent,
                    "topic": "orders",
                    "partition": 0,
                    "outcome": "acked" if acked else "unknown",
                    "error": None,
                    "offset": world.acked if acked else None,
                    "sent_at": at,
                    "resolved_at": at,
                }
            )
            world.sent += 1
            world.acked += acked
    world.windows = schedule.windows  # type: ignore[attr-defined]
    assert schedule.done, schedule.waiting_for
    return rows


def store(
    run_dir: Path,
    one: Scenario,
    windows: Sequence[FaultWindow],
    ledger: Sequence[Any],
    *,
    replicas: Sequence[Sequence[int]] = (),
    beside: Mapping[str, Sequence[Sequence[int]]] | None = None,
) -> Path:
    """Write the files of a run that a replay reads; `beside`: replicas of further topics."""
    (run_dir / "ledger").mkdir(parents=True)
    (run_dir / "final_log").mkdir()
    dump(one, run_dir / "scenario.yaml")
    now = datetime.fromtimestamp(0, tz=UTC)
    record = runs.RunRecord(
        run_id=RUN_ID, image="none", pid=1, started_at=now, finished_at=now, configuration={"a": 1}
    )
    runs.write_model(run_dir / "run.json", record)
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
            "elr": [],
            "last_known_elr": [],
        }
        for late in (1, 0)  # the reassignment comes before the first assignment
        for topic, assignment in {**(beside or {}), "orders": replicas}.items()
        for partition, placed in enumerate(assignment)
    ]
    written: dict[str, Any] = {
        "ledger/producer-0.parquet": (tables.LEDGER, ledger),
        "fault_windows.parquet": (
            tables.FAULT_WINDOWS,
            [window_row(number, window) for number, window in enumerate(windows)],
        ),
        "partition_states.parquet": (tables.PARTITION_STATES, states),
        "partition_ends.parquet": (tables.PARTITION_ENDS, []),
    }
    for path, (schema, rows) in written.items():
        runs.write_table(run_dir / path, schema, RUN_ID, rows)
    return run_dir
