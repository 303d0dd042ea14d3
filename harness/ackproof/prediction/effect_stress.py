"""What one effect of a fault may do to one partition, at most."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch

from ackproof import kafka_versions
from ackproof.prediction.durations import SLACK_S, impaired_s
from ackproof.scenario.internal_topics import every_topic
from ackproof.scenario.model import Scenario
from ackproof.scenario.retention import expiring
from ackproof_faults import Fault
from ackproof_model.bounds import NOTHING, Budget, Stress
from ackproof_model.effects import (
    AddsPartitions,
    Alters,
    Anything,
    ChangesQuorum,
    Client,
    Configures,
    Cuts,
    Effect,
    Elects,
    Ends,
    Intercepts,
    Reassigns,
    Removes,
    Resets,
    SetsBack,
    Skews,
    Slows,
    Stalls,
    Starts,
    Unreachable,
    Upgrades,
)

#: A broker's heartbeats are so long apart (`broker.heartbeat.interval.ms`), seconds.
_HEARTBEAT_S = 2.0

_LEADER_EPOCHS = (0, 11)
#: From here on a replica's directory is part of its assignment (KIP-858).
DIRECTORY_IDS = (3, 7)

#: As often as the cluster likes, while the effect holds.
_ANY_NUMBER = math.inf


#: Requests of consumers and their groups, with which no producer has to do.
OF_GROUPS = frozenset(
    {
        *("ListOffsets", "OffsetCommit", "OffsetFetch"),
        *("JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup"),
    }
)
#: Requests of consumer groups, transactions and clients' metadata: no log depends on them.
_ASIDE = frozenset(
    {
        *OF_GROUPS,
        *("FindCoordinator", "ApiVersions", "Metadata", "InitProducerId"),
        *("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"),
        *("WriteTxnMarkers", "AllocateProducerIds"),
    }
)
#: Requests on which brokers' sessions and the active controller depend.
_OF_CONTROLLERS = frozenset({"Vote", "BeginQuorumEpoch", "FetchSnapshot", "BrokerHeartbeat"})

#: Topic settings that cannot remove or rewrite an acked record while retention is off.
_HARMLESS = (
    *("flush.", "segment.", "compression.", "max.message.bytes", "message.timestamp.", "index."),
    *("retention.", "file.delete.delay.ms", "preallocate"),
    *("leader.replication.", "follower.replication."),
)
_COMPACTING = ("cleanup.policy", "delete.retention.", "min.cleanable.", "max.compaction.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One partition of a scenario, with the cluster's timers in seconds."""

    scenario: Scenario
    topic: str
    partition: int
    lag_time_s: float
    session_s: float
    request_timeout_s: float

    @property
    def replicas(self) -> int:
        return self.scenario.topics[self.topic].replication_factor

    @property
    def assigned(self) -> set[int]:
        """The brokers of its replicas; empty if Kafka chooses them."""
        assignment = self.scenario.topics[self.topic].assignment
        return set(assignment[self.partition]) if self.partition < len(assignment) else set()

    @property
    def version(self) -> tuple[int, ...]:
        return kafka_versions.numbers(self.scenario.kafka)

    @property
    def flushes(self) -> bool:
        """Whether a power loss takes no acked record: each is fsynced first, all the time."""
        changed = any(
            isinstance(effect, Configures) and effect.key.startswith("flush.")
            for fault in self.scenario.every_fault
            for effect in fault.effects
        )
        return self.scenario.flushes(self.topic) and not changed


def cannot_remove_records(effect: Configures, place: Place) -> bool:
    """Whether a topic's new setting removes and rewrites nothing that was acked."""
    if effect.key.startswith(_COMPACTING):
        compacted = place.scenario.topics[place.topic].compacted
        return not compacted and "compact" not in effect.value.lower()
    expires = any(expiring({effect.key: effect.value}))
    return effect.key.startswith(_HARMLESS) and not expires


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A fault that hits a partition: on at most so many of its replicas, for so many seconds."""

    place: Place
    fault: Fault
    lasting: float

    @property
    def replicas(self) -> int:
        """How many of the partition's replicas the fault's target may have."""
        target, place = self.fault.target, self.place
        cluster = place.scenario.cluster
        match target.role:
            case "all":
                count = place.replicas
            case "leader":
                count = 1
            case "followers":
                count = every_topic(place.scenario)[target.topic].replication_factor - 1
            case "any":
                count = target.count
            case "brokers" if place.assigned:
                count = len(set(target.brokers) & place.assigned)
            case "brokers":
                count = len(set(target.brokers))
            case _:  # controllers
                count = int(cluster.controllers) if cluster.combined else 0
        return min(count, place.replicas)

    @property
    def of_controllers(self) -> bool:
        """Whether controllers are hit; combined ones are brokers, too."""
        combined = self.place.scenario.cluster.combined
        return self.fault.target.of_controllers or bool(combined and self.replicas)

    @property
    def ends_sessions(self) -> bool:
        """Whether it may hold for longer than a broker's session lasts without a heartbeat."""
        return self.lasting + SLACK_S >= self.place.session_s - _HEARTBEAT_S

    @property
    def lags(self) -> bool:
        """Whether it may hold, with faults that it overlaps, for longer than a follower may lag."""
        together = max(self.lasting, impaired_s(self.place.scenario.faults))
        return together + SLACK_S >= self.place.lag_time_s


