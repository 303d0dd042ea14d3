"""Trace validation of a run: the controller's metadata log held against the model's rules."""

from __future__ import annotations

from pathlib import Path

from ackproof.harness import metadata_log
from ackproof.harness.cluster.versions import numbers
from ackproof.harness.errors import RunDirectoryError
from ackproof.harness.verdict import Finding
from ackproof.reference_model.controller_state import MetadataRecord
from ackproof.reference_model.metadata_replay import Replay, replay
from ackproof.reference_model.partition_change import ControllerRules


def explain(dump: str, kafka: str) -> Replay:
    """Hold a dumped metadata log against the rules of a Kafka version."""
    records = [
        MetadataRecord(
            offset=entry.offset, kind=entry.kind, data=entry.data, snapshot=entry.snapshot
        )
        for entry in metadata_log.records(dump)
    ]
    return replay(records, ControllerRules.of(numbers(kafka)))


def findings(run_dir: Path, kafka: str) -> list[Finding]:
    """Return the first step of a stored run's metadata log that the rules cannot explain.

    A run on ZooKeeper, on an attached cluster, or one that ended early has no such log.

    Raises RunDirectoryError if the log is damaged.
    """
    path = run_dir / "metadata.log"
    if not path.exists():
        return []
    try:
        found = explain(path.read_text(encoding="utf-8"), kafka)
    except (ValueError, KeyError, TypeError) as error:
        raise RunDirectoryError(f"{path} is damaged: {error!r}") from None
    if found.mismatch is None:
        return []
    return [
        Finding(
            anomaly="unexplained-change",
            predicted="impossible",
            observed=1,
            explanation=f"the model explains {found.explained} of {found.total} changes of "
            f"partitions; the first that does not fit: {found.mismatch}",
        )
    ]
