"""What a leader decides about appends, acks, its high watermark and its ISR.

The rules of `kafka.cluster.Partition` (4.1.1) as functions of plain values: every search and the
trace validation state them by calling these. Sets of replicas are bitmasks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ackproof_model.replication.policy import Policy
from ackproof_model.replication.state import members


def enough_in_sync(policy: Policy, isr: int) -> bool:
    """Whether `isr` is large enough for acks=all.

    Before the append the committed ISR counts (NOT_ENOUGH_REPLICAS, `appendRecordsToLeader`),
    before the ack the maximal ISR (NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    `checkEnoughReplicasReachOffset`).
    """
    if policy.acks != "all" or not policy.checks.min_isr_precheck:
        return True
    return isr.bit_count() >= policy.min_isr


def committed(policy: Policy, offset: int, high_watermark: int) -> bool:
    """Whether acks=all may answer for the record at `offset` (`checkEnoughReplicasReachOffset`)."""
    return offset < high_watermark or not policy.checks.high_watermark_ack


def high_watermark(
    log_ends: Collection[int], *, isr_size: int, min_isr: int, freeze: bool
) -> int | None:
    """Return the least of the log end offsets that the high watermark waits for.

    None if it stands still because the ISR is below the minimum (KAFKA-15583).
    `maybeIncrementLeaderHW`. Kafka also waits for a caught-up replica outside the ISR: that only
    delays acks, and is left out.
    """
    return None if freeze and isr_size < min_isr else min(log_ends)


def advanced_high_watermark(
    policy: Policy,
    leader: int,
    *,
    current: int,
    log_end: int,
    fetched: Sequence[int],
    isr: int,
    maximal: int,
) -> int:
    """Return the leader's high watermark after a change; it never goes back.

    fetched: the log end offset of each replica as of its last fetch, -1 for none in this epoch. A
    replica that is being added to the ISR counts, too: the `maximal` ISR (KIP-497).
    """
    awaited = maximal if policy.checks.maximal_isr else isr
    ends = [log_end, *(max(0, fetched[r]) for r in members(awaited & ~(1 << leader)))]
    reached = high_watermark(
        ends, isr_size=isr.bit_count(), min_isr=policy.min_isr, freeze=policy.freeze
    )
    return current if reached is None else max(current, reached)


def join_offset(*, high_watermark: int, epoch_start: int) -> int:
    """Return the log end offset at which a replica may join the ISR (`isFollowerInSync`).

    It must have reached the high watermark and the start of the leader epoch (KAFKA-7128).
    """
    return max(high_watermark, epoch_start)


def waits_for_epoch_start(policy: Policy) -> bool:
    """Whether a follower must reach the start of the leader epoch, from 2.0.1 (KAFKA-7128)."""
    return policy.profile.epoch_start and policy.checks.epoch_start_check


def may_join(policy: Policy, log_end: int, *, high_watermark: int, epoch_start: int) -> bool:
    """Whether a follower's log end offset lets it join the ISR (`canAddReplicaToIsr`)."""
    start = epoch_start if waits_for_epoch_start(policy) else 0
    return log_end >= join_offset(high_watermark=high_watermark, epoch_start=start)


def joins_only_alive(policy: Policy) -> bool:
    """Whether a leader adds no replica to the ISR that the controller takes for dead.

    It checks that from KRaft on (KIP-841). Before 2.7 it adds a follower as part of its fetch. In
    between nobody checks.
    """
    return not policy.profile.zookeeper or not policy.profile.alter_partition


def fences_fetch(policy: Policy, leader_epoch: int, fetch_epoch: int) -> bool:
    """Whether a fetch is refused: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH (KIP-320)."""
    checked = policy.profile.fetch_fencing and policy.checks.fetch_epoch_check
    return checked and leader_epoch != fetch_epoch
