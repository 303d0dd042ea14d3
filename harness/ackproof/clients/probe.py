"""The probe process: writes and reads each partition all the time, with separate clients.

`python -m ackproof.clients.probe SPEC.json` (a `ProbeSpec`); `process` starts it.

A broker serves the requests of a connection one after the other. Each partition therefore has its
own producer (`producer`) and consumer, each with its own thread, so that an unavailable partition
does not delay the others. One more client asks for the ends of all partitions (`EndReader`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from ackproof.clients import producer, program
from ackproof.clients.connection import METADATA_S
from ackproof.clients.shared_page import ProgressPage, State, now_us
from ackproof.clients.specs import AT_ONCE, RATE, READER_SETTINGS, ProbeSpec, ProducerSpec
from ackproof.errors import WorkloadError
from ackproof.ledger.arrow_stream import TableStream
from ackproof.ledger.outcome import error_name
from ackproof.ledger.probed_ends import EndStream
from ackproof_spark.record import decode, run_token
from ackproof_spark.tables import PROBE

#: Seconds of one attempt without an answer.
ATTEMPT_S = 1.0

#: Offset, producer and sequence of an attempt without a record.
_NOTHING = (None, None, None)


class PartitionReader:
    """The reading half of the probe for the partition of `writer`.

    An attempt fetches from the leader, from one record below the high watermark of the last answer.
    The answer comes at once: a record or the end of the partition. Between two attempts the
    consumer fetches one batch at most. (A paused consumer of librdkafka needs up to a second to
    resume.)
    """

    def __init__(self, writer: ProducerSpec, attempts: Path, secrets: Mapping[str, str]) -> None:
        assert writer.partition is not None  # the probe has a writer for each partition
        self._partition = TopicPartition(writer.topic, writer.partition)
        self._token = run_token(writer.run_id)
        constants = {
            "run_id": writer.run_id,
            "topic": writer.topic,
            "partition": writer.partition,
            "action": "read",
        }
        self._stream = TableStream(attempts, PROBE, constants)
        self._stopped = threading.Event()
        self._error = ""
        #: How many attempts were made and recorded, and how many of them were answered.
        self.attempts = self.answers = 0
        #: Whether the last attempt was answered; otherwise its fetch goes on.
        self._answered = False
        self._consumer = Consumer(
            {
                "bootstrap.servers": writer.bootstrap_servers,
                "client.id": f"ackproof-probe-{writer.topic}-{writer.partition}",
                **READER_SETTINGS,
                **secrets,
                "error_cb": self._on_error,
            }
        )
        self._consumer.assign(
            [TopicPartition(self._partition.topic, self._partition.partition, OFFSET_END)]
        )

    def stop(self) -> None:
        self._stopped.set()

    def await_first_answer(self) -> None:
        """Wait for the first answer, so that connecting does not count as an outage.

        Raises `WorkloadError` without an answer.
        """
        if self._answer(METADATA_S) is None:
            partition = f"{self._partition.topic}-{self._partition.partition}"
            raise WorkloadError(
                f"the probe cannot read {partition}: no answer in {METADATA_S:g} s",
                hint=f"librdkafka's last error: {self._error or 'none'}.",
            )
        self._answered = True

    def run(self) -> None:
        """Make `RATE` attempts a second, fewer while they are not answered."""
        next_at = time.monotonic()
        while not self._stopped.is_set():
            self._attempt()
            next_at = max(next_at + 1 / RATE, time.monotonic())
            self._stopped.wait(next_at - time.monotonic())
        self._consumer.close()
        self._stream.close()

    def _attempt(self) -> None:
        at, self._error = now_us(), ""
        if self._answered:
            self._fetch_newest()
        answer = self._answer(ATTEMPT_S)
        answered_at = None if answer is None else now_us()
        if answer is not None:
            self._answered = True
        offset, producer, sequence = _NOTHING if answer is None else self._record(answer)
        self._stream.write(
            {
                "at": [at],
                "answered_at": [answered_at],
                "ok": [answer is not None],
                "offset": [offset],
                "producer": [producer],
                "sequence": [sequence],
                "error": [None if answer is not None else self._error or "no answer"],
            }
        )
        self.attempts += 1
        self.answers += answer is not None

    def _fetch_newest(self) -> None:
        _, high_watermark = self._consumer.get_watermark_offsets(self._partition, cached=True)
        newest = TopicPartition(
            self._partition.topic, self._partition.partition, max(0, high_watermark - 1)
        )
        self._consumer.seek(newest)
        self._answered = False

    def _answer(self, within_s: float) -> Message | None:
        """Return a record or the end of the partition; None if the leader did not answer."""
        deadline = time.monotonic() + within_s
        while (left := deadline - time.monotonic()) > 0 and not self._stopped.is_set():
            message = self._consumer.poll(min(left, 0.1))
            if message is None:
                continue
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                return message
            self._error = error_name(error.code())
        return None

    def _record(self, message: Message) -> tuple[int | None, int | None, int | None]:
        """Return offset, producer and sequence of a record; None each for the partition's end."""
        if message.error() is not None:
            return _NOTHING
        name = decode(message.value() or b"")
        if name is None or name[0] != self._token:
            return message.offset(), None, None
        return message.offset(), name[1], name[2]

    def _on_error(self, error: KafkaError) -> None:
        self._error = error_name(error.code())


