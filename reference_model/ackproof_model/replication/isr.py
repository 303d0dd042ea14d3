"""The checks of leader and controller before a replica joins the ISR.

The rules of `kafka.cluster.Partition` and `ReplicationControlManager.alterPartition` as functions
of plain values, for all searches and the trace validation.
"""

from __future__ import annotations

from ackproof_model.replication.policy import Policy
from ackproof_model.replication.state import Controller, members


def join_offset(*, high_watermark: int, epoch_start: int) -> int:
    """Return the log end offset at which a replica may join the ISR (`isFollowerInSync`).

    It must have reached the high watermark and the start of the leader epoch (KAFKA-7128).
    """
    return max(high_watermark, epoch_start)


def waits_for_epoch_start(policy: Policy) -> bool:
    """Whether a follower must reach the start of the leader epoch, from 2.0.1 (KAFKA-7128)."""
    return policy.profile.epoch_start


def may_join(policy: Policy, log_end: int, *, high_watermark: int, epoch_start: int) -> bool:
    """Whether a follower's log end offset lets it join the ISR (`canAddReplicaToIsr`)."""
    start = epoch_start if waits_for_epoch_start(policy) else 0
    return log_end >= join_offset(high_watermark=high_watermark, epoch_start=start)


def joins_only_alive(policy: Policy) -> bool:
    """Whether a leader adds only replicas to the ISR that are alive for the controller.

    It checks this with KRaft (KIP-841). Before 2.7 it adds a follower as part of its fetch. In
    between no broker checks it.
    """
    return not policy.profile.zookeeper or not policy.profile.alter_partition


def active(controller: Controller, replica: int) -> bool:
    """Whether a broker is neither fenced nor in controlled shutdown."""
    return not (controller.fenced | controller.stopping) >> replica & 1


def joins_as_dead(policy: Policy, controller: Controller, added: int) -> bool:
    """Whether the controller refuses a new member that is fenced or shutting down (KIP-841)."""
    inactive = any(not active(controller, member) for member in members(added))
    return joins_only_alive(policy) and inactive


def joins_as_old_incarnation(policy: Policy, added: int, restarted: int) -> bool:
    """Whether the controller refuses a new member that restarted since its last fetch (KIP-903)."""
    return policy.profile.broker_epochs and bool(added & restarted)
