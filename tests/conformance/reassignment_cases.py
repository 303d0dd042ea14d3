"""Random reassignments, and both sides' answers as text."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from types import ModuleType

from ackproof_model.kafka import partition_change, reassignment

BROKERS = tuple(range(7))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request from `current` to `target`, and a partition whose replicas move."""

    current: tuple[int, ...]
    target: tuple[int, ...]
    replicas: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    isr: tuple[int, ...]


def random_case(rng: random.Random) -> Case:
    """Return a request and a state that may or may not be reachable: the rules are total."""
    current, target = (_some(rng, BROKERS, rng.choice((0.3, 0.5, 0.7))) for _ in range(2))
    moving = reassignment.Reassignment.between(current, target)
    replicas, removing, adding = moving.replicas, moving.removing, moving.adding
    in_sync = replicas if rng.random() < 0.8 else BROKERS
    if rng.random() < 0.5:
        replicas = _some(rng, BROKERS, rng.choice((0.1, 0.7, 0.7)))
        removing = _some(rng, replicas if rng.random() < 0.8 else BROKERS, 0.3)
        adding = _some(rng, replicas if rng.random() < 0.8 else BROKERS, 0.3)
    return Case(
        current=current,
        target=target,
        replicas=replicas,
        removing=removing,
        adding=adding,
        isr=_some(rng, in_sync, rng.choice((0.3, 0.7, 0.9, 1.0))),
    )


def _some(rng: random.Random, of: Sequence[int], chance: float) -> tuple[int, ...]:
    taken = [one for one in of if rng.random() < chance]
    rng.shuffle(taken)
    return tuple(taken)


def line(case: Case) -> str:
    """Return the case as the oracle reads it; what it does not ask about is the same in all."""
    asked = {field.name: getattr(case, field.name) for field in fields(case)}
    directories = (partition_change.MIGRATING,) * len(case.replicas)
    fixed = "leader=-1 leader_epoch=0 partition_epoch=0 recovering=0"
    listed = " ".join(f"{name}={','.join(map(str, value))}" for name, value in asked.items())
    return f"{listed} directories={','.join(directories)} {fixed}"


def ours(case: Case, version: tuple[int, ...], rules: ModuleType = reassignment) -> str:
    """Return what the rules (of a module: mutants have others) answer, as the oracle writes it."""
    of_version = partition_change.ControllerRules.of(version)
    requested = rules.Reassignment.between(case.current, case.target)
    moving = rules.Reassignment(replicas=case.replicas, removing=case.removing, adding=case.adding)
    completed = moving.completed(
        case.isr,
        with_all=of_version.complete_with_all,
        smaller_with_all=of_version.smaller_with_all,
    )
    reverted = rules.Reverted.of(moving, case.isr)
    done = "no" if completed is None else "/".join(map(_text, completed))
    kept = (
        "refused"
        if reverted is None
        else f"{_text(reverted.replicas)}/{_text(reverted.isr)}/{str(reverted.unclean).lower()}"
    )
    return (
        f"removing={_text(requested.removing)} adding={_text(requested.adding)} "
        f"replicas={_text(requested.replicas)} moving={str(moving.in_progress).lower()} "
        f"completed={done} original={_text(moving.original)} reverted={kept}"
    )


def smaller(case: Case) -> list[Case]:
    """Return the cases with one broker less in one place."""
    return [
        replace(case, **{field.name: value[:at] + value[at + 1 :]})
        for field in fields(case)
        for value in [getattr(case, field.name)]
        for at in range(len(value))
    ]


def _text(replicas: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, replicas))}]"
