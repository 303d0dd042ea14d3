"""Maps a stored run to the pairs of steps and shapes that it passed through.

The metadata log has every change of leader, ISR and ELR in order, with its event. Steps that leave
them as they are (a process ends, a broker learns of a leader, a record is acked) have times only:
they happened in one of the shapes around that time.

A pair is *certain* if the run shows nothing else, and *possible* if it is one of several. Steps of
which nothing is recorded (a fetch, a refused request) are left out, unless another step shows them:
a record that all in sync have acked was written and fetched before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ackproof.exploration.controller_steps import Down, controller_steps
from ackproof.exploration.shapes import PartitionShapes, Seen, staying
from ackproof.judgement import partition_trace, trace_validation
from ackproof.judgement.evidence import Evidence, by_partition
from ackproof.judgement.partition_trace import NotChecked
from ackproof.observation import metadata_log
from ackproof_faults import registered
from ackproof_model.coverage import Pair, Reached
from ackproof_model.effects import Ends
from ackproof_model.validation.controller_events import Event
from ackproof_model.validation.partition_trace import (
    Follows,
    Leads,
    Loads,
    Shrinks,
    Trace,
    Truncates,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """The pairs of the model that a run certainly or possibly passed through.

    beyond: certain pairs that the model does not reach, as the run had more perturbations than its
    budgets. why_not: why the run counts nothing; '' if it counts.
    """

    certain: frozenset[Pair] = frozenset()
    possible: frozenset[Pair] = frozenset()
    beyond: frozenset[Pair] = frozenset()
    why_not: str = ""


def passed(run_dir: Path, reached: Reached) -> Passed:
    """Return what a stored run passed through, of all that the model reaches.

    A run that the model does not explain, or of which too little was recorded, counts nothing.
    Raises RunDirectoryError if a file is damaged.
    """
    evidence = Evidence(run_dir=run_dir)
    scenario = evidence.scenario
    path = run_dir / "metadata.log"
    if not path.exists():
        return Passed(why_not="there is no metadata log of a controller")
    dump = path.read_text(encoding="utf-8")
    controller = trace_validation.explain(dump, scenario.kafka)
    if controller.mismatch:
        return Passed(why_not=f"the model does not explain {controller.mismatch.where}")
    states = by_partition(evidence.rows("partition_states"))
    seen: list[Seen] = []
    for (topic, number), trace in partition_trace.traces(evidence):
        name = f"{topic}-{number}"
        if isinstance(trace, NotChecked):
            return Passed(why_not=f"{name}: {trace}")
        if trace_validation.explain_partition(topic, trace, scenario).mismatch:
            return Passed(why_not=f"the model does not explain the replicas of {name}")
        partition = PartitionShapes(name, states[topic, number])
        if len(partition.numbers) != reached.model.replicas:
            return Passed(why_not=f"{name} has {len(partition.numbers)} replicas")
        windows = [row for row in evidence.rows("fault_windows") if row["verified"]]
        slack = partition_trace.clock_slack(evidence)
        entries = list(metadata_log.records(dump))
        events = _requested(partition, controller.events, trace, slack)
        seen += controller_steps(partition, entries, events, _down(windows))
        seen += _of_replicas(partition, trace, slack)
        seen += _of_faults(partition, windows, slack)
    return _counted(seen, reached)


def _counted(seen: Iterable[Seen], reached: Reached) -> Passed:
    steps = [one for one in seen if one]
    certain = {pair for one in steps if len(one) == 1 for pair in one}
    possible = {pair for one in steps for pair in one} - certain
    return Passed(
        certain=frozenset(certain & reached.pairs),
        possible=frozenset(possible & reached.pairs),
        beyond=frozenset(certain - reached.pairs),
    )


def _requested(
    partition: PartitionShapes,
    events: Mapping[int, frozenset[Event]],
    trace: Trace,
    slack: timedelta | None,
) -> dict[int, frozenset[Event]]:
    """Return the events without shrinks of the ISR that no leader requested by its log."""
    requests = [
        datetime.fromtimestamp(step.at, tz=UTC)
        for steps in trace.brokers.values()
        for step in steps
        if isinstance(step, Shrinks)
    ]
    possible = dict(events)
    for offset, at in zip(partition.offsets, partition.begins, strict=True):
        asked = slack is None or any(one - slack <= at <= one + slack for one in requests)
        if offset in possible and not asked:
            possible[offset] -= {Event.ISR_SHRINKS}
    return possible


def _of_replicas(
    partition: PartitionShapes, trace: Trace, slack: timedelta | None
) -> Iterator[Seen]:
    """Yield the steps of the brokers' logs, and those that acks show.

    The role that a broker takes first, or after a start, belongs to the start.
    """
    for steps in trace.brokers.values():
        started = True
        for step in steps:
            at = datetime.fromtimestamp(step.at, tz=UTC)
            match step:
                case Loads():
                    started = True
                case Leads() | Follows():
                    since = _first_of(trace, step.epoch)
                    if not started:
                        yield staying("learn", partition.within(at, at, slack, since=since))
                    started = False
                case Truncates():
                    yield staying("truncate", partition.within(at, at, slack))
                case Shrinks():
                    yield staying("shrink", partition.within(at, at, slack))
                case _:
                    pass
    for ack in trace.acks:
        first = ack.first
        if ack.epoch is not None and ack.lost is False:  # the record was written in that epoch
            first = max(first, _first_of(trace, ack.epoch))
        shapes = partition.shapes[first : None if ack.last is None else ack.last + 1]
        yield staying("write", shapes)
        if ack.everyone:
            yield staying("ack", shapes)
            if all(len(shape.isr) > 1 for shape in shapes):
                yield staying("fetch", shapes)


def _first_of(trace: Trace, epoch: int) -> int:
    """Return the number of the first state in a leader epoch."""
    return next(number for number, one in enumerate(trace.elections) if one.epoch == epoch)


def _ends(window: Mapping[str, Any]) -> list[Ends]:
    """Return the ends of processes that a fault causes, without controlled shutdowns."""
    effects = registered()[window["fault"]].effects_of_stored(window["parameters"])
    return [one for one in effects or () if isinstance(one, Ends) and not one.clean]


def _of_faults(
    partition: PartitionShapes, windows: Sequence[Mapping[str, Any]], slack: timedelta | None
) -> Iterator[Seen]:
    """Yield the ends of processes; a controlled shutdown has its record in the metadata log."""
    for window in windows:
        for effect in _ends(window):
            hit = not effect.partitions or partition.name in effect.partitions
            step = "lose power" if hit and effect.log != "kept" else "kill"
            shapes = partition.within(window["injected_at"], window["verified_at"], slack)
            for node in window["nodes"]:
                if node in partition.numbers:
                    yield staying(step, shapes)


def _down(windows: Sequence[Mapping[str, Any]]) -> list[Down]:
    """Return when which broker's process was certainly down."""
    return [
        Down(broker=node, since=window["verified_at"], until=window["healed_at"])
        for window in windows
        if any(effect.times == 1 and not effect.one_by_one for effect in _ends(window))
        for node in window["nodes"]
    ]
