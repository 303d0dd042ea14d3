"""Poll skip and nonmonotonic poll: a poll does not start where the consumer's last poll ended.

The checks of histories (`jepsen.order`) find them. An operation is a poll, a send, or a change of a
consumer's assignment. A change lists the partitions that stay assigned: the consumer forgets its
position in all others.
"""

from __future__ import annotations

from collections import defaultdict

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.jepsen import order
from ackproof_spark.jepsen.frames import Histories
from ackproof_spark.jepsen.tables import (
    Action,
    Completion,
    Function,
    HistoryAnomaly,
)
from ackproof_spark.reading.run_tables import RunTables, StoredRun
from ackproof_spark.spark.functions import Column, DataFrame, F, union
from ackproof_spark.tables import Outcome

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


def micro_ops(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return a run's sends, polls and assignments in the columns of `jepsen.tables.MICRO_OPS`."""
    reads, spark = run["reads"], run["reads"].sparkSession

    def literal(value: str) -> Column:
        return F.lit(value).cast("string")

    nothing = F.lit(None).cast("string")
    of_record = {
        "key": F.concat_ws("-", "topic", "partition"),
        "offset": F.col("offset"),
        "value": F.concat_ws("/", "producer", "sequence"),
    }
    no_record = {"key": nothing, "offset": F.lit(None).cast("bigint"), "value": nothing}
    completion = literal(Completion.INFO.value)
    for outcome, word in _COMPLETION.items():
        completion = F.when(F.col("outcome") == outcome, word.value).otherwise(completion)

    def operations(rows: DataFrame, **columns: Column) -> DataFrame:
        return rows.select(
            F.lit(0).cast("bigint").alias("history"),
            *(column.alias(name) for name, column in columns.items()),
        )

    polls = operations(
        reads.where(F.col("producer").isNotNull()),
        op=_poll_op(),
        process=F.concat(F.lit("consumer-"), "consumer"),
        type=literal(Completion.OK.value),
        f=literal(Function.POLL.value),
        keys=F.array().cast("array<string>"),
        number=F.col("number").cast("bigint"),
        action=literal(Action.POLL.value),
        **of_record,
    )
    sends = operations(
        tables.ledger,
        op=F.lit(_SENDS) + F.col("producer") * _PROCESS + F.col("sequence"),
        process=F.concat(F.lit("producer-"), "producer"),
        type=completion,
        f=literal(Function.SEND.value),
        keys=F.array().cast("array<string>"),
        number=F.lit(0).cast("bigint"),
        action=literal(Action.SEND.value),
        **of_record,
    )
    changes = operations(
        spark.createDataFrame(
            _assignments(run["consumer_events"]), "op bigint, process string, keys array<string>"
        ),
        op=F.col("op"),
        process=F.col("process"),
        type=literal(Completion.OK.value),
        f=literal(Function.ASSIGN.value),
        keys=F.col("keys"),
        number=F.lit(0).cast("bigint"),
        action=nothing,
        **no_record,
    )
    return polls.unionByName(sends).unionByName(changes)


def find(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each such poll and partition, with the first record returned."""
    reads = run["reads"]
    found = order.between_operations(Histories(micro_ops=micro_ops(tables, run)))
    shown = found.where(F.col("anomaly").isin([*_KINDS])).select(
        F.col("anomaly").alias("kind"), "key", F.element_at("ops", -1).alias("op")
    )
    first = (
        reads.withColumns({"op": _poll_op(), "key": F.concat_ws("-", "topic", "partition")})
        .where(F.col("producer").isNotNull())
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
        F.lit(None).cast("timestamp").alias("sent_at"),
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


def _poll_op() -> Column:
    return F.col("consumer") * _PROCESS + F.col("poll") * 2 + 1


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
