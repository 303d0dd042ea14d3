"""Operators' steps from states in the middle of an outage."""

from __future__ import annotations

import pytest

from ackproof_model.advice import (
    Ability,
    Elect,
    Fail,
    MinIsr,
    Move,
    Offsets,
    Replace,
    Replica,
    ReplicaLog,
    Situation,
    Start,
    Stop,
    down_brokers,
    merged,
    outcome,
    sequences,
    with_failure,
)

EPOCH_0 = ((0, 0),)


def replica(broker: int, end: int, epochs=EPOCH_0, **state) -> Replica:
    return Replica(broker=broker, log=ReplicaLog(end=end, epochs=epochs), **state)


def situation(*replicas: Replica, kafka="4.3.1", isr=(1,), **settings) -> Situation:
    """Return a partition that broker 1 led."""
    return Situation(
        **{
            "kafka_version": kafka,
            "acks": "all",
            "min_insync_replicas": 1,
            "unclean_election": False,
            "leader": 1,
            "leader_epoch": 0,
            "replicas": replicas,
            "isr": frozenset(isr),
            "elr": False,
            **settings,
        }
    )


#: Brokers 3, 2 and 1 died one after the other; all records were acked with acks=all.
DIED_IN_TURN = (replica(1, 2000), replica(2, 1500), replica(3, 1000))


@pytest.mark.parametrize("kafka", ["2.6.2", "3.9.1", "4.3.1"])
@pytest.mark.parametrize(
    ("steps", "lost", "leaders"),
    [
        ((Start((1, 2, 3)),), (), (1,)),
        ((Start((2, 3)),), (), (None,)),
        ((Start((2, 3)), Elect(), Start((1,))), (Offsets(1500, 1999),), (2,)),
        ((Start((3,)), Elect(), Start((1, 2))), (Offsets(1000, 1999),), (3,)),
    ],
)
def test_an_unclean_election_loses_what_the_elected_replica_lacks(
    kafka, steps, lost, leaders
) -> None:
    found = outcome(situation(*DIED_IN_TURN, kafka=kafka), steps)
    assert (found.may_lose, found.loses, found.leaders) == (lost, lost, leaders)
    assert found.complete


def test_a_lost_range_is_still_on_the_disk_of_a_broker_that_was_not_started() -> None:
    found = outcome(situation(*DIED_IN_TURN), [Start((2, 3)), Elect()])
    assert (found.may_lose, found.disks) == ((Offsets(1500, 1999),), (1,))


def test_after_a_power_loss_of_the_last_replica_an_unclean_election_keeps_more() -> None:
    # B6: the only member of the ISR lost the end of its log, which another replica has.
    last = situation(replica(1, 500, power_lost=True), *DIED_IN_TURN[1:], kafka="3.9.1")
    assert outcome(last, [Start((1, 2, 3))]).loses == (Offsets(500, 1499),)
    assert outcome(last, [Start((2, 3)), Elect(), Start((1,))]).keeps


@pytest.mark.parametrize(("kafka", "leaders"), [("3.8.1", (None,)), ("3.9.1", (2,))])
def test_the_setting_of_unclean_elections_is_read_from_3_9_on(kafka, leaders) -> None:
    # KAFKA-12670: with KRaft before, only a request elects a replica outside the ISR.
    state = situation(*DIED_IN_TURN, kafka=kafka, unclean_election=True)
    assert outcome(state, [Start((2,))]).leaders == leaders


def test_an_empty_replica_that_leads_loses_everything() -> None:
    emptied = replica(1, 0, epochs=())
    found = outcome(situation(emptied, replica(2, 10), acks="1"), [Start((1, 2))])
    assert found.loses == (Offsets(0, 9),)


def test_a_tail_that_acks_all_never_acknowledged_is_not_at_risk() -> None:
    both = (replica(1, 10), replica(2, 8))
    second_first = [Start((2,)), Start((1,))]
    assert outcome(situation(*both, isr=(1, 2)), second_first).keeps
    # Not in every order: if the controllers fence broker 2 first, it leaves the ISR.
    found = outcome(situation(*both, isr=(1, 2), acks="1"), second_first)
    assert (found.may_lose, found.loses) == ((Offsets(8, 9),), ())


