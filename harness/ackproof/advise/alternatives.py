"""Every sequence of steps that is worth a comparison, over all partitions, the best first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.advice import (
    Ability,
    Elect,
    Outcome,
    Situation,
    Step,
    down_brokers,
    outcome,
    sequences,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Steps and their outcome for each partition."""

    steps: tuple[Step, ...]
    outcomes: Mapping[TopicPartition, Outcome]

    @property
    def at_risk(self) -> int:
        """How many acked offsets may be lost."""
        return sum(one.at_risk for one in self.outcomes.values())

    @property
    def certain(self) -> int:
        """How many acked offsets are lost in every order of events."""
        return sum(offsets.count for one in self.outcomes.values() for offsets in one.loses)

    @property
    def unavailable(self) -> tuple[TopicPartition, ...]:
        """The partitions that may not be written in the end."""
        return tuple(place for place, one in self.outcomes.items() if one.writes is not Ability.YES)

    @property
    def decided(self) -> bool:
        """Whether every order of events was searched."""
        return all(one.complete for one in self.outcomes.values())

    @property
    def verdict(self) -> str:
        if not self.decided:
            return "not decided"
        if not self.at_risk:
            return "keeps everything"
        return "loses" if self.certain == self.at_risk else "may lose"

    @property
    def rank(self) -> tuple[bool, int, int, int, bool, int]:
        started = sum(len(getattr(step, "brokers", ())) for step in self.steps)
        elects = any(isinstance(step, Elect) for step in self.steps)
        return (
            not self.decided,
            len(self.unavailable),
            self.at_risk,
            -started,
            elects,
            len(self.steps),
        )


def alternatives(situations: Mapping[TopicPartition, Situation]) -> list[Alternative]:
    """Return the alternatives, the best first.

    The best lets all partitions be written again, and of those it keeps the most acked records,
    starts the most brokers, and has the fewest steps.
    """
    down = down_brokers(tuple(situations.values()))
    judged = [
        Alternative(
            steps=steps,
            outcomes={place: outcome(one, steps) for place, one in situations.items()},
        )
        for steps in sequences(down)
    ]
    return sorted(judged, key=lambda one: one.rank)


def groups(alternative: Alternative) -> Iterator[tuple[list[TopicPartition], Outcome]]:
    """Yield partitions with the same outcome together."""
    together: defaultdict[Outcome, list[TopicPartition]] = defaultdict(list)
    for place, one in alternative.outcomes.items():
        together[one].append(place)
    yield from ((places, one) for one, places in together.items())
