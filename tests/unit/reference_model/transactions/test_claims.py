"""The published claims about transactions, and the loss cases, decided by the model.

Numbers are those of docs/claims.md (52 to 58) and of docs/catalogue (B13 to B16, B33, B58).
"""

from __future__ import annotations

import pytest

from ackproof_model.kafka.producer_state import Batch, ProducerState, Refusal
from ackproof_model.transactions import TransactionBudgets, TransactionModel, search
from ackproof_model.transactions.coordinator import (
    Answer,
    add_partitions,
    end_txn,
    fence,
    init_producer_id,
    verify,
)
from ackproof_model.transactions.log import readable
from ackproof_model.transactions.state import (
    Coordinator,
    Entry,
    Phase,
    Txn,
)
from specifications.transaction_mutants import last_stable_offset


def model(version="3.9.1", protocol=1, **budgets):
    return TransactionModel(
        kafka_version=version, protocol=protocol, budgets=TransactionBudgets(**budgets)
    )


def labels(found, anomaly):
    return [label for label, _ in found.traces[anomaly]]


V1, V2 = model(), model("4.3.1", 2)
COMMIT, ABORT = Entry(-1, 0, commit=True), Entry(-1, 0, commit=False)


def test_52_read_committed_reads_up_to_the_first_open_record_or_the_high_watermark():
    ended = (Entry(0, 0, 0), COMMIT)
    assert last_stable_offset(ended, 2) == 2
    assert last_stable_offset((*ended, Entry(1, 0, 1)), 3) == 2
    assert last_stable_offset((*ended, Entry(1, 0, 1)), 1) == 1
    assert readable((*ended, Entry(1, 0, 1))) == {0}
    assert readable((Entry(0, 0, 0), ABORT)) == frozenset()


def test_53_and_54_sequences_count_by_epoch_and_partition_from_0():
    def batch(epoch, first):
        return Batch(epoch=epoch, first=first, count=1, transactional=True)

    known = ProducerState().append(batch(0, 0), 0)
    assert isinstance(known, ProducerState)
    asked = {"verification": None, "first_at_zero": False}
    assert known.refusal(batch(0, 1), **asked) is None
    assert known.refusal(batch(0, 2), **asked) is Refusal.OUT_OF_ORDER_SEQUENCE
    assert known.refusal(batch(1, 0), **asked) is None
    assert known.refusal(batch(1, 1), **asked) is Refusal.OUT_OF_ORDER_SEQUENCE
    assert known.duplicate(batch(0, 0)) == 0


def test_55_a_producer_that_gave_a_record_up_takes_a_new_epoch():
    found = search(model("2.8.2", delays=1), until=["hanging"])
    given_up = next(s for label, s in found.traces["hanging"] if label == "producer 0 gives up")
    assert given_up.producers[0].gave_up
    # The abort is answered; before anything else it asks for an epoch.
    _, last = found.traces["hanging"][-1]
    assert last.producers[0].phase is Phase.BUMPING


def test_56_a_new_producer_fences_the_old_one_after_its_transaction_is_aborted():
    ongoing = Coordinator(Txn.ONGOING, 0, 0b01, 0)
    answer, aborting = init_producer_id(V1, ongoing, None)
    assert answer is Answer.CONCURRENT_TRANSACTIONS
    assert (aborting.state, aborting.epoch) == (Txn.PREPARE_ABORT, 1)
    assert init_producer_id(V1, aborting, None)[0] is Answer.CONCURRENT_TRANSACTIONS
    answer, fresh = init_producer_id(V1, Coordinator(Txn.COMPLETE_ABORT, 1, 0, 0), None)
    assert (answer, fresh.epoch) == (Answer.NONE, 2)
    for request in (
        add_partitions(V1, fresh, 0, 0)[0],
        end_txn(V1, fresh, 0, commit=True)[0],
        verify(fresh, 0, 0),
        init_producer_id(V1, fresh, 0)[0],
    ):
        assert request is Answer.PRODUCER_FENCED


