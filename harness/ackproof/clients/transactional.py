"""The transactions of a producer, with the interruptions that the scenario requires.

A transaction is ended when all its sends have their delivery reports, so that aborted records are
in the log. The answer to a commit determines its outcome:

- No error: committed.
- librdkafka requires an abort: the request was not sent, or the coordinator refused it. If the
  abort succeeds, the outcome is aborted: the coordinator refuses to abort a committed transaction.
- The coordinator's refusal (mostly a fence) of the sole attempt: aborted. A later answer may be
  about a second attempt, after the first was carried out: unknown (as in `outcome`).
- Anything else: unknown.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from ackproof.clients.shared_page import ProgressPage, State, now_us
from ackproof.clients.specs import FENCED, ProducerSpec, TransactionSpec
from ackproof.errors import WorkloadError
from ackproof.ledger import arrow_stream
from ackproof.ledger.outcome import earliest_resend_s, error_name
from ackproof.ledger.transaction_log import TransactionLog, TransactionOutcome

#: Seconds that the coordinator has to initialize a producer, and to end a transaction: more than
#: the default `transaction.timeout.ms`, so that it outlasts a coordinator that is down for long.
INITIALIZE_S = 60.0
END_S = 90.0

#: Answers of a coordinator that has certainly not committed.
REFUSED = frozenset(
    {*FENCED, "INVALID_PRODUCER_ID_MAPPING", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}
)


def aborts(spec: ProducerSpec) -> Iterator[bool]:
    """Yield, for each transaction in turn, whether it is aborted."""
    assert spec.transactions is not None
    draw = random.Random(f"{spec.transactions.seed}/{spec.number}")  # noqa: S311
    while True:
        yield draw.random() < spec.transactions.abort


def log_path(spec: ProducerSpec) -> Path:
    assert spec.ledger is not None
    run_dir = spec.ledger.parent.parent
    return arrow_stream.stream_path(run_dir, "transactions", f"producer-{spec.number}")


def log_constants(spec: ProducerSpec) -> dict[str, Any]:
    """Return the columns that are the same for all transactions of a producer."""
    assert spec.transactions is not None
    return {
        "run_id": spec.run_id,
        "producer": spec.number,
        "predecessor": spec.transactions.predecessor,
        "transactional_id": spec.transactions.transactional_id,
    }


class Transactions:
    """The transactions of one producer.

    `serve` polls librdkafka for some seconds, `settle` waits for the outcomes of sends in flight,
    `abandoned` says whether the producer is to stop.
    """

    def __init__(
        self,
        spec: ProducerSpec,
        producer: Any,
        page: ProgressPage,
        *,
        serve: Callable[[float], None],
        settle: Callable[[], None],
        abandoned: Callable[[], bool],
    ) -> None:
        assert spec.transactions is not None
        assert spec.ledger is not None
        self._spec: TransactionSpec = spec.transactions
        self._producer_number = spec.number
        self._producer = producer
        self._page = page
        self._serve = serve
        self._settle = settle
        self._abandoned = abandoned
        self._sole_attempt_s = earliest_resend_s(spec.settings)
        self._aborts = aborts(spec)
        self._number = 0
        self._first: int | None = None
        #: The fatal error of librdkafka, such as a fence.
        self.fatal: KafkaError | None = None
        self._log = self._initialize(spec)

    def _initialize(self, spec: ProducerSpec) -> TransactionLog:
        assert spec.ledger is not None
        try:
            self._producer.init_transactions(INITIALIZE_S)
        except KafkaException as error:
            raise WorkloadError(
                f"producer {spec.number} cannot initialize transactions as "
                f"{self._spec.transactional_id!r}: {error.args[0].str()}",
                hint="The transaction coordinator may be unavailable: see the brokers' logs.",
            ) from error
        return TransactionLog(log_path(spec), log_constants(spec), initialized_at=now_us())

    def room(self, following: int) -> int:
        """Begin a transaction if none is open; return the sequence at which it must end.

        After a fatal error, such as a fence, this is `following`.
        """
        if self._first is None:
            try:
                self._producer.begin_transaction()
            except KafkaException as failure:
                if not failure.args[0].fatal():
                    raise WorkloadError(
                        f"producer {self._producer_number} cannot begin a transaction as "
                        f"{self._spec.transactional_id!r}: {failure.args[0].str()}",
                        hint="The coordinator may not have ended the last one: see the brokers' "
                        "logs.",
                    ) from failure
                self.fatal = failure.args[0]
                return following
            self._first = following
        return self._first + self._spec.size

    def advance(self, following: int) -> None:
        """End the transaction if it is full; all sends below `following` are handed over."""
        if self._first is not None and following >= self._first + self._spec.size:
            self.end(following)

    def end(self, following: int) -> None:
        """Commit or abort the open transaction, after a crash or a wait as a zombie if required."""
        first, self._first = self._first, None
        if first is None:
            return
        self._settle()
        if self._number == self._spec.crash_in:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._number == self._spec.zombie_in:
            self._wait_as_zombie()
        if next(self._aborts):
            outcome, error = TransactionOutcome.ABORTED, self._abort()  # no commit was requested
        else:
            self._log.committing(self._number, first=first, end=following)
            outcome, error = self._commit()
        if error is not None and error.fatal():
            self.fatal = error
        self._log.ended(
            self._number,
            outcome,
            first=first,
            end=following,
            at=now_us(),
            error=error_name(error.code()) if error is not None else None,
        )
        self._number += 1

    def close(self) -> None:
        self._log.close()

    def _wait_as_zombie(self) -> None:
        self._page.state = State.PAUSED
        while not (self._page.resumed or self._abandoned()):
            self._serve(0.01)
        self._page.state = State.PRODUCING

    def _commit(self) -> tuple[TransactionOutcome, KafkaError | None]:
        requested_at = time.monotonic()
        error = retry_transaction_request(self._producer.commit_transaction)
        took = time.monotonic() - requested_at
        if error is None:
            return TransactionOutcome.COMMITTED, None
        if error.txn_requires_abort() and self._abort() is None:
            return TransactionOutcome.ABORTED, error
        if error_name(error.code()) in REFUSED and took < self._sole_attempt_s:
            return TransactionOutcome.ABORTED, error
        return TransactionOutcome.UNKNOWN, error

    def _abort(self) -> KafkaError | None:
        return retry_transaction_request(self._producer.abort_transaction)


def retry_transaction_request(request: Callable[[float], None]) -> KafkaError | None:
    """Send a request to the coordinator, with retries; return the last error."""
    deadline = time.monotonic() + END_S
    while True:
        try:
            request(END_S)
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if error.retriable() and time.monotonic() < deadline:
                continue
            return error
        return None
