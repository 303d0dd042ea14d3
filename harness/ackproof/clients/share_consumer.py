"""The member of a share group: acquires records, processes those it accepts, acknowledges them.

The `consumer` process runs it if its specification has a `share`. A record is processed before it
is accepted, and one that is to be released or rejected is not processed. So a record without an
effect was never accepted.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from confluent_kafka import (
    AcknowledgeType,
    IllegalStateException,
    KafkaError,
    KafkaException,
    Message,
    ShareConsumer,
    TopicPartition,
)

from ackproof.clients import program
from ackproof.clients.connection import GROUP_REQUEST_S, cannot_start, record_in_force
from ackproof.clients.poll_recorder import Read, ShareRecorder
from ackproof.clients.shared_page import Order, ProgressPage, State, now_us
from ackproof.clients.specs import ConsumerSpec
from ackproof.errors import WorkloadError
from ackproof_spark.tables import LOCK_EXPIRED

#: Maximum seconds of a poll, and between two checks for a stop.
_POLL_S = 0.1

_TYPES = {
    "accept": AcknowledgeType.ACCEPT,
    "release": AcknowledgeType.RELEASE,
    "reject": AcknowledgeType.REJECT,
}


class ShareLoop:
    """Polls, processes and acknowledges, until the harness requests the end.

    The harness does so when the group is at rest: only the brokers know that.
    """

    def __init__(self, spec: ConsumerSpec, page: ProgressPage, secrets: Mapping[str, str]) -> None:
        assert spec.share is not None  # the caller's case
        self._spec, self._words = spec, spec.share.acknowledge
        self._page = page
        self._recorder = ShareRecorder(spec)
        self._parent = program.expected_parent(spec.parent)
        self._terminated = False
        self._fatal: KafkaError | None = None
        self._acquired = self._processed = 0
        record_in_force(spec)
        try:
            self._consumer = ShareConsumer(
                {
                    "bootstrap.servers": spec.bootstrap_servers,
                    "client.id": f"ackproof-consumer-{spec.number}",
                    "group.id": spec.group,
                    "max.poll.records": spec.poll,
                    **spec.settings,
                    "share.acknowledgement.mode": "explicit" if self._words else "implicit",
                    **secrets,
                    "error_cb": self._on_error,
                }
            )
        except KafkaException as error:
            raise cannot_start(spec, error) from error
        self._consumer.set_acknowledgement_commit_callback(self._on_acknowledged)

    def terminate(self) -> None:
        self._terminated = True

    def run(self) -> None:
        """Consume until the harness requests the end.

        Raises `WorkloadError` for a fatal error of librdkafka.
        """
        self._page.started_at = now_us()
        self._page.state = State.CONSUMING
        self._recorder.event("started")
        self._consumer.subscribe([self._spec.topic])
        while not (self._terminated or self._fatal or self._page.stop or self._orphaned()):
            self._handle(self._consumer.poll(_POLL_S))
        self._page.state = State.SETTLING
        self._consumer.close()
        self._recorder.event("closed")
        self._recorder.close()
        if self._fatal is not None:
            raise WorkloadError(
                f"consumer {self._spec.number} ended with a fatal error: {self._fatal.str()}",
                hint="librdkafka allows no further polls after it.",
            )

    def _handle(self, polled: Sequence[Message]) -> None:
        messages = []
        for message in polled:
            error = message.error()
            if error is None:
                messages.append(message)
            else:
                self._recorder.event("error", error=error.str())
        if not messages:
            return
        spec = self._spec
        reads = self._recorder.acquired(messages)
        self._acquired += len(reads)
        if self._page.order is Order.SLOW:
            time.sleep(self._page.argument_s)
            self._page.obeyed += 1
        if spec.crash_after is not None and self._acquired >= spec.crash_after and len(reads) > 1:
            self._crash(reads)
        kinds = [self._kind(offset) for _, offset, *_ in reads]
        self._process(reads, kinds)
        self._recorder.asked(reads, kinds)
        if self._words:
            self._acknowledge(messages, kinds)
        self._count()

    def _kind(self, offset: int) -> str:
        return self._words[offset % len(self._words)] if self._words else "accept"

    def _process(self, reads: Sequence[Read], kinds: Sequence[str]) -> None:
        done = [read for read, kind in zip(reads, kinds, strict=True) if kind == "accept"]
        self._recorder.processed(done)
        self._processed += len(done)

    def _acknowledge(self, messages: Sequence[Message], kinds: Sequence[str]) -> None:
        for message, kind in zip(messages, kinds, strict=True):
            try:
                self._consumer.acknowledge(message, _TYPES[kind])
            except IllegalStateException:
                self._recorder.answered(message.partition(), [message.offset()], LOCK_EXPIRED[1])
        try:
            answers = self._consumer.commit_sync(GROUP_REQUEST_S)
        except KafkaException as error:
            self._recorder.event("commit-failed", error=error.args[0].str())
            return
        for partition, refused in answers.items():
            offsets = [
                offset
                for number, offset in self._recorder.unanswered
                if number == partition.partition
            ]
            self._recorder.answered(partition.partition, offsets, _name(refused))

    def _on_acknowledged(
        self, offsets: Mapping[TopicPartition, set[int]], refused: KafkaException | None
    ) -> None:
        for partition, of_partition in offsets.items():
            self._recorder.answered(partition.partition, sorted(of_partition), _name(refused))

    def _crash(self, reads: Sequence[Read]) -> NoReturn:
        half = reads[: len(reads) // 2]
        self._process(half, [self._kind(offset) for _, offset, *_ in half])
        self._count()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    def _count(self) -> None:
        self._page.count(
            sent=self._acquired, acked=self._processed, failed=0, unknown=0, at=now_us()
        )

    def _orphaned(self) -> bool:
        return os.getppid() != self._parent

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error


def _name(refused: KafkaException | None) -> str | None:
    """Return the name of the error with which a broker refused; None if it took the request."""
    if refused is None:
        return None
    error: Any = refused.args[0]
    return str(error.name())
