"""A leader's rules for appends, acks, fetches and its high watermark.

The rules of `kafka.cluster.Partition` (4.1.1) as functions of plain values, for all searches and
the trace validation. Sets of replicas are bitmasks.
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
    return policy.acks != "all" or isr.bit_count() >= policy.min_isr


def committed(offset: int, high_watermark: int) -> bool:
    """Whether acks=all may answer for the record at `offset` (`checkEnoughReplicasReachOffset`)."""
    return offset < high_watermark


def high_watermark(
    log_ends: Collection[int], *, isr_size: int, min_isr: int, freeze: bool
) -> int | None:
    """Return the least of the log end offsets that the high watermark waits for.

    None if it stands still because the ISR is below the minimum (KAFKA-15583).
    `maybeIncrementLeaderHW`. Left out: Kafka also waits for a caught-up replica outside the ISR,
    which only delays acks.
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

    fetched: the log end offset of each replica as of its last fetch, -1 if none counts. A
    replica that is being added to the ISR counts, too: the `maximal` ISR (KIP-497).
    """
    ends = [log_end, *(fetched[r] for r in members(maximal & ~(1 << leader)))]
    reached = high_watermark(
        ends, isr_size=isr.bit_count(), min_isr=policy.min_isr, freeze=policy.freeze
    )
    return current if reached is None else max(current, reached)


def fences_fetch(policy: Policy, leader_epoch: int, fetch_epoch: int) -> bool:
    """Whether a fetch is refused: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH (KIP-320)."""
    return policy.profile.fetch_fencing and leader_epoch != fetch_epoch
