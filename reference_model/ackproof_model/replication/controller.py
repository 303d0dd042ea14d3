"""The controller: who leads, who is in the ISR, who is eligible.

It is one atomic state machine: its own log is a fsynced quorum (KIP-500), and dedicated nodes.
`change` follows `PartitionChangeBuilder.build` of Kafka 4.1.1.
"""

from __future__ import annotations

from typing import Protocol

from ackproof_model.replication.guards import Rules
from ackproof_model.replication.state import NOBODY, Controller


class Policy(Protocol):
    """What the controller's rules depend on.

    Replicas are numbered in assignment order. `enough` is min(min.insync.replicas, replication
    factor).
    """

    @property
    def replicas(self) -> int:
        """How many replicas there are."""

    @property
    def everyone(self) -> int:
        """All replicas, as a bitmask."""

    @property
    def elr(self) -> bool:
        """Whether eligible leader replicas are on (KIP-966)."""

    @property
    def enough(self) -> int:
        """The ISR size from which nobody need be eligible."""

    @property
    def unclean_election(self) -> bool:
        """Whether unclean.leader.election.enable is on."""

    @property
    def fenced_last_known(self) -> bool:
        """See `Profile.fenced_last_known`."""

    @property
    def rules(self) -> Rules:
        """The guards in force."""


def active(controller: Controller, replica: int) -> bool:
    """Whether a broker is neither fenced nor in controlled shutdown."""
    return not (controller.fenced | controller.stopping) >> replica & 1


def change(policy: Policy, before: Controller, target_isr: int, *, unclean: int = 0) -> Controller:
    """Return the partition after its ISR was asked to become `target_isr`.

    `unclean` are replicas known to have crashed: they are not eligible (KIP-966).
    """
    isr, elr = target_isr, before.elr
    if policy.elr:
        enough = isr.bit_count() >= policy.enough
        elr = 0 if enough else (before.elr | before.isr) & ~isr & ~unclean
    elif not isr:
        isr = before.isr  # without ELR the last member stays, so that it can be elected again

    leader, how = _elect(policy, before, isr, elr)
    last_known = before.last_known
    if how == "eligible":
        isr = 1 << leader
        elr &= ~isr
    elif how == "unclean":
        isr, elr = 1 << leader, 0
    if leader != NOBODY:
        last_known = NOBODY
    elif not isr and before.leader != NOBODY:
        last_known = before.leader
    epoch = before.epoch + (leader != before.leader)
    return before._replace(leader=leader, epoch=epoch, isr=isr, elr=elr, last_known=last_known)


def _elect(policy: Policy, before: Controller, isr: int, elr: int) -> tuple[int, str]:
    """Return the leader and how it came to be; `PartitionChangeBuilder.electLeader`."""
    eligible = isr or (elr if policy.elr else 0)
    if not policy.rules.isr_election:
        eligible = policy.everyone
    candidates = [r for r in range(policy.replicas) if active(before, r)]
    valid = [r for r in candidates if eligible >> r & 1]
    if valid:
        leader = before.leader if before.leader in valid else valid[0]
        return leader, "in sync" if isr >> leader & 1 else "eligible"
    # The last known leader, when nobody else can be (KIP-966); active from 4.1 (KAFKA-19522).
    last = before.last_known
    acceptable = last != NOBODY and (policy.fenced_last_known or last in candidates)
    if policy.elr and not isr and not elr and acceptable:
        return last, "unclean"
    if policy.unclean_election and candidates:
        return candidates[0], "unclean"
    return NOBODY, "nobody"


def fence(policy: Policy, controller: Controller, replica: int) -> Controller:
    """Return the state after a broker's session ended (`handleBrokerFenced`)."""
    bit = 1 << replica
    fenced = controller._replace(
        fenced=controller.fenced | bit, stopping=controller.stopping & ~bit
    )
    return _without(policy, fenced, replica)


def begin_shutdown(policy: Policy, controller: Controller, replica: int) -> Controller:
    """Return the state after a broker asked for controlled shutdown (KIP-143, KIP-500)."""
    stopping = controller._replace(stopping=controller.stopping | 1 << replica)
    return _without(policy, stopping, replica)


def _without(policy: Policy, controller: Controller, replica: int) -> Controller:
    if not controller.isr >> replica & 1:
        return controller
    return change(policy, controller, controller.isr & ~(1 << replica))


def register(policy: Policy, controller: Controller, replica: int, *, clean: bool) -> Controller:
    """Return the state after a fenced broker's new incarnation registered and was unfenced."""
    return unfence(policy, enrol(policy, controller, replica, clean=clean), replica)


def enrol(policy: Policy, controller: Controller, replica: int, *, clean: bool) -> Controller:
    """Return the state after a fenced broker's new incarnation registered; it is still fenced.

    A broker that was not shut down cleanly leaves ISR and ELR (KIP-966,
    `handleUncleanBrokerShutdown`).
    """
    bit = 1 << replica
    held = (controller.isr | controller.elr) & bit
    if policy.elr and held and not clean and policy.rules.unclean_registration:
        return change(policy, controller, controller.isr & ~bit, unclean=bit)
    return controller


def unfence(policy: Policy, controller: Controller, replica: int) -> Controller:
    """Return the state after a broker was unfenced: it elects only where there is no leader."""
    controller = controller._replace(fenced=controller.fenced & ~(1 << replica))
    if controller.leader == NOBODY:
        return change(policy, controller, controller.isr)
    return controller
