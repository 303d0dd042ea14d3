"""Whether a schedule may lose an acked record, by a search that keeps the order of its faults.

It stands between the exact search (`prediction.search`), which also follows producers and timers,
and the worst case, which forgets order and targets. Faults begin in their order, on their targets,
and when their conditions on the leader, the ISR and other faults hold. All else may happen at any
time, as for the adversary, whose actions these are. What a fault makes possible (lag, the end of a
session, late fetches and metadata) may happen or not from its begin on. So the search allows all
that brokers can do, and more: a condition on clients, time or logs is taken to hold at any time.

A broker may miss an epoch, with one exception: it has applied an election that an operator asked
for when that fault is healed, `METADATA_S` later at least, if no earlier fault keeps metadata from
a broker. Tests with more records give the same answers. The steps are those of `scheduled`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ackproof_model.adversary.successors import lost
from ackproof_model.configuration import Configuration
from ackproof_model.effects import (
    Cuts,
    Elects,
    Ends,
    LateFetches,
    LateIsrChanges,
    LateMetadata,
    Reassigns,
    Stalls,
)
from ackproof_model.prediction.fault_schedule import Injection, Role
from ackproof_model.prediction.result import Likelihood, Prediction, inconsistent
from ackproof_model.replication.state import NOBODY, Label, members, name
from ackproof_model.worst_case.answer import sentence
from ackproof_model.worst_case.fault_steps import refuses_shutdown
from ackproof_model.worst_case.scheduled import METADATA_S, Key, Scheduled, Steps

_METHOD = (
    "Exact search for lost records in the order of the faults: one partition and one record; "
    "whatever the order leaves open may happen at any time; an election is applied "
    f"{METADATA_S:g} s later, unless a fault keeps metadata from a broker; it leaves out automatic "
    "preferred elections."
)
#: As many as `AdversaryModel` supports.
_MOST_BROKERS = 5
_SUPPORTED = (Cuts, Elects, Ends, LateFetches, LateIsrChanges, LateMetadata, Reassigns, Stalls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """The result. trace: a shortest way to a loss, a sentence each step; empty if there is none.

    states: how many were searched. complete: False if their limit ended the search.
    """

    trace: tuple[str, ...]
    states: int
    complete: bool

    @property
    def lost(self) -> bool:
        return bool(self.trace)


def unsupported(configuration: Configuration, schedule: Sequence[Injection]) -> str:
    """Return what the search does not support; '' if it supports the schedule."""
    return next(_unsupported(configuration, schedule), "")


def _unsupported(configuration: Configuration, schedule: Sequence[Injection]) -> Iterator[str]:
    if configuration.profile.zookeeper:
        yield "ZooKeeper mode"
    if configuration.acks != "all" or configuration.unclean_election:
        yield "acks below all and unclean elections"
    for injection in schedule:
        for effect in injection.effects:
            if not isinstance(effect, _SUPPORTED):
                yield type(effect).__name__
            elif isinstance(effect, Ends) and effect.clean and len(injection.targets) > 1:
                yield "several controlled shutdowns at once"
        if any(isinstance(one, Role) and one is not Role.LEADER for one in injection.targets):
            yield "brokers that are not known before"
    shut_down = any(injection.shuts_down for injection in schedule)
    effects = itertools.chain(*(injection.effects for injection in schedule))
    if shut_down and any(map(refuses_shutdown, effects)):
        yield "a controlled shutdown that may end in a SIGKILL"
    if Steps(configuration, tuple(schedule)).brokers > _MOST_BROKERS:
        yield f"more than {_MOST_BROKERS} brokers"


def excludes_losses(configuration: Configuration) -> bool:
    """Whether a search without a loss excludes one: it leaves out late fetch responses."""
    return not configuration.profile.stale_fetch or configuration.replication_factor == 1


def search(
    configuration: Configuration,
    schedule: Sequence[Injection],
    *,
    max_states: int,
    records: int = 1,
) -> Ordered:
    """Search what `schedule` allows, up to `max_states` states.

    Raises ValueError if the search does not support the schedule (`unsupported`).
    """
    if what := unsupported(configuration, schedule):
        raise ValueError(f"schedule has {what}: ask unsupported() first")
    steps = Steps(configuration, tuple(schedule), records)
    before: dict[Key, Key | None] = {steps.start: None}
    level = [steps.start]
    while level and len(before) <= max_states:
        reached = []
        for key in level:
            for _, after in steps.successors(key):
                if after not in before:
                    before[after] = key
                    reached.append(after)
                    if steps.lost(after):
                        trace = tuple(_sentences(schedule, _trace(steps, before, after)))
                        return Ordered(trace=trace, states=len(before), complete=True)
        level = reached
    return Ordered(trace=(), states=len(before), complete=not level)


def _trace(steps: Steps, before: dict[Key, Key | None], last: Key) -> list[tuple[Label, Scheduled]]:
    """Return the steps to a state, each with the state after it."""
    way = [last]
    while (earlier := before[way[-1]]) is not None:
        way.append(earlier)
    way.reverse()
    return [
        (next(label for label, one in steps.successors(key) if one == after), steps.read(after))
        for key, after in itertools.pairwise(way)
    ]


def with_order(
    prediction: Prediction, configuration: Configuration, found: Sequence[Ordered]
) -> Prediction:
    """Return a worst case with the answer to losses of these searches of one schedule."""
    losing = min((one for one in found if one.lost), key=lambda one: len(one.trace), default=None)
    states = sum(one.states for one in found)
    if losing is not None:
        lost = Likelihood.POSSIBLE, "the faults in their order may lose an acked record"
    else:
        kept = "the faults in their order lose no acked record, whenever all other steps happen"
        lost = Likelihood.IMPOSSIBLE, f"{kept} ({states} states)"
    likelihood = {**prediction.likelihood, "lost": lost[0]}
    inconsistency = inconsistent(configuration, likelihood)
    return replace(
        prediction,
        likelihood={**likelihood, "inconsistent": inconsistency[0]},
        reasons={**prediction.reasons, "lost": lost[1], "inconsistent": inconsistency[1]},
        trace=losing.trace if losing is not None else (),
        method=f"{_METHOD} For the rest: {prediction.method}",
    )


def _sentences(
    schedule: Sequence[Injection], trace: Sequence[tuple[Label, Scheduled]]
) -> Iterator[str]:
    leader, healed = 0, 0
    replicas: tuple[int, ...] = ()
    for label, state in trace:
        what, *numbers = label
        match what:
            case "fault":
                text = f"Fault {numbers[0] + 1} ({schedule[numbers[0]].fault}) begins."
            case "end":
                text = "The run ends before the next fault, and every fault is healed."
            case "delete":
                text = f"{name(numbers[0])} deletes the log of its replica, which was removed."
            case "refuse":
                text = f"The controller refuses the ISR that {name(numbers[0])} has asked for."
            case _:
                text = sentence(label)
        controller = state.cluster.controller
        moved = controller.assignment.replicas if controller.assignment else ()
        if moved != replicas and what != "write":
            text += f" The replicas are {', '.join(map(name, moved))}."
        if controller.leader != leader:
            led = "No replica" if controller.leader == NOBODY else name(controller.leader)
            text += f" {led} leads."
        leader, replicas = controller.leader, moved
        yield text
        after = state.progress.healed
        for fault in members(after & ~healed) if what != "end" else ():
            yield f"Fault {fault + 1} ({schedule[fault].fault}) ends."
        healed = after
    if trace:
        cluster = trace[-1][1].cluster
        gone = " and ".join(f"record {one + 1}" for one in members(lost(cluster)))
        led = name(cluster.controller.leader)
        yield f"{led} leads without {gone}, which was acked: it is lost."
