"""A stored run as a scenario that goes the same way again, and what came of repeating it.

What was drawn is written down, and blocks of steps become the one list of faults in which they
began. A step that began on time or on a number of sends waits for the same number of acked sends
again (see `milestones`) and for the same faults to have ended and recovered; conditions on the
cluster's state stay as they are. Replicas lie on the same brokers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ackproof.errors import RunDirectoryError
from ackproof.reproduction.progress_marks import Milestone, milestones
from ackproof.runs import directory as runs
from ackproof.runs.recovery import salvage
from ackproof.runs.verdict import Verdict, Word
from ackproof.scenario.loader import Configured, load
from ackproof.scenario.model import Scenario
from ackproof_faults import Fault, plain, registered
from ackproof_faults.conditions.condition import Condition
from ackproof_faults.conditions.durations import format_duration
from ackproof_faults.conditions.events import FaultHas
from ackproof_faults.conditions.progress import After, ProgressIs
from ackproof_faults.conditions.trigger import Conditions, either
from ackproof_spark.tables import LOCATION

_Window = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A stored run, ready to be repeated. `notes` say what of it cannot be."""

    configured: Configured
    notes: tuple[str, ...] = ()

    @property
    def scenario(self) -> Scenario:
        """The scenario that goes the same way again."""
        return self.configured.scenario


def recorded_run(run_dir: Path) -> Recorded:
    """Return a stored run as a scenario that goes the same way again.

    Raises RunDirectoryError if this is no run directory, a damaged one, or of a run that goes on.
    """
    salvage(run_dir)
    record = runs.read_record(run_dir)
    path = run_dir / "scenario.yaml"
    scenario = load(path)[0].scenario
    windows = sorted(_rows(run_dir, "fault_windows"), key=lambda row: int(row["window"]))
    faults = [_fault(row, path) for row in windows]
    repeated = with_faults(
        scenario.model_copy(update={"topics": _topics(scenario, run_dir)}),
        _Retold(scenario, windows, faults, run_dir, record.started_at).steps(),
    )
    notes = []
    if plain(scenario.faults) and (missing := len(scenario.faults) - len(faults)) > 0:
        notes.append(f"{missing} of {len(scenario.faults)} faults never began, and are left out")
    return Recorded(
        configured=Configured(
            scenario=repeated,
            name=record.configuration_name,
            varied=record.configuration,
            path=path,
        ),
        notes=tuple(notes),
    )


def with_faults(scenario: Scenario, faults: Sequence[Fault]) -> Scenario:
    """Return the scenario with this list of faults; raise ValidationError if it is not legal."""
    document = scenario.model_dump(mode="json", by_alias=True, exclude={"matrix"})
    document["faults"] = [fault.model_dump(mode="json", by_alias=True) for fault in faults]
    return Scenario.model_validate(document)


def step_id(number: int) -> str:
    """Return what the step with this number (from 0) is called in a replay."""
    return f"step-{number + 1}"


class _Retold:
    """Turns the windows of a run into the list of faults that makes them again."""

    def __init__(
        self,
        scenario: Scenario,
        windows: Sequence[_Window],
        faults: Sequence[Fault],
        run_dir: Path,
        began: datetime,
    ) -> None:
        self._in_blocks = not plain(scenario.faults)
        self._windows = windows
        self._faults = faults
        self._began = began
        times = [row["injected_at"] for row in windows]
        times += [row["healed_at"] for row in windows if row["healed_at"] is not None]
        self._at = dict(zip(times, milestones(run_dir, times), strict=True))

    def steps(self) -> list[Fault]:
        """Return the faults, each with the triggers that bring it about again."""
        awaited: set[FaultHas] = set()
        steps = []
        for number, fault in enumerate(self._faults):
            others = [one for one in self._ended_before(number) if one not in awaited]
            awaited.update(others)
            begins = Conditions([*self._own_when(number), *others])
            changes = {
                "id": step_id(number),
                "when": begins,
                "or_after": None,
                **self._heals(number),
            }
            steps.append(fault.model_copy(update=changes))
        return steps

    def _own_when(self, number: int) -> list[Condition]:
        """Return when it begins: as it did, with what counts sends or time made absolute."""
        fault, window = self._faults[number], self._windows[number]
        late = fault.or_after is not None and (
            window["trigger"] == f"after {format_duration(fault.or_after)}"
        )
        kept = [] if late else [one for one in fault.when if not _replaced(one)]
        counted = any(isinstance(one, ProgressIs | After) for one in fault.when.simple)
        if kept and not counted:
            return kept
        before = self._windows[number - 1] if number else None
        since = self._began if before is None else before["verified_at"] or before["injected_at"]
        clock = self._clock(window["injected_at"], since)
        return [clock, *kept] if clock is not None else kept

    def _heals(self, number: int) -> dict[str, object]:
        """Return its ends: its own, or when its block was over, which is no more."""
        fault, window = self._faults[number], self._windows[number]
        if fault.ends_by_itself:
            conditions = [self._renamed(one, window["healed_at"]) for one in fault.heal_when]
            return {"heal_when": Conditions(conditions)}
        healed, since = window["healed_at"], window["verified_at"] or window["injected_at"]
        if not self._in_blocks or healed is None:
            return {}
        clock = self._clock(healed, since)
        return {} if clock is None else {"heal_when": Conditions([clock])}

    def _clock(self, at: datetime, since: datetime) -> Condition | None:
        found: Milestone = self._at[at]
        clock = found.clock((at - since).total_seconds())
        return None if isinstance(clock, After) and not clock.seconds else clock

    def _ended_before(self, number: int) -> list[FaultHas]:
        """Return which earlier faults had ended, or recovered, when this one began."""
        now = self._windows[number]["injected_at"]
        found = []
        for index, earlier in enumerate(self._windows[:number]):
            recovered, healed = earlier["recovered_at"], earlier["healed_at"]
            if recovered is not None and recovered <= now:
                found.append(FaultHas(fault=step_id(index), event="recovered"))
            elif healed is not None and healed <= now:
                found.append(FaultHas(fault=step_id(index), event="ended"))
        return found

    def _renamed(self, condition: Condition, healed: datetime | None) -> Condition:
        """Return a condition with steps in place of other faults.

        Of several alternatives, those that no step met are left out.
        """
        named = [self._named(one, healed) for one in condition.alternatives]
        met = [one for one in named if one is not None]
        events = [one.event for one in condition.alternatives if isinstance(one, FaultHas)]
        return either(met or [FaultHas(fault=self._faults[0].name, event=events[0])])

    def _named(self, condition: Condition, healed: datetime | None) -> Condition | None:
        """Return a condition on another fault as one on the first such step that met it."""
        if not isinstance(condition, FaultHas):
            return condition
        field = {"began": "verified_at", "ended": "healed_at", "recovered": "recovered_at"}
        for index, (fault, window) in enumerate(zip(self._faults, self._windows, strict=True)):
            at = window[field[condition.event]]
            met = at is not None and (healed is None or at <= healed)
            if met and condition.fault in (fault.id, fault.name):
                return FaultHas(fault=step_id(index), event=condition.event)
        return None


