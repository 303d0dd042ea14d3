"""Converts a stored run to a scenario that repeats it.

Random choices are replaced by their results, and blocks of steps by a plain list of faults in the
order in which they began. Wall time differs from run to run, so a step that began on time or on a
number of sends waits for the same number of acked sends, and for the end or recovery of the same
earlier faults. If nothing is acked (acks=all without replication) it waits for a number of sends.
Conditions on the cluster's state are unchanged. Replicas are assigned to the same brokers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ackproof.errors import RunDirectoryError
from ackproof.judgement.evidence import micros
from ackproof.runs import directory as runs
from ackproof.runs.directory import table_rows
from ackproof.runs.recovery import recover_run
from ackproof.scenario.changes import Overrides
from ackproof.scenario.loader import Configured, load_stored, validate
from ackproof.scenario.model import Scenario
from ackproof_faults import Fault, plain, registered
from ackproof_faults.conditions.condition import Condition
from ackproof_faults.conditions.durations import format_duration
from ackproof_faults.conditions.kinds import After, FaultHas, ProgressIs
from ackproof_faults.conditions.trigger import Conditions, either
from ackproof_spark.tables import LOCATION, PROBE_PRODUCERS, Outcome

#: After this time without a send (or an ack), conditions do not use their number.
_STILL_S = 1.0
#: Schedules count acks when they arrive, so sends of aborted transactions count as acked.
_ACKNOWLEDGED = [str(Outcome.ACKED), str(Outcome.ABORTED)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressMark:
    """Numbers of sends and acks at a point in time, and seconds since the last of each."""

    sent: int
    acked: int
    sent_ago_s: float
    acked_ago_s: float

    def condition(self, elapsed_s: float) -> Condition:
        """Return a condition on acks, else on sends, else on `elapsed_s`."""
        if self.acked and self.acked_ago_s < _STILL_S:
            return ProgressIs(count=self.acked, outcome="acked", more=False)
        if self.sent and self.sent_ago_s < _STILL_S:
            return ProgressIs(count=self.sent, outcome="sent", more=False)
        return After(seconds=max(0.0, round(elapsed_s, 3)))


def progress_marks(run_dir: Path, times: Sequence[datetime]) -> list[ProgressMark]:
    """Return the progress of a stored run at each of these times (UTC).

    The ledger must be closed. It is read in batches.
    """
    if not times:
        return []
    order = sorted(times)
    moments = np.array([micros(time) for time in order], dtype=np.int64)
    sent, acked = _Tally(moments), _Tally(moments)
    acknowledged = pa.array(_ACKNOWLEDGED)
    columns = ["outcome", "sent_at", "resolved_at"]
    workload = ds.field("producer") < PROBE_PRODUCERS  # conditions ignore the probe
    ledger = ds.dataset(run_dir / LOCATION["ledger"])
    for batch in ledger.to_batches(columns=columns, filter=workload):
        is_acked = pc.is_in(batch.column("outcome"), acknowledged)
        sent.add(batch.column("sent_at").cast(pa.int64()).to_numpy())
        acked.add(batch.column("resolved_at").filter(is_acked).cast(pa.int64()).to_numpy())
    marks = {
        moment: ProgressMark(
            sent=sent.count(index),
            acked=acked.count(index),
            sent_ago_s=sent.ago_s(index),
            acked_ago_s=acked.ago_s(index),
        )
        for index, moment in enumerate(order)
    }
    return [marks[time] for time in times]


class _Tally:
    """Counts events up to each of several ascending moments, with the last event before each."""

    def __init__(self, moments: npt.NDArray[np.int64]) -> None:
        self._moments = moments
        self._counts = np.zeros(len(moments) + 1, dtype=np.int64)
        self._last = np.full(len(moments) + 1, np.iinfo(np.int64).min, dtype=np.int64)

    def add(self, times: npt.NDArray[np.int64]) -> None:
        bins = np.searchsorted(self._moments, times, side="left")
        self._counts += np.bincount(bins, minlength=len(self._counts))
        np.maximum.at(self._last, bins, times)

    def count(self, index: int) -> int:
        """Return the number of events before the moment at `index`."""
        return int(self._counts[: index + 1].sum())

    def ago_s(self, index: int) -> float:
        """Return the seconds since the last event before that moment; infinite without one."""
        if self.count(index) == 0:
            return float("inf")
        return float(self._moments[index] - self._last[: index + 1].max()) / 1e6


_Window = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """`configured` repeats a stored run. `notes` list the parts that cannot be repeated."""

    configured: Configured
    notes: tuple[str, ...] = ()

    @property
    def scenario(self) -> Scenario:
        return self.configured.scenario


def recorded_run(run_dir: Path) -> RecordedRun:
    """Read a stored run.

    Raises RunDirectoryError if it is not a run directory, is damaged, or in progress.
    """
    recover_run(run_dir)
    record = runs.read_record(run_dir)
    stored = load_stored(run_dir)
    scenario = stored.scenario
    windows = fault_windows(run_dir)
    faults = [_fault(row, run_dir) for row in windows]
    repeated = with_faults(
        scenario.model_copy(update={"topics": _topics(scenario, run_dir)}),
        _ReplaySchedule(scenario, windows, faults, run_dir, record.started_at).steps(),
    )
    notes = []
    if plain(scenario.faults) and (missing := len(scenario.faults) - len(faults)) > 0:
        notes.append(f"{missing} of {len(scenario.faults)} faults never began and are left out")
    return RecordedRun(
        configured=Configured(
            scenario=repeated,
            name=record.configuration_name,
            varied=record.configuration,
            path=stored.path,
            overrides=Overrides(merged=record.overrides),
        ),
        notes=tuple(notes),
    )


def with_faults(scenario: Scenario, faults: Sequence[Fault]) -> Scenario:
    """Return the scenario with these faults; raise ValidationError if it is not valid."""
    document = scenario.model_dump(mode="json", by_alias=True, exclude={"matrix"})
    document["faults"] = [fault.model_dump(mode="json", by_alias=True) for fault in faults]
    return validate(document)


def _step_id(index: int) -> str:
    return f"step-{index + 1}"


class _ReplaySchedule:
    """Turns the fault windows of a run into the list of faults that repeats them."""

    def __init__(
        self,
        scenario: Scenario,
        windows: Sequence[_Window],
        faults: Sequence[Fault],
        run_dir: Path,
        started_at: datetime,
    ) -> None:
        self._in_blocks = not plain(scenario.faults)
        self._windows = windows
        self._faults = faults
        self._started_at = started_at
        times = [row["injected_at"] for row in windows]
        times += [row["healed_at"] for row in windows if row["healed_at"] is not None]
        self._marks = dict(zip(times, progress_marks(run_dir, times), strict=True))

    def steps(self) -> list[Fault]:
        """Return the faults, each with the conditions that repeat its start and end."""
        awaited: set[FaultHas] = set()
        steps = []
        for number, fault in enumerate(self._faults):
            others = [end for end in self._ended_before(number) if end not in awaited]
            awaited.update(others)
            begins = Conditions([*self._own_when(number), *others])
            changes = {
                "id": _step_id(number),
                "when": begins,
                "or_after": None,
                **self._heals(number),
            }
            steps.append(fault.model_copy(update=changes))
        return steps

    def _own_when(self, number: int) -> list[Condition]:
        """Return a fault's start conditions; conditions on sends or time become progress."""
        fault, window = self._faults[number], self._windows[number]
        late = fault.or_after is not None and (
            window["trigger"] == f"after {format_duration(fault.or_after)}"
        )
        others = [] if late else [item for item in fault.when if not _is_progress(item)]
        counted = any(isinstance(item, ProgressIs | After) for item in fault.when.simple)
        if others and not counted:
            return others
        before = self._windows[number - 1] if number else None
        since = (
            self._started_at if before is None else before["verified_at"] or before["injected_at"]
        )
        clock = self._clock(window["injected_at"], since)
        return [clock, *others] if clock is not None else others

    def _heals(self, number: int) -> dict[str, object]:
        """Return a fault's own end conditions, or the progress at which its block ended."""
        fault, window = self._faults[number], self._windows[number]
        if fault.ends_by_itself:
            conditions = [self._renamed(item, window["healed_at"]) for item in fault.heal_when]
            return {"heal_when": Conditions(conditions)}
        healed, since = window["healed_at"], window["verified_at"] or window["injected_at"]
        if not self._in_blocks or healed is None:
            return {}
        clock = self._clock(healed, since)
        return {} if clock is None else {"heal_when": Conditions([clock])}

    def _clock(self, at: datetime, since: datetime) -> Condition | None:
        clock = self._marks[at].condition((at - since).total_seconds())
        return None if isinstance(clock, After) and not clock.seconds else clock

    def _ended_before(self, number: int) -> list[FaultHas]:
        """Return conditions on earlier faults that had ended or recovered at a fault's start."""
        now = self._windows[number]["injected_at"]
        conditions = []
        for index, earlier in enumerate(self._windows[:number]):
            recovered, healed = earlier["recovered_at"], earlier["healed_at"]
            if recovered is not None and recovered <= now:
                conditions.append(FaultHas(fault=_step_id(index), event="recovered"))
            elif healed is not None and healed <= now:
                conditions.append(FaultHas(fault=_step_id(index), event="ended"))
        return conditions

    def _renamed(self, condition: Condition, healed: datetime | None) -> Condition:
        """Refer to steps in place of faults; leave out alternatives that no step met."""
        steps = [self._step_that_met(item, healed) for item in condition.alternatives]
        met = [step for step in steps if step is not None]
        events = [item.event for item in condition.alternatives if isinstance(item, FaultHas)]
        return either(met or [FaultHas(fault=self._faults[0].name, event=events[0])])

    def _step_that_met(self, condition: Condition, healed: datetime | None) -> Condition | None:
        """Replace another fault in a condition by the first step that met the condition."""
        if not isinstance(condition, FaultHas):
            return condition
        field = {"began": "verified_at", "ended": "healed_at", "recovered": "recovered_at"}
        for index, (fault, window) in enumerate(zip(self._faults, self._windows, strict=True)):
            at = window[field[condition.event]]
            met = at is not None and (healed is None or at <= healed)
            if met and condition.fault in (fault.id, fault.name):
                return FaultHas(fault=_step_id(index), event=condition.event)
        return None


