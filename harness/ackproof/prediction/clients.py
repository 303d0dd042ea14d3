"""Asks the reference model what transactions and groups of consumers may come to, before a run.

Its specifications of these have no replication: they answer as long as no fault reaches brokers or
links. Where one does, a request may be late and what was written be lost, so nothing is excluded.
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof.scenario.commit import Commit
from ackproof.scenario.consumers import ConsumerGroup
from ackproof.scenario.model import Scenario
from ackproof_faults import Fault
from ackproof_faults.clients._client_fault import ClientFault
from ackproof_model import Outlook, consumer_groups, transactions
from ackproof_model.consumer_groups import OffsetBudgets, OffsetQuestion
from ackproof_model.transactions import TransactionBudgets, TransactionQuestion
from ackproof_spark.tables import Anomaly

#: librdkafka's words for a group that begins at the first record.
_EARLIEST = {"earliest", "smallest", "beginning"}

#: An anomaly, what is foreseen of it, and why.
Foreseen = tuple[Anomaly, Outlook, str]


def of_clients(scenario: Scenario) -> Iterator[Foreseen]:
    """Yield what may come of a scenario's transactions and groups; nothing if it has none.

    The version must be one that the model has a profile of.
    """
    if scenario.workload.transactions is not None:
        yield from _of_transactions(scenario)
    for name, group in scenario.workload.consumers.items():
        yield from _of_group(scenario, name, group)


def _reaches_brokers(fault: Fault) -> bool:
    return not isinstance(fault, ClientFault) and fault.name != "none"


def _of_transactions(scenario: Scenario) -> Iterator[Foreseen]:
    """Yield what may come of transactions of librdkafka, which speaks their first protocol only.

    What is searched is one perturbation at a time: a producer that another one succeeds, a
    transaction that times out, a late request.
    """
    wanted = scenario.workload.transactions
    struck = next(filter(_reaches_brokers, scenario.every_fault), None)
    if struck is not None:
        late = transactions.search(_question(scenario, delays=1), wanted=["aborted-read"])
        steps = len(late.ways["aborted-read"])
        yield (
            Anomaly.ABORTED_READ,
            Outlook.POSSIBLE,
            f"{struck.name} may make a request late, which ends the next transaction, in {steps} "
            "steps (KAFKA-17754)",
        )
        yield (
            Anomaly.ZOMBIE_COMMIT,
            Outlook.POSSIBLE,
            f"{struck.name} may take what the coordinator wrote, and the model of transactions has "
            "no replication",
        )
        return
    found = {
        anomaly: kind
        for kind in ("restarts", "timeouts")
        for anomaly in transactions.search(_question(scenario, **{kind: 1})).ways
    }
    for anomaly in (Anomaly.ABORTED_READ, Anomaly.ZOMBIE_COMMIT):
        if anomaly in found:
            yield anomaly, Outlook.POSSIBLE, f"by {found[anomaly]}"
        elif anomaly is Anomaly.ZOMBIE_COMMIT and wanted is not None and wanted.successor == "new":
            yield (
                anomaly,
                Outlook.POSSIBLE,
                "nothing keeps a producer from committing whose successor has another "
                "transactional.id",
            )
        else:
            yield (
                anomaly,
                Outlook.IMPOSSIBLE,
                "no way leads to it while every request is answered, with one more producer, or "
                "one transaction that times out",
            )


def _question(scenario: Scenario, **budgets: int) -> TransactionQuestion:
    """Return what is asked: of one partition, since no way to these two anomalies needs more."""
    return TransactionQuestion(
        kafka_version=scenario.kafka, budgets=TransactionBudgets(partitions=1, **budgets)
    )


def _of_group(scenario: Scenario, name: str, group: ConsumerGroup) -> Iterator[Foreseen]:
    """Yield what may come of a group, one of whose members is killed and one thrown out."""
    struck = next(filter(_reaches_brokers, scenario.every_fault), None)
    shared = group.via == "assign" and any(
        isinstance(fault, ClientFault) and fault.client.startswith("consumer")
        for fault in scenario.every_fault
    )
    reset = group.settings.as_client_settings().get("auto.offset.reset", "earliest")
    question = OffsetQuestion(
        kafka_version=scenario.kafka,
        commit=Commit(group.commit).value,
        heedless=True,  # a commit that is refused is recorded, and that is all
        reset="earliest" if reset in _EARLIEST else "latest",
        budgets=OffsetBudgets(crashes=1, rebalances=1),
    )
    found = consumer_groups.search(question)
    for anomaly in (Anomaly.UNPROCESSED, Anomaly.REPROCESSED):
        if struck is not None:
            why = f"{struck.name} may take what was committed or consumed, and the model of groups "
            yield anomaly, Outlook.POSSIBLE, f"{name}: {why}has no replication"
        elif shared:
            yield anomaly, Outlook.POSSIBLE, f"{name}: two members may have one partition"
        elif anomaly in found.ways:
            way = found.ways[anomaly]
            why = f"offsets are committed {_told(group)}: in {len(way)} steps, by way of a member "
            out = any("thrown out" in label for label, _ in way)
            yield (
                anomaly,
                Outlook.POSSIBLE,
                f"{name}: {why}that is {'thrown out' if out else 'killed'}",
            )
        else:
            yield (
                anomaly,
                Outlook.IMPOSSIBLE,
                f"{name}: offsets are committed {_told(group)}, and no way leads to it with one "
                "member killed and one thrown out",
            )


def _told(group: ConsumerGroup) -> str:
    match group.commit:
        case Commit.BEFORE | Commit.AFTER:
            return f"{group.commit.value} processing"
        case Commit.AUTO:
            return "by a timer"
        case Commit.TRANSACTION:
            return "in a transaction"
    return "never"
