"""Everything that goes wrong on purpose: one fault, one file, one name, one schema."""

from ackproof.faults.base import (
    Cluster,
    CommandResult,
    Fault,
    FaultError,
    FaultWindow,
    Guard,
    Shape,
    inject,
)
from ackproof.faults.limits import BlastRadius
from ackproof.faults.needs import Need
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
    "Need",
    "Progress",
    "Schedule",
    "Shape",
    "StepList",
    "every_fault",
    "inject",
    "plain",
    "registered",
]
