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
from ackproof.faults.needs import Need
from ackproof.faults.registry import registered
from ackproof.faults.schedule import Progress, Schedule

__all__ = [
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
    "inject",
    "registered",
]