#: Seconds between two requests for the ends.
_ENDS_S = 1.0


class EndReader:
    """Asks leaders for the ends of partitions: ListOffsets, latest, read uncommitted.

    The requests are no attempts: they do not count as availability. An answer without the leader's
    epoch is not recorded.
    """

    def __init__(self, spec: ProbeSpec, secrets: Mapping[str, str]) -> None:
        self._wanted = {
            TopicPartition(writer.topic, writer.partition): OffsetSpec.latest()
            for writer in spec.writers
        }
        self._stream = EndStream(spec.ends)
        self._stopped = threading.Event()
        self._admin = AdminClient(
            {
                "bootstrap.servers": spec.writers[0].bootstrap_servers,
                "client.id": "ackproof-probe-ends",
                **AT_ONCE,
                "log_level": 0,
                **secrets,
            }
        )

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        while not self._stopped.wait(_ENDS_S):
            self._ask()
        self._stream.close()

    def _ask(self) -> None:
        at = now_us()
        answers = self._admin.list_offsets(
            self._wanted,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=ATTEMPT_S,
        )
        rows: list[dict[str, int | str]] = []
        for place, future in answers.items():
            try:
                answer = future.result()
            except KafkaException:
                continue
            if answer.leader_epoch is not None:
                rows.append(
                    {
                        "at": at,
                        "topic": place.topic,
                        "partition": place.partition,
                        "leader_epoch": answer.leader_epoch,
                        "end": answer.offset,
                    }
                )
        self._stream.write(rows)


#: Seconds between two checks for a stop.
_LOOK_S = 0.1


class Probe:
    def __init__(self, spec: ProbeSpec, page: ProgressPage, secrets: Mapping[str, str]) -> None:
        self._page = page
        self._parent = program.expected_parent(spec.parent)
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._pages = [ProgressPage(one.progress, create=True) for one in spec.writers]
        self._writers = [
            producer.begin(one, own_page, secrets)
            for one, own_page in zip(spec.writers, self._pages, strict=True)
        ]
        self._readers = [
            PartitionReader(one, attempts, secrets)
            for one, attempts in zip(spec.writers, spec.attempts, strict=True)
        ]
        for reader in self._readers:
            reader.await_first_answer()
        self._ends = EndReader(spec, secrets)

    def terminate(self) -> None:
        self._stop.set()

    def run(self) -> None:
        """Probe until the harness requests the end. Raises the first failure of a thread."""
        threads = [
            threading.Thread(target=partial(self._guarded, run), daemon=True)
            for run in (
                *(writer.run for writer in self._writers),
                *(reader.run for reader in self._readers),
                self._ends.run,
            )
        ]
        for thread in threads:
            thread.start()
        self._page.state = State.PRODUCING
        while not (self._page.stop or self._failures or os.getppid() != self._parent):
            if self._stop.wait(_LOOK_S):
                break
        self._page.state = State.SETTLING
        for page in self._pages:
            page.stop = True
        for reader in self._readers:
            reader.stop()
        self._ends.stop()
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        self._count()

    def _count(self) -> None:
        """Publish the number of attempts, with which the judge compares the recorded ones."""
        for page in self._pages:
            page.state = State.DONE
        attempts = sum(reader.attempts for reader in self._readers)
        answers = sum(reader.answers for reader in self._readers)
        self._page.count(
            sent=attempts, acked=answers, failed=0, unknown=attempts - answers, at=now_us()
        )

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as failure:  # raised again in the main thread
            self._failures.append(failure)


if __name__ == "__main__":
    sys.exit(program.run(ProbeSpec, Probe))
