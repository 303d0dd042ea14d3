from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ackproof_spark.forensics.terms import Election, terms

START = datetime(2026, 1, 1, tzinfo=UTC)


def state(second, leader, epoch, isr, elr=(), *, last_known=(), partition_epoch=None, on=(1, 2, 3)):
    return {
        "at": START + timedelta(seconds=second),
        "metadata_offset": second,
        "topic": "t",
        "partition": 0,
        "leader": leader,
        "leader_epoch": epoch,
        "partition_epoch": second if partition_epoch is None else partition_epoch,
        "replicas": list(on),
        "isr": list(isr),
        "elr": list(elr),
        "last_known_elr": list(last_known),
    }


def of(*states, starts=None, events=()):
    return terms(states, starts or {}, events)["t", 0]


FIRST = state(0, 1, 0, (1, 2, 3))


def test_a_change_of_the_isr_begins_no_term():
    (term,) = of(FIRST, state(5, 1, 0, (1, 2)))
    assert (term.leader, term.election, term.elected_at) == (1, Election.FIRST, START)
    assert [isr for _, isr in term.changes] == [(1, 2, 3), (1, 2)]


@pytest.mark.parametrize(
    ("states", "election"),
    [
        ([state(5, 2, 1, (2, 3))], Election.CLEAN),
        ([state(5, 1, 0, ()), state(6, -1, 1, (), (3,)), state(7, 3, 2, (3,))], Election.ELIGIBLE),
        ([state(5, -1, 1, (), (1, 2)), state(6, 1, 2, (1,))], Election.ELIGIBLE),
        ([state(5, -1, 1, (), last_known=(1,)), state(6, 1, 2, (1,))], Election.LAST_KNOWN),
        # Broker 3 has stopped uncleanly: the record that drops it from the ELR elects broker 1.
        ([state(5, -1, 1, (), (3,), last_known=(1,)), state(6, 1, 2, (1,))], Election.LAST_KNOWN),
        ([state(5, -1, 1, (), (3,), last_known=(1,)), state(6, 2, 2, (2,))], Election.UNCLEAN),
        ([state(5, -1, 1, (), last_known=(1,)), state(6, 2, 2, (2,))], Election.UNCLEAN),
        ([state(5, -1, 1, ()), state(6, 1, 2, (1,))], Election.UNCLEAN),
        ([state(5, -1, 1, (1,)), state(6, 1, 2, (1,))], Election.CLEAN),
        ([state(5, 1, 0, (1,)), state(6, 2, 1, (2,))], Election.UNCLEAN),
        # The record that completes a reassignment lets broker 3 join the ISR and elects it.
        ([state(5, 1, 0, (1, 2)), state(6, 3, 1, (2, 3), on=(3, 2))], Election.CLEAN),
    ],
)
def test_an_election_is_judged_by_the_state_before(states, election):
    found = of(FIRST, *states)
    assert found[-1].election is election
    assert all(term.leader > 0 for term in found)


def test_states_count_in_the_controllers_order():
    found = of(state(9, 2, 1, (2, 3)), FIRST)
    assert [term.leader for term in found] == [1, 2]


def test_a_term_starts_at_its_first_batch_or_at_the_offset_of_the_leaders_line():
    line = {
        "at": START,
        "kind": "leader",
        "topic": "t",
        "partition": 0,
        "leader_epoch": 1,
        "offset": 41,
        "high_watermark": 30,
    }
    states = (FIRST, state(5, 2, 1, (2, 3)))
    assert of(*states, starts={("t", 0, 1): 40}, events=[line])[1].start == 40
    assert of(*states, events=[line])[1].start == 41
    assert of(*states, events=[line])[1].high_watermark == 30
    assert of(*states)[1].start is None


def loaded(second, broker, offset):
    at = START + timedelta(seconds=second)
    place = {"topic": "t", "partition": 0}
    return {"at": at, "kind": "loaded", "broker": broker, "offset": offset, **place}


@pytest.mark.parametrize(
    ("states", "start"),
    [
        ([state(9, 1, 1, (1,))], 70),
        ([state(7, -1, 1, (1,)), state(9, 1, 2, (1,))], 70),
        # It has followed another leader since it loaded its log, or it was not the leader before.
        ([state(6, 2, 1, (2, 1)), state(9, 1, 2, (1,))], None),
        ([state(9, 2, 1, (2,))], None),
        ([state(7, 1, 1, (1,))], None),
    ],
)
def test_before_0_11_a_leader_elected_again_starts_at_the_end_of_its_loaded_log(states, start):
    loads = [loaded(0, 1, 0), loaded(8, 1, 70), loaded(8, 2, 75), loaded(20, 1, 90)]
    assert of(FIRST, *states, events=loads)[-1].start == start
    assert of(FIRST, *states, events=loads, starts={("t", 0, 1): 3, ("t", 0, 2): 3})[-1].start == 3


