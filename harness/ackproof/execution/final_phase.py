"""The final phase: wait for full ISR, end open transactions, read the final log, collect logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any

from ackproof.clients import forwarding
from ackproof.clients.supervisor import CONSUME_S, ClientSupervisor
from ackproof.cluster.booted import KafkaCluster
from ackproof.cluster.hanging_transactions import HangingTransaction, HangingTransactions
from ackproof.cluster.share_groups import ShareGroups, SharePosition
from ackproof.errors import ClusterError
from ackproof.execution.dead_letters import take_dead_letters
from ackproof.execution.final_log import take_final_log
from ackproof.execution.run_state import RunCluster, RunState, now
from ackproof.observation import broker_log
from ackproof.progress import Reporter
from ackproof.proxy.follower_fetches import topic_id
from ackproof.runs.directory import table_rows
from ackproof.scenario.model import Scenario
from ackproof.scenario.removal import removes
from ackproof.scenario.share_groups import AUTO_OFFSET_RESET, DEAD_LETTERS, DELIVERY_COUNT_LIMIT
from ackproof.scenario.types import setting_text
from ackproof.waiting import last_result, wait_for
from ackproof_faults import FaultError, Schedule
from ackproof_faults.interfaces.cluster import Cluster, TopicPartition
from ackproof_model.removal import KEEP_EVERYTHING
from ackproof_spark.reading.final_log import PartitionEnd


def take_node_logs(cluster: KafkaCluster, run: RunState) -> None:
    """Store every node's log and the brokers' events. Failures become troubles of the run."""
    from docker.errors import DockerException
    from requests import RequestException

    try:
        cluster.take_node_logs(run.run_dir / "logs")
    except (ClusterError, DockerException, RequestException) as error:
        run.troubles.append(f"the nodes' logs could not be read: {error}")
    nodes = {node.node_id: node.name for node in cluster.topology.nodes}
    topics = list(run.configured.scenario.sends)
    events = broker_log.read_logs(run.run_dir / "logs", nodes, topics=topics)
    run.write("broker_events", events)


def take_replicas(topics: Sequence[str], cluster: RunCluster, run: RunState) -> None:
    """Store the batch headers of every replica. The topics must not be written to meanwhile.

    Raises ClusterError if the brokers do not report the replicas.
    """
    logs = cluster.take_replica_logs(topics, run.run_dir)
    if logs is not None:
        run.write("replica_logs", logs)


def take_states(topics: Sequence[str], cluster: RunCluster, run: RunState) -> None:
    """Store partition and broker states and clocks. Failures become troubles of the run."""
    run.clocks = cluster.clocks(now)
    try:
        log = cluster.take_metadata_log(run.run_dir)
    except (ClusterError, ValueError, KeyError) as error:
        run.troubles.append(f"the controllers' metadata log could not be read: {error}")
        return
    run.write("partition_states", [state for state in log.partitions if state.topic in topics])
    ids = {topic_id(state.topic_id): state.topic for state in log.partitions}
    run.early_high_watermarks = [
        replace(seen, topic=ids.get(seen.topic, seen.topic))
        for seen in cluster.early_high_watermarks()
        if seen.at >= run.started_at and ids.get(seen.topic, seen.topic) in topics
    ]
    run.listed_ends = [
        seen for seen in cluster.listed_ends() if seen.at >= run.started_at and seen.topic in topics
    ]
    if log.brokers:
        run.write("broker_states", log.brokers)


#: Seconds until outstanding markers are written.
_MARKERS_S = 5.0
#: Seconds after transaction.timeout.ms until a coordinator has checked for timeouts, which it does
#: every ten seconds by default.
_ABORT_S = 20.0
#: Maximum seconds to wait for coordinators.
_LONGEST_S = 120.0


class OpenTransactions:
    """The open transactions that keep partitions from being read up to `ends`.

    read_committed reads a partition up to its last stable offset. After transaction.timeout.ms the
    coordinator aborts open transactions. A transaction that it does not know hangs. It is recorded,
    and then aborted as an operator would do, so that the final log can be read to its end. If it
    was committed, its acked records are lost: `forensics.stories` tells this abort from Kafka's.

    `rows` are rows of the table `hanging_transactions`; `say` gets a line for each.
    """

    def __init__(
        self,
        cluster: HangingTransactions,
        ends: Mapping[TopicPartition, int],
        *,
        say: Callable[[str], None],
    ) -> None:
        self.rows: list[dict[str, Any]] = []
        self._say = say
        self._cluster = cluster
        self._ends = ends
        self._suspects: set[HangingTransaction] = set()

    def end(
        self, *, timeout_s: float, markers_s: float = _MARKERS_S, every_s: float = 1.0
    ) -> list[str]:
        """Wait until every partition is stable beyond its end; abort hanging transactions.

        `timeout_s` is the producers' transaction.timeout.ms. Returns troubles.
        """
        troubles: list[str] = []
        aborted_s = min(timeout_s + _ABORT_S, _LONGEST_S)
        for look, within_s in ((self._unstable, markers_s), (self._abort_hanging, aborted_s)):
            try:
                wait_for(
                    look,
                    lambda left: not left,
                    within_s=within_s,
                    every_s=every_s,
                    failure=_still_open,
                )
            except ClusterError as error:
                troubles = [error.message]
            else:
                return []
        return troubles

    def _unstable(self) -> list[TopicPartition]:
        stable = self._cluster.stable_offsets(list(self._ends))
        return sorted(
            partition for partition, end in self._ends.items() if stable[partition] <= end
        )

    def _abort_hanging(self) -> list[TopicPartition]:
        """Abort transactions that Kafka's tool lists twice; return the unstable partitions."""
        left = self._unstable()
        listed = set(self._cluster.find(sorted({topic for topic, _ in left}))) if left else set()
        for hanging in sorted(listed & self._suspects, key=str):
            row = {**asdict(hanging), "found_at": self._cluster.now(), "aborted_at": None}
            self.rows.append(row)
            self._say(f"{hanging}: read_committed consumers cannot read past it")
            try:
                self._cluster.abort(hanging)
            except ClusterError as error:
                raise ClusterError(f"{hanging}; abort failed: {error.message}") from error
            row["aborted_at"] = self._cluster.now()
        self._suspects = listed
        return left


