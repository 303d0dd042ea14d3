"""Random logs of a leader and a follower, and the follower's rounds of truncation as text."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType

from ackproof_model.configuration import Profile
from ackproof_model.kafka.epoch_cache import Epochs, assign
from ackproof_model.replication import log_truncation

#: The last version whose followers ask where to truncate before they fetch. Brokers do so before
#: 4.0 if `inter.broker.protocol.version` is as old.
ASKING_FIRST, NEVER_ASKING = "2.6.3", (4,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The leader epoch of each record in both logs, and the epoch in which the leader leads.

    first: the follower asks where to truncate before it fetches.
    """

    leader: tuple[int, ...]
    follower: tuple[int, ...]
    epoch: int
    high_watermark: int
    first: bool


def random_case(rng: random.Random) -> Case:
    """Return logs that often begin alike; the follower may have epochs that the leader lacks.

    If it asks first, it does so once for an epoch that both have: both have it from one offset on.
    """
    leader, first = _log(rng, ()), rng.random() < 0.3
    alike = leader[: rng.randint(0, len(leader))] if first or rng.random() < 0.7 else ()
    follower = _log(rng, alike)
    if first:
        follower = (*alike, *(epoch for epoch in follower[len(alike) :] if epoch not in leader))
    latest = max((0, *leader, *follower))
    # Only the leader itself has written in its epoch.
    written = latest in leader and rng.random() < 0.3
    return Case(
        leader=leader,
        follower=follower,
        epoch=latest if written else latest + rng.choice((1, 2)),
        high_watermark=rng.randint(0, len(follower)),
        first=first,
    )


def _log(rng: random.Random, begin: tuple[int, ...]) -> tuple[int, ...]:
    epochs, epoch = list(begin), begin[-1] if begin else rng.choice((0, 0, 1, 2))
    for _ in range(rng.randint(0, 5)):
        epoch += rng.choice((0, 0, 1, 1, 2))
        epochs.append(epoch)
    return tuple(epochs)


def line(case: Case) -> str:
    """Return the case as the oracle reads it."""
    return (
        f"leader={','.join(map(str, case.leader))} follower={','.join(map(str, case.follower))} "
        f"epoch={case.epoch} high_watermark={case.high_watermark} "
        f"first={int(case.first)}"
    )


def smaller(case: Case) -> list[Case]:
    """Return the cases that have one record less."""
    found = [replace(case, leader=log) for log in _shorter(case.leader)]
    found += [
        replace(case, follower=log, high_watermark=min(case.high_watermark, len(log)))
        for log in _shorter(case.follower)
    ]
    return found


def _shorter(log: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [log[:at] + log[at + 1 :] for at in range(len(log))]


def ours(case: Case, version: tuple[int, ...], rules: ModuleType = log_truncation) -> str:
    """Answer by the rules (of a module: mutants have others).

    The follower's log end at each request that it sends, and after all of them.
    """
    first = case.first and version < NEVER_ASKING
    profile = Profile.of(ASKING_FIRST if first else ".".join(map(str, version)))
    leader, end = assign(_epochs(case.leader), case.epoch, len(case.leader)), len(case.follower)
    ends = [end]
    while True:
        cut = rules.truncation_offset(leader, len(case.leader), _epochs(case.follower[:end]), end)
        if cut >= end:
            break
        end = cut
        ends.append(end)
    kept = rules.kept_end(
        profile,
        case.leader,
        case.follower,
        truncating=first,
        high_watermark=case.high_watermark,
    )
    return f"{','.join(map(str, ends))}>{kept}"


def kafkas(answer: str) -> str:
    """Return Kafka's log ends as `ours` does: at each request, and after the last."""
    return f"{answer}>{answer.rpartition(',')[2]}"


def _epochs(records: Sequence[int]) -> Epochs:
    epochs: Epochs = ()
    for offset, epoch in enumerate(records):
        epochs = assign(epochs, epoch, offset)
    return epochs
