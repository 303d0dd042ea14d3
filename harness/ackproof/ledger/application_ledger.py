"""A ledger for an application under test: its delivery reports against the final log.

The application has its own producers, and its records have no header of ackproof's. The ledger
takes their delivery reports::

    ledger = Ledger(cluster)
    producer.produce("orders", value, on_delivery=ledger.on_delivery)

`verify` reads every acked partition from begin to end, and counts records by partition, key and
value. Offsets are not compared: they change when a log is truncated and written again. Records need
a unique key or value: if one of two equal records is lost and the other is duplicated, `verify`
misses the loss.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from ackproof.errors import ClusterError
from ackproof.ledger.acked_log import AckedLogWriter, AckedSend, LogProblems
from ackproof.ledger.acked_log import read as read_log
from ackproof.ledger.outcome import classify
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.kafka_settings import AUTO_OFFSET_RESET, ENABLE_AUTO_COMMIT
from ackproof_spark.tables import Outcome

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

#: Number of lost records that the evidence lists.
_SHOWN = 8
_READ_WITHIN_S = 60.0


class LogOffsets(Protocol):
    """The offsets between which a partition is read."""

    def begin_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the earliest offset of each partition."""

    def write_end_markers(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Write one record to each partition with acks=all, and return its offset."""


class LedgerCluster(Protocol):
    """The operations of a cluster that a ledger needs to read its final log."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def client_settings(self) -> dict[str, str]:
        """Security settings of librdkafka clients."""

    @property
    def admin(self) -> LogOffsets: ...

    def await_full_isr(self, partitions: Sequence[TopicPartition]) -> None:
        """Wait until each partition has a leader and a full ISR; raise ClusterError if not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Outcomes of an application's sends; `lost` are acked and absent from the final log."""

    acked: int
    failed: int
    unknown: int
    read: int
    lost: tuple[AckedSend, ...] = field(repr=False)
    duplicated: int

    @property
    def holds(self) -> bool:
        """Whether at least one record was acked and no acked record is lost."""
        return self.acked > 0 and not self.lost

    def evidence(self) -> str:
        lines = [
            f"{len(self.lost):,} of {self.acked:,} acked records are lost "
            f"({self.failed:,} failed, {self.unknown:,} unknown, {self.duplicated:,} duplicates)"
        ]
        if not self.acked:
            lines = ["inconclusive: no record was acked, so none can be lost"]
        lines += [f"LOST {send}" for send in self.lost[:_SHOWN]]
        if len(self.lost) > _SHOWN:
            lines.append(f"… and {len(self.lost) - _SHOWN:,} more")
        return "\n".join(lines)


class Ledger:
    """Collects delivery reports; thread-safe.

    With a `path` each report is appended to an acked log (`acked_log`) by one write. Reports then
    survive the end of the process, and only counts are in memory.
    """

    def __init__(self, cluster: LedgerCluster, *, path: Path | None = None) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._outcomes: Counter[Outcome] = Counter()
        self._sends: list[AckedSend] = []
        self._log = None if path is None else AckedLogWriter(path)

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Record one delivery report: confluent-kafka's `on_delivery` callback.

        Raises DiskError if the acked log cannot be written.
        """
        send = _send(error, message)
        with self._lock:
            self._outcomes[send.outcome] += 1
            if self._log is None:
                self._sends.append(send)
            else:
                self._log.append(send)

    def close(self) -> None:
        """Close the acked log, if there is one; `verify` still works."""
        if self._log is not None:
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def acked(self) -> int:
        with self._lock:
            return self._outcomes[Outcome.ACKED]

    def verify(self) -> Verification:
        """Wait for full ISR, read the final log, and compare it with the delivery reports.

        Call it when every fault is healed and every producer is flushed. It writes one record to
        each partition, whose ack proves that the high watermark has passed all acked records.
        An acked log is read completely, including earlier contents, which needs some hundred bytes
        of memory a send (`ackproof check` of an acked log needs less).
        Raises ClusterError if the ISR is not full in time or the log cannot be read to its end.
        """
        with self._lock:
            sends = list(
                self._sends if self._log is None else read_log(self._log.path, LogProblems())
            )
        outcomes = Counter(send.outcome for send in sends)
        acked = [send for send in sends if send.outcome is Outcome.ACKED]
        sent = Counter((_partition_of(send), send.identity) for send in sends)
        partitions = sorted({_partition_of(send) for send in acked})
        read: Counter[tuple[TopicPartition, str]] = Counter()
        if partitions:
            self._cluster.await_full_isr(partitions)
            read = _read(self._cluster, partitions)
        unmatched = read.copy()
        lost = []
        for send in acked:
            identity = (_partition_of(send), send.identity)
            if unmatched[identity]:
                unmatched[identity] -= 1
            else:
                lost.append(send)
        return Verification(
            acked=len(acked),
            failed=outcomes[Outcome.FAILED],
            unknown=outcomes[Outcome.UNKNOWN],
            read=sum(read.values()),
            lost=tuple(lost),
            duplicated=sum(
                max(0, count - sent[record]) for record, count in read.items() if sent[record]
            ),
        )


def _read(
    cluster: LedgerCluster, partitions: Sequence[TopicPartition]
) -> Counter[tuple[TopicPartition, str]]:
    from confluent_kafka import Consumer, KafkaException
    from confluent_kafka import TopicPartition as KafkaPartition

    begins = cluster.admin.begin_offsets(partitions)
    ends = cluster.admin.write_end_markers(partitions)
    unread = {one for one in partitions if begins[one] < ends[one]}
    read: Counter[tuple[TopicPartition, str]] = Counter()
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            **cluster.client_settings,
            "group.id": "ackproof-verify",
            ENABLE_AUTO_COMMIT: False,
            "enable.partition.eof": True,
            AUTO_OFFSET_RESET: "error",
            "log_level": 0,
        }
    )
    try:
        consumer.assign([KafkaPartition(*one, begins[one]) for one in unread])
        deadline = time.monotonic() + _READ_WITHIN_S
        while unread:
            if time.monotonic() > deadline:
                late = ", ".join(f"{topic}-{n}" for topic, n in sorted(unread))
                raise ClusterError(f"not read to the end after {_READ_WITHIN_S:g} s: {late}")
            for message in consumer.consume(1000, 1.0):
                partition = (str(message.topic()), int(message.partition() or 0))
                offset = message.offset() or 0
                if message.error() is not None:
                    if message.error().name() != "_PARTITION_EOF":
                        raise ClusterError(f"the log cannot be read: {message.error().str()}")
                elif offset < ends[partition]:
                    deadline = time.monotonic() + _READ_WITHIN_S
                    read[partition, _identity(message)] += 1
                # A transaction marker has an offset, perhaps the last, that no consumer returns.
                if offset + (message.error() is None) >= ends[partition]:
                    unread.discard(partition)
    except KafkaException as error:
        raise ClusterError(f"the log cannot be read: {error.args[0].str()}") from error
    finally:
        consumer.close()
    return read


def _send(error: KafkaError | None, message: Message) -> AckedSend:
    outcome = classify(error, sole_attempt=False)
    partition, offset = message.partition(), message.offset()
    now, latency = time.time(), message.latency()
    digest, key = _digest_and_key(message)
    return AckedSend(
        topic=str(message.topic()),
        partition=None if partition is None or partition < 0 else partition,
        offset=offset if outcome is Outcome.ACKED and offset is not None and offset >= 0 else None,
        outcome=outcome,
        digest=digest,
        key=key,
        error=None if error is None else str(error),
        sent_at=None if latency is None else _moment(now - latency),
        resolved_at=_moment(now),
    )


def _identity(message: Message) -> str:
    digest, key = _digest_and_key(message)
    return AckedSend(topic="-", partition=0, digest=digest, key=key).identity


def _digest_and_key(message: Message) -> tuple[str, str | None]:
    value, key = _bytes(message.value()), _bytes(message.key())
    digest = hashlib.sha256(value or b"").hexdigest()
    try:
        return digest, None if key is None else key.decode()
    except UnicodeDecodeError:
        return digest, None


def _partition_of(send: AckedSend) -> TopicPartition:
    return send.topic, -1 if send.partition is None else send.partition


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(round(seconds, 3), tz=UTC)


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
