"""Runs one scenario on a real cluster and records everything that the judge needs.

Recording and judging are apart: `record` leaves a run directory, and `judge` needs nothing else.
What ends a run early (a broker that never rejoins, a fault that cannot be healed, Ctrl-C) becomes
a trouble in `run.json`: what was recorded stays, and the verdict is inconclusive.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.faults import FaultError, FaultWindow, Schedule
from ackproof.faults import Progress as Sends
from ackproof.harness import analysis, observer
from ackproof.harness import run_dir as runs
from ackproof.harness.clients.process import ProducerProcess
from ackproof.harness.clients.spec import ProducerSpec
from ackproof.harness.cluster import images
from ackproof.harness.cluster.cluster import KafkaCluster, booted
from ackproof.harness.errors import AckproofError, ClusterError
from ackproof.harness.ledger import close_ledgers
from ackproof.harness.outlook import foresee
from ackproof.harness.progress import Reporter
from ackproof.harness.scenario import Scenario
from ackproof.harness.scenario_file import Configured, dump
from ackproof.harness.verdict import Verdict
from ackproof.spark_analysis import tables
from ackproof.spark_analysis.final_log import PartitionEnd
from ackproof.spark_analysis.tables import LOCATION

if TYPE_CHECKING:
    from docker import DockerClient

#: How often the schedule looks at the world, and progress is shown.
_TICK_S = 0.01
_SHOW_S = 0.2
#: How long producers may take to settle what is under way, beyond their delivery timeout.
_SETTLE_S = 30.0


def run(
    configured: Configured, *, out: Path, client: DockerClient, reporter: Reporter
) -> tuple[Path, Verdict]:
    """Run one configuration of a scenario; return its run directory and its verdict.

    Raises AckproofError if the environment does not allow a run at all. A KeyboardInterrupt
    passes through after the cluster is gone and what was recorded has been judged.
    """
    run_dir = runs.create(
        out,
        scenario=configured.scenario.name,
        configuration=configured.name,
        seed=configured.scenario.seed,
        now=_now(),
    )
    interrupted: KeyboardInterrupt | None = None
    try:
        record(configured, run_dir, client=client, reporter=reporter)
    except KeyboardInterrupt as interrupt:
        interrupted = interrupt
    with reporter.phase("comparing what was acked with what can be read"):
        verdict = analysis.judge_run(run_dir)
    if interrupted is not None:
        raise interrupted
    return run_dir, verdict


def record(
    configured: Configured, run_dir: Path, *, client: DockerClient, reporter: Reporter
) -> None:
    """Run the scenario and leave everything the judge needs in `run_dir`.

    Raises AckproofError if the cluster does not come up. From then on troubles are recorded, not
    raised, except KeyboardInterrupt, which is recorded and raised.
    """
    scenario = configured.scenario
    dump(scenario, run_dir / "scenario.yaml")
    runs.write_model(run_dir / "prediction.json", foresee(scenario))
    image = images.ensure(scenario.kafka, client=client, say=reporter.note)
    recording = _Recording(configured, run_dir, image=f"{image.reference} ({image.source})")
    with contextlib.ExitStack() as stack:
        with reporter.phase(f"booting {scenario.cluster.brokers} brokers, Kafka {scenario.kafka}"):
            cluster = stack.enter_context(
                booted(
                    scenario.cluster,
                    client=client,
                    image=image.reference,
                    run_id=recording.run_id,
                    sidecar=lambda: images.ensure_sidecar(client=client),
                )
            )
            cluster.create_topics(scenario.topics)
        stack.callback(recording.close)
        try:
            _exercise(scenario, cluster, recording, reporter)
            _settle(scenario, cluster, recording, reporter)
        except KeyboardInterrupt:
            recording.troubles.append("interrupted")
            raise
        except AckproofError as error:
            recording.troubles.append(error.message)
        finally:
            observer.take_node_logs(cluster, run_dir)


class _Recording:
    """What is known of a run while it goes on, and how it is put on disk in the end."""

    def __init__(self, configured: Configured, run_dir: Path, *, image: str) -> None:
        self.configured = configured
        self.run_dir = run_dir
        self.run_id = run_dir.name
        self.image = image
        self.started_at = _now()
        self.troubles: list[str] = []
        self.schedule: Schedule | None = None
        self.read_to_end = False

    def write(self, table: str, rows: Sequence[object]) -> None:
        """Write one table of the run directory."""
        schema = getattr(tables, table.upper())
        runs.write_table(self.run_dir / LOCATION[table], schema, self.run_id, rows)

    def close(self) -> None:
        """Write what every judgement needs, however the run ended."""
        close_ledgers(self.run_dir)
        windows = self.schedule.windows if self.schedule else []
        self.write("fault_windows", [_window_row(n, window) for n, window in enumerate(windows)])
        if not self.read_to_end:
            self._write_unread_log()
        runs.write_model(
            self.run_dir / "run.json",
            runs.RunRecord(
                run_id=self.run_id,
                configuration_name=self.configured.name,
                configuration=self.configured.varied,
                image=self.image,
                started_at=self.started_at,
                finished_at=_now(),
                troubles=self.troubles,
            ),
        )

    def _write_unread_log(self) -> None:
        """Record that nothing could be read: every acked send is then unseen, not lost."""
        scenario = self.configured.scenario
        self.write(
            "partition_ends",
            [
                {
                    "topic": scenario.workload.topic,
                    "partition": partition,
                    "begin_offset": 0,
                    "end_offset": 0,
                    "complete": False,
                    "reason": "the run ended before the final log was read",
                }
                for partition in range(scenario.topic.partitions)
            ],
        )
        folder = self.run_dir / LOCATION["final_log"]
        folder.mkdir(exist_ok=True)
        runs.write_table(folder / "none.parquet", tables.FINAL_LOG, self.run_id, [])


def _exercise(
    scenario: Scenario, cluster: KafkaCluster, recording: _Recording, reporter: Reporter
) -> None:
    """Run the workload and the faults; end with every fault healed and every send settled."""
    workload = scenario.workload
    with _producing(scenario, cluster, recording) as producers:

        def sends() -> Sends:
            progress = [producer.progress() for producer in producers]
            return Sends(sent=sum(p.sent for p in progress), acked=sum(p.acked for p in progress))

        schedule = Schedule(
            scenario.faults,
            cluster,
            partitions=[(workload.topic, n) for n in range(scenario.topic.partitions)],
            progress=sends,
            clock=_now,
            monotonic=time.monotonic,
        )
        recording.schedule = schedule
        try:
            with reporter.phase("producing under faults"):
                _drive(schedule, producers, workload.tail, reporter)
        except FaultError as error:
            recording.troubles.append(str(error))
        with reporter.phase("healing, and settling what is under way"):
            _note_unstarted(schedule, recording)
            for producer in producers:
                producer.stop()
            try:
                schedule.heal_all()
            except FaultError as error:
                recording.troubles.append(str(error))
            _await_producers(producers, recording, workload.settings.delivery_timeout_ms / 1000)


def _drive(
    schedule: Schedule, producers: Sequence[ProducerProcess], tail: int, reporter: Reporter
) -> None:
    """Tick until the schedule is done and `tail` more sends are acked, or producers have ended."""
    shown = 0.0
    tail_from: int | None = None
    while any(producer.running() for producer in producers):
        schedule.tick()
        acked = sum(producer.progress().acked for producer in producers)
        if tail_from is None and schedule.done:
            tail_from = acked
        if tail_from is not None and acked >= tail_from + tail:
            return
        now = time.monotonic()
        if now - shown >= _SHOW_S:
            shown = now
            reporter.update(f"{acked:,} acked; waiting for {schedule.waiting_for}")
        time.sleep(_TICK_S)  # the tick of a control loop, not a wait for something


def _note_unstarted(schedule: Schedule, recording: _Recording) -> None:
    for fault in schedule.waiting:
        recording.troubles.append(
            f"{fault.name} of {fault.target} never began: the workload ended before "
            f"'{fault.when}' held (raise workload.records or workload.seconds)"
        )


@contextlib.contextmanager
def _producing(
    scenario: Scenario, cluster: KafkaCluster, recording: _Recording
) -> Iterator[list[ProducerProcess]]:
    """Start the producers and yield them; kill what still runs in the end."""
    workload = scenario.workload
    folder = recording.run_dir / LOCATION["ledger"]
    folder.mkdir(exist_ok=True)
    share, extra = divmod(workload.records, workload.producers)
    producers = [
        ProducerProcess(
            ProducerSpec(
                run_id=recording.run_id,
                number=number,
                topic=workload.topic,
                partitions=scenario.topic.partitions,
                bootstrap_servers=cluster.bootstrap_servers,
                settings=workload.settings.as_client_settings(),
                records=share + (number < extra),
                seconds=workload.seconds,
                rate=workload.rate / workload.producers,
                size=workload.size,
                folder=str(folder),
            )
        )
        for number in range(workload.producers)
    ]
    try:
        for producer in producers:
            producer.start()
        yield producers
    finally:
        for producer in producers:
            producer.kill()


def _await_producers(
    producers: Sequence[ProducerProcess], recording: _Recording, delivery_timeout_s: float
) -> None:
    """Wait until every send has an outcome; a producer that hangs or failed is a trouble."""
    deadline = time.monotonic() + delivery_timeout_s + _SETTLE_S
    for producer in producers:
        if not producer.wait(max(0.0, deadline - time.monotonic())):
            recording.troubles.append(
                f"producer {producer.spec.number} did not settle within "
                f"{delivery_timeout_s + _SETTLE_S:g} s and was killed"
            )
        elif producer.error:
            recording.troubles.append(f"producer {producer.spec.number}: {producer.error}")


def _settle(
    scenario: Scenario, cluster: KafkaCluster, recording: _Recording, reporter: Reporter
) -> None:
    """Wait for full ISR, then take the final log and what the cluster recorded."""
    topic = scenario.workload.topic
    places = [(topic, partition) for partition in range(scenario.topic.partitions)]
    reason = None
    with reporter.phase("waiting for full ISR"):
        try:
            cluster.await_full_isr(places)
            if recording.schedule:
                recording.schedule.check_recovered()
        except ClusterError as error:
            recording.troubles.append(error.message)
            reason = "the ISR was not full"
    log = observer.take_metadata_log(cluster, recording.run_dir)
    recording.write("partition_states", [s for s in log.partitions if s.topic == topic])
    recording.write("broker_states", log.brokers)
    with reporter.phase("reading the final log with Spark"):
        analysis.take_final_log(
            recording.run_dir,
            bootstrap_servers=cluster.bootstrap_servers,
            ends=[
                PartitionEnd(
                    topic=topic,
                    partition=partition,
                    begin_offset=begin,
                    end_offset=end,
                    complete=reason is None,
                    reason=reason,
                )
                for (topic, partition), (begin, end) in cluster.admin.offsets(places).items()
            ],
        )
    recording.read_to_end = True


def _window_row(index: int, window: FaultWindow) -> dict[str, object]:
    return {
        "window": index,
        "fault": window.fault,
        "target": window.target,
        "nodes": list(window.nodes),
        "parameters": window.parameters,
        "trigger": window.trigger,
        "injected_at": window.injected_at,
        "verified_at": window.verified_at,
        "healed_at": window.healed_at,
        "recovered_at": window.recovered_at,
        "verified": window.verified,
        "evidence": window.evidence,
    }


def _now() -> datetime:
    return datetime.now(UTC)
