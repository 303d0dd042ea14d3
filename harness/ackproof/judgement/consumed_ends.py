"""Checks that consumer groups which ended by themselves have read each partition to its end.

A consumer ends when all that it is assigned is consumed up to the record that closes the partition.
What a group has not read at all it does not have to process: without its reads nothing is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ackproof.clients.shared_page import State
from ackproof.judgement import progress_pages
from ackproof.runs.directory import RunRecord, table_rows
from ackproof.scenario.model import Scenario
from ackproof_spark.tables import LOCATION

#: Partition -> the last offset that a group has read.
_Read = dict[int, int]


def contradictions(run_dir: Path, scenario: Scenario, record: RunRecord) -> Iterator[str]:
    """Yield the partitions that a group has not read to their end. Raises RunDirectoryError."""
    if record.troubles:
        return  # whoever did not end by itself is one
    topic = scenario.workload.topic
    ends = {
        row["partition"]: row["end_offset"]
        for row in table_rows(run_dir, "partition_ends")
        if row["topic"] == topic and row["complete"] and row["end_offset"] > row["begin_offset"]
    }
    for group, read in sorted(_last_reads(run_dir).items()):
        for partition, end in sorted(ends.items()):
            if partition not in read:
                yield f"{group} has consumed to the end, and read nothing of {topic}-{partition}"
            elif read[partition] < end - 1:
                yield (
                    f"{group} has consumed to the end, and read {topic}-{partition} up to offset "
                    f"{read[partition]} of {end - 1}"
                )


def _last_reads(run_dir: Path) -> dict[str, _Read]:
    """Return what each group has read of which a consumer ended by itself."""
    ended: set[str] = set()
    last: dict[str, _Read] = {}
    for page in sorted((run_dir / "clients").glob("consumer-*.progress")):
        state, _ = progress_pages.read(page)
        for group, partition, offset in _of_consumer(run_dir, page.stem):
            if state is State.DONE:
                ended.add(group)
            read = last.setdefault(group, {})
            read[partition] = max(offset, read.get(partition, -1))
    return {group: read for group, read in last.items() if group in ended}


def _of_consumer(run_dir: Path, name: str) -> Iterator[tuple[str, int, int]]:
    """Yield groups and partitions with offsets that were read, among them the last of each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = run_dir / LOCATION["reads"] / f"{name}.parquet"
    if not path.is_file():
        return
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=["group", "partition", "offset"]):
            rows = pa.Table.from_batches([batch]).group_by(["group", "partition"])
            for row in rows.aggregate([("offset", "max")]).to_pylist():
                yield row["group"], row["partition"], row["offset_max"]
