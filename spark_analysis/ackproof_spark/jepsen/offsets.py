"""Two values at one offset, one value at two offsets.

    op 0   ok    send  x: a at 0
    op 1   ok    send  x: b at 0        <- inconsistent-offsets: a and b at offset 0
    op 2   ok    poll  x: b at 3        <- duplicate: b at offsets 0 and 3

`inconsistent-offsets`: an offset of a key's log holds two values or more.
`duplicate`: a value stands at two offsets or more. Reading the same offset again is none.

Conflicts with `info` sends of which nothing was read do not count: they may not have happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackproof_spark.jepsen.frames import Histories, as_anomalies
from ackproof_spark.jepsen.tables import HistoryAnomaly
from ackproof_spark.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def find(histories: Histories) -> DataFrame:
    """Return one row an offset with several values, and one a value with several offsets."""
    conflicts = (
        histories.log.groupBy("history", "key", "offset", "index")
        .agg(F.sort_array(F.collect_list("value")).alias("values"))
        .where(F.size("values") > 1)
    )
    duplicates = histories.places.where(F.size("offsets") > 1)
    return as_anomalies(
        conflicts, HistoryAnomaly.INCONSISTENT_OFFSETS, offsets=F.array("offset")
    ).unionByName(as_anomalies(duplicates, HistoryAnomaly.DUPLICATE, values=F.array("value")))
