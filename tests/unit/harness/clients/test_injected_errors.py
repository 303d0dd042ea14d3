"""Every error that a broker may answer, injected into real Produce requests of a real client.

The mock answers with the error and writes nothing, so what it means for the record is known for a
sole attempt; `docs/reference/outcomes.md` is held against what the producer's own recorder
makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

from ackproof.ledger.outcome import (
    RULES,
    Meaning,
    classify,
    earliest_resend_s,
    error_name,
)
from ackproof_spark.tables import Outcome
from unit.harness.clients.mock_cluster import MockCluster, mock_cluster

OF_BROKERS = {name: getattr(KafkaError, name) for name in RULES if getattr(KafkaError, name) > 0}

SETTINGS = {"retries": 0, "retry.backoff.ms": 500}
SOLE_S = earliest_resend_s(SETTINGS)

#: librdkafka takes this one for a success: the record is in the log, from an attempt before.
NO_ERROR_AFTER_ALL = {"DUPLICATE_SEQUENCE_NUMBER"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with mock_cluster() as found:
        yield found


def report(cluster: MockCluster, *codes: int) -> tuple[KafkaError | None, float]:
    """Send one record, whose requests are answered so; return the report, and after how long."""
    found: list[tuple[KafkaError | None, float]] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "delivery.timeout.ms": 5000,
            "linger.ms": 0,
            "log_level": 0,
            **SETTINGS,
        }
    )
    producer.list_topics("orders", timeout=60)
    cluster.answer_produce(*codes)
    producer.produce(
        "orders",
        b"value",
        partition=0,
        on_delivery=lambda error, message: found.append((error, message.latency())),
    )
    assert producer.flush(20) == 0
    producer.close()
    return found[0]


@pytest.mark.parametrize("name", sorted(set(OF_BROKERS) - NO_ERROR_AFTER_ALL))
def test_an_injected_error_gets_the_outcome_of_the_rules(cluster, name):
    error, took = report(cluster, OF_BROKERS[name])
    if error is None:
        # librdkafka sends again, whatever `retries` says: the second attempt was written.
        assert RULES[name].meaning is not Meaning.REFUSED_ALWAYS
        return
    assert error_name(error.code()) in (name, "_FATAL", "_MSG_TIMED_OUT")
    sole = took < SOLE_S
    wanted = {
        Meaning.REFUSED_ALWAYS: Outcome.FAILED,
        Meaning.REFUSED: Outcome.FAILED if sole else Outcome.UNKNOWN,
        Meaning.UNDECIDED: Outcome.UNKNOWN,
    }[RULES[error_name(error.code())].meaning]
    assert classify(error, sole_attempt=sole) is wanted


def test_no_error_is_acked(cluster):
    error, _ = report(cluster)
    assert classify(error, sole_attempt=True) is Outcome.ACKED


def test_a_refusal_after_a_resend_is_no_longer_certain(cluster):
    codes = [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.MSG_SIZE_TOO_LARGE]
    error, took = report(cluster, *codes)
    assert error_name(error.code()) == "MSG_SIZE_TOO_LARGE"
    assert took >= SOLE_S, "the second attempt waits for the backoff"
    assert classify(error, sole_attempt=took < SOLE_S) is Outcome.UNKNOWN
    error, took = report(cluster, KafkaError.MSG_SIZE_TOO_LARGE)
    assert classify(error, sole_attempt=took < SOLE_S) is Outcome.FAILED
