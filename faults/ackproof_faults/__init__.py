"""Everything that goes wrong on purpose: one fault, one file, one name, one schema."""

from ackproof_faults.errors import FaultError
from ackproof_faults.fault import (
    Cluster,
    CommandResult,
    Fault,
    Shape,
)
from ackproof_faults.guard import FaultWindow, Guard, inject
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.registry import registered
from ackproof_faults.schedule.blast_radius import BlastRadius
from ackproof_faults.schedule.blocks import StepList, every_fault, plain
from ackproof_faults.schedule.observation import SendCounts
from ackproof_faults.schedule.schedule import Schedule

__all__ = [
    "BlastRadius",
    "Cluster",
    "CommandResult",
    "Fault",
    "FaultError",
    "FaultWindow",
    "Guard",
    "Need",
    "Schedule",
    "SendCounts",
    "Shape",
    "StepList",
    "every_fault",
    "inject",
    "plain",
    "registered",
]
