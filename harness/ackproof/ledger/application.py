"""A ledger for an application under test: its delivery reports against the final log.

The application has its own producers, and its records have no header of ackproof's. The ledger
takes their delivery reports::

    ledger = Ledger(cluster)
    producer.produce("orders", value, on_delivery=ledger.on_delivery)

`verify` reads every partition that the ledger knows from begin to end, and compares records by
partition, key and value, as often as they occur. Offsets are not compared: they change when a log
is truncated and written again. Records that are equal in all three cannot be told apart: if one of
them is lost and another is written twice, the loss is missed. Give records something unique.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ackproof.errors import ClusterError
from ackproof.ledger.outcome import classify
from ackproof_spark.tables import Outcome

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

#: A topic and a partition number.
Partition = tuple[str, int]

#: Number of lost records that the evidence lists.
_SHOWN = 8
_READ_WITHIN_S = 60.0


class LogOffsets(Protocol):
    """The offsets between which a partition is read."""

    def begin_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """Return the earliest offset of each partition."""

    def write_end_markers(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """Write one record to each partition with acks=all, and return its offset."""


class LedgerCluster(Protocol):
    """What a ledger needs of a cluster to read its final log."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def client_settings(self) -> dict[str, str]:
        """Security settings of librdkafka clients."""

    @property
    def admin(self) -> LogOffsets: ...

    def await_full_isr(self, partitions: Sequence[Partition]) -> None:
        """Wait until each partition has a leader and a full ISR; raise ClusterError if not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AckedRecord:
    """A record with a delivery report without error. `offset` is None with acks=0."""

    topic: str
    partition: int
    offset: int | None
    key: bytes | None
    digest: bytes

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition}"
        at = "without an offset" if self.offset is None else f"at offset {self.offset}"
        return f"LOST {where}, acked {at}, key {self.key!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Outcomes of an application's sends; `lost` are acked and absent from the final log."""

    acked: int
    failed: int
    unknown: int
    read: int
    lost: tuple[AckedRecord, ...] = field(repr=False)
    duplicated: int

    @property
    def holds(self) -> bool:
        """Whether at least one record was acked and no acked record is lost."""
        return self.acked > 0 and not self.lost

    def evidence(self) -> str:
        """Return the counts and the first lost records as text."""
        lines = [
            f"{len(self.lost):,} of {self.acked:,} acked records are lost "
            f"({self.failed:,} failed, {self.unknown:,} unknown, {self.duplicated:,} duplicates)"
        ]
        if not self.acked:
            lines = ["inconclusive: no record was acked, so none can be lost"]
        lines += [str(record) for record in self.lost[:_SHOWN]]
        if len(self.lost) > _SHOWN:
            lines.append(f"… and {len(self.lost) - _SHOWN:,} more")
        return "\n".join(lines)


class Ledger:
    """Collects delivery reports; thread-safe."""

    def __init__(self, cluster: LedgerCluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._acked: list[AckedRecord] = []
        self._outcomes: Counter[Outcome] = Counter()
        self._sent: Counter[tuple[Partition, bytes]] = Counter()

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Record one delivery report: confluent-kafka's `on_delivery` callback."""
        outcome = classify(error, sole_attempt=False)
        topic, partition = message.topic(), message.partition()
        assert topic is not None
        where = (topic, -1 if partition is None else partition)
        digest = _digest(message)
        offset = message.offset()
        with self._lock:
            self._outcomes[outcome] += 1
            self._sent[where, digest] += 1
            if outcome is Outcome.ACKED:
                self._acked.append(
                    AckedRecord(
                        topic=where[0],
                        partition=where[1],
                        offset=offset if offset is not None and offset >= 0 else None,
                        key=_bytes(message.key()),
                        digest=digest,
                    )
                )

    @property
    def acked(self) -> int:
        """The number of records acked so far."""
        with self._lock:
            return len(self._acked)

    def verify(self) -> Verification:
        """Wait for full ISR, read the final log, and compare it with the delivery reports.

        Call it when every fault is healed and every producer is flushed. It writes one record to
        each partition, whose ack proves that the high watermark has passed all acked records.
        Raises ClusterError if the ISR is not full in time or the log cannot be read to its end.
        """
        with self._lock:
            acked, sent = list(self._acked), self._sent.copy()
            outcomes = self._outcomes.copy()
        partitions = sorted({(one.topic, one.partition) for one in acked})
        read: Counter[tuple[Partition, bytes]] = Counter()
        if partitions:
            self._cluster.await_full_isr(partitions)
            read = _read(self._cluster, partitions)
        unmatched = read.copy()
        lost = []
        for record in acked:
            identity = ((record.topic, record.partition), record.digest)
            if unmatched[identity]:
                unmatched[identity] -= 1
            else:
                lost.append(record)
        return Verification(
            acked=len(acked),
            failed=outcomes[Outcome.FAILED],
            unknown=outcomes[Outcome.UNKNOWN],
            read=sum(read.values()),
            lost=tuple(lost),
            duplicated=sum(max(0, count - sent[one]) for one, count in read.items() if sent[one]),
        )


def _read(
    cluster: LedgerCluster, partitions: Sequence[Partition]
) -> Counter[tuple[Partition, bytes]]:
    from time import monotonic

    from confluent_kafka import Consumer, KafkaException, TopicPartition

    begins = cluster.admin.begin_offsets(partitions)
    ends = cluster.admin.write_end_markers(partitions)
    unread = {one for one in partitions if begins[one] < ends[one]}
    read: Counter[tuple[Partition, bytes]] = Counter()
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            **cluster.client_settings,
            "group.id": "ackproof-verify",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(*one, begins[one]) for one in unread])
        deadline = monotonic() + _READ_WITHIN_S
        while unread:
            if monotonic() > deadline:
                late = ", ".join(f"{topic}-{n}" for topic, n in sorted(unread))
                raise ClusterError(f"not read to the end after {_READ_WITHIN_S:g} s: {late}")
            for message in consumer.consume(1000, 1.0):
                partition = (str(message.topic()), int(message.partition() or 0))
                offset = message.offset() or 0
                if message.error() is not None:
                    if message.error().name() != "_PARTITION_EOF":
                        raise ClusterError(f"the log cannot be read: {message.error().str()}")
                elif offset < ends[partition]:
                    deadline = monotonic() + _READ_WITHIN_S
                    read[partition, _digest(message)] += 1
                # A transaction marker takes an offset that no consumer returns, also the last one.
                if offset + (message.error() is None) >= ends[partition]:
                    unread.discard(partition)
    except KafkaException as error:
        raise ClusterError(f"the log cannot be read: {error.args[0].str()}") from error
    finally:
        consumer.close()
    return read


def _digest(message: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in (_bytes(message.key()), _bytes(message.value())):
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    return digest.digest()


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
