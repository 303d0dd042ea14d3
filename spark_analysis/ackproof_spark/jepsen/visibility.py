"""Records that a poll must not return: aborted ones, uncommitted ones, ones that nobody sent.

    op 0   fail  send  x: a
    op 1   ok    txn   x: sends b at 1, polls a at 0 and b at 1, c at 2

`G1a`: an `ok` poll returns a value that a `fail` operation sent: a, an aborted read.
`precommitted-read`: an operation polls what it itself sends: b, before it can have committed.
`phantom`: a poll returns, whatever became of it, what no operation sent: c. Jepsen's checker
stops there with an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.jepsen.frames import SEND, Histories, as_anomalies
from ackproof_spark.jepsen.tables import Completion, HistoryAnomaly
from ackproof_spark.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(histories: Histories) -> DataFrame:
    """Return one row an operation and forbidden value that it polled."""
    return _aborted(histories).unionByName(_own(histories)).unionByName(_phantoms(histories))


def _aborted(histories: Histories) -> DataFrame:
    aborted = histories.sends.where(F.col("type") == Completion.FAIL)
    reads = histories.reads.where(F.col("type") == Completion.OK)
    found = (
        reads.join(aborted.select(*SEND, F.col("op").alias("writer")), SEND)
        .groupBy(*SEND, "writer", "op")
        .agg(F.min("number").alias("number"))
    )
    return as_anomalies(
        found, HistoryAnomaly.G1A, values=F.array("value"), ops=F.array("writer", "op")
    )


def _own(histories: Histories) -> DataFrame:
    found = (
        histories.reads.join(histories.sends.select(*SEND, "op"), [*SEND, "op"])
        .groupBy(*SEND, "op")
        .agg(F.min("number").alias("number"))
    )
    return as_anomalies(
        found, HistoryAnomaly.PRECOMMITTED_READ, values=F.array("value"), ops=F.array("op")
    )


def _phantoms(histories: Histories) -> DataFrame:
    found = (
        histories.reads.join(histories.sends.select(*SEND), SEND, "left_anti")
        .groupBy(*SEND, "op")
        .agg(F.min(F.struct("number", "offset")).alias("first"))
        .withColumn("number", F.col("first.number"))
    )
    offset = F.col("first.offset")
    return as_anomalies(
        found,
        HistoryAnomaly.PHANTOM,
        values=F.array("value"),
        ops=F.array("op"),
        offsets=F.when(offset.isNotNull(), F.array(offset)),
    )
