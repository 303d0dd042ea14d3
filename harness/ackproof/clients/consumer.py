"""The consumer process: polls, records the records of each poll, processes them, and commits.

`python -m ackproof.clients.consumer SPEC.json` (a `ConsumerSpec`); `process` starts it.

Processing is an entry in a stream, in one batch for each poll, or forwarding to other topics
(`forwarding`). Offsets are committed to Kafka separately: delivery guarantees concern that gap.
For a crash the process kills itself when half of a poll's records are processed. With automatic
commits it crashes at the worst moment, after those records were committed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from ackproof.clients import program
from ackproof.clients.connection import GROUP_REQUEST_S, connect_consumer, retry_group_request
from ackproof.clients.forwarding import Forwarder
from ackproof.clients.poll_recorder import PollRecorder, Read
from ackproof.clients.shared_page import Order, ProgressPage, State, now_us
from ackproof.clients.specs import ConsumerSpec
from ackproof.errors import WorkloadError
from ackproof.scenario.types import Commit
from ackproof.waiting import last_result
from ackproof_spark.tables import FOLLOWER_FETCH

#: Maximum seconds of a poll, and between two checks for a stop.
POLL_S = 0.1

#: Before a crash, processing lasts at most this many intervals of automatic commits.
INTERVALS = 3

#: librdkafka's default, milliseconds.
AUTO_COMMIT_INTERVAL_MS = 5000


class ConsumerLoop:
    """Polls, processes and commits, until a stop.

    `positions` are behind the last record of each assigned partition, or its committed offset, else
    None. Then `_reached_ends` has the position, once the client has found no further record.
    """

    def __init__(self, spec: ConsumerSpec, page: ProgressPage, secrets: Mapping[str, str]) -> None:
        self._spec = spec
        self._page = page
        self._recorder = PollRecorder(spec)
        self._forwarder = Forwarder(spec, secrets) if spec.into else None
        self._parent = program.expected_parent(spec.parent)
        self._terminated = False
        self._fatal: KafkaError | None = None
        self._read = self._processed = 0
        self._assigned_at = 0.0
        self.positions: dict[int, int | None] = {}
        self._reached_ends: dict[int, int] = {}
        self._followed: set[int] = set()
        self._secrets = dict(secrets)
        self._consumer = self._connect()

    def terminate(self) -> None:
        self._terminated = True

    def run(self) -> None:
        """Consume until the harness requests the end and the end offsets are reached.

        Raises `WorkloadError` for a fatal error of librdkafka.
        """
        self._page.started_at = now_us()
        self._page.state = State.CONSUMING
        self._recorder.event("started")
        self._join()
        while not (self._terminated or self._fatal or self._orphaned() or self._caught_up()):
            self._handle(self._consumer.consume(self._spec.poll, POLL_S))
            self._rejoin()
        self._page.state = State.SETTLING
        if self._caught_up():
            self._recorder.event("caught-up", self._reached())
        self._consumer.close()
        self._recorder.event("closed")
        self._recorder.close()
        if self._fatal is not None:
            raise WorkloadError(
                f"consumer {self._spec.number} ended with a fatal error: {self._fatal.str()}",
                hint="librdkafka allows no further polls after it.",
            )

    def _connect(self) -> Any:
        return connect_consumer(
            self._spec,
            self._secrets,
            auto_commit=self._spec.commit is Commit.AUTO,
            on_error=self._on_error,
            on_commit=self._on_commit,
            on_statistics=self._on_statistics,
        )

    def _join(self) -> None:
        spec = self._spec
        if spec.partitions is None:
            self._consumer.subscribe(
                [spec.topic],
                on_assign=self._on_assign,
                on_revoke=partial(self._remove, "revoked"),
                on_lost=partial(self._remove, "lost"),
            )
            return
        partitions = [TopicPartition(spec.topic, partition) for partition in spec.partitions]
        self._on_assign(self._consumer, partitions)
        self._consumer.assign(partitions)

    def _rejoin(self) -> None:
        """Leave the group and join it again if the order `REJOIN` requires it now."""
        if self._page.order is not Order.REJOIN or self._spec.partitions is not None:
            return
        if time.monotonic() - self._assigned_at >= self._page.argument_s and self.positions:
            self._consumer.close()
            self._consumer = self._connect()
            self._join()

    def _handle(self, polled: Sequence[Message]) -> None:
        messages = [message for message in polled if message.error() is None]
        for message in polled:
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                self._reached_ends[message.partition()] = message.offset()
            elif error is not None:
                self._recorder.event("error", error=error.str())
        if not messages:
            return
        spec = self._spec
        reads = self._recorder.polled(messages)
        if self._page.order is Order.SLOW:
            time.sleep(self._page.argument_s)
            self._page.obeyed += 1
        for partition, offset, *_ in reads:
            self.positions[partition] = offset + 1
        self._read += len(reads)
        if spec.commit is Commit.BEFORE:
            self._commit()
        if spec.crash_after is not None and self._read >= spec.crash_after and len(reads) > 1:
            self._crash(reads, messages)
        done = self._process(reads, messages)
        if spec.commit is Commit.TRANSACTION:
            done = self._end_transaction(done)
        if not done:
            self._rewind(messages)
            return
        self._processed += len(reads)
        if spec.commit is Commit.AFTER:
            self._commit()
        self._page.count(sent=self._read, acked=self._processed, failed=0, unknown=0, at=now_us())

    def _process(self, reads: Sequence[Read], messages: Sequence[Message]) -> bool:
        """Process records; return False if some could not be forwarded."""
        if self._forwarder:
            return self._forwarder.send(messages)
        self._recorder.processed(reads)
        return True

    def _end_transaction(self, forwarded: bool) -> bool:
        """Commit the forwarded records and their offsets; return whether they are committed."""
        assert self._forwarder is not None  # `Commit.TRANSACTION` requires it
        if not forwarded:
            self._forwarder.abort()
            return False
        offsets = self._offsets()
        refused = self._forwarder.commit(offsets, self._consumer.consumer_group_metadata())
        if refused is not None:
            self._recorder.event("commit-failed", error=refused.str())
            return False
        self._recorder.event("committed", _by_partition(offsets))
        return True

    def _rewind(self, messages: Sequence[Message]) -> None:
        """Seek back, so that these records are polled again, in partitions still assigned."""
        first: dict[int, int] = {}
        for message in messages:
            first.setdefault(message.partition(), message.offset())
        back = {partition: first[partition] for partition in first.keys() & self.positions.keys()}
        for partition, offset in back.items():
            self._consumer.seek(TopicPartition(self._spec.topic, partition, offset))
        self.positions |= back
        self._recorder.event("rewound", back)

    def _offsets(self) -> list[TopicPartition]:
        return [
            TopicPartition(self._spec.topic, partition, position)
            for partition, position in self.positions.items()
            if position is not None
        ]

    def _commit(self) -> None:
        offsets = self._offsets()
        try:
            retry_group_request(partial(self._consumer.commit, offsets=offsets, asynchronous=False))
        except KafkaException as error:  # also during a rebalance
            self._recorder.event("commit-failed", error=error.args[0].str())
        else:
            self._recorder.event("committed", _by_partition(offsets))

    def _crash(self, reads: Sequence[Read], messages: Sequence[Message]) -> NoReturn:
        half = len(reads) // 2
        self._process(reads[:half], messages[:half])
        self._processed += half
        if self._spec.commit is Commit.AUTO:
            self._await_auto_commit()
        self._page.count(sent=self._read, acked=self._processed, failed=0, unknown=0, at=now_us())
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    def _await_auto_commit(self) -> None:
        """Wait until the polled records are committed, for at most `INTERVALS` intervals."""
        milliseconds = self._spec.settings.get("auto.commit.interval.ms", AUTO_COMMIT_INTERVAL_MS)
        partitions = [TopicPartition(self._spec.topic, number) for number in self.positions]

        def committed() -> bool:
            answer = self._consumer.committed(partitions, timeout=GROUP_REQUEST_S)
            return all(one.offset == self.positions[one.partition] for one in answer)

        last_result(committed, bool, within_s=INTERVALS * float(milliseconds) / 1000)

    def _caught_up(self) -> bool:
        """Whether the harness requested the end and all assigned partitions are consumed."""
        if not self._page.stop:
            return False
        try:
            ends = json.loads(self._spec.ends.read_text())
        except FileNotFoundError:
            return True
        return bool(self.positions) and all(
            position is not None and position >= ends.get(str(partition), 0)
            for partition, position in self._reached().items()
        )

    def _reached(self) -> dict[int, int | None]:
        """Return the positions, also of partitions of which no record was read."""
        return {
            partition: self._reached_ends.get(partition) if position is None else position
            for partition, position in self.positions.items()
        }

    def _orphaned(self) -> bool:
        return os.getppid() != self._parent

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error

    def _on_commit(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        if self._spec.commit is not Commit.AUTO:
            return  # a synchronous commit has its own answer
        committed = _by_partition(one for one in offsets if one.offset >= 0)
        if error is not None and error.code() != KafkaError._NO_OFFSET:
            self._recorder.event("commit-failed", committed, error=error.str())
        elif committed:
            self._recorder.event("committed", committed)

    def _on_statistics(self, statistics: str) -> None:
        """Record which partitions are fetched from a follower from now on."""
        followed = followed_partitions(statistics, self._spec.topic) & self.positions.keys()
        if new := followed - self._followed:
            offsets = {number: self.positions[number] for number in sorted(new)}
            self._recorder.event(FOLLOWER_FETCH, offsets)
        self._followed = followed

    def _on_assign(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        # This request also ensures that `assign` finds a coordinator: after "Not coordinator"
        # librdkafka once consumed nothing for two minutes.
        committed = partial(consumer.committed, list(partitions), timeout=GROUP_REQUEST_S)
        try:
            offsets = retry_group_request(committed) if partitions else []
        except KafkaException:
            offsets = [TopicPartition(one.topic, one.partition) for one in partitions]
        positions = {one.partition: one.offset if one.offset >= 0 else None for one in offsets}
        self.positions |= positions
        self._assigned_at = time.monotonic()
        if self._page.order is Order.REJOIN:
            self._page.obeyed += 1
        self._recorder.event("assigned", positions)

    def _remove(self, event: str, _: Any, partitions: Sequence[TopicPartition]) -> None:
        removed = {one.partition: self.positions.pop(one.partition, None) for one in partitions}
        for partition in removed:
            self._reached_ends.pop(partition, None)
        self._recorder.event(event, removed)


def followed_partitions(statistics: str, topic: str) -> set[int]:
    """Return the partitions that are fetched from a follower, by librdkafka's statistics."""
    partitions = json.loads(statistics)["topics"].get(topic, {}).get("partitions", {})
    return {
        int(number)
        for number, state in partitions.items()
        if state["leader"] >= 0 and state["broker"] not in (-1, state["leader"])
    }


def _by_partition(offsets: Iterable[TopicPartition]) -> dict[int, int]:
    return {one.partition: one.offset for one in offsets}


def _begin(spec: ConsumerSpec, page: ProgressPage, secrets: Mapping[str, str]) -> program.Client:
    if spec.share is None:
        return ConsumerLoop(spec, page, secrets)
    from ackproof.clients.share_consumer import ShareLoop  # older librdkafkas have none

    return ShareLoop(spec, page, secrets)


if __name__ == "__main__":
    sys.exit(program.run(ConsumerSpec, _begin))
