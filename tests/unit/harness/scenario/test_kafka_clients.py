"""Rules of Kafka's clients: defaults by version, legal values, and one answer of all that ask."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ackproof.audit.risks import refused
from ackproof.audit.setups import setups
from ackproof.errors import ScenarioError
from ackproof.own_config.configuration import Client, Given, Option, OwnConfig
from ackproof.own_config.overlay import overlay
from ackproof.own_config.reading import read_options
from ackproof.scenario import documents, loader
from ackproof.scenario.kafka_clients import (
    JavaProducer,
    RefusedValueError,
    java_producer_defaults,
    out_of_range,
    require_legal,
)
from ackproof.scenario.shipped import folder
from command_line import invoked

YOURS = folder() / "your-configuration.yaml"
IN_FLIGHT = "max.in.flight.requests.per.connection"
UNLIMITED = 2147483647


@pytest.mark.parametrize(
    ("version", "settings", "acks", "idempotence", "retries"),
    [
        ("0.10.2.2", {}, "1", False, 0),
        ("0.10.2.2", {"transactional.id": "t"}, "1", False, 0),
        ("2.0.1", {}, "1", False, 0),
        ("2.6.2", {}, "1", False, UNLIMITED),
        ("2.6.2", {"enable.idempotence": True}, "all", True, UNLIMITED),
        ("2.6.2", {"transactional.id": "t"}, "all", True, UNLIMITED),
        ("2.0.1", {"transactional.id": "t"}, "all", True, UNLIMITED),
        ("3.0.0", {}, "all", False, UNLIMITED),
        ("3.1.0", {}, "all", False, UNLIMITED),
        ("3.0.1", {}, "all", True, UNLIMITED),
        ("3.9.1", {}, "all", True, UNLIMITED),
        ("3.9.1", {"acks": 1}, "1", False, UNLIMITED),
        ("3.9.1", {"retries": 0}, "all", False, 0),
        ("3.9.1", {IN_FLIGHT: 6}, "all", False, UNLIMITED),
    ],
)
def test_defaults_depend_on_the_version(version, settings, acks, idempotence, retries):
    java = JavaProducer(settings=settings, version=version)
    assert (java.acks, java.idempotence, java.retries) == (acks, idempotence, retries)


@pytest.mark.parametrize(
    ("version", "linger", "timeout"),
    [("2.0.1", 0, 30_000), ("2.1.0", 0, 120_000), ("3.9.1", 0, 120_000), ("4.0.0", 5, 120_000)],
)
def test_timers_depend_on_the_version(version, linger, timeout):
    java = JavaProducer(settings={}, version=version)
    assert (java.linger_ms, java.delivery_timeout_ms) == (linger, timeout)
    assert java_producer_defaults(version)["request.timeout.ms"] == 30_000


@pytest.mark.parametrize(
    ("settings", "legal"),
    [
        ({"retries": "many"}, "0 to 2147483647"),
        ({IN_FLIGHT: "abc"}, "1 to 2147483647"),
        ({IN_FLIGHT: "--5"}, "1 to 2147483647"),
        ({"linger.ms": "soon"}, "0 to 2147483647"),
        ({"delivery.timeout.ms": ""}, "0 to 2147483647"),
        ({"enable.idempotence": "yes"}, "true or false"),
        ({"acks": True}, "0, 1 or all"),
    ],
)
def test_a_refused_value_comes_with_the_legal_ones(settings, legal):
    with pytest.raises(RefusedValueError) as refused:
        JavaProducer(settings=settings, version="4.3.1").require_legal()
    assert (refused.value.setting, refused.value.legal) == (next(iter(settings)), legal)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"acks": "1"}, "needs acks: all, not acks: 1"),
        ({"retries": 0}, "needs retries above 0"),
        ({"max_in_flight": 6}, "of at most 5, not 6"),
        ({}, ""),
    ],
)
def test_idempotence_excludes_what_kafka_excludes(values, problem):
    settings = {"acks": "all", "retries": 1, "max_in_flight": 5} | values
    require_legal(idempotence=False, **settings)
    if not problem:
        require_legal(idempotence=True, **settings)
        return
    with pytest.raises(ValueError, match=problem):
        require_legal(idempotence=True, **settings)


def test_numbers_have_limits():
    assert not out_of_range({"retries": "0", IN_FLIGHT: "1"})
    assert out_of_range({"retries": "-1"}) == "retries=-1 is not from 0 to 2147483647"
    assert out_of_range({IN_FLIGHT: "abc"}) == f"{IN_FLIGHT}: 'abc' is not a whole number"
    assert out_of_range({IN_FLIGHT: "0"}).endswith("is not from 1 to 2147483647")
    assert not out_of_range({IN_FLIGHT: "${IN_FLIGHT}"})


PRODUCERS = [
    "acks=2",
    "retries=abc",
    "retries=-1",
    f"{IN_FLIGHT}=abc",
    f"{IN_FLIGHT}=0",
    f"{IN_FLIGHT}=6",
    "enable.idempotence=maybe",
    "enable.idempotence=true\nacks=1",
    f"enable.idempotence=true\n{IN_FLIGHT}=6",
    "enable.idempotence=true\nretries=0",
    "enable.idempotence=true",
    "transactional.id=t",
    "transactional.id=t\nretries=0",
    "transactional.id=t\nacks=1",
    "transactional.id=t\nenable.idempotence=false",
    "acks=1",
    "retries=0",
    "",
]


@pytest.mark.parametrize("kafka", ["2.6.2", "4.3.1"])
@pytest.mark.parametrize("producer", PRODUCERS)
def test_audit_and_prediction_refuse_the_same_producers(tmp_path: Path, producer: str, kafka: str):
    path = tmp_path / "producer.properties"
    path.write_text(f"key.serializer=k\nbatch.size=1000\n{producer}\n")
    server = tmp_path / "server.properties"
    server.write_text("broker.id=1\ndefault.replication.factor=3\n")
    own = read_options([(path, "producer"), (server, "broker")])
    own = replace(own, kafka=Given(kafka, Option("--kafka")))
    [group] = setups(own)
    refusals = [any(refused.risks(setup)) for setup in group]
    assert len(set(refusals)) == 1
    try:
        overlaid = overlay(own, documents.parse(YOURS), kafka=kafka)
        loader.load(YOURS, lambda _: overlaid.overrides)
    except ScenarioError:
        predicts = False
    else:
        predicts = True
    assert refusals[0] is not predicts


@pytest.mark.parametrize(("client", "refuses"), [("4.0.0", True), ("3.9.1", False), ("", False)])
def test_a_delivery_timeout_is_compared_with_the_clients_own_linger(client: str, refuses: bool):
    """Kafka 4.0 clients linger 5 ms (KIP-1030), which 30 s for a request leave no time for."""
    given = {"delivery.timeout.ms": Given("30000", Option("p"))}
    version = Given(client, Option("p")) if client else None
    own = OwnConfig(
        kafka=Given("4.3.1", Option("p")),
        mode=Given("kraft", Option("p")),
        producers=(Client(name="p", library="java", settings=given, version=version),),
    )
    [group] = setups(own)
    assert {bool([*refused.risks(setup)]) for setup in group} == {refuses}


@pytest.mark.parametrize(
    "command",
    [("init", "mine.yaml"), ("predict",), ("run",)],
    ids=lambda command: command[0],
)
def test_a_value_that_is_no_number_is_a_usage_error(
    tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "producer.properties"
    path.write_text(f"acks=all\n{IN_FLIGHT}=abc\n")
    with pytest.raises(ScenarioError) as refusal:
        invoked(*command, "--producer", path)
    assert refusal.value.exit_code == 2
    assert refusal.value.message == f"{path}:2: {IN_FLIGHT}: 'abc' is not a whole number"
    assert refusal.value.hint.startswith("The Java client takes 1 to 2147483647.")
