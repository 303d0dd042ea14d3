"""The pass by offset: reduces a run's big tables to the few rows that the checks need.

Ledger and final log are nearly sorted by offset. They are cut into slices of offsets (`slices`);
one task compares each (`slice_compare`), without a shuffle. The driver compares the slices of a
small run itself. Nearly all sends match the record at their acked offset and are dropped. The
checks run on the remaining rows as on the whole tables, with the same result. These are:

- every send without an acked offset; all sends and records of an offset, unless these are one send
  and its intact record;
- matches with the name of a remaining record: the other copies of a duplicate, the send of a
  record in a wrong partition;
- matches that follow a higher sequence of their producer, and the record that they follow.

Tests compare the checks on these rows with those on the whole tables and with an oracle.
"""

from __future__ import annotations

import importlib.util
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ackproof_spark.matching.ledger_group import (
    UNMATCHED,
    Kind,
    SliceSummary,
    find_sends,
    sequences_in,
)
from ackproof_spark.matching.row_groups import (
    Layout,
    Producers,
    Sizing,
    TakeGeneralPath,
    read_layout,
    verify_pages,
)
from ackproof_spark.matching.send_order import Carry
from ackproof_spark.matching.slice_compare import compare_slices
from ackproof_spark.matching.slices import Slice, slices
from ackproof_spark.reading.run_tables import RunTables
from ackproof_spark.spark.errors import cause, meaning
from ackproof_spark.spark.functions import DataFrame, F, SparkSession, spark_schema
from ackproof_spark.spark.small_data import from_arrow, local, small_plans
from ackproof_spark.tables import LEDGER, RecordState, columns

_NAME = ["topic", "producer", "sequence"]

_LAST = columns("topic string?, partition int?, last bigint?")

#: Tasks for each core; further slices share tasks.
_TASKS_A_CORE = 16

_Worker = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, kw_only=True)
class Unmatched(RunTables):
    """The remaining rows of a run's tables, and the counts of the pass.

    `whole` is the final log with every row. `left` is an upper bound of the rows of `ledger` and of
    `final_log`. The tables lack constant columns, and `final_log` lacks `written_at`; `size` is
    null for records that matched.
    """

    whole: DataFrame
    left: int
    counted: Mapping[str, int]
    last: Mapping[tuple[str, int], int]

    @cached_property
    def outcomes(self) -> dict[str, int]:
        return dict(self.counted)

    @property
    def records(self) -> DataFrame:
        return self.whole

    @property
    def rows(self) -> int:
        return self.left

    @cached_property
    def last_offsets(self) -> DataFrame:
        rows = [
            {"topic": topic, "partition": partition, "last": last}
            for (topic, partition), last in self.last.items()
        ]
        return from_arrow(self.ledger.sparkSession, pa.Table.from_pylist(rows, schema=_LAST))


def unmatched(
    spark: SparkSession,
    run_dir: Path | str,
    tables: RunTables,
    *,
    sizing: Sizing,
    caches: ExitStack,
) -> Unmatched:
    """Return the remaining rows of `tables` (of `run_dir`); they are cached until `caches` closes.

    Raises `TakeGeneralPath` if the layout of the tables does not allow the pass.
    """
    layout = read_layout(spark, run_dir)
    if importlib.util.find_spec("pandas") is None:
        raise TakeGeneralPath("pyspark wants pandas for this (pip install pandas)")
    cores = _cores(spark)
    pieces = slices(layout, sizing=sizing, cores=cores)
    here = layout.rows < sizing.from_rows
    if here:
        verify_pages(layout)
    run: _Run = (
        partial(_in_driver, spark, sizing.few) if here else partial(_in_tasks, spark, caches)
    )
    compared = _compare(run, layout, pieces, {})
    summaries = _summaries(compared)
    again, carries, names = _across(pieces, summaries, layout.producers)
    lookups = compared.where(compared.kind == Kind.LOOKUP)
    counted = sum((Counter(summary.returned) for summary in summaries), Counter())
    if again:
        second = _compare(run, layout, again, carries)
        counted = sum((Counter(summary.returned) for summary in _summaries(second)), counted)
        lookups = lookups.unionByName(second.where(second.kind == Kind.LOOKUP))
    returned = sum(counted.values())
    if again or counted[Kind.LOOKUP] or counted[Kind.RECORD]:
        with small_plans(spark, rows=returned, few=sizing.few):
            names |= _names(compared, lookups, limit=sizing.lookups)
    ledger = compared.where(compared.kind == Kind.SEND).select(LEDGER.names[2:])
    log = compared.where(compared.kind == Kind.RECORD).select(
        "topic", "partition", "offset", "state", "producer", "sequence", "size", "head"
    )
    if names:
        sends = _sends(run, layout, names, cores)
        if not here:
            sends.count()  # on all cores: its reader may run in one task
        ledger = ledger.unionByName(sends.select(ledger.columns))
        records = sends.withColumn("state", F.lit(RecordState.INTACT))
        log = log.unionByName(records.select(log.columns))
    left = returned + len(names)
    if left <= sizing.few:
        # Joins of frames with one partition need no shuffle.
        ledger, log = ((rows if here else local(rows)).coalesce(1) for rows in (ledger, log))
    return Unmatched(
        run_id=tables.run_id,
        ledger=ledger,
        final_log=log,
        partition_ends=tables.partition_ends,
        fault_windows=tables.fault_windows,
        undecidable=tables.undecidable,
        keys=tables.keys,
        whole=tables.final_log,
        left=left,
        counted=sum((Counter(summary.outcomes) for summary in summaries), Counter()),
        last=_last(layout),
    )


