"""Faults by their effects, in the words of the model's schedules."""

from __future__ import annotations

from ackproof_faults import Fault
from ackproof_faults.effects import Client, Cuts, Ends
from ackproof_model import FaultName


def model_fault(fault: Fault) -> FaultName | None:
    """Return what the model calls a fault of these effects; None if it has no word for it."""
    match [effect for effect in fault.effects if not _spares_records(effect)]:
        case []:
            return "none"
        case [Ends(times=1, one_by_one="", for_good=False, silent=False, nodes="targets") as ends]:
            if ends.log == "prefix":
                return "power_loss"
            if ends.log == "kept":
                return "restart" if ends.clean else "kill"
        case [Cuts(channels=("replication",), served=True, some=False, repeated=False)]:
            return "isolate_replication"
    return None


def _spares_records(effect: object) -> bool:
    """Whether the effect cannot touch acked records: consumers only read."""
    return isinstance(effect, Client) and effect.role == "consumer"
