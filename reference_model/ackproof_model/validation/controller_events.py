"""The events on which a controller changes a partition, and the change by the rules.

Some events are not in the metadata log (an ISR requested by a leader, an election, a reassignment).
They are inferred from the written change, which the rules must reproduce exactly. Names in
backticks are methods of `org.apache.kafka.controller.ReplicationControlManager`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

from ackproof_model.kafka.partition_change import (
    NO_LEADER,
    Change,
    Election,
    Registration,
    Target,
    partition_change,
)
from ackproof_model.replication.controller import cancellation_target, reassignment_target
from ackproof_model.validation.controller_state import ControllerState, MetadataRecord, PartitionId


class Event(StrEnum):
    """What a controller may have changed a partition on."""

    FENCED = "broker fenced"
    UNFENCED = "broker unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    CLEAN_START = "registered after a clean stop"
    UNCLEAN_START = "registered after an unclean stop"
    UNREGISTERED = "broker unregistered"
    DIRECTORY_OFFLINE = "directory offline"
    DIRECTORY_ASSIGNED = "directory assigned"
    ISR_SHRINKS = "leader shrinks the ISR"
    ISR_EXPANDS = "leader expands the ISR"
    ISR_CHANGES = "leader changes the ISR"
    RECOVERED = "leader has recovered"
    REFUSED = "ISR {isr} is refused to the leader"
    PREFERRED_ELECTION = "preferred election"
    UNCLEAN_ELECTION = "unclean election"
    REASSIGNMENT = "reassignment"
    CANCELLATION = "reassignment cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The change of one partition by the rules on one event; None for no change.

    isr: the ISR that is refused.
    """

    event: Event
    isr: tuple[int, ...] = ()
    broker: int | None
    change: Change | None


def broker_goes(
    state: ControllerState,
    partition: PartitionId,
    broker: int,
    event: Event,
    *,
    unclean: bool = False,
) -> Step:
    """Return the change when a broker is fenced, stops, or registers another incarnation.

    `handleBrokerFenced`, `handleBrokerInControlledShutdown`, `handleBrokerShutdown`,
    `handleBrokerUnregistered`, `handleDirectoriesOffline`. After an unclean stop it leaves the
    ELR, too (KIP-966).
    """
    now = state.partitions[partition]
    target = Target(
        election=_election(state, partition),
        isr=tuple(replica for replica in now.isr if replica != broker),
        unclean_shutdown=(broker,) if unclean else (),
    )
    change = partition_change(now, target, state.cluster(partition, without=broker))
    return Step(event=event, broker=broker, change=change)


def broker_unfenced(state: ControllerState, partition: PartitionId, broker: int) -> Step:
    """Return the change when a broker is unfenced (`handleBrokerUnfenced`)."""
    target = Target(election=_election(state, partition), isr=state.partitions[partition].isr)
    change = partition_change(
        state.partitions[partition], target, state.cluster(partition, joining=broker)
    )
    return Step(event=Event.UNFENCED, broker=broker, change=change)


def steps(
    state: ControllerState,
    partition: PartitionId,
    written: Change,
    *,
    before: MetadataRecord | None,
    after: MetadataRecord | None,
) -> Iterator[Step]:
    """Yield the change by the rules on every event that may have led to `written`.

    before, after: the nearest records that change no partition. An event of a broker has its own
    record there, since the records of one event are adjacent.
    """
    now = state.partitions[partition]
    if before is not None:
        yield from _with_record_before(state, partition, before)
    if after is not None:
        yield from _with_record_after(state, partition, after)
    yield from _alter_partition(state, partition, written)
    if written.replicas is not None or written.adding is not None or written.removing is not None:
        yield from _reassignment(state, partition, written)
    if now.leader != now.replicas[0]:
        yield _elected(state, partition, Election.PREFERRED)
    if now.leader == NO_LEADER:
        yield _elected(state, partition, Election.UNCLEAN)
    if written.directories is not None:
        yield from _directory_assigned(state, partition, written.directories)


def _with_record_after(
    state: ControllerState, partition: PartitionId, record: MetadataRecord
) -> Iterator[Step]:
    """Yield the events whose partition changes come before the broker's record."""
    broker = record.data.get("brokerId", NO_LEADER)
    now = state.partitions[partition]
    in_isr, known = broker in now.isr, broker in state.brokers
    if record.kind == "BROKER_REGISTRATION_CHANGE_RECORD":
        if record.data.get("fenced") == 1 and in_isr:
            yield broker_goes(state, partition, broker, Event.FENCED)
        if record.data.get("logDirs"):
            yield broker_goes(state, partition, broker, Event.DIRECTORY_OFFLINE)
    elif record.kind == "UNREGISTER_BROKER_RECORD" and (in_isr or broker in now.elr):
        yield broker_goes(state, partition, broker, Event.UNREGISTERED)
    elif record.kind == "REGISTER_BROKER_RECORD" and known and state.rules.unclean_shutdown:
        if in_isr:
            yield broker_goes(state, partition, broker, Event.CLEAN_START)
        if state.elr and (in_isr or broker in now.elr):
            yield broker_goes(state, partition, broker, Event.UNCLEAN_START, unclean=True)