@pytest.mark.parametrize(
    ("states", "leaders"),
    [
        ([state(5, 2, 1, (2, 3)), state(9, 3, 0, (1, 2, 3), partition_epoch=0)], [3]),
        ([state(9, 3, 0, (1, 2, 3), partition_epoch=0)], [3]),
        # With ZooKeeper a reassignment leaves the partition epoch as it was.
        ([state(9, 1, 0, (1, 2, 3), partition_epoch=0, on=(1, 2)), state(12, 2, 1, (2,))], [1, 2]),
    ],
)
def test_terms_begin_when_the_topic_was_created_again(states, leaders):
    assert [term.leader for term in of(FIRST, *states)] == leaders


def line(broker, epoch, before, offset, *, second=None):
    """Return the line of a leader, as `Partition.makeLeader` of 4.4.0 logs it."""
    known = f"Some({broker})" if before >= 0 else "None"
    text = (
        f"Leader t-0 with topic id Some(T) starts at leader epoch {epoch} from offset {offset} "
        "with partition epoch 2, high watermark 0, ISR [1,2,3], adding replicas [] and removing "
        f"replicas [] . Previous leader {known} and previous leader epoch was {before}."
    )
    at = START + timedelta(seconds=60 + epoch if second is None else second)
    fields = {"kind": "leader", "high_watermark": 0, "offset": offset, "text": text, "at": at}
    return {"topic": "t", "partition": 0, "broker": broker, "leader_epoch": epoch, **fields}


TO_2_AND_BACK = [FIRST, state(5, 2, 1, (1, 2, 3)), state(9, 1, 2, (1, 2, 3))]


@pytest.mark.parametrize(
    ("states", "lines", "missed"),
    [
        (TO_2_AND_BACK, [line(1, 2, 0, 8)], 5),
        (TO_2_AND_BACK, [line(1, 2, 1, 8)], None),
        (TO_2_AND_BACK, [line(1, 2, -1, 8)], None),  # it was started again
        # It ended after that, and was started again within its term.
        (TO_2_AND_BACK, [line(1, 2, 0, 8), line(1, 2, -1, 8, second=70)], 5),
        # A partition of the same name had this epoch before it was created again.
        (TO_2_AND_BACK, [line(1, 2, 0, 8, second=-5), line(1, 2, 1, 8)], None),
        (TO_2_AND_BACK, [], None),
        # With an older Kafka a change of the ISR raises the epoch, too: no other leader.
        ([FIRST, state(5, 1, 1, (1, 2)), state(9, 1, 2, (1,))], [line(1, 2, 0, 8)], None),
        ([FIRST, state(5, 2, 1, (2, 3)), state(9, 3, 2, (3,))], [line(3, 2, 0, 8)], None),
    ],
)
def test_a_leader_that_has_missed_an_epoch_says_so(states, lines, missed):
    last = of(*states, events=lines)[-1]
    assert last.missed_since == (None if missed is None else START + timedelta(seconds=missed))


MOVED = (4, 2, 1)


@pytest.mark.parametrize(
    ("between", "removed"),
    [
        # 3 leads, is removed, and stays eligible; it is assigned again, and elected.
        ([state(5, 4, 1, (4,), (3,), on=MOVED), state(7, 4, 1, (4,), (3,), on=(3, 4, 1))], True),
        ([state(5, 4, 1, (4,), (3,), on=MOVED), state(7, -1, 2, (), (3,), on=MOVED)], True),
        ([state(5, 4, 1, (4,), (3,), on=(3, 4, 1))], False),
        # It was assigned again before it became eligible, and then in the ISR.
        (
            [
                state(5, 4, 1, (4,), on=MOVED),
                state(6, 4, 1, (4, 3), on=(3, 4, 1)),
                state(7, 4, 1, (4,), (3,), on=(3, 4, 1)),
            ],
            False,
        ),
    ],
)
def test_an_eligible_replica_that_was_removed_meanwhile_is_told_apart(between, removed):
    first = state(0, 3, 0, (3,), on=(3, 2, 1))
    last = of(first, *between, state(9, 3, 3, (3,), on=(3, 4, 1, 2)))[-1]
    assert last.election is Election.ELIGIBLE
    assert last.removed_while_eligible is removed