def _replaced(condition: Condition) -> bool:
    """Whether a replay says a condition, or one of its alternatives, in another way."""
    return any(isinstance(one, ProgressIs | After | FaultHas) for one in condition.alternatives)


def _fault(window: _Window, path: Path) -> Fault:
    """Return the fault of a window as it was drawn."""
    kind = registered().get(window["fault"])
    if kind is None:
        raise RunDirectoryError(
            f"{path.parent.name}: there is no fault {window['fault']!r} here",
            hint="Install the package that it came from.",
        )
    return kind.model_validate(json.loads(window["parameters"]))


def _topics(scenario: Scenario, run_dir: Path) -> dict[str, object]:
    """Return the topics, that of the workload with its replicas where they were."""
    topics: dict[str, object] = dict(scenario.topics)
    name, topic = scenario.workload.topic, scenario.topic
    if topic.assignment or scenario.cluster.attach is not None:
        return topics
    first: dict[int, list[int]] = {}
    for row in sorted(_rows(run_dir, "partition_states"), key=lambda row: row["at"]):
        first.setdefault(row["partition"], list(row["replicas"]))
    if all(partition in first for partition in range(topic.partitions)):
        assignment = [first[partition] for partition in range(topic.partitions)]
        topics[name] = topic.model_copy(update={"assignment": assignment})
    return topics


def _rows(run_dir: Path, table: str) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = run_dir / LOCATION[table]
    try:
        return pq.read_table(path).to_pylist() if path.exists() else []
    except pa.ArrowException as error:
        raise RunDirectoryError(f"{path} is damaged or cut short: {error}") from None


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Counted(_Record):
    """How often something was observed in a run, and in its replay."""

    what: str
    then: int
    now: int


class Step(_Record):
    """One fault of a run, and of its replay; None in `now` if it did not begin again."""

    fault: str
    target: str
    then_nodes: list[int]
    now_nodes: list[int] | None
    then_acked: int
    now_acked: int | None


class Replay(_Record):
    """What came of repeating a run: `replay.json`. `same`: verdict, steps and kinds of anomaly."""

    schema_version: int = 1
    run_id: str
    replays: str
    then: Word
    now: Word
    same: bool
    observed: list[Counted]
    steps: list[Step]
    notes: list[str] = []


def compared(then: Path, now: Path, *, notes: Sequence[str] = ()) -> Replay:
    """Hold a replay against the run that it repeats; both must have been judged."""
    before, after = runs.read_verdict(then), runs.read_verdict(now)
    steps = _steps(then, now)
    return Replay(
        run_id=after.run_id,
        replays=before.run_id,
        then=before.verdict,
        now=after.verdict,
        same=before.verdict is after.verdict
        and _seen(before) == _seen(after)
        and all(step.now_acked is not None for step in steps),
        observed=[
            Counted(what=key, then=before.observed.get(key, 0), now=after.observed.get(key, 0))
            for key in dict.fromkeys([*before.observed, *after.observed])
        ],
        steps=steps,
        notes=list(notes),
    )


def _seen(verdict: Verdict) -> set[str]:
    """Return the anomalies that were observed at all: their number differs from run to run."""
    return {key for key in verdict.predicted if verdict.observed.get(key)}


def _steps(then: Path, now: Path) -> list[Step]:
    earlier, later = (
        sorted(_rows(run_dir, "fault_windows"), key=lambda row: int(row["window"]))
        for run_dir in (then, now)
    )
    acked = [
        [one.acked for one in milestones(run_dir, [row["injected_at"] for row in rows])]
        for run_dir, rows in ((then, earlier), (now, later))
    ]
    return [
        Step(
            fault=row["fault"],
            target=row["target"],
            then_nodes=row["nodes"],
            now_nodes=later[index]["nodes"] if index < len(later) else None,
            then_acked=acked[0][index],
            now_acked=acked[1][index] if index < len(later) else None,
        )
        for index, row in enumerate(earlier)
    ]