#: While no controller is active, or another one becomes it, brokers' sessions may end.
_CONTROLLERS = Stress(budget=Budget(fencings=_ANY_NUMBER), unanswered=True, late=True)


def stress_of(effect: Effect, hit: Hit) -> Stress:
    return _stress(effect, hit)


@singledispatch
def _stress(effect: object, hit: Hit) -> Stress:
    raise TypeError(f"{effect} is not an effect of a fault")


@_stress.register
def _ends(effect: Ends, hit: Hit) -> Stress:
    place, fault = hit.place, hit.fault
    number = (place.replicas if effect.nodes == "every" else hit.replicas) * effect.times
    here = not effect.partitions or f"{place.topic}-{place.partition}" in effect.partitions
    kept = effect.log == "kept" or (effect.log == "fsynced" and place.flushes)
    if here and not kept:
        budget = Budget(power_losses=number)
    else:
        budget = Budget(clean_stops=number) if effect.clean else Budget(kills=number)
    stress = Stress(
        budget=budget,
        # A new directory id is assigned anew, which the searched rules leave out (KIP-858).
        moved=bool(effect.renewed and number and place.version >= DIRECTORY_IDS),
        unanswered=bool(number),
    )
    if not (hit.of_controllers or effect.nodes == "every"):
        return stress
    if effect.log == "kept":
        return stress.plus(_CONTROLLERS)
    return Stress(anything=f"{fault.name} may remove what controllers have committed")


@_stress.register
def _stalls(effect: Stalls, hit: Hit) -> Stress:
    if hit.of_controllers:
        return _CONTROLLERS
    if not hit.replicas:
        return NOTHING
    budget = Budget(
        fencings=hit.replicas if hit.ends_sessions else 0,
        shrinks=hit.replicas * (hit.place.replicas - 1) if hit.lags else 0,
    )
    return Stress(budget=budget, unanswered=True, late=True)


@_stress.register
def _starts(effect: Starts, hit: Hit) -> Stress:
    return NOTHING


@_stress.register
def _cuts(effect: Cuts, hit: Hit) -> Stress:
    place = hit.place
    count = hit.replicas if effect.nodes == "targets" else place.replicas
    total = NOTHING
    if hit.of_controllers or ("controllers" in effect.channels and effect.repeated):
        total = _CONTROLLERS
    elif "controllers" in effect.channels and hit.ends_sessions:
        total = Stress(budget=Budget(fencings=count))
    if "replication" in effect.channels and place.replicas > 1:
        shrinks = Budget(shrinks=_ANY_NUMBER if hit.lags else 0)
        waits = place.scenario.workload.settings.acks == "all"
        total = total.plus(Stress(budget=shrinks, late=True, unanswered=waits))
    if "clients" in effect.channels and count:
        total = total.plus(Stress(unanswered=True, late=True))
    return total


@_stress.register
def _resets(effect: Resets, hit: Hit) -> Stress:
    return Stress(unanswered=bool(hit.replicas))


@_stress.register
def _slows(effect: Slows, hit: Hit) -> Stress:
    if hit.of_controllers:
        return _CONTROLLERS
    if not hit.replicas:
        return NOTHING
    prompt = effect.by is not None and effect.by * 4 < hit.place.session_s
    answered = effect.by is not None and effect.by * 10 < hit.place.request_timeout_s
    budget = Budget(shrinks=_ANY_NUMBER, fencings=0 if prompt else _ANY_NUMBER)
    return Stress(budget=budget, unanswered=not answered, late=True)


