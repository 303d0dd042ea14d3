"""Collects the overview of a run from its directory, and stores it there."""

from __future__ import annotations

from collections.abc import Iterable, Set
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ackproof.errors import RunDirectoryError, ScenarioError
from ackproof.judgement import acked_lines
from ackproof.judgement.availability import Attempts, attempts
from ackproof.judgement.evidence import Evidence, by_partition, moment_of
from ackproof.judgement.overview.losses import histories, losses_of, read_lost
from ackproof.judgement.overview.safer import safer
from ackproof.judgement.overview.timelines import Ask, timelines
from ackproof.judgement.sends import readable_sends
from ackproof.prediction.predict import predict
from ackproof.runs import directory as runs
from ackproof.runs.overview import (
    MAX_LANES,
    NAME,
    AvailableSpan,
    Lane,
    Overview,
    ProbedPartition,
    StateSpan,
)
from ackproof.runs.verdict import FaultReport, Verdict
from ackproof.scenario.model import Scenario
from ackproof_model import Diagram
from ackproof_spark.tables import LOCATION, OPTIONAL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Up to this number of sends, Arrow in this process is as fast as Spark.
_FEW = 2_000_000

_WINDOW_COLUMNS = (
    *(FaultReport.model_fields.keys() - {"hit", "cut", "id", "added", "moved"}),
    "parameters",
)
_PROBE_COLUMNS = ("topic", "partition", "action", "at", "answered_at", "ok")
_STATE_COLUMNS = (
    *("at", "metadata_offset", "topic", "partition", "leader", "leader_epoch"),
    *("replicas", "isr", "elr"),
)


def write(evidence: Evidence, verdict: Verdict, spark: SparkSession, address: Path | str) -> None:
    """Write `overview.json` and `acked_lines/` of a judged run. Raises DiskError, SparkError.

    Spark reads the run at `address`.
    """
    few = verdict.observed.get("sent", 0) <= _FEW
    lines = acked_lines.write(evidence)
    overview = _collect(
        evidence,
        verdict,
        _locally(evidence) if few else lambda grouping: grouping.answer_in_spark(spark, address),
    ).model_copy(update={"acked_lines": lines})
    runs.write_model(evidence.run_dir / NAME, overview, indent=None)


def overview_of(run_dir: Path) -> Overview:
    """Return the stored overview; collect it for an unjudged run."""
    with suppress(RunDirectoryError):
        return runs.read_model(run_dir, NAME, Overview)
    evidence, verdict = Evidence(run_dir=run_dir), None
    with suppress(RunDirectoryError):
        verdict = runs.read_verdict(run_dir)
    return _collect(evidence, verdict, _locally(evidence))


def _locally(evidence: Evidence) -> Ask:
    return lambda grouping: grouping.answer(evidence.batches(grouping.table, grouping.columns))


