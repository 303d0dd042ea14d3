"""Makes the risk of a setup: with the values that were assumed, its case and the stored runs."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, reduce
from operator import getitem
from pathlib import Path
from typing import Any

from ackproof.audit import cases
from ackproof.audit.answer import Decision, Effect, Failure, Failures, Risk
from ackproof.audit.setups import Setup
from ackproof.audit.words import covers
from ackproof.own_config.configuration import Client, Given

#: Descriptions of the risks that no search finds.
WORDS = Path(__file__).with_name("risks.toml")


def risk(
    setup: Setup,
    effect: Effect,
    failures: Sequence[Failure],
    text: str,
    *,
    certain: bool = False,
    when: Mapping[str, str] | None = None,
    case: str = "",
    at_risk: str = "",
    trace: Sequence[str] = (),
    decided_by: Sequence[Decision] = (),
) -> Risk:
    """Return a risk of a setup. when: values assumed besides those of `Setup.when`."""
    return Risk(
        effect=effect,
        likelihood="certain" if certain else "possible",
        failures=tuple(failures),
        when=when or {},
        case=case,
        text=text,
        at_risk=at_risk,
        trace=tuple(trace),
        decided_by=tuple(decided_by),
        runs=cases.runs_of(case, effect, setup.partition.kafka_version),
    )


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads(WORDS.read_text(encoding="utf-8"))


def worded(
    setup: Setup,
    effect: Effect,
    failures: Sequence[Failure],
    name: str,
    *,
    when: Mapping[str, str] | None = None,
    decided_by: Sequence[Decision] = (),
    **values: str,
) -> Risk:
    """Return a risk with its description in `risks.toml`, whose braces `values` fill in."""
    words = reduce(getitem, name.split("."), _words())
    return risk(
        setup,
        effect,
        failures,
        words["text"].format(**values),
        when=when,
        case=words.get("case", "").format(**values),
        at_risk=words["at_risk"].format(**values),
        trace=[sentence.format(**values) for sentence in words["trace"]],
        decided_by=decided_by,
    )


def decision(
    setting: str, given: Given, change: object, cost: str = "", *, of: Client | None = None
) -> Decision:
    """Return a proposal. of: the client whose setting it is, which its file may prefix."""
    return Decision(
        setting=f"{of.prefix if of else ''}{setting}",
        value=given.value,
        source=given.source,
        change=str(change),
        cost=cost,
    )


def antichain(sets: Collection[Failures]) -> Iterator[Failures]:
    """Yield the smallest of some sets of failures, the small ones first."""
    smallest: list[Failures] = []
    for candidate in sorted(set(sets), key=lambda one: (len(one), one)):
        if not any(covers(one, candidate) for one in smallest):
            smallest.append(candidate)
            yield candidate
