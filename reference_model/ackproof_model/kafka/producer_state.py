"""A log's state of an idempotent producer, and its answer to the next batch.

The rules are those of `org.apache.kafka.storage.internals.log`: `ProducerAppendInfo` (epoch and
sequence), `ProducerStateEntry` (the five batches kept to recognise a retry), `UnifiedLog` and
`ProducerStateManager` (their order). One batch at a time: a request has one batch for a partition.
The coordinator epoch of transaction markers is left out: there is one coordinator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

NO_EPOCH = -1
NO_SEQUENCE = -1
KEPT = 5
"""The number of batches that are kept (`NUM_BATCHES_TO_RETAIN`)."""
_LAST_SEQUENCE = 2**31 - 1
_LAST_EPOCH = 2**15 - 1


class Refusal(Enum):
    """Why a batch is refused, under the names of Kafka's exceptions."""

    INVALID_PRODUCER_EPOCH = "InvalidProducerEpochException"
    OUT_OF_ORDER_SEQUENCE = "OutOfOrderSequenceException"
    INVALID_TXN_STATE = "InvalidTxnStateException"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of `count` records; first: the sequence number of the first one."""

    epoch: int
    first: int
    count: int
    transactional: bool

    @property
    def last(self) -> int:
        """The last record's sequence number; 0 follows 2147483647 (`incrementSequence`)."""
        return (self.first + self.count - 1) % (_LAST_SEQUENCE + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The verification of a transaction's partition in progress (KIP-890).

    lowest: the lowest sequence number received meanwhile. bumps: the producer uses transactions v2,
    in which every transaction has an epoch of its own.
    """

    epoch: int
    lowest: int
    bumps: bool

    def updated(self, epoch: int, first: int) -> Verification:
        """Return it after another batch (`maybeUpdateLowestSequenceAndEpoch`)."""
        if epoch > self.epoch or (epoch == self.epoch and first < self.lowest):
            return replace(self, epoch=epoch, lowest=first)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """The state of one producer in one log; by default, nothing is known.

    batches: (first sequence, last sequence, last offset) of the last five batches, oldest first.
    txn_start: the first offset of its open transaction.
    """

    epoch: int = NO_EPOCH
    batches: tuple[tuple[int, int, int], ...] = ()
    txn_start: int | None = None

    def duplicate(self, batch: Batch) -> int | None:
        """Return the last offset of the same batch if it was appended (`findDuplicateBatch`)."""
        if batch.epoch != self.epoch:
            return None
        return next(
            (
                end
                for first, last, end in self.batches
                if (first, last) == (batch.first, batch.last)
            ),
            None,
        )

    def refusal(
        self, batch: Batch, *, verification: Verification | None, first_at_zero: bool
    ) -> Refusal | None:
        """Return why a client's batch is refused (`checkProducerEpoch`, `checkSequence`).

        An unknown producer may begin with any sequence number, unless it uses transactions v2 and
        `first_at_zero`, since 4.1 (KIP-890).
        """
        wrong = Refusal.OUT_OF_ORDER_SEQUENCE
        if batch.epoch < self.epoch:
            return Refusal.INVALID_PRODUCER_EPOCH
        if verification is not None:
            unknown = first_at_zero and verification.bumps and not self.batches
            if (unknown and batch.first != 0) or batch.first > verification.lowest:
                return wrong
        if batch.epoch != self.epoch:
            return wrong if batch.first != 0 and self.epoch != NO_EPOCH else None
        last = self.batches[-1][1] if self.batches else NO_SEQUENCE
        wraps = batch.first == 0 and last == _LAST_SEQUENCE
        return None if batch.first == last + 1 or wraps else wrong

    def append(self, batch: Batch, offset: int) -> ProducerState | Refusal:
        """Return the state once the batch is in the log, its first record at `offset`.

        `appendDataBatch`. A follower appends fetched batches with one check only: a batch outside
        of an open transaction is refused.
        """
        if self.txn_start is not None and not batch.transactional:
            return Refusal.INVALID_TXN_STATE
        kept = self.batches if batch.epoch == self.epoch else ()
        end = offset + batch.count - 1
        began = offset if batch.transactional else None
        return ProducerState(
            epoch=batch.epoch,
            batches=(*kept, (batch.first, batch.last, end))[-KEPT:],
            txn_start=began if self.txn_start is None else self.txn_start,
        )

    def end_transaction(self, epoch: int, *, strict: bool) -> ProducerState | Refusal:
        """Return the state after a transaction's marker (`appendEndTxnMarker`).

        strict: transactions v2 since 4.2. Their markers have a new epoch, and a late marker must
        not end the next transaction (KIP-1228); a repeated marker is accepted (KAFKA-19999).
        """
        late = epoch == self.epoch and strict and self.txn_start is not None
        if epoch < self.epoch or (late and epoch != _LAST_EPOCH):
            return Refusal.INVALID_PRODUCER_EPOCH
        kept = self.batches if epoch == self.epoch else ()
        return ProducerState(epoch=epoch, batches=kept)
