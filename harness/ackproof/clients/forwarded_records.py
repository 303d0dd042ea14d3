"""What consumers sent on into other topics, as those who rely on it can read it: `read_committed`.

That is their effect (`effects`). A record that was made of another one names it in its key
(`clients.forwarding`). Where one goes into several topics, it counts as processed once it is in all
of them, and as often as it is in the one that has it most::

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

#: How long brokers may take to give the next records, and how long a poll gathers them, seconds.
_READ_S = 30.0
_POLL_S = 0.1
_AT_ONCE = 10_000

#: A record that was made, without when: of which topic, partition and offset, and whose send.
_Made = tuple[str, int, int, int, int]


def take(
    run_dir: Path,
    *,
    run_id: str,
    of: str,
    groups: Mapping[str, Sequence[str]],
    ends: Mapping[tuple[str, int], int],
    settings: Mapping[str, Any],
) -> None:
    """Write the effects of groups that send on what they read in the topic `of`.

    `groups` are the topics that each sends on into, of its own, `ends` where their partitions end,
    and `settings` those of a client of the cluster. Raises `WorkloadError` if the topics cannot be
    read up to there, and `DiskError`.
    """
    token = run_token(run_id)
    for group, topics in groups.items():
        places = {place: end for place, end in ends.items() if place[0] in topics}
        times: dict[_Made, Counter[str]] = defaultdict(Counter)
        made_at: dict[_Made, tuple[int, int]] = {}
        for topic, key, value, at in _records(places, settings):
            name = decode(value)
            if name is None or name[0] != token or len(key) != KEY.size:
                continue
            partition, offset, consumer = KEY.unpack(key)
            made = (of, partition, offset, *name[1:])
            times[made][topic] += 1
            made_at.setdefault(made, (consumer, at))
        rows: dict[int, list[Effect]] = defaultdict(list)
        for made, counts in times.items():
            consumer, at = made_at[made]
            if len(counts) == len(topics):
                rows[consumer] += [(*made, at)] * max(counts.values())
        for consumer, found in sorted(rows.items()):
            process = f"consumer-{consumer}"
            processed_records.write(
                run_dir, process, found, run_id=run_id, consumer=consumer, group=group
            )


def _records(
    ends: Mapping[tuple[str, int], int], settings: Mapping[str, Any]
) -> Iterator[tuple[str, bytes, bytes, int]]:
    """Yield topic, key, value and time (microseconds) of what is committed below `ends`."""
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
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in ends])
        left = {place for place, end in ends.items() if end > 0}
        came = time.monotonic()
        while left:
            polled = consumer.consume(_AT_ONCE, _POLL_S)
            if polled:
                came = time.monotonic()
            elif time.monotonic() - came > _READ_S:
                raise WorkloadError(
                    f"what was sent on cannot be read: nothing came of {sorted(left)} within "
                    f"{_READ_S:g} s",
                    hint="an open transaction keeps readers from what stands behind it",
                )
            for message in polled:
                place = message.topic(), message.partition()
                if message.error() is None and message.offset() < ends[place]:
                    at = message.timestamp()[1] * 1000
                    yield place[0], message.key() or b"", message.value() or b"", at
            for place in list(left):
                (position,) = consumer.position([TopicPartition(*place)])
                if position.offset >= ends[place]:
                    left.discard(place)
    finally:
        consumer.close()
