"""Steps of the adversary in words: one sentence for each."""

from __future__ import annotations

from ackproof_model.prediction.narrative import name

#: By label: a sentence with the replicas (or, in the second place, a record or count) of a step.
_SENTENCES = {
    "write": "{0} appends record {number}.",
    "ack": "{0} acks record {number}.",
    "kill": "{0} is killed (SIGKILL): what it appended stays in its log.",
    "lose power": "{0} loses power: its log keeps {count} of its records.",
    "stop": "{0} begins a controlled shutdown (SIGTERM).",
    "exit": "{0} ends.",
    "shrink": "{0} asks to take {1}, which lags, out of the ISR.",
    "expand": "{0} asks to take {1} into the ISR.",
    "apply": "The controller changes the ISR as {0} has asked.",
    "cut off": "{0} runs, but loses its session.",
    "fence": "The session of {0} ends.",
    "expire": "The session of {0} ends while no broker is the controller.",
    "restart": "{0} is started again.",
    "unfence": "{0} is registered, and may lead again.",
    "learn": "{0} learns who leads.",
    "fetch": "{0} fetches from {1}.",
}


def sentence(step: str) -> str:
    """Return a step such as `lose power 0 1` in words."""
    label = step.rstrip("0123456789 ")
    numbers = [int(number) for number in step[len(label) :].split()]
    last = numbers[-1]
    names = map(name, numbers)
    return _SENTENCES[label].format(*names, number=last + 1, count=last)
