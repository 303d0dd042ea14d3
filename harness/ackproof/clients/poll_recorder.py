"""Records the polls of a consumer: its records, their effects, and its events."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Message

from ackproof.clients.forwarding import RECORD
from ackproof.clients.shared_page import now_us
from ackproof.clients.specs import ConsumerSpec
from ackproof.ledger.arrow_stream import TableStream
from ackproof_spark.record import decode, run_token
from ackproof_spark.tables import (
    ACKNOWLEDGEMENTS,
    ACQUISITIONS,
    CONSUMER_EVENTS,
    EFFECTS,
    READ_IDENTITIES,
    READS,
)

_ASKED = ("poll", "number", *RECORD, "kind", "asked_at")

#: The columns of `RECORD`, and the time in microseconds UTC.
Read = tuple[int, int, int | None, int | None, int]


class _Recorder:
    """What every consumer records: its events, and the effects of its processing."""

    def __init__(self, spec: ConsumerSpec) -> None:
        self._spec = spec
        self._token = run_token(spec.run_id)
        self.polls = 0
        self._events = TableStream(spec.events, CONSUMER_EVENTS, spec.columns)
        self._effects = (
            None if spec.into else TableStream(spec.effects, EFFECTS, spec.effects_columns)
        )
        self._identities = (
            TableStream(spec.identities, READ_IDENTITIES, spec.columns) if spec.identities else None
        )

    def processed(self, reads: Sequence[Read]) -> None:
        assert self._effects is not None  # a forwarding consumer has none
        if reads:
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
        self._events.close()
        for stream in (self._effects, self._identities):
            if stream is not None:
                stream.close()

    def _identify(self, messages: Sequence[Message]) -> None:
        """Record by what the records of a poll are recognized, if an application sends them.

        Before the records themselves, so that none lacks it after a SIGKILL.
        """
        if self._identities is not None:
            self._identities.write_rows(
                ("poll", "number", "id", "digest", "key"),
                [
                    (self.polls, number, *_identity(message, self._spec.id_header))
                    for number, message in enumerate(messages)
                ],
            )

    def _reads(self, messages: Sequence[Message]) -> list[Read]:
        at = now_us()
        return [
            (message.partition(), message.offset(), *self._name(message.value()), at)
            for message in messages
        ]

    def _name(self, value: bytes | None) -> tuple[int | None, int | None]:
        """Return producer and sequence of a record of this run, else None for both."""
        name = decode(value) if value is not None else None
        return name[1:] if name is not None and name[0] == self._token else (None, None)


class PollRecorder(_Recorder):
    def __init__(self, spec: ConsumerSpec) -> None:
        super().__init__(spec)
        self._records = TableStream(spec.reads, READS, spec.reads_columns)

    def polled(self, messages: Sequence[Message]) -> list[Read]:
        self._identify(messages)
        reads = self._reads(messages)
        self._records.write_rows(
            ("poll", "number", *RECORD, "read_at"),
            [(self.polls, number, *read) for number, read in enumerate(reads)],
        )
        self.polls += 1
        return reads

    def close(self) -> None:
        self._records.close()
        super().close()


class ShareRecorder(_Recorder):
    """Records what a share consumer acquires, what it answers, and what the brokers make of it."""

    def __init__(self, spec: ConsumerSpec) -> None:
        super().__init__(spec)
        assert spec.share is not None  # the caller's case
        columns, share = spec.effects_columns, spec.share
        self._acquired = TableStream(share.acquisitions, ACQUISITIONS, columns)
        self._acknowledged = TableStream(share.acknowledgements, ACKNOWLEDGEMENTS, columns)
        #: The acknowledgements without an answer, by partition and offset.
        self._asked: dict[tuple[int, int], tuple[Any, ...]] = {}

    def acquired(self, messages: Sequence[Message]) -> list[Read]:
        self._identify(messages)
        reads = self._reads(messages)
        self._acquired.write_rows(
            ("poll", "number", *RECORD, "read_at", "delivery_count"),
            [
                (self.polls, number, *read, message.delivery_count())
                for number, (read, message) in enumerate(zip(reads, messages, strict=True))
            ],
        )
        self.polls += 1
        return reads

    def asked(self, reads: Sequence[Read], kinds: Sequence[str]) -> None:
        """Record the acknowledgements of the last poll, before the client sends them."""
        at = now_us()
        rows = [
            (self.polls - 1, number, *read[:-1], kind, at)
            for number, (read, kind) in enumerate(zip(reads, kinds, strict=True))
        ]
        self._acknowledged.write_rows(_ASKED, rows)
        self._asked |= {(read[0], read[1]): row for read, row in zip(reads, rows, strict=True)}

    def answered(self, partition: int, offsets: Iterable[int], error: str | None) -> None:
        """Record the brokers' answer to acknowledgements; a repeated answer changes nothing."""
        at = now_us()
        asked = [self._asked.pop((partition, offset), None) for offset in offsets]
        if rows := [(*row, at, error) for row in asked if row is not None]:
            self._acknowledged.write_rows((*_ASKED, "answered_at", "error"), rows)

    @property
    def unanswered(self) -> list[tuple[int, int]]:
        """Partition and offset of each acknowledgement without an answer."""
        return list(self._asked)

    def close(self) -> None:
        self._acquired.close()
        self._acknowledged.close()
        super().close()


def _identity(message: Message, id_header: str) -> list[str | None]:
    """Return the SHA-256 of the parts by which an application's record may be identified."""
    ids = [value for name, value in message.headers() or () if name == id_header]
    parts = (ids[0] if ids else None, message.value() or b"", message.key())
    return [None if part is None else hashlib.sha256(part).hexdigest() for part in parts]
