"""The producer process: sends as it is told, and records what became of every send.

`python -m ackproof.clients.producer SPEC.json` (a `ProducerSpec`); `process` starts it.

One thread does everything, in rounds: hand a chunk of records to librdkafka, serve the delivery
reports that came in, record them (`delivery_reports`). Work is done by the chunk: `produce_batch`
is one call a partition (confluent-kafka 2.16 ignores the partition of a single message in a batch).
`sent_at` is when a send was due in an open loop, so that what a stall delays counts as late (no
coordinated omission); otherwise the moment of that call.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Producer
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from ackproof.clients import main, orphan_guard
from ackproof.clients.delivery_reports import DeliveryReports
from ackproof.clients.records import Records, cycle
from ackproof.clients.shared_page import (
    Order,
    ProgressPage,
    State,
    now_us,
)
from ackproof.clients.spec import ProducerSpec
from ackproof.clients.transactional import Transactions
from ackproof.errors import WorkloadError
from ackproof.ledger.in_flight import Int64s
from ackproof.ledger.outcome import error_name
from ackproof.ledger.producer_ledger import LedgerWriter
from ackproof_spark.ledger_stream import Origin

#: Records handed over between two polls.
CHUNK = 768

#: The longest wait in one poll, seconds: so often a stop is noticed and the counts are fresh.
POLL_S = 0.01

#: How long to wait for a broker to answer at the start, and then for the topic, seconds.
METADATA_S = 30.0
TOPIC_S = 5.0

#: What librdkafka may take beyond the delivery timeout: it looks for expired sends once a second.
SETTLE_MARGIN_S = 5.0

#: A producer without a parent serves nobody: it waits so long for its last outcomes, seconds.
ORPHAN_SETTLE_S = 5.0


class Sending:
    """The loop: what is due is handed over, what came back is recorded."""

    def __init__(
        self,
        spec: ProducerSpec,
        page: ProgressPage,
        reports: DeliveryReports | None,
        *,
        secrets: Mapping[str, str],
    ) -> None:
        self._spec = spec
        self._secrets = secrets
        self._page = page
        self._reports = reports
        self._records = Records(spec)
        self._callback = reports.on_delivery if reports else None
        self._parent = orphan_guard.meant(spec.parent)
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
        self._page.started_at = now_us()
        self._page.state = State.PRODUCING
        self._started = time.monotonic()
        self._busy_before = time.thread_time()
        while not (self._next == self._spec.records or self._over()):
            due = min(self._due(), self._next + self._room())
            if due > self._next:
                if transactions:
                    due = min(due, transactions.room(self._next))
                    self._end_for(transactions.fatal)
                    if due == self._next:
                        continue  # the client ended for good: no transaction began
                self._hand_over(due)
                self._serve(0)
                if transactions:
                    transactions.went_on(self._next)
                    self._end_for(transactions.fatal)
            else:
                self._serve(self._pause())
        self._page.state = State.SETTLING
        if transactions:
            transactions.end(self._next)
            transactions.close()
            self._end_for(transactions.fatal)
        self._settle()
        if self._reports:
            self._reports.give_up()
        fatal = self.fatal
        if fatal is not None and not self._spec.may_end_with(error_name(fatal.code())):
            raise WorkloadError(
                f"producer {self._spec.number} stopped for good: {fatal.str()} "
                f"({error_name(fatal.code())})",
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
            self._end_for(error)

    def _end_for(self, fatal: KafkaError | None) -> None:
        """Send no more after a fatal error; of several, the first that says what it was counts."""
        if fatal is not None and (self.fatal is None or self.fatal.code() == KafkaError._FATAL):
            self.fatal = fatal

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

    def _sent_at(self, sequences: Int64s, at: int) -> Int64s:
        """Return when `sequences`, handed over at `at`, were due: from then on they are late."""
        rate = self._spec.rate
        if rate is None or self._spec.window is not None:
            return np.full(len(sequences), at, np.int64)
        due = self._page.started_at + (sequences * (1e6 / rate)).astype(np.int64)
        return np.minimum(due, at)

    def _pause(self) -> float:
        """Return how long until the next send is due, within what a poll may take."""
        until, rate = POLL_S, self._spec.rate
        if rate is not None:
            until = self._started + (self._next - self._ahead) / rate - time.monotonic()
        # librdkafka waits in whole milliseconds.
        return min(max(until, 0.001), POLL_S)

    def _room(self) -> int:
        """Return how many sends may be made at once."""
        window = self._spec.window
        if window is None or self._reports is None:
            return CHUNK
        return min(CHUNK, window - self._reports.unanswered)

    def _hand_over(self, stop: int) -> None:
        first, self._next = self._next, stop
        if self._reports:
            self._reports.admit(first, stop)
        for partition, sequences in self._records.places(first, stop):
            self._hand_over_to(partition, sequences)

    def _hand_over_to(self, partition: int, sequences: Int64s) -> None:
        """Hand over `sequences`, waiting for room in the client's queue as often as it takes.

        Those that find no room before the producer's time is over are no sends.
        """
        messages = self._records.messages(sequences)
        produce_batch = self._producer.produce_batch
        while True:
            if self._reports:
                messages[-1]["callback"] = self._reports.on_last_of_batch
            at = now_us()
            if self._page.order is Order.SKEW:
                taken = self._produce_skewed(messages, partition)
            else:
                taken = produce_batch(self._spec.topic, messages, partition, self._callback)
            if self._reports:
                self._reports.handed_over(sequences[:taken], self._sent_at(sequences[:taken], at))
            if taken == len(messages):
                return
            # One partition, sizes that all fit or all do not: the rest is refused, for one reason.
            error = messages[taken]["_error"]
            sequences = sequences[taken:]
            messages = self._records.messages(sequences)
            if error.code() != KafkaError._QUEUE_FULL:
                self._on_error(error)
                if self._reports:
                    self._reports.refused(sequences, error.code(), at)
                self._serve(POLL_S)  # a client that refuses everything must not be a busy loop
                return
            if self._page.order is Order.FILL:
                self._page.obey()
            self._serve(POLL_S)
            if self._over():
                return

    def _produce_skewed(self, messages: list[dict[str, Any]], partition: int) -> int:
        """Do as `produce_batch` does, which knows no timestamps."""
        timestamp = now_us() // 1000 + int(self._page.argument_s * 1000)
        for taken, message in enumerate(messages):
            try:
                self._producer.produce(
                    self._spec.topic,
                    message["value"],
                    key=message.get("key"),
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
        if self._reports:
            self._reports.served()
        else:
            self._page.count(sent=self._next, acked=0, failed=0, unknown=0, at=now_us())

    def _poll(self, timeout: float) -> int:
        """Serve what came in, and return how much; a client that ended for good says so here."""
        try:
            return int(self._producer.poll(timeout))
        except KafkaException as failure:
            if not failure.args[0].fatal():
                raise
            self._end_for(failure.args[0])
            return 0

    def _settle(self) -> None:
        started = time.monotonic()
        bound = self._spec.delivery_timeout_s + SETTLE_MARGIN_S
        while self._under_way() and time.monotonic() - started < bound:
            if self._orphaned():
                bound = min(bound, ORPHAN_SETTLE_S)
            self._serve(POLL_S)

    def _under_way(self) -> int:
        return self._reports.under_way if self._reports else len(self._producer)


def begin(spec: ProducerSpec, page: ProgressPage, secrets: Mapping[str, str]) -> Sending:
    """Return the producer of a specification, connected."""
    reports = None
    if spec.ledger is not None:
        origin = Origin(
            run_id=spec.run_id,
            producer=spec.number,
            topic=spec.topic,
            partitions=spec.partitions,
            cycle=cycle(spec),
        )
        reports = DeliveryReports(spec, LedgerWriter(spec.ledger, origin), page)
    return Sending(spec, page, reports, secrets=secrets)


if __name__ == "__main__":
    sys.exit(main.run(ProducerSpec, begin))
