"""Collects delivery reports and records them in batches.

The cost of a record limits the throughput of a run. The callback is the only Python code that runs
for each record. It only collects; many reports become columns of the ledger together.
`resolved_at` is the end of the poll that served the delivery report; for errors, the time of the
report.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, Message

from ackproof.clients.shared_page import ProgressPage, now_us
from ackproof.clients.specs import ProducerSpec
from ackproof.ledger.outcome import classify, earliest_resend_s
from ackproof.ledger.producer_ledger import InFlight, Int64s, LedgerWriter
from ackproof_spark.ledger_stream import OUTCOMES
from ackproof_spark.tables import Outcome

#: A thread that serves nothing for more microseconds than this has stalled.
STALL_US = 100_000

#: An ack is late because of the client if stalls make up more than this share of its latency.
SHARE = 0.1


class Stalls:
    def __init__(self) -> None:
        #: Begin and end of each stall, microseconds UTC, and the sum of all stalls at that time.
        self._at: list[int] = []
        self._total: list[int] = []

    def served(self, before: int, now: int) -> None:
        """Note a poll at `now` after one at `before`, microseconds UTC."""
        if now - before > STALL_US:
            total = self._total[-1] if self._total else 0
            self._at += (before, now)
            self._total += (total, total + now - before)

    def late(self, sent_at: Int64s, resolved_at: Int64s) -> int:
        """Return how many of these acks were late because of the client, not the cluster."""
        if not self._at:
            return 0
        stalled = np.interp(resolved_at, self._at, self._total)
        stalled -= np.interp(sent_at, self._at, self._total)
        bound = np.maximum(STALL_US, SHARE * (resolved_at - sent_at))
        return int(np.count_nonzero(stalled > bound))


#: Outcomes are recorded when this many acks are collected, or this many microseconds have passed.
RECORD_AT = 8192
RECORD_EVERY_US = 10_000

#: The largest size in bytes of a short value.
SHORT = 128

#: Sequences reserved at once; with a rate, at most the sends of a tenth of a second.
RESERVE = 8192

_ACKED = OUTCOMES.index(Outcome.ACKED)
_FAILED = OUTCOMES.index(Outcome.FAILED)
_UNKNOWN = OUTCOMES.index(Outcome.UNKNOWN)

#: The bytes of a value that contain the sequence, big-endian (see `ackproof_spark.record`).
_SEQUENCE = slice(24, 32)
_sequence = itemgetter(_SEQUENCE)

#: The errors of purged sends.
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})

OnDelivery = Callable[[KafkaError | None, Message], None]


def _offsets(messages: list[Message]) -> pa.Array:
    try:
        return pa.array(np.fromiter(map(Message.offset, messages), np.int64, len(messages)))
    except TypeError:
        # None if the broker sent no offset, for a resend that was a duplicate.
        return pa.array(list(map(Message.offset, messages)), pa.int64())


class DeliveryReports:
    """The delivery reports of one producer, on their way into its ledger."""

    def __init__(self, spec: ProducerSpec, ledger: LedgerWriter, page: ProgressPage) -> None:
        self._ledger = ledger
        self._page = page
        #: The length of values that are short and equally long, which are decoded together.
        self._stride = spec.size if spec.largest is None and spec.size <= SHORT else None
        self._limit = spec.records
        self._reserve_step = (
            RESERVE if spec.rate is None else max(1, min(RESERVE, int(spec.rate / 10)))
        )
        self._reserved = 0
        self._earliest_resend_s = earliest_resend_s(spec.settings)
        self._acks_have_offsets = spec.acks_have_offsets
        self._in_flight = InFlight()
        self._counts = [0] * len(OUTCOMES)
        self._sent = 0
        self._stalls = Stalls()
        self._served_at = self._recorded_at = now_us()
        self._delivered: list[Message] = []
        #: After each poll: the number of collected acks, and the time in microseconds UTC.
        self._stamps: list[tuple[int, int]] = []
        self._errors: list[tuple[KafkaError, Message]] = []
        self.on_delivery = self._on_each()

    @property
    def in_flight(self) -> int:
        """Sends without a recorded outcome, including those whose report is collected."""
        return self._in_flight.count

    def admit(self, first: int, stop: int) -> None:
        """Reserve sequences from `first` to `stop` (exclusive) before they are handed over."""
        self._in_flight.admit(first, stop)
        if stop > self._reserved:
            below = stop + self._reserve_step
            self._reserved = below if self._limit is None else min(below, self._limit)
            self._ledger.reserve(self._reserved)

    def grow(self, first: int, partitions: int) -> None:
        """Note that sends from `first` on may go to this number of partitions."""
        self._ledger.grow(first, partitions)

    @property
    def unanswered(self) -> int:
        return self._in_flight.count - len(self._delivered) - len(self._errors)

    def handed_over(self, sequences: Int64s, at: Int64s) -> None:
        self._in_flight.hand_over(sequences, at)
        self._sent += len(sequences)

    def refused(self, sequences: Int64s, code: int, at: int) -> None:
        """Record sends that librdkafka refused: they have failed, whatever the code."""
        self._sent += len(sequences)
        times = np.full(len(sequences), at, np.int64)
        self._ledger.write(
            sequence=sequences,
            outcome=_FAILED,
            error=pa.repeat(pa.scalar(code, pa.int16()), len(sequences)),
            sent_at=times,
            resolved_at=times,
        )
        self._counts[_FAILED] += len(sequences)

    def served(self) -> None:
        """Note the end of a poll; record reports if they are due; publish the counts."""
        now = now_us()
        self._stalls.served(self._served_at, now)
        self._served_at = now
        self._record(now, least=RECORD_AT)

    def _record(self, now: int, *, least: int) -> None:
        delivered = len(self._delivered)
        if delivered or self._errors:
            self._stamps.append((delivered, now))
            if delivered >= least or now - self._recorded_at >= RECORD_EVERY_US:
                self._record_delivered()
                self._record_errors()
                self._stamps.clear()
                self._recorded_at = now
        self._publish()

    def finish(self) -> None:
        """Record all collected reports, and sends without a report as unknown; close the ledger."""
        self._record(now_us(), least=0)
        rest = self._in_flight.rest()
        if len(rest):
            now = np.full(len(rest), now_us(), np.int64)
            sent_at = self._in_flight.settle(rest)
            self._ledger.write(sequence=rest, outcome=_UNKNOWN, sent_at=sent_at, resolved_at=now)
            self._counts[_UNKNOWN] += len(rest)
        self._publish()
        self._ledger.close()

    def _on_each(self) -> OnDelivery:
        delivered, errors = self._delivered.append, self._errors.append

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                delivered(message)
            else:
                errors((error, message))

        return on_delivery

    def on_last_of_batch(self, error: KafkaError | None, message: Message) -> None:
        # One poll may serve a whole queue of reports.
        self.on_delivery(error, message)
        if len(self._delivered) >= RECORD_AT:
            self._record(now_us(), least=RECORD_AT)

    def _record_delivered(self) -> None:
        messages = self._delivered
        if not messages:
            return
        sequence = self._sequences(messages)
        delivered, at = np.array(self._stamps, np.int64).T
        sent_at = self._in_flight.settle(sequence)
        resolved_at = np.repeat(at, np.diff(delivered, prepend=0))
        self._ledger.write(
            sequence=sequence,
            outcome=_ACKED,
            offset=_offsets(messages) if self._acks_have_offsets else None,
            sent_at=sent_at,
            resolved_at=resolved_at,
        )
        self._page.late += self._stalls.late(sent_at, resolved_at)
        self._counts[_ACKED] += len(messages)
        messages.clear()

    def _record_errors(self) -> None:
        if not self._errors:
            return
        errors, messages = zip(*self._errors, strict=True)
        sequence = self._sequences(list(messages))
        sent_at = self._in_flight.settle(sequence)
        latency = np.array([message.latency() for message in messages], np.float64)
        outcome = np.array(
            [
                OUTCOMES.index(classify(error, sole_attempt=after < self._earliest_resend_s))
                for error, after in zip(errors, latency, strict=True)
            ],
            np.int8,
        )
        self._ledger.write(
            sequence=sequence,
            outcome=outcome,
            error=pa.array([error.code() for error in errors], pa.int16()),
            sent_at=sent_at,
            resolved_at=sent_at + (latency * 1e6).astype(np.int64),
        )
        self._page.obeyed += sum(error.code() in _PURGED for error in errors)
        for position, count in enumerate(np.bincount(outcome, minlength=len(OUTCOMES))):
            self._counts[position] += int(count)
        self._errors.clear()

    def _sequences(self, messages: list[Message]) -> Int64s:
        values = map(Message.value, messages)
        if self._stride is not None:
            joined = b"".join(values)
            field = np.ndarray(len(messages), ">i8", joined, _SEQUENCE.start, (self._stride,))
            return field.astype(np.int64)
        return np.frombuffer(b"".join(map(_sequence, values)), ">i8").astype(np.int64)

    def _publish(self) -> None:
        counts = self._counts
        self._page.count(
            sent=self._sent,
            acked=counts[_ACKED],
            failed=counts[_FAILED],
            unknown=counts[_UNKNOWN],
            at=now_us(),
        )
