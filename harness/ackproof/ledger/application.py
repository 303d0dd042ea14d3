"""The ledger of somebody else's application: what its own producers were told, against the log.

An application under test has its own producers, and its records no header of ours. What it was told
is taken from its delivery reports::

    ledger = Ledger()
    producer.produce("orders", value, on_delivery=ledger.on_delivery)

`verify` reads every partition that the ledger knows from begin to end, and compares records by
partition, key and value, as often as they occur: offsets change when a log is cut and written
anew, so a record that stands elsewhere than it was acked is not lost. Two records that are equal in
all three cannot be told apart; one of them lost, another written twice, is missed. Give records
something unique.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ackproof.errors import ClusterError
from ackproof.ledger.outcome import classify
from ackproof_spark.tables import Outcome

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    from ackproof.cluster.cluster import KafkaCluster

Place = tuple[str, int]

#: Lists of evidence show so many.
_SHOWN = 8
_READ_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AckedRecord:
    """A record that its application was told is written."""

    topic: str
    partition: int
    #: None with acks=0.
    offset: int | None
    key: bytes | None
    digest: bytes

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition}"
        at = "without an offset" if self.offset is None else f"at offset {self.offset}"
        return f"LOST {where}, acked {at}, key {self.key!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What became of an application's records; `lost` are acked, and absent from the final log."""

    acked: int
    failed: int
    unknown: int
    read: int
    lost: tuple[AckedRecord, ...] = field(repr=False)
    duplicated: int

    @property
    def holds(self) -> bool:
        """Whether nothing that was acked is lost, and something was acked at all."""
        return self.acked > 0 and not self.lost

    def evidence(self) -> str:
        """Return what was found, for people: the first lost records, and how many there are."""
        lines = [
            f"{len(self.lost):,} of {self.acked:,} acked records are lost "
            f"({self.failed:,} failed, {self.unknown:,} unknown, {self.duplicated:,} duplicates)"
        ]
        if not self.acked:
            lines = ["nothing was acked, so nothing could be lost: inconclusive"]
        lines += [str(record) for record in self.lost[:_SHOWN]]
        if len(self.lost) > _SHOWN:
            lines.append(f"… and {len(self.lost) - _SHOWN:,} more")
        return "\n".join(lines)


class Ledger:
    """Collects delivery reports; safe to share among producers and threads."""

    def __init__(self, cluster: KafkaCluster | None = None) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._acked: list[AckedRecord] = []
        self._outcomes: Counter[Outcome] = Counter()
        self._sent: Counter[tuple[Place, bytes]] = Counter()

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Take one delivery report: confluent-kafka's `on_delivery` callback."""
        outcome = classify(error, sole_attempt=False)
        topic, partition = message.topic(), message.partition()
        assert topic is not None
        place = (topic, -1 if partition is None else partition)
        digest = _digest(message)
        offset = message.offset()
        with self._lock:
            self._outcomes[outcome] += 1
            self._sent[place, digest] += 1
            if outcome is Outcome.ACKED:
                self._acked.append(
                    AckedRecord(
                        topic=place[0],
                        partition=place[1],
                        offset=offset if offset is not None and offset >= 0 else None,
                        key=_bytes(message.key()),
                        digest=digest,
                    )
                )

    @property
    def acked(self) -> int:
        """How many records were acked so far."""
        with self._lock:
            return len(self._acked)

    def verify(self, cluster: KafkaCluster | None = None) -> Verification:
        """Wait for full ISR, read the final log, and say which acked records are not in it.

        Call it when every fault is healed and every producer is flushed. Raises ClusterError if
        the ISR is not full in time or the log cannot be read to its end.
        """
        cluster = cluster or self._cluster
        if cluster is None:
            raise ClusterError("this ledger knows no cluster", hint="verify(cluster)")
        with self._lock:
            acked, sent = list(self._acked), self._sent.copy()
            outcomes = self._outcomes.copy()
        places = sorted({(one.topic, one.partition) for one in acked})
        found: Counter[tuple[Place, bytes]] = Counter()
        if places:
            cluster.await_full_isr(places)
            found = _read(cluster, places)
        left = found.copy()
        lost = []
        for record in acked:
            name = ((record.topic, record.partition), record.digest)
            if left[name]:
                left[name] -= 1
            else:
                lost.append(record)
        return Verification(
            acked=len(acked),
            failed=outcomes[Outcome.FAILED],
            unknown=outcomes[Outcome.UNKNOWN],
            read=sum(found.values()),
            lost=tuple(lost),
            duplicated=sum(
                max(0, count - sent[name]) for name, count in found.items() if sent[name]
            ),
        )


def _read(cluster: KafkaCluster, places: Sequence[Place]) -> Counter[tuple[Place, bytes]]:
    from time import monotonic

    from confluent_kafka import Consumer, KafkaException, TopicPartition

    begins = cluster.admin.begin_offsets(places)
    ends = cluster.admin.write_end_markers(places)
    missing = {place for place in places if begins[place] < ends[place]}
    found: Counter[tuple[Place, bytes]] = Counter()
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
        consumer.assign([TopicPartition(*place, begins[place]) for place in missing])
        deadline = monotonic() + _READ_WITHIN_S
        while missing:
            if monotonic() > deadline:
                late = ", ".join(f"{topic}-{n}" for topic, n in sorted(missing))
                raise ClusterError(f"not read to the end after {_READ_WITHIN_S:g} s: {late}")
            for message in consumer.consume(1000, 1.0):
                place = (str(message.topic()), int(message.partition() or 0))
                offset = message.offset() or 0
                if message.error() is not None:
                    if message.error().name() != "_PARTITION_EOF":
                        raise ClusterError(f"the log cannot be read: {message.error().str()}")
                elif offset < ends[place]:
                    deadline = monotonic() + _READ_WITHIN_S
                    found[place, _digest(message)] += 1
                # Transactions' markers take offsets that no consumer sees: the end may be one.
                if offset + (message.error() is None) >= ends[place]:
                    missing.discard(place)
    except KafkaException as error:
        raise ClusterError(f"the log cannot be read: {error.args[0].str()}") from error
    finally:
        consumer.close()
    return found


def _digest(message: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in (_bytes(message.key()), _bytes(message.value())):
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    return digest.digest()


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
