"""Random states of a partition, what is asked of it, and both sides' answers as text."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any

from ackproof_model.kafka import partition_change
from ackproof_model.kafka.partition_change import Election, Registration, Target

#: Beside small numbers, some that share a bucket of a Java hash set with a smaller one.
BROKERS = (0, 1, 2, 3, 4, 5, 17, 33, 1001, 65537 + 15)
#: Enough of them that such a set grows; rarely drawn.
MANY = tuple(range(0, 60, 2))
DIRECTORIES = (
    partition_change.UNASSIGNED,
    partition_change.LOST,
    partition_change.MIGRATING,
    "INWgTF1oRRC9KB-vqTHkCw",
    "rj3QHBRpSfye8ZJZG1FZiQ",
)
#: The feature levels around which rules change, known to every version under test.
METADATA_VERSIONS = (7, 11, 12, 16, 17, 21, 22)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A partition, what is asked of it, and the cluster around it, as plain values."""

    now: Registration
    target: Target
    acceptable: tuple[int, ...]
    min_isr: int
    eligible: bool
    metadata_version: int
    defaults: tuple[tuple[int, str], ...]


def random_case(rng: random.Random) -> Case:
    """Return a state that may or may not be reachable: the rules are total."""
    many = rng.random() < 0.03
    replicas = tuple(rng.sample(BROKERS, rng.choice((1, 2, 3, 3, 3, 4, 5))))
    if many:
        replicas = tuple(rng.sample(MANY, rng.choice((12, 13, 18, 26))))
    isr = _some(rng, replicas, rng.choice((0.0, 0.4, 0.7, 1.0)))
    outside = tuple(one for one in replicas if one not in isr)
    elr = _some(rng, outside if rng.random() < 0.9 else replicas, rng.choice((0.0, 0.5, 1.0)))
    leaders = (-1, -1, rng.choice(replicas), rng.choice(isr or replicas), rng.choice(isr or (-1,)))
    moving = rng.random() < 0.3
    metadata_version = rng.choice(METADATA_VERSIONS)
    places = DIRECTORIES if metadata_version >= 17 else (partition_change.MIGRATING,)
    now = Registration(
        replicas=replicas,
        directories=tuple(rng.choice(places) for _ in replicas),
        isr=isr,
        leader=rng.choice(leaders),
        leader_epoch=rng.randrange(5),
        partition_epoch=rng.randrange(9),
        recovering=rng.random() < 0.2,
        elr=elr,
        last_known_elr=tuple(rng.sample(BROKERS if rng.random() < 0.2 else replicas, 1))
        * rng.choice((0, 0, 1, 1, 1)),
        removing=_some(rng, replicas, 0.3) if moving else (),
        adding=_some(rng, replicas, 0.3) if moving else (),
    )
    if rng.random() < 0.03:
        now = replace(now, last_known_elr=tuple(rng.sample(BROKERS, 2)))
    brokers = tuple(sorted({*replicas, *rng.sample(BROKERS, 3)}))
    return Case(
        now=now,
        target=_target(rng, now, brokers),
        acceptable=_some(rng, brokers, rng.choice((0.3, 0.6, 0.9))),
        min_isr=26 if many else rng.choice((1, 1, 2, 2, 3)),
        eligible=rng.random() < 0.6,
        metadata_version=metadata_version,
        defaults=tuple((broker, rng.choice(DIRECTORIES)) for broker in brokers),
    )


def _target(rng: random.Random, now: Registration, brokers: Sequence[int]) -> Target:
    def maybe(chance: float, value: Any) -> Any:
        return value if rng.random() < chance else None

    kind = rng.random()
    reassign = kind > 0.75
    shrunk = tuple(one for one in now.isr if rng.random() < 0.6)
    isr = maybe(0.7, shrunk if rng.random() < 0.6 else _some(rng, now.replicas, 0.7))
    placed = rng.random() < 0.15
    election = rng.choice(tuple(Election))
    replicas = _some(rng, brokers, 0.6) or now.replicas
    if election is not Election.PREFERRED and rng.random() < 0.05:
        replicas = ()
    return Target(
        election=election,
        isr=isr,
        replicas=maybe(0.6, replicas) if reassign else None,
        removing=maybe(0.5, _some(rng, now.replicas, 0.4)) if reassign else None,
        adding=maybe(0.5, _some(rng, brokers, 0.4)) if reassign else None,
        recovering=maybe(0.3, rng.random() < 0.5),
        unclean_shutdown=_some(rng, now.replicas, 0.3) if rng.random() < 0.3 else (),
        directory=(rng.choice(now.replicas), rng.choice(DIRECTORIES)) if placed else None,
    )


