"""A trace as a sequence diagram: participants from left to right, and one line for each step.

The steps have the numbers of the sentences of `narrative`, which say more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ackproof_model.prediction.narrative import name
from ackproof_model.replication.model import Model
from ackproof_model.replication.state import (
    FLYING,
    Label,
    State,
    members,
)

_PRODUCER, _CONTROLLER, _FIRST_BROKER = range(3)
_WIDTH = 10

#: The produce response of each kind of step in which a broker answers.
_ANSWERS = {
    "ack": "ack",
    "not leader": "NOT_LEADER_OR_FOLLOWER",
    "not enough replicas": "NOT_ENOUGH_REPLICAS",
    "not enough replicas after append": "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "out of order": "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "timeout": "REQUEST_TIMED_OUT",
}

#: The request by which a broker comes back to the controllers.
_RETURNS = {"rejoin": "registers", "unfence": "heartbeats again"}

#: The error codes among them.
ERROR_CODES = {kind: code for kind, code in _ANSWERS.items() if code.isupper()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One step: an arrow from one participant to another, or marks at participants, by index.

    `at` is the number of the step, or a time.
    """

    at: str
    text: str
    arrow: tuple[int, int] | None = None
    marks: tuple[int, ...] = ()
    kind: Literal["step", "fault", "loss"] = "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """Lines in order of time over participants from left to right."""

    participants: tuple[str, ...]
    lines: tuple[Line, ...]


def diagram(model: Model, steps: Sequence[tuple[Label, State, State]]) -> Diagram | None:
    """Return the diagram of a trace; None if it has no steps."""
    if not steps:
        return None
    return Diagram(
        participants=("producer", "controller", *map(name, range(model.replicas))),
        lines=tuple(
            _line(model, label, after, str(number))
            for number, (label, _, after) in enumerate(steps, start=1)
        ),
    )


def draw(diagram: Diagram | None) -> list[str]:
    """Draw a diagram in plain text: the heading, and one line for each step."""
    if diagram is None:
        return []
    columns = len(diagram.participants)
    heads = "".join(head.center(_WIDTH) for head in diagram.participants).rstrip()
    return [
        f"    {heads}",
        *(f"{line.at:>3} {_track(columns, line)}  {line.text}" for line in diagram.lines),
    ]


def _track(columns: int, line: Line) -> str:
    positions = [column * _WIDTH + _WIDTH // 2 for column in range(columns)]
    track = [" "] * (columns * _WIDTH)
    for position in positions:
        track[position] = "|"
    for column in line.marks:
        track[positions[column]] = "*"
    if line.arrow:
        begin, end = (positions[column] for column in line.arrow)
        for position in range(min(begin, end) + 1, max(begin, end)):
            track[position] = "-"
        track[begin], track[end] = "o", ">" if end > begin else "<"
    return "".join(track)


def _line(model: Model, label: Label, after: State, at: str) -> Line:
    what, *numbers = label
    kind = what.partition(": ")[0]
    brokers = [_FIRST_BROKER + number for number in numbers]

    def arrow(begin: int, end: int, text: str = kind) -> Line:
        return Line(at=at, text=text, arrow=(begin, end))

    def marks(*columns: int, text: str = kind) -> Line:
        return Line(at=at, text=text, marks=columns)

    match kind:
        case "inject":
            return Line(
                at=at,
                text=f"fault {numbers[0] + 1}: {model.schedule[numbers[0]].fault}",
                marks=tuple(_FIRST_BROKER + number for number in members(numbers[1])),
                kind="fault",
            )
        case "heal" | "end" | "give up":
            return marks(text="healed")
        case "send" | "resend":
            status, text = after.client.status[numbers[0]], f"record {numbers[0] + 1}"
            if FLYING <= status < model.appended:
                return arrow(_PRODUCER, _FIRST_BROKER + status - FLYING, text)
            return marks(_PRODUCER, text=text)
        case "append" | "duplicate":
            return marks(brokers[0], text=f"{kind} record {numbers[1] + 1}")
        case "metadata":
            return arrow(brokers[0], _PRODUCER, "metadata: it leads")
        case "fetch" | "truncate" if len(brokers) > 1:
            return arrow(brokers[0], brokers[1])
        case "learn":
            return arrow(_CONTROLLER, brokers[0], "metadata")
        case "shrink" | "expand":
            return arrow(brokers[0], _CONTROLLER, f"AlterPartition: {kind}")
        case "rejoin" | "unfence":
            return arrow(brokers[0], _CONTROLLER, _RETURNS[kind])
        case "abandon":
            return marks(_PRODUCER, text=f"no response for record {numbers[1] + 1}")
        case "fence" | "expire" | "offline":
            return marks(_CONTROLLER, brokers[0])
        case _ if kind in _ANSWERS:
            return arrow(brokers[0], _PRODUCER, f"{_ANSWERS[kind]} for record {numbers[1] + 1}")
    return marks(*brokers[:1] or [_CONTROLLER])
