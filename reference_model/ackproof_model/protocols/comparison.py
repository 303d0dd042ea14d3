"""ISR replication against majority quorums: which failures each survives, and the cost of an ack.

The published comparison: to survive f failures, in-sync replicas need f+1 copies and a majority
quorum 2f+1. Each row is searched within its failures (`adversary`, `quorum`), and checked for
whether records are still acked while f brokers are down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ackproof_model.adversary import AdversaryModel, Budgets, search
from ackproof_model.planning import Operation, OperationKind, carried_out
from ackproof_model.protocols import quorum
from ackproof_model.protocols.quorum import QuorumModel

#: Limit of each search; a row that takes more is undecided.
MAX_STATES = 150_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """A replication protocol.

    copies: all replicas. min_insync_replicas: None for a majority quorum. fsync: a quorum's voters
    fsync before they answer.
    """

    copies: int
    min_insync_replicas: int | None
    fsync: bool = False

    @property
    def name(self) -> str:
        if self.min_insync_replicas is None:
            return f"majority of {self.copies}, {'fsynced' if self.fsync else 'not fsynced'}"
        return f"ISR of {self.copies}, min.insync.replicas={self.min_insync_replicas}"

    @property
    def acked_by(self) -> str:
        """The replicas that hold a record when it is acked, in words."""
        if self.min_insync_replicas is None:
            return f"any {self.copies // 2 + 1} of {self.copies}"
        return f"all in sync, {self.min_insync_replicas} to {self.copies}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """How many brokers fail by SIGKILL and by power loss, and how often followers lag."""

    kills: int = 0
    power_losses: int = 0
    lags: int = 0

    @property
    def name(self) -> str:
        what = [
            f"{count} {kind}"
            for kind, count in (("SIGKILL", self.kills), ("power loss", self.power_losses))
            if count
        ]
        return " and ".join([*what, *([f"{self.lags} lag"] if self.lags else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A protocol for f failures.

    writable: whether it still acks while f brokers are down. lost: by `Failures.name`, whether
    records can be lost; None if the search ended early.
    """

    f: int
    protocol: Protocol
    writable: bool
    lost: dict[str, bool | None]


def compare(kafka_version: str, *, most: int = 2, max_states: int = MAX_STATES) -> Iterator[Row]:
    """Yield the rows for f = 1 up to `most`; the Kafka version decides the rules of the ISR."""
    for f in range(1, most + 1):
        failures = [
            Failures(kills=f),
            Failures(kills=f, lags=f),
            Failures(power_losses=f),
            Failures(power_losses=f, lags=f),
        ]
        for protocol in (
            Protocol(copies=f + 1, min_insync_replicas=1),
            Protocol(copies=2 * f + 1, min_insync_replicas=f + 1),
            Protocol(copies=2 * f + 1, min_insync_replicas=None, fsync=True),
            Protocol(copies=2 * f + 1, min_insync_replicas=None),
        ):
            lost = {one.name: _lost(protocol, one, kafka_version, max_states) for one in failures}
            yield Row(
                f=f,
                protocol=protocol,
                writable=_writable(protocol, f, kafka_version),
                lost=lost,
            )


def _lost(
    protocol: Protocol, failures: Failures, kafka_version: str, max_states: int
) -> bool | None:
    if protocol.min_insync_replicas is None:  # its followers may lag at no cost
        found = quorum.search(
            QuorumModel(
                voters=protocol.copies,
                fsync=protocol.fsync,
                kills=failures.kills,
                power_losses=failures.power_losses,
            ),
            max_states=max_states,
        )
        return found.lost if found.lost or found.complete else None
    budgets = Budgets(
        kills=failures.kills, power_losses=failures.power_losses, shrinks=failures.lags
    )
    searched = _model(protocol, kafka_version, budgets)
    answer = search(searched, max_states=max_states)
    return answer.lost if answer.lost or answer.complete else None


def _writable(protocol: Protocol, dead: int, kafka_version: str) -> bool:
    """Whether records are acked while the first `dead` brokers stay down."""
    if protocol.min_insync_replicas is None:
        return quorum.writable(QuorumModel(voters=protocol.copies), dead)
    deaths = [Operation(kind=OperationKind.KILL, broker=number) for number in range(dead)]
    plan = carried_out(_model(protocol, kafka_version, Budgets()), deaths)
    return plan is not None and plan.fate(plan.stages[-1]) != "none"


def _model(protocol: Protocol, kafka_version: str, budgets: Budgets) -> AdversaryModel:
    return AdversaryModel(
        kafka_version=kafka_version,
        replicas=protocol.copies,
        min_insync_replicas=protocol.min_insync_replicas or 1,
        budgets=budgets,
    )
