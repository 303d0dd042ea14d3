"""Kinds of risks, and helpers for them: making a risk, a proposal, an antichain."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from ackproof.audit.answer import Decision, Effect, Risk, Runs
from ackproof.audit.assumption import When
from ackproof.audit.failure import Failure, Failures, covers
from ackproof.audit.setups import Setup
from ackproof.kafka_versions import numbers
from ackproof.own_config.configuration import Client, Count, Given

#: How many stored runs on real brokers showed each known case; written by `ci/lab/audit_cases.py`.
FILE = Path(__file__).with_name("cases.json")


class Subject(Enum):
    """The subject of a kind of risks, in the order in which an answer lists them.

    REFUSED: a configuration that is not accepted, and therefore has no other risk. LOSSES: losses
    by brokers and by defects, which decide which failures are survived.
    """

    REFUSED = "what starts"
    LOSSES = "losses by brokers and defects"
    PRODUCER = "the producer"
    CONSUMERS = "the consumers"
    CLUSTER = "writes and reads that stop"
    TOPIC = "the topic's own settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """What is said about a risk. Braces are filled in. case: the known loss; '' without one."""

    text: str = ""
    at_risk: str = ""
    trace: tuple[str, ...] = ()
    case: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of risks: `KIND` of a module in `risks/`, whose `risks(setup)` finds them.

    title: what happens, for the list. texts: by effect. failures: those after which it happens;
    empty if it needs no failure. cases: further known losses, besides those of the texts.
    removed_by: settings with new values that remove it; some of them not in every case. searched:
    whether the model's search finds its risks, and their traces and changes after all values of
    what is unstated are merged. by_brokers: whether replicas lose what they had, so that
    more copies at the ack protect a record. rare, cause: of its risks.
    """

    title: str
    subject: Subject
    texts: Mapping[Effect, Text]
    failures: tuple[Failure, ...] = ()
    cases: tuple[str, ...] = ()
    removed_by: Mapping[str, str] = field(default_factory=dict)
    searched: bool = False
    by_brokers: bool = False
    rare: bool = False
    cause: str = ""

    @property
    def effects(self) -> tuple[Effect, ...]:
        return tuple(self.texts)

    @property
    def all_cases(self) -> tuple[str, ...]:
        stated = filter(None, (text.case for text in self.texts.values()))
        return tuple(dict.fromkeys((*stated, *self.cases)))

    def risk(
        self,
        setup: Setup,
        failures: Sequence[Failure],
        effect: Effect | None = None,
        *,
        text: str = "",
        at_risk: str = "",
        trace: Sequence[str] = (),
        case: str = "",
        cause: str = "",
        certain: bool = False,
        when: When | None = None,
        decided_by: Sequence[Decision] = (),
        **values: str,
    ) -> Risk:
        """Return a risk of a setup. effect: needed if the kind has several effects.

        text, at_risk, trace, case, cause: replace those of the kind. when: assumed values, in
        addition to `Setup.when`. values: fill the braces of the text.
        """
        effect = effect or self.effects[0]
        said = self.texts[effect]
        case = case or said.case
        return Risk(
            effect=effect,
            likelihood="certain" if certain else "possible",
            failures=tuple(failures),
            when=when or {},
            case=case,
            text=text or said.text.format(**values),
            at_risk=at_risk or said.at_risk.format(**values),
            copies=fewest_copies(setup) if self.by_brokers else None,
            trace=tuple(trace) or tuple(sentence.format(**values) for sentence in said.trace),
            decided_by=tuple(decided_by),
            runs=runs_of(case, effect, setup.partition.kafka_version),
            rare=self.rare,
            cause=cause or self.cause,
            kind=self,
        )

    def never(
        self, setup: Setup, text: str, *, decided_by: Sequence[Decision], when: When | None = None
    ) -> Risk:
        """Return a risk that is certain from the start, without a failure."""
        return Risk(
            effect=self.effects[0],
            likelihood="certain",
            failures=(),
            when=when or {},
            text=text,
            decided_by=tuple(decided_by),
        )


def fewest_copies(setup: Setup) -> int:
    """Return how many replicas have a record at least when it is acked."""
    partition = setup.partition
    if partition.acks == "all":
        return min(partition.min_insync_replicas, partition.replication_factor)
    return int(partition.acks)


def decision(
    setting: str, given: Given | Count, change: object, cost: str = "", *, of: Client | None = None
) -> Decision:
    """Return a proposal. of: the client whose setting it is; its file may have a prefix."""
    return Decision(
        setting=f"{of.prefix if of else ''}{setting}",
        value=str(given.value),
        source=given.source,
        change=str(change),
        cost=cost,
    )


def together(others: Iterable[tuple[str, str]]) -> str:
    """Return settings with their new values, as `Decision.together_with` has them."""
    return " and ".join(f"{setting}={value}" for setting, value in others)


def antichain(sets: Collection[Failures]) -> Iterator[Failures]:
    """Yield the smallest of some sets of failures, the small ones first."""
    smallest: list[Failures] = []
    for candidate in sorted(set(sets), key=lambda one: (len(one), one)):
        if not any(covers(one, candidate) for one in smallest):
            smallest.append(candidate)
            yield candidate


@cache
def _cases() -> dict[str, Any]:
    cases: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return cases


@cache
def runs_of(case: str, effect: Effect, kafka: str) -> Runs | None:
    """Return the stored runs of a case, of the version nearest to `kafka`, and their effect.

    None if no arm expects the effect.
    """
    by_version = _cases().get(case, {}).get(effect.value)
    if not by_version:
        return None
    nearest = min(by_version, key=lambda one: abs(_line(one) - _line(kafka)))
    showed, of = by_version[nearest]
    return Runs(showed=showed, of=of, kafka=nearest)


def _line(version: str) -> int:
    major, minor = numbers(version)[:2]
    return major * 100 + minor
