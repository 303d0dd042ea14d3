"""A producer that librdkafka ends for good, by what a broker answers."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError

from ackproof.clients.process import ProducerProcess
from ackproof.clients.spec import ProducerSpec, TransactionSpec
from ackproof.errors import ExitCode
from ackproof.ledger import transaction_log
from ackproof.ledger.producer_ledger import stream_path
from unit.harness.clients.mock_cluster import END_TXN, mock_cluster

WITHIN = 30.0


@pytest.mark.parametrize("may_stop", [True, False])
def test_an_abort_that_is_refused_ends_the_producer(tmp_path: Path, may_stop: bool) -> None:
    with mock_cluster() as cluster:
        cluster.answer(END_TXN, KafkaError.INVALID_TXN_STATE)
        process = ProducerProcess(
            ProducerSpec(
                run_id="run-1",
                number=0,
                topic="orders",
                partitions=1,
                bootstrap_servers=cluster.bootstrap,
                progress=tmp_path / "producer-0.page",
                ledger=stream_path(tmp_path, 0),
                settings={"acks": "all", "transaction.timeout.ms": 60000},
                records=100,
                transactions=TransactionSpec(transactional_id="t", size=10, abort=1.0),
                may_stop_for=("INVALID_TXN_STATE",) if may_stop else (),
            )
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
    if may_stop:
        assert code == 0, process.error
    else:
        assert code == ExitCode.ENVIRONMENT
        assert "ended with a fatal error" in process.error
        assert "(INVALID_TXN_STATE)" in process.error
