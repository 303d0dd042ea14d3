"""How lost records came to be lost, from the `lost_stories` table; equal histories are one row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ackproof_spark.tables import LOCATION, LOST_STORIES

#: Maximum number of histories that a report shows.
MAX_HISTORIES = 8

#: What tells the records of one history apart.
_OF_RECORD = ("producer", "sequence", "offset", "sent_at", "acked_at", "window")
_LISTS = ("isr", "held_by")
_LEFT_OUT = ("schema_version", "run_id", "cause", *_OF_RECORD)
_EXTENT = ("offset", "acked_at")


def read_histories(directory: Path) -> tuple[Mapping[str, Any], ...]:
    """Return the histories with most lost records, with the columns of `LOST_STORIES`.

    `count` is the number of records; `first_…` and `last_…` are the extent of their offsets and
    acks; the columns of a record are those of the one that was acked first. Empty if the table is
    missing or damaged: the verdict's causes do not depend on it.
    """
    folder = directory / LOCATION["lost_stories"]
    if not folder.is_dir():
        return ()
    try:
        stories = ds.dataset(folder, format="parquet", schema=LOST_STORIES).to_table()
    except (pa.ArrowException, OSError):
        return ()
    shared = [name for name in stories.column_names if name not in _LEFT_OUT]
    for name in _LISTS:  # lists cannot be the key of a group
        words = stories[name].cast(pa.list_(pa.string()))
        place = stories.schema.get_field_index(name)
        stories = stories.set_column(place, name, pc.binary_join(words, ","))
    grouped = (
        stories.sort_by("acked_at")
        .group_by(shared, use_threads=False)
        .aggregate(
            [([], "count_all")]
            + [(name, "first") for name in _OF_RECORD]
            + [(name, how) for name in _EXTENT for how in ("min", "max")]
        )
        .sort_by([("count_all", "descending")])
        .slice(0, MAX_HISTORIES)
    )
    return tuple(map(_history, grouped.to_pylist()))


def _history(row: dict[str, Any]) -> dict[str, Any]:
    return (
        {key: value for key, value in row.items() if not key.endswith(("_min", "_max"))}
        | {name: row[f"{name}_first"] for name in _OF_RECORD}
        | {f"first_{name}": row[f"{name}_min"] for name in _EXTENT}
        | {f"last_{name}": row[f"{name}_max"] for name in _EXTENT}
        | {
            name: [int(one) for one in row[name].split(",") if one]
            for name in _LISTS
            if row[name] is not None
        }
        | {"count": row["count_all"]}
    )
