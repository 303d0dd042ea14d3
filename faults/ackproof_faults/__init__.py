"""Faults of Kafka clusters and their clients: one fault, one file, one name, one schema."""

from ackproof_faults.errors import FaultError
from ackproof_faults.evidence import Evidence
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.guard import FaultWindow, Guard, inject
from ackproof_faults.interfaces.cluster import Cluster, InterfaceNames
from ackproof_faults.interfaces.command import CommandResult
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.registry import registered
from ackproof_faults.schedule.blast_radius import BlastRadius
from ackproof_faults.schedule.blocks import StepList, every_fault, plain
from ackproof_faults.schedule.observation import Progress
from ackproof_faults.schedule.schedule import Schedule

__all__ = [
    "BlastRadius",
    "Cluster",
    "CommandResult",
    "Evidence",
    "Fault",
    "FaultError",
    "FaultWindow",
    "Guard",
    "InterfaceNames",
    "Need",
    "Problem",
    "Progress",
    "Schedule",
    "Shape",
    "StepList",
    "every_fault",
    "inject",
    "plain",
    "registered",
]
