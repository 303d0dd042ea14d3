"""What a ZooKeeper controller, which is one of the brokers, decides about the partition.

The rules of `PartitionStateMachine`, `ReplicaStateMachine`, `Election` and `KafkaController` of
0.10.2 to 3.2. `Controller.fenced` are the brokers that the controller takes for dead. Each of its
changes raises the leader epoch; a leader that changes the ISR does not raise it.
"""

from __future__ import annotations

from ackproof_model.kafka.partition_change import Election
from ackproof_model.replication.policy import Policy
from ackproof_model.replication.state import NOBODY, Controller


def changed(policy: Policy, before: Controller, target_isr: int, election: Election) -> Controller:
    """Return the partition after its ISR was to become `target_isr`, and a leader was elected.

    A leader that is alive stays. The last member stays in the ISR, so that it can lead again
    (`doRemoveReplicasFromIsr`).
    """
    isr = target_isr or before.isr
    leader, isr = _elected(policy, before, isr, election)
    if (leader, isr) == (before.leader, before.isr):
        return before
    return before._replace(leader=leader, isr=isr, epoch=before.epoch + 1)


def _elected(policy: Policy, before: Controller, isr: int, election: Election) -> tuple[int, int]:
    """Return leader and ISR (`Election.leaderForOffline`, `leaderForPreferredReplica`)."""
    live = policy.everyone & ~(before.fenced | before.stopping)
    if election is Election.PREFERRED and live & isr & 1:
        return 0, isr
    if before.leader != NOBODY and live >> before.leader & 1:
        return before.leader, isr
    if live & isr:
        return _first(live & isr), isr & live
    if live and election is Election.UNCLEAN:
        return _first(live), live & -live
    return NOBODY, isr


def _first(replicas: int) -> int:
    """Return the first of some replicas in assignment order."""
    return (replicas & -replicas).bit_length() - 1


def hands_over(controller: Controller, replica: int) -> bool:
    """Whether a replica that is shut down has a successor, or leads nothing.

    Without one it stays the leader until its process ends (`leaderForControlledShutdown`).
    """
    others = controller.isr & ~(controller.fenced | controller.stopping | 1 << replica)
    return controller.leader != replica or bool(others)
