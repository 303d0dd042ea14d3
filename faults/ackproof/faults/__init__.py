"""Everything that goes wrong on purpose: one fault, one file, one name, one schema."""

from ackproof.faults.base import (
    Cluster,
    CommandResult,
    Fault,
    FaultError,
    FaultWindow,
    Guard,
    inject,
)
from ackproof.faults.limits import BlastRadius
from ackproof.faults.observations import Progress
from ackproof.faults.registry import registered
from ackproof.faults.schedule import Schedule
from ackproof.faults.steps import StepList, every_fault, plain

__all__ = [
    "BlastRadius",
    "Cluster",
    "CommandResult",
    "Fault",
    "FaultError",
    "FaultWindow",
    "Guard",
    "Progress",
    "Schedule",
    "StepList",
    "every_fault",
    "inject",
    "plain",
    "registered",
]
