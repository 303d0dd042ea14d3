"""A run's clients: started, watched, succeeded by others where the scenario wants it, and ended."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ackproof.clients.consumer_spec import ConsumerSpec
from ackproof.clients.process import ConsumerProcess, ProducerProcess
from ackproof.clients.shared_page import Progress, State, total
from ackproof.clients.spec import FENCED, ProducerSpec, TransactionSpec
from ackproof.errors import WorkloadError
from ackproof.ledger import arrow_stream, processed_records, producer_ledger
from ackproof.scenario.consumers import ConsumerGroup
from ackproof.scenario.model import Scenario
from ackproof.waiting import wait_for

#: How long producers may take to settle what is under way, beyond their delivery timeout.
SETTLE_S = 30.0

#: How long consumers may take to consume what is there, once the cluster is whole again: the
#: session of a member that crashed has to time out (45 s by default), then its transactions.
CONSUME_S = 120.0


#: A producer whose thread was busy for more than this share of the time sets the pace itself.
SATURATED = 0.9

#: One that stalled over more than this share of the acks cannot tell latencies.
LATE = 0.02


def hampered(*, busy: float, late: float) -> str:
    """Return how a producer itself set the pace, by its shares of the time; '' if it did not."""
    if busy > SATURATED:
        return f"was busy {busy:.0%} of the time"
    if late > LATE:
        return f"stalled while {late:.0%} of the acks came in"
    return ""


class Crew:
    """All client processes of a run. Leaving it kills what still runs.

    `bootstrap_servers` are those of the workload's listener, `secrets` the settings that let
    clients in.
    """

    def __init__(
        self,
        scenario: Scenario,
        run_dir: Path,
        *,
        bootstrap_servers: str,
        secrets: Mapping[str, str],
    ) -> None:
        self._scenario = scenario
        self._run_dir = run_dir
        self._clients = run_dir / "clients"
        self._bootstrap_servers = bootstrap_servers
        self._secrets = secrets
        self._running = ExitStack()
        self._began = time.monotonic()
        self._stopping = False
        #: By number, the topic of each producer, and the how-manieth of that topic it is; a
        #: successor's are its predecessor's.
        self._planned = [
            (topic, place)
            for topic, sends in scenario.sends.items()
            for place in range(sends.producers)
        ]
        self.producers: list[ProducerProcess] = []
        self.consumers: list[ConsumerProcess] = []
        #: Producers and consumers that ended as the scenario wanted: by a crash.
        self._crashed: set[tuple[str, int]] = set()
        #: Who took whose place: of a producer or consumer, by their numbers.
        self.heirs: dict[tuple[str, int], int] = {}

    def __enter__(self) -> Self:
        """Start everybody."""
        self._began = time.monotonic()
        self._clients.mkdir(exist_ok=True)
        with ExitStack() as starting:
            starting.push(self._running)
            for name, group in self._scenario.workload.consumers.items():
                for member in range(group.members):
                    self._start_consumer(name, group, member)
            for number in range(len(self._planned)):
                self._start_producer(self._producer_spec(number))
            starting.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill what still runs."""
        self._running.close()

    def progress(self) -> Progress:
        """Return the counts of all producers together."""
        return total(producer.progress() for producer in self.producers)

    def tend(self) -> bool:
        """Start successors of those that crashed or wait as zombies, and let zombies go on.

        Return whether a producer still runs, or will take the place of one that a fault has ended.
        """
        for producer in list(self.producers):
            self._tend_producer(producer)
        for consumer in list(self.consumers):
            spec = consumer.spec
            if spec.crash_after is None or _key(consumer) in self._crashed:
                continue
            if consumer.returncode == -signal.SIGKILL:
                self.excuse(consumer)
                self.succeed(consumer)
        return any(producer.returncode is None for producer in self.producers) or (
            self._seconds_left > 0 and self._has_vacancy
        )

    def excuse(self, process: ProducerProcess | ConsumerProcess) -> None:
        """Note that a process ends because the scenario wants it: that is no trouble."""
        self._crashed.add(_key(process))

    def succeed(self, process: ProducerProcess | ConsumerProcess) -> None:
        """Start another process in the place of one that has ended, or stands still."""
        if isinstance(process, ProducerProcess):
            self.heirs[_key(process)] = len(self.producers)
            self._start_producer(self._successor(process))
        else:
            number = self.heirs[_key(process)] = len(self.consumers)
            again = replace(process.spec, number=number, crash_after=None, **self._files(number))
            self._start(ConsumerProcess(again, secrets=self._secrets))

    @property
    def _seconds_left(self) -> float:
        return max(0.0, self._scenario.workload.seconds - (time.monotonic() - self._began))

    @property
    def _has_vacancy(self) -> bool:
        return any(
            _key(producer) in self._crashed and _key(producer) not in self.heirs
            for producer in self.producers
        )

    def stop_producers(self) -> None:
        """Ask producers for no more sends, those that are still to come, too."""
        self._stopping = True
        for producer in self.producers:
            producer.stop()

    def await_producers(self) -> list[str]:
        """Wait until every send has an outcome; return what went wrong."""
        longest = max(producer.spec.delivery_timeout_s for producer in self.producers)
        troubles = self._await(self.producers, longest + SETTLE_S)
        for producer in self.producers:
            wanted = producer.spec.transactions
            if wanted is None or _key(producer) in self.heirs:
                continue
            if wanted.crash_in is not None or wanted.zombie_in is not None:
                troubles.append(f"{producer.name} ended before it was to be interrupted")
        return troubles

    def bottlenecks(self) -> list[str]:
        """Return which producers, not the cluster, set the pace, in words."""
        return [
            f"producer {one.spec.number} {how}"
            for one in self.producers
            if (how := hampered(busy=one.busy_share, late=one.late_share))
        ]

    def finish_consumers(self, ends: Mapping[tuple[str, int], int]) -> list[str]:
        """Have consumers consume up to `ends`, and end; return what went wrong."""
        if not self.consumers:
            return []
        topic = self._scenario.workload.topic
        wanted = {partition: end for (name, partition), end in ends.items() if name == topic}
        partial = self._clients / "ends.json.partial"
        partial.write_text(json.dumps(wanted))
        partial.rename(self._ends)

        def ended() -> bool:
            self.tend()
            for consumer in self.consumers:  # those that have just begun, too
                consumer.stop()
            return all(consumer.returncode is not None for consumer in self.consumers)

        with contextlib.suppress(WorkloadError):  # said again for each that still runs
            wait_for(
                ended,
                bool,
                within_s=CONSUME_S,
                every_s=0.05,
                failure=lambda _: WorkloadError("consumers still run"),
            )
        troubles = self._await(self.consumers, 0.0)
        troubles += [
            f"consumer {consumer.spec.number} never read the {consumer.spec.crash_after} records "
            "after which it was to crash"
            for consumer in self.consumers
            if consumer.spec.crash_after is not None and _key(consumer) not in self._crashed
        ]
        return troubles

    def _await(
        self, processes: Sequence[ProducerProcess] | Sequence[ConsumerProcess], within_s: float
    ) -> list[str]:
        deadline = time.monotonic() + within_s
        troubles = []
        for process in processes:
            if _key(process) in self._crashed:
                continue
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except WorkloadError as error:
                troubles.append(error.message)
            else:
                if process.error and not self._was_fenced(process):
                    troubles.append(process.error)
        return troubles

    def _was_fenced(self, process: ProducerProcess | ConsumerProcess) -> bool:
        """Whether a process ended because another one has its transactional.id, as is wanted."""
        return _key(process) in self.heirs and any(f"({one})" in process.error for one in FENCED)

    @property
    def _ends(self) -> Path:
        return self._clients / "ends.json"

    def _start(self, process: ProducerProcess | ConsumerProcess) -> None:
        if isinstance(process, ProducerProcess):
            self.producers.append(process)
            if self._stopping:
                process.stop()
        else:
            self.consumers.append(process)
        self._running.callback(process.kill)
        process.start()

    def _tend_producer(self, producer: ProducerProcess) -> None:
        spec = producer.spec
        if spec.transactions is None:
            return
        crashes = spec.transactions.crash_in is not None
        if (
            crashes
            and _key(producer) not in self._crashed
            and producer.returncode == -signal.SIGKILL
        ):
            self.excuse(producer)
            self.succeed(producer)
        elif producer.state is State.PAUSED:
            heir = self.heirs.get(_key(producer))
            if heir is None:
                self.succeed(producer)
            elif self.producers[heir].state not in (State.LOADING, State.STARTING):
                producer.resume()

    def _successor(self, producer: ProducerProcess) -> ProducerSpec:
        """Return what goes on where a producer was interrupted."""
        spec, number = producer.spec, len(self.producers)
        self._planned.append(self._planned[spec.number])
        left = None if spec.records is None else max(0, spec.records - producer.progress().sent)
        return replace(
            self._producer_spec(number),
            records=left,
            seconds=self._seconds_left,
            transactions=self._continued(spec, number),
        )

    def _continued(self, spec: ProducerSpec, number: int) -> TransactionSpec | None:
        """Return the transactions of who takes a producer's place; None if it had none."""
        wanted = self._scenario.workload.transactions
        if spec.transactions is None or wanted is None:
            return None
        transactional_id = (
            spec.transactions.transactional_id
            if wanted.successor == "same"
            else _transactional_id(self._run_dir.name, number)
        )
        return replace(
            spec.transactions,
            transactional_id=transactional_id,
            predecessor=spec.number,
            crash_in=None,
            zombie_in=None,
        )

    def _start_producer(self, spec: ProducerSpec) -> None:
        self._start(ProducerProcess(spec, secrets=self._secrets))

    def _producer_spec(self, number: int) -> ProducerSpec:
        """Return what a producer does."""
        scenario, workload = self._scenario, self._scenario.workload
        topic, place = self._planned[number]
        sends = scenario.sends[topic]
        share, extra = divmod(sends.records, sends.producers)
        transactions = None
        if sends is workload and workload.transactions is not None:
            transactions = TransactionSpec(
                transactional_id=_transactional_id(self._run_dir.name, number),
                size=workload.transactions.size,
                abort=workload.transactions.abort,
                seed=scenario.seed,
                crash_in=workload.transactions.crash_in,
                zombie_in=workload.transactions.zombie_in,
            )
        return ProducerSpec(
            run_id=self._run_dir.name,
            number=number,
            topic=topic,
            partitions=scenario.topics[topic].partitions,
            bootstrap_servers=self._bootstrap_servers,
            settings=sends.client_settings,
            records=share + (place < extra),
            seconds=workload.seconds,
            rate=sends.rate / sends.producers,
            window=sends.window,
            size=sends.size.min,
            largest=sends.size.max if sends.size.max > sends.size.min else None,
            seed=scenario.seed,
            partition=sends.partition,
            keys=sends.keys,
            ledger=producer_ledger.stream_path(self._run_dir, number),
            progress=self._clients / f"producer-{number}.progress",
            transactions=transactions,
            may_stop_for=sends.may_stop_for,
        )

    def _start_consumer(self, name: str, group: ConsumerGroup, member: int) -> None:
        workload = self._scenario.workload
        partitions = list(range(self._scenario.topic.partitions))
        spec = ConsumerSpec(
            run_id=self._run_dir.name,
            number=len(self.consumers),
            group=name,
            topic=workload.topic,
            bootstrap_servers=self._bootstrap_servers,
            partitions=partitions[member :: group.members] if group.via == "assign" else None,
            commit=group.commit,
            settings={"auto.offset.reset": "earliest", **group.settings.as_client_settings()},
            poll=group.poll,
            crash_after=group.crash_after if member == 0 else None,
            ends=self._ends,
            into={topic: self._scenario.topics[topic].partitions for topic in group.into},
            transactional_id=_transactional_id(self._run_dir.name, f"{name}-{member}"),
            **self._files(len(self.consumers)),
        )
        self._start(ConsumerProcess(spec, secrets=self._secrets))

    def _files(self, consumer: int) -> dict[str, Any]:
        """Return the files of a consumer, by the specification's names."""
        name = f"consumer-{consumer}"
        return {
            "progress": self._clients / f"{name}.progress",
            "reads": arrow_stream.stream_path(self._run_dir, "reads", name),
            "events": arrow_stream.stream_path(self._run_dir, "consumer_events", name),
            "effects": processed_records.path_of(self._run_dir, name),
        }


def _transactional_id(run_id: str, client: int | str) -> str:
    return f"{run_id}-{client}"


def _key(process: ProducerProcess | ConsumerProcess) -> tuple[str, int]:
    return process.noun, process.spec.number