def test_57_a_transaction_is_whole_with_protocol_2_only():
    assert "torn" in search(model(delays=1), until=["torn"]).traces
    assert search(model("4.3.1", 2, delays=1)).traces == {}


def test_a_transaction_is_torn_only_until_its_markers_are_written():
    # That one partition has its marker before the other is no anomaly, and passes.
    found = search(model())
    assert (found.complete, found.traces) == (True, {})


def test_58_a_fenced_producer_cannot_abort():
    fresh = Coordinator(Txn.EMPTY, 1, 0, 0)
    for asked in (V1, V2):
        after = fresh._replace(epoch=2)
        assert end_txn(asked, after, 0, commit=False)[0] is Answer.PRODUCER_FENCED


@pytest.mark.parametrize("version", ["2.8.2", "3.9.1", "4.3.1"])
def test_b13_a_late_end_of_one_transaction_ends_the_next(version):
    found = search(model(version, delays=1), until=["aborted-read", "lost"])
    assert labels(found, "aborted-read")[-2:] == [
        "the late commit of producer 0 arrives",
        "a commit marker of partition 0 is written",
    ]
    # Aborted although its commit succeeds.
    assert "the late abort of producer 0 arrives" in labels(found, "lost")
    assert labels(found, "lost")[-1] == "producer 0 commits"


def test_b13_does_not_happen_to_protocol_2():
    ongoing = Coordinator(Txn.ONGOING, 1, 0b01, 0)
    assert end_txn(V1, ongoing, 1, commit=False)[0] is Answer.NONE
    assert end_txn(V2, ongoing, 0, commit=False)[0] is Answer.PRODUCER_FENCED


@pytest.mark.parametrize(("version", "hangs"), [("2.8.2", True), ("3.5.2", True), ("3.6.2", False)])
def test_b14_a_late_record_hangs_before_logs_ask_the_coordinator(version, hangs):
    found = search(model(version, delays=1), until=["hanging"])
    assert ("hanging" in found.traces) == hangs
    if hangs:
        assert (
            labels(found, "hanging")[-1] == "the late record of producer 0 to partition 0 arrives"
        )


@pytest.mark.parametrize(("version", "early"), [("4.0.1", True), ("4.1.2", True), ("4.2.0", False)])
def test_b15_a_late_marker_ends_the_next_transaction_before_4_2(version, early):
    found = search(model(version, 2, marker_delays=1))
    assert ("aborted-read" in found.traces) == early
    if early:
        assert "the late commit marker of partition 0 arrives" in labels(found, "aborted-read")


@pytest.mark.parametrize(("version", "skips"), [("4.2.1", False), ("4.3.0", True)])
def test_b58_the_marker_of_a_partition_without_a_leader_is_skipped_since_4_3(version, skips):
    found = search(model(version, outages=1))
    assert ("unmarked" in found.traces) == skips
    if skips:
        assert labels(found, "unmarked")[-2:] == [
            "producer 0 commits",
            "a commit marker of partition 0 is skipped",
        ]


def test_b16_a_commit_that_races_a_timeout_is_refused_and_its_data_aborted():
    ongoing = Coordinator(Txn.ONGOING, 0, 0b01, 0)
    for asked, answer in [
        (V2, Answer.INVALID_TXN_STATE),
        (V1, Answer.PRODUCER_FENCED),
        (model("4.0.0", 2), Answer.PRODUCER_FENCED),  # the epoch grew by two
    ]:
        aborted = fence(asked, ongoing)._replace(state=Txn.COMPLETE_ABORT, partitions=0)
        assert end_txn(asked, aborted, 0, commit=True)[0] is answer
    assert search(model("4.3.1", 2, delays=1, timeouts=1)).traces == {}


@pytest.mark.parametrize("client", [("2.8.2", 1), ("3.9.1", 1), ("4.3.1", 2)])
def test_b33_a_zombie_neither_writes_nor_commits_after_its_successor_began(client):
    found = search(model(*client, restarts=1))
    assert (found.complete, found.traces) == (True, {})


