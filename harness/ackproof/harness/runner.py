"""Runs one scenario on a real cluster and records everything that the judge needs.

Recording and judging are apart: `record` leaves a run directory, and `judge` needs nothing else.
What ends a run early (a broker that never rejoins, a fault that cannot be healed, Ctrl-C) becomes
a trouble in `run.json`: what was recorded stays, and the verdict is inconclusive.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ackproof.faults import FaultError, FaultWindow, Schedule
from ackproof.faults import Progress as Sends
from ackproof.harness import analysis, broker_log, doctor, forwarded, observer, recorded
from ackproof.harness import run_dir as runs
from ackproof.harness.attached_outlook import foresee_attached
from ackproof.harness.clocks import Clock
from ackproof.harness.cluster import images
from ackproof.harness.cluster.attached import NOT_OBSERVED, AttachedCluster, attached
from ackproof.harness.cluster.cluster import KafkaCluster
from ackproof.harness.cluster.engine import connect
from ackproof.harness.cluster.reuse import ClusterPool, Lease
from ackproof.harness.crew import Crew
from ackproof.harness.errors import AckproofError, ClusterError, DiskError
from ackproof.harness.live import followed
from ackproof.harness.outlook import foresee
from ackproof.harness.polling import Poll
from ackproof.harness.progress import Reporter
from ackproof.harness.replica_logs import take_replica_logs
from ackproof.harness.scenario import Scenario
from ackproof.harness.scenario_file import Configured, dump
from ackproof.harness.struck_clients import StruckClients
from ackproof.harness.verdict import Verdict
from ackproof.harness.waits import wait_for
from ackproof.spark_analysis import tables
from ackproof.spark_analysis.final_log import PartitionEnd
from ackproof.spark_analysis.tables import LOCATION

if TYPE_CHECKING:
    from docker import DockerClient

AnyCluster = KafkaCluster | AttachedCluster

#: How often the schedule looks at the world, and progress is shown.
_TICK_S = 0.01
_SHOW_S = 0.2
#: How long a broker may take to come back once it was started again.
_RECOVER_S = 90.0


def run(
    configured: Configured,
    *,
    out: Path,
    client: DockerClient | None,
    reporter: Reporter,
    pool: ClusterPool | None = None,
    live: bool = False,
    replays: str = "",
) -> tuple[Path, Verdict]:
    """Run one configuration of a scenario; return its run directory and its verdict.

    Its cluster comes from `pool`; without one it is booted and removed in the end. `client` may be
    None for a scenario that attaches to a cluster. `replays` names the run that is repeated.

    Raises AckproofError if the environment does not allow a run at all. A KeyboardInterrupt
    passes through when the cluster is gone and what was recorded is on disk; `ackproof check`
    judges it later.
    """
    analysis.preflight()
    run_dir = runs.create(
        out,
        scenario=configured.scenario.name,
        configuration=configured.name,
        seed=configured.scenario.seed,
        now=_now(),
    )
    with runs.disk_errors(run_dir), contextlib.ExitStack() as stack:
        clusters = pool or stack.enter_context(ClusterPool(client))
        record(
            configured,
            run_dir,
            client=client,
            reporter=reporter,
            pool=clusters,
            live=live,
            replays=replays,
        )
    with reporter.phase("comparing what was acked with what can be read"):
        verdict = analysis.judge_run(run_dir)
    return run_dir, verdict


def record(
    configured: Configured,
    run_dir: Path,
    *,
    client: DockerClient | None,
    reporter: Reporter,
    pool: ClusterPool,
    live: bool = False,
    replays: str = "",
) -> None:
    """Run the scenario and leave everything the judge needs in `run_dir`.

    Raises AckproofError if the cluster does not come up. From then on troubles are recorded, not
    raised, except KeyboardInterrupt, which is recorded and raised.
    """
    from docker.errors import DockerException
    from requests import RequestException

    scenario = configured.scenario
    dump(scenario, run_dir / "scenario.yaml")
    recording = _Recording(configured, run_dir, replays=replays)
    with recording, contextlib.ExitStack() as stack:
        cluster: AnyCluster
        places = [(name, n) for name, one in scenario.topics.items() for n in range(one.partitions)]
        lease: Lease | None = None
        if scenario.cluster.attach is not None:
            with reporter.phase(f"attaching to {scenario.cluster.attach.bootstrap}"):
                cluster = stack.enter_context(attached(scenario.cluster.attach, scenario.topics))
                prediction = foresee_attached(scenario, cluster)
                runs.write_model(run_dir / "prediction.json", prediction)
                recording.image = f"attached: {cluster.bootstrap_servers}"
                recording.unobserved = list(NOT_OBSERVED)
                cluster.create_topics(scenario.topics)
                recording.poll = stack.enter_context(Poll(cluster.admin.partitions, places))
        else:
            with reporter.phase("asking the model what may happen"):
                runs.write_model(run_dir / "prediction.json", foresee(scenario))
            image = images.ensure(scenario.kafka, client=client, say=reporter.note)
            recording.image = f"{image.reference} ({image.source})"
            doctor.require_needs(client or connect(), scenario.every_fault)
            booting = f"booting {scenario.cluster.brokers} brokers from {recording.image}"
            with reporter.phase(booting):
                lease = stack.enter_context(
                    pool.lease(
                        scenario,
                        image=image.reference,
                        # A run in another folder may have the same name, and begin this second.
                        run_id=f"{recording.run_id}-{os.getpid()}",
                        logs=run_dir / "logs",
                    )
                )
                cluster, recording.reused = lease.cluster, lease.reused
                stack.callback(_take_node_logs, lease.cluster, recording)
                cluster.create_topics(scenario.topics)
        if live:
            recording.end_live = stack.enter_context(
                followed(
                    run_dir,
                    bootstrap_servers=cluster.bootstrap_servers,
                    settings=cluster.client_settings,
                    topics=list(scenario.topics),
                    windows=lambda: recording.schedule.windows if recording.schedule else [],
                    reporter=reporter,
                )
            )
        try:
            with Crew(
                scenario,
                run_dir,
                bootstrap_servers=cluster.bootstrap(scenario.workload.listener),
                secrets=cluster.client_settings,
            ) as crew:
                _exercise(scenario, cluster, crew, recording, reporter)
                _settle(scenario, cluster, crew, recording, reporter)
            _observe(list(scenario.sends), cluster, recording)
        except DiskError:
            raise  # nothing more can be written
        except AckproofError as error:
            recording.troubles.append(error.message)
        except (DockerException, RequestException) as error:
            recording.troubles.append(f"the container engine failed: {error}")
        if lease is not None and not recording.troubles:
            lease.give_back()


class _Recording:
    """What is known of a run while it goes on, and how it is put on disk in the end."""

    def __init__(self, configured: Configured, run_dir: Path, *, replays: str = "") -> None:
        self.configured = configured
        self.replays = replays
        self.run_dir = run_dir
        self.run_id = run_dir.name
        self.image = ""
        self.started_at = _now()
        self.troubles: list[str] = []
        self.clocks: list[Clock] = []
        self.reused = False
        self.unobserved: list[str] = []
        self.bottlenecks: list[str] = []
        self.poll: Poll | None = None
        self.readers: list[str] = []
        self.schedule: Schedule | None = None
        #: Has the live job read up to the ends of all partitions, and end; None without one.
        self.end_live: Callable[[Mapping[tuple[str, int], int]], None] | None = None
        self._written: list[FaultWindow] = []

    def write(self, table: str, rows: Sequence[object]) -> None:
        """Write one table of the run directory."""
        schema = getattr(tables, table.upper())
        runs.write_table(self.run_dir / LOCATION[table], schema, self.run_id, rows)

    def __enter__(self) -> None:
        """Say that the run goes on, and in which process."""
        self._write_record(finished=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put on disk how the run ended."""
        if isinstance(error, KeyboardInterrupt):
            self.troubles.append("interrupted")
        elif error is not None:
            self.troubles.append(str(error) or type(error).__name__)
        recorded.close(self.run_dir)
        self.write_windows()
        self._write_record(finished=True)

    def write_windows(self) -> None:
        """Write the fault windows, if any changed since the last time."""
        windows = self.schedule.windows if self.schedule else []
        if windows != self._written:
            rows = [_window_row(number, window) for number, window in enumerate(windows)]
            self.write("fault_windows", rows)
            self._written = windows

    def _write_record(self, *, finished: bool) -> None:
        runs.write_model(
            self.run_dir / "run.json",
            runs.RunRecord(
                run_id=self.run_id,
                configuration_name=self.configured.name,
                configuration=self.configured.varied,
                image=self.image,
                pid=os.getpid(),
                started_at=self.started_at,
                finished_at=_now() if finished else None,
                troubles=self.troubles,
                reused=self.reused,
                replays=self.replays,
                unobserved=self.unobserved,
                bottlenecks=self.bottlenecks,
                readers=self.readers,
                clocks=self.clocks,
            ),
        )


