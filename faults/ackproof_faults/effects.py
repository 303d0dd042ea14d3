"""The effects of faults, in the words of the reference model."""

from __future__ import annotations

from typing import Literal

#: none: touches nothing. kill, power_loss, restart, isolate_replication: what the reference model's
#: fault of that name does to replicas (`ackproof_model.replication.fault_schedule`). clients:
#: touches client processes only. unknown: may do anything, so that the model excludes nothing.
Effect = Literal[
    "none",
    "kill",
    "power_loss",
    "restart",
    "isolate_replication",
    "clients",
    "unknown",
]