def _still_open(left: Sequence[TopicPartition]) -> ClusterError:
    return ClusterError(f"a transaction is still open in {_named(left)}: read_committed ends there")


def _named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in partitions)


#: Seconds within which a restarted broker must have recovered.
_RECOVER_S = 90.0

#: Seconds within which brokers apply a topic's new settings to its logs.
_APPLIED_S = 3.0


def run_final_phase(
    scenario: Scenario,
    cluster: RunCluster,
    clients: ClientSupervisor,
    run: RunState,
    reporter: Reporter,
    *,
    meanwhile: Callable[[], None],
) -> None:
    """Store the final log and the consumers' effects. Failures become troubles of the run.

    `meanwhile` is called after the last measurement; it starts work that runs during the reading.
    """
    partitions = scenario.written
    reason = None
    with reporter.phase("waiting for full ISR"):
        try:
            _await_recovery(run.schedule, cluster)
            cluster.await_full_isr(partitions)
            if added := _added(scenario, cluster):
                cluster.await_full_isr(added)
                partitions += added
        except (ClusterError, FaultError) as error:
            run.troubles.append(str(error))
            reason = "the ISR was not full"
    run.troubles += clients.finish_probe()
    acked = clients.take_acked_logs()
    run.troubles += acked.unread
    run.unobserved += acked.remarks
    if removes(scenario) and not cluster.interfaces.missing(["operations"]):
        _stop_removal(scenario, cluster, run)
    clients.await_assignment(partitions)
    begins = cluster.admin.begin_offsets(partitions)
    ends = cluster.admin.write_end_markers(partitions)
    hanging = cluster.hanging_transactions
    if scenario.workload.transactions is not None and hanging is not None:
        with reporter.phase("waiting for open transactions"):
            opened = OpenTransactions(hanging, ends, say=reporter.note)
            run.troubles += opened.end(timeout_s=scenario.workload.transactions.timeout)
            if opened.rows:
                run.write("hanging_transactions", opened.rows)
    if run.live is not None:
        run.live.end_job(ends)
    if clients.consumers:
        if scenario.share_groups and cluster.share_groups is not None:
            with reporter.phase("waiting for share groups to be at rest"):
                in_force = {one: cluster.admin.group_settings(one) for one in scenario.share_groups}
                run.troubles += other_settings(scenario, in_force)
                run.troubles += await_rest(
                    scenario, cluster.share_groups, ends, clients, run, in_force=in_force
                )
            take_dead_letters(scenario, cluster, run)
        with reporter.phase("consuming to the end"):
            run.troubles += clients.finish_consumers(ends)
            take_delivered(clients, run)
            _take_forwarded(scenario, cluster, run)
    meanwhile()
    with (
        reporter.phase("reading the final log with Spark"),
        ThreadPoolExecutor(max_workers=1) as beside,
    ):
        replicas = beside.submit(take_replicas, list(scenario.sends), cluster, run)
        take_final_log(
            run,
            bootstrap_servers=cluster.bootstrap_servers,
            settings=cluster.client_settings,
            committed_only=scenario.workload.transactions is not None,
            id_header=scenario.senders.id_header,
            ends=[
                PartitionEnd(
                    topic=topic,
                    partition=partition,
                    begin_offset=begins[topic, partition],
                    end_offset=ends[topic, partition],
                    complete=reason is None,
                    reason=reason,
                )
                for topic, partition in partitions
            ],
        )
        replicas.result()
    if scenario.senders.leave_no_gap:
        mark_appended(ends, cluster, run)


