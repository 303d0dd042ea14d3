"""The replicas: metadata, fetches, truncation, changes of the ISR.

The rules follow `kafka.cluster.Partition` and `kafka.server.AbstractFetcherThread` of 4.1.1. A
fetch is atomic: request and response in one step, one record at a time. So a leader learns that a
follower has a record one fetch later, as in Kafka.
"""

from __future__ import annotations

from ackproof_model.replication.controller import active, alter_partition_accepted, change
from ackproof_model.replication.leader import advanced_high_watermark, fences_fetch, may_join
from ackproof_model.replication.log_truncation import agreed
from ackproof_model.replication.model import Model
from ackproof_model.replication.policy import Policy
from ackproof_model.replication.state import (
    NOBODY,
    UP,
    Broker,
    Controller,
    State,
    epoch_of,
    members,
)


def leads(broker: Broker, number: int) -> bool:
    return broker.alive and broker.leader == number


def leads_for_good(model: Model, state: State) -> bool:
    """Whether the leader knows that it leads, and no fault is left that could depose it.

    Its log is then the final log.
    """
    run, leader = state.run, state.controller.leader
    if leader == NOBODY or not (run.over or run.phase == model.faults):
        return False
    broker, harm = state.brokers[leader], state.harm
    knows = broker.leader == leader and broker.epoch == state.controller.epoch
    return broker.status == UP and knows and not (harm.stalled | harm.away) >> leader & 1


def behind(broker: Broker, number: int, controller: Controller) -> bool:
    """Whether a broker does not know the latest metadata of the partition that concerns it."""
    return (
        broker.leader != controller.leader
        or broker.epoch != controller.epoch
        or (
            broker.leader == number
            and (broker.isr != controller.isr or broker.maximal != controller.isr)
        )
    )


def learn(model: Model, state: State, number: int) -> State:
    """Return the state after a broker applied the latest metadata.

    A new leader begins an epoch: its start offset is the log end offset, and it knows nothing of
    the followers (`Partition.makeLeader`). Its high watermark begins at 0 instead of the
    checkpointed one; that only delays acks.
    """
    broker, controller = state.brokers[number], state.controller
    if controller.leader != number:
        view = Broker(broker.status, broker.clean, broker.log, controller.leader, controller.epoch)
        return state.with_broker(number, view)
    if state.run.alone:
        start = len(broker.log)
        view = Broker(
            UP, False, broker.log, number, controller.epoch, controller.isr, controller.isr, start
        )
    elif broker.leader == number and broker.epoch == controller.epoch:
        view = broker._replace(isr=controller.isr, maximal=controller.isr)
    else:
        view = Broker(
            broker.status,
            broker.clean,
            broker.log,
            number,
            controller.epoch,
            controller.isr,
            controller.isr,
            start=len(broker.log),
            remote=(NOBODY,) * model.replicas,
        )
    return state.with_broker(number, advance_high_watermark(model.policy_in(state), view, number))


def advance_high_watermark(policy: Policy, leader: Broker, number: int) -> Broker:
    """Return the leader with its high watermark moved."""
    if not leader.remote:  # see `reduction`
        frozen = policy.freeze and leader.isr.bit_count() < policy.min_isr
        return leader if frozen else leader._replace(hw=len(leader.log))
    watermark = advanced_high_watermark(
        policy,
        number,
        current=leader.hw,
        log_end=len(leader.log),
        fetched=leader.remote,
        isr=leader.isr,
        maximal=leader.maximal,
    )
    return leader._replace(hw=watermark) if watermark > leader.hw else leader


def fetch(model: Model, state: State, number: int) -> tuple[str, State] | None:
    """Return what one fetch of a follower does ('truncate' or 'fetch'); None if nothing."""
    if not _answered(model, state, number):
        return None
    follower = state.brokers[number]
    source = follower.leader
    leader = state.brokers[source]
    if model.reduces and leads_for_good(model, state) and model.checks.epoch_truncation:
        return _catch_up(model, state, number)
    end = len(follower.log)
    if model.checks.epoch_truncation:
        kept = agreed(tuple(map(epoch_of, leader.log)), tuple(map(epoch_of, follower.log)))
        if kept < end:
            return "truncate", state.with_broker(number, follower._replace(log=follower.log[:kept]))
    elif end > len(leader.log):
        return None  # without truncation by epoch, the follower cannot know that it diverges
    new = leader.log[end : end + 1]
    if leader.remote[number] == end and not new:
        return None
    remote = (*leader.remote[:number], end, *leader.remote[number + 1 :])
    leader = advance_high_watermark(model.policy_in(state), leader._replace(remote=remote), source)
    state = state.with_broker(source, leader)
    if new:
        state = state.with_broker(number, follower._replace(log=follower.log + new))
    return "fetch", state


