"""The form `removed-replica` of `ci/lab/without-holds`: an eligible replica with an empty log.

In each turn two brokers have a slow disk until 3 alone is in the ISR. Every partition moves from 3
to a broker without a replica, and back as soon as that one leads. It sends slowly, as if there were
much to copy, and is killed while 3 copies. Where 3 is not in sync by then, it is elected as an
eligible leader replica (KIP-966). The next turn is the same with the two others exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ackproof.runs.directory import table_rows

BROKERS = 4
ASSIGNMENT = [3, 2, 1]
SETTINGS: Mapping[str, Any] = {"replica.lag.time.max.ms": 10_000, "log.flush.interval.messages": 1}

#: Topics besides `orders`.
MORE: Mapping[str, Any] = {}

#: A fault that each turn has once, before what may lose records.
ONCE = "slow_disk"


def turns(number: int) -> Sequence[Sequence[Mapping[str, Any]]]:
    """Return the faults of so many turns."""
    both = _turn(has=2, new=4), _turn(has=4, new=2)
    return [both[turn % 2] for turn in range(number)]


def _turn(*, has: int, new: int) -> Sequence[Mapping[str, Any]]:
    move = {"fault": "reassign", "topic": "orders", "within": "120s", "heal_after": "1s"}
    return [
        {"fault": ONCE, "id": "lag", "target": [has, 1], "rate": 65_536, "operations": 4,
         "when": ["100 acked", "isr of orders-0 == 3"], "or_after": "60s",
         "heal_when": "gone ended"},
        {**move, "id": "away", "to": [new, has, 1], "when": "isr of orders-0 is {3}",
         "or_after": "60s"},
        {"fault": "bandwidth", "id": "busy", "target": new, "rate": "500kbit",
         "when": f"leader of orders-0 == {new}", "or_after": "60s", "heal_when": "gone began"},
        {"parallel": [
            {**move, "id": "back", "to": [3, new, 1]},
            # Another broker leads once its session has ended.
            {"fault": "kill", "id": "gone", "target": new, "or_after": "60s", "heal_after": "1s",
             "when": "log of broker 3 says 'Follower orders-'"},
        ]},
        {"fault": "none", "id": "whole", "when": ["gone recovered", "lag recovered"],
         "or_after": "120s", "heal_after": "1s"},
    ]  # fmt: skip


def counts(run_dir: Path, turn_of: Callable[[datetime], int]) -> dict[str, int]:
    """Return the partitions and turns in which a removed replica was elected, by lost records."""
    causes = [one for one in table_rows(run_dir, "causes") if one["case"] == "B57"]
    return {
        "partitions_with_a_removed_leader": len({one["partition"] for one in causes}),
        "lost_by_removed_leaders": sum(one["count"] for one in causes),
    }
