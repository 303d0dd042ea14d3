"""States without the parts that can no longer change the outcome.

Once all faults have happened, a running leader that the controllers hear stays leader, and its log
is the final one. What the other brokers do then only takes time, unless acks wait for a fault to
end. So such states are replaced by one in which the leader is alone.
"""

from __future__ import annotations

from ackproof_model.replication import replica
from ackproof_model.replication.model import Model
from ackproof_model.replication.state import NOBODY, UP, Broker, Controller, State, members


def reduced(model: Model, state: State) -> State:
    """Return the state, or the one that stands for it in the search.

    The ISR is then full, or the leader alone: too small for acks=all, until the others caught up.
    """
    if not model.reduces(state) or state.run.alone or not _has_final_leader(model, state):
        return state
    leader = state.controller.leader
    if any(replica.leads(b, n) for n, b in enumerate(state.brokers) if n != leader):
        return state  # an old leader may still append
    ended = model.ended(state)
    if (model.acks == "all" or not ended) and not _acks_for_good(model, state):
        return state
    small = state.controller.isr.bit_count() < model.policy.min_isr
    if small and not (ended and (model.acks != "all" or _knows_isr(state))):
        return state
    small = small and model.acks == "all"
    return _alone(model, state, small=small)


def with_full_isr(model: Model, state: State) -> State:
    """Return a state with the leader alone after the other replicas caught up."""
    return _alone(model, state, small=False)


def _has_final_leader(model: Model, state: State) -> bool:
    run, leader = state.run, state.controller.leader
    if leader == NOBODY or not (run.over or run.phase == model.faults):
        return False
    harm = state.harm
    return state.brokers[leader].status == UP and not (harm.stalled | harm.away) >> leader & 1


def _acks_for_good(model: Model, state: State) -> bool:
    """Whether the leader's acks=all wait for nothing that a fault hinders."""
    leader, isr, harm = state.controller.leader, state.controller.isr, state.harm
    if harm.unreachable(leader) or harm.settings or not harm.quorum:
        return False
    if any(state.brokers[number].status != UP for number in members(isr)):
        return False
    if (harm.stalled | harm.away) & isr:
        return False
    here = model.appended + leader  # elsewhere, an old leader may still answer
    return model.acks != "all" or all(
        status < model.appended or status == here for status in state.client.status
    )


def _knows_isr(state: State) -> bool:
    """Whether the final leader, if it knows that it leads, knows the ISR."""
    controller = state.controller
    broker = state.brokers[controller.leader]
    leads = broker.leader == controller.leader and broker.epoch == controller.epoch
    return not leads or broker.isr == broker.maximal == controller.isr


def _alone(model: Model, state: State, *, small: bool) -> State:
    leader, epoch = state.controller.leader, state.controller.epoch
    broker, count = state.brokers[leader], model.replicas
    isr = 1 << leader if small else model.policy.everyone
    if broker.leader == leader and broker.epoch == epoch:
        frozen = small and model.policy.freeze
        watermark = broker.hw if frozen else len(broker.log)
        last = Broker(UP, False, broker.log, leader, epoch, isr, isr, 0, watermark)
    else:
        last = Broker(UP, False, broker.log, NOBODY, 0)
    other = Broker(UP, False, (), leader, epoch)
    harm = state.harm._replace(
        cuts=(0,) * count, own_cuts=(0,) * count, stalled=0, away=0, unlinked=0, quorum=True
    )
    return State(
        Controller(leader, epoch, isr, 0, NOBODY, 0, 0),
        tuple(last if number == leader else other for number in range(count)),
        state.client,
        state.run._replace(alone=True),
        harm,
    )
