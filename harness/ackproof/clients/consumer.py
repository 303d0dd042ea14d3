"""The consumer process: polls, records what each poll returned, processes it, and commits.

`python -m ackproof.clients.consumer SPEC.json` (a `ConsumerSpec`); `process` starts it.

What a poll returned is recorded before anything is done with it; processing it is an effect in a
database (`effects`), or sending it on into other topics (`forwarding`); commits are where the
specification wants them. A crash is a SIGKILL of
itself, in the middle of processing a poll's records: half of them have their effect. With
automatic commits it comes at the worst moment there is, once those records were committed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from tenacity import Retrying, retry_if_exception, retry_if_result, stop_after_delay, wait_fixed

from ackproof.clients import main, orphan_guard
from ackproof.clients.consumer_spec import ConsumerSpec
from ackproof.clients.forwarding import Forwarding
from ackproof.clients.poll_recorder import PollRecorder
from ackproof.clients.shared_page import (
    Order,
    ProgressPage,
    State,
    now_us,
)
from ackproof.errors import WorkloadError
from ackproof.ledger.processed_records import Effect, EffectStore
from ackproof.scenario.commit import Commit

T = TypeVar("T")

#: The longest wait in one poll, seconds: so often a stop is noticed.
POLL_S = 0.1

#: How long brokers may take to tell committed offsets, seconds.
COMMITTED_S = 10.0

#: Processing that is about to crash lasts so many intervals of automatic commits, at most.
INTERVALS = 3

#: librdkafka's default, milliseconds.
AUTO_COMMIT_INTERVAL_MS = 5000


#: What requests of a group meet until it has a coordinator. librdkafka calls none retriable.
_NO_COORDINATOR = frozenset(
    {
        KafkaError._WAIT_COORD,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


def _for_now(failure: BaseException) -> bool:
    if not isinstance(failure, KafkaException):
        return False
    error: KafkaError = failure.args[0]
    return bool(error.retriable() or error.code() in _NO_COORDINATOR)


def answered(request: Callable[[], T]) -> T:
    """Return what a group's request is answered, again and again while it is refused for now.

    Raises KafkaException as it was refused last.
    """
    retrying = Retrying(
        retry=retry_if_exception(_for_now),
        stop=stop_after_delay(COMMITTED_S),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    return retrying(request)


class Consuming:
    """The loop. `positions` are those of the partitions that are assigned, None if unknown."""

    def __init__(
        self,
        spec: ConsumerSpec,
        page: ProgressPage,
        recorder: PollRecorder,
        *,
        secrets: Mapping[str, str],
    ) -> None:
        self._spec = spec
        self._page = page
        self._recorder = recorder
        self._effects: EffectStore | None = None
        self._forwarding: Forwarding | None = None
        if spec.into:
            self._forwarding = Forwarding(spec, secrets)
        else:
            self._effects = EffectStore(
                spec.effects, run_id=spec.run_id, consumer=spec.number, group=spec.group
            )
        self._parent = orphan_guard.meant(spec.parent)
        self._terminated = False
        self._fatal: KafkaError | None = None
        self._read = self._processed = 0
        self._assigned_at = 0.0
        self.positions: dict[int, int | None] = {}
        self._secrets = dict(secrets)
        self._consumer = self._connect(self._secrets)

    def terminate(self) -> None:
        """Stop at the next round; for signal handlers."""
        self._terminated = True

    def run(self) -> None:
        """Consume until the harness asks for the end and it is reached.

        Raises `WorkloadError` if the client ended itself (librdkafka's fatal errors).
        """
        self._page.started_at = now_us()
        self._page.state = State.CONSUMING
        self._recorder.event("started")
        self._join()
        while not (self._terminated or self._fatal or self._orphaned() or self._caught_up()):
            self._work(self._consumer.consume(self._spec.poll, POLL_S))
            self._rejoin()
        self._page.state = State.SETTLING
        if self._caught_up():
            self._recorder.event("caught-up", self.positions)
        self._consumer.close()
        self._recorder.event("closed")
        self._recorder.close()
        if self._effects:
            self._effects.close()
        if self._fatal is not None:
            raise WorkloadError(
                f"consumer {self._spec.number} stopped for good: {self._fatal.str()}",
                hint="librdkafka allows no further polls after such an error",
            )

    def _connect(self, secrets: Mapping[str, str]) -> Any:
        spec = self._spec
        try:
            return Consumer(
                {
                    "bootstrap.servers": spec.bootstrap_servers,
                    "client.id": f"ackproof-consumer-{spec.number}",
                    "group.id": spec.group,
                    **spec.settings,
                    "enable.auto.commit": spec.commit is Commit.AUTO,
                    **secrets,
                    "error_cb": self._on_error,
                    "on_commit": self._on_commit,
                }
            )
        except KafkaException as error:
            raise WorkloadError(
                f"consumer {spec.number} cannot start with {spec.bootstrap_servers}: "
                f"{error.args[0].str()}",
                hint=f"settings: {spec.settings}",
            ) from error

    def _join(self) -> None:
        spec = self._spec
        if spec.partitions is None:
            self._consumer.subscribe(
                [spec.topic],
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )
            return
        places = [TopicPartition(spec.topic, partition) for partition in spec.partitions]
        self._on_assign(self._consumer, places)
        self._consumer.assign(places)

    def _rejoin(self) -> None:
        """Leave the group and join it again, if that is due by the harness's order."""
        if self._page.order is not Order.REJOIN or self._spec.partitions is not None:
            return
        if time.monotonic() - self._assigned_at >= self._page.argument_s and self.positions:
            self._consumer.close()
            self._consumer = self._connect(self._secrets)
            self._join()

    def _work(self, polled: Sequence[Message]) -> None:
        messages = [message for message in polled if message.error() is None]
        for message in polled:
            if message.error() is not None:
                self._recorder.event("error", error=message.error().str())
        if not messages:
            return
        spec = self._spec
        effects = self._recorder.polled(messages)
        if self._page.order is Order.DAWDLE:
            time.sleep(self._page.argument_s)
            self._page.obey()
        for _, partition, offset, *_ in effects:
            self.positions[partition] = offset + 1
        self._read += len(effects)
        if spec.commit is Commit.BEFORE:
            self._commit()
        if spec.crash_after is not None and self._read >= spec.crash_after and len(effects) > 1:
            self._crash(effects, messages)
        done = self._process(effects, messages)
        if spec.commit is Commit.TRANSACTION:
            done = self._end_transaction(done)
        if not done:
            self._rewind(messages)
            return
        self._processed += len(effects)
        if spec.commit is Commit.AFTER:
            self._commit()
        self._page.count(sent=self._read, acked=self._processed, failed=0, unknown=0, at=now_us())

    def _process(self, effects: Sequence[Effect], messages: Sequence[Message]) -> bool:
        """Process what was polled; False if some of it could not be sent on."""
        if self._forwarding:
            return self._forwarding.send(messages)
        assert self._effects is not None  # one of the two
        self._effects.process(effects)
        return True

    def _end_transaction(self, sent: bool) -> bool:
        """Commit what was sent on together with its offsets; return whether that was done."""
        assert self._forwarding is not None  # the specification says so
        if not sent:
            self._forwarding.abort()
            return False
        offsets = self._offsets()
        refused = self._forwarding.commit(offsets, self._consumer.consumer_group_metadata())
        if refused is not None:
            self._recorder.event("commit-failed", error=refused.str())
            return False
        self._recorder.event("committed", {place.partition: place.offset for place in offsets})
        return True

    def _rewind(self, messages: Sequence[Message]) -> None:
        """Have what was polled polled again, of the partitions that are still assigned."""
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
            answered(partial(self._consumer.commit, offsets=offsets, asynchronous=False))
        except KafkaException as error:  # also while the group rebalances: what it is not given
            self._recorder.event("commit-failed", error=error.args[0].str())
        else:
            self._recorder.event("committed", {place.partition: place.offset for place in offsets})

    def _crash(self, effects: Sequence[Effect], messages: Sequence[Message]) -> NoReturn:
        """Die in the middle of processing what was polled."""
        self._process(effects[: len(effects) // 2], messages[: len(messages) // 2])
        self._processed += len(effects) // 2
        if self._spec.commit is Commit.AUTO:
            self._outlast_a_commit()
        self._page.count(sent=self._read, acked=self._processed, failed=0, unknown=0, at=now_us())
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    def _outlast_a_commit(self) -> None:
        """Go on processing until what was polled is committed, or would be by now."""
        milliseconds = self._spec.settings.get("auto.commit.interval.ms", AUTO_COMMIT_INTERVAL_MS)
        places = [TopicPartition(self._spec.topic, partition) for partition in self.positions]

        def committed() -> bool:
            found = self._consumer.committed(places, timeout=COMMITTED_S)
            return all(one.offset == self.positions[one.partition] for one in found)

        Retrying(
            retry=retry_if_result(lambda done: not done),
            stop=stop_after_delay(INTERVALS * float(milliseconds) / 1000),
            wait=wait_fixed(0.05),
            retry_error_callback=lambda _: False,
        )(committed)

    def _caught_up(self) -> bool:
        """Whether the end is wanted and everything assigned was consumed up to there."""
        if not self._page.stop:
            return False
        try:
            ends = json.loads(self._spec.ends.read_text())
        except FileNotFoundError:
            return True
        return bool(self.positions) and all(
            position is not None and position >= ends.get(str(partition), 0)
            for partition, position in self.positions.items()
        )

    def _orphaned(self) -> bool:
        return os.getppid() != self._parent

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error

    def _on_commit(self, error: KafkaError | None, places: Sequence[TopicPartition]) -> None:
        if self._spec.commit is not Commit.AUTO:
            return  # the answer of a synchronous commit says it
        done = {place.partition: place.offset for place in places if place.offset >= 0}
        if error is not None and error.code() != KafkaError._NO_OFFSET:
            self._recorder.event("commit-failed", done, error=error.str())
        elif done:
            self._recorder.event("committed", done)

    def _on_assign(self, consumer: Any, places: Sequence[TopicPartition]) -> None:
        # Also so that `assign` finds a coordinator: told "Not coordinator" when it asked where to
        # begin, librdkafka has been seen to consume nothing for two minutes.
        committed = partial(consumer.committed, list(places), timeout=COMMITTED_S)
        try:
            found = answered(committed) if places else []
        except KafkaException:
            found = [TopicPartition(place.topic, place.partition) for place in places]
        given = {one.partition: one.offset if one.offset >= 0 else None for one in found}
        self.positions |= given
        self._assigned_at = time.monotonic()
        if self._page.order is Order.REJOIN:
            self._page.obey()
        self._recorder.event("assigned", given)

    def _on_revoke(self, _: Any, places: Sequence[TopicPartition]) -> None:
        self._taken("revoked", places)

    def _on_lost(self, _: Any, places: Sequence[TopicPartition]) -> None:
        self._taken("lost", places)

    def _taken(self, event: str, places: Sequence[TopicPartition]) -> None:
        taken = {place.partition: self.positions.pop(place.partition, None) for place in places}
        self._recorder.event(event, taken)


def begin(spec: ConsumerSpec, page: ProgressPage, secrets: Mapping[str, str]) -> Consuming:
    """Return the consumer of a specification."""
    return Consuming(spec, page, PollRecorder(spec), secrets=secrets)


if __name__ == "__main__":
    sys.exit(main.run(ConsumerSpec, begin))
