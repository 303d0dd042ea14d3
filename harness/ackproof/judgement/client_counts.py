"""Counts what clients did that is no anomaly: producers that stopped, fetches from followers."""

from __future__ import annotations

import json
from pathlib import Path

from ackproof.clients.specs import ENDED_BY, in_force_path
from ackproof.errors import RunDirectoryError
from ackproof.runs.directory import table_rows
from ackproof.scenario.model import Scenario
from ackproof_spark.tables import FOLLOWER_FETCH


def client_counts(run_dir: Path, scenario: Scenario) -> dict[str, int]:
    """Return the counts, without those that the scenario's clients cannot show.

    `stopped`: producers that a fatal error ended of those in `may_stop_for`. `follower-fetch`: how
    often a consumer began to fetch a partition from a follower. Raises RunDirectoryError.
    """
    counts = {}
    if allowed := {error for sends in scenario.sends.values() for error in sends.may_stop_for}:
        pages = (run_dir / "clients").glob("producer-*.progress")
        counts["stopped"] = sum(_ended_by(in_force_path(page)) in allowed for page in pages)
    if scenario.rack_aware:
        events = table_rows(run_dir, "consumer_events")
        counts["follower-fetch"] = sum(row["event"] == FOLLOWER_FETCH for row in events)
    return counts


def _ended_by(path: Path) -> str:
    try:
        return str(json.loads(path.read_bytes()).get(ENDED_BY, "")) if path.exists() else ""
    except (OSError, ValueError, AttributeError) as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from None
