"""Predictions for the transactions of producers and of forwarding consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ackproof.prediction.clients import (
    IN_ALL,
    ClientPrediction,
    client_effects,
    disturbances,
    in_words,
)
from ackproof.scenario.client import ClientLibrary
from ackproof.scenario.model import Scenario
from ackproof.scenario.topics import TRANSACTIONS
from ackproof_model import Likelihood, transactions
from ackproof_model.breadth_first import SearchResult
from ackproof_model.effects import Disturbance
from ackproof_model.transactions import (
    TransactionBudgets,
    TransactionModel,
)
from ackproof_model.transactions.state import State
from ackproof_spark.anomaly import Anomaly

#: Sources of the effects of a late request, if not KAFKA-17754.
_LATE_REQUEST = {"hanging": "KIP-890"}

_VERIFICATION = "transaction.partition.verification.enable"

Search = SearchResult[str, State]

_LATE = {
    "add": Disturbance.LATE_ADD,
    "produce": Disturbance.LATE_PRODUCE,
    "end": Disturbance.LATE_END,
}

_WORDS = {
    "delays": "a late request",
    "unanswered": "a request without a response",
    "marker_delays": "a late marker",
    "restarts": "a second producer",
    "timeouts": "a transaction that times out",
    "failovers": "a failover of the coordinator",
    "coordinator_losses": "records that the coordinator's partition loses",
    "log_losses": "records that the partition loses",
    "outages": "a partition without a leader",
}


def predict(
    scenario: Scenario,
    may_lose: Callable[[str], bool],
    may_lack_leader: Callable[[str], bool],
) -> Iterator[ClientPrediction]:
    settings = scenario.workload.client_settings
    disturbed = disturbances(scenario, scenario.workload.client, settings)
    model, causes = question(
        scenario,
        disturbed,
        client=scenario.workload.client,
        topics=[scenario.workload.topic],
        successors=_has_successors(scenario),
        may_lose=may_lose,
        may_lack_leader=may_lack_leader,
    )
    # These need two partitions (scenarios/catalogue, B13 and B15), and the search has one.
    for kind, refused, source in (
        (Disturbance.LATE_END, model.bumps, "KAFKA-17754"),
        (Disturbance.LATE_MARKER, model.strict, "KIP-1228"),
    ):
        if kind in disturbed and not refused:
            yield (
                Anomaly.LOST,
                Likelihood.POSSIBLE,
                f"{disturbed[kind]}: a late abort may end the beginning of the next transaction, "
                f"which then commits without it ({source})",
            )
    uncommitted = [
        name
        for name, group in scenario.workload.consumers.items()
        if group.isolation_level == "read_uncommitted"
    ]
    zombies = _has_living_predecessors(scenario)
    searched = transactions.search(
        model, until=["aborted-read", "hanging", "unmarked", *["zombie-commit"] * zombies]
    )
    if "unmarked" in searched.traces:
        _, reason = answer("unmarked", model, searched, causes)
        yield (
            Anomaly.LOST,
            Likelihood.POSSIBLE,
            f"a committed transaction stays open, and an operator can only abort it: {reason}",
        )
    if uncommitted:
        reason = (
            f"{uncommitted[0]} reads with read_uncommitted: whatever of a transaction is aborted"
        )
        yield Anomaly.ABORTED_READ, Likelihood.POSSIBLE, reason
        yield Anomaly.READ_THEN_GONE, Likelihood.POSSIBLE, reason
    else:
        yield (Anomaly.ABORTED_READ, *answer("aborted-read", model, searched, causes))
    spec = scenario.workload.transactions
    if not zombies:
        reason = "no producer still runs when it has a successor"
        yield Anomaly.ZOMBIE_COMMIT, Likelihood.IMPOSSIBLE, reason
    elif spec is not None and spec.successor == "new":
        reason = (
            "a successor with another transactional.id does not fence its predecessor, so that one "
            "can still commit"
        )
        yield Anomaly.ZOMBIE_COMMIT, Likelihood.POSSIBLE, reason
    else:
        yield (Anomaly.ZOMBIE_COMMIT, *answer("zombie-commit", model, searched, causes))
    yield (Anomaly.HANGING_TRANSACTION, *answer("hanging", model, searched, causes))


def question(
    scenario: Scenario,
    disturbed: Mapping[Disturbance, str],
    *,
    client: ClientLibrary,
    topics: list[str],
    successors: bool,
    may_lose: Callable[[str], bool],
    may_lack_leader: Callable[[str], bool],
) -> tuple[TransactionModel, Mapping[str, str]]:
    """Return the model of transactions that write to `topics`, and the fault that causes each kind.

    The model has one partition, which suffices for these anomalies. A late request includes a
    request without a response.
    """
    late = tuple(kind for kind, one in _LATE.items() if one in disturbed)
    causes = {
        "delays": next((disturbed[_LATE[kind]] for kind in reversed(late)), ""),
        "unanswered": disturbed.get(Disturbance.UNANSWERED, ""),
        "marker_delays": disturbed.get(Disturbance.LATE_MARKER, ""),
        "failovers": disturbed.get(Disturbance.MOVES, ""),
        "outages": disturbed.get(Disturbance.MOVES, ""),
    }
    faulted = any(fault.touches_brokers for fault in scenario.every_fault)
    model = TransactionModel(
        kafka_version=scenario.kafka,
        protocol=scenario.transaction_protocol(client),
        budgets=TransactionBudgets(
            partitions=1,
            delays=int(bool(late)),
            delayed=late,  # type: ignore[arg-type]
            unanswered=int(bool(causes["unanswered"]) and not late),
            marker_delays=int(bool(causes["marker_delays"])),
            restarts=int(successors),
            timeouts=1,
            failovers=int(bool(causes["failovers"])),
            coordinator_losses=int(faulted and may_lose(TRANSACTIONS)),
            log_losses=int(faulted and any(map(may_lose, topics))),
            outages=int(faulted and any(map(may_lack_leader, topics))),
            in_all=IN_ALL,
        ),
        verification=_verification(scenario),
    )
    return model, causes


def answer(
    anomaly: str, model: TransactionModel, searched: Search, causes: Mapping[str, str]
) -> tuple[Likelihood, str]:
    if anomaly in searched.traces:
        trace = searched.traces[anomaly]
        kinds = model.budgets.spent(trace[-1][1].left)
        known = f"; {_LATE_REQUEST.get(anomaly, 'KAFKA-17754')}" if kinds == ["delays"] else ""
        known = "; KAFKA-20734" if "outages" in kinds else known
        reason = f"in {len(trace)} steps, by {in_words(kinds, _WORDS, causes)}{known}"
        return Likelihood.POSSIBLE, reason
    if not searched.complete:
        return Likelihood.POSSIBLE, f"not decided within {searched.states} states"
    kinds = model.budgets.allowed
    return (
        Likelihood.IMPOSSIBLE,
        f"the search finds no way to it by {in_words(kinds, _WORDS, causes)}, at most {IN_ALL} of "
        "them",
    )


def _verification(scenario: Scenario) -> bool:
    """Whether brokers verify transactions with the coordinator (KIP-890 part 1)."""
    return str(scenario.cluster.settings.get(_VERIFICATION, True)).lower() != "false"


def _has_successors(scenario: Scenario) -> bool:
    spec = scenario.workload.transactions
    interrupted = spec is not None and (spec.crash_in is not None or spec.zombie_in is not None)
    return interrupted or any(
        effect.action == "ends" or effect.successor
        for effect, _ in client_effects(scenario, "producer")
    )


def _has_living_predecessors(scenario: Scenario) -> bool:
    """Whether a producer may continue after its successor has begun."""
    spec = scenario.workload.transactions
    waits = spec is not None and spec.zombie_in is not None
    return waits or any(effect.successor for effect, _ in client_effects(scenario, "producer"))
