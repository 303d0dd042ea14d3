"""Traces of real brokers: the model explains them, and refutes changed ones.

`replica_traces.write` made `replicas/<version>-<what>.json` from runs in which brokers were killed,
shut down, cut off, and lost power, and leaders were elected uncleanly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ackproof_model.configuration import Profile
from ackproof_model.validation import partition_trace as model
from ackproof_model.validation.partition_replay import replay
from ackproof_model.validation.replication_rules import ReplicationRules
from replica_traces import read

TRACES = sorted((Path(__file__).parent / "replicas").glob("*.json"))

#: Changes that the model may explain, too: a step without consequences, or repeated by the next
#: line; an election without a change; late records; a leader that had written a little more or
#: less; an end without the others' records; acks that two leaders may have given.
FREE = (
    "no ",
    "another elected",
    "Follows lower",
    "Fetches higher",
    "Shrinks",
    "a shorter end",
    "another fate",
)

#: By how many offsets a tampered step is off.
OFF = 7


def rules(path: Path, trace: model.Trace) -> ReplicationRules:
    least = min(len(one.isr) for one in trace.elections)
    freeze = Profile.of(path.stem.partition("-")[0]).hw_freeze
    return ReplicationRules(min_isr=min(2, least), freeze=freeze)


def wrong(trace: model.Trace) -> Iterator[tuple[str, model.Trace]]:
    """Yield changed traces, one for each step and change, with the name of the change."""
    for number, one in enumerate(trace.elections):
        others = [election for election in trace.elections if election is not one]
        yield "no election", replace(trace, elections=tuple(others))
        for leader in set(trace.brokers) - {one.leader}:
            states = list(trace.elections)
            states[number] = replace(one, leader=leader)
            yield "another elected", replace(trace, elections=tuple(states))
    for broker, steps in trace.brokers.items():
        for number, step in enumerate(steps):
            for name, others in wrong_step(step):
                changed: Any = (*steps[:number], *others, *steps[number + 1 :])
                yield name, replace(trace, brokers={**trace.brokers, broker: changed})
    for number, ack in enumerate(trace.acks):
        for name, other in {
            "another fate": replace(ack, lost=not ack.lost),
            "an ack beyond the end": replace(ack, offset=ack.offset + 10_000_000),
        }.items():
            acks = (*trace.acks[:number], other, *trace.acks[number + 1 :])
            yield name, replace(trace, acks=acks)


def wrong_step(step: model.Step) -> Iterator[tuple[str, list[model.Step]]]:
    kind = type(step).__name__
    if isinstance(step, model.Ends):
        yield "a shorter end", [replace(step, end=step.end - OFF, log=step.log.cut(step.end - OFF))]
        for number, (epoch, start) in enumerate(step.log.epochs):
            runs = list(step.log.epochs)
            runs[number] = (epoch, start + OFF)
            yield "a run of another length", [replace(step, log=model.Log(tuple(runs), step.end))]
        last = (step.log.epochs[-1][0] + 1, step.end - OFF)
        yield (
            "an epoch of nobody",
            [replace(step, log=model.Log((*step.log.epochs, last), step.end))],
        )
        return
    yield f"no {kind}", []
    yield f"{kind} higher", [replace(step, end=step.end + OFF)]
    if step.end >= OFF:
        yield f"{kind} lower", [replace(step, end=step.end - OFF)]
    if isinstance(step, model.Leads | model.Follows):
        yield f"{kind} in another epoch", [replace(step, epoch=step.epoch + 1)]
    if isinstance(step, model.Leads | model.Follows | model.Shrinks):
        yield "high watermark", [replace(step, high_watermark=step.high_watermark + 10_000_000)]


def steps_of(trace: model.Trace, kind: type[model.Step]) -> int:
    return sum(isinstance(step, kind) for steps in trace.brokers.values() for step in steps)


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_the_model_explains_a_real_partition(path: Path) -> None:
    trace = read(path)
    found = replay(trace, rules(path, trace))
    assert found.mismatch is None, str(found.mismatch)
    assert found.explained == found.total > 25
    assert steps_of(trace, model.Leads) > 1
    assert steps_of(trace, model.Truncates) > 0
    assert steps_of(trace, model.Loads) > 0


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_the_model_refutes_changed_traces(path: Path) -> None:
    trace = read(path)
    refuted: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    for name, other in wrong(trace):
        found = replay(other, rules(path, trace))
        (accepted if found.mismatch is None else refuted)[name] += 1
    assert {name for name in accepted if not name.startswith(FREE)} == set(), accepted
    assert sum(refuted.values()) > 80
    assert sum(accepted.values()) < sum(refuted.values()) / 4
