"""The replicas: append, ack, fetch, truncate, the high watermark, requested ISR changes.

The rules follow `kafka.cluster.Partition` and `kafka.server.AbstractFetcherThread` of 4.1.1, and of
the versions in which they were different (`Profile`). A fetch is one step and one record: it
reports the follower's log end offset and returns the next record.
"""

from __future__ import annotations

from collections.abc import Iterator

from ackproof_model.adversary.state import (
    AdversaryModel,
    Label,
    Partition,
    Replica,
    Writes,
    follower,
)
from ackproof_model.replication.isr import (
    active,
    joins_only_alive,
    may_join,
    waits_for_epoch_start,
)
from ackproof_model.replication.leader import (
    advanced_high_watermark,
    committed,
    enough_in_sync,
    fences_fetch,
)
from ackproof_model.replication.log_truncation import follow, kept_end
from ackproof_model.replication.state import NOBODY, Log, members


def maximal_isr(replica: Replica) -> int:
    """Return the committed ISR and the replicas that are being added to it (KIP-497).

    While a shrink is in flight, that is the committed ISR.
    """
    return replica.isr | replica.pending


def moved_high_watermark(model: AdversaryModel, leader: Replica, number: int) -> Replica:
    """Return the leader with its high watermark moved (`leader.advanced_high_watermark`)."""
    watermark = advanced_high_watermark(
        model.policy,
        number,
        current=leader.hw,
        log_end=leader.end,
        fetched=leader.ends,
        isr=leader.isr,
        maximal=maximal_isr(leader),
    )
    return reached_start(leader._replace(hw=watermark))


def reached_start(leader: Replica) -> Replica:
    """Return a leader without its epoch's start offset, if the high watermark has passed it.

    The rules read only the larger of the two (`isr.join_offset`), and the high watermark never
    goes back.
    """
    return leader._replace(start=0) if leader.hw >= leader.start else leader


def learn(model: AdversaryModel, partition: Partition, replica: Replica, number: int) -> Replica:
    """Return a broker that has applied the latest metadata (`Partition.makeLeader`).

    A new leader begins an epoch at its log end offset and knows no log end offset of the followers.
    Before 2.0 it keeps its high watermark; later it begins at 0, which only delays acks.
    """
    controller, n, profile = partition.controller, model.replicas, model.profile
    if controller.leader != number:
        latest = controller.leader, controller.epoch
        end, hw, truncating = follow(
            profile,
            known=(replica.leader, replica.epoch),
            latest=latest,
            log_end=replica.end,
            high_watermark=replica.hw,
            truncating=replica.truncating,
        )
        return follower(n, *latest, log=replica.log[:end], hw=hw)._replace(
            status=replica.status, truncating=truncating
        )
    if (replica.leader, replica.epoch) == (number, controller.epoch):
        view = replica._replace(isr=controller.isr, version=0, pending=0)
    else:
        view = follower(n, number, controller.epoch, log=replica.log, status=replica.status)
        hw = min(replica.hw, replica.end) if profile.keeps_high_watermark else 0
        start = replica.end if waits_for_epoch_start(model.policy) else 0
        view = view._replace(isr=controller.isr, start=start, hw=hw)
    return moved_high_watermark(model, view, number)


def behind(model: AdversaryModel, partition: Partition, replica: Replica, number: int) -> bool:
    """Whether a running broker lacks metadata that concerns it.

    With `reduction`, no broker learns that there is no leader.
    """
    controller = partition.controller
    if controller.leader == NOBODY and model.reduction:
        return False
    if (replica.leader, replica.epoch) != (controller.leader, controller.epoch):
        return True
    return replica.leader == number and replica.version != partition.version


def writes(
    model: AdversaryModel, replica: Replica, number: int, written: Writes
) -> Iterator[tuple[Label, Replica, Writes]]:
    """Yield the append of the next record at a broker, and the acks of earlier ones.

    `Partition.appendRecordsToLeader` and `checkEnoughReplicasReachOffset`. With acks=0 and acks=1 a
    record counts as acked with the append. A leader whose epoch was raised (by a shrink of the
    ISR) answers the requests of its earlier epoch, too.
    """
    if not replica.alive or replica.leader != number:
        return
    policy = model.policy
    waits = policy.acks == "all"
    record = len(written.epochs)
    if record < model.budgets.records and enough_in_sync(policy, replica.isr):
        longer = replica._replace(log=(*replica.log, record))
        acked = written.acked if waits else written.acked | 1 << record
        after = Writes((*written.epochs, replica.epoch), acked)
        yield ("write", number, record), moved_high_watermark(model, longer, number), after
    if not waits or not enough_in_sync(policy, maximal_isr(replica)):
        return
    for offset, record in enumerate(replica.log):
        if written.acked >> record & 1:
            continue
        own = written.epochs[record] == replica.epoch or model.profile.shrink_bumps_epoch
        if own and committed(offset, replica.hw):
            yield (
                ("ack", number, record),
                replica,
                written._replace(acked=written.acked | 1 << record),
            )


