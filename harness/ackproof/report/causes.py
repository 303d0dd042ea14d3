"""Why records were lost, as a report shows it: a sentence a cause, and a row a telling record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from ackproof.report.data.losses import LostRecord
from ackproof_spark.tables import LOCATION, LOST_STORIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One lost record as its story tells it; what the evidence does not tell is None."""

    topic: str
    partition: int
    producer: int | None
    sequence: int | None
    offset: int | None
    acked_at: datetime | None
    leader: int | None
    leader_epoch: int | None
    isr: list[int] | None
    next_leader: int | None
    next_leader_epoch: int | None
    next_leader_start: int | None
    next_leader_high_watermark: int | None
    elected_at: datetime | None
    truncated_by: int | None
    truncated_to: int | None
    truncated_at: datetime | None
    window: int | None
    case: str


def read_losses(directory: Path, records: Sequence[LostRecord]) -> tuple[Loss, ...]:
    """Return the stories of these records, in their order; none if the run has no stories.

    A table that cannot be read has no stories either: the verdict's causes stand without it.
    """
    folder = directory / LOCATION["lost_stories"]
    if not records or not folder.is_dir():
        return ()
    wanted = reduce(
        lambda some, more: some | more,
        (
            (ds.field("topic") == record.topic)
            & (ds.field("partition") == record.partition)
            & (ds.field("producer") == record.producer)
            & (ds.field("sequence") == record.sequence)
            for record in records
        ),
    )
    columns = list(Loss.__slots__)
    try:
        dataset = ds.dataset(folder, format="parquet", schema=LOST_STORIES)
        rows = dataset.to_table(columns=columns, filter=wanted).to_pylist()
    except (pa.ArrowException, OSError):
        return ()
    losses = {(row["partition"], row["producer"], row["sequence"]): Loss(**row) for row in rows}
    names = [(record.partition, record.producer, record.sequence) for record in records]
    return tuple(losses[name] for name in names if name in losses)
