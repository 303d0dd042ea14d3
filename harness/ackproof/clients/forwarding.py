"""Consume, transform, produce: a consumer processes a record by forwarding it to other topics.

A forwarded record keeps the value, which names the send; its key names the source record. With
`Commit.TRANSACTION` the forwarded records and the offsets of their source records are one
transaction (KIP-98, KIP-447): both are committed or neither is.

After a run the forwarded records are read as effects, with read_committed. A record counts as
processed if it is in all target topics, as often as its maximum number of copies in one of them::

    invoices  6 7 7     audit  6 7     ->  6 once, 7 twice (reprocessed)
    invoices  6 7       audit  6       ->  6 once, 7 not (unprocessed)
"""

from __future__ import annotations

import struct
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from ackproof.clients.specs import ConsumerSpec
from ackproof.clients.transactional import retry_transaction_request
from ackproof.errors import WorkloadError
from ackproof.ledger.arrow_stream import TableStream, stream_path
from ackproof.scenario.types import FORWARDING_TIMEOUT_MS, Commit
from ackproof_model.kafka_settings import (
    DELIVERY_TIMEOUT_MS,
    ENABLE_AUTO_COMMIT,
    ENABLE_IDEMPOTENCE,
    ISOLATION_LEVEL,
    TRANSACTION_TIMEOUT_MS,
    TRANSACTIONAL_ID,
)
from ackproof_spark.record import decode, run_token
from ackproof_spark.tables import EFFECTS

#: The columns that identify a record that was read.
RECORD = ("partition", "offset", "producer", "sequence")

#: The key of a forwarded record: partition and offset of the source record, consumer number.
KEY = struct.Struct(">iqq")

SETTINGS = {
    "acks": "all",
    ENABLE_IDEMPOTENCE: True,
    DELIVERY_TIMEOUT_MS: FORWARDING_TIMEOUT_MS,
}


class Forwarder:
    """Forwards the records of one consumer.

    Raises `WorkloadError` for a fatal error, and if the consumer is fenced because its successor
    has initialized the transactional.id.
    """

    def __init__(self, spec: ConsumerSpec, secrets: Mapping[str, str]) -> None:
        self._spec = spec
        self._in_transactions = spec.commit is Commit.TRANSACTION
        own: dict[str, Any] = {}
        if self._in_transactions:
            own = {
                TRANSACTIONAL_ID: spec.transactional_id,
                TRANSACTION_TIMEOUT_MS: FORWARDING_TIMEOUT_MS,
            }
        self._producer = Producer(
            {
                "bootstrap.servers": spec.bootstrap_servers,
                "client.id": f"ackproof-forwarder-{spec.number}",
                **SETTINGS,
                **own,
                **secrets,
            }
        )
        if self._in_transactions:
            self._require(retry_transaction_request(self._producer.init_transactions))

    def send(self, messages: Sequence[Message]) -> bool:
        """Forward records and wait for their acks; return whether all were acked."""
        refused: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                refused.append(error)

        try:
            if self._in_transactions:
                self._producer.begin_transaction()
            for message in messages:
                partition, offset = message.partition(), message.offset()
                key = KEY.pack(partition, offset, self._spec.number)
                for topic, partitions in self._spec.into.items():
                    self._producer.produce(
                        topic,
                        message.value(),
                        key,
                        partition % partitions,
                        on_delivery=on_delivery,
                    )
            self._producer.flush()
        except (KafkaException, SystemError) as failure:
            # A fatal error within a callback is the cause of a SystemError.
            fatal = failure if isinstance(failure, KafkaException) else failure.__cause__
            if not isinstance(fatal, KafkaException):
                raise
            self._require(fatal.args[0])
        return not refused

    def commit(self, offsets: Sequence[TopicPartition], group: Any) -> KafkaError | None:
        """Commit the transaction with these offsets of `group`.

        Return the error if it was refused and is aborted. Raises `WorkloadError` if its outcome is
        unknown.
        """
        error = retry_transaction_request(
            lambda timeout: self._producer.send_offsets_to_transaction(
                list(offsets), group, timeout
            )
        )
        if error is None:
            error = retry_transaction_request(self._producer.commit_transaction)
        if error is not None:
            if not error.txn_requires_abort():
                self._require(error)
            self.abort()
        return error

    def abort(self) -> None:
        self._require(retry_transaction_request(self._producer.abort_transaction))

    def _require(self, error: KafkaError | None) -> None:
        if error is not None:
            raise WorkloadError(
                f"consumer {self._spec.number} cannot forward records as "
                f"{self._spec.transactional_id!r}: {error.str()}",
                hint="Another producer with this transactional.id has fenced it, or no transaction "
                "coordinator is available.",
            )


#: Seconds without a record after which reading fails; seconds and records of one poll.
_READ_S = 30.0
_POLL_S = 0.1
_POLL_RECORDS = 10_000

#: Partition and offset of a source record; producer and sequence of its send.
_Source = tuple[int, int, int, int]


def take(
    run_dir: Path,
    *,
    run_id: str,
    source: str,
    groups: Mapping[str, Sequence[str]],
    ends: Mapping[tuple[str, int], int],
    settings: Mapping[str, Any],
) -> None:
    """Write the streams of effects of groups that forward records of the topic `source`.

    `groups` maps each group to its target topics, which no other group has. `ends` are the end
    offsets of their partitions. Raises `WorkloadError` if they cannot be read up to `ends`, and
    `DiskError`.
    """
    token = run_token(run_id)
    for group, topics in groups.items():
        copies: dict[_Source, Counter[str]] = defaultdict(Counter)
        first_copy: dict[_Source, tuple[int, int]] = {}
        group_ends = {key: end for key, end in ends.items() if key[0] in topics}
        for message in messages_below(group_ends, settings):
            key, name = message.key() or b"", decode(message.value() or b"")
            if name is None or name[0] != token or len(key) != KEY.size:
                continue
            partition, offset, consumer = KEY.unpack(key)
            record = (partition, offset, *name[1:])
            copies[record][message.topic()] += 1
            first_copy.setdefault(record, (consumer, message.timestamp()[1] * 1000))
        effects: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        for record, counts in copies.items():
            consumer, at = first_copy[record]
            if len(counts) == len(topics):
                effects[consumer] += [(*record, at)] * max(counts.values())
        for consumer, rows in sorted(effects.items()):
            stream = TableStream(
                stream_path(run_dir, "effects", f"consumer-{consumer}"),
                EFFECTS,
                {"run_id": run_id, "consumer": consumer, "group": group, "topic": source},
            )
            stream.write_rows((*RECORD, "processed_at"), rows)
            stream.close()


def messages_below(
    ends: Mapping[tuple[str, int], int], settings: Mapping[str, Any]
) -> Iterator[Message]:
    """Yield the committed records below `ends`.

    Raises `WorkloadError` if they cannot be read.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            **settings,
            "group.id": "ackproof",
            ENABLE_AUTO_COMMIT: False,
            ISOLATION_LEVEL: "read_committed",
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
                    f"records cannot be read to the end: {sorted(unfinished)} returned nothing for "
                    f"{_READ_S:g} s",
                    hint="An open transaction blocks read_committed consumers at the LSO.",
                )
            for message in polled:
                end = ends[message.topic(), message.partition()]
                if message.error() is None and message.offset() < end:
                    yield message
            for key in list(unfinished):
                (position,) = consumer.position([TopicPartition(*key)])
                if position.offset >= ends[key]:
                    unfinished.discard(key)
    finally:
        consumer.close()
