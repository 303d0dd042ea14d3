"""The data of a run's report. Missing and damaged tables are named in `Run.missing`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from ackproof.errors import RunDirectoryError
from ackproof.judgement.availability import Probed, attempts
from ackproof.report.data.losses import Losses, losses_of, read_lost
from ackproof.report.data.partitions import Lane, read_lanes, times_of_states
from ackproof.report.data.sends import (
    Bins,
    Sends,
    read_extent,
    read_sends,
)
from ackproof.report.data.tables import RunTables, micros_of, moment_of
from ackproof.runs.directory import RunRecord, read_record, refuse_special_files
from ackproof.runs.verdict import FaultReport, Verdict
from ackproof_spark.tables import LOCATION, OPTIONAL

VERDICT_FILE = "verdict.json"
SCENARIO_FILE = "scenario.yaml"
RECORD_FILE = "run.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The data of a run's report."""

    directory: Path
    verdict: Verdict | None
    scenario: str | None
    #: A sentence for each missing or unreadable file.
    missing: tuple[str, ...]
    #: Errors during the run, from `run.json`.
    troubles: tuple[str, ...]
    #: Empty if neither `verdict.json` nor `run.json` names one.
    configuration_name: str
    #: Second 0 of every time axis: the first send, or the first known event without sends.
    origin: datetime | None
    #: End of the time axis, seconds since `origin`.
    end: float
    sends: Sends | None
    windows: tuple[FaultReport, ...]
    lanes: tuple[Lane, ...]
    hidden_lanes: int
    #: The attempts of the probe; empty without one.
    probed: Probed
    #: None if the run was not analysed.
    losses: Losses | None

    @property
    def name(self) -> str:
        """The name of the configuration, else of the scenario, else of the directory."""
        scenario = self.verdict.scenario if self.verdict else self.directory.name
        return self.configuration_name or scenario

    def second(self, moment: datetime) -> float:
        """Return the seconds since the origin."""
        return (moment - (self.origin or moment)).total_seconds()


def read_run(directory: Path, *, max_bins: int = 600) -> Run:
    """Read a run directory; raise RunDirectoryError if it is not a run directory at all."""
    if not directory.is_dir():
        raise RunDirectoryError(
            f"{directory} is not a directory", hint="Name a run directory, such as runs/latest."
        )
    known = [RECORD_FILE, VERDICT_FILE, SCENARIO_FILE, *map(str, LOCATION.values())]
    if not any((directory / name).exists() for name in known):
        raise RunDirectoryError(
            f"{directory} is not a run directory: it contains none of {', '.join(known)}",
            hint="Name a run directory, such as runs/latest.",
        )
    refuse_special_files(directory)
    tables = RunTables(directory)
    verdict = _read_verdict(directory, tables.missing)
    scenario = _read_scenario(directory, tables.missing)
    record = _read_record(directory, tables.missing)
    windows = _read_windows(tables, verdict)
    ledger = read_extent(tables)
    moments = [moment for window in windows for moment in _moments_of(window) if moment is not None]
    states_first, states_last = (
        (None, None) if moments or ledger.first is not None else times_of_states(tables)
    )
    origin = moment_of(ledger.first) or min(moments, default=None) or moment_of(states_first)
    ends = [*moments, *filter(None, (moment_of(ledger.last), moment_of(states_last)))]
    end = max(((moment - origin).total_seconds() for moment in ends), default=0.0) if origin else 0
    bins = Bins(origin=micros_of(origin), seconds=max(end, 0.1), limit=max_bins) if origin else None
    lost = read_lost(tables)
    losses = None if lost is None else losses_of(tables, lost, last_sequence=ledger.last_sequence)
    lanes, hidden_lanes = read_lanes(
        tables,
        origin,
        end,
        lossy={(loss.topic, loss.partition) for loss in losses.lanes} if losses else set(),
    )
    for name in LOCATION:
        if name not in ("anomalies", *OPTIONAL):  # `read_lost` notes missing anomalies
            tables.note_absence(name)
    for name in ("reads", "transactions"):  # their plots note no damage
        for _ in tables.batches(name, []):
            pass
    return Run(
        directory=directory,
        verdict=verdict,
        scenario=scenario,
        missing=tuple(tables.missing),
        troubles=tuple(record.troubles) if record else (),
        configuration_name=verdict.configuration_name
        if verdict
        else (record.configuration_name if record else ""),
        origin=origin,
        end=end,
        sends=read_sends(
            tables,
            bins,
            rows=ledger.rows,
            lost_at=np.zeros(0, dtype=np.int64) if lost is None else lost.times,
        )
        if bins and ledger.first is not None
        else None,
        windows=windows,
        lanes=lanes,
        hidden_lanes=hidden_lanes,
        probed=attempts(
            tables.rows("probe", ["topic", "partition", "action", "at", "answered_at", "ok"])
        ),
        losses=losses,
    )


def _read_verdict(directory: Path, missing: list[str]) -> Verdict | None:
    path = directory / VERDICT_FILE
    try:
        return Verdict.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        missing.append(f"{VERDICT_FILE}: missing: the run was interrupted or not judged.")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        missing.append(f"{VERDICT_FILE}: cannot be read ({where}: {first['msg']}).")
    return None


def _read_record(directory: Path, missing: list[str]) -> RunRecord | None:
    try:
        return read_record(directory)
    except RunDirectoryError:
        missing.append(f"{RECORD_FILE}: missing or unreadable.")
        return None


def _read_scenario(directory: Path, missing: list[str]) -> str | None:
    try:
        return (directory / SCENARIO_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        missing.append(f"{SCENARIO_FILE}: missing.")
    except UnicodeDecodeError:
        missing.append(f"{SCENARIO_FILE}: cannot be read (not UTF-8).")
    return None


#: `id` and `hit` come from the parameters.
_WINDOW_COLUMNS = (*(FaultReport.model_fields.keys() - {"hit", "id"}), "parameters")


def _moments_of(window: FaultReport) -> tuple[datetime | None, ...]:
    return window.injected_at, window.verified_at, window.healed_at, window.recovered_at


def _read_windows(tables: RunTables, verdict: Verdict | None) -> tuple[FaultReport, ...]:
    if not tables.note_absence("fault_windows"):
        rows = tables.rows("fault_windows", _WINDOW_COLUMNS)
        windows = [FaultReport.of_window(row) for row in rows]
    else:
        windows = verdict.faults if verdict else []
    return tuple(sorted(windows, key=lambda window: (window.injected_at, window.window)))