def _exercise(
    scenario: Scenario,
    cluster: AnyCluster,
    crew: Crew,
    recording: _Recording,
    reporter: Reporter,
) -> None:
    """Run the workload and the faults; end with every fault healed and every send settled."""

    def sends() -> Sends:
        progress = crew.progress()
        return Sends(sent=progress.sent, acked=progress.acked)

    cluster.run_clients = StruckClients(crew)
    schedule = Schedule(
        scenario.faults,
        cluster,
        partitions=[
            (name, n) for name, topic in scenario.topics.items() for n in range(topic.partitions)
        ],
        progress=sends,
        clock=_now,
        monotonic=time.monotonic,
        seed=scenario.seed,
        blast_radius=scenario.blast_radius,
    )
    recording.schedule = schedule
    try:
        with reporter.phase("producing under faults"):
            _drive(schedule, crew, scenario.workload.tail, recording, reporter)
    except FaultError as error:
        recording.troubles.append(str(error))
    with reporter.phase("healing, and settling what is under way"):
        _note_unfinished(schedule, recording)
        crew.stop_producers()
        try:
            schedule.heal_all()
        except FaultError as error:
            recording.troubles.append(str(error))
        recording.troubles += crew.await_producers()
        recording.bottlenecks = crew.bottlenecks()


