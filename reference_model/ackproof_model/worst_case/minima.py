"""The smallest numbers of perturbations that lose an acked record, by the rules that decide it.

Larger numbers lose, too. `minima.json` stores the smallest (an antichain), the total up to which
all other numbers were searched without a loss, and larger ones that lose nothing.
`ci/lab/minima` searches them again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from ackproof_model.adversary.state import AdversaryModel
from ackproof_model.configuration import Acks, Profile, Reader
from ackproof_model.perturbations import Counts
from ackproof_model.replication.state import Label

FILE = Path(__file__).with_name("minima.json")

#: A count in the file that stands for any number.
ANY = -1

#: The step in which a broker loses power: its number, and how many of its records are kept.
LOSE_POWER = "lose power"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One configuration of a partition. `acks` is `1` for acks=0, too: both ack with the append."""

    kafka_version: str
    elr: bool
    acks: Acks
    replicas: int
    min_insync_replicas: int
    unclean: bool

    @property
    def key(self) -> str:
        """The key of the stored result; versions with the same rules share it."""
        profile = Profile.of(self.kafka_version)
        rules = {field.name: getattr(profile, field.name) for field in fields(profile)}
        rules["fenced_last_known"] = rules["fenced_last_known"] and self.elr
        ignored = Profile.not_read_by(Reader.ANY_ORDER)
        names = [
            name if value is True else f"{name}={getattr(value, 'value', value)}"
            for name, value in sorted(rules.items())
            if value and name not in ignored
        ]
        return " ".join(
            [
                f"acks={self.acks}",
                f"min={self.min_insync_replicas}/{self.replicas}",
                *(["unclean"] if self.unclean else []),
                *(["elr"] if self.elr else []),
                *names,
            ]
        )

    @property
    def endless_lag(self) -> bool:
        """Whether the adversary can search any number of shrinks (`Budgets.always_lagging`)."""
        profile = Profile.of(self.kafka_version)
        return profile.zookeeper or not profile.shrink_bumps_epoch

    @property
    def lag(self) -> float:
        """How many ISR shrinks lagging followers cause: any number if that can be searched."""
        return math.inf if self.endless_lag else self.replicas - 1

    def model(self, **changes: object) -> AdversaryModel:
        return AdversaryModel(
            kafka_version=self.kafka_version,
            acks=self.acks,
            min_insync_replicas=self.min_insync_replicas,
            replicas=self.replicas,
            unclean_election=self.unclean,
            elr_enabled=self.elr,
            **changes,  # type: ignore[arg-type]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimum:
    """The smallest numbers of one kind of loss, and a shortest way to it."""

    counts: Counts
    steps: tuple[Label, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Minima:
    """The results for one question.

    losing: the shortest first. searched: up to this many perturbations without shrinks lose
    nothing, unless they allow one of `losing`. safe: larger numbers that lose nothing. states: how
    many were searched.
    """

    losing: tuple[Minimum, ...]
    searched: int
    states: int
    safe: tuple[Counts, ...] = ()

    def lost_by(self, counts: Counts) -> Minimum | None:
        """Return the shortest loss that these numbers allow."""
        for one in self.losing:  # a generator would take longer, and this is asked most
            if one.counts.within(counts):
                return one
        return None

    def excludes(self, counts: Counts) -> bool:
        """Whether the search has shown that these numbers lose nothing."""
        return self.covers(counts) and self.lost_by(counts) is None

    def covers(self, counts: Counts) -> bool:
        """Whether these numbers were searched."""
        return few(counts, searched=self.searched) or any(map(counts.within, self.safe))


def few(counts: Counts, *, searched: int) -> bool:
    """Whether these are at most so many perturbations, of the kinds that are searched together."""
    return not counts.shrinks and not counts.reassignments and counts.total <= searched


@cache
def stored() -> dict[str, Minima]:
    """Return the stored results by `Question.key`."""
    return {key: _read(result) for key, result in _results().items()}


@cache
def _results() -> dict[str, dict[str, object]]:
    results: dict[str, dict[str, object]] = json.loads(FILE.read_text())["results"]
    return results


_SAME_RULES: dict[object, Question] = {}


@cache
def representative(question: Question) -> Question:
    """Return the same question for all versions with the same rules, so that it is asked once."""
    drops = question.elr and Profile.of(question.kafka_version).directory_drops_elr
    return _SAME_RULES.setdefault((question.key, drops), question)


@cache
def minima(question: Question) -> Minima | None:
    """Return the stored results for a question; None if it was not searched."""
    result = _results().get(question.key)
    return _read(result) if result else None


def _read(result: dict[str, object]) -> Minima:
    losing, safe = result["losing"], result.get("safe", [])
    assert isinstance(losing, list)
    assert isinstance(safe, list)
    ways = [
        Minimum(counts=Counts(**one["budget"]), steps=tuple(map(tuple, one["steps"])))
        for one in losing
    ]
    return Minima(
        losing=tuple(sorted(ways, key=lambda one: len(one.steps))),
        searched=int(str(result["searched"])),
        states=int(str(result["states"])),
        safe=tuple(map(counts_of, safe)),
    )


def counts_of(stored: Mapping[str, int]) -> Counts:
    """Return numbers of perturbations as they are stored."""
    return Counts(**{kind: math.inf if n == ANY else n for kind, n in stored.items()})
