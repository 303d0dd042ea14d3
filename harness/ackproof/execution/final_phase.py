"""The end of a run: everything works again, and the final log is read."""

from __future__ import annotations

from ackproof.clients import forwarded_records
from ackproof.clients.supervisor import Crew
from ackproof.cluster.attached import AnyCluster
from ackproof.errors import ClusterError
from ackproof.execution.run_state import Recording
from ackproof.judgement import spark
from ackproof.progress import Reporter
from ackproof.scenario.model import Scenario
from ackproof.waiting import wait_for
from ackproof_faults import FaultError, Schedule
from ackproof_spark.reading.final_log import PartitionEnd

#: How long a broker may take to come back once it was started again.
_RECOVER_S = 90.0


def settle(
    scenario: Scenario,
    cluster: AnyCluster,
    crew: Crew,
    recording: Recording,
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
    begins, ends = cluster.admin.begin_offsets(places), cluster.admin.write_end_markers(places)
    if recording.end_live is not None:
        recording.end_live(ends)
    if crew.consumers:
        with reporter.phase("consuming what is left"):
            recording.troubles += crew.finish_consumers(ends)
            _take_forwarded(scenario, cluster, recording)
    with reporter.phase("reading the final log with Spark"):
        recording.readers = spark.take_final_log(
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


def _take_forwarded(scenario: Scenario, cluster: AnyCluster, recording: Recording) -> None:
    """Take what consumers sent on into other topics: that is what they did."""
    topics = [topic for into in scenario.forwarded.values() for topic in into]
    places = [(name, n) for name in topics for n in range(scenario.topics[name].partitions)]
    if places:
        forwarded_records.take(
            recording.run_dir,
            run_id=recording.run_id,
            of=scenario.workload.topic,
            groups=scenario.forwarded,
            ends=cluster.admin.write_end_markers(places),
            settings={"bootstrap.servers": cluster.bootstrap_servers, **cluster.client_settings},
        )
