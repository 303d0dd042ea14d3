"""Consume, transform, produce: a consumer processes a record by forwarding it to other topics.

A forwarded record keeps the value, which names the send; its key names the source record. With
`Commit.TRANSACTION` the forwarded records and the offsets of their source records are one
transaction (KIP-98, KIP-447): both are committed or neither is.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from ackproof.clients.consumer_spec import ConsumerSpec
from ackproof.clients.transactional import retry_transaction_request
from ackproof.errors import WorkloadError
from ackproof.scenario.consumers import FORWARDING_TIMEOUT_MS, Commit

#: The key of a forwarded record: partition and offset of the source record, consumer number.
KEY = struct.Struct(">iqq")

SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,
    "delivery.timeout.ms": FORWARDING_TIMEOUT_MS,
}


class Forwarder:
    """Forwards the records of one consumer.

    Raises `WorkloadError` for a fatal error, and if the consumer is fenced because its successor
    has initialized the transactional.id.
    """

    def __init__(self, spec: ConsumerSpec, secrets: Mapping[str, str]) -> None:
        self._spec = spec
        self._in_transactions = spec.commit is Commit.TRANSACTION
        own: dict[str, Any] = {}
        if self._in_transactions:
            own = {
                "transactional.id": spec.transactional_id,
                "transaction.timeout.ms": FORWARDING_TIMEOUT_MS,
            }
        self._producer = Producer(
            {
                "bootstrap.servers": spec.bootstrap_servers,
                "client.id": f"ackproof-forwarder-{spec.number}",
                **SETTINGS,
                **own,
                **secrets,
            }
        )
        if self._in_transactions:
            self._require(retry_transaction_request(self._producer.init_transactions))

    def send(self, messages: Sequence[Message]) -> bool:
        """Forward records and wait for their acks; return whether all were acked."""
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
            # confluent-kafka raises a fatal error wherever it is. Raised within a callback, it is
            # the cause of a SystemError.
            fatal = failure if isinstance(failure, KafkaException) else failure.__cause__
            if not isinstance(fatal, KafkaException):
                raise
            self._require(fatal.args[0])
        return not refused

    def commit(self, offsets: Sequence[TopicPartition], group: Any) -> KafkaError | None:
        """Commit the transaction with these offsets of `group`.

        Return the error if it was refused and is aborted. Raises `WorkloadError` if its outcome is
        unknown.
        """
        error = retry_transaction_request(
            lambda timeout: self._producer.send_offsets_to_transaction(
                list(offsets), group, timeout
            )
        )
        if error is None:
            error = retry_transaction_request(self._producer.commit_transaction)
        if error is not None:
            if not error.txn_requires_abort():
                self._require(error)
            self.abort()
        return error

    def abort(self) -> None:
        self._require(retry_transaction_request(self._producer.abort_transaction))

    def _require(self, error: KafkaError | None) -> None:
        if error is not None:
            raise WorkloadError(
                f"consumer {self._spec.number} cannot forward records as "
                f"{self._spec.transactional_id!r}: {error.str()}",
                hint="Another producer with this transactional.id has fenced it, or no transaction "
                "coordinator is available.",
            )
