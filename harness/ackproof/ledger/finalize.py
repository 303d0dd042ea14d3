"""Converts everything that the client processes of a run recorded to the run's tables."""

from __future__ import annotations

from pathlib import Path

from ackproof.ledger import (
    application_tables,
    arrow_stream,
    probe_attempts,
    processed_records,
    producer_ledger,
    transaction_log,
)
from ackproof_spark.tables import CONSUMER_EVENTS, READS


def close(run_dir: Path) -> None:
    """Convert all streams; a second call changes nothing. Raises `DiskError`."""
    transaction_log.close(run_dir)
    producer_ledger.close(run_dir)
    arrow_stream.close(run_dir, "reads", READS)
    arrow_stream.close(run_dir, "consumer_events", CONSUMER_EVENTS)
    processed_records.close(run_dir)
    probe_attempts.close(run_dir)
    application_tables.close(run_dir)