def test_brokers_that_start_together_may_elect_either_of_them() -> None:
    both = situation(replica(1, 10), replica(2, 8), isr=(1, 2), acks="1")
    found = outcome(both, [Start((1, 2))])
    assert (found.may_lose, found.loses) == ((Offsets(8, 9),), ())
    assert found.leaders == (1, 2)


def test_a_clean_restart_of_the_leader_may_lose_a_record_acked_with_acks_1() -> None:
    running = tuple(replica(broker, 10, running=True) for broker in (1, 2, 3))
    restart = [Stop(1), Start((1,))]

    def restarted(acks: str, broker: int = 1) -> bool:
        state = situation(*running, isr=(1, 2, 3), acks=acks)
        return outcome(state, [Stop(broker), Start((broker,))], writes=1).loses_new

    assert restarted("1")
    assert not restarted("1", broker=2)
    assert not restarted("all")
    assert outcome(situation(*running, isr=(1, 2, 3)), restart, writes=1).keeps


def test_a_stop_below_the_minimum_isr_stops_writes() -> None:
    def writes(minimum: int) -> Ability:
        running = tuple(replica(broker, 10, running=True) for broker in (1, 2))
        state = situation(*running, isr=(1, 2), min_insync_replicas=minimum)
        return outcome(state, [Stop(2)]).writes

    assert (writes(1), writes(2)) == (Ability.YES, Ability.NO)


def test_partitions_that_differ_in_offsets_and_epochs_only_are_one_model() -> None:
    def model(first: int, epoch: int):
        epochs = ((epoch, first),)
        logs = [(1, first + 20), (2, first + 5)]
        return situation(
            *(replica(broker, end, epochs) for broker, end in logs), leader_epoch=epoch
        ).model()

    assert model(0, 3) == model(7000, 12)
    assert model(0, 3) != situation(replica(1, 5), replica(2, 20)).model()


def test_offsets_that_were_committed_and_are_on_no_disk_are_named() -> None:
    log = ReplicaLog(end=5, epochs=EPOCH_0, high_watermark=9)
    state = situation(Replica(broker=1, log=log), replica(2, 4))
    assert state.gone == Offsets(5, 8)
    assert situation(*DIED_IN_TURN).gone is None


@pytest.mark.parametrize(
    ("high_watermark", "of_1", "lost"),
    [
        (0, 0, ()),
        (900, 0, ()),
        (950, 0, (Offsets(900, 949),)),
        (1000, 0, (Offsets(900, 999),)),
        # The log of broker 1 lost its end: it was committed up to offset 999.
        (0, 1000, (Offsets(900, 999),)),
    ],
)
def test_a_short_log_of_the_isr_does_not_hide_committed_records(high_watermark, of_1, lost) -> None:
    def log(end: int, watermark: int) -> ReplicaLog:
        return ReplicaLog(end=end, epochs=EPOCH_0, high_watermark=watermark)

    state = situation(
        Replica(broker=1, log=log(900, of_1)),
        *(Replica(broker=broker, log=log(1000, high_watermark)) for broker in (2, 3)),
        kafka="3.9.1",
    )
    assert outcome(state, [Start((1, 2, 3))]).loses == lost


#: Broker 1 leads alone, the others run and lag.
ALONE = tuple(replica(broker, end, running=True) for broker, end in ((1, 9), (2, 5), (3, 5)))


def test_an_emptied_disk_of_the_only_member_of_the_isr_loses_everything() -> None:
    down = situation(*DIED_IN_TURN)
    assert outcome(down, [Replace(1)]).loses == (Offsets(0, 1999),)
    # A replica that others have is copied from them.
    assert outcome(down, [Start((1,)), Replace(3)]).keeps
    assert outcome(down, [Start((1,)), Replace(3)]).writes is Ability.YES


@pytest.mark.parametrize(("power", "lost"), [(False, ()), (True, (Offsets(0, 8),))])
def test_another_failure_of_the_last_replica(power, lost) -> None:
    state = situation(*ALONE, isr=(1,))
    restarted = outcome(state, [Fail(1, power), Start((1,))])
    # The running followers join the ISR first, or not: so it is lost in some orders only.
    assert restarted.loses == ()
    assert bool(restarted.may_lose) == bool(lost)
    assert outcome(state, [Fail(2, power)]).keeps