def _collect(evidence: Evidence, verdict: Verdict | None, ask: Ask) -> Overview:
    windows = _windows(evidence, verdict)
    evidence.note_absence("ledger")
    producers = readable_sends(evidence)
    first = min((each.first_at for each in producers if each.first_at is not None), default=None)
    last = max((each.last_at for each in producers if each.last_at is not None), default=None)
    moments = [
        moment
        for window in windows
        for moment in (
            *(window.injected_at, window.verified_at),
            *(window.healed_at, window.recovered_at),
        )
        if moment is not None
    ]
    states = sorted(
        evidence.readable("partition_states", _STATE_COLUMNS),
        key=lambda row: row["metadata_offset"],
    )
    changed = [] if moments or first is not None else [state["at"] for state in states]
    origin = moment_of(first) or min([*moments, *changed], default=None)
    ends = [*moments, *changed, *filter(None, [moment_of(last)])]
    end = (
        max(((moment - origin).total_seconds() for moment in ends), default=0.0) if origin else 0.0
    )
    lost = read_lost(evidence)
    losses = None
    if lost is not None:
        last_sequence = {each.producer: each.last_sequence for each in producers}
        losses = losses_of(evidence, lost, last_sequence=last_sequence)
    lossy = {(lane.topic, lane.partition) for lane in losses.lanes} if losses else set()
    lanes = [] if evidence.note_absence("partition_states") else _lanes(states, origin, end, lossy)
    for name in LOCATION:
        if name not in ("anomalies", *OPTIONAL):  # `read_lost` notes missing anomalies
            evidence.note_absence(name)
    probed = attempts(evidence.readable("probe", _PROBE_COLUMNS))
    scenario = _scenario(evidence)
    return Overview(
        origin=origin,
        end=end,
        windows=windows,
        timelines=timelines(
            ask,
            origin=first,
            seconds=max(end, 0.1),
            sends=sum(each.rows for each in producers),
            lost_at=np.zeros(0, dtype=np.int64) if lost is None else lost.times,
        )
        if first is not None
        else [],
        lanes=sorted(lanes[:MAX_LANES], key=lambda lane: (lane.topic, lane.partition)),
        hidden_lanes=len(lanes[MAX_LANES:]),
        probed=[
            ProbedPartition(
                topic=topic,
                partition=partition,
                tracks={action: _available(of, origin) for action, of in actions.items()},
            )
            for (topic, partition), actions in list(probed.items())[:MAX_LANES]
            if origin is not None
        ],
        hidden_probed=max(len(probed) - MAX_LANES, 0),
        losses=losses,
        histories=histories(evidence),
        trace=_trace(evidence) if losses and losses.count else None,
        safer=safer(scenario, verdict, predict) if scenario and verdict else None,
        missing=evidence.missing,
    )


def _windows(evidence: Evidence, verdict: Verdict | None) -> list[FaultReport]:
    if not evidence.note_absence("fault_windows"):
        rows = evidence.readable("fault_windows", _WINDOW_COLUMNS)
        windows = [FaultReport.of_window(row) for row in rows]
    else:
        windows = verdict.faults if verdict else []
    return sorted(windows, key=lambda window: (window.injected_at, window.window))


def _lanes(
    states: Iterable[dict[str, Any]],
    origin: datetime | None,
    end: float,
    lossy: Set[tuple[str, int]],
) -> list[Lane]:
    """Return leader, epoch and ISR of each partition; `lossy` partitions are first."""
    if origin is None:
        return []
    lanes = [
        Lane(
            topic=topic,
            partition=partition,
            replicas=max(len(state["replicas"]) for state in own),
            spans=_spans(own, origin, end),
        )
        for (topic, partition), own in by_partition(states).items()
    ]
    return sorted(
        lanes, key=lambda lane: ((lane.topic, lane.partition) not in lossy, -len(lane.spans))
    )


def _spans(states: list[dict[str, Any]], origin: datetime, end: float) -> list[StateSpan]:
    """Merge equal successive states; states that ended before the origin are left out."""
    spans: list[StateSpan] = []
    starts = [(state["at"] - origin).total_seconds() for state in states]
    for state, start, stop in zip(states, starts, [*starts[1:], max(end, starts[-1])], strict=True):
        if stop <= 0 < end:
            continue
        span = StateSpan(
            start=max(start, 0.0),
            end=stop,
            leader=state["leader"],
            epoch=state["leader_epoch"],
            isr=state["isr"],
            elr=state["elr"],
        )
        if spans and spans[-1].model_copy(update={"start": span.start, "end": stop}) == span:
            spans[-1] = spans[-1].model_copy(update={"end": stop})
        else:
            spans.append(span)
    return spans


def _available(of: Attempts, origin: datetime) -> list[AvailableSpan]:
    spans, begin = [], of.begin
    for start, stop in of.outages():
        spans += [(begin, start, True), (start, stop, False)]
        begin = stop
    return [
        AvailableSpan(
            start=(start - origin).total_seconds(),
            end=(stop - origin).total_seconds(),
            available=available,
        )
        for start, stop, available in [*spans, (begin, of.end, True)]
        if start < stop
    ]


def _scenario(evidence: Evidence) -> Scenario | None:
    """Return the resolved scenario; None if this version cannot read it."""
    try:
        return evidence.scenario
    except ScenarioError:
        return None


def _trace(evidence: Evidence) -> Diagram | None:
    """Return the diagram of the run's prediction."""
    try:
        return evidence.prediction.diagram
    except RunDirectoryError:
        return None
