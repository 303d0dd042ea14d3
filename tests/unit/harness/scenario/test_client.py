"""Which client library a scenario names, its version, and the settings of Java's clients."""

from __future__ import annotations

import pytest

from ackproof.clients.records import in_turn
from ackproof.clients.specs import ProducerSpec
from ackproof.scenario.client import JavaProducerSettings

LIBRDKAFKA = """\
version: 1
name: c
topics:
  orders: {partitions: 3, replication_factor: 3}
workload:
  topic: orders
  client: {librdkafka: 2.3.0}
  settings: {acks: all, enable.idempotence: true}
  consumers:
    billing: {}
    audit: {client: librdkafka}
"""
JAVA = """\
version: 1
name: j
kafka: 3.9.1
topics:
  orders: {partitions: 3, replication_factor: 3}
workload:
  topic: orders
  client: java
  settings: {}
  consumers:
    billing: {commit: auto}
"""


@pytest.mark.parametrize(
    ("text", "libraries"),
    [
        (LIBRDKAFKA, [("2.3.0", None), ("2.3.0", None), (None, None)]),
        (JAVA, [(None, "3.9.1")] * 2),  # the version of the brokers
    ],
)
def test_the_client_of_the_workload_is_that_of_all_clients_that_name_no_other(
    loaded, text, libraries
):
    [scenario] = loaded(text)
    assert [(client.librdkafka, client.java) for client in scenario.clients] == libraries


def test_a_matrix_varies_the_version(loaded):
    versions = "matrix: [{workload.client.librdkafka: [2.0.2, 2.16.0]}]\n"
    found = [one.workload.client.librdkafka for one in loaded(LIBRDKAFKA + versions)]
    assert found == ["2.0.2", "2.16.0"]
    versions = 'matrix: [{workload.client.java: ["0.10.2.2", "4.3.1"]}]\n'
    found = [one.workload.settings.acks for one in loaded(JAVA + versions)]
    assert found == ["1", "all"]


def test_a_client_that_is_refused_is_the_only_problem(refused):
    text = LIBRDKAFKA.replace(", enable.idempotence: true", "")
    message = refused(text.replace("{librdkafka: 2.3.0}", "{java: newest}"))
    assert "'newest' is not a Kafka version" in message
    assert "settings" not in message


@pytest.mark.parametrize(
    ("client", "problem"),
    [
        ("{librdkafka: 2.3}", "2.3 is not a version of librdkafka: write a release with all"),
        ("{librdkafka: 2.3.0; rm}", "'2.3.0; rm' is not a version of librdkafka"),
        ("{librdkafka: 2.16.0rc1}", "'2.16.0rc1' is not a version of librdkafka"),
        ("{librdkafka: 2.3.0, java: 3.9.1}", "are two clients: remove one"),
        ("kafkajs", "'kafkajs' is not a client (librdkafka, java, or one with a version"),
        ("{java: 0.9.0.1}", "too old"),
        ("{java: 3.9}", "'3.9' is not a Kafka version"),
    ],
)
def test_a_client_that_is_none_is_refused(refused, client, problem):
    message = refused(LIBRDKAFKA.replace("{librdkafka: 2.3.0}", client))
    assert "workload.client" in message
    assert problem in message


@pytest.mark.parametrize(
    "cluster",
    [
        "security: {tls: server}",
        "attach: {bootstrap: 'a:1', topic_prefix: ord, client: {security.protocol: sasl_ssl}}",
    ],
)
def test_a_java_client_without_pem_certificates_is_refused_with_tls(loaded, refused, cluster):
    text = LIBRDKAFKA.replace("{librdkafka: 2.3.0}", "{java: 2.6.2}")
    text += f"cluster: {{{cluster}}}\n"
    assert "Java client 2.6.2 reads no PEM" in refused(text)
    assert loaded(text.replace("2.6.2", "2.7.0"))


def test_the_values_in_force_are_those_of_the_client():
    found = JavaProducerSettings.of({"retries": 0}, "3.9.1", "producer")
    assert (found.acks, found.idempotence, found.retries) == ("all", False, 0)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("{linger.mss: 3}", "has no setting linger.mss; did you mean 'linger.ms'"),
        ("{queue.buffering.max.kbytes: 9}", "the client is Java's: use buffer.memory"),
        ("{bootstrap.servers: x}", "set by ackproof itself"),
        ("{acks: 1, enable.idempotence: true}", "needs acks: all"),
        ("{acks: 7}", "7 is not a value of acks"),
    ],
)  # fmt: skip
def test_settings_that_are_not_javas_are_refused(refused, given, problem):
    message = refused(JAVA.replace("settings: {}", f"settings: {given}"))
    assert ":9: workload.settings" in message
    assert problem in message


def test_a_java_producer_cannot_be_purged(refused):
    purging = JAVA + "faults: [{fault: purge_client, client: producers}]\n"
    assert "the Java client cannot purge its queue" in refused(purging)


def test_keys_are_placed_as_the_java_client_does(tmp_path):
    spec = ProducerSpec(
        run_id="r", number=0, topic="t", partitions=2**31, bootstrap_servers="", keys=2,
        progress=tmp_path, ledger=None, java="3.9.1",
    )  # fmt: skip
    # org.apache.kafka.common.utils.Utils.toPositive(Utils.murmur2(b)) of key-0 and key-1
    assert in_turn(spec, spec.partitions) == (29210041, 193331640)