def _drive(
    schedule: Schedule,
    crew: Crew,
    tail: int,
    recording: _Recording,
    reporter: Reporter,
) -> None:
    """Tick until the schedule is done and `tail` more sends are acked, or producers have ended."""
    shown = 0.0
    tail_from: int | None = None
    while crew.tend():
        schedule.tick()
        recording.write_windows()
        acked = crew.progress().acked
        if tail_from is None and schedule.done:
            tail_from = acked
        if tail_from is not None and acked >= tail_from + tail:
            return
        now = time.monotonic()
        if now - shown >= _SHOW_S:
            shown = now
            reporter.update(f"{acked:,} acked; waiting for {schedule.waiting_for}")
        time.sleep(_TICK_S)  # the tick of a control loop, not a wait for something


def _note_unfinished(schedule: Schedule, recording: _Recording) -> None:
    """Note what of the schedule did not take place: the prediction assumes that it did."""
    advice = "the workload ended before (raise workload.records or workload.seconds)"
    if schedule.held_back:
        recording.troubles.append(f"{schedule.held_back}, until {advice}")
    for fault in schedule.waiting:
        recording.troubles.append(
            f"{fault.name} of {fault.target} never began ('{fault.when}'): {advice}"
        )
    for fault in schedule.unended:
        recording.troubles.append(
            f"{fault.name} of {fault.target} was not over ('{fault.heal_when}'): {advice}"
        )


