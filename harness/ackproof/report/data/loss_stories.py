"""The history of single lost records, from the `lost_stories` table."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from ackproof.report.data.losses import LostRecord
from ackproof_spark.tables import LOCATION, LOST_STORIES


def read_loss_stories(
    directory: Path, records: Sequence[LostRecord]
) -> tuple[Mapping[str, Any], ...]:
    """Return the rows of `LOST_STORIES` of these records, in their order.

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
    try:
        dataset = ds.dataset(folder, format="parquet", schema=LOST_STORIES)
        rows = dataset.to_table(filter=selected).to_pylist()
    except (pa.ArrowException, OSError):
        return ()
    stories = {(row["partition"], row["producer"], row["sequence"]): row for row in rows}
    keys = [(record.partition, record.producer, record.sequence) for record in records]
    return tuple(stories[key] for key in keys if key in stories)
