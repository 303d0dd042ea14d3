"""Faults by their effects, in the words of the model's schedules."""

from __future__ import annotations

from ackproof_faults import Fault
from ackproof_faults.effects import Client, Cuts, Ends
from ackproof_model import ChannelCut, Effect, ProcessEnds

#: A cut of other brokers' fetches from the targets, by rules in the others' network namespaces.
_SERVED_CUT = ChannelCut(channel="replication", fetches="from", among=True, installed="others")


def model_effects(fault: Fault) -> tuple[Effect, ...] | None:
    """Return what the model calls a fault's effects; None if it has no words for them."""
    match [effect for effect in fault.effects if not _spares_records(effect)]:
        case []:
            return ()
        case [Ends(times=1, one_by_one="", for_good=False, silent=False, nodes="targets") as ends]:
            if ends.log == "prefix":
                return (ProcessEnds(log="prefix"),)
            if ends.log == "kept":
                return (ProcessEnds(controlled=ends.clean),)
        case [Cuts(channels=("replication",), served=True, some=False, repeated=False)]:
            return (_SERVED_CUT,)
    return None


def keeps_leaders(fault: Fault) -> bool:
    """Whether no partition gets another leader by the fault."""
    return model_effects(fault) in ((), (_SERVED_CUT,))


def _spares_records(effect: object) -> bool:
    """Whether the effect cannot touch acked records: consumers only read."""
    return isinstance(effect, Client) and effect.role == "consumer"
