"""Records the polls of a consumer: its reads, their effects, and its events."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import Message

from ackproof.clients.forwarding import RECORD
from ackproof.clients.shared_page import now_us
from ackproof.clients.specs import ConsumerSpec
from ackproof.ledger.arrow_stream import TableStream
from ackproof_spark.record import decode, run_token
from ackproof_spark.tables import CONSUMER_EVENTS, EFFECTS, READ_IDENTITIES, READS

#: The columns of `RECORD`, and the time in microseconds UTC.
Read = tuple[int, int, int | None, int | None, int]


class PollRecorder:
    def __init__(self, spec: ConsumerSpec) -> None:
        self._spec = spec
        self._token = run_token(spec.run_id)
        self.polls = 0
        self._reads = TableStream(spec.reads, READS, spec.reads_columns)
        self._events = TableStream(spec.events, CONSUMER_EVENTS, spec.columns)
        self._identities = (
            TableStream(spec.identities, READ_IDENTITIES, spec.columns) if spec.identities else None
        )
        self._effects = (
            None if spec.into else TableStream(spec.effects, EFFECTS, spec.effects_columns)
        )

    def polled(self, messages: Sequence[Message]) -> list[Read]:
        at = now_us()
        reads = [
            (message.partition(), message.offset(), *self._name(message.value()), at)
            for message in messages
        ]
        self._reads.write_rows(
            ("poll", "number", *RECORD, "read_at"),
            [(self.polls, number, *read) for number, read in enumerate(reads)],
        )
        if self._identities is not None:
            self._identities.write_rows(
                ("poll", "number", "id", "digest", "key"),
                [
                    (self.polls, number, *_identity(message, self._spec.id_header))
                    for number, message in enumerate(messages)
                ],
            )
        self.polls += 1
        return reads

    def processed(self, reads: Sequence[Read]) -> None:
        assert self._effects is not None  # a forwarding consumer has none
        self._effects.write_rows((*RECORD, "processed_at"), reads)

    def event(
        self,
        event: str,
        offsets: Mapping[int, int | None] | None = None,
        *,
        error: str | None = None,
    ) -> None:
        """Record an event, with a row for each partition of `offsets`."""
        at, topic = now_us(), self._spec.topic if offsets else None
        places: Iterable[tuple[int | None, int | None]] = (offsets or {}).items() or [(None, None)]
        self._events.write_rows(
            ("at", "poll", "event", "topic", "partition", "offset", "error"),
            [
                (at, self.polls, event, topic, partition, offset, error)
                for partition, offset in places
            ],
        )

    def close(self) -> None:
        self._reads.close()
        self._events.close()
        for stream in (self._effects, self._identities):
            if stream is not None:
                stream.close()

    def _name(self, value: bytes | None) -> tuple[int | None, int | None]:
        """Return producer and sequence of a record of this run, else None for both."""
        name = decode(value) if value is not None else None
        return name[1:] if name is not None and name[0] == self._token else (None, None)


def _identity(message: Message, id_header: str) -> list[str | None]:
    """Return the SHA-256 of the parts by which an application's record may be identified."""
    ids = [value for name, value in message.headers() or () if name == id_header]
    parts = (ids[0] if ids else None, message.value() or b"", message.key())
    return [None if part is None else hashlib.sha256(part).hexdigest() for part in parts]
