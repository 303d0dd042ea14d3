"""Scenarios whose clients are Kafka's Java client: their settings, and what is in force."""

from __future__ import annotations

import pytest

from ackproof.clients.records import cycle
from ackproof.clients.specs import ProducerSpec
from ackproof.errors import ScenarioError
from ackproof.scenario.client import JavaProducerSettings
from ackproof.scenario.loader import dump, load

TEXT = """\
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


def loaded(tmp_path, text):
    path = tmp_path / "j.yaml"
    path.write_text(text)
    return load(path)


def refusal(tmp_path, text):
    with pytest.raises(ScenarioError) as refused:
        loaded(tmp_path, text)
    return refused.value.message


def in_force(version, **settings):
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return JavaProducerSettings.of(given, version, "producer")


def test_the_client_is_that_of_the_brokers_and_of_all_clients(tmp_path):
    [configured] = loaded(tmp_path, TEXT)
    workload = configured.scenario.workload
    assert workload.client.java == workload.consumers["billing"].client.java == "3.9.1"
    assert {client.java for client in configured.scenario.clients} == {"3.9.1"}


def test_a_stored_scenario_is_read_as_it_was(tmp_path):
    [configured] = loaded(
        tmp_path, TEXT.replace("settings: {}", "settings: {acks: 1, linger.ms: 0}")
    )
    dump(configured.scenario, tmp_path / "stored.yaml")
    [again] = load(tmp_path / "stored.yaml")
    assert again.scenario == configured.scenario
    assert again.scenario.workload.settings.acks == "1"


def test_a_matrix_varies_the_version(tmp_path):
    matrix = 'matrix: [{workload.client.java: ["0.10.2.2", "4.3.1"]}]\n'
    old, new = loaded(tmp_path, TEXT + matrix)
    assert (old.name, new.name) == ("java=0.10.2.2", "java=4.3.1")
    assert (old.scenario.workload.settings.acks, new.scenario.workload.settings.acks) == (
        "1",
        "all",
    )


@pytest.mark.parametrize(
    ("version", "settings", "acks", "idempotence", "retries"),
    [
        ("0.10.2.2", {}, "1", False, 0),
        ("2.0.1", {}, "1", False, 0),
        ("2.6.2", {}, "1", False, 2147483647),
        ("2.6.2", {"enable_idempotence": True}, "all", True, 2147483647),
        ("3.0.0", {}, "all", False, 2147483647),
        ("3.9.1", {}, "all", True, 2147483647),
        ("3.9.1", {"acks": 1}, "1", False, 2147483647),
        ("3.9.1", {"retries": 0}, "all", False, 0),
    ],
)
def test_defaults_depend_on_the_version(version, settings, acks, idempotence, retries):
    found = in_force(version, **settings)
    assert (found.acks, found.idempotence, found.retries) == (acks, idempotence, retries)


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
def test_settings_that_are_not_javas_are_refused(tmp_path, given, problem):
    message = refusal(tmp_path, TEXT.replace("settings: {}", f"settings: {given}"))
    assert ":9: workload.settings" in message
    assert problem in message


@pytest.mark.parametrize(
    ("client", "problem"),
    [
        ("kafkajs", "'kafkajs' is not a client (librdkafka, java, or one with a version"),
        ("{java: 0.9.0.1}", "too old"),
        ("{java: 3.9}", "'3.9' is not a Kafka version"),
    ],
)
def test_a_client_that_is_none_is_refused(tmp_path, client, problem):
    assert problem in refusal(tmp_path, TEXT.replace("client: java", f"client: {client}"))


def test_a_java_producer_cannot_be_purged(tmp_path):
    fault = "faults: [{fault: purge_client, client: producers}]\n"
    assert "the Java client cannot purge its queue" in refusal(tmp_path, TEXT + fault)


def test_keys_are_placed_as_the_java_client_does(tmp_path):
    spec = ProducerSpec(
        run_id="r", number=0, topic="t", partitions=2**31, bootstrap_servers="", keys=2,
        progress=tmp_path, ledger=None, java="3.9.1",
    )  # fmt: skip
    # org.apache.kafka.common.utils.Utils.toPositive(Utils.murmur2(b)) of key-0 and key-1
    assert cycle(spec) == (29210041, 193331640)
