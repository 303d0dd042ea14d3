"""Whether partitions can be read and written, where no exact search says it.

The sum of effects says only where nothing touches a partition: there it `can`. Otherwise `either`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ackproof.kafka_versions import caps_min_isr
from ackproof.prediction.effect_stress import Place
from ackproof.prediction.stress import stress_of_steps
from ackproof_faults import Fault
from ackproof_faults.schedule.blocks import every_fault
from ackproof_model import Ability, Availability
from ackproof_model.bounds import Stress
from ackproof_model.effects import Cuts, Intercepts, Resets, Slows
from ackproof_model.prediction.availability import joined


def bounded_parts(places: Iterable[Place]) -> tuple[Availability, ...]:
    """Return the parts of the schedule with one answer for all of these partitions."""
    return joined([tuple(_parts(place)) for place in places])


def _parts(place: Place) -> Iterator[Availability]:
    """Yield the parts of one partition: what begins stays, since nobody knows when it is healed."""
    steps = place.scenario.faults
    yield _part(place, (), "before the first fault", begun=0)
    if not all(isinstance(step, Fault) for step in steps):
        yield _part(place, steps, "from the first fault on", begun=1)
        return
    for number, fault in enumerate(steps, start=1):
        text = f"after fault {number} ({fault.name}) begins"
        yield _part(place, steps[:number], text, begun=number)
    healed = tuple(range(1, len(steps) + 1))
    yield _part(place, steps, "at the end", begun=len(steps), healed=healed)


def _part(
    place: Place, steps: Sequence[Any], text: str, *, begun: int, healed: tuple[int, ...] = ()
) -> Availability:
    suffered = stress_of_steps(place, steps)
    requests = not any(
        isinstance(effect, Cuts | Intercepts | Resets | Slows)
        for fault in every_fault(steps)
        for effect in fault.effects
    )
    readable = requests and _keeps_leader(suffered)
    writable = readable and _keeps_isr(suffered) and _attainable(place)
    return Availability(
        part=text,
        begun=begun,
        healed=healed,
        readable=Ability.CAN if readable else Ability.EITHER,
        writable=Ability.CAN if writable else Ability.EITHER,
    )


def _keeps_leader(suffered: Stress) -> bool:
    """Whether the same leader serves all records all the time."""
    budget = suffered.budget
    ended = budget.kills + budget.power_losses + budget.clean_stops + budget.fencings
    gone = suffered.removed or suffered.altered or suffered.moved or suffered.anything
    return not (ended or gone or suffered.unanswered)


def _keeps_isr(suffered: Stress) -> bool:
    """Whether the ISR stays, and the settings that decide who may write."""
    return not (suffered.budget.shrinks or suffered.rewritten or suffered.lowered is not None)


def _attainable(place: Place) -> bool:
    topic = place.scenario.topics[place.topic]
    return (
        caps_min_isr(place.scenario.kafka) or topic.min_insync_replicas <= topic.replication_factor
    )
