"""The anomalies that a configuration allows, with the reasons, and the verdict on a history.

All other anomalies are forbidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ackproof_spark.jepsen.tables import HistoryAnomaly as Is


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The settings of a history's clients, and of its check.

    `sub_via`: how consumers get their partitions. `isolation_level`: of the consumers. `acks`,
    `idempotence`: of the producers. `ww_deps`: whether the order of a log implies an order of
    transactions.
    """

    sub_via: Literal["assign", "subscribe"] = "assign"
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed"
    acks: Literal["all", "1", "0"] = "all"
    idempotence: bool = True
    ww_deps: bool = True


#: Kafka's own defaults, and `assign`.
DEFAULTS = Configuration()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """These anomalies are allowed if `setting` has one of `values`, or always without a setting."""

    anomalies: tuple[Is, ...]
    setting: str | None = None
    values: tuple[str | bool, ...] = ()
    reason: str

    def holds(self, configuration: Configuration) -> bool:
        return self.setting is None or getattr(configuration, self.setting) in self.values


ALLOWED = (
    Allowance(
        anomalies=(Is.INT_SEND_SKIP,),
        reason="other producers' records come in between: a partition is shared",
    ),
    Allowance(
        anomalies=(Is.G0, Is.G0_PROCESS),
        reason="Kafka isolates no writes: open transactions interleave in every partition",
    ),
    Allowance(
        anomalies=(Is.G1C, Is.G1C_PROCESS),
        setting="ww_deps",
        values=(True,),
        reason="as writes interleave, who writes later in a log may well be read earlier",
    ),
    Allowance(
        anomalies=(Is.G_SINGLE, Is.G2_ITEM),
        reason="Kafka promises no snapshot: a poll gets to each partition at a time of its own",
    ),
    Allowance(
        anomalies=(Is.POLL_SKIP, Is.NONMONOTONIC_POLL),
        setting="sub_via",
        values=("subscribe",),
        reason="partitions may be rebalanced between two polls, and read by others meanwhile",
    ),
    Allowance(
        # Without ww_deps, every G1c has wr edges only.
        anomalies=(Is.G1A, Is.PRECOMMITTED_READ, Is.G1C_WR, Is.G1C),
        setting="isolation_level",
        values=("read_uncommitted",),
        reason="such a consumer returns records of open and aborted transactions",
    ),
    Allowance(
        anomalies=(Is.LOST_WRITE, Is.TORN_TRANSACTION, Is.INCONSISTENT_OFFSETS),
        setting="acks",
        values=("0", "1"),
        reason="a leader that fails takes with it what its followers did not have yet",
    ),
    Allowance(
        anomalies=(Is.DUPLICATE, Is.INT_NONMONOTONIC_SEND, Is.NONMONOTONIC_SEND),
        setting="idempotence",
        values=(False,),
        reason="a batch that is sent again may be written twice, and after its successors",
    ),
)

#: Anomalies that make a history inconclusive.
UNDECIDED: dict[str, str] = {
    Is.UNSEEN: "what no poll returned may be lost, or just not have been read yet"
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on a history; `allowed` has the reason for each allowed anomaly by its name."""

    verdict: Literal["holds", "violated", "inconclusive"]
    reason: str
    allowed: dict[str, str]


def judge(counts: Mapping[str, int], configuration: Configuration, *, records: int) -> Judgement:
    """Judge a history by the counts of its anomalies, and its number of records."""
    present = {name for name, count in counts.items() if count}
    allowed = {
        anomaly.value: row.reason
        for row in ALLOWED
        if row.holds(configuration)
        for anomaly in row.anomalies
        if anomaly in present
    }
    undecided = [name for name in UNDECIDED if name in present]
    forbidden = [name for name in Is if name in present - allowed.keys() - UNDECIDED.keys()]
    if forbidden:
        return Judgement(verdict="violated", reason=", ".join(forbidden), allowed=allowed)
    if undecided:
        reason = "; ".join(f"{name}: {UNDECIDED[name]}" for name in undecided)
        return Judgement(verdict="inconclusive", reason=reason, allowed=allowed)
    if not records:
        return Judgement(
            verdict="inconclusive", reason="nothing was sent or polled", allowed=allowed
        )
    reason = f"only what is allowed: {', '.join(allowed)}" if allowed else "no anomaly"
    return Judgement(verdict="holds", reason=reason, allowed=allowed)
