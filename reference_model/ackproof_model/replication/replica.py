"""The replicas: metadata, fetches, truncation, changes of the ISR.

The rules follow `kafka.cluster.Partition` and `kafka.server.AbstractFetcherThread` of 4.1.1, and of
the versions in which they were different (`Profile`). A fetch is one step and one record. A
leader learns one fetch later that the follower has the record, as in Kafka.
"""

from __future__ import annotations

from ackproof_model.configuration import Profile
from ackproof_model.replication.controller import alter_isr, alter_partition_accepted
from ackproof_model.replication.isr import active, joins_only_alive, may_join
from ackproof_model.replication.leader import (
    advanced_high_watermark,
    fences_fetch,
)
from ackproof_model.replication.log_truncation import follow, kept_end
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
    """Whether the leader knows that it leads, and no remaining fault can depose it.

    Its log is then the final log.
    """
    run, leader = state.run, state.controller.leader
    if leader == NOBODY or not (run.over or run.phase == model.faults):
        return False
    broker, harm = state.brokers[leader], state.harm
    knows = broker.leader == leader and broker.epoch == state.controller.epoch
    return broker.status == UP and knows and not (harm.stalled | harm.away) >> leader & 1


def behind(broker: Broker, number: int, controller: Controller) -> bool:
    """Whether a broker lacks metadata of the partition that concerns it."""
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

    A new leader begins an epoch at its log end offset and knows no log end offset of the followers
    (`Partition.makeLeader`). Before 2.0 it keeps its high watermark; later it begins at 0, which
    only delays acks.
    """
    broker, controller = state.brokers[number], state.controller
    profile = model.policy.profile
    if controller.leader != number:
        return state.with_broker(number, following(profile, broker, controller))
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
            hw=min(broker.hw, len(broker.log)) if profile.keeps_high_watermark else 0,
            remote=(NOBODY,) * model.replicas,
        )
    return state.with_broker(number, advance_high_watermark(model.policy_in(state), view, number))


def following(profile: Profile, broker: Broker, controller: Controller) -> Broker:
    """Return a broker that has learned of another leader, or of its absence."""
    latest = controller.leader, controller.epoch
    end, watermark, truncating = follow(
        profile,
        known=(broker.leader, broker.epoch),
        latest=latest,
        log_end=len(broker.log),
        high_watermark=broker.hw,
        truncating=broker.truncating,
    )
    return Broker(
        broker.status,
        broker.clean,
        broker.log[:end],
        *latest,
        hw=watermark,
        truncating=truncating,
    )


def forget(model: Model, state: State, restarted: int) -> State:
    """Return the state after a follower restarted: its last fetch came from the old incarnation.

    From 3.5 the controller refuses to add it to the ISR until it fetches again (KIP-903). Before
    2.7 a follower joins the ISR by a fetch.
    """
    profile = model.policy.profile
    if profile.alter_partition and not profile.broker_epochs:
        return state
    for number, broker in enumerate(state.brokers):
        if broker.remote and broker.remote[restarted] != NOBODY:
            remote = (*broker.remote[:restarted], NOBODY, *broker.remote[restarted + 1 :])
            state = state.with_broker(number, broker._replace(remote=remote))
    return state


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
    """Return 'truncate' or 'fetch' and the state after a fetch; None if nothing changes."""
    if not _answered(model, state, number):
        return None
    follower = state.brokers[number]
    source = follower.leader
    leader = state.brokers[source]
    if model.reduces(state) and leads_for_good(model, state):
        return _catch_up(model, state, number)
    end, keeps = (
        len(follower.log),
        kept_end(
            model.policy.profile,
            tuple(map(epoch_of, leader.log)),
            tuple(map(epoch_of, follower.log)),
            truncating=follower.truncating,
            high_watermark=follower.hw,
        ),
    )
    if follower.truncating or keeps < end:
        truncated = follower._replace(
            log=follower.log[:keeps], hw=min(follower.hw, keeps), truncating=False
        )
        return "truncate", state.with_broker(number, truncated)
    if end > len(leader.log):
        return None
    new = leader.log[end : end + 1]
    after = follower._replace(log=follower.log + new)
    if model.policy.profile.keeps_high_watermark:  # that of the leader before this fetch counts
        after = after._replace(hw=min(len(after.log), leader.hw))
    if leader.remote[number] == end and after == follower:
        return None
    remote = (*leader.remote[:number], end, *leader.remote[number + 1 :])
    leader = advance_high_watermark(model.policy_in(state), leader._replace(remote=remote), source)
    return "fetch", state.with_broker(source, leader).with_broker(number, after)


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
    """Return the state after all fetches of a follower from the final leader, in one step."""
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
    the model: the controller fences dead brokers (but see `controller.expire`).
    """
    leader = state.brokers[number]
    cut = leader.isr & (silent(state, number) | state.controller.fenced) & ~(1 << number)
    return sum(1 << r for r in members(cut) if leader.remote[r] != len(leader.log))


def joining(model: Model, state: State, number: int) -> list[int]:
    """Return the replicas that leader `number` may add to the ISR (`Partition.canAddReplica`)."""
    leader = state.brokers[number]
    hw, start, policy = leader.hw, leader.start, model.policy
    return [
        r
        for r in members(policy.everyone & ~leader.maximal & ~silent(state, number))
        if may_join(policy, leader.remote[r], high_watermark=hw, epoch_start=start)
        and (active(state.controller, r) or not joins_only_alive(policy))
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
    return alter_partition_accepted(controller, number, broker.epoch, current=current)


def shrink(model: Model, state: State, number: int, out: int) -> State:
    """Return the state after the leader took `out` from the ISR (AlterPartition, committed).

    The leader itself uses the old ISR until it learns the new one.
    """
    isr = state.brokers[number].isr & ~out
    return state._replace(controller=alter_isr(model.policy_in(state), state.controller, isr))


def expand(model: Model, state: State, number: int, joiner: int) -> State:
    """Return the state after the leader added a replica to the ISR (AlterPartition, committed).

    Until the leader learns the new ISR, the joiner is in its maximal ISR only.
    """
    leader = state.brokers[number]
    isr = leader.isr | 1 << joiner
    state = state.with_broker(number, leader._replace(maximal=isr))
    return state._replace(controller=alter_isr(model.policy_in(state), state.controller, isr))
