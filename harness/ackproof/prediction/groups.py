"""Predictions for consumer groups: which records are never processed, or processed twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ackproof.prediction import transactions as of_transactions
from ackproof.prediction.clients import (
    IN_ALL,
    ClientPrediction,
    client_effects,
    disturbances,
    in_words,
)
from ackproof.prediction.resets import by_resets
from ackproof.scenario.librdkafka import EARLIEST
from ackproof.scenario.model import Scenario
from ackproof.scenario.topics import OFFSETS
from ackproof.scenario.types import FORWARDING_TIMEOUT_MS, Commit
from ackproof.scenario.workload import ConsumerGroup
from ackproof_model import Likelihood, Profile, consumer_groups, transactions
from ackproof_model.consumer_groups import OffsetBudgets, OffsetModel
from ackproof_model.effects import Disturbance
from ackproof_model.kafka_settings import AUTO_OFFSET_RESET, REQUEST_TIMEOUT_MS
from ackproof_spark.anomaly import Anomaly

#: For each anomaly of forwarded records, the anomaly of a transaction that leads to it.
_OF_TRANSACTIONS = {Anomaly.UNPROCESSED: "lost", Anomaly.REPROCESSED: "aborted-read"}

_WORDS = {
    "crashes": "the end of a member",
    "rebalances": "a member that is removed from the group",
    "delays": "a late commit",
    "failed_commits": "a commit that fails",
    "failed_effects": "a forwarded record without an ack",
    "stale_fetches": "committed offsets from a deposed coordinator",
    "offset_losses": "committed offsets that the coordinator's partition loses",
    "log_losses": "readable records that the partition loses",
}

_Answer = tuple[Likelihood, str]


def predict(
    scenario: Scenario,
    name: str,
    group: ConsumerGroup,
    *,
    may_lose: Callable[[str], bool],
    may_lose_visible: Callable[[], bool],
    may_lack_leader: Callable[[str], bool],
) -> Iterator[ClientPrediction]:
    settings = group.settings.as_client_settings()
    disturbed = disturbances(scenario, group.client, settings)
    model, causes = _question(scenario, group, disturbed, may_lose, may_lose_visible)
    answers = [_by_offsets(scenario, group, model, causes)]
    if _shared(scenario, group):
        both = Likelihood.POSSIBLE, "two members may have the same partition"
        answers.append(dict.fromkeys(_OF_TRANSACTIONS, both))
    if skips := _skips_added(scenario, group):
        answers.insert(0, {Anomaly.UNPROCESSED: (Likelihood.POSSIBLE, skips)})
    if group.into and (faults := _of_brokers(scenario)):
        answers.append(_by_outputs(scenario, group, may_lose, may_lack_leader, faults))
    begins = "earliest" if _from_earliest(group) else "latest"
    answers.append(by_resets(scenario, name, begins=begins, skipped=[Anomaly.UNPROCESSED]))
    for anomaly in dict.fromkeys(anomaly for one in answers for anomaly in one):
        likelihood, reason = max(
            (one[anomaly] for one in answers if anomaly in one),
            key=lambda answer: list(Likelihood).index(answer[0]),
        )
        yield anomaly, likelihood, f"{name}: {reason}"


def _question(
    scenario: Scenario,
    group: ConsumerGroup,
    disturbed: Mapping[Disturbance, str],
    may_lose: Callable[[str], bool],
    may_lose_visible: Callable[[], bool],
) -> tuple[OffsetModel, Mapping[str, str]]:
    """Return the model of the group's offsets, and the fault that causes each perturbation.

    A group that subscribes may remove a member without a fault.
    """
    faults = _of_brokers(scenario)
    causes = {
        "crashes": _cause(scenario, "ends"),
        "delays": disturbed.get(Disturbance.LATE_OFFSETS, ""),
        "failed_commits": disturbed.get(Disturbance.UNANSWERED, ""),
        "offset_losses": _of_lost_offsets(scenario, disturbed, may_lose),
    }
    if group.via == "assign":  # members that subscribe ask the coordinator that they joined
        causes["stale_fetches"] = disturbed.get(Disturbance.DEPOSED, "")
    forwards = group.into and group.commit is not Commit.TRANSACTION
    model = OffsetModel(
        kafka_version=scenario.kafka,
        commit=group.commits.value,
        continues_after_refused_commit=True,  # as our consumers do
        reset="earliest" if _from_earliest(group) else "latest",
        killed_in_poll=group.crash_after is not None,
        budgets=OffsetBudgets(
            **{kind: int(bool(cause)) for kind, cause in causes.items()},
            rebalances=int(group.via == "subscribe"),
            failed_effects=int(bool(forwards and causes["failed_commits"])),
            log_losses=int(bool(faults) and may_lose_visible()),
            in_all=IN_ALL,
        ),
    )
    return model, causes


def _by_offsets(
    scenario: Scenario, group: ConsumerGroup, model: OffsetModel, causes: Mapping[str, str]
) -> dict[Anomaly, _Answer]:
    decided = (
        model.killed_in_poll
        and model.reset == "earliest"
        and not (group.into and _of_brokers(scenario))
    )
    searched = consumer_groups.search(model, until=consumer_groups.ANOMALIES, certain=decided)
    committed = f"offsets are committed {_commit_words(group)}"
    killed = ["a member killed while it processes a poll"] if model.killed_in_poll else []
    answers: dict[Anomaly, _Answer] = {}
    for anomaly in _OF_TRANSACTIONS:
        if anomaly in searched.certain:
            reason = f"{committed}, and a member is killed while it processes a poll: every order"
            steps = len(searched.traces[anomaly])
            answers[anomaly] = Likelihood.CERTAIN, f"{reason} leads to it, in {steps} steps"
        elif anomaly in searched.traces:
            trace = searched.traces[anomaly]
            kinds = model.budgets.spent(trace[-1][1].left)
            by = " and ".join([*killed, *filter(None, [in_words(kinds, _WORDS, causes)])])
            reason = f"{committed}: in {len(trace)} steps, by {by}" if by else committed
            answers[anomaly] = Likelihood.POSSIBLE, reason
        elif not searched.complete:
            answers[anomaly] = Likelihood.POSSIBLE, f"not decided within {searched.states} states"
        else:
            kinds = model.budgets.allowed
            by = " and ".join([*killed, *filter(None, [in_words(kinds, _WORDS, causes)])])
            reason = f"{committed}, and the search finds no way to it"
            if by:
                reason += f" by {by}, at most {IN_ALL} of them"
            answers[anomaly] = Likelihood.IMPOSSIBLE, reason
    return answers


def _by_outputs(
    scenario: Scenario,
    group: ConsumerGroup,
    may_lose: Callable[[str], bool],
    may_lack_leader: Callable[[str], bool],
    fault: str,
) -> dict[Anomaly, _Answer]:
    """Return the predictions from lost or aborted forwarded records."""
    answers: dict[Anomaly, _Answer] = {}
    for topic in group.into:
        if may_lose(topic):
            reason = f"{topic} may lose forwarded records ({fault})"
            answers[Anomaly.UNPROCESSED] = Likelihood.POSSIBLE, reason
    if group.commit is not Commit.TRANSACTION:
        return answers
    model, causes = of_transactions.question(
        scenario,
        disturbances(scenario, group.client, {REQUEST_TIMEOUT_MS: FORWARDING_TIMEOUT_MS}),
        client=group.client,
        topics=[*group.into, OFFSETS],
        successors=group.crash_after is not None or bool(_cause(scenario, "ends")),
        may_lose=may_lose,
        may_lack_leader=may_lack_leader,
    )
    searched = transactions.search(model, until=list(_OF_TRANSACTIONS.values()))
    for anomaly, kind in _OF_TRANSACTIONS.items():
        likelihood, reason = of_transactions.answer(kind, model, searched, causes)
        if likelihood is not Likelihood.IMPOSSIBLE:
            what = (
                "a committed transaction loses records"
                if kind == "lost"
                else "records of an aborted transaction can be read"
            )
            answers.setdefault(anomaly, (likelihood, f"{what}: {reason}"))
    return answers


def _from_earliest(group: ConsumerGroup) -> bool:
    reset = group.settings.as_client_settings().get(AUTO_OFFSET_RESET, "earliest")
    return reset in EARLIEST


def _skips_added(scenario: Scenario, group: ConsumerGroup) -> str:
    """Return why a group may skip records of partitions that a fault adds; '' if it does not."""
    if not scenario.later_partitions(scenario.workload.topic):
        return ""
    if group.via == "assign":
        return "its members never get the partitions that add_partitions adds"
    if _from_earliest(group):
        return ""
    return (
        "with auto.offset.reset=latest it skips what is written to a partition that add_partitions "
        "adds before it gets that partition (KAFKA-12261)"
    )


def _shared(scenario: Scenario, group: ConsumerGroup) -> bool:
    """Whether a member without a session may continue beside its successor."""
    return group.via == "assign" and any(
        effect.successor for effect, _ in client_effects(scenario, "consumer")
    )


def _cause(scenario: Scenario, action: str) -> str:
    effects = client_effects(scenario, "consumer")
    return next((fault for effect, fault in effects if effect.action == action), "")


def _of_brokers(scenario: Scenario) -> str:
    """Return the name of the first fault that touches brokers, or ''."""
    return next((one.name for one in scenario.every_fault if one.touches_brokers), "")


def _of_lost_offsets(
    scenario: Scenario,
    disturbed: Mapping[Disturbance, str],
    may_lose: Callable[[str], bool],
) -> str:
    """Return the fault by which acked commits may be lost, or ''."""
    if (fault := _of_brokers(scenario)) and may_lose(OFFSETS):
        return fault
    moves = disturbed.get(Disturbance.MOVES, "")
    truncates = moves and Profile.of(scenario.kafka).acks_truncated_commits
    return f"{moves}; KAFKA-20634" if truncates else ""


def _commit_words(group: ConsumerGroup) -> str:
    match group.commit:
        case Commit.BEFORE | Commit.AFTER:
            return f"{group.commit.value} processing"
        case Commit.AUTO:
            return "by a timer"
        case Commit.TRANSACTION:
            return "in a transaction"
    return "never"
