"""Holds the times of the ledger against the run's and those that its producers counted at.

Latency and availability are nothing but these times. A count of records depends on none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ackproof.clients.shared_page import State, recorded_span
from ackproof.judgement import progress_pages
from ackproof.ledger import producer_ledger
from ackproof.runs.directory import RunRecord
from ackproof.scenario.model import Scenario
from ackproof_spark.tables import LOCATION, Outcome

#: A machine's clock may be set right by as much during a run, microseconds.
_SET_RIGHT_US = 1_000_000

#: How long a busy machine may keep a producer from its first send, and from its end after its last
#: outcome, seconds.
_DELAYED_S = 10.0


@dataclass(slots=True)
class _Times:
    """The times of one ledger, microseconds UTC, and how many acked sends have no good ones."""

    first: int | None = None
    last: int | None = None
    untimed: int = 0
    backwards: int = 0


def contradictions(run_dir: Path, scenario: Scenario, record: RunRecord) -> Iterator[str]:
    """Yield why the times of the ledger cannot be believed. Raises RunDirectoryError."""
    if scenario.workload.application is not None:
        return  # its acked log may have no times
    pages = {
        producer_ledger.table_path(run_dir, number): page
        for number, page in progress_pages.paths(run_dir, scenario).items()
    }
    for path in sorted((run_dir / LOCATION["ledger"]).glob("producer-*.parquet")):
        times = _read(path)
        reasons = [*_of_sends(times, record)]
        if page := pages.get(path):
            reasons += _of_page(times, page, scenario)
        yield from (f"{path.stem} {reason}" for reason in reasons)


def _read(path: Path) -> _Times:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    times = _Times()
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=["outcome", "sent_at", "resolved_at"]):
            sent, resolved = (batch[name].cast("int64") for name in ("sent_at", "resolved_at"))
            acked = pc.equal(batch["outcome"], str(Outcome.ACKED))
            took = pc.if_else(acked, pc.subtract(resolved, sent), 0)
            times.untimed += took.null_count
            times.backwards += pc.sum(pc.less(took, -_SET_RIGHT_US)).as_py() or 0
            known = [*pc.min_max(sent).as_py().values(), *pc.min_max(resolved).as_py().values()]
            known = [time for time in (times.first, times.last, *known) if time is not None]
            times.first, times.last = min(known, default=None), max(known, default=None)
    return times


def _of_sends(times: _Times, record: RunRecord) -> Iterator[str]:
    if times.untimed:
        yield f"has {times.untimed:,} acked sends without their times"
    if times.backwards:
        yield f"has {times.backwards:,} sends that were acked before they were sent"
    if times.first is None or times.last is None:
        return
    early = times.first < _us(record.started_at) - _SET_RIGHT_US
    late = record.finished_at and times.last > _us(record.finished_at) + _SET_RIGHT_US
    if early or late:
        yield "has sends that are dated outside the run"


def _of_page(times: _Times, page: Path, scenario: Scenario) -> Iterator[str]:
    """Yield in what the first and last time differ from those on the producer's page."""
    if times.first is None or times.last is None:
        return
    state, _ = progress_pages.read(page)
    started, updated = recorded_span(page)
    waited = times.first - started
    # What a producer was about to record when it was killed, its first send for one, has no time.
    if waited < -_SET_RIGHT_US or (state is State.DONE and waited > _DELAYED_S * 1e6):
        yield f"begins {waited / 1e6:,.1f} s after the first send that its page tells"
    rested = updated - times.last
    if rested < -_SET_RIGHT_US or (state is State.DONE and rested > _rest_s(scenario) * 1e6):
        yield f"ends {rested / 1e6:,.1f} s before its producer did"


def _rest_s(scenario: Scenario) -> float:
    """Return how long a producer may do nothing between its last outcome and its end.

    Unlimited if it may be suspended, or end a transaction that takes as long as its coordinator.
    """
    if scenario.workload.transactions is not None:
        return float("inf")
    if any(fault.hits == "client" for fault in scenario.every_fault):
        return float("inf")
    rates = [sends.rate / sends.producers for sends in scenario.sends.values() if sends.rate]
    return _DELAYED_S + max((1 / rate for rate in rates), default=0.0)


def _us(time: datetime) -> int:
    return int(time.timestamp() * 1e6)