def _cores(spark: SparkSession) -> int:
    """Return the number of parallel tasks; `TakeGeneralPath` if the driver is another process."""
    context = getattr(spark, "sparkContext", None)
    if context is None:
        raise TakeGeneralPath("the driver of Spark Connect may see other files")
    return int(context.defaultParallelism)


class _Run(Protocol):
    """Returns the cached rows that `worker` yields for each index below `positions`."""

    def __call__(self, worker: _Worker, *, positions: int) -> DataFrame: ...


def _in_tasks(
    spark: SparkSession, caches: ExitStack, worker: _Worker, *, positions: int
) -> DataFrame:
    tasks = min(positions, _TASKS_A_CORE * _cores(spark))
    schema = spark_schema(UNMATCHED)
    compared = spark.range(positions, numPartitions=tasks).mapInArrow(worker, schema).persist()
    caches.callback(compared.unpersist)
    return compared


def _in_driver(spark: SparkSession, few: int, worker: _Worker, *, positions: int) -> DataFrame:
    """Raise `TakeGeneralPath` if more than `few` rows remain: then Spark is faster."""
    indices = pa.record_batch({"id": pa.array(range(positions), pa.int64())})
    rows = pa.Table.from_batches(worker([indices]), UNMATCHED)
    if rows.num_rows > few:
        raise TakeGeneralPath(f"{rows.num_rows} rows of a small run do not match")
    return from_arrow(spark, rows)


def _compare(
    run: _Run, layout: Layout, pieces: Sequence[Slice], carries: Mapping[int, Carry]
) -> DataFrame:
    worker = compare_slices(
        pieces,
        filesystem=layout.filesystem,
        producers=layout.producers,
        bounds=layout.bounds,
        carries=carries,
    )
    return run(worker, positions=len(pieces))


def _summaries(compared: DataFrame) -> list[SliceSummary]:
    """Run the pass; return the summaries of all slices, or raise `TakeGeneralPath`."""
    from pyspark.errors import PythonException

    try:
        rows = compared.where(compared.kind == Kind.SUMMARY).select("summary").collect()
    except PythonException as error:
        if compared.sparkSession.sparkContext.master.startswith("local"):
            raise
        # Executors of a cluster may lack a library, or see other files than the driver.
        raise TakeGeneralPath(meaning(str(error)) or cause(error)) from error
    summaries = sorted(
        (SliceSummary(**json.loads(row["summary"])) for row in rows),
        key=lambda summary: summary.number,
    )
    for summary in summaries:
        if summary.unaligned is not None:
            raise TakeGeneralPath(summary.unaligned)
    return summaries


def _across(
    pieces: Sequence[Slice], summaries: Sequence[SliceSummary], producers: Producers
) -> tuple[list[Slice], dict[int, Carry], set[tuple[str, int, int]]]:
    """Check each producer's order across the borders of slices.

    Returns the slices to compare again, in which a matched record follows a higher sequence of an
    earlier slice; the state before each of them; and the names that remaining records follow.
    """
    again: list[Slice] = []
    carries: dict[int, Carry] = {}
    names: set[tuple[str, int, int]] = set()
    before: dict[tuple[str, int, int], tuple[int, int]] = {}
    for piece, summary in zip(pieces, summaries, strict=True):
        carry: dict[tuple[int, int], tuple[int, int]] = {}
        late = False
        for partition, producer, matched, unmatched, sent, highest in summary.order:
            key = piece.topic, partition, producer
            if key in before:
                carry[partition, producer] = before[key]
                late |= matched < before[key][0]
                if unmatched < before[key][1]:
                    names.add((piece.topic, producers.number(producer), before[key][1]))
            earlier = before.get(key, (-1, -1))
            before[key] = max(sent, earlier[0]), max(highest, earlier[1])
        if late:
            again.append(piece)
            carries[piece.number] = carry
    return again, carries, names


def _names(compared: DataFrame, lookups: DataFrame, *, limit: int) -> set[tuple[str, int, int]]:
    """Return the names to look up, including those of remaining records whose send matched.

    Raises `TakeGeneralPath` if there are more than `limit`.
    """
    records = compared.where(
        (compared.kind == Kind.RECORD) & (compared.state == RecordState.INTACT)
    )
    orphans = records.select(_NAME).join(
        compared.where(compared.kind == Kind.SEND).select(_NAME), _NAME, "left_anti"
    )
    rows = orphans.unionByName(lookups.select(_NAME)).distinct().limit(limit + 1).collect()
    if len(rows) > limit:
        raise TakeGeneralPath(f"more than {limit} records have to be looked up again")
    return {(row["topic"], row["producer"], row["sequence"]) for row in rows}


def _sends(
    run: _Run, layout: Layout, names: Iterable[tuple[str, int, int]], cores: int
) -> DataFrame:
    """Return the sends of these names that exist; all of them matched."""
    sequences: dict[tuple[str, int], list[int]] = defaultdict(list)
    for topic, producer, sequence in names:
        sequences[topic, producer].append(sequence)
    arrays: dict[tuple[str, int], npt.NDArray[np.int64]] = {
        key: np.array(sorted(values), np.int64) for key, values in sequences.items()
    }
    groups = [group for group in layout.sends if sequences_in(group, arrays)]
    tasks = min(cores, len(groups)) or 1
    worker = find_sends(
        [groups[index::tasks] for index in range(tasks)], arrays, filesystem=layout.filesystem
    )
    return run(worker, positions=tasks)


def _last(layout: Layout) -> dict[tuple[str, int], int]:
    last: dict[tuple[str, int], int] = {}
    for group in layout.records:
        key = group.topic, group.partition
        last[key] = max(last.get(key, group.last), group.last)
    return last
