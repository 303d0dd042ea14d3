"""A producer that librdkafka ends for good, by what a broker answers."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException

from ackproof.clients.connection import librdkafka_version
from ackproof.clients.process import ProducerProcess
from ackproof.clients.shared_page import ProgressPage
from ackproof.clients.specs import ProducerSpec, TransactionSpec
from ackproof.clients.transactional import Transactions
from ackproof.errors import ExitCode, WorkloadError
from ackproof.ledger import transaction_log
from ackproof.ledger.outcome import error_name
from ackproof.ledger.producer_ledger import recover
from support.client_specs import producer_spec
from unit.harness.clients.mock_cluster import END_TXN, PRODUCE, mock_cluster

WITHIN = 120.0


def spec(folder: Path, bootstrap: str, may_stop_for: tuple[str, ...] = ()) -> ProducerSpec:
    return producer_spec(
        folder,
        partitions=1,
        bootstrap_servers=bootstrap,
        settings={"acks": "all", "transaction.timeout.ms": 60000},
        records=100,
        transactions=TransactionSpec(transactional_id="t", size=10, abort=1.0),
        may_stop_for=may_stop_for,
    )


@pytest.mark.parametrize("may_stop", [True, False])
def test_an_abort_that_is_refused_ends_the_producer(tmp_path: Path, may_stop: bool) -> None:
    with mock_cluster() as cluster:
        cluster.answer(END_TXN, KafkaError.INVALID_TXN_STATE)
        process = ProducerProcess(
            spec(tmp_path, cluster.bootstrap, ("INVALID_TXN_STATE",) if may_stop else ())
        )
        process.start()
        try:
            code = process.wait(WITHIN)
        finally:
            process.kill()
    assert process.progress().sent == 10  # nothing after it
    transaction_log.close(tmp_path)
    (ended,) = pq.read_table(tmp_path / "transactions").to_pylist()
    assert (ended["outcome"], ended["error"]) == ("aborted", "INVALID_TXN_STATE")
    in_force = json.loads(process.spec.in_force.read_text())
    assert in_force == {"librdkafka": librdkafka_version(), "ended.by": "INVALID_TXN_STATE"}
    if may_stop:
        assert code == 0, process.error
    else:
        assert code == ExitCode.ENVIRONMENT
        first, hint = process.error.splitlines()
        assert first == "producer 0 stopped for good: INVALID_TXN_STATE"  # as in the verdict
        assert "It said: " in hint


def test_what_is_queued_again_after_a_fatal_error_is_not_waited_for(tmp_path: Path) -> None:
    """The second request ends the producer; those behind it are refused afterwards."""
    fatal, refused = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError.NOT_ENOUGH_REPLICAS
    with mock_cluster() as cluster:
        cluster.answer_late(PRODUCE, (0, 0), (fatal, 0), *[(refused, 500)] * 4)
        process = ProducerProcess(
            producer_spec(
                tmp_path,
                partitions=1,
                bootstrap_servers=cluster.bootstrap,
                settings={
                    "acks": "all",
                    "enable.idempotence": True,
                    "batch.num.messages": 1,
                    "delivery.timeout.ms": 10_000,
                },
                records=100,
                may_stop_for=(error_name(fatal),),
            )
        )
        process.start()
        try:
            assert process.wait(WITHIN) == 0, process.error
        finally:
            process.kill()
    assert process.progress().acked == 1
    errors = set(recover(process.spec.ledger)["error"].drop_null().to_pylist())
    assert errors == {error_name(fatal), "_PURGE_QUEUE"}


class Busy:
    """A producer whose last commit goes on: librdkafka begins no transaction meanwhile."""

    def init_transactions(self, timeout: float) -> None:
        pass

    def begin_transaction(self) -> None:
        raise KafkaException(KafkaError(KafkaError._CONFLICT, "commit_transaction is in progress"))


def test_a_transaction_that_cannot_begin_ends_the_producer_in_a_sentence(tmp_path: Path) -> None:
    transactions = Transactions(
        spec(tmp_path, "127.0.0.1:9"),
        Busy(),
        ProgressPage(tmp_path / "producer-0.page", create=True),
        serve=lambda _: None,
        settle=lambda: None,
        abandoned=lambda: False,
    )
    with pytest.raises(WorkloadError, match=r"producer 0 cannot begin .* as 't': commit_transact"):
        transactions.room(0)
    transactions.close()
