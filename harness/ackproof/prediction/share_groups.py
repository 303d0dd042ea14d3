"""Predictions for share groups: which records are never got, given up, or got and processed twice.

Each word with which the group acknowledges is searched apart (`ackproof_model.share_groups`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from ackproof.prediction.clients import MARGIN_S, ClientPrediction, in_words
from ackproof.prediction.resets import by_resets
from ackproof.scenario.model import Scenario
from ackproof.scenario.removal import removed_by
from ackproof.scenario.share_groups import (
    AUTO_OFFSET_RESET,
    LOCK_DURATION,
    SESSION_TIMEOUT,
    TAKES_DEAD_LETTERS,
)
from ackproof.scenario.topics import OFFSETS, SHARES
from ackproof.scenario.workload import ConsumerGroup
from ackproof_faults.schedule.blocks import plain
from ackproof_model import Likelihood, share_groups
from ackproof_model.effects import AddsPartitions, Client, SetsOffsets
from ackproof_model.kafka_settings import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE
from ackproof_model.share_groups import ShareModel
from ackproof_spark.anomaly import OF_CLIENTS, OF_SHARE_GROUPS, Anomaly

_WORDS = {
    "slow": "a lock that expires",
    "crashes": "a member that ends",
    "leader_moves": "another leader of the share partition",
    "unstored": "a state that cannot be stored",
    "state_losses": "a shorter __share_group_state",
    "log_losses": "readable records that the partition loses",
}

#: Without a number of crashes and expired locks, more deliveries lead to nothing else.
_DELIVERIES = 3
#: Beyond that many states an anomaly is possible; a search takes seconds.
_MAX_STATES = 20_000

_RESETS: tuple[Literal["earliest", "latest"], ...] = ("earliest", "latest")

#: Effects that delay no acknowledgement and move no leader.
_OF_NO_BROKER = (Client, AddsPartitions, SetsOffsets)

#: What a record may be over which a reset of the group's offsets passes: it was got before, or not.
_SKIPPED = (Anomaly.UNDELIVERED, Anomaly.ARCHIVED_UNPROCESSED, Anomaly.DEAD_LETTER_MISSING)

#: What a record may be that a group got before it began anew.
_AGAIN = (
    Anomaly.DELIVERED_AFTER_ACCEPT,
    Anomaly.OVER_DELIVERED,
    Anomaly.REDELIVERED,
    Anomaly.REPROCESSED,
)

#: The settings with which a topic keeps all dead letters, unless a fault hits it.
_KEEPING = {TAKES_DEAD_LETTERS, MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE}

#: How likely an anomaly is, and why.
_Answer = tuple[Likelihood, str]

_NO_ORDER = (Likelihood.POSSIBLE, "a share group gives out records in no order (KIP-932)")


def predict(
    scenario: Scenario,
    name: str,
    group: ConsumerGroup,
    *,
    may_lose: Callable[[str], bool],
    may_lose_visible: Callable[[], bool],
) -> Iterator[ClientPrediction]:
    """Yield the predictions of a share group."""
    own_reset = group.share_settings[AUTO_OFFSET_RESET]
    most, causes = _disturbed(scenario, group, may_lose, may_lose_visible)
    own = sum(most.get(kind, 0) for kind in ("slow", "crashes"))
    least = _DELIVERIES if math.isinf(own) else int(own) + _DELIVERIES
    of_words = [
        ShareModel(
            kafka_version=scenario.kafka,
            word=word,
            limit=min(scenario.delivery_limit(name), least),
            reset=reset,
            added=added,
            letters_fail=_letters_fail(scenario, name),
            most=most,
        )
        for word in _said(group)
        # Once a group's first write is stored, it is as if it had begun at earliest.
        for reset in _RESETS[: 1 if own_reset == "earliest" else 2]
        for added in {False, bool(scenario.later_partitions(scenario.workload.topic))}
    ]
    answers = [_answers(model, causes) for model in of_words]
    skipped = [one for one in _SKIPPED if one not in inapplicable(scenario)]
    resets = by_resets(scenario, name, begins=str(own_reset), skipped=skipped)
    answers.append({str(anomaly): answer for anomaly, answer in resets.items()})
    answers.append({str(Anomaly.UNORDERED): _NO_ORDER})
    if (by_fault := _of_brokers(scenario)) and may_lose(OFFSETS):
        answers.append(_anew(by_fault, str(own_reset)))
    if head := [one for one in removed_by(scenario, scenario.workload.topic) if one.of_head]:
        reason = f"{head[0].reason}, for which the model of share groups has no rule"
        answers.append(dict.fromkeys(share_groups.ANOMALIES, (Likelihood.POSSIBLE, reason)))
    shown = {str(one) for one in OF_CLIENTS if one not in inapplicable(scenario)}
    for anomaly in dict.fromkeys(one for answer in answers for one in answer if one in shown):
        likelihood, reason = max(
            (one[anomaly] for one in answers if anomaly in one),
            key=lambda answer: list(Likelihood).index(answer[0]),
        )
        yield Anomaly(anomaly), likelihood, f"{name}: {reason}"


def inapplicable(scenario: Scenario) -> list[Anomaly]:
    """Return the anomalies that the scenario's share groups cannot show."""
    if not scenario.share_groups:
        return list(OF_SHARE_GROUPS)
    absent = [] if scenario.workload.keys is not None else [Anomaly.UNORDERED]
    if not any(map(scenario.dead_letters, scenario.share_groups)):
        absent.append(Anomaly.DEAD_LETTER_MISSING)
    return absent


