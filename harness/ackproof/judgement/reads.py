"""What the judge asks of `reads` and `acquisitions`, collected in one pass over each file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from ackproof.judgement.evidence import Evidence, Numbers, batches_of, int64
from ackproof.judgement.sends import NEVER
from ackproof_faults.interfaces.cluster import TopicPartition

_COLUMNS = ("group", "topic", "partition", "offset", "read_at")
_WORDS = ("group", "topic")
_KEYS = ["group", "topic", "partition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRead:
    """The last read of a partition by a group.

    `offset`: the highest one, including a closing record. `at`: when the last other record was
    read, microseconds since 1970; -1 if none was.
    """

    offset: int
    at: int


#: By group and partition.
LastReads = Mapping[tuple[str, TopicPartition], LastRead]


def last_reads(evidence: Evidence) -> LastReads:
    """Return the last reads of all consumers."""
    return evidence.once(
        LastRead,
        lambda: merged(
            reads_of(evidence, path)
            for table in ("reads", "acquisitions")
            for path in evidence.files(table)
        ),
    )


def reads_of(evidence: Evidence, path: Path) -> LastReads:
    """Return the last reads of the consumer that wrote this file; it may be absent."""

    def read() -> LastReads:
        if not path.is_file():
            return {}
        ends = {
            (row["topic"], row["partition"]): row["end_offset"]
            for row in evidence.rows("partition_ends")
        }
        batches = batches_of(path, _COLUMNS, dictionaries=_WORDS)
        return merged(_of_batch(batch, ends) for batch in batches)

    return evidence.once((LastRead, path), read)


def merged(parts: Iterable[LastReads]) -> LastReads:
    merged: dict[tuple[str, TopicPartition], LastRead] = {}
    for part in parts:
        for key, last in part.items():
            before = merged.get(key, last)
            merged[key] = LastRead(
                offset=max(last.offset, before.offset), at=max(last.at, before.at)
            )
    return merged


def _of_batch(batch: pa.RecordBatch, ends: Mapping[TopicPartition, int]) -> LastReads:
    offset = int64(batch["offset"])
    is_record = offset < _ends(batch["topic"], int64(batch["partition"]), ends)
    table = pa.table(
        {
            **{name: batch[name].indices for name in _WORDS},
            "partition": batch["partition"],
            "offset": offset,
            "at": np.where(is_record, int64(batch["read_at"]), -1),
        }
    )
    rows = table.group_by(_KEYS, use_threads=False).aggregate([("offset", "max"), ("at", "max")])
    groups, topics = (batch[name].dictionary.to_pylist() for name in _WORDS)
    return {
        (groups[row["group"]], (topics[row["topic"]], row["partition"])): LastRead(
            offset=row["offset_max"], at=row["at_max"]
        )
        for row in rows.to_pylist()
    }


def _ends(
    topics: pa.DictionaryArray, partitions: Numbers, ends: Mapping[TopicPartition, int]
) -> Numbers:
    """Return the end offset of the partition in each row, `NEVER` if it is unknown."""
    codes, after_all = int64(topics.indices), max((number for _, number in ends), default=-1) + 1
    places = np.where((partitions >= 0) & (partitions < after_all), partitions, after_all)
    result = np.full(len(partitions), NEVER)
    for code, topic in enumerate(topics.dictionary.to_pylist()):
        of_topic = np.full(after_all + 1, NEVER)
        for (name, number), end in ends.items():
            if name == topic:
                of_topic[number] = end
        here = codes == code
        result[here] = of_topic[places[here]]
    return result
