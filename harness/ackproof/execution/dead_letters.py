"""The dead letters of share groups (KIP-1191): which record of which group each one stands for.

A dead letter names its record by headers. Its value may be absent.
"""

from __future__ import annotations

from typing import Any

from ackproof.clients.forwarding import messages_below
from ackproof.execution.run_state import RunCluster, RunState
from ackproof.scenario.model import Scenario

#: The prefix of a dead letter's headers (`ShareGroupDLQStateManager.ProduceRequestHandler`).
_PREFIX = "__dlq.errors."


def take_dead_letters(scenario: Scenario, cluster: RunCluster, run: RunState) -> None:
    """Store the dead letters of the scenario's share groups.

    Raises `WorkloadError` if their topics cannot be read, and `DiskError`.
    """
    topics = {topic for topic in map(scenario.dead_letters, scenario.share_groups) if topic}
    if not topics:
        return
    partitions = [(name, n) for name in topics for n in range(scenario.topics[name].partitions)]
    settings = {"bootstrap.servers": cluster.bootstrap_servers, **cluster.client_settings}
    letters = messages_below(cluster.admin.write_end_markers(partitions), settings)
    rows = [_row(message) for message in letters]
    run.write("dead_letters", [row for row in rows if row is not None])


def _row(message: Any) -> dict[str, object] | None:
    """Return what a dead letter says of its record; None for another record."""
    said = {
        name.removeprefix(_PREFIX): value.decode(errors="replace")
        for name, value in message.headers() or ()
        if name.startswith(_PREFIX) and value is not None
    }
    if not {"group", "topic", "partition", "offset"} <= said.keys():
        return None
    count = said.get("delivery.count")
    return {
        "group": said["group"],
        "topic": said["topic"],
        "partition": int(said["partition"]),
        "offset": int(said["offset"]),
        "delivery_count": None if count is None else int(count),
        "reason": said.get("message"),
        "written_at": message.timestamp()[1] * 1000,
    }