def other_settings(scenario: Scenario, in_force: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the settings of share groups in force that are not those of the scenario."""
    return [
        f"the share group {name} has {key}={settings.get(key)}, and the scenario sets {wanted}"
        for name, settings in in_force.items()
        for key, value in scenario.workload.consumers[name].share_settings.items()
        if settings.get(key) != (wanted := setting_text(value))
    ]


def await_rest(
    scenario: Scenario,
    groups: ShareGroups,
    ends: Mapping[TopicPartition, int],
    clients: ClientSupervisor,
    run: RunState,
    *,
    in_force: Mapping[str, Mapping[str, str]],
    within_s: float = CONSUME_S,
) -> list[str]:
    """Wait until no share group has a record left, and store what each has; return troubles.

    `in_force`: the settings of each group.
    Its consumers go on meanwhile. The closing records are delivered, too, so that a group at rest
    has passed every record.
    """
    wanted = {partition for partition in ends if partition[0] == scenario.workload.topic}
    troubles, rows = [], []
    for name in scenario.share_groups:
        settings = in_force[name]
        limit = settings.get(DELIVERY_COUNT_LIMIT, scenario.delivery_limit(name))

        def left(name: str = name) -> dict[TopicPartition, SharePosition]:
            clients.restart_crashed()
            try:
                return {(one.topic, one.partition): one for one in groups.positions(name)}
            except ClusterError:  # no member has joined yet, or the coordinator moves
                return {}

        positions = last_result(
            left,
            lambda found: all(one in found and found[one].lag == 0 for one in wanted),
            within_s=within_s,
        )
        lags = {one: positions[one].lag if one in positions else None for one in wanted}
        if left_over := [one for one, lag in sorted(lags.items()) if lag]:
            troubles.append(
                f"the share group {name} still has records to deliver in {_named(left_over)} after "
                f"{within_s:g} s"
            )
        if never := [one for one, lag in sorted(lags.items()) if lag is None]:
            troubles.append(
                f"the share group {name} got nothing in {_named(never)} within {within_s:g} s: its "
                f"members did not fetch, or their first fetch with {AUTO_OFFSET_RESET}=latest came "
                "after the last record"
            )
        rows += [
            {
                **asdict(position),
                "group": name,
                "earliest": settings[AUTO_OFFSET_RESET] == "earliest",
                "delivery_limit": int(limit),
                "dead_letters": settings.get(DEAD_LETTERS) or None,
                "keys": scenario.workload.keys,
            }
            for partition, position in positions.items()
            if partition in wanted
        ]
    run.write("share_groups", rows)
    return troubles


def _added(scenario: Scenario, cluster: RunCluster) -> list[TopicPartition]:
    """Return the partitions that faults have added to the topics that are written to."""
    growing = [topic for topic in scenario.sends if scenario.later_partitions(topic)]
    return sorted(
        (topic, number)
        for topic, number in (cluster.admin.partitions() if growing else ())
        if topic in growing and number >= scenario.topics[topic].partitions
    )


def appended_since(
    ends: Mapping[TopicPartition, int],
    end_offsets: Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]],
) -> dict[TopicPartition, str]:
    """Return the partitions with records after the closing record, which is at `ends`, in words.

    Such a record is a duplicate, or a send with unknown outcome, that was still in a broker, a
    connection or the proxy. It was not compared. Raises ClusterError.
    """
    now = end_offsets(list(ends))
    return {
        one: f"{now[one] - end - 1} offsets after the closing record at {end} were not compared"
        for one, end in ends.items()
        if now[one] > end + 1
    }


def mark_appended(ends: Mapping[TopicPartition, int], cluster: RunCluster, run: RunState) -> None:
    """Note in `partition_ends` which partitions have records after the closing record.

    What is absent from them is unseen then, and what was read beyond their end is not gone.
    """
    try:
        appended = appended_since(ends, cluster.admin.end_offsets)
    except ClusterError as error:
        run.troubles.append(f"the records after the closing records are unknown: {error.message}")
        return
    if not appended:
        return
    rows = table_rows(run.run_dir, "partition_ends")
    for row in rows:
        if row["complete"] and (reason := appended.get((row["topic"], row["partition"]))):
            row |= {"complete": False, "reason": reason}
    run.write("partition_ends", rows)


def _stop_removal(scenario: Scenario, cluster: RunCluster, run: RunState) -> None:
    """Stop retention and compaction, so that all readers read the same records.

    A change of `cleanup.policy` aborts a compaction that is in progress (`LogManager`).
    """
    operations = cluster.interfaces.operations
    try:
        for topic in scenario.sends:
            for key, value in KEEP_EVERYTHING.items():
                operations.override(topic, key, value)
    except FaultError as error:
        run.troubles.append(f"retention and compaction could not be stopped: {error}")
    time.sleep(_APPLIED_S)  # a broker does not report the settings that its logs use


def _await_recovery(schedule: Schedule | None, cluster: RunCluster) -> None:
    """Wait until every fault has recovered; raise ClusterError early if a broker has ended."""
    if schedule is None:
        return

    def recovered() -> bool:
        require_running(cluster.interfaces)
        return schedule.check_recovered()

    wait_for(
        recovered,
        bool,
        within_s=_RECOVER_S,
        failure=lambda _: ClusterError(
            f"after {_RECOVER_S:g} s still waiting for {schedule.waiting_for}",
            hint="The brokers' logs in the run directory show the cause.",
        ),
    )


def require_running(cluster: Cluster) -> None:
    """Raise ClusterError if a broker does not run although every fault is healed.

    An attached cluster is not checked: it may have stopped brokers that the scenario does not list.
    """
    if cluster.missing(["processes", "logs"]):
        return
    statuses = {one: cluster.processes.exit_status(one) for one in cluster.metadata.broker_ids()}
    down = [
        f"broker {node} does not run (exit status {status}), and no fault ended it"
        for node, status in statuses.items()
        if status is not None
    ]
    if down:
        raise ClusterError("; ".join(down))


def take_delivered(clients: ClientSupervisor, run: RunState) -> None:
    """Convert the delivery logs of the user's share consumers; what was not read is a trouble."""
    report = clients.take_delivery_logs()
    run.troubles += report.unread
    run.unobserved += report.remarks


def _take_forwarded(scenario: Scenario, cluster: RunCluster, run: RunState) -> None:
    topics = [topic for targets in scenario.forwarded.values() for topic in targets]
    partitions = [(name, n) for name in topics for n in range(scenario.topics[name].partitions)]
    if partitions:
        forwarding.take(
            run.run_dir,
            run_id=run.run_id,
            source=scenario.workload.topic,
            groups=scenario.forwarded,
            ends=cluster.admin.write_end_markers(partitions),
            settings={"bootstrap.servers": cluster.bootstrap_servers, **cluster.client_settings},
        )
