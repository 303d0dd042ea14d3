"""Resets of a group's offsets by an administrator, and the records that it processed again.

An administrator resets or deletes offsets while the group has no members.

    billing         processes 6, 7, 8, and commits offset 9
    administrator   resets its offsets to the begin
    billing         processes 6, 7, 8                       <- 6, 7, 8: replayed

    consumer 0      reads 6, 7, 8, processes 6, dies; billing has committed offset 6
    administrator   resets its offsets to the end, 9        <- 7, 8: unprocessed
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import add

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.anomaly_rows import as_anomalies, text
from ackproof_spark.checks.check import ClientCheck
from ackproof_spark.reading.run_tables import NAME, RunTables, StoredRun
from ackproof_spark.spark.functions import Column, DataFrame, F, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """A change of a group's offset in a partition, in force from `at` on; None is no offset."""

    group: str
    topic: str
    partition: int
    before: int | None
    after: int | None
    at: datetime

    @property
    def here(self) -> Column:
        """Whether a row is of this group and partition."""
        place = (F.col("topic") == self.topic) & (F.col("partition") == self.partition)
        return (F.col("group") == self.group) & place


def resets(run: StoredRun) -> list[Reset]:
    """Return the resets by verified faults."""
    windows = run.listed("fault_windows").where("verified").select("facts", "verified_at").collect()
    changes = [
        (json.loads(row["facts"] or "{}").get("reset"), row["verified_at"]) for row in windows
    ]
    return [
        Reset(
            group=change["group"],
            topic=change["topic"],
            partition=int(number),
            before=before,
            after=after,
            at=at,
        )
        for change, at in changes
        if change
        for number, (before, after) in change["offsets"].items()
    ]


def replay(known: Sequence[Reset], at: str) -> Column:
    """Return after how many resets that ask for its record again a row is, by its time `at`."""
    later = [
        F.when(
            one.here & (F.col("offset") >= (one.after or 0)) & (F.col(at) >= F.lit(one.at)), 1
        ).otherwise(0)
        for one in known
    ]
    return reduce(add, later, F.lit(0))


def skipped(known: Sequence[Reset]) -> Column:
    """Return which reset passed over a row's record, as the end of a sentence; '' for none."""
    reasons = [
        F.when(
            one.here
            & (F.col("offset") >= (one.before or 0))
            & (F.lit(one.after is None) | (F.col("offset") < (one.after or 0))),
            F.lit(
                f": an administrator had changed its offset from {_word(one.before)} to "
                f"{_word(one.after)}"
            ),
        )
        for one in known
    ]
    return F.coalesce(*reasons, F.lit(""))


def _word(offset: int | None) -> str:
    return "none" if offset is None else str(offset)


def replayed(tables: RunTables, run: StoredRun) -> DataFrame:
    """Return one row for each record and reset after which its group processed it again."""
    record = ["group", *NAME, "offset"]
    effects = run["effects"].where(F.col("producer").isNotNull())
    again = (
        effects.withColumn("replay", replay(resets(run), "processed_at"))
        .select(*record, "replay")
        .distinct()
        .withColumn("nth", F.row_number().over(Window.partitionBy(*record).orderBy("replay")))
        .where(F.col("nth") > 1)
    )
    sends = tables.ledger.select(*NAME, "sent_at", "resolved_at")
    return as_anomalies(
        again.join(sends, NAME, "left"),
        Anomaly.REPLAYED,
        tables=tables,
        found=text("processed again by {}: an administrator had reset its offsets", F.col("group")),
    )


CHECKS = (
    ClientCheck(anomalies=(Anomaly.REPLAYED,), find=replayed, tables=("reads", "acquisitions")),
)