def fetch(  # noqa: PLR0917 -- the two sides of a request
    model: AdversaryModel,
    fetcher: Replica,
    number: int,
    leader: Replica,
    source: int,
    epochs: tuple[int, ...],
) -> tuple[Label, Replica, Replica] | None:
    """Return both replicas after a fetch of `fetcher` from `leader`; None if nothing changes.

    A pending ISR request has the broker epochs of the time when it was sent
    (`Partition.addBrokerEpochToIsr`); a later fetch does not change them.
    """
    if not (fetcher.alive and leader.alive and leader.leader == source):
        return None
    if fences_fetch(model.policy, leader.epoch, fetcher.epoch):
        return None
    end = fetcher.end
    keeps = kept_end(
        model.profile,
        _epochs(leader.log, epochs),
        _epochs(fetcher.log, epochs),
        truncating=fetcher.truncating,
        high_watermark=fetcher.hw,
    )
    if fetcher.truncating or keeps < end:
        truncated = fetcher._replace(
            log=fetcher.log[:keeps], hw=min(fetcher.hw, keeps), truncating=False
        )
        return ("truncate", number, source), truncated, leader
    if end > leader.end:
        return None
    new = leader.log[end : end + 1]
    renewed = 1 << number & ~leader.pending
    ends = (*leader.ends[:number], end, *leader.ends[number + 1 :])
    informed = leader._replace(ends=ends, stale=leader.stale & ~renewed)
    informed = moved_high_watermark(model, informed, source)
    follower_log = fetcher._replace(log=fetcher.log + new)
    if model.profile.keeps_high_watermark:  # the response carries the high watermark before it
        follower_log = follower_log._replace(hw=min(follower_log.end, leader.hw))
    if informed == leader and follower_log == fetcher:
        return None
    return ("fetch", number, source), follower_log, informed


def _epochs(log: Log, epochs: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(epochs[record] for record in log)


def expansions(
    model: AdversaryModel, partition: Partition, replica: Replica, number: int
) -> Iterator[tuple[Label, Replica]]:
    """Yield the ISR expansions a leader may ask for (`Partition.canAddReplicaToIsr`).

    For a follower that has reached the high watermark and the start of the epoch (KAFKA-7128), and
    is neither fenced nor shutting down (`isr.joins_only_alive`). The controller checks its
    broker epoch (KIP-903).
    """
    if replica.pending or not replica.alive or replica.leader != number:
        return
    policy, controller = model.policy, partition.controller
    for joiner in members(policy.everyone & ~replica.isr):
        fetched = replica.ends[joiner]
        reached = may_join(policy, fetched, high_watermark=replica.hw, epoch_start=replica.start)
        if reached and (active(controller, joiner) or not joins_only_alive(policy)):
            requested = replica._replace(pending=replica.isr | 1 << joiner)
            yield ("expand", number, joiner), requested


def shrinks(replica: Replica, number: int) -> Iterator[tuple[Label, Replica]]:
    """Yield the ISR shrinks a leader may ask for, of any follower (`Partition.maybeShrinkIsr`)."""
    if replica.pending or not replica.alive or replica.leader != number:
        return
    for lagging in members(replica.isr & ~(1 << number)):
        requested = replica._replace(pending=replica.isr & ~(1 << lagging))
        yield ("shrink", number, lagging), requested


def forget(model: AdversaryModel, replica: Replica, restarted: int) -> Replica:
    """Return a leader whose follower restarted: its last fetch came from the old incarnation.

    From 3.5 the controller knows that. Before 2.7 a follower joins the ISR by a fetch, so one of an
    old incarnation does not count.
    """
    profile, ends = model.profile, replica.ends
    if not replica.alive or ends[restarted] == NOBODY:
        return replica
    if not profile.alter_partition:
        return replica._replace(ends=(*ends[:restarted], NOBODY, *ends[restarted + 1 :]))
    if not profile.broker_epochs:
        return replica
    return replica._replace(stale=replica.stale | 1 << restarted)
