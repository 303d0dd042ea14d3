"""Faults by their effects on one partition, in the words of the exact search.

What has no word there is None: then the bounds answer. So an exact answer leaves nothing out.
"""

from __future__ import annotations

from ackproof.kafka_versions import uses_zookeeper
from ackproof.prediction.effect_stress import (
    DIRECTORY_IDS,
    OF_GROUPS,
    Place,
    cannot_remove_records,
)
from ackproof_faults import Fault
from ackproof_model import Profile
from ackproof_model.effects import (
    Channel,
    Client,
    Configures,
    Cuts,
    Effect,
    Elects,
    Ends,
    Intercepts,
    QuorumLost,
    Reassigns,
    Removes,
    SetsBack,
    Stalls,
    Starts,
)


def model_effects(fault: Fault, place: Place) -> tuple[Effect, ...] | None:
    """Return what the model calls a fault's effects; None if it has no words for them."""
    if fault.target.of_controllers:
        return _of_controllers(fault, place)
    found = [_translated(effect, fault, place) for effect in fault.effects]
    known = [effects for effects in found if effects is not None]
    if len(known) < len(found):
        return None
    return tuple(effect for effects in known for effect in effects)


def keeps_leaders(effects: tuple[Effect, ...] | None) -> bool:
    """Whether no partition gets another leader by these effects."""
    return effects is not None and all(
        isinstance(effect, Cuts) and effect.channels == ("replication",) for effect in effects
    )


def touches_records(fault: Fault) -> bool:
    """Whether a fault may have any effect on the records of producers."""
    return any(not (isinstance(one, Client) and one.role == "consumer") for one in fault.effects)


def _of_controllers(fault: Fault, place: Place) -> tuple[Effect, ...] | None:
    """Return the effects of a fault that takes the metadata quorum its majority.

    Where others take over, sessions are renewed meanwhile, for which the model has no word.
    """
    cluster = place.scenario.cluster
    whole = fault.target.role == "majority of controllers" or cluster.controllers == 1
    dedicated = not (cluster.combined or uses_zookeeper(place.scenario.kafka))
    if whole and dedicated and all(map(_only_absent, fault.effects)):
        return (QuorumLost(),)
    return None


def _only_absent(effect: Effect) -> bool:
    match effect:
        case Ends(times=1, one_by_one="", for_good=False, log="kept", silent=False):
            return True
    return isinstance(effect, Stalls)


def _translated(effect: Effect, fault: Fault, place: Place) -> tuple[Effect, ...] | None:
    match effect:
        case Ends():
            return _ends(effect, place)
        case Stalls():
            return (effect,)
        case Cuts():
            return _cuts(effect, place)
        case Configures():
            return _configures(effect, place)
        case Elects() if _is_here(effect, place):
            return (effect,)
    return () if _passes_by(effect, place) else None


def _passes_by(effect: Effect, place: Place) -> bool:
    """Whether the effect does not touch the partition's records."""
    passes = False
    match effect:
        case Client(role="consumer") | Starts(controller=False):
            passes = True
        case Intercepts(api=api):
            passes = api in OF_GROUPS
        case Removes(topic=topic):
            passes = topic != place.topic
        case Reassigns(topic=topic):
            passes = bool(topic) and not _is_here(effect, place)
        case SetsBack(high_watermarks=marks):  # recovery reads the whole log again
            passes = not (marks and Profile.of(place.scenario.kafka).keeps_high_watermark)
        case Elects():
            passes = not _is_here(effect, place)
    return passes


def _is_here(effect: Elects | Reassigns, place: Place) -> bool:
    return effect.topic == place.topic and effect.partition in (None, place.partition)


def _ends(effect: Ends, place: Place) -> tuple[Effect, ...] | None:
    if effect.times > 1 or effect.one_by_one or effect.for_good or effect.silent:
        return None
    zookeeper = uses_zookeeper(place.scenario.kafka)
    if effect.nodes == "every" and zookeeper:
        return None
    if effect.log_dir is not None or (effect.renewed and place.version >= DIRECTORY_IDS):
        return None  # unknown which directory; KIP-858
    here = not effect.partitions or f"{place.topic}-{place.partition}" in effect.partitions
    quorum = (QuorumLost(),) if effect.nodes == "every" else ()
    kept = effect.log == "kept" or (effect.log == "fsynced" and place.flushes)
    if kept or not here:
        return (Ends(clean=effect.clean), *quorum)
    return (Ends(log="empty" if effect.log == "empty" else "prefix"), *quorum)


def _cuts(effect: Cuts, place: Place) -> tuple[Effect, ...] | None:
    """Return the cuts of an effect; a link that is cut one way fails both ways, except clients'."""
    if effect.some or effect.repeated:
        return None
    if effect.served:
        return (effect,) if effect.channels == ("replication",) else None
    if effect.channels and uses_zookeeper(place.scenario.kafka):
        return None  # the controller is a broker, and reaches others by the listener of replication
    found = [_cut(channel, effect, place) for channel in effect.channels]
    known = tuple(cut for cut in found if cut is not None)
    return known if len(known) == len(found) else None


def _cut(channel: Channel, effect: Cuts, place: Place) -> Cuts | None:
    cluster, at = place.scenario.cluster, effect.nodes
    if at == "every" or (at == "others" and channel == "replication"):
        return None
    if channel == "replication":
        return Cuts(channels=(channel,), among=effect.among)
    if channel == "controllers":
        return Cuts(channels=(channel,), nodes=at)
    if effect.resets or cluster.listeners or cluster.proxied:
        return None  # a producer is told at once, or uses another way
    return Cuts(channels=(channel,), nodes=at, direction=effect.direction)


def _configures(effect: Configures, place: Place) -> tuple[Effect, ...] | None:
    if effect.topic != place.topic or cannot_remove_records(effect, place):
        return ()
    searched = ("min.insync.replicas", "unclean.leader.election.enable")
    return (effect,) if effect.key in searched else None
