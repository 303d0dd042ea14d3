"""A trace as a sequence diagram in plain text: a column for each participant, a line for each step.

The steps have the numbers of the sentences of `narrative`, which say more.
"""

from __future__ import annotations

from collections.abc import Sequence

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

#: What the controllers hear of a broker.
_HEARD = {"rejoin": "registers", "unfence": "heartbeats again"}

#: The error codes among them.
ERROR_CODES = {kind: code for kind, code in _ANSWERS.items() if code.isupper()}


def draw(model: Model, steps: Sequence[tuple[Label, State, State]]) -> tuple[str, ...]:
    """Return the heading and one line for each step; nothing if there are no steps."""
    if not steps:
        return ()
    heads = ["producer", "controller", *(name(number) for number in range(model.replicas))]
    lines = ["    " + "".join(head.center(_WIDTH) for head in heads).rstrip()]
    for number, (label, _, after) in enumerate(steps, start=1):
        marked, text = _step(model, label, after)
        lines.append(f"{number:3} {_line(len(heads), marked)}  {text}")
    return tuple(lines)


def _line(columns: int, marked: list[int]) -> str:
    """Return an arrow from the first to the second of two columns, or a mark in each column."""
    positions = [column * _WIDTH + _WIDTH // 2 for column in range(columns)]
    line = [" "] * (columns * _WIDTH)
    for position in positions:
        line[position] = "|"
    arrow = len(marked) == 2 and marked[0] >= 0
    if arrow:
        begin, end = positions[marked[0]], positions[marked[1]]
        for position in range(min(begin, end) + 1, max(begin, end)):
            line[position] = "-"
        line[begin], line[end] = "o", ">" if end > begin else "<"
    else:
        for column in marked:
            if column >= 0:
                line[positions[column]] = "*"
    return "".join(line)


def _marks(columns: list[int]) -> list[int]:
    """Return columns to mark, so that two of them are not taken for an arrow."""
    return [-1, *columns]


def _step(model: Model, label: Label, after: State) -> tuple[list[int], str]:
    what, *numbers = label
    kind = what.partition(": ")[0]
    brokers = [_FIRST_BROKER + number for number in numbers]
    shown = _marks(brokers[:1] or [_CONTROLLER]), kind
    match kind:
        case "inject":
            hit = [_FIRST_BROKER + number for number in members(numbers[1])]
            shown = _marks(hit), f"fault {numbers[0] + 1}: {model.schedule[numbers[0]].fault}"
        case "heal" | "end" | "give up":
            shown = _marks([]), "healed"
        case "send" | "resend":
            status = after.client.status[numbers[0]]
            flies = FLYING <= status < model.appended
            to = [_PRODUCER, _FIRST_BROKER + status - FLYING] if flies else _marks([_PRODUCER])
            shown = to, f"record {numbers[0] + 1}"
        case "append" | "duplicate":
            shown = _marks(brokers[:1]), f"{kind} record {numbers[1] + 1}"
        case "metadata":
            shown = [brokers[0], _PRODUCER], "metadata: it leads"
        case "fetch" | "truncate":
            shown = brokers, kind
        case "learn":
            shown = [_CONTROLLER, brokers[0]], "metadata"
        case "shrink" | "expand":
            shown = [brokers[0], _CONTROLLER], f"AlterPartition: {kind}"
        case "rejoin" | "unfence":
            shown = [brokers[0], _CONTROLLER], _HEARD[kind]
        case "abandon":
            shown = _marks([_PRODUCER]), f"no response for record {numbers[1] + 1}"
        case "fence" | "expire" | "offline":
            shown = _marks([_CONTROLLER, brokers[0]]), kind
        case _ if kind in _ANSWERS:
            shown = [brokers[0], _PRODUCER], f"{_ANSWERS[kind]} for record {numbers[1] + 1}"
    return shown
