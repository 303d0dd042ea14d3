"""Compares an application's acked logs with a running cluster.

It writes a run directory. The cluster is only read, except for optional end markers. ackproof did
not inject faults, so nothing is predicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ackproof.cluster.admin import RunningCluster, partitions_of
from ackproof.errors import AckedLogError, AckproofError, ClusterError, DiskError
from ackproof.execution.final_log import take_final_log
from ackproof.execution.run_state import RunState, now
from ackproof.judgement.judge import judge_run
from ackproof.ledger import conversion
from ackproof.prediction.predict import not_modelled
from ackproof.progress import Reporter
from ackproof.runs import directory as runs
from ackproof.runs.verdict import UNKNOWN_VERSION, Verdict
from ackproof.scenario.loader import Configured, dump
from ackproof.scenario.model import Scenario
from ackproof.spark_session import preflight
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.kafka_settings import ENABLE_IDEMPOTENCE
from ackproof_spark.reading.final_log import PartitionEnd
from ackproof_spark.record import ID_HEADER

_NAME = "acked-log"

_TOPIC_GONE = (
    "If the cluster lost its topics, create them again, with as many partitions, and use "
    "--end-marker: the acked records are then reported as lost."
)

_NOT_OBSERVED = ("faults", "the metadata log", "the brokers' logs", "the replicas' files")


@dataclass(frozen=True, slots=True, kw_only=True)
class AckedCheck:
    """`acks` is the application's, "" if unknown; `settings` are librdkafka's client settings."""

    logs: Sequence[Path]
    bootstrap_servers: str
    settings: Mapping[str, str] = field(default_factory=dict)
    header: str = ID_HEADER
    acks: str = ""
    end_markers: bool = False


def check_acked(check: AckedCheck, *, out: Path, reporter: Reporter) -> tuple[Path, Verdict]:
    """Look for every acked send; return the run directory and the verdict.

    Raises AckedLogError if a log is absent, wrong or without acked sends, ClusterError if the
    cluster does not answer or lacks a topic. Later failures make the verdict inconclusive.
    """
    preflight(reporter.note)
    for log in check.logs:
        if not log.is_file():
            raise AckedLogError(
                f"{log} is a folder, not an acked log"
                if log.is_dir()
                else f"there is no acked log {log}",
                hint="Name the file that your application wrote (docs/reference/acked-log.md). "
                "Run directories and histories are checked without --from-cluster.",
            )
    cluster = RunningCluster(check.bootstrap_servers, check.settings)
    with reporter.phase(f"asking {check.bootstrap_servers} for its topics"):
        replicas = _replicas(cluster)
    run_dir = runs.create(out, scenario=_NAME, configuration="", seed=1, now=now())
    with runs.disk_errors(run_dir):
        with reporter.phase("reading the acked logs"):
            logs = conversion.convert(check.logs, run_dir, lenient=False)
        if not logs.lowest:
            none = "no line of the acked logs records an acked send"
            raise AckedLogError(
                "; ".join((none, *logs.unread, *logs.remarks)),
                hint="An acked log has one JSON object a line, with topic, partition, offset and "
                "id, digest or key (docs/reference/acked-log.md). A text log has no acks.",
            )
        scenario = _scenario(check, logs.lowest, replicas)
        dump(scenario, run_dir / "scenario.yaml")
        state = RunState(
            Configured(
                path=run_dir / "scenario.yaml",
                name="",
                scenario=scenario,
                # The page may state the settings of the cluster and of the user.
                varied={
                    **({"acks": check.acks} if check.acks else {}),
                    "replication_factor": scenario.topic.replication_factor,
                },
            ),
            run_dir,
        )
        state.image = f"attached: {check.bootstrap_servers}"
        state.unobserved = [*_NOT_OBSERVED, *logs.remarks]
        state.troubles = list(logs.unread)
        runs.write_model(
            run_dir / "prediction.json",
            not_modelled(scenario, "ackproof did not inject the faults", version=UNKNOWN_VERSION),
        )
        with state:
            try:
                _read(check, cluster, logs.lowest, state, reporter)
            except DiskError:
                raise
            except AckproofError as error:
                state.troubles.append(error.message)
    with reporter.phase("comparing acked records with the final log"):
        return run_dir, judge_run(run_dir)


def _replicas(cluster: RunningCluster) -> dict[str, list[int]]:
    """Return the number of replicas of each partition of each topic."""
    views = cluster.admin.partitions()
    if not views:
        raise ClusterError(
            f"{cluster.bootstrap_servers} does not answer, or has no topic",
            hint=f"Check --from-cluster and --client-config. {_TOPIC_GONE}",
        )
    topics: dict[str, list[int]] = {}
    for (topic, _), view in sorted(views.items()):
        topics.setdefault(topic, []).append(len(view.replicas))
    return topics


def _scenario(
    check: AckedCheck,
    lowest: Mapping[TopicPartition, int | None],
    replicas: Mapping[str, Sequence[int]],
) -> Scenario:
    topics: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(lowest):
        if partition >= len(replicas.get(topic, ())):
            raise AckedLogError(
                f"{topic}-{partition} is in an acked log, and not at {check.bootstrap_servers}",
                hint=f"Name the cluster that the application wrote to. {_TOPIC_GONE}",
            )
        topics[topic] = {
            "partitions": len(replicas[topic]),
            "replication_factor": max(replicas[topic]),
        }
    application = {"logs": [str(log) for log in check.logs], "header": check.header}
    return Scenario.model_validate(
        {
            "version": 1,
            "name": _NAME,
            "cluster": {"attach": {"bootstrap": check.bootstrap_servers, "topic_prefix": _NAME}},
            "topics": topics,
            "workload": {
                "topic": next(iter(topics)),
                "application": application,
                # The model is not asked; the settings of the application are unknown.
                "settings": {"acks": check.acks or "all", ENABLE_IDEMPOTENCE: False},
            },
        }
    )


def _read(
    check: AckedCheck,
    cluster: RunningCluster,
    lowest: Mapping[TopicPartition, int | None],
    state: RunState,
    reporter: Reporter,
) -> None:
    """Store the final log of partitions with acked sends, from the lowest acked offset."""
    partitions = sorted(lowest)
    with reporter.phase("waiting for full ISR"):
        cluster.await_full_isr(partitions)
    begins = cluster.admin.begin_offsets(partitions)
    admin = cluster.admin
    ends = (admin.write_end_markers if check.end_markers else admin.end_offsets)(partitions)
    for topic, partition in partitions:
        begin = begins[topic, partition]
        if begin > (lowest[topic, partition] or 0):
            state.troubles.append(
                f"{topic}-{partition} begins at offset {begin}: earlier records were removed, "
                "acked sends among them"
            )
    with reporter.phase("reading the final log with Spark"):
        take_final_log(
            state,
            bootstrap_servers=check.bootstrap_servers,
            settings=check.settings,
            id_header=check.header,
            end_markers=check.end_markers,
            ends=[
                PartitionEnd(
                    topic=topic,
                    partition=partition,
                    begin_offset=min(max(lowest.get(key) or 0, begins.get(key, 0)), end),
                    end_offset=end,
                )
                for topic, partition in partitions_of(state.configured.scenario.topics)
                for key in [(topic, partition)]
                for end in [ends.get(key, 0)]
            ],
        )
