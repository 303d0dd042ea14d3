"""The producer process: sends as it is told, and records what became of every send.

`python -m ackproof.harness.clients.producer SPEC.json` (a `ProducerSpec`); `process` starts it.

One thread does everything, in rounds: hand a chunk of records to librdkafka, serve the delivery
reports that came in, record them. What a record costs decides how much a run can prove, so work
is done by the chunk: `produce_batch` (one call a partition: confluent-kafka 2.16 ignores the
partition of a single message in a batch), and reports are only collected in the callback and
turned into columns together. `sent_at` is the moment of the `produce_batch` call, which is also
the one time librdkafka gives the whole batch; `resolved_at` the end of the poll that served the
delivery report (for errors, the report itself).
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from ackproof.harness.clients import parent
from ackproof.harness.clients.outcome import classify, earliest_resend_s, error_name
from ackproof.harness.clients.progress import Order, ProgressPage, State
from ackproof.harness.clients.spec import ProducerSpec
from ackproof.harness.clients.transactional import Transactions
from ackproof.harness.clients.under_way import UnderWay
from ackproof.harness.errors import AckproofError, ExitCode, WorkloadError
from ackproof.harness.ledger import LedgerWriter
from ackproof.spark_analysis.ledger_stream import OUTCOMES, Origin
from ackproof.spark_analysis.record import encoder
from ackproof.spark_analysis.tables import Outcome

#: Records handed over between two polls.
CHUNK = 768

#: Outcomes are recorded when so many acks wait, or so many seconds after the last time.
RECORD_AT = 8192
RECORD_EVERY_S = 0.01

#: The longest wait in one poll, seconds: so often a stop is noticed and the counts are fresh.
POLL_S = 0.01

#: Sequences reserved at once; with a rate, the sends of a tenth of a second, if fewer.
RESERVE = 8192

#: How long to wait for a broker to answer at the start, and then for the topic, seconds.
METADATA_S = 30.0
TOPIC_S = 5.0

#: What librdkafka may take beyond the delivery timeout: it looks for expired sends once a second.
SETTLE_MARGIN_S = 5.0

#: A producer without a parent serves nobody: it waits so long for its last outcomes, seconds.
ORPHAN_SETTLE_S = 5.0

_ACKED = OUTCOMES.index(Outcome.ACKED)
_FAILED = OUTCOMES.index(Outcome.FAILED)
_UNKNOWN = OUTCOMES.index(Outcome.UNKNOWN)

#: How a send is reported that a purge ended.
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})

#: Where a record's value holds the sequence, 8 bytes, big-endian (see `record`).
_SEQUENCE_AT = 24


OnDelivery = Callable[[KafkaError | None, Message], None]


def _offsets(messages: list[Message]) -> pa.Array:
    try:
        return pa.array(np.fromiter(map(Message.offset, messages), np.int64, len(messages)))
    except TypeError:
        # None where the broker told no offset: a resend found to be a duplicate.
        return pa.array(list(map(Message.offset, messages)), pa.int64())


def _now_us() -> int:
    return time.time_ns() // 1000


class Recorder:
    """Collects delivery reports and turns them, many at a time, into rows of the ledger."""

    def __init__(self, spec: ProducerSpec, ledger: LedgerWriter, page: ProgressPage) -> None:
        self._ledger = ledger
        self._page = page
        self._size = spec.size
        self._limit = spec.records
        self._reserve_step = (
            RESERVE if spec.rate is None else max(1, min(RESERVE, int(spec.rate / 10)))
        )
        self._reserved = 0
        self._earliest_resend_s = earliest_resend_s(spec.settings)
        self._offsets_are_told = spec.offsets_are_told
        self._under_way = UnderWay()
        self._counts = [0] * len(OUTCOMES)
        self._sent = 0
        self._recorded_at = 0.0
        self._delivered: list[Message] = []
        #: How many were delivered by when (microseconds UTC), once a poll: `resolved_at`.
        self._stamps: list[tuple[int, int]] = []
        self._errors: list[tuple[KafkaError, Message]] = []
        self.on_delivery = self._on_each()
        self.on_last_of_batch: OnDelivery = self._on_last_of_batch

    @property
    def under_way(self) -> int:
        """Sends without an outcome, counting those whose report is collected, not recorded."""
        return self._under_way.count

    def admit(self, first: int, stop: int) -> None:
        """Prepare for sequences from `first` to `stop` (exclusive) to be handed over."""
        self._under_way.admit(first, stop)
        if stop > self._reserved:
            below = stop + self._reserve_step
            self._reserved = below if self._limit is None else min(below, self._limit)
            self._ledger.reserve(self._reserved)

    def handed_over(self, sequences: range, at: int) -> None:
        """Note that the client took `sequences` at `at`."""
        self._under_way.hand_over(sequences, at)
        self._sent += len(sequences)

    def refused(self, sequences: list[int], code: int, at: int) -> None:
        """Record sends that the client refused to take: they failed, whatever the code."""
        self._sent += len(sequences)
        times = np.full(len(sequences), at, np.int64)
        self._ledger.write(
            sequence=np.array(sequences, np.int64),
            outcome=_FAILED,
            error=pa.repeat(pa.scalar(code, pa.int16()), len(sequences)),
            sent_at=times,
            resolved_at=times,
        )
        self._counts[_FAILED] += len(sequences)

    def record(self, now: float) -> None:
        """Record what was collected, if it is enough or old enough, and publish the counts."""
        delivered = len(self._delivered)
        if delivered or self._errors:
            self._stamps.append((delivered, _now_us()))
            if delivered >= RECORD_AT or now - self._recorded_at >= RECORD_EVERY_S:
                self._record_delivered()
                self._record_errors()
                self._stamps.clear()
                self._recorded_at = now
        self._publish()

    def give_up(self) -> None:
        """Record everything that is collected, and the rest as unknown."""
        self.record(float("inf"))
        rest = self._under_way.rest()
        if len(rest):
            now = np.full(len(rest), _now_us(), np.int64)
            sent_at = self._under_way.settle(rest)
            self._ledger.write(sequence=rest, outcome=_UNKNOWN, sent_at=sent_at, resolved_at=now)
            self._counts[_UNKNOWN] += len(rest)
        self._publish()
        self._ledger.close()

    def _on_each(self) -> OnDelivery:
        # The only Python code that runs once a record.
        delivered, errors = self._delivered.append, self._errors.append

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                delivered(message)
            else:
                errors((error, message))

        return on_delivery

    def _on_last_of_batch(self, error: KafkaError | None, message: Message) -> None:
        # One poll may serve a whole queue of reports: this is where there can be too many.
        self.on_delivery(error, message)
        if len(self._delivered) >= RECORD_AT:
            self.record(time.monotonic())

    def _record_delivered(self) -> None:
        messages = self._delivered
        if not messages:
            return
        sequence = self._sequences(messages)
        delivered, at = np.array(self._stamps, np.int64).T
        self._ledger.write(
            sequence=sequence,
            outcome=_ACKED,
            offset=_offsets(messages) if self._offsets_are_told else None,
            sent_at=self._under_way.settle(sequence),
            resolved_at=np.repeat(at, np.diff(delivered, prepend=0)),
        )
        self._counts[_ACKED] += len(messages)
        messages.clear()

    def _record_errors(self) -> None:
        if not self._errors:
            return
        errors, messages = zip(*self._errors, strict=True)
        sequence = self._sequences(list(messages))
        sent_at = self._under_way.settle(sequence)
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
        self._page.obey(sum(error.code() in _PURGED for error in errors))
        for position, count in enumerate(np.bincount(outcome, minlength=len(OUTCOMES))):
            self._counts[position] += int(count)
        self._errors.clear()

    def _sequences(self, messages: list[Message]) -> npt.NDArray[np.int64]:
        values = b"".join(map(Message.value, messages))
        field = np.ndarray(len(messages), ">i8", values, _SEQUENCE_AT, (self._size,))
        return field.astype(np.int64)

    def _publish(self) -> None:
        counts = self._counts
        self._page.count(
            sent=self._sent,
            acked=counts[_ACKED],
            failed=counts[_FAILED],
            unknown=counts[_UNKNOWN],
            at=_now_us(),
        )


class Sending:
    """The loop: what is due is handed over, what came back is recorded."""

    def __init__(
        self,
        spec: ProducerSpec,
        page: ProgressPage,
        recorder: Recorder | None,
        *,
        secrets: Mapping[str, str],
    ) -> None:
        self._spec = spec
        self._secrets = secrets
        self._page = page
        self._recorder = recorder
        self._encode = encoder(run_id=spec.run_id, producer=spec.number, size=spec.size)
        self._callback = recorder.on_delivery if recorder else None
        self._parent = spec.parent if spec.parent is not None else os.getppid()
        self._next = 0
        #: Sends made beyond the rate, because they were to fill the client's queue.
        self._ahead = 0
        self._started = 0.0
        self._busy_before = 0.0
        self._terminated = False
        self.fatal: KafkaError | None = None
        self._producer = self._connect()
        self._transactions: Transactions | None = None

    def terminate(self) -> None:
        """Stop at the next round; for signal handlers."""
        self._terminated = True

    def run(self) -> None:
        """Send until a bound or a stop, then wait for what is under way.

        Raises `WorkloadError` if the client ended itself (librdkafka's fatal errors), after
        recording what is known.
        """
        gc.collect()
        gc.freeze()
        gc.disable()  # messages are many, short-lived and never in cycles
        self._transactions = transactions = self._begun()
        self._page.started_at = _now_us()
        self._page.state = State.PRODUCING
        self._started = time.monotonic()
        self._busy_before = time.thread_time()
        while not (self._next == self._spec.records or self._over()):
            due = min(self._due(), self._next + CHUNK)
            if due > self._next:
                if transactions:
                    due = min(due, transactions.room(self._next))
                self._hand_over(due)
                self._serve(0)
                if transactions:
                    transactions.went_on(self._next)
                    self.fatal = self.fatal or transactions.fatal
            else:
                self._serve(self._pause())
        self._page.state = State.SETTLING
        if transactions:
            transactions.end(self._next)
            transactions.close()
            self.fatal = self.fatal or transactions.fatal
        self._settle()
        if self._recorder:
            self._recorder.give_up()
        if self.fatal is not None and not (transactions and transactions.may_end_so(self.fatal)):
            raise WorkloadError(
                f"producer {self._spec.number} stopped for good: {self.fatal.str()} "
                f"({error_name(self.fatal.code())})",
                hint="librdkafka allows no further sends after such an error",
            )

    def _begun(self) -> Transactions | None:
        if self._spec.transactions is None:
            return None
        return Transactions(
            self._spec,
            self._producer,
            self._page,
            serve=self._serve,
            settle=self._settle,
            abandoned=self._over,
        )

    def _connect(self) -> Any:
        spec = self._spec
        in_transactions = (
            {"transactional.id": spec.transactions.transactional_id} if spec.transactions else {}
        )
        try:
            producer = Producer(
                {
                    "bootstrap.servers": spec.bootstrap_servers,
                    "client.id": f"ackproof-producer-{spec.number}",
                    **spec.settings,
                    **in_transactions,
                    **self._secrets,
                    "error_cb": self._on_error,
                }
            )
            # A topic that was just created may not be known to every broker yet.
            topic = Retrying(
                retry=retry_if_result(lambda topic: len(topic.partitions) < spec.partitions),
                stop=stop_after_delay(TOPIC_S),
                wait=wait_fixed(0.1),
                retry_error_callback=lambda last: last.outcome and last.outcome.result(),
            )(lambda: producer.list_topics(spec.topic, timeout=METADATA_S).topics[spec.topic])
        except KafkaException as error:
            raise WorkloadError(
                f"producer {spec.number} cannot start with {spec.bootstrap_servers}: "
                f"{error.args[0].str()}",
                hint=f"settings: {spec.settings}",
            ) from error
        if len(topic.partitions) < spec.partitions:
            raise WorkloadError(
                f"producer {spec.number} needs {spec.partitions} partitions of {spec.topic!r}, "
                f"and it has {len(topic.partitions)}",
                hint="create the topic with at least as many",
            )
        return producer

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() == KafkaError._FATAL:
            self.fatal = error

    def _over(self) -> bool:
        """Whether no more sends may be made, whatever is still due."""
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
        """Return the sequence below which every send should have been made by now."""
        spec = self._spec
        due = self._next + CHUNK
        if spec.rate is not None:
            paced = int((time.monotonic() - self._started) * spec.rate) + 1 + self._ahead
            if self._page.order is Order.FILL:
                self._ahead += max(0, due - paced)  # the pace goes on from there
            else:
                due = paced
        return due if spec.records is None else min(due, spec.records)

    def _pause(self) -> float:
        """Return how long until the next send is due, within what a poll may take."""
        until, rate = POLL_S, self._spec.rate
        if rate is not None:
            until = self._started + (self._next - self._ahead) / rate - time.monotonic()
        # librdkafka waits in whole milliseconds.
        return min(max(until, 0.001), POLL_S)

    def _hand_over(self, stop: int) -> None:
        first, partitions = self._next, self._spec.partitions
        if self._recorder:
            self._recorder.admit(first, stop)
        self._next = stop
        for start in range(first, min(first + partitions, stop)):
            self._hand_over_to(start % partitions, range(start, stop, partitions))

    def _hand_over_to(self, partition: int, sequences: range) -> None:
        """Hand over `sequences`, waiting for room in the client's queue as often as it takes.

        Those that find no room before the producer's time is over are no sends.
        """
        messages: list[dict[str, Any]] = [
            {"value": value} for value in map(self._encode, sequences)
        ]
        produce_batch = self._producer.produce_batch
        while True:
            if self._recorder:
                messages[-1]["callback"] = self._recorder.on_last_of_batch
            at = _now_us()
            if self._page.order is Order.SKEW:
                taken = self._produce_skewed(messages, partition)
            else:
                taken = produce_batch(self._spec.topic, messages, partition, self._callback)
            if self._recorder:
                self._recorder.handed_over(sequences[:taken], at)
            if taken == len(messages):
                return
            # One partition, one size: what is refused is the rest, and for one reason.
            error = messages[taken]["_error"]
            sequences = sequences[taken:]
            messages = [{"value": message["value"]} for message in messages[taken:]]
            if error.code() != KafkaError._QUEUE_FULL:
                self._on_error(error)
                if self._recorder:
                    self._recorder.refused(list(sequences), error.code(), at)
                self._serve(POLL_S)  # a client that refuses everything must not be a busy loop
                return
            if self._page.order is Order.FILL:
                self._page.obey()
            self._serve(POLL_S)
            if self._over():
                return

    def _produce_skewed(self, messages: list[dict[str, Any]], partition: int) -> int:
        """Do as `produce_batch` does, which knows no timestamps."""
        timestamp = _now_us() // 1000 + int(self._page.argument_s * 1000)
        for taken, message in enumerate(messages):
            try:
                self._producer.produce(
                    self._spec.topic,
                    message["value"],
                    partition=partition,
                    on_delivery=message.get("callback", self._callback),
                    timestamp=timestamp,
                )
            except BufferError:
                message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
                return taken
            except KafkaException as failure:
                message["_error"] = failure.args[0]
                return taken
            self._page.obey()
        return len(messages)

    def _serve(self, timeout: float) -> None:
        order = self._page.order
        if order is Order.FILL:
            time.sleep(timeout)  # reports that nobody takes count as what fills the queue
        else:
            if order in (Order.PURGE_QUEUE, Order.PURGE_ALL):
                self._producer.purge(in_flight=order is Order.PURGE_ALL)
            served = self._poll(timeout)
            if order is Order.DAWDLE and served:
                time.sleep(self._page.argument_s)
                self._page.obey()
        self._page.busy = int((time.thread_time() - self._busy_before) * 1e6)
        if self._recorder:
            self._recorder.record(time.monotonic())
        else:
            self._page.count(sent=self._next, acked=0, failed=0, unknown=0, at=_now_us())

    def _poll(self, timeout: float) -> int:
        """Serve what came in, and return how much; a client that ended for good says so here."""
        try:
            return int(self._producer.poll(timeout))
        except KafkaException as failure:
            if not failure.args[0].fatal():
                raise
            self.fatal = failure.args[0]
            return 0

    def _settle(self) -> None:
        started = time.monotonic()
        bound = self._spec.delivery_timeout_s + SETTLE_MARGIN_S
        while self._under_way() and time.monotonic() - started < bound:
            if self._orphaned():
                bound = min(bound, ORPHAN_SETTLE_S)
            self._serve(POLL_S)

    def _under_way(self) -> int:
        return self._recorder.under_way if self._recorder else len(self._producer)


def main(arguments: list[str]) -> int:
    """Run the producer that the specification file `arguments[0]` describes."""
    spec = ProducerSpec.from_json(Path(arguments[0]).read_text())
    page = ProgressPage(spec.progress)
    try:
        recorder = None
        if spec.ledger is not None:
            origin = Origin(
                run_id=spec.run_id,
                producer=spec.number,
                topic=spec.topic,
                partitions=spec.partitions,
            )
            recorder = Recorder(spec, LedgerWriter(spec.ledger, origin), page)
        sending = Sending(spec, page, recorder, secrets=json.loads(sys.stdin.read() or "{}"))
        parent.serve(sending.terminate)
        sending.run()
    except AckproofError as error:
        page.fail(str(error))
        return error.exit_code
    except Exception as error:  # the page is how the harness hears of it
        traceback.print_exc()
        page.fail(f"{type(error).__name__}: {error}")
        return ExitCode.ENVIRONMENT
    page.state = State.DONE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