def test_b33_unless_its_record_is_late_and_logs_do_not_ask_the_coordinator():
    found = search(model("2.8.2", delays=1, restarts=1), until=["zombie-write"])
    assert labels(found, "zombie-write")[-2:] == [
        "producer 1 asks for an epoch",
        "the late record of producer 0 to partition 0 arrives",
    ]


@pytest.mark.parametrize(
    ("state", "partitions", "v1", "v2"),
    [
        (Txn.ONGOING, 1, ("NONE", "NONE"), ("NONE", "NONE")),
        (Txn.EMPTY, 0, ("INVALID_TXN_STATE",) * 2, ("INVALID_TXN_STATE", "NONE")),
        (Txn.COMPLETE_COMMIT, 0, ("NONE", "INVALID_TXN_STATE"), ("INVALID_TXN_STATE", "NONE")),
        (Txn.COMPLETE_ABORT, 0, ("INVALID_TXN_STATE", "NONE"), ("INVALID_TXN_STATE", "NONE")),
        # What follows the markers is pending, and that is answered before the outcome is compared.
        (Txn.PREPARE_COMMIT, 1, ("CONCURRENT_TRANSACTIONS",) * 2, ("CONCURRENT_TRANSACTIONS",) * 2),
        (Txn.PREPARE_ABORT, 1, ("CONCURRENT_TRANSACTIONS",) * 2, ("CONCURRENT_TRANSACTIONS",) * 2),
        (Txn.DEAD, 0, ("INVALID_PRODUCER_ID_MAPPING",) * 2, ("INVALID_PRODUCER_ID_MAPPING",) * 2),
    ],
)
def test_answers_to_a_commit_and_an_abort_of_the_coordinators_epoch(state, partitions, v1, v2):
    coordinator = Coordinator(state, 4, partitions, 0)
    for asked, answers in ((V1, v1), (V2, v2)):
        given = [end_txn(asked, coordinator, 4, commit=commit)[0] for commit in (True, False)]
        assert tuple(answer.value for answer in given) == answers


@pytest.mark.parametrize(
    ("state", "commit", "answer"),
    [
        (Txn.PREPARE_COMMIT, True, "CONCURRENT_TRANSACTIONS"),
        (Txn.COMPLETE_COMMIT, True, "NONE"),
        (Txn.COMPLETE_COMMIT, False, "INVALID_TXN_STATE"),
        (Txn.COMPLETE_ABORT, False, "NONE"),
        (Txn.COMPLETE_ABORT, True, "INVALID_TXN_STATE"),
        (Txn.ONGOING, True, "PRODUCER_FENCED"),
        (Txn.EMPTY, True, "PRODUCER_FENCED"),
    ],
)
def test_with_protocol_2_a_retry_has_the_epoch_before(state, commit, answer):
    coordinator = Coordinator(state, 4, 1 if state in (Txn.ONGOING, Txn.PREPARE_COMMIT) else 0, 0)
    assert end_txn(V2, coordinator, 3, commit=commit)[0].value == answer
    assert end_txn(V1, coordinator, 3, commit=commit)[0] is Answer.PRODUCER_FENCED


def test_partitions_wait_for_the_markers_of_the_transaction_before():
    preparing = Coordinator(Txn.PREPARE_COMMIT, 0, 0b10, 0)
    assert add_partitions(V1, preparing, 0, 0)[0] is Answer.CONCURRENT_TRANSACTIONS
    assert verify(preparing, 0, 1) is Answer.CONCURRENT_TRANSACTIONS
    answer, begun = add_partitions(V1, Coordinator(Txn.COMPLETE_COMMIT, 0, 0, 0), 0, 1)
    assert (answer, begun.state, begun.partitions) == (Answer.NONE, Txn.ONGOING, 0b10)
    assert verify(begun, 0, 1) is Answer.NONE
    assert verify(begun, 0, 0) is Answer.INVALID_TXN_STATE
