"""One valid instance of every registered fault."""

from __future__ import annotations

from ackproof_faults import Fault, registered
from ackproof_faults.fault import Shape

SHAPE = Shape(
    brokers=(1, 2, 3),
    controllers=(100,),
    listeners=("INTERNAL", "CONTROLLER", "EXTERNAL"),
    topics={"orders": 1},
    log_dirs=1,
    disk=None,
    own_clocks=True,
    groups={"billing": "orders"},
)

#: What a fault must be given beside its target.
FIELDS: dict[str, dict[str, object]] = {
    "add_partitions": {"topic": "orders", "partitions": 4},
    "alter_config": {"topic": "orders", "key": "retention.ms", "value": 1000},
    "busy_coordinator": {"group": "billing"},
    "change_replication_factor": {"topic": "orders", "replication_factor": 2},
    "crash_client": {"client": "producer 0"},
    "pause_client": {"client": "consumers"},
    "drift_clock": {"per_minute": "30s"},
    "skew_clock": {"by": "-90m"},
    "skew_timestamps": {"by": "90m"},
    "slow_client": {"client": "producers", "delay": "1s"},
    "command": dict.fromkeys(("inject", "verify", "heal"), "true"),
    "lying_disk": {"last": 3},
    "link": {"api": "Produce", "direction": "response", "action": "drop"},
    "preferred_election": {"topic": "orders"},
    "delete_offsets": {"group": "billing", "topic": "orders"},
    "reset_offsets": {"group": "billing", "topic": "orders", "to": "latest"},
    "reassign": {"topic": "orders", "to": [1, 2]},
    "recreate_topic": {"topic": "orders"},
    "unclean_election": {"topic": "orders"},
    "upgrade": {"to": "4.3.1"},
    "upgrade_feature": {"feature": "transaction.version", "level": "2"},
}


def fault(name: str, **fields: object) -> Fault:
    given = {"fault": name, "target": 1, **FIELDS.get(name, {}), **fields}
    return registered()[name].model_validate(given)
