"""Poll skip and nonmonotonic poll: a poll does not start where the consumer's last poll ended.

The checks of histories (`jepsen.order`) find them. An operation is a poll, a send, or a change of a
consumer's assignment. A change lists the partitions that stay assigned: the consumer forgets its
position in all others.
"""

from __future__ import annotations

from collections import defaultdict

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.checks.check import ClientCheck
from ackproof_spark.jepsen import order
from ackproof_spark.jepsen.frames import Histories
from ackproof_spark.jepsen.tables import Action, Completion, Function, HistoryAnomaly
from ackproof_spark.reading.run_tables import RunTables, StoredRun
from ackproof_spark.spark.functions import DataFrame, F, union
from ackproof_spark.spark.small_data import from_rows
from ackproof_spark.tables import Outcome, columns

_COMPLETION = {
    Outcome.ACKED: Completion.OK,
    Outcome.FAILED: Completion.FAIL,
    Outcome.ABORTED: Completion.FAIL,
    Outcome.UNKNOWN: Completion.INFO,
}

_KINDS = {
    HistoryAnomaly.POLL_SKIP: Anomaly.POLL_SKIP,
    HistoryAnomaly.NONMONOTONIC_POLL: Anomaly.NONMONOTONIC_POLL,
}

#: Operations are numbered by process: polls and assignments of one consumer in their order, then
#: the sends. Only the order within a process counts.
_PROCESS = 1 << 40
_SENDS = 1 << 62
#: A rebalance between two polls.
_CHANGE = columns("op bigint, process string, keys array<string>")
_POLL_OP = f"consumer * {_PROCESS}L + poll * 2 + 1"

_KEY = "concat_ws('-', topic, partition) key"


def micro_ops(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return a run's sends, polls and assignments in the columns of `jepsen.tables.MICRO_OPS`."""
    completions = " ".join(
        f"when '{outcome}' then '{word}'" for outcome, word in _COMPLETION.items()
    )
    of_record = (_KEY, "offset", "concat_ws('/', producer, sequence) value")
    no_keys = "cast(array() as array<string>) keys"
    polls = (
        run["reads"]
        .where("producer is not null")
        .selectExpr(
            f"{_POLL_OP} op",
            "concat('consumer-', consumer) process",
            f"'{Completion.OK}' type",
            f"'{Function.POLL}' f",
            no_keys,
            "cast(number as bigint) number",
            f"'{Action.POLL}' action",
            *of_record,
        )
    )
    sends = tables.ledger.selectExpr(
        f"{_SENDS}L + producer * {_PROCESS}L + sequence op",
        "concat('producer-', producer) process",
        f"case outcome {completions} end type",
        f"'{Function.SEND}' f",
        no_keys,
        "0L number",
        f"'{Action.SEND}' action",
        *of_record,
    )
    assignments = _assignments(run["consumer_events"])
    changes = from_rows(run.spark, assignments, _CHANGE).selectExpr(
        "*", f"'{Completion.OK}' type", f"'{Function.ASSIGN}' f", "0L number"
    )
    return union([polls, sends, changes], sparse=True).selectExpr("0L history", "*")


def find(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each such poll and partition, with the first record returned."""
    found = order.between_operations(Histories(micro_ops=micro_ops(tables, run)))
    shown = found.where(F.col("anomaly").isin([*_KINDS])).select(
        F.col("anomaly").alias("kind"), "key", F.element_at("ops", -1).alias("op")
    )
    first = (
        run["reads"]
        .where("producer is not null")
        .selectExpr("*", f"{_POLL_OP} op", _KEY)
        .groupBy("op", "key", "topic", "partition", "consumer", "poll")
        .agg(F.min(F.struct("number", "offset", "producer", "sequence", "read_at")).alias("first"))
    )
    rows = shown.join(first, ["op", "key"]).select(
        "kind",
        "topic",
        "partition",
        "consumer",
        "poll",
        "first.producer",
        "first.sequence",
        "first.offset",
        F.col("first.read_at").alias("resolved_at"),
    )
    return union(
        as_anomalies(
            rows.where(F.col("kind") == kind),
            anomaly,
            tables=tables,
            found=text("begins poll {} of consumer {}", F.col("poll"), F.col("consumer")),
        )
        for kind, anomaly in _KINDS.items()
    )


def _assignments(events: DataFrame) -> list[tuple[int, str, list[str]]]:
    """Return (op, process, partitions that stayed assigned) for each rebalance between two polls.

    The consumer forgets its position in a partition that was revoked, even if it was assigned
    again, because another consumer may have read it meanwhile; and in a partition that it rewound.
    """
    rows = (
        events.where(F.col("event").isin("assigned", "revoked", "lost", "rewound"))
        .where(F.col("partition").isNotNull())
        .orderBy("consumer", "at")
        .select("consumer", "poll", "event", F.concat_ws("-", "topic", "partition").alias("key"))
        .collect()
    )
    assigned: dict[int, set[str]] = defaultdict(set)
    moved: dict[tuple[int, int], set[str]] = defaultdict(set)
    changes = {}
    for row in rows:
        consumer, poll, key = row["consumer"], row["poll"], row["key"]
        stays = row["event"] in ("assigned", "rewound")
        (assigned[consumer].add if stays else assigned[consumer].discard)(key)
        moved[consumer, poll].add(key)
        stayed = sorted(assigned[consumer] - moved[consumer, poll])
        changes[consumer, poll] = consumer * _PROCESS + poll * 2, f"consumer-{consumer}", stayed
    return list(changes.values())


CHECKS = (ClientCheck(anomalies=tuple(_KINDS.values()), find=find, tables=("reads",)),)