def _said(group: ConsumerGroup) -> tuple[str, ...]:
    """Return the words of the search. A record whose lock was renewed is accepted in the end."""
    if group.is_own:
        return (share_groups.ANY,)
    words = ("accept",) if group.acknowledge == "implicit" else group.acknowledge
    return tuple(dict.fromkeys("accept" if word == "renew" else word for word in words))


def _letters_fail(scenario: Scenario, name: str) -> bool:
    """Whether a dead letter may be missing: its topic may refuse it, or not keep it."""
    topic = scenario.dead_letters(name)
    if topic is None:
        return False
    spec = scenario.topics[topic]
    few = spec.min_insync_replicas > spec.replication_factor
    return bool(_of_brokers(scenario)) or few or not spec.settings.keys() <= _KEEPING


def _anew(fault: str, reset: str) -> dict[str, _Answer]:
    """Return what becomes possible if `__consumer_offsets` loses the group, which begins anew."""
    shown = (*(_AGAIN if reset != "latest" else ()), *(_SKIPPED if reset != "earliest" else ()))
    reason = f"{OFFSETS} may lose the group by {fault}, which then begins at {reset} again"
    return dict.fromkeys(map(str, shown), (Likelihood.POSSIBLE, reason))


def _answers(model: ShareModel, causes: Mapping[str, str]) -> dict[str, _Answer]:
    found = share_groups.search(model, until=share_groups.ANOMALIES, max_states=_MAX_STATES)
    by = in_words(model.most, _WORDS, causes)
    what = f"a record that is {_PAST[model.word]}" + (", in an added partition" * model.added)
    answers: dict[str, _Answer] = {}
    for anomaly in share_groups.ANOMALIES:
        if anomaly in found.traces:
            steps = [label for label, _ in found.traces[anomaly]]
            how = f"in {len(steps)} steps, the last: {steps[-1]}" if steps else "from the start"
            answers[anomaly] = Likelihood.POSSIBLE, f"{what}, {how}"
        elif not found.complete:
            reason = f"{what}: not decided within {found.states} states"
            answers[anomaly] = Likelihood.POSSIBLE, reason
        else:
            reason = "the search finds no way to it" + (f" by {by}" if by else "")
            answers[anomaly] = Likelihood.IMPOSSIBLE, reason
    return answers


_PAST = {
    "accept": "accepted",
    "release": "released",
    "reject": "rejected",
    share_groups.ANY: "acknowledged as your program likes",
}


def _disturbed(
    scenario: Scenario,
    group: ConsumerGroup,
    may_lose: Callable[[str], bool],
    may_lose_visible: Callable[[], bool],
) -> tuple[Mapping[str, float], Mapping[str, str]]:
    """Return how often each kind of disturbance happens at most, and the fault that causes it.

    A fault on brokers, or on requests, may delay acknowledgements and move leaders as often as it
    likes. A fault that is not repeated hits a record once.
    """
    by_fault = _of_brokers(scenario)
    causes = dict.fromkeys(("slow", "leader_moves", "unstored"), by_fault) if by_fault else {}
    if group.is_own:
        causes |= dict.fromkeys(("slow", "crashes"), "your program")
    most = dict.fromkeys(causes, math.inf)
    once = 1 if plain(scenario.faults) else math.inf
    if group.crash_after is not None:
        most["crashes"], causes["crashes"] = 1, "crash_after"
    for fault in scenario.every_fault:
        for effect in fault.effects:
            if isinstance(effect, Client) and effect.role == "consumer":
                for kind in _kinds(scenario, group, effect, fault.heal_after):
                    most[kind] = most.get(kind, 0) + (math.inf if kind == "slow" else once)
                    causes.setdefault(kind, fault.name)
    if _seconds(scenario, group, LOCK_DURATION) <= MARGIN_S:
        most["slow"] = math.inf
        causes.setdefault("slow", "")
    if by_fault and may_lose(SHARES):
        most["state_losses"], causes["state_losses"] = 1, by_fault
    if by_fault and may_lose_visible():
        most["log_losses"], causes["log_losses"] = 1, by_fault
    return most, causes


def _of_brokers(scenario: Scenario) -> str:
    """Return the first fault on brokers or requests; '' if there is none."""
    return next(
        (
            fault.name
            for fault in scenario.every_fault
            if not all(isinstance(one, _OF_NO_BROKER) for one in fault.effects)
        ),
        "",
    )


def _kinds(
    scenario: Scenario, group: ConsumerGroup, effect: Client, lasts: float | None
) -> Iterator[str]:
    """Yield the disturbances by a client that misbehaves."""
    if effect.action == "ends":
        yield "crashes"
    busy, patience = lasts, _seconds(scenario, group, LOCK_DURATION)
    if effect.action == "slows":
        busy = effect.by
    else:  # it sends no heartbeats either
        patience = min(patience, _seconds(scenario, group, SESSION_TIMEOUT))
    if effect.action in {"slows", "stalls"} and (busy is None or busy + MARGIN_S > patience):
        yield "slow"


#: The defaults of brokers, in milliseconds.
_DEFAULTS = {LOCK_DURATION: 30_000, SESSION_TIMEOUT: 45_000}


def _seconds(scenario: Scenario, group: ConsumerGroup, key: str) -> float:
    of_brokers = scenario.cluster.settings.get(f"group.{key}", _DEFAULTS[key])
    return float(str(group.group_settings.get(key, of_brokers))) / 1000
