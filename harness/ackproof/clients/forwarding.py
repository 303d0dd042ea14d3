"""Consume, transform, produce: processing a record is sending it on into other topics.

The value stays, so that it still names the send; the key says which record it was made of. With
`Commit.TRANSACTION` what is sent on and the offsets of what it was made of are one transaction
(KIP-98, KIP-447): both are committed or neither is.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from ackproof.clients.consumer_spec import ConsumerSpec
from ackproof.clients.transactional import until_answered
from ackproof.errors import WorkloadError
from ackproof.scenario.commit import Commit

#: The key of what is sent on: partition and offset of the record it was made of, and who made it.
KEY = struct.Struct(">iqq")

#: Until the coordinator aborts what nobody ended, and at most what sending may take.
TIMEOUT_MS = 10_000

_SETTINGS = {"acks": "all", "enable.idempotence": True, "delivery.timeout.ms": TIMEOUT_MS}


class Forwarding:
    """Sends on what one consumer polled. Raises `WorkloadError` if it was replaced, or is broken.

    A consumer whose transactional id another one has taken over is fenced.
    """

    def __init__(self, spec: ConsumerSpec, secrets: Mapping[str, str]) -> None:
        self._spec = spec
        self._in_transactions = spec.commit is Commit.TRANSACTION
        own: dict[str, Any] = {}
        if self._in_transactions:
            own = {
                "transactional.id": spec.transactional_id,
                "transaction.timeout.ms": TIMEOUT_MS,
            }
        self._producer = Producer(
            {
                "bootstrap.servers": spec.bootstrap_servers,
                "client.id": f"ackproof-forwarder-{spec.number}",
                **_SETTINGS,
                **own,
                **secrets,
            }
        )
        if self._in_transactions:
            self._demand(until_answered(self._producer.init_transactions))

    def send(self, messages: Sequence[Message]) -> bool:
        """Send these records on, and wait for their acks; return whether all came.

        Raises `WorkloadError` if the client allows no further sends.
        """
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
            # The client has ended for good, and says so (confluent-kafka's `error_cb`) wherever it
            # is: within a callback of ours that is a SystemError, with the cause.
            ended = failure if isinstance(failure, KafkaException) else failure.__cause__
            if not isinstance(ended, KafkaException):
                raise
            self._demand(ended.args[0])
        return not refused

    def commit(self, offsets: Sequence[TopicPartition], group: Any) -> KafkaError | None:
        """Commit the transaction with these offsets of `group`; return why not, once it is aborted.

        Raises `WorkloadError` if it cannot be told whether it was committed.
        """
        error = until_answered(
            lambda timeout: self._producer.send_offsets_to_transaction(
                list(offsets), group, timeout
            )
        )
        if error is None:
            error = until_answered(self._producer.commit_transaction)
        if error is not None:
            if not error.txn_requires_abort():
                self._demand(error)
            self.abort()
        return error

    def abort(self) -> None:
        """Abort the open transaction."""
        self._demand(until_answered(self._producer.abort_transaction))

    def _demand(self, error: KafkaError | None) -> None:
        if error is not None:
            raise WorkloadError(
                f"consumer {self._spec.number} cannot send on as "
                f"{self._spec.transactional_id!r}: {error.str()}",
                hint="another with its transactional.id has fenced it, or no coordinator is up",
            )
