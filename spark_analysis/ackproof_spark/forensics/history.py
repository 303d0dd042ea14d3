"""Evidence of a run that explains losses: terms, replicas, truncations, hanging transactions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa

from ackproof_spark.forensics.differences import EPOCH, in_sync, last_states, rows_of
from ackproof_spark.forensics.terms import Election, Partition, Term, lives_of, terms
from ackproof_spark.reading.run_tables import PARTITION, StoredRun
from ackproof_spark.spark.functions import F
from ackproof_spark.tables import columns


def _several(fields: str) -> pa.DataType:
    """Return an array of structs with these fields, each of which may be null."""
    listed = columns(fields)
    return pa.list_(pa.struct(list(zip(listed.names, listed.types, strict=True))))


_TERMS = _several(
    "epoch int, leader int, elected_at bigint, start bigint, unclean boolean, missed_since bigint"
)
_STATES = _several("at bigint, epoch int, isr array<int>")
_STRETCHES = _several("broker int, epoch int, low bigint, high bigint, leads boolean")
_TRUNCATIONS = _several("at bigint, broker int, offset bigint, below bigint")
_RANGES = _several("low bigint, high bigint")
#: The schema of `History.rows`.
FACTS = pa.schema(
    [
        *columns("topic string, partition int"),
        ("terms", _TERMS),
        ("states", _STATES),
        ("stretches", _STRETCHES),
        ("truncations", _TRUNCATIONS),
        ("hung", _RANGES),
        *columns("skipped array<bigint>, created_again bigint?"),
    ]
)

#: A broker logs its warning and its truncation one after the other.
_SLACK = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class History:
    """Terms and truncations of every partition; times have a time zone."""

    terms: Mapping[Partition, tuple[Term, ...]]
    #: Rows of `_STRETCHES`: the offsets of each epoch in each replica.
    stretches: Mapping[Partition, Sequence[tuple[int, int, int, int, bool]]]
    #: Rows of `tables.BROKER_EVENTS` of kind `truncated`, in order of time; `high_watermark`: that
    #: of the replica, if the broker warned that it truncates below it.
    truncations: Mapping[Partition, Sequence[Mapping[str, Any]]]
    #: Rows of `_RANGES`: the batches of transactions that hung until the harness aborted them.
    hung: Mapping[Partition, Sequence[tuple[int, int]]]
    #: When a coordinator skipped the marker of a transaction.
    skipped: Mapping[Partition, Sequence[datetime]]
    #: When the topic of a partition was created again.
    recreated_at: Mapping[Partition, datetime]

    @classmethod
    def read(cls, run: StoredRun) -> History:
        stretches = _stretches(run)
        starts: dict[tuple[str, int, int], int] = {}
        for (topic, partition), rows in stretches.items():
            for _, epoch, low, _, _ in rows:
                key = (topic, partition, epoch)
                starts[key] = min(low, starts.get(key, low))
        kinds = "'leader', 'loaded', 'truncated', 'below-high-watermark', 'marker-skipped'"
        events = rows_of(run.listed("broker_events").where(f"kind in ({kinds})"))
        warnings = [event for event in events if event["kind"] == "below-high-watermark"]
        truncations: dict[Partition, list[Mapping[str, Any]]] = defaultdict(list)
        skipped: dict[Partition, list[datetime]] = defaultdict(list)
        for event in sorted(events, key=lambda event: event["at"]):
            if event["kind"] == "truncated":
                below = {**event, "high_watermark": _warned(event, warnings)}
                truncations[event["topic"], event["partition"]].append(below)
            elif event["kind"] == "marker-skipped":
                skipped[event["topic"], event["partition"]].append(event["at"])
        others = [event for event in events if event["kind"] in ("leader", "loaded")]
        states = rows_of(run.listed("partition_states"))
        return cls(
            terms=terms(states, starts, others),
            stretches=stretches,
            truncations=truncations,
            hung=_hung(run),
            skipped=skipped,
            recreated_at={
                partition: lives[-1][0]["at"]
                for partition, lives in lives_of(states).items()
                if len(lives) > 1
            },
        )

    @cached_property
    def rows(self) -> list[tuple[Any, ...]]:
        """One row of `FACTS` a partition."""
        return [
            (
                *partition,
                [
                    (
                        term.epoch,
                        term.leader,
                        _micros(term.elected_at),
                        term.start,
                        term.election is Election.UNCLEAN,
                        None if term.missed_since is None else _micros(term.missed_since),
                    )
                    for term in history
                ],
                [(_micros(at), t.epoch, list(isr)) for t in history for at, isr in t.changes],
                list(self.stretches.get(partition, ())),
                [
                    (
                        _micros(event["at"]),
                        event["broker"],
                        event["offset"],
                        event["high_watermark"],
                    )
                    for event in self.truncations.get(partition, ())
                ],
                list(self.hung.get(partition, ())),
                list(map(_micros, self.skipped.get(partition, ()))),
                _micros(self.recreated_at[partition]) if partition in self.recreated_at else None,
            )
            for partition, history in self.terms.items()
        ]


def _warned(cut: Mapping[str, Any], warnings: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the high watermark that a truncation was below, by the broker's own warning."""
    of = (*PARTITION, "broker", "offset")
    return next(
        (
            one["high_watermark"]
            for one in warnings
            if all(one[key] == cut[key] for key in of) and abs(one["at"] - cut["at"]) <= _SLACK
        ),
        None,
    )


def _stretches(run: StoredRun) -> dict[Partition, list[tuple[int, int, int, int, bool]]]:
    replicas, states = in_sync(run), last_states(run)
    rows = (
        run["replica_batches"]
        .where("leader_epoch >= 0")
        .groupBy(*PARTITION, "broker", "leader_epoch")
        .agg(F.min("base_offset").alias("low"), F.max("last_offset").alias("high"))
        .collect()
    )
    stretches: dict[Partition, list[tuple[int, int, int, int, bool]]] = defaultdict(list)
    for topic, partition, broker, *offsets in rows:
        state = states.get((topic, partition))
        leads = (topic, partition, broker) in replicas and state and state["leader"] == broker
        stretches[topic, partition].append((broker, *offsets, bool(leads)))
    return stretches


def _hung(run: StoredRun) -> dict[Partition, list[tuple[int, int]]]:
    """Return the batches of transactions that the harness aborted.

    Such a transaction was open from its `start_offset` on until then, so that every later batch of
    its producer id belongs to it.
    """
    if not run.has("hanging_transactions"):
        return {}
    of = [*PARTITION, "producer_id"]
    rows = (
        run["replica_batches"]
        .where("transactional and not control")
        .join(F.broadcast(run["hanging_transactions"].where("aborted_at is not null")), of)
        .where("base_offset >= start_offset")
        .select(*PARTITION, "base_offset", "last_offset")
        .distinct()
        .collect()
    )
    hung: dict[Partition, list[tuple[int, int]]] = defaultdict(list)
    for topic, partition, low, high in rows:
        hung[topic, partition].append((low, high))
    return hung


def _micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)