def _with_record_before(
    state: ControllerState, partition: PartitionId, record: MetadataRecord
) -> Iterator[Step]:
    """Yield the events whose partition changes come after the broker's record."""
    if record.kind != "BROKER_REGISTRATION_CHANGE_RECORD":
        return
    broker, now = record.data["brokerId"], state.partitions[partition]
    if record.data.get("inControlledShutdown") == 1 and broker in now.isr:
        yield broker_goes(state, partition, broker, Event.CONTROLLED_SHUTDOWN)
    if record.data.get("fenced") == -1 and now.leader == NO_LEADER:
        yield broker_unfenced(state, partition, broker)


def _alter_partition(
    state: ControllerState, partition: PartitionId, written: Change
) -> Iterator[Step]:
    """Yield the ISRs and recovery states that the leader may have requested (`alterPartition`).

    Any request that `validateAlterPartitionData` accepts is possible: the written ISR, and, if the
    change completed a reassignment, any members that were removed by it.
    """
    now = state.partitions[partition]
    requested = now.isr if written.isr is None else written.isr
    gone = [replica for replica in now.removing if replica not in requested]
    for count in range(len(gone) + 1):
        for extra in combinations(gone, count):
            isr = (*requested, *extra)
            if not _accepts(state, now, isr):
                if written.isr is not None and now.leader != NO_LEADER:
                    yield Step(event=Event.REFUSED, isr=isr, broker=now.leader, change=None)
                continue
            for recovering in {now.recovering, False}:
                if recovering and len(isr) > 1:
                    continue
                target = Target(
                    election=_election(state, partition), isr=isr, recovering=recovering
                )
                change = partition_change(now, target, state.cluster(partition))
                event = _isr_event(now, isr)
                yield Step(event=event, broker=now.leader, change=change)


def _isr_event(now: Registration, isr: tuple[int, ...]) -> Event:
    if not set(isr) - set(now.isr):
        return Event.ISR_SHRINKS if len(isr) < len(now.isr) else Event.RECOVERED
    return Event.ISR_EXPANDS if set(now.isr) < set(isr) else Event.ISR_CHANGES


def _accepts(state: ControllerState, now: Registration, isr: tuple[int, ...]) -> bool:
    """Whether the controller accepts this ISR (`validateAlterPartitionData`)."""
    return (
        now.leader in isr
        and len(set(isr)) == len(isr)
        and set(isr) <= set(now.replicas)
        and all(replica in state.brokers and state.brokers[replica].active for replica in isr)
    )


def _reassignment(
    state: ControllerState, partition: PartitionId, written: Change
) -> Iterator[Step]:
    """Yield a reassignment (`changePartitionReassignment`) and its cancellation."""
    now = state.partitions[partition]
    replicas = now.replicas if written.replicas is None else written.replicas
    removing = now.removing if written.removing is None else written.removing
    requested = tuple(replica for replica in replicas if replica not in removing)
    target = reassignment_target(now, requested)
    change = partition_change(now, target, state.cluster(partition))
    yield Step(event=Event.REASSIGNMENT, broker=None, change=change)
    if cancelled := _cancelled(state, partition):
        yield cancelled


def _cancelled(state: ControllerState, partition: PartitionId) -> Step | None:
    """Return the cancellation of a reassignment (`PartitionReassignmentRevert`)."""
    now = state.partitions[partition]
    target = cancellation_target(now, _election(state, partition))
    if target is None:
        return None
    change = partition_change(now, target, state.cluster(partition))
    return Step(event=Event.CANCELLATION, broker=None, change=change)


_ELECTIONS = {
    Election.PREFERRED: Event.PREFERRED_ELECTION,
    Election.UNCLEAN: Event.UNCLEAN_ELECTION,
}


def _elected(state: ControllerState, partition: PartitionId, election: Election) -> Step:
    """Return a requested or periodic election (`electLeader`, `maybeBalancePartitionLeaders`)."""
    change = partition_change(
        state.partitions[partition], Target(election=election), state.cluster(partition)
    )
    return Step(event=_ELECTIONS[election], broker=None, change=change)


def _directory_assigned(
    state: ControllerState, partition: PartitionId, directories: tuple[str, ...]
) -> Iterator[Step]:
    """Yield the change when a broker moves a replica (`handleAssignReplicasToDirs`)."""
    now = state.partitions[partition]
    cluster = state.cluster(partition)
    if state.rules.directory_drops_elr:
        cluster = replace(cluster, elr=False)
    for replica, old, new in zip(now.replicas, now.directories, directories, strict=False):
        if old != new:
            change = partition_change(now, Target(directory=(replica, new)), cluster)
            yield Step(event=Event.DIRECTORY_ASSIGNED, broker=replica, change=change)


def _election(state: ControllerState, partition: PartitionId) -> Election:
    return Election.UNCLEAN if state.unclean(partition) else Election.ONLINE
