"""Starts the client processes of a run, replaces those that crash, and ends them."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

from ackproof.clients.own_program import require_program
from ackproof.clients.own_worker import consumer_process
from ackproof.clients.process import ConsumerProcess, ProbeProcess, ProducerProcess
from ackproof.clients.scenario_specs import ClientSpecs
from ackproof.clients.shared_page import NOT_READY, Progress, State, total
from ackproof.clients.specs import FENCED, WRITE_TIMEOUT_S, ConsumerSpec, ProducerSpec
from ackproof.errors import WorkloadError
from ackproof.ledger import arrow_stream, delivery_log
from ackproof.ledger.conversion import AckedLogs
from ackproof.ledger.log_lines import LogReport
from ackproof.safe_files import replacing
from ackproof.scenario.client import refresh_setting
from ackproof.scenario.model import Scenario
from ackproof.waiting import last_result, wait_for
from ackproof_model.kafka_settings import ENABLE_IDEMPOTENCE
from ackproof_spark.tables import CONSUMER_EVENTS

_PROTOCOL = "transaction.protocol"


def differences(spec: ProducerSpec | ConsumerSpec, scenario: Scenario) -> list[str]:
    """Return differences between a client's values in force and the scenario.

    These values are the version of librdkafka, or the settings of a Java producer, which changes
    some of them silently: without `enable.idempotence` it switches idempotence off if another
    setting conflicts, and raises acks and retries with it.
    """
    if not spec.in_force.is_file():
        return []
    in_force = json.loads(spec.in_force.read_text())
    if isinstance(spec, ProducerSpec) and spec.java is not None:
        return _java_differences(spec, scenario, in_force)
    if spec.librdkafka in (None, in_force["librdkafka"]):
        return []
    return [
        f"{spec.name} works with librdkafka {in_force['librdkafka']}, and the scenario "
        f"has {spec.librdkafka}"
    ]


def _java_differences(
    spec: ProducerSpec, scenario: Scenario, in_force: Mapping[str, Any]
) -> list[str]:
    sends = scenario.sends[spec.topic]
    expected: dict[str, object] = {
        "acks": sends.settings.acks,
        ENABLE_IDEMPOTENCE: sends.settings.idempotence,
        "retries": sends.settings.retries,
    }
    if _PROTOCOL in in_force and scenario.cluster_kind.is_described:
        expected[_PROTOCOL] = scenario.transaction_protocol(sends.client)
    return [
        f"producer {spec.number} works with {key}={json.dumps(in_force.get(key))}, and the "
        f"prediction took it to be {json.dumps(value)}"
        for key, value in expected.items()
        if in_force.get(key) != value
    ]


def _has_sent_all(producer: ProducerProcess) -> bool:
    progress = producer.progress()
    done = progress.sent == producer.spec.records and progress.in_flight == 0
    return done and not producer.returncode


#: Seconds in which sends must have an outcome, beyond the delivery timeout.
SETTLE_S = 30.0

#: Seconds in which consumers must reach the end. The session of a crashed member must time out
#: first (45 s by default), then its transaction.
CONSUME_S = 120.0

#: Seconds in which the probe must connect to a healthy cluster.
PROBE_START_S = 60.0

#: A producer is the bottleneck if its thread used the CPU for more than this share of the time.
SATURATED = 0.9

#: Times are upper bounds if a producer's thread stalled during more than this share of its acks.
LATE = 0.02


class ClientSupervisor:
    """All client processes of a run. Entering starts them; leaving kills those still running.

    `bootstrap_servers` are those of the workload's listener, `secrets` the clients' security
    settings.
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
        self._workload = scenario.workload
        self._specs = ClientSpecs(scenario, run_dir, bootstrap_servers=bootstrap_servers)
        self._secrets = secrets
        self._running = ExitStack()
        self._started_at = time.monotonic()
        self._stopping = False
        self.producers: list[ProducerProcess] = []
        self.consumers: list[ConsumerProcess] = []
        self._probe: ProbeProcess | None = None
        #: Names of clients that the scenario or a fault ends.
        self._expected_ends: set[str] = set()
        #: The name of a client -> the name of the client that replaced it.
        self.successors: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._started_at = time.monotonic()
        self._specs.folder.mkdir(exist_ok=True)
        with ExitStack() as starting:
            starting.push(self._running)
            self._start_probe()
            for consumer in self._specs.consumers():
                self._start(consumer_process(consumer, self._secrets))
            self._start_senders()
            starting.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @staticmethod
    def require_startable(scenario: Scenario) -> None:
        """Raise ScenarioError for a program of the user that cannot be started."""
        for name, group in scenario.workload.consumers.items():
            if own := group.application:
                require_program(own, f"workload.consumers.{name}.application")

    def take_acked_logs(self) -> AckedLogs:
        """Convert the acked logs into ledgers; ackproof's own producers have none."""
        return AckedLogs(unread=[], remarks=[], lowest={})

    def take_delivery_logs(self) -> LogReport:
        """Convert what share consumers of the user have logged; they must have ended."""
        return delivery_log.close(self._specs.run_dir)

    @property
    def processes(self) -> list[ProducerProcess | ConsumerProcess]:
        return [*self.producers, *self.consumers]

    def process(self, name: str) -> ProducerProcess | ConsumerProcess:
        return next(process for process in self.processes if process.name == name)

    def progress(self) -> Progress:
        return total(producer.progress() for producer in self.producers)

    def acquired(self) -> int:
        """Return how many records the share consumers' polls returned."""
        shared = (one for one in self.consumers if one.spec.share is not None)
        return total(consumer.progress() for consumer in shared).sent

    def restart_crashed(self) -> bool:
        """Start successors of clients that crashed as planned or became zombies.

        A zombie is resumed once its successor works. Return whether a producer runs, or a successor
        of one that a fault ended may still be started.
        """
        for producer in list(self.producers):
            self._restart_producer(producer)
        for consumer in list(self.consumers):
            if consumer.spec.crash_after is not None:
                self._restart_if_crashed(consumer)
        return any(producer.returncode is None for producer in self.producers) or (
            self._seconds_left > 0 and self._successor_is_due
        )

    @property
    def has_sent_all(self) -> bool:
        """Whether each last record has an outcome, and the workload has time left.

        The producers have ended without an error, or keep their last transactions open.
        """
        last = [one for one in self.producers if one.name not in self.successors]
        return bool(last) and self._seconds_left > 0 and all(map(_has_sent_all, last))

    def expect_end(self, process: ProducerProcess | ConsumerProcess) -> None:
        """Do not report the end of this process as a trouble."""
        self._expected_ends.add(process.name)

    def start_successor(self, process: ProducerProcess | ConsumerProcess) -> None:
        """Start a process that continues the work of one that has ended or is suspended."""
        successor: ProducerProcess | ConsumerProcess
        if isinstance(process, ProducerProcess):
            successor = ProducerProcess(
                self._specs.next_producer(
                    process.spec,
                    number=len(self.producers),
                    sent=process.progress().sent,
                    seconds=self._seconds_left,
                ),
                secrets=self._secrets,
            )
        else:
            successor = consumer_process(
                self._specs.next_consumer(process.spec, number=len(self.consumers)), self._secrets
            )
        self.successors[process.name] = successor.name
        self._start(successor)

    @property
    def _seconds_left(self) -> float:
        return max(0.0, self._workload.seconds - (time.monotonic() - self._started_at))

    @property
    def _successor_is_due(self) -> bool:
        return any(
            producer.name in self._expected_ends and producer.name not in self.successors
            for producer in self.producers
        )

    def stop_producers(self) -> None:
        """Ask producers, and those that are started later, to make no more sends."""
        self._stopping = True
        for producer in self.producers:
            producer.stop()

    def await_producers(self) -> list[str]:
        """Wait until every send has an outcome; return troubles: how producers ended.

        What they have recorded as acked was acked all the same.
        """
        longest = max(producer.spec.delivery_timeout_s for producer in self.producers)
        troubles = self._await(self.producers, longest + SETTLE_S)
        for producer in self.producers:
            transactions = producer.spec.transactions
            if transactions is None or producer.name in self.successors:
                continue
            if transactions.crash_in is not None or transactions.zombie_in is not None:
                troubles.append(f"{producer.name} ended before it was to be interrupted")
        return troubles

    def other_settings(self) -> list[str]:
        """Return troubles: settings of producers that are not those of the scenario."""
        return [
            trouble
            for producer in self.producers
            for trouble in differences(producer.spec, self._scenario)
        ]

    def bottlenecks(self) -> list[str]:
        """Return the producers that limited the throughput instead of the cluster."""
        return [
            f"{producer.name} was busy {producer.busy_share:.0%} of the time"
            for producer in self.producers
            if producer.busy_share > SATURATED
        ]

    def late(self) -> list[str]:
        """Return the producers that served acks late, because they got no CPU time."""
        return [
            f"{producer.name} took {producer.late_share:.0%} of the acks late"
            for producer in self.producers
            if producer.late_share > LATE
        ]

    def finish_consumers(self, ends: Mapping[tuple[str, int], int]) -> list[str]:
        """Let consumers consume up to the offsets `ends`, then end; return troubles."""
        if not self.consumers:
            return []
        topic = self._workload.topic
        own = {partition: end for (of, partition), end in ends.items() if of == topic}
        with replacing(self._specs.ends) as partial:
            partial.write_text(json.dumps(own))

        def ended() -> bool:
            self.restart_crashed()
            for consumer in self.consumers:  # including successors just started
                consumer.stop()
            return all(consumer.returncode is not None for consumer in self.consumers)

        last_result(ended, bool, within_s=CONSUME_S)  # `_await` reports each that still runs
        troubles = self._await(self.consumers, 0.0, waited_s=CONSUME_S)
        for consumer in self.consumers:
            troubles += differences(consumer.spec, self._scenario)
        return troubles + [
            f"{consumer.name} never read the {consumer.spec.crash_after} records after which it "
            "was to crash"
            for consumer in self.consumers
            if consumer.spec.crash_after is not None and consumer.name not in self._expected_ends
        ]

    def await_assignment(self, written: Sequence[tuple[str, int]]) -> None:
        """Wait until each group has got all partitions of its topic, if a fault added some.

        A consumer ends when it has consumed the partitions that it has got.
        Subscribing consumers learn of them when they refresh their metadata, or at once from their
        coordinator with the new protocol (KIP-848). A group that refreshes it too rarely is not
        waited for.
        """
        if not self._scenario.later_partitions(self._workload.topic):
            return
        partitions = {number for topic, number in written if topic == self._workload.topic}
        for name, group in self._workload.consumers.items():
            settings = group.settings.as_client_settings()
            refreshed_s = refresh_setting(group.client.java, settings)[1] / 1000
            at_once = settings.get("group.protocol") == "consumer"
            if group.via == "subscribe" and (at_once or refreshed_s < CONSUME_S):
                last_result(partial(self._assigned, name), partitions.__le__, within_s=CONSUME_S)

    def _assigned(self, group: str) -> set[int]:
        """Return the partitions that members of a group have ever got."""
        assigned: set[int] = set()
        for consumer in self.consumers:
            if consumer.spec.group == group and consumer.spec.events.exists():
                events = arrow_stream.recover(consumer.spec.events, CONSUMER_EVENTS)
                assigned |= {
                    row["partition"] for row in events.to_pylist() if row["event"] == "assigned"
                }
        return assigned

    def finish_probe(self) -> list[str]:
        """End the probe once its writes have an outcome; return troubles."""
        if self._probe is None:
            return []
        self._probe.stop()
        try:
            self._probe.wait(WRITE_TIMEOUT_S + SETTLE_S)
        except WorkloadError as error:
            return [error.message]
        return [self._probe.error] if self._probe.error else []

    def _start_probe(self) -> None:
        """Start the probe and wait until it works: faults begin with the producers."""
        spec = self._specs.probe()
        if spec is None:
            return
        self._probe = probe = ProbeProcess(spec, secrets=self._secrets)
        self._running.callback(probe.kill)
        probe.start()
        wait_for(
            lambda: probe.returncode is not None or probe.state not in NOT_READY,
            bool,
            within_s=PROBE_START_S,
            failure=lambda _: WorkloadError(
                f"the probe has not connected within {PROBE_START_S:g} s"
            ),
        )
        if probe.error:
            raise WorkloadError(probe.error)

    def _await(
        self,
        processes: Sequence[ProducerProcess] | Sequence[ConsumerProcess],
        within_s: float,
        *,
        waited_s: float = 0.0,
    ) -> list[str]:
        deadline = time.monotonic() + within_s
        troubles = []
        for process in processes:
            if process.name in self._expected_ends:
                continue
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except WorkloadError as error:
                troubles.append(f"{error.message} {waited_s + within_s:g} s after it was to end")
            else:
                if process.error and not self._was_fenced(process):
                    troubles.append(process.error)
        return troubles

    def _was_fenced(self, process: ProducerProcess | ConsumerProcess) -> bool:
        """Whether a process ended because its successor took over its transactional.id."""
        first = process.error.partition("\n")[0]
        return process.name in self.successors and first.endswith(FENCED)

    def _start_senders(self) -> None:
        for producer in self._specs.producers():
            self._start(ProducerProcess(producer, secrets=self._secrets))

    def _start(self, process: ProducerProcess | ConsumerProcess) -> None:
        if isinstance(process, ProducerProcess):
            self.producers.append(process)
            if self._stopping:
                process.stop()
        else:
            self.consumers.append(process)
        self._running.callback(process.kill)
        process.start()

    def _restart_producer(self, producer: ProducerProcess) -> None:
        transactions = producer.spec.transactions
        if transactions is None:
            return
        if transactions.crash_in is not None:
            self._restart_if_crashed(producer)
        if producer.state is State.PAUSED:
            if producer.name not in self.successors:
                self.start_successor(producer)
            elif self.process(self.successors[producer.name]).state not in NOT_READY:
                producer.resume()

    def _restart_if_crashed(self, process: ProducerProcess | ConsumerProcess) -> None:
        if process.name not in self._expected_ends and process.returncode == -signal.SIGKILL:
            self.expect_end(process)
            self.start_successor(process)
