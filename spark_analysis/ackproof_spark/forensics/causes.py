"""Causes: lost records are grouped by story, counted, classified and described in a sentence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.forensics.cases import (
    Case,
    Circumstances,
    Fault,
    FaultKind,
    Settings,
    classify,
)
from ackproof_spark.forensics.differences import EPOCH, rows_of
from ackproof_spark.forensics.history import History
from ackproof_spark.forensics.sentences import Cut, cause, counted, decisive
from ackproof_spark.forensics.stories import (
    SHARED,
    STORY,
    stories_of,
)
from ackproof_spark.forensics.terms import Term
from ackproof_spark.reading.run_tables import PARTITION, PLACE, StoredRun
from ackproof_spark.spark.functions import Column, DataFrame, F
from ackproof_spark.spark.small_data import from_rows, local
from ackproof_spark.spark.storage import address, store
from ackproof_spark.tables import LOCATION, LOST_STORIES, SCHEMA_VERSION, columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A row of `tables.CAUSES`. `window` is the fault that hit the leader, if any."""

    topic: str
    partition: int
    case: Case
    count: int
    first_offset: int | None
    last_offset: int | None
    first_acked_at: datetime | None
    last_acked_at: datetime | None
    window: int | None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Story:
    """The records of one story: a row of the aggregation, and its classification."""

    row: Mapping[str, Any]
    circumstances: Circumstances
    case: Case
    phrase: str


def explain(
    run: StoredRun,
    run_id: str,
    *,
    few: bool,
    settings: Mapping[str, Settings],
    faults: Mapping[str, FaultKind],
) -> list[Cause]:
    """Store the run's `lost_stories`; return the causes, most losses first.

    `settings` are by topic, `faults` by name.
    """
    lost = run["anomalies"].where(F.col("anomaly") == Anomaly.LOST)
    history = History.read(run)
    occupied = _occupied(run).join(lost.select(*PLACE), PLACE, "left_semi")
    with ExitStack() as caches:
        stories = stories_of(lost, occupied, history, transactions=run["transactions"])
        if few:
            stories = local(stories)
        else:
            caches.callback(stories.persist().unpersist)
        distinct = _stories(stories, history, run, _faults(run, faults), settings)
        place_of_table = f"{address(run.run_dir)}/{LOCATION['lost_stories']}"
        store(_table(stories, distinct, run_id), place_of_table, few=few)
    return sorted(_merged(distinct), key=lambda cause: (-cause.count, cause.topic, cause.partition))


def _occupied(run: StoredRun) -> DataFrame:
    """Return the offsets of records that were read, of closing records, and of markers.

    The closing record of a partition, which the harness wrote, is at its `end_offset`.
    """
    closing = run["partition_ends"].select(*PARTITION, F.col("end_offset").alias("offset"))
    markers = run["replica_batches"].where("control")
    return (
        run["final_log"]
        .select(*PLACE)
        .unionByName(closing)
        .unionByName(markers.select(*PARTITION, F.col("base_offset").alias("offset")))
    )


def _faults(run: StoredRun, kinds: Mapping[str, FaultKind]) -> list[Fault]:
    until = F.coalesce("recovered_at", "healed_at").alias("until")
    rows = rows_of(
        run.listed("fault_windows").select(
            "window", "fault", "nodes", "parameters", "injected_at", until
        )
    )
    faults = [Fault.of_window(row, kinds.get(row["fault"], FaultKind())) for row in rows]
    return [fault for fault in faults if not fault.kind.control]


def _stories(
    stories: DataFrame,
    history: History,
    run: StoredRun,
    faults: Sequence[Fault],
    settings: Mapping[str, Settings],
) -> list[_Story]:
    rows = rows_of(
        stories.groupBy(STORY, *SHARED).agg(
            F.count("*").alias("count"),
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
            F.min("sent_at").alias("first_sent_at"),
            F.min("resolved_at").alias("first_acked_at"),
            F.max("resolved_at").alias("last_acked_at"),
        )
    )
    unread = [row for row in rows if row["held_by"] and not (row["standing"] or row["hung"])]
    aborted = _aborted(unread, run)
    distinct = []
    for row in rows:
        history_here = history.terms.get((row["topic"], row["partition"]), ())
        of_place = {term.epoch: term for term in history_here}
        circumstances = _circumstances(
            row,
            of_place,
            faults,
            settings[row["topic"]],
            aborted=row[STORY] in aborted,
            recreated_at=history.recreated_at.get((row["topic"], row["partition"])),
        )
        case, headline = classify(circumstances)
        distinct.append(
            _Story(
                row=row,
                circumstances=circumstances,
                case=case,
                phrase=cause(circumstances, headline, _cut(row["truncation"])),
            )
        )
    return distinct


