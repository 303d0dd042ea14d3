"""The history of single lost records, from the `lost_stories` table."""

from __future__ import annotations

import operator
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
class LossStory:
    """The history of a lost record; None where there is no evidence."""

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


def read_loss_stories(directory: Path, records: Sequence[LostRecord]) -> tuple[LossStory, ...]:
    """Return the stories of these records, in their order.

    Empty if the table is missing or damaged: the verdict's causes do not depend on it.
    """
    folder = directory / LOCATION["lost_stories"]
    if not records or not folder.is_dir():
        return ()
    selected = reduce(
        operator.or_,
        (
            (ds.field("topic") == record.topic)
            & (ds.field("partition") == record.partition)
            & (ds.field("producer") == record.producer)
            & (ds.field("sequence") == record.sequence)
            for record in records
        ),
    )
    columns = list(LossStory.__slots__)
    try:
        dataset = ds.dataset(folder, format="parquet", schema=LOST_STORIES)
        rows = dataset.to_table(columns=columns, filter=selected).to_pylist()
    except (pa.ArrowException, OSError):
        return ()
    stories = {
        (row["partition"], row["producer"], row["sequence"]): LossStory(**row) for row in rows
    }
    keys = [(record.partition, record.producer, record.sequence) for record in records]
    return tuple(stories[key] for key in keys if key in stories)
