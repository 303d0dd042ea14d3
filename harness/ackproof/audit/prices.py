"""The prices of proposed changes: what stops after fewer failures, or from the start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, reduce

from ackproof.audit.answer import Decision, Effect
from ackproof.audit.availability import stop_verb, stopped_when, stopping
from ackproof.audit.change_effects import EFFECTS, Plan, after_all, after_change, different
from ackproof.audit.effective import (
    OFFSETS_TOPIC,
    of_internal,
    of_offsets_topic,
    offsets_replicas,
    refuses_commits,
)
from ackproof.audit.failure import Failures, covers
from ackproof.audit.replication import Replication
from ackproof.audit.setups import KAFKA, MINIMUM, REPLICAS, Setup
from ackproof.safer_settings import Change
from ackproof_model.kafka_settings import ACKS


def with_prices(changes: Iterable[Decision], setups: Iterable[Setup]) -> tuple[Decision, ...]:
    """Return proposed changes whose prices name what stops after fewer failures than before."""
    asked = tuple(setups)
    every = different(asked)
    return tuple(_with_groups(_with_price(one, every), asked) for one in changes)


def _with_groups(one: Decision, setups: Sequence[Setup]) -> Decision:
    """Return a change whose price names that no group can begin, as all topics have it."""
    minimum = dict([(one.setting, one.change), *one.others]).get(MINIMUM)
    if one.topic or minimum is None or not any(_ends_groups(each, minimum) for each in setups):
        return one
    text = f"while {OFFSETS_TOPIC} has fewer replicas and inherits it, no group can begin"
    stops = one.stops if Effect.READS_STOP in one.stops else (*one.stops, Effect.READS_STOP)
    return replace(one, cost="; ".join(filter(None, (one.cost, text))), stops=stops)


def _ends_groups(setup: Setup, minimum: str) -> bool:
    """Whether the offsets topic would have too few replicas for another minimum of all topics."""
    if of_internal(setup, OFFSETS_TOPIC, MINIMUM):
        return False
    present = of_offsets_topic(setup, MINIMUM)
    return any(
        refuses_commits(setup, replicas, replace(present, value=minimum))
        and not refuses_commits(setup, replicas, present)
        for replicas, _ in offsets_replicas(setup)
    )


def _with_price(one: Decision, every: tuple[Replication, ...]) -> Decision:
    pairs = [
        pair
        for pair in ((one.setting, one.change), *one.others)
        if not one.topic or pair[0] == KAFKA  # the rest changes another topic only
    ]
    plan = tuple(
        Change(setting=name, value=value, cost="")
        for setting, value in pairs
        if (name := ACKS if setting.endswith(f".{ACKS}") else setting) in EFFECTS
    )
    refused = _nothing_acked(every, plan)
    sooner = [
        (effect, failures)
        for effect in (Effect.WRITES_STOP, Effect.READS_STOP)
        if effect not in one.stops and (failures := _stops_sooner(every, plan, effect))
    ]
    texts = [
        *[f"with {REPLICAS}={' or '.join(map(str, refused))} no send is acked"] * bool(refused),
        *(f"{stop_verb(effect)} {stopped_when(failures)}" for effect, failures in sooner),
    ]
    stopped = (*[Effect.WRITES_STOP] * bool(refused), *(effect for effect, _ in sooner))
    return replace(
        one,
        cost="; ".join(filter(None, (one.cost, *texts))),
        stops=tuple(dict.fromkeys((*one.stops, *stopped))),
    )


@cache
def _nothing_acked(every: tuple[Replication, ...], plan: Plan) -> tuple[int, ...]:
    """Return the numbers of replicas with which sends are acked only before some changes."""
    return tuple(
        sorted(
            {
                one.replicas
                for one in every
                if reduce(_made, plan, one).never_acked and not one.never_acked
            }
        )
    )


def _made(one: Replication, change: Change) -> Replication:
    """Return the settings with a change, also with a minimum that exceeds the replicas."""
    if change.setting == MINIMUM:
        return replace(one, min_insync_replicas=int(change.value))
    return after_change(one, change)


@cache
def _stops_sooner(every: tuple[Replication, ...], plan: Plan, effect: Effect) -> Failures:
    """Return the fewest failures that stop writes or reads after some changes, not before."""
    new = [
        failures
        for one in every
        for failures in stopping(after_all(one, plan), effect)
        if not any(covers(before, failures) for before in stopping(one, effect))
    ]
    return min(new, key=len, default=())
