"""Sequence diagrams of observed losses, in the form of the model's diagrams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from ackproof.report import formatting as fmt
from ackproof.runs.overview import History, Overview
from ackproof.runs.verdict import FaultReport
from ackproof_model import Diagram, Line

_PRODUCER, _CONTROLLER, _FIRST_BROKER = range(3)

_Event = tuple[datetime, Line]


def of_history(history: History, run: Overview) -> Diagram | None:
    """Return the diagram of a history; None without a leader.

    Events without a time and faults of other brokers are left out.
    """
    if history.leader is None:
        return None
    known = (history.leader, *(history.isr or ()), history.next_leader, history.truncated_by)
    brokers = sorted({broker for broker in known if broker is not None})
    column = {broker: _FIRST_BROKER + index for index, broker in enumerate(brokers)}
    events = [
        *_faults(run.windows, column),
        *_acks(history, column[history.leader]),
        *_election(history, column),
        *_isr_changes(history, run),
    ]
    events.sort(key=lambda event: event[0])
    last = history.truncated_at or history.elected_at
    records = (
        "the record" if history.count == 1 else f"each of these {fmt.count(history.count)} records"
    )
    where = "is in no replica's log"
    if history.held_by:
        where = f"is only in the log of {fmt.brokers(history.held_by)}, and cannot be read"
    return Diagram(
        participants=("producer", "controller", *(f"broker {broker}" for broker in brokers)),
        lines=(
            *(line for moment, line in events if last is None or moment <= last),
            Line(at="end", text=f"{records} {where}", marks=tuple(column.values()), kind="loss"),
        ),
    )


def _faults(windows: Sequence[FaultReport], column: Mapping[int, int]) -> list[_Event]:
    lines = []
    for window in windows:
        of_nodes = window.hit is None
        marks = tuple(column[node] for node in window.nodes if of_nodes and node in column)
        # Marks show the brokers; a client or a topic is in the text.
        what = window.fault if of_nodes else str(window)
        for moment, state in ((window.verified_at, "in force"), (window.healed_at, "healed")):
            if moment is not None and (marks or not of_nodes):
                text = f"{fmt.fault(window.window)} {what} {state}"
                line = Line(at=fmt.clock(moment), text=text, marks=marks, kind="fault")
                lines.append((moment, line))
    return lines


def _isr_changes(history: History, run: Overview) -> list[_Event]:
    changes = [
        (run.origin + timedelta(seconds=after.start), f"the ISR is {fmt.brokers_set(after.isr)}")
        for lane in run.lanes
        if (lane.topic, lane.partition) == (history.topic, history.partition) and run.origin
        for before, after in pairwise(lane.spans)
        if before.isr != after.isr
    ]
    return [
        (moment, Line(at=fmt.clock(moment), text=text, marks=(_CONTROLLER,)))
        for moment, text in changes
    ]


def _acks(history: History, leader: int) -> list[_Event]:
    several = history.count > 1
    offset = "without an offset" if history.offset is None else f"at offset {history.offset}"
    isr = f", ISR {fmt.brokers_set(history.isr)}" if history.isr else ""
    upto = "" if history.last_offset is None else f", at offset {history.last_offset}"
    which = history.identity or f"sequence {history.sequence} of producer {history.producer}"
    events = [
        (
            history.sent_at,
            (_PRODUCER, leader),
            f"sends {which}" + (", the first that is lost" if several else ""),
        ),
        (
            history.first_acked_at,
            (leader, _PRODUCER),
            f"acked {offset} in epoch {history.leader_epoch}{isr}",
        ),
        (
            history.last_acked_at if several else None,
            (leader, _PRODUCER),
            f"the last of {fmt.count(history.count)} is acked{upto}",
        ),
    ]
    return [
        (moment, Line(at=fmt.clock(moment), text=text, arrow=arrow))
        for moment, arrow, text in events
        if moment is not None
    ]


def _election(history: History, column: Mapping[int, int]) -> list[_Event]:
    lines = []
    if (at := history.elected_at) is not None and history.next_leader is not None:
        end = history.next_leader_start
        text = f"elected ({history.election}) in epoch {history.next_leader_epoch}" + (
            "" if end is None else f", its log ending at {end}"
        )
        arrow = (_CONTROLLER, column[history.next_leader])
        lines.append((at, Line(at=fmt.clock(at), text=text, arrow=arrow)))
    if (at := history.truncated_at) is not None and history.truncated_by is not None:
        text = f"truncates its log to {history.truncated_to}"
        marks = (column[history.truncated_by],)
        lines.append((at, Line(at=fmt.clock(at), text=text, marks=marks, kind="loss")))
    return lines
