"""Everything that client processes recorded, put into its final form once they have ended."""

from __future__ import annotations

from pathlib import Path

from ackproof.ledger import (
    arrow_stream,
    processed_records,
    producer_ledger,
    transaction_log,
)
from ackproof_spark.tables import CONSUMER_EVENTS, READS


def close(run_dir: Path) -> None:
    """Turn what was recorded into the run's tables; twice is a no-op. Raises `DiskError`."""
    transaction_log.close(run_dir)
    producer_ledger.close(run_dir)
    arrow_stream.close(run_dir, "reads", READS)
    arrow_stream.close(run_dir, "consumer_events", CONSUMER_EVENTS)
    processed_records.close(run_dir)
