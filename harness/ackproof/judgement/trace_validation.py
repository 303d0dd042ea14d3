"""Trace validation of a run: what the cluster recorded, held against the model's rules.

The controller's metadata log against the rules of the controller; what was seen of each partition
(brokers' logs, acks, the replicas' disks) against the rules of replication.
"""

from __future__ import annotations

from pathlib import Path

from ackproof.errors import RunDirectoryError
from ackproof.judgement import partition_trace
from ackproof.judgement.partition_trace import Seen
from ackproof.kafka_versions import numbers
from ackproof.observation import metadata_log
from ackproof.runs.directory import RunRecord
from ackproof.runs.trace import Explained, PartitionTrace, TraceRecord
from ackproof.runs.verdict import Finding
from ackproof.scenario.model import Scenario
from ackproof_model.configuration import Profile
from ackproof_model.kafka.partition_change import ControllerRules
from ackproof_model.validation import partition_replay
from ackproof_model.validation.controller_state import MetadataRecord
from ackproof_model.validation.metadata_replay import Replay, replay
from ackproof_model.validation.replication_rules import ReplicationRules


def explain(dump: str, kafka: str) -> Replay:
    """Hold a dumped metadata log against the rules of a Kafka version."""
    records = [
        MetadataRecord(
            offset=entry.offset, kind=entry.kind, data=entry.data, snapshot=entry.snapshot
        )
        for entry in metadata_log.records(dump)
    ]
    return replay(records, ControllerRules.of(numbers(kafka)))


def validate(run_dir: Path, scenario: Scenario, record: RunRecord) -> TraceRecord:
    """Hold all that a stored run recorded against the rules.

    A run on ZooKeeper, on an attached cluster, or one that ended early has no metadata log.

    Raises RunDirectoryError if what was recorded is damaged.
    """
    import pyarrow as pa

    controller = controllers_log(run_dir, scenario.kafka)
    try:
        partitions = [
            _partition(seen, scenario)
            for seen in partition_trace.partitions(run_dir, scenario, record)
        ]
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise RunDirectoryError(f"the tables of {run_dir} are damaged: {error!r}") from None
    return TraceRecord(
        run_id=record.run_id,
        kafka_version=scenario.kafka,
        controller=controller,
        partitions=partitions,
    )


def controllers_log(run_dir: Path, kafka: str) -> Explained | None:
    """Return how far a stored run's metadata log is explained; None if it has none.

    Raises RunDirectoryError if the log is damaged.
    """
    path = run_dir / "metadata.log"
    if not path.exists():
        return None
    try:
        found = explain(path.read_text(encoding="utf-8"), kafka)
    except (ValueError, KeyError, TypeError) as error:
        raise RunDirectoryError(f"{path} is damaged: {error!r}") from None
    return Explained(
        explained=found.explained,
        total=found.total,
        steps=found.coverage,
        mismatch=str(found.mismatch or ""),
    )


def findings(record: TraceRecord) -> list[Finding]:
    """Return the first step that the rules cannot explain, of metadata log and of partitions."""
    found = []
    if record.controller is not None and record.controller.mismatch:
        found.append(_finding("unexplained-change", record.controller, "changes of partitions"))
    found += [
        _finding("unexplained-log", one.local, f"steps of {one.topic}-{one.partition}")
        for one in record.partitions
        if one.local is not None and one.local.mismatch
    ]
    return found


def _partition(seen: Seen, scenario: Scenario) -> PartitionTrace:
    local = None
    if seen.trace is not None:
        replicas = len(seen.trace.brokers)
        rules = ReplicationRules(
            min_isr=min(scenario.topics[seen.topic].min_insync_replicas, replicas),
            freeze=Profile.of(scenario.kafka).hw_freeze,
        )
        found = partition_replay.replay(seen.trace, rules)
        local = Explained(
            explained=found.explained,
            total=found.total,
            steps=found.coverage,
            mismatch=str(found.mismatch or ""),
        )
    return PartitionTrace(
        topic=seen.topic, partition=seen.partition, local=local, not_checked=seen.not_checked
    )


def _finding(anomaly: str, explained: Explained, steps: str) -> Finding:
    return Finding(
        anomaly=anomaly,
        predicted="impossible",
        observed=1,
        explanation=f"the model explains {explained.explained} of {explained.total} {steps}; "
        f"the first that does not fit: {explained.mismatch}",
    )