def _settle(
    scenario: Scenario,
    cluster: AnyCluster,
    crew: Crew,
    recording: _Recording,
    reporter: Reporter,
) -> None:
    """Wait for full ISR, then take the final log and what the cluster recorded."""
    places = scenario.written
    reason = None
    with reporter.phase("waiting for full ISR"):
        try:
            _await_recovery(recording.schedule)
            cluster.await_full_isr(places)
        except (ClusterError, FaultError) as error:
            recording.troubles.append(str(error))
            reason = "the ISR was not full"
    begins, ends = cluster.admin.begin_offsets(places), cluster.admin.end_offsets(places)
    if recording.end_live is not None:
        recording.end_live(ends)
    if crew.consumers:
        with reporter.phase("consuming what is left"):
            recording.troubles += crew.finish_consumers(ends)
            _take_forwarded(scenario, cluster, recording)
    with reporter.phase("reading the final log with Spark"):
        recording.readers = analysis.take_final_log(
            recording.run_dir,
            bootstrap_servers=cluster.bootstrap_servers,
            settings=cluster.client_settings,
            committed_only=scenario.workload.transactions is not None,
            ends=[
                PartitionEnd(
                    topic=topic,
                    partition=partition,
                    begin_offset=begins[topic, partition],
                    end_offset=ends[topic, partition],
                    complete=reason is None,
                    reason=reason,
                )
                for topic, partition in places
            ],
        )


def _take_forwarded(scenario: Scenario, cluster: AnyCluster, recording: _Recording) -> None:
    """Take what consumers sent on into other topics: that is what they did."""
    topics = [topic for into in scenario.forwarded.values() for topic in into]
    places = [(name, n) for name in topics for n in range(scenario.topics[name].partitions)]
    if places:
        forwarded.take(
            recording.run_dir,
            run_id=recording.run_id,
            of=scenario.workload.topic,
            groups=scenario.forwarded,
            ends=cluster.admin.end_offsets(places),
            settings={"bootstrap.servers": cluster.bootstrap_servers, **cluster.client_settings},
        )


def _take_node_logs(cluster: KafkaCluster, recording: _Recording) -> None:
    """Keep the nodes' logs; that they cannot be had must not cost the run."""
    from docker.errors import DockerException
    from requests import RequestException

    try:
        observer.take_node_logs(cluster, recording.run_dir)
    except (ClusterError, DockerException, RequestException) as error:
        recording.troubles.append(f"the nodes' logs are missing: {error}")
    brokers = {broker.node_id: broker.name for broker in cluster.topology.brokers}
    topics = list(recording.configured.scenario.sends)
    events = broker_log.read_logs(recording.run_dir / "logs", brokers, topics=topics)
    recording.write("broker_events", events)


def _observe(topics: Sequence[str], cluster: AnyCluster, recording: _Recording) -> None:
    """Take what controller and replicas recorded; without it the run can be judged all the same."""
    if isinstance(cluster, AttachedCluster):
        polled = recording.poll.states if recording.poll else []
        recording.write("partition_states", [s for s in polled if s.topic in topics])
        return
    recording.clocks = observer.take_clocks(cluster, _now)
    try:
        log = observer.take_metadata_log(cluster, recording.run_dir)
    except (ClusterError, ValueError, KeyError) as error:
        recording.troubles.append(f"the controller's log is missing: {error}")
        return
    if cluster.since is not None:
        log = log.since(cluster.since)
    recording.write("partition_states", [s for s in log.partitions if s.topic in topics])
    recording.write("broker_states", log.brokers)
    replicas = {(s.topic, s.partition): s.replicas for s in log.partitions if s.topic in topics}
    brokers = {broker: cluster.nodes[broker] for broker in cluster.broker_ids()}
    recording.write("replica_logs", take_replica_logs(brokers, replicas, recording.run_dir))


def _await_recovery(schedule: Schedule | None) -> None:
    """Wait until what was healed last works again; raise ClusterError if it does not."""
    if schedule is None:
        return
    wait_for(
        schedule.check_recovered,
        bool,
        within_s=_RECOVER_S,
        failure=lambda _: ClusterError(
            f"after {_RECOVER_S:g} s still waiting for {schedule.waiting_for}",
            hint="The brokers' logs in the run directory say why.",
        ),
    )


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
