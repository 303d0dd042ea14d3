"""Everything that client processes recorded, put into its final form once they have ended."""

from __future__ import annotations

from pathlib import Path

from ackproof.harness import effects, ledger, streams, transactions
from ackproof.spark_analysis.tables import CONSUMER_EVENTS, READS


def close(run_dir: Path) -> None:
    """Turn what was recorded into the run's tables; twice is a no-op. Raises `DiskError`."""
    transactions.close(run_dir)
    ledger.close(run_dir)
    streams.close(run_dir, "reads", READS)
    streams.close(run_dir, "consumer_events", CONSUMER_EVENTS)
    effects.close(run_dir)
