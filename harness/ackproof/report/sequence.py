"""Sequence diagrams: the model's shortest trace to a loss, and the loss that really happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from ackproof.report import formatting as fmt
from ackproof.runs.verdict import FaultReport

#: How `ackproof_model.prediction.diagram` draws: width of the step's number, and of a participant.
_PREFIX, _COLUMN = 4, 10

_PRODUCER, _CONTROLLER = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One step: an arrow between two participants, or marks; `at` is a number or a time."""

    at: str
    text: str
    arrow: tuple[int, int] | None = None
    marks: tuple[int, ...] = ()
    kind: Literal["step", "fault", "loss"] = "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """Lines in order of time over participants from left to right."""

    title: str
    participants: tuple[str, ...]
    lines: tuple[Line, ...]


def of_model(drawn: Sequence[str]) -> Diagram | None:
    """Return the model's own drawing (`ackproof_model.prediction.diagram`); None if it is empty."""
    if not drawn:
        return None
    head, *steps = drawn
    participants = tuple(head.split())
    width = _COLUMN * len(participants)
    lines = []
    for step in steps:
        track = step[_PREFIX : _PREFIX + width]
        at = {track.index(sign) // _COLUMN: sign for sign in "o<>" if sign in track}
        begin = next((place for place, sign in at.items() if sign == "o"), None)
        end = next((place for place, sign in at.items() if sign != "o"), None)
        text = step[_PREFIX + width :].strip()
        lines.append(
            Line(
                at=step[:_PREFIX].strip(),
                text=text,
                arrow=None if begin is None or end is None else (begin, end),
                marks=tuple(place // _COLUMN for place, sign in enumerate(track) if sign == "*"),
                kind="fault" if text.startswith("fault") else "step",
            )
        )
    return Diagram(title="What the model foresaw", participants=participants, lines=tuple(lines))


def of_history(history: Mapping[str, Any], windows: Sequence[FaultReport]) -> Diagram | None:
    """Return what happened to the records of a history (`read_histories`); None without a leader.

    Only events with a time are drawn, without the faults of brokers that took no part.
    """
    leader = history["leader"]
    if leader is None:
        return None
    known = (leader, *(history["isr"] or ()), history["next_leader"], history["truncated_by"])
    brokers = sorted({broker for broker in known if broker is not None})
    place = {broker: 2 + index for index, broker in enumerate(brokers)}
    events = [
        *_faults(windows, place),
        *_acks(history, place[leader]),
        *_election(history, place),
    ]
    events.sort(key=lambda event: event[0])
    last = history["truncated_at"] or history["elected_at"]
    lines = [line for moment, line in events if last is None or moment <= last]
    where = (
        "is in no replica's log"
        if not history["held_by"]
        else (f"is only in the log of {fmt.brokers(history['held_by'])}, and cannot be read")
    )
    lines.append(
        Line(
            at="end",
            text=f"{_records(history)} {where}",
            marks=tuple(place.values()),
            kind="loss",
        )
    )
    return Diagram(
        title="What happened",
        participants=("producer", "controller", *(f"broker {broker}" for broker in brokers)),
        lines=tuple(lines),
    )


def _records(history: Mapping[str, Any]) -> str:
    return (
        "the record" if history["count"] == 1 else f"each of {fmt.count(history['count'])} records"
    )


def _faults(
    windows: Sequence[FaultReport], place: Mapping[int, int]
) -> list[tuple[datetime, Line]]:
    lines = []
    for window in windows:
        of_nodes = window.hit is None
        marks = tuple(place[node] for node in window.nodes if of_nodes and node in place)
        # The marks say which brokers; a client or a topic is named.
        what = window.fault if of_nodes else str(window)
        for moment, state in ((window.verified_at, "in force"), (window.healed_at, "healed")):
            if moment is not None and (marks or not of_nodes):
                text = f"{fmt.fault(window.window)} {what} {state}"
                at = fmt.clock(moment)
                lines.append((moment, Line(at=at, text=text, marks=marks, kind="fault")))
    return lines


def _acks(history: Mapping[str, Any], leader: int) -> list[tuple[datetime, Line]]:
    several = history["count"] > 1
    record = f"sequence {history['sequence']} of producer {history['producer']}"
    lines = []
    if history["sent_at"] is not None:
        text = f"sends {record}" + (", the first that is lost" if several else "")
        line = Line(at=fmt.clock(history["sent_at"]), text=text, arrow=(_PRODUCER, leader))
        lines.append((history["sent_at"], line))
    first, last = history["first_acked_at"], history["last_acked_at"]
    offset = "without an offset" if history["offset"] is None else f"at offset {history['offset']}"
    isr = f", ISR {fmt.brokers_set(history['isr'])}" if history["isr"] else ""
    if first is not None:
        text = f"acked {offset} in epoch {history['leader_epoch']}{isr}"
        lines.append((first, Line(at=fmt.clock(first), text=text, arrow=(leader, _PRODUCER))))
    if several and last is not None:
        upto = "" if history["last_offset"] is None else f", at offset {history['last_offset']}"
        text = f"the last of {fmt.count(history['count'])} is acked{upto}"
        lines.append((last, Line(at=fmt.clock(last), text=text, arrow=(leader, _PRODUCER))))
    return lines


def _election(history: Mapping[str, Any], place: Mapping[int, int]) -> list[tuple[datetime, Line]]:
    lines = []
    if history["elected_at"] is not None and history["next_leader"] is not None:
        ends = history["next_leader_start"]
        text = f"elected ({history['election']}) in epoch {history['next_leader_epoch']}" + (
            "" if ends is None else f", its log ending at {ends}"
        )
        line = Line(
            at=fmt.clock(history["elected_at"]),
            text=text,
            arrow=(_CONTROLLER, place[history["next_leader"]]),
        )
        lines.append((history["elected_at"], line))
    if history["truncated_at"] is not None and history["truncated_by"] is not None:
        line = Line(
            at=fmt.clock(history["truncated_at"]),
            text=f"truncates its log to {history['truncated_to']}",
            marks=(place[history["truncated_by"]],),
            kind="loss",
        )
        lines.append((history["truncated_at"], line))
    return lines