def _aborted(unread: Sequence[Mapping[str, Any]], run: StoredRun) -> set[int]:
    """Return the stories whose first and last records are in transactions that markers ended.

    The marker has the producer epoch of the records. A coordinator raises it if it aborts a
    transaction by itself: after its timeout, or for a successor of its producer.
    """
    if not unread:
        return set()
    offsets = [
        (row[STORY], row["topic"], row["partition"], offset)
        for row in unread
        for offset in {row["first_offset"], row["last_offset"]}
    ]
    batches = run["replica_batches"].where("transactional")
    asked = from_rows(
        run.spark,
        offsets,
        columns(f"{STORY} bigint, topic string, partition int, offset bigint"),
    )
    of = ["topic", "partition", "broker", "producer_id"]
    markers = batches.where("control").select(
        *of, F.col("base_offset").alias("marker"), F.col("producer_epoch").alias("marker_epoch")
    )
    ended = (
        F.broadcast(asked)
        .join(batches.where("not control"), ["topic", "partition"])
        .where("offset between base_offset and last_offset")
        .join(markers, of)
        .where("marker > last_offset")
        .groupBy(STORY, "offset", "broker", "producer_epoch")
        .agg(F.min_by("marker_epoch", "marker").alias("marker_epoch"))
        .where("marker_epoch = producer_epoch")
        .select(STORY, "offset")
        .distinct()
    )
    with_marker = Counter(row[STORY] for row in ended.collect())
    asked_of = Counter(story for story, *_ in offsets)
    return {story for story, count in with_marker.items() if count == asked_of[story]}


def _circumstances(
    row: Mapping[str, Any],
    terms: Mapping[int, Term],
    faults: Iterable[Fault],
    settings: Settings,
    *,
    aborted: bool,
    recreated_at: datetime | None,
) -> Circumstances:
    if row["of_probe"]:
        settings = replace(settings, acks="all")
    following = terms.get(row["next_epoch"])
    begin = row["first_sent_at"]
    # A zombie leader continues to ack after the election.
    ends = (
        following and following.elected_at,
        row["last_acked_at"],
        recreated_at if row["recreated"] else None,
    )
    end = max(filter(None, ends), default=None)
    return Circumstances(
        settings=settings,
        acked=terms.get(row["acked_epoch"]),
        isr=tuple(row["isr"]),
        next=following,
        offsets=None if row["first_offset"] is None else (row["first_offset"], row["last_offset"]),
        zombie=row["zombie"],
        older=row["older"],
        standing=row["standing"],
        held_by=tuple(row["held_by"]),
        aborted=aborted,
        hung=row["hung"],
        skipped=row["skipped_marker"],
        recreated=row["recreated"],
        truncated=row["truncated"],
        truncated_before=row["truncated_before"],
        timely=row["timely"],
        faults=tuple(
            fault
            for fault in faults
            if (end is None or fault.injected_at <= end)
            and (fault.until is None or begin is None or fault.until >= begin)
        ),
    )


def _cut(truncation: Any) -> Cut | None:
    if truncation is None:
        return None
    return Cut(
        broker=truncation["broker"],
        to=truncation["offset"],
        at=EPOCH + timedelta(microseconds=truncation["at"]),
        below=truncation["below"],
    )


def _merged(stories: Sequence[_Story]) -> list[Cause]:
    """Return one cause for each partition, case and phrase."""
    groups: dict[tuple[str, int, Case, str], list[_Story]] = defaultdict(list)
    for story in stories:
        partition = story.row["topic"], story.row["partition"]
        groups[(*partition, story.case, story.phrase)].append(story)
    return [_cause(*key, group) for key, group in groups.items()]


def _cause(topic: str, partition: int, case: Case, phrase: str, group: Sequence[_Story]) -> Cause:
    def known(name: str) -> list[Any]:
        return [story.row[name] for story in group if story.row[name] is not None]

    count = sum(story.row["count"] for story in group)
    first_offset = min(known("first_offset"), default=None)
    last_offset = max(known("last_offset"), default=None)
    offsets = None
    if first_offset is not None and last_offset is not None:
        offsets = first_offset, last_offset
    fault = decisive(group[0].circumstances)
    return Cause(
        topic=topic,
        partition=partition,
        case=case,
        count=count,
        first_offset=first_offset,
        last_offset=last_offset,
        first_acked_at=min(known("first_acked_at"), default=None),
        last_acked_at=max(known("last_acked_at"), default=None),
        window=None if fault is None else fault.window,
        sentence=counted(count, topic, partition, offsets, phrase),
    )


_MEANING = columns(
    f"{STORY} bigint, leader int?, leader_epoch int?, next_leader int?, next_leader_epoch int?, "
    "next_leader_start bigint?, next_leader_high_watermark bigint?, elected_at timestamp?, "
    "election string?, case string, cause string"
)


def _table(stories: DataFrame, distinct: Sequence[_Story], run_id: str) -> DataFrame:
    """Return `tables.LOST_STORIES`: every lost record with the classification of its story."""
    meaning = from_rows(stories.sparkSession, map(_meaning, distinct), _MEANING)
    truncation = F.col("truncation")
    columns: dict[str, Column] = {
        "schema_version": F.lit(SCHEMA_VERSION),
        "run_id": F.lit(run_id),
        "acked_at": F.col("resolved_at"),
        "truncated_by": truncation["broker"],
        "truncated_to": truncation["offset"],
        "truncated_at": F.timestamp_micros(truncation["at"]),
    }
    return stories.join(F.broadcast(meaning), STORY).withColumns(columns).select(LOST_STORIES.names)


def _meaning(story: _Story) -> tuple[Any, ...]:
    acked, following = story.circumstances.acked, story.circumstances.next
    return (
        story.row[STORY],
        acked and acked.leader,
        acked and acked.epoch,
        following and following.leader,
        following and following.epoch,
        following and following.start,
        following and following.high_watermark,
        following and following.elected_at,
        following and following.election.value,
        story.case.value,
        story.phrase,
    )