@_stress.register
def _intercepts(effect: Intercepts, hit: Hit) -> Stress:
    if effect.api in _ASIDE:
        return NOTHING
    if effect.api in _OF_CONTROLLERS or hit.of_controllers:
        return _CONTROLLERS
    late = effect.action in ("hold", "delay")
    if effect.api == "Produce":
        twice = effect.action == "duplicate"
        repeated = twice and effect.direction == "request"
        return Stress(repeated=repeated, unanswered=not twice, late=late)
    if "INTERNAL" not in hit.place.scenario.cluster.proxied:  # only consumers use this listener
        return NOTHING
    return Stress(budget=Budget(shrinks=_ANY_NUMBER), unanswered=True, late=True)


@_stress.register
def _removes(effect: Removes, hit: Hit) -> Stress:
    if effect.topic != hit.place.topic:
        return NOTHING
    return Stress(removed=True, emptied=True, unanswered=True, late=True)


@_stress.register
def _alters(effect: Alters, hit: Hit) -> Stress:
    name = f"{hit.place.topic}-{hit.place.partition}"
    return Stress(altered=bool(hit.replicas) and name in (effect.partitions or (name,)))


@_stress.register
def _sets_back(effect: SetsBack, hit: Hit) -> Stress:
    """Before 0.11 a follower truncates to its high watermark, and so loses its log."""
    if effect.high_watermarks and hit.place.version < _LEADER_EPOCHS:
        return Stress(budget=Budget(power_losses=hit.replicas))
    return NOTHING


@_stress.register
def _unreachable(effect: Unreachable, hit: Hit) -> Stress:
    """End the directory's replicas uncleanly; healing restarts the broker."""
    count = hit.replicas
    return Stress(budget=Budget(kills=count, clean_stops=count), unanswered=bool(count))


@_stress.register
def _configures(effect: Configures, hit: Hit) -> Stress:
    key, value = effect.key, effect.value
    if effect.topic != hit.place.topic or cannot_remove_records(effect, hit.place):
        return NOTHING
    if key == "min.insync.replicas":
        return Stress(lowered=int(value), unanswered=True)
    if key == "unclean.leader.election.enable":
        return Stress(unclean=value.lower() == "true")
    if key.startswith((*_COMPACTING, "retention.")):
        return Stress(rewritten=True)
    return Stress(anything=f"the model does not know what {key}={value} does")


@_stress.register
def _upgrades(effect: Upgrades, hit: Hit) -> Stress:
    if effect.version:
        return Stress(versions=(effect.version,))
    if effect.feature == "eligible.leader.replicas.version":
        return Stress(elr=(effect.level != "0",))
    return NOTHING


@_stress.register
def _elects(effect: Elects, hit: Hit) -> Stress:
    place = hit.place
    if effect.topic != place.topic or effect.partition not in (None, place.partition):
        return NOTHING
    if effect.unclean:
        return Stress(unclean=True, unanswered=True)
    # Another replica of the ISR leads, as after a lost session.
    return Stress(budget=Budget(fencings=1), unanswered=True)


@_stress.register
def _reassigns(effect: Reassigns, hit: Hit) -> Stress:
    place = hit.place
    if effect.topic:
        here = effect.topic == place.topic and effect.partition in (None, place.partition)
    else:
        here = bool(hit.replicas)
    budget = Budget(fencings=1, shrinks=1)
    # In another order they only prefer another leader: none is added, none removed.
    moved = not (effect.to and set(effect.to) == place.assigned)
    return Stress(budget=budget, moved=moved, unanswered=True) if here else NOTHING


@_stress.register
def _adds_partitions(effect: AddsPartitions, hit: Hit) -> Stress:
    return NOTHING


@_stress.register
def _skews(effect: Skews, hit: Hit) -> Stress:
    """Replicas lag and requests of brokers time out by a clock that jumps."""
    budget = Budget(shrinks=_ANY_NUMBER, fencings=_ANY_NUMBER)
    return Stress(budget=budget, unanswered=True, late=True) if hit.replicas else NOTHING


@_stress.register
def _changes_quorum(effect: ChangesQuorum, hit: Hit) -> Stress:
    return _CONTROLLERS


@_stress.register
def _client(effect: Client, hit: Hit) -> Stress:
    if effect.role == "consumer":
        return NOTHING
    # With acks=0, what was acked may still be in the queue of a process that ends.
    ends = effect.action == "ends" and hit.place.scenario.workload.settings.acks == "0"
    return Stress(unanswered=ends or effect.action == "stalls")


@_stress.register
def _anything(effect: Anything, hit: Hit) -> Stress:
    return Stress(anything=f"{hit.fault.name} may do anything")
