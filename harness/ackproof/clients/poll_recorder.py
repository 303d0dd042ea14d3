"""Records what a consumer's polls return, and the consumer's events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Message

from ackproof.clients.consumer_spec import ConsumerSpec
from ackproof.clients.shared_page import now_us
from ackproof.ledger.arrow_stream import TableStream
from ackproof.ledger.processed_records import Effect
from ackproof_spark.record import decode, run_token
from ackproof_spark.tables import CONSUMER_EVENTS, READS


def reads_constants(spec: ConsumerSpec) -> dict[str, Any]:
    """Return the columns that are the same for all reads of a consumer."""
    return {
        **consumer_constants(spec),
        "isolation_level": spec.isolation_level,
        "topic": spec.topic,
    }


def consumer_constants(spec: ConsumerSpec) -> dict[str, Any]:
    """Return the columns that name a consumer."""
    return {"run_id": spec.run_id, "consumer": spec.number, "group": spec.group}


class PollRecorder:
    """The reads and events of one consumer."""

    def __init__(self, spec: ConsumerSpec) -> None:
        self._spec = spec
        self._token = run_token(spec.run_id)
        self.polls = 0
        self._reads = TableStream(spec.reads, READS, reads_constants(spec))
        self._events = TableStream(spec.events, CONSUMER_EVENTS, consumer_constants(spec))

    def polled(self, messages: Sequence[Message]) -> list[Effect]:
        """Record the messages of one poll; return the effects that processing them will have."""
        at, topic = now_us(), self._spec.topic
        names = [self._name(message.value()) for message in messages]
        offsets = [(message.partition(), message.offset()) for message in messages]
        self._reads.write(
            {
                "poll": [self.polls] * len(messages),
                "number": list(range(len(messages))),
                "partition": [partition for partition, _ in offsets],
                "offset": [offset for _, offset in offsets],
                "producer": [name[0] for name in names],
                "sequence": [name[1] for name in names],
                "read_at": [at] * len(messages),
            }
        )
        self.polls += 1
        return [(topic, *offset, *name, at) for offset, name in zip(offsets, names, strict=True)]

    def event(
        self,
        event: str,
        offsets: Mapping[int, int | None] | None = None,
        *,
        error: str | None = None,
    ) -> None:
        """Record an event, with a row for each partition of `offsets`."""
        rows: list[tuple[int | None, int | None]] = list((offsets or {}).items()) or [(None, None)]
        count = len(rows)
        self._events.write(
            {
                "at": [now_us()] * count,
                "poll": [self.polls] * count,
                "event": [event] * count,
                "topic": [self._spec.topic if offsets else None] * count,
                "partition": [partition for partition, _ in rows],
                "offset": [offset for _, offset in rows],
                "error": [error] * count,
            }
        )

    def close(self) -> None:
        """Mark both streams as complete."""
        self._reads.close()
        self._events.close()

    def _name(self, value: bytes | None) -> tuple[int | None, int | None]:
        """Return producer and sequence of a record of this run, else None for both."""
        name = decode(value) if value is not None else None
        return name[1:] if name is not None and name[0] == self._token else (None, None)