def _is_progress(condition: Condition) -> bool:
    """Whether a replay replaces the condition by a condition on progress."""
    return any(isinstance(item, ProgressIs | After | FaultHas) for item in condition.alternatives)


def _fault(window: _Window, run_dir: Path) -> Fault:
    kind = registered().get(window["fault"])
    if kind is None:
        raise RunDirectoryError(
            f"{run_dir.name}: fault {window['fault']!r} is not installed",
            hint="Install the package that provides it.",
        )
    return kind.model_validate(json.loads(window["parameters"]))


def _topics(scenario: Scenario, run_dir: Path) -> dict[str, object]:
    """Return the topics; the workload's topic has its first replica assignment."""
    topics: dict[str, object] = dict(scenario.topics)
    name, topic = scenario.workload.topic, scenario.topic
    if topic.assignment or not scenario.cluster_kind.is_described:
        return topics
    first: dict[int, list[int]] = {}
    for row in sorted(table_rows(run_dir, "partition_states"), key=lambda row: row["at"]):
        if row["topic"] == name:
            first.setdefault(row["partition"], list(row["replicas"]))
    if all(partition in first for partition in range(topic.partitions)):
        assignment = [first[partition] for partition in range(topic.partitions)]
        topics[name] = topic.model_copy(update={"assignment": assignment})
    return topics


def fault_windows(run_dir: Path) -> list[dict[str, Any]]:
    """Return the rows of the table `fault_windows` in order of `window`."""
    return sorted(table_rows(run_dir, "fault_windows"), key=lambda row: int(row["window"]))