def test_a_failure_is_put_before_between_and_after_the_steps() -> None:
    assert list(with_failure((Start((1,)), Elect()), [2], power=True)) == [
        (Fail(2, True), Start((1,)), Elect(), Start((2,))),
        (Start((1,)), Fail(2, True), Elect(), Start((2,))),
        (Start((1,)), Elect(), Fail(2, True), Start((2,))),
    ]


@pytest.mark.parametrize("kafka", ["3.9.1", "4.3.1"])
def test_a_lower_minimum_isr_lets_writes_return(kafka) -> None:
    state = situation(*DIED_IN_TURN, min_insync_replicas=2, kafka=kafka, elr=None)
    alone = [Start((1,))]
    assert outcome(state, alone).writes is Ability.NO
    lowered = outcome(state, [*alone, MinIsr(1)])
    assert (lowered.writes, lowered.keeps) == (Ability.YES, True)


def test_a_changed_minimum_isr_takes_the_eligibility_of_replicas() -> None:
    # ClearElrRecord: broker 1 was eligible, and is no more.
    state = situation(
        replica(1, 9, clean=True),
        isr=(),
        leader=None,
        elr_members=frozenset({1}),
        elr=True,
        kafka="4.3.1",
    )
    assert outcome(state, [Start((1,))]).leaders == (1,)
    assert outcome(state, [MinIsr(2), Start((1,))]).leaders == (None,)


def test_replicas_move_away_from_a_broker_once_the_target_is_in_sync() -> None:
    moved = outcome(situation(*ALONE, isr=(1,)), [Move(1, 4)])
    assert moved.keeps
    assert 1 not in moved.leaders
    assert moved.reads is Ability.YES
    # Without a leader nothing can be copied, and the reassignment waits.
    waiting = outcome(situation(*DIED_IN_TURN), [Move(1, 4)])
    assert (waiting.leaders, waiting.keeps) == ((None,), True)
    # The only disk that has the records is not given up.
    assert outcome(situation(*DIED_IN_TURN), [Move(1, 4), Start((1,))]).keeps


def test_possibilities_are_merged_into_what_may_and_what_must_happen() -> None:
    behind = situation(replica(1, 9), replica(2, 0, epochs=()))
    partly = situation(replica(1, 9), replica(2, 4))
    steps = [Start((2,)), Elect(), Start((1,))]
    both = merged([outcome(one, steps) for one in (behind, partly)])
    assert (both.may_lose, both.loses) == ((Offsets(0, 8),), (Offsets(4, 8),))
    whole = situation(replica(1, 9), replica(2, 9))
    both = merged([outcome(one, steps) for one in (behind, whole)])
    assert (both.may_lose, both.loses) == ((Offsets(0, 8),), ())


def test_sequences_start_each_set_of_brokers_and_elect_uncleanly() -> None:
    found = list(sequences((1, 2)))
    assert found[0] == ()
    assert (Start((1, 2)),) in found
    assert (Start((2,)), Start((1,))) in found
    assert (Start((2,)), Elect(), Start((1,))) in found
    assert len(set(found)) == len(found)
    assert down_brokers((situation(*DIED_IN_TURN),)) == (1, 2, 3)


def test_sequences_of_many_brokers_are_few_and_end_with_all_of_them() -> None:
    down = tuple(range(1, 13))
    found = list(sequences(down))
    assert len(set(found)) == len(found) < 400
    assert (Start(down),) in found
    assert (Start((5,)), Elect(), Start(down[:4] + down[5:])) in found
    assert (Start(down[:-1]), Start((12,))) in found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"isr": (1, 4)}, "brokers \\[4\\] are in the ISR"),
        ({"leader": 2}, "leader 2 is not in the ISR"),
        ({"replicas": tuple(replica(one, 5) for one in range(1, 7))}, "it has 6 replicas"),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(change, message) -> None:
    with pytest.raises(ValueError, match=message):
        situation(*DIED_IN_TURN, **change)
