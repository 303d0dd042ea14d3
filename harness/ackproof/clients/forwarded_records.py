"""Reads the records that consumers forwarded to other topics, as their effects.

They are read with read_committed, as an application would. A forwarded record names its source
record in its key (`clients.forwarding`). A record forwarded to several topics counts as processed
when it is in all of them, and as often as in the topic that has it most often::

    invoices  6 7 7     audit  6 7     ->  6 once, 7 twice (reprocessed)
    invoices  6 7       audit  6       ->  6 once, 7 not (unprocessed)
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ackproof.clients.forwarding import KEY
from ackproof.errors import WorkloadError
from ackproof.ledger import processed_records
from ackproof.ledger.processed_records import Effect
from ackproof_spark.record import decode, run_token

#: Seconds without a record after which reading fails; seconds and records of one poll.
_READ_S = 30.0
_POLL_S = 0.1
_POLL_RECORDS = 10_000

#: Topic, partition and offset of a source record; producer and sequence of its send.
_Source = tuple[str, int, int, int, int]


def take(
    run_dir: Path,
    *,
    run_id: str,
    source: str,
    groups: Mapping[str, Sequence[str]],
    ends: Mapping[tuple[str, int], int],
    settings: Mapping[str, Any],
) -> None:
    """Write the effects of consumer groups that forward records of the topic `source`.

    `groups` maps each group to its target topics; no two groups share one. `ends` are the end
    offsets of their partitions. Raises `WorkloadError` if they cannot be read up to there, and
    `DiskError`.
    """
    token = run_token(run_id)
    for group, topics in groups.items():
        copies: dict[_Source, Counter[str]] = defaultdict(Counter)
        first_copy: dict[_Source, tuple[int, int]] = {}
        group_ends = {key: end for key, end in ends.items() if key[0] in topics}
        for topic, key, value, at in _records(group_ends, settings):
            name = decode(value)
            if name is None or name[0] != token or len(key) != KEY.size:
                continue
            partition, offset, consumer = KEY.unpack(key)
            record = (source, partition, offset, *name[1:])
            copies[record][topic] += 1
            first_copy.setdefault(record, (consumer, at))
        effects: dict[int, list[Effect]] = defaultdict(list)
        for record, counts in copies.items():
            consumer, at = first_copy[record]
            if len(counts) == len(topics):
                effects[consumer] += [(*record, at)] * max(counts.values())
        for consumer, rows in sorted(effects.items()):
            process = f"consumer-{consumer}"
            processed_records.write(
                run_dir, process, rows, run_id=run_id, consumer=consumer, group=group
            )


def _records(
    ends: Mapping[tuple[str, int], int], settings: Mapping[str, Any]
) -> Iterator[tuple[str, bytes, bytes, int]]:
    """Yield topic, key, value and timestamp (microseconds) of committed records below `ends`."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            **settings,
            "group.id": "ackproof",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.assign([TopicPartition(*key, OFFSET_BEGINNING) for key in ends])
        unfinished = {key for key, end in ends.items() if end > 0}
        received_at = time.monotonic()
        while unfinished:
            polled = consumer.consume(_POLL_RECORDS, _POLL_S)
            if polled:
                received_at = time.monotonic()
            elif time.monotonic() - received_at > _READ_S:
                raise WorkloadError(
                    f"forwarded records cannot be read: {sorted(unfinished)} returned nothing for "
                    f"{_READ_S:g} s",
                    hint="An open transaction blocks read_committed consumers at the LSO.",
                )
            for message in polled:
                key = message.topic(), message.partition()
                if message.error() is None and message.offset() < ends[key]:
                    at = message.timestamp()[1] * 1000
                    yield key[0], message.key() or b"", message.value() or b"", at
            for key in list(unfinished):
                (position,) = consumer.position([TopicPartition(*key)])
                if position.offset >= ends[key]:
                    unfinished.discard(key)
    finally:
        consumer.close()
