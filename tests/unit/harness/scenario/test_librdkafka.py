"""Transactions and consumers in a scenario file: what they mean, and what is refused, and how."""

from __future__ import annotations

import sys

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from ackproof.scenario import librdkafka
from ackproof.scenario.librdkafka import KNOWN, require_accepted

SCENARIO = """\
version: 1
name: small
topics:
  orders: {partitions: 3}
  a: {}
workload:
  topic: orders
  settings:
    acks: all
    enable.idempotence: true
  transactions:
    abort: 25%
    timeout: 5s
  consumers:
    billing:
      commit: after
      settings:
        isolation.level: read_committed
"""


def test_transactions_and_consumers_are_optional(loaded):
    workload = loaded(SCENARIO[: SCENARIO.index("  transactions")])[0].workload
    assert workload.transactions is None
    assert workload.consumers == {}
    assert "transaction.timeout.ms" not in workload.client_settings


def test_the_delivery_timeout_is_limited_by_the_transaction_timeout(loaded):
    workload = loaded(SCENARIO)[0].workload
    assert workload.transactions is not None
    assert workload.transactions.abort == 0.25
    assert workload.client_settings["transaction.timeout.ms"] == 5000
    assert workload.client_settings["delivery.timeout.ms"] == 5000


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("idempotence: true", "idempotence: false", "need enable.idempotence: true (KIP-98)"),
        (
            "idempotence: true",
            "idempotence: true\n    delivery.timeout.ms: 6000",
            ":11: workload.settings.delivery.timeout.ms: 6000 ms is more than the transactions' ti",
        ),
        ("timeout: 5s", "crash_in: 1\n    zombie_in: 2", "name one"),
        ("abort: 25%", "abort: 125%", "abort"),
        (
            "commit: after",
            "commit: afterwards",
            "'auto', 'before', 'after', 'transaction' or 'never'",
        ),
        (
            "commit: after",
            "commit: transaction",
            ":16: workload.consumers.billing.commit: a transaction holds forwarded records",
        ),
        ("commit: after", "into: [invoices]", "'invoices' is not a topic here (a, orders)"),
        ("commit: after", "into: [orders]", "'orders' is a topic that producers write to"),
        (
            "    billing:\n      commit: after",
            "    audit:\n      into: [a]\n    billing:\n      into: [a]",
            "the group audit already forwards to 'a'",
        ),
        (
            "isolation.level: read_committed",
            "group.id: x",
            "group.id is the name of the consumer group",
        ),
        (
            "isolation.level: read_committed",
            "enable.auto.commit: true",
            "enable.auto.commit is set by the key `commit`",
        ),
        (
            "isolation.level: read_committed",
            "isolation.levle: read_committed",
            "did you mean 'isolation.level'?",
        ),
        ("idempotence: true", "idempotence: true\n    linger.sm: 3", "did you mean 'linger.ms'?"),
        ("isolation.level: read_committed", "isolation.level: most", "isolation.level"),
    ],
)
def test_an_illegal_workload_is_refused_with_what_is_legal(refused, old, new, says):
    assert old in SCENARIO
    assert says in refused(SCENARIO.replace(old, new))


@pytest.mark.parametrize(
    ("added", "says"),
    [
        ("size: big", "'big' is not a size"),
        ("size: 31", "workload.size.min: it must be at least 32, not 31"),
        ("size: {min: 50, max: 40}", "min (50) must not exceed max (40)"),
        ("size: {min: 100, max: 999990}", "workload.size: message.max.bytes allows values of up"),
        ("partition: 3", "(0 to 2)"),
        ("partition: 0\n  keys: 3", "remove partition or keys"),
        ("beside: {b: {settings: {SENDS}}}", "workload.beside.b: 'b' is not a topic here (a, ord"),
        ("beside: {orders: {settings: {SENDS}}}", "name another topic in beside"),
        (
            "beside: {a: {partition: 1, settings: {SENDS}}}",
            "workload.beside.a.partition: 1 is not a partition of a (0 to 0)",
        ),
    ],
)
def test_an_illegal_key_of_a_workload_is_refused(refused, added, says):
    added = added.replace("SENDS", "acks: 1, enable.idempotence: false")
    assert says in refused(SCENARIO.replace("  topic: orders", f"  topic: orders\n  {added}"))


@pytest.mark.parametrize("name", KNOWN)
def test_librdkafka_knows_every_property_that_is_suggested(name):
    message = ""
    try:
        Consumer({"group.id": "any", "log_level": 0, name: "neither a number nor a word"}).close()
    except KafkaException as refusal:
        message = refusal.args[0].str()
    assert "No such configuration property" not in message


def test_without_confluent_kafka_a_misspelt_name_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    require_accepted("Producer", {"acks": "all", "ssl.ca.location": "ca.pem"})
    with pytest.raises(ValueError, match=r'"linger\.m".*did you mean \'linger\.ms\'\?'):
        require_accepted("Producer", {"linger.m": 5})


def test_debug_is_checked_without_printing_what_the_client_does(
    capfd: pytest.CaptureFixture[str],
) -> None:
    require_accepted("Producer", {"acks": "all", "debug": "all"})
    assert capfd.readouterr() == ("", "")
    with pytest.raises(ValueError, match="nonsense"):
        require_accepted("Producer", {"debug": "nonsense"})


def test_settings_are_tried_once_unless_they_name_a_file(monkeypatch, tmp_path):
    tried = []

    class Client(Producer):
        def __init__(self, settings, **options):
            tried.append(settings)
            super().__init__(settings, **options)

    monkeypatch.setattr(confluent_kafka, "Producer", Client)
    monkeypatch.setattr(librdkafka, "_accepted", set())
    for value in (1, 1, "1", 1):
        require_accepted("Producer", {"linger.ms": value})
    assert len(tried) == 2
    named = tmp_path / "certificates.pem"
    named.touch()
    for _ in range(2):
        require_accepted("Producer", {"ssl.ca.location": str(named)})
    assert len(tried) == 4
    for _ in range(2):
        with pytest.raises(ValueError, match=r"linger\.m"):
            require_accepted("Producer", {"linger.m": 5})
    assert len(tried) == 6
