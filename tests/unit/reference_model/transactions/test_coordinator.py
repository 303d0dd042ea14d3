"""The specification's coordinator is Kafka's, as far as it goes.

`transaction_coordinator` is held against Kafka's own class (tests/conformance); here each step of
the specification is held against that port, in every state and for every request.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from ackproof.kafka_versions import numbers
from ackproof_model.transactions import TransactionModel
from ackproof_model.transactions import coordinator as rules
from ackproof_model.transactions.state import PREPARED, Coordinator, Txn
from specifications import transaction_coordinator as port
from specifications.transaction_metadata import (
    CoordinatorRules,
    Error,
    Metadata,
    TransactionState,
    Transit,
    completed,
)

CLIENTS = (
    ("2.8.2", 1),
    ("3.9.1", 1),
    ("4.0.0", 1),
    ("4.0.0", 2),
    ("4.1.2", 2),
    ("4.3.1", 1),
    ("4.3.1", 2),
)
EPOCHS = (0, 1, 2, 3, 4)
HERE = 2  # the coordinator's epoch
ID = 7


@pytest.fixture(params=CLIENTS, ids=lambda client: f"{client[0]}-v{client[1]}")
def model(request: pytest.FixtureRequest) -> TransactionModel:
    version, protocol = request.param
    return TransactionModel(kafka_version=version, protocol=protocol)


def states() -> Iterator[Coordinator]:
    """Yield what the specification's coordinator may be; a dead one is forgotten by Kafka's."""
    for state, partitions in itertools.product(Txn, range(4)):
        if state is not Txn.DEAD and bool(partitions) == (
            state is Txn.ONGOING or state in PREPARED
        ):
            yield Coordinator(state, HERE, partitions, 0)


def around(model: TransactionModel) -> port.Environment:
    version = numbers(model.kafka_version)
    server = 2 if version >= (4,) else 0
    return port.Environment(rules=CoordinatorRules.of(version), now=100, version=server, new_id=9)


def known(model: TransactionModel, coordinator: Coordinator) -> Metadata | None:
    """Return what Kafka's coordinator knows; where markers are due, what follows is pending."""
    if coordinator.state is Txn.DEAD:
        return None
    after = {Txn.PREPARE_COMMIT: Txn.COMPLETE_COMMIT, Txn.PREPARE_ABORT: Txn.COMPLETE_ABORT}
    pending = after.get(coordinator.state)
    return Metadata(
        producer_id=ID,
        prev_id=ID,
        epoch=coordinator.epoch,
        last_epoch=coordinator.epoch - 1 if model.bumps else -1,
        timeout=1000,
        state=TransactionState(coordinator.state),
        partitions=frozenset(at for at in range(2) if coordinator.partitions >> at & 1),
        started=-1 if coordinator.state is Txn.EMPTY else 50,
        updated=60,
        version=model.protocol if model.bumps else 0,
        pending=None if pending is None else TransactionState(pending),
    )


def told(
    metadata: Metadata | None, completing: Transit | None, by: CoordinatorRules
) -> Coordinator:
    """Return what Kafka's coordinator knows, as the specification has it.

    Without partitions there are no markers to wait for (`maybeWriteTxnCompletion`).
    """
    assert metadata is not None
    if completing is not None and not metadata.partitions:
        done = completed(metadata, completing, by)
        assert isinstance(done, Metadata)
        metadata = done
    partitions = sum(1 << at for at in metadata.partitions)
    return Coordinator(Txn(metadata.state), metadata.epoch, partitions, 0)


def same(found: rules.Answered, answered: port.Response, by: CoordinatorRules) -> None:
    answer, after = found
    assert answered.error is not None
    assert answer.value == answered.error.value
    assert after == told(answered.metadata, answered.completing, by)


@pytest.mark.parametrize("expected", [None, *EPOCHS])
def test_a_new_epoch(model: TransactionModel, expected: int | None) -> None:
    about = around(model)
    for before in states():
        if model.bumps and expected == HERE - 1:
            continue  # a retry, and a producer of the specification has its answer
        found = rules.init_producer_id(model, before, expected)
        asked = None if expected is None else (ID, expected)
        answered = port.init_producer_id(known(model, before), about, timeout=1000, expected=asked)
        same(found, answered, about.rules)


@pytest.mark.parametrize(("epoch", "partition"), [*itertools.product(EPOCHS, range(2))])
def test_a_partition(model: TransactionModel, epoch: int, partition: int) -> None:
    about = around(model)
    for before in states():
        metadata = known(model, before)
        found = rules.add_partitions(model, before, epoch, partition)
        answered = port.add_partitions(
            metadata,
            about,
            producer_id=ID,
            epoch=epoch,
            partitions={partition},
            version=metadata.version if metadata else 0,
        )
        same(found, answered, about.rules)
        verified = port.verify_partitions(
            metadata, producer_id=ID, epoch=epoch, partitions={partition}
        )
        answer = rules.verify(before, epoch, partition)
        if answer is rules.Answer.INVALID_TXN_STATE:  # its name before 3.8
            assert verified[partition] is Error.TRANSACTION_ABORTABLE
        else:
            assert verified[partition].value == answer.value


@pytest.mark.parametrize(("epoch", "commit"), [*itertools.product(EPOCHS, (True, False))])
def test_an_end(model: TransactionModel, epoch: int, commit: bool) -> None:
    about = around(model)
    for before in states():
        metadata = known(model, before)
        request = port.EndTxn(
            producer_id=ID, epoch=epoch, commit=commit, version=2 if model.bumps else 0
        )
        found = rules.end_txn(model, before, epoch, commit=commit)
        same(found, port.end_transaction(metadata, about, request), about.rules)


def test_a_transaction_that_takes_too_long(model: TransactionModel) -> None:
    about = around(model)
    for before in states():
        if before.state is Txn.ONGOING:
            answered = port.abort_timed_out(known(model, before), about, producer_id=ID)
            same((rules.Answer.NONE, rules.fence(model, before)), answered, about.rules)


def test_an_id_that_expired(model: TransactionModel) -> None:
    """Kafka forgets it, and gives a new producer another id: the specification ends there."""
    dead = Coordinator(Txn.DEAD, HERE, 0, 0)
    about = around(model)
    assert rules.add_partitions(model, dead, HERE, 0)[0].value == (
        port.add_partitions(
            None, about, producer_id=ID, epoch=HERE, partitions={0}, version=0
        ).error.value
    )
    begun = port.init_producer_id(None, about, timeout=1000, expected=None)
    assert (begun.error, begun.producer_id, begun.epoch) == (Error.NONE, 9, 0)