def _some(rng: random.Random, of: Sequence[int], chance: float) -> tuple[int, ...]:
    taken = [one for one in of if rng.random() < chance]
    if rng.random() < 0.3:
        rng.shuffle(taken)
    return tuple(taken)


def line(case: Case) -> str:
    """Return the case as the oracle reads it."""
    known = {field.name: getattr(case.now, field.name) for field in fields(Registration)}
    asked = {
        f"target_{field.name}": getattr(case.target, field.name)
        for field in fields(Target)
        if field.name not in ("election", "unclean_shutdown", "directory")
    }
    told = {
        **known,
        **asked,
        "election": case.target.election.value,
        "unclean_shutdown": case.target.unclean_shutdown or None,
        "directory": case.target.directory and _pair(case.target.directory),
        "acceptable": case.acceptable,
        "min_isr": case.min_isr,
        "eligible": case.eligible,
        "metadata_version": case.metadata_version,
        "defaults": tuple(map(_pair, case.defaults)),
    }
    return " ".join(f"{key}={_text(value)}" for key, value in told.items() if value is not None)


def ours(case: Case, version: tuple[int, ...], rules: ModuleType = partition_change) -> str:
    """Return what the rules (of a module: mutants have others) answer, as the oracle writes it."""
    cluster = rules.Cluster(
        rules=rules.ControllerRules.of(version),
        acceptable=frozenset(case.acceptable).__contains__,
        min_isr=case.min_isr,
        elr=case.eligible,
        metadata_version=case.metadata_version,
        default_directory=dict(case.defaults).__getitem__,
    )
    now, target = _in(rules, case.now), _in(rules, case.target)
    change = rules.partition_change(now, target, cluster)
    if change is None:
        return "none"
    then = rules.apply(now, change)
    told = {field.name: getattr(change, field.name) for field in fields(change)}
    names = ("leader", "leader_epoch", "partition_epoch", "isr", "directories", "recovering")
    told |= {f"then_{name}": getattr(then, name) for name in names}
    return " ".join(f"{key}={_text(value)}" for key, value in told.items() if value is not None)


def _in(rules: ModuleType, record: Any) -> Any:
    """Return a record as the module's own class: a mutant has classes of its own."""
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    if "election" in values:
        values["election"] = rules.Election(values["election"].value)
    return getattr(rules, type(record).__name__)(**values)


def smaller(case: Case) -> list[Case]:
    """Return the cases that have one thing less."""
    found = []
    for part in ("now", "target"):
        record = getattr(case, part)
        for field in fields(record):
            for value in _less(getattr(record, field.name)):
                change = {field.name: value}
                if field.name == "replicas" and part == "now":
                    change["directories"] = case.now.directories[: len(value)]
                found.append(replace(case, **{part: replace(record, **change)}))
    found += [replace(case, acceptable=value) for value in _less(case.acceptable)]
    if case.eligible:
        found.append(replace(case, eligible=False))
    return [one for one in found if len(one.now.directories) == len(one.now.replicas) > 0]


def _less(value: Any) -> list[Any]:
    if value is True:
        return [False]
    if isinstance(value, tuple) and value and isinstance(value[0], int):
        if len(value) == 2 and isinstance(value[1], str):
            return [None]
        return [value[:at] + value[at + 1 :] for at in range(len(value))]
    return []


def _pair(pair: tuple[int, str]) -> str:
    return f"{pair[0]}:{pair[1]}"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(int(value)) if isinstance(value, bool) else str(value)
