"""A trace as a sequence diagram: participants from left to right, and one line for each step.

The steps have the numbers of the sentences of `narrative`, which say more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ackproof_model.prediction.model import Model
from ackproof_model.prediction.result import Diagram, Line
from ackproof_model.prediction.state import FLYING, State
from ackproof_model.replication.state import Label, members, name

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

#: What a broker sends to the controllers in each kind of step.
_TO_CONTROLLERS = {
    "rejoin": "registers",
    "unfence": "heartbeats again",
    "shrink": "AlterPartition: shrink",
    "expand": "AlterPartition: expand",
}

#: The error codes among them.
ERROR_CODES = {kind: code for kind, code in _ANSWERS.items() if code.isupper()}


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
    kind, *numbers = label
    brokers = [_FIRST_BROKER + number for number in numbers]
    line = Line(at=at, text=kind, marks=tuple(brokers[:1] or [_CONTROLLER]))

    def arrow(begin: int, end: int, text: str = kind) -> Line:
        return Line(at=at, text=text, arrow=(begin, end))

    match kind:
        case "inject":
            fault = f"fault {numbers[0] + 1}: {model.schedule[numbers[0]].fault}"
            marks = tuple(_FIRST_BROKER + number for number in members(numbers[1]))
            line = replace(line, text=fault, marks=marks, kind="fault")
        case "heal" | "end" | "give up":
            line = replace(line, text="healed", marks=())
        case "send" | "resend":
            status, text = after.client.status[numbers[0]], f"record {numbers[0] + 1}"
            line = replace(line, text=text, marks=(_PRODUCER,))
            if FLYING <= status < model.appended:
                line = arrow(_PRODUCER, _FIRST_BROKER + status - FLYING, text)
        case "append" | "duplicate":
            line = replace(line, text=f"{kind} record {numbers[1] + 1}")
        case "metadata":
            line = arrow(brokers[0], _PRODUCER, "metadata: it leads")
        case "fetch" | "truncate":
            line = arrow(brokers[0], brokers[1])
        case "learn":
            line = arrow(_CONTROLLER, brokers[0], "metadata")
        case "abandon":
            line = replace(
                line, text=f"no response for record {numbers[1] + 1}", marks=(_PRODUCER,)
            )
        case "fence" | "expire" | "offline":
            line = replace(line, marks=(_CONTROLLER, brokers[0]))
        case _ if kind in _TO_CONTROLLERS:
            line = arrow(brokers[0], _CONTROLLER, _TO_CONTROLLERS[kind])
        case _ if kind in _ANSWERS:
            line = arrow(brokers[0], _PRODUCER, f"{_ANSWERS[kind]} for record {numbers[1] + 1}")
    return line