def _answered(model: Model, state: State, number: int) -> bool:
    """Whether a follower's fetch reaches its leader and is not refused."""
    follower = state.brokers[number]
    source = follower.leader
    if not follower.alive or source in (NOBODY, number) or silent(state, source) >> number & 1:
        return False
    leader = state.brokers[source]
    return leads(leader, source) and not fences_fetch(model.policy, leader.epoch, follower.epoch)


def silent(state: State, source: int) -> int:
    """Return the replicas whose fetches from a broker are not answered while faults last."""
    harm = state.harm
    if harm.stalled >> source & 1:
        return -1
    return harm.unreachable(source) | harm.stalled


def _catch_up(model: Model, state: State, number: int) -> tuple[str, State] | None:
    """Return all that a follower's fetches lead to under the final leader, in one step."""
    follower = state.brokers[number]
    source = follower.leader
    leader = state.brokers[source]
    end = len(leader.log)
    if follower.log == leader.log and leader.remote[number] == end:
        return None
    remote = (*leader.remote[:number], end, *leader.remote[number + 1 :])
    leader = advance_high_watermark(model.policy_in(state), leader._replace(remote=remote), source)
    state = state.with_broker(source, leader)
    return "fetch", state.with_broker(number, follower._replace(log=leader.log))


def lagging(state: State, number: int) -> int:
    """Return the ISR members that cannot fetch from leader `number` and lack records.

    `Partition.isFollowerOutOfSync`: the log end offset differs, and the follower has not caught up
    for replica.lag.time.max.ms. Only cut connections and stalled processes make a follower lag in
    the model: the controller fences dead brokers, and running brokers keep up.
    """
    leader = state.brokers[number]
    cut = leader.isr & silent(state, number) & ~(1 << number)
    return sum(1 << r for r in members(cut) if leader.remote[r] != len(leader.log))


def joining(model: Model, state: State, number: int) -> list[int]:
    """Return the replicas that leader `number` may add to the ISR (`Partition.canAddReplica`)."""
    leader = state.brokers[number]
    hw, start, policy = leader.hw, leader.start, model.policy
    return [
        r
        for r in members(policy.everyone & ~leader.maximal & ~silent(state, number))
        if may_join(policy, leader.remote[r], high_watermark=hw, epoch_start=start)
        and active(state.controller, r)
        and state.brokers[r].status == UP
    ]


def may_alter(model: Model, state: State, number: int) -> bool:
    """Whether the controller would accept an AlterPartition of this broker (KIP-497)."""
    broker, controller = state.brokers[number], state.controller
    if not leads(broker, number) or broker.isr != broker.maximal:
        return False
    if not state.harm.governed(number):
        return False
    current = broker.isr == controller.isr
    return alter_partition_accepted(model.policy, controller, number, broker.epoch, current=current)


def shrink(model: Model, state: State, number: int, out: int) -> State:
    """Return the state after the leader took `out` from the ISR (AlterPartition, committed).

    The leader itself uses the old ISR until it learns the new one.
    """
    isr = state.brokers[number].isr & ~out
    return state._replace(controller=change(model.policy_in(state), state.controller, isr))


def expand(model: Model, state: State, number: int, joiner: int) -> State:
    """Return the state after the leader added a replica to the ISR (AlterPartition, committed).

    Until the leader learns the new ISR, the joiner is in its maximal ISR only.
    """
    leader = state.brokers[number]
    isr = leader.isr | 1 << joiner
    state = state.with_broker(number, leader._replace(maximal=isr))
    return state._replace(controller=change(model.policy_in(state), state.controller, isr))
