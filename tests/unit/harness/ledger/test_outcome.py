"""A send is failed only if it is certainly not in the log."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from ackproof.ledger.outcome import (
    RULES,
    Meaning,
    classify,
    earliest_resend_s,
    error_name,
)
from ackproof_spark.tables import Outcome

DOCUMENT = Path(__file__).parents[4] / "docs" / "reference" / "outcomes.md"

MAY_BE_WRITTEN = [
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "NOT_LEADER_FOR_PARTITION",
    "REQUEST_TIMED_OUT",
    "KAFKA_STORAGE_ERROR",
    "NETWORK_EXCEPTION",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "_MSG_TIMED_OUT",
    "_PURGE_INFLIGHT",
    "_TRANSPORT",
    "_TIMED_OUT",
    "_DESTROY_BROKER",
    "_FATAL",
    # Not in the table.
    "_CRIT_SYS_RESOURCE",
    "LEADER_NOT_AVAILABLE",
]
REFUSED = [
    "NOT_ENOUGH_REPLICAS",
    "MSG_SIZE_TOO_LARGE",
    "INVALID_RECORD",
    "TOPIC_AUTHORIZATION_FAILED",
    "PRODUCER_FENCED",
    "_PURGE_QUEUE",
    "_UNKNOWN_TOPIC",
]


def error(name: str) -> KafkaError:
    return KafkaError(getattr(KafkaError, name))


@pytest.mark.parametrize("sole_attempt", [True, False])
def test_only_a_report_without_error_is_acked(sole_attempt):
    assert classify(None, sole_attempt=sole_attempt) is Outcome.ACKED
    for name in RULES:
        code = getattr(KafkaError, name)
        assert error_name(code) == name
        outcome = classify(code, sole_attempt=sole_attempt)
        assert outcome is classify(error(name), sole_attempt=sole_attempt) is not Outcome.ACKED


@pytest.mark.parametrize("name", MAY_BE_WRITTEN)
def test_an_error_after_a_possible_write_is_unknown_even_for_the_sole_attempt(name):
    assert classify(error(name), sole_attempt=True) is Outcome.UNKNOWN


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_failed_only_for_the_sole_attempt(name):
    assert classify(error(name), sole_attempt=True) is Outcome.FAILED
    assert classify(error(name), sole_attempt=False) is Outcome.UNKNOWN


def test_invalid_acks_are_failed_for_every_attempt():
    assert classify(error("INVALID_REQUIRED_ACKS"), sole_attempt=False) is Outcome.FAILED


def test_an_unlisted_code_is_unknown():
    assert classify(30_000, sole_attempt=True) is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 0.08),
        ({"retry.backoff.ms": 500}, 0.4),
        ({"retry.backoff.ms": "5000"}, 0.8),
        ({"retry.backoff.ms": 5000, "retry.backoff.max.ms": 4000}, 3.2),
    ],
)
def test_a_resend_waits_for_the_shorter_backoff_less_its_jitter(settings, seconds):
    assert earliest_resend_s(settings) == pytest.approx(seconds)


def test_the_page_lists_every_rule():
    outcomes = {
        Meaning.REFUSED_ALWAYS: "failed | failed",
        Meaning.REFUSED: "failed | unknown",
        Meaning.UNDECIDED: "unknown | unknown",
    }
    rows = [
        f"| `{name}` | {getattr(KafkaError, name)} | {outcomes[rule.meaning]} | {rule.reason} |"
        for name, rule in RULES.items()
    ]
    assert "\n".join(rows) in DOCUMENT.read_text(), "write these rows to docs/reference/outcomes.md"
