"""The producer process: sends records and records the outcome of every send.

`python -m ackproof.clients.producer SPEC.json` (a `ProducerSpec`); `process` starts it.

One thread repeats three steps: hand a chunk of records to librdkafka, serve delivery reports,
record them (`delivery_reports`). `produce_batch` is called once for each partition of a chunk
(confluent-kafka 2.16 ignores the partition of a single message in a batch; versions before 2.12
have no `produce_batch` and get single messages). In an open loop
`sent_at` is the time at which a send was due, so that the delay of a stall counts as latency (no
coordinated omission); in a closed loop it is the time of the call.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from ackproof.clients import program
from ackproof.clients.connection import connect_producer, known_partitions, record_in_force
from ackproof.clients.delivery_reports import DeliveryReports
from ackproof.clients.records import Records, origin
from ackproof.clients.shared_page import Order, ProgressPage, State, now_us
from ackproof.clients.specs import ENDED_BY, ProducerSpec
from ackproof.clients.transactional import Transactions
from ackproof.errors import WorkloadError
from ackproof.ledger.outcome import error_name
from ackproof.ledger.producer_ledger import Int64s, LedgerWriter

#: Records handed to librdkafka between two polls.
CHUNK = 768

#: Maximum seconds of a poll, and between two checks for a stop.
POLL_S = 0.01

#: Seconds that librdkafka may exceed the delivery timeout: it checks expiry once a second.
SETTLE_MARGIN_S = 5.0

#: Seconds that a producer without a parent process waits for its last outcomes.
ORPHAN_SETTLE_S = 5.0


class ProducerLoop:
    """Sends what is due and records outcomes, until a bound or a stop."""

    def __init__(
        self,
        spec: ProducerSpec,
        page: ProgressPage,
        reports: DeliveryReports | None,
        *,
        secrets: Mapping[str, str],
    ) -> None:
        self._spec = spec
        self._page = page
        self._reports = reports
        self._records = Records(spec)
        self._partitions = spec.partitions
        #: The number of partitions that the client knows of.
        self._known = spec.partitions
        self._callback = reports.on_delivery if reports else None
        self._parent = program.expected_parent(spec.parent)
        self._next = 0
        #: Sends made beyond the rate, to fill the client's queue.
        self._ahead = 0
        self._started = 0.0
        self._busy_before = 0.0
        self._terminated = False
        self.fatal: KafkaError | None = None
        self._producer = connect_producer(
            spec, secrets, on_error=self._on_error, on_statistics=self._on_statistics
        )

    def terminate(self) -> None:
        self._terminated = True

    def run(self) -> None:
        """Send until a bound or a stop, then wait for the outcomes of sends in flight.

        Raises `WorkloadError` for a fatal error of librdkafka, after all outcomes are recorded.
        """
        gc.collect()
        gc.freeze()
        gc.disable()  # there are many messages, and none is in a reference cycle
        transactions = self._begin_transactions()
        self._page.started_at = now_us()
        self._page.state = State.PRODUCING
        self._started = time.monotonic()
        self._busy_before = time.thread_time()
        of_spec = self._spec.transactions
        stays_open = of_spec is not None and of_spec.last_stays_open
        while not (self._next == self._spec.records or self._stopping()):
            due = min(self._due(), self._next + self._room())
            if due > self._next:
                if transactions:
                    due = min(due, transactions.room(self._next))
                    self._set_fatal(transactions.fatal)
                    if due == self._next:
                        continue  # after a fatal error no transaction begins
                self._hand_over(due)
                self._serve(0)
                if transactions and not (stays_open and self._next == self._spec.records):
                    transactions.advance(self._next)
                    self._set_fatal(transactions.fatal)
            else:
                self._serve(self._pause())
        while stays_open and not self._stopping():
            self._serve(POLL_S)
        self._page.state = State.SETTLING
        if transactions:
            transactions.end(self._next)
            transactions.close()
            self._set_fatal(transactions.fatal)
        self._settle()
        if self._reports:
            self._reports.finish()
        if (fatal := self.fatal) is None:
            return
        name = error_name(fatal.code())
        record_in_force(self._spec, **{ENDED_BY: name})
        if not self._spec.may_end_with(name):
            raise WorkloadError(
                f"producer {self._spec.number} stopped for good: {name}",
                hint="librdkafka allows no further sends after this fatal error. If it is "
                f"expected, list it in workload.may_stop_for. It said: {fatal.str()}",
            )

    def _begin_transactions(self) -> Transactions | None:
        if self._spec.transactions is None:
            return None
        return Transactions(
            self._spec,
            self._producer,
            self._page,
            serve=self._serve,
            settle=self._settle,
            abandoned=self._stopping,
        )

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._set_fatal(error)

    def _on_statistics(self, statistics: str) -> None:
        self._known = max(self._known, known_partitions(statistics, self._spec.topic))

    def _set_fatal(self, fatal: KafkaError | None) -> None:
        """Send no more. Of several fatal errors, the first other than `_FATAL` is reported."""
        if fatal is not None and (self.fatal is None or self.fatal.code() == KafkaError._FATAL):
            self.fatal = fatal

    def _stopping(self) -> bool:
        """Whether no more sends may be made, even if some are due."""
        seconds = self._spec.seconds
        return (
            self._terminated
            or self._page.stop
            or self.fatal is not None
            or (seconds is not None and time.monotonic() - self._started >= seconds)
            or self._orphaned()
        )

    def _orphaned(self) -> bool:
        return os.getppid() != self._parent

    def _due(self) -> int:
        """Return the end of the sequences that should have been sent by now."""
        spec = self._spec
        due = self._next + CHUNK
        if spec.rate is not None:
            paced = int((time.monotonic() - self._started) * spec.rate) + 1 + self._ahead
            if self._page.order is Order.FILL:
                self._ahead += max(0, due - paced)  # the rate continues from there
            else:
                due = paced
        return due if spec.records is None else min(due, spec.records)

    def _sent_at(self, sequences: Int64s, at: int) -> Int64s:
        """Return the times of sending of `sequences`, handed over at `at` (see the module)."""
        rate = self._spec.rate
        if rate is None or self._spec.window is not None:
            return np.full(len(sequences), at, np.int64)
        due = self._page.started_at + (sequences * (1e6 / rate)).astype(np.int64)
        return np.minimum(due, at)

    def _pause(self) -> float:
        """Return the seconds until the next send is due, at most `POLL_S`."""
        until, rate = POLL_S, self._spec.rate
        if rate is not None:
            until = self._started + (self._next - self._ahead) / rate - time.monotonic()
        # librdkafka waits for whole milliseconds.
        return min(max(until, 0.001), POLL_S)

    def _room(self) -> int:
        """Return how many sends the window allows at once."""
        window = self._spec.window
        if window is None or self._reports is None:
            return CHUNK
        return min(CHUNK, window - self._reports.unanswered)

    def _hand_over(self, stop: int) -> None:
        first, self._next = self._next, stop
        if self._known > self._partitions and self._known in self._spec.later_partitions:
            self._partitions = self._known
            if self._reports:
                self._reports.grow(first, self._known)
            self._records.use(self._known)
        if self._reports:
            self._reports.admit(first, stop)
        for partition, sequences in self._records.by_partition(first, stop):
            self._hand_over_to(partition, sequences)

    def _hand_over_to(self, partition: int, sequences: Int64s) -> None:
        """Hand over `sequences`; wait while librdkafka's queue is full.

        If the producer stops before there is room, the rest does not count as sends.
        """
        messages = self._records.messages(sequences)
        produce_batch = getattr(self._producer, "produce_batch", None)
        while True:
            if self._reports:
                messages[-1]["callback"] = self._reports.on_last_of_batch
            at = now_us()
            if self._page.order is Order.SKEW:
                taken = self._produce_skewed(messages, partition)
            elif produce_batch is None:
                taken = self._produce_each(messages, partition)
            else:
                taken = produce_batch(self._spec.topic, messages, partition, self._callback)
            if taken == len(messages):
                if self._reports:
                    self._reports.handed_over(sequences, self._sent_at(sequences, at))
                return
            sequences = self._sort_out(sequences, messages, at)
            if not len(sequences):
                self._serve(POLL_S)  # avoids a busy loop while everything is refused
                return
            messages = self._records.messages(sequences)
            if self._page.order is Order.FILL:
                self._page.obeyed += 1
            self._serve(POLL_S)
            if self._stopping():
                return

    def _sort_out(self, sequences: Int64s, messages: list[dict[str, Any]], at: int) -> Int64s:
        """Note accepted and refused messages; return the others, for which the queue was full."""
        errors = [message.get("_error") for message in messages]
        codes = np.array([error.code() if error else 0 for error in errors])
        if self._reports:
            accepted = sequences[codes == 0]
            self._reports.handed_over(accepted, self._sent_at(accepted, at))
        for code, error in {error.code(): error for error in errors if error}.items():
            if code == KafkaError._QUEUE_FULL:
                continue
            self._on_error(error)
            if self._reports:
                self._reports.refused(sequences[codes == code], code, at)
        waiting: Int64s = sequences[codes == KafkaError._QUEUE_FULL]
        return waiting

    def _produce_skewed(self, messages: list[dict[str, Any]], partition: int) -> int:
        """Produce with false timestamps, which `produce_batch` does not support."""
        timestamp = now_us() // 1000 + int(self._page.argument_s * 1000)
        taken = self._produce_each(messages, partition, timestamp=timestamp)
        self._page.obeyed += taken
        return taken

    def _produce_each(self, messages: list[dict[str, Any]], partition: int, **more: int) -> int:
        """Produce message by message, with the result of `produce_batch`."""
        taken = 0
        for message in messages:
            try:
                self._producer.produce(
                    self._spec.topic,
                    message["value"],
                    key=message.get("key"),
                    partition=partition,
                    on_delivery=message.get("callback", self._callback),
                    **more,
                )
            except BufferError:
                message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
            except KafkaException as failure:
                message["_error"] = failure.args[0]
            else:
                taken += 1
        return taken

    def _serve(self, timeout: float) -> None:
        order = self._page.order
        if order is Order.FILL:
            time.sleep(timeout)  # unserved reports keep the queue full
        else:
            if order in (Order.PURGE_QUEUE, Order.PURGE_ALL):
                self._producer.purge(in_flight=order is Order.PURGE_ALL)
            served = self._poll(timeout)
            if order is Order.SLOW and served:
                time.sleep(self._page.argument_s)
                self._page.obeyed += 1
        self._page.busy = int((time.thread_time() - self._busy_before) * 1e6)
        if self._reports:
            self._reports.served()
        else:
            self._page.count(sent=self._next, acked=0, failed=0, unknown=0, at=now_us())

    def _poll(self, timeout: float) -> int:
        """Serve delivery reports; return their number. A fatal error ends the producer."""
        try:
            return int(self._producer.poll(timeout))
        except KafkaException as failure:
            if not failure.args[0].fatal():
                raise
            self._set_fatal(failure.args[0])
            return 0

    def _settle(self) -> None:
        started = time.monotonic()
        bound = self._spec.delivery_timeout_s + SETTLE_MARGIN_S
        while self._in_flight() and time.monotonic() - started < bound:
            if self._orphaned():
                bound = min(bound, ORPHAN_SETTLE_S)
            if self.fatal is not None:
                # librdkafka sends nothing more, but keeps its queue until delivery.timeout.ms.
                self._producer.purge(in_flight=False)
            self._serve(POLL_S)
        # A process that was suspended, or ordered not to poll, has unserved reports.
        while self._in_flight() and self._poll(0):
            pass

    def _in_flight(self) -> int:
        return self._reports.in_flight if self._reports else len(self._producer)


def begin(spec: ProducerSpec, page: ProgressPage, secrets: Mapping[str, str]) -> ProducerLoop:
    reports = None
    if spec.ledger is not None:
        reports = DeliveryReports(spec, LedgerWriter(spec.ledger, origin(spec)), page)
    return ProducerLoop(spec, page, reports, secrets=secrets)


if __name__ == "__main__":
    sys.exit(program.run(ProducerSpec, begin))
