"""Predictions for transactions and consumer groups.

The model's specifications of both have no replication, so they decide only while no fault reaches
brokers or network links. If one does, requests may be late and written records may be lost: then no
anomaly is excluded.
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.scenario.commit import Commit
from ackproof.scenario.consumers import ConsumerGroup
from ackproof.scenario.model import Scenario
from ackproof_faults.effects import Client
from ackproof_model import Likelihood, consumer_groups, transactions
from ackproof_model.consumer_groups import OffsetBudgets, OffsetModel
from ackproof_model.transactions import TransactionBudgets, TransactionModel
from ackproof_spark.tables import Anomaly

#: Values of librdkafka's auto.offset.reset that make a group begin at the first record.
_EARLIEST = {"earliest", "smallest", "beginning"}

#: An anomaly, its prediction, and the reason.
ClientPrediction = tuple[Anomaly, Likelihood, str]


def predict_clients(scenario: Scenario) -> Iterator[ClientPrediction]:
    """Yield the predictions for a scenario's transactions and consumer groups, if it has any.

    The model must have a profile of the scenario's Kafka version.
    """
    if scenario.workload.transactions is not None:
        yield from _of_transactions(scenario)
    for name, group in scenario.workload.consumers.items():
        yield from _of_group(scenario, name, group)


def _of_transactions(scenario: Scenario) -> Iterator[ClientPrediction]:
    """Yield the predictions for transactions of librdkafka, which supports protocol 1 only.

    The search allows one perturbation at a time: a producer that is replaced by another one, a
    transaction that times out, or a late request.
    """
    spec = scenario.workload.transactions
    fault = next((one for one in scenario.every_fault if one.touches_brokers), None)
    if fault is not None:
        late = transactions.search(_question(scenario, delays=1), until=["aborted-read"])
        steps = len(late.traces["aborted-read"])
        yield (
            Anomaly.ABORTED_READ,
            Likelihood.POSSIBLE,
            f"{fault.name} may delay a request, which then ends the next transaction, in {steps} "
            "steps (KAFKA-17754)",
        )
        yield (
            Anomaly.ZOMBIE_COMMIT,
            Likelihood.POSSIBLE,
            f"{fault.name} may lose records of the coordinator, and the model of transactions has "
            "no replication",
        )
        return
    found = {
        anomaly: kind
        for kind in ("restarts", "timeouts")
        for anomaly in transactions.search(_question(scenario, **{kind: 1})).traces
    }
    for anomaly in (Anomaly.ABORTED_READ, Anomaly.ZOMBIE_COMMIT):
        if anomaly in found:
            yield anomaly, Likelihood.POSSIBLE, f"by {found[anomaly]}"
        elif anomaly is Anomaly.ZOMBIE_COMMIT and spec is not None and spec.successor == "new":
            yield (
                anomaly,
                Likelihood.POSSIBLE,
                "a successor with another transactional.id does not fence its predecessor, so "
                "that one can still commit",
            )
        else:
            yield (
                anomaly,
                Likelihood.IMPOSSIBLE,
                "the search finds no way to it while every request is answered, with one more "
                "producer or one transaction that times out",
            )


def _question(scenario: Scenario, **budgets: int) -> TransactionModel:
    """Return the question, for one partition: no way to these two anomalies needs more."""
    return TransactionModel(
        kafka_version=scenario.kafka,
        budgets=TransactionBudgets(partitions=1, **budgets),  # type: ignore[arg-type]
    )


def _of_group(scenario: Scenario, name: str, group: ConsumerGroup) -> Iterator[ClientPrediction]:
    """Yield the predictions for a group if one member is killed and one is removed from it."""
    fault = next((one for one in scenario.every_fault if one.touches_brokers), None)
    shared = group.via == "assign" and any(
        isinstance(effect, Client) and effect.role == "consumer"
        for fault in scenario.every_fault
        for effect in fault.effects
    )
    reset = group.settings.as_client_settings().get("auto.offset.reset", "earliest")
    question = OffsetModel(
        kafka_version=scenario.kafka,
        commit=Commit(group.commit).value,
        heedless=True,  # our consumers record a refused commit and go on
        reset="earliest" if reset in _EARLIEST else "latest",
        budgets=OffsetBudgets(crashes=1, rebalances=1),
    )
    found = consumer_groups.search(question)
    for anomaly in (Anomaly.UNPROCESSED, Anomaly.REPROCESSED):
        if fault is not None:
            why = (
                f"{fault.name} may lose committed offsets or records, and the model of groups has "
            )
            yield anomaly, Likelihood.POSSIBLE, f"{name}: {why}no replication"
        elif shared:
            yield (
                anomaly,
                Likelihood.POSSIBLE,
                f"{name}: two members may have the same partition",
            )
        elif anomaly in found.traces:
            way = found.traces[anomaly]
            why = f"offsets are committed {_commit_words(group)}: in {len(way)} steps, if a member "
            removed = any("thrown out" in label for label, _ in way)
            yield (
                anomaly,
                Likelihood.POSSIBLE,
                f"{name}: {why}is {'removed from the group' if removed else 'killed'}",
            )
        else:
            yield (
                anomaly,
                Likelihood.IMPOSSIBLE,
                f"{name}: offsets are committed {_commit_words(group)}, and the search finds no "
                "way to it with one member killed and one removed from the group",
            )


def _commit_words(group: ConsumerGroup) -> str:
    match group.commit:
        case Commit.BEFORE | Commit.AFTER:
            return f"{group.commit.value} processing"
        case Commit.AUTO:
            return "by a timer"
        case Commit.TRANSACTION:
            return "in a transaction"
    return "never"
