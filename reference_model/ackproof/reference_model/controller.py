"""The controller: who leads, who is in the ISR, who is eligible.

It is one atomic state machine: its own log is a fsynced quorum (KIP-500), and dedicated nodes.
`change` follows `PartitionChangeBuilder.build` of Kafka 4.1.1.
"""

from __future__ import annotations

from ackproof.reference_model.model import Model
from ackproof.reference_model.state import NOBODY, Controller


def active(controller: Controller, replica: int) -> bool:
    """Whether a broker is neither fenced nor in controlled shutdown."""
    return not (controller.fenced | controller.stopping) >> replica & 1


def change(model: Model, before: Controller, target_isr: int, *, unclean: int = 0) -> Controller:
    """Return the partition after its ISR was asked to become `target_isr`.

    `unclean` are replicas known to have crashed: they are not eligible (KIP-966).
    """
    isr, elr = target_isr, before.elr
    if model.elr:
        enough = isr.bit_count() >= min(model.configuration.min_insync_replicas, model.replicas)
        elr = 0 if enough else (before.elr | before.isr) & ~isr & ~unclean
    elif not isr:
        isr = before.isr  # without ELR the last member stays, so that it can be elected again

    leader, how = _elect(model, before, isr, elr)
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


def _elect(model: Model, before: Controller, isr: int, elr: int) -> tuple[int, str]:
    """Return the leader and how it came to be; `PartitionChangeBuilder.electLeader`."""
    if model.rules.isr_election:
        eligible = isr or (elr if model.elr else 0)
    else:
        eligible = model.everyone & ~(1 << before.leader if before.leader != NOBODY else 0)
    candidates = [r for r in range(model.replicas) if active(before, r)]
    valid = [r for r in candidates if eligible >> r & 1]
    if valid:
        leader = before.leader if before.leader in valid else valid[0]
        return leader, "in sync" if isr >> leader & 1 else "eligible"
    # The last known leader, when nobody else can be (KIP-966); active from 4.1 (KAFKA-19522).
    if model.elr and not isr and not elr and before.last_known in candidates:
        return before.last_known, "unclean"
    if model.configuration.unclean_leader_election and candidates:
        return candidates[0], "unclean"
    return NOBODY, "nobody"


def fence(model: Model, controller: Controller, replica: int) -> Controller:
    """Return the state after a broker's session ended (`handleBrokerFenced`)."""
    bit = 1 << replica
    fenced = controller._replace(
        fenced=controller.fenced | bit, stopping=controller.stopping & ~bit
    )
    return _without(model, fenced, replica)


def begin_shutdown(model: Model, controller: Controller, replica: int) -> Controller:
    """Return the state after a broker asked for controlled shutdown (KIP-143, KIP-500)."""
    stopping = controller._replace(stopping=controller.stopping | 1 << replica)
    return _without(model, stopping, replica)


def _without(model: Model, controller: Controller, replica: int) -> Controller:
    if not controller.isr >> replica & 1:
        return controller
    return change(model, controller, controller.isr & ~(1 << replica))


def register(model: Model, controller: Controller, replica: int, *, clean: bool) -> Controller:
    """Return the state after a fenced broker's new incarnation registered and was unfenced.

    A broker that was not shut down cleanly leaves ISR and ELR (KIP-966,
    `handleUncleanBrokerShutdown`). Unfencing elects only where there is no leader.
    """
    bit = 1 << replica
    if model.elr and not clean and (controller.isr | controller.elr) & bit:
        controller = change(model, controller, controller.isr & ~bit, unclean=bit)
    controller = controller._replace(fenced=controller.fenced & ~bit)
    if controller.leader == NOBODY:
        controller = change(model, controller, controller.isr)
    return controller
