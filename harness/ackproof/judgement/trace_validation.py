"""Trace validation: whether the model's rules explain what the cluster recorded during a run.

The controller's metadata log is validated against the rules of the controller. The steps of each
partition's replicas (from brokers' logs, acks and disks) are validated against the rules of
replication.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from ackproof.errors import RunDirectoryError
from ackproof.judgement import partition_trace
from ackproof.judgement.evidence import Evidence
from ackproof.judgement.partition_trace import NotChecked
from ackproof.kafka_versions import numbers
from ackproof.observation import metadata_log
from ackproof.runs.verdict import Explained, Finding, PartitionTrace, TraceRecord
from ackproof.scenario.model import Scenario
from ackproof_model.configuration import Profile
from ackproof_model.kafka.partition_change import ControllerRules
from ackproof_model.validation import partition_replay
from ackproof_model.validation.controller_state import MetadataRecord
from ackproof_model.validation.metadata_replay import Replay, replay
from ackproof_model.validation.partition_trace import Trace
from ackproof_model.validation.replication_rules import ReplicationRules


def explain(dump: str, kafka: str) -> Replay:
    """Validate a dumped metadata log by the rules of a Kafka version."""
    records = [
        MetadataRecord(
            offset=entry.offset, kind=entry.kind, data=entry.data, snapshot=entry.snapshot
        )
        for entry in metadata_log.records(dump)
    ]
    return replay(records, ControllerRules.of(numbers(kafka)))


def validate(evidence: Evidence) -> TraceRecord:
    """Validate everything that a stored run recorded of its cluster.

    A run with ZooKeeper, on an attached cluster, or that ended early has no metadata log. Raises
    RunDirectoryError if a table or log is damaged.
    """
    scenario = evidence.scenario
    controller = controllers_log(evidence.run_dir, scenario.kafka)
    try:
        partitions = [
            _partition(topic, partition, trace, scenario)
            for (topic, partition), trace in partition_trace.traces(evidence)
        ]
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise RunDirectoryError(
            f"the tables of {evidence.run_dir} are damaged: {error!r}"
        ) from None
    return TraceRecord(
        run_id=evidence.record.run_id,
        kafka_version=scenario.kafka,
        controller=controller,
        partitions=partitions,
    )


def controllers_log(run_dir: Path, kafka: str) -> Explained | None:
    """Validate a stored run's metadata log; None if it has none.

    Raises RunDirectoryError if the log is damaged.
    """
    path = run_dir / "metadata.log"
    if not path.exists():
        return None
    try:
        result = explain(path.read_text(encoding="utf-8"), kafka)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise RunDirectoryError(f"{path} is damaged: {error!r}") from None
    return _explained(result)


def _explained(result: Replay | partition_replay.Replay) -> Explained:
    return Explained(
        explained=result.explained,
        total=result.total,
        steps=result.coverage,
        mismatch=str(result.mismatch or ""),
    )


def findings(record: TraceRecord) -> list[Finding]:
    """Return the first unexplained step of the metadata log and of each partition."""
    unexplained = []
    if record.controller is not None and record.controller.mismatch:
        unexplained.append(
            _finding("unexplained-change", record.controller, "changes of partitions")
        )
    unexplained += [
        _finding("unexplained-log", trace.local, f"steps of {trace.topic}-{trace.partition}")
        for trace in record.partitions
        if trace.local is not None and trace.local.mismatch
    ]
    return unexplained


def _partition(
    topic: str, partition: int, trace: Trace | NotChecked, scenario: Scenario
) -> PartitionTrace:
    if isinstance(trace, NotChecked):
        return PartitionTrace(topic=topic, partition=partition, not_checked=str(trace))
    local = _explained(explain_partition(topic, trace, scenario))
    return PartitionTrace(topic=topic, partition=partition, local=local)


def explain_partition(topic: str, trace: Trace, scenario: Scenario) -> partition_replay.Replay:
    """Validate what the replicas of a partition did."""
    rules = ReplicationRules(
        min_isr=min(scenario.topics[topic].min_insync_replicas, len(trace.brokers)),
        freeze=Profile.of(scenario.kafka).hw_freeze,
    )
    return partition_replay.replay(trace, rules)


def _finding(anomaly: str, explained: Explained, steps: str) -> Finding:
    return Finding(
        anomaly=anomaly,
        predicted="impossible",
        observed=1,
        explanation=f"the model explains {explained.explained} of {explained.total} {steps}; "
        f"the first that does not fit: {explained.mismatch}",
    )
