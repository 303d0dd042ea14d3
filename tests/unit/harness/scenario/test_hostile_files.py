"""Scenario files that were written to mislead, or that are broken in unusual ways."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.errors import ScenarioError
from ackproof.scenario import changes
from ackproof.scenario.librdkafka import unreadable_files
from ackproof_model.removal import LESS_THAN_A_DAY, removals

SCENARIO = """\
version: 1
name: small
topics: {orders: {partitions: 1, settings: {TOPIC}}}
cluster: {settings: {CLUSTER}}
workload:
  topic: orders
  settings: {acks: all, enable.idempotence: true, PRODUCER}
  consumers: {billing: {settings: {CONSUMER}}}
"""


@pytest.fixture
def refusal(refused: Callable[[str], str]) -> Callable[[str], str]:
    """Loads a scenario without what was not replaced in it, and returns why it is refused."""

    def read(text: str) -> str:
        for name in ("TOPIC", "CLUSTER", "PRODUCER", "CONSUMER"):
            text = text.replace(name, "")
        return refused(text)

    return read


Refusal = Callable[[str], str]


KILL = "fault: kill, target: leader of orders-0"


@pytest.mark.parametrize(
    "text",
    [
        SCENARIO,
        SCENARIO.replace("workload:", "workload:\n  records: 1000000000\n  rate: 1e6")
        + f"faults: [{{{KILL}, when: [isr of orders-0 < 99]}}]\n",
        f"{SCENARIO}kafka: 4.3.1\nfaults: [{{{KILL}, when: ['elr of orders-0 is {{2}}']}}]\n",
        f"{SCENARIO}matrix: {{{'n' * 140}: {{}}}}\n",
    ],
    ids=["as it is", "numbers that a run can reach", "the ELR of a Kafka with one", "a long name"],
)
def test_a_legal_scenario_is_not_refused(refusal: Refusal, text: str) -> None:
    with pytest.raises(pytest.fail.Exception):
        refusal(text)


@pytest.mark.parametrize("of", ["PRODUCER", "CONSUMER"])
@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("plugin.library.paths: /tmp/any.so", "plugin.library.paths loads code into the client"),
        ("security.protocol: ssl, ssl.engine.location: /tmp/any.so", "ssl.engine.location loads"),
        ("ssl.engine.id: any", "ssl.engine.id loads code into the client"),
        ("ssl_engine_callback_data: any", "loads code into the client"),
        ("security.protocol: ssl, ssl.providers: /tmp/any.so", "ssl.providers loads code"),
        ("sasl.kerberos.kinit.cmd: touch any", "is a part of a command that a shell executes"),
        ("internal.termination.signal: 9", "has the client send signals to its process"),
        ("offset.store.method: file", "keeps offsets in files"),
        ("default.topic.config: any", "default.topic.config is an object of a program"),
        ("security.protocol: sasl_ssl", "security.protocol is set by ackproof itself"),
        ("sasl.oauthbearer.method: oidc", "sasl.oauthbearer.method is set by ackproof itself"),
        ("enable.sasl.oauthbearer.unsecure.jwt: true", "is set by ackproof itself"),
        ("test.mock.num.brokers: 3", "makes librdkafka a broker of its own"),
        ("error_cb: any", "error_cb is an object of a program"),
        ("stats_cb: any", "stats_cb is an object of a program"),
        ("oauth_cb: any", "oauth_cb is an object of a program"),
        ("logger: any", "logger is an object of a program"),
        ("delivery.report.only.error: true", "keeps acks from being reported"),
    ],
)
def test_settings_that_run_code_or_hide_acks_reach_no_client(
    refusal: Refusal, monkeypatch: pytest.MonkeyPatch, of: str, setting: str, expected: str
) -> None:
    made: list[dict[str, object]] = []

    class Client:
        def __init__(self, settings: dict[str, object], **_: object) -> None:
            made.append(settings)

        def close(self) -> None:
            pass

    monkeypatch.setattr("confluent_kafka.Producer", Client)
    monkeypatch.setattr("confluent_kafka.Consumer", Client)
    monkeypatch.setattr("ackproof.scenario.librdkafka._accepted", set())
    assert expected in refusal(SCENARIO.replace(of, setting))
    names = {part.partition(":")[0] for part in setting.split(", ")}
    assert made
    assert not any(names & settings.keys() for settings in made)


@pytest.mark.parametrize("of", ["PRODUCER", "CONSUMER"])
@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("ssl.engine.factory.class: any", "ssl.engine.factory.class loads code into the client"),
        ("sasl.jaas.config: any", "sasl.jaas.config is set by ackproof itself"),
        ("sasl.kerberos.kinit.cmd: any", "is a part of a command that a shell executes"),
    ],
)
def test_the_java_client_runs_no_code_of_a_scenario(
    refusal: Refusal, of: str, setting: str, expected: str
) -> None:
    text = SCENARIO.replace("workload:", "workload:\n  client: java")
    assert expected in refusal(text.replace(of, setting))


WHOLE = "topics: {orders: {partitions: 1, settings: {TOPIC}}}"


@pytest.mark.parametrize(
    ("of", "setting", "expected"),
    [
        # Values are read as Kafka reads them.
        ("TOPIC", "retention.ms: 1000", "may remove acked records"),
        ("TOPIC", 'retention.ms: "+1000"', "may remove acked records"),
        ("TOPIC", "cleanup.policy: COMPACT", "cannot be compacted"),
        ("CLUSTER", '"node.id ": 7', "'node.id ' has blanks around it"),
        ("CLUSTER", '" listeners": any', "' listeners' has blanks around it"),
        ("CLUSTER", "replica.lag.time.max.ms: ٣", "is not a whole number of milliseconds"),
        # No run can reach these.
        ("workload:", "workload:\n  records: 18446744073709551616", "workload.records"),
        ("workload:", "workload:\n  rate: 1e308", "workload.rate"),
        ("workload:", "workload:\n  seconds: 1e308", "workload.seconds"),
        ("WHEN", "isr of orders-0 == 99", "'isr of orders-0 == 99' never holds"),
        ("WHEN", "isr of orders-0 >= 4", "never holds with that many replicas"),
        ("WHEN", "last known leader of orders-0 == 9", "there is no broker 9"),
        ("WHEN", "elr of orders-0 is {2}", "'elr of orders-0 is {2}' needs Kafka 4.0 (KIP-966)"),
        ("version: 1", f"version: 1\nmatrix: {{{'n' * 141}: {{}}}}", "141 characters, and 140 is"),
        ("version: 1", f"version: 1\n#{'#' * 1_000_000}", "characters, and 1,000,000 is the most"),
        (WHOLE, "topics: {a: &t {partitions: 0}, orders: {<<: *t}}", ":3: topics.orders.partit"),
    ],
)
def test_a_value_is_refused_with_its_reason(
    refusal: Refusal, of: str, setting: str, expected: str
) -> None:
    kafka = "\nkafka: 3.9.1" if "elr" in setting else ""
    when = f"faults: [{{{KILL}, when: ['WHEN']}}]{kafka}\n" if of == "WHEN" else ""
    assert expected in refusal((SCENARIO + when).replace(of, setting))


@pytest.mark.parametrize("of", ["PRODUCER", "CONSUMER"])
@pytest.mark.parametrize(
    "key",
    [
        "ssl.ca.location",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "client.rack",
    ],
)
def test_a_pipe_as_a_file_blocks_nothing(
    refusal: Refusal, tmp_path: Path, of: str, key: str
) -> None:
    pipe = tmp_path / "ca.pem"
    os.mkfifo(pipe)
    text = SCENARIO.replace(of, f"security.protocol: ssl, {key}: {pipe}")
    assert f"{key}: {pipe} is neither a file nor a folder" in refusal(text)


def test_devices_and_sockets_are_no_files_and_long_texts_no_paths(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        given = {"a": "/dev/zero", "b": str(tmp_path / "s"), "c": str(tmp_path), "d": "x" * 99_999}
        assert [key for key, _ in unreadable_files(given)] == ["a", "b"]


def test_only_the_first_errors_of_many_are_explained(refusal: Refusal) -> None:
    message = refusal(SCENARIO + "".join(f"k{n}: 1\n" for n in range(500)))
    assert len(message.splitlines()) <= 23
    assert "and 480 more errors" in message


LONG = "z" * 50_000


@pytest.mark.parametrize(
    ("of", "to"),
    [
        ("version: 1", f"version: {LONG}"),
        ("TOPIC", f"min.insync.replicas: {LONG}"),
        ("PRODUCER", f"nonsense: {LONG}, {LONG}: 1"),
        ("PRODUCER", f"partitioner: {LONG}"),
        ("version: 1", f"version: 1\n{LONG}: 1"),
        ("version: 1", f"version: 1\nk: {LONG}\nk: {LONG}"),
        ("version: 1", f"version: 1\nk: *{LONG}"),
        ("version: 1", f"version: 1\nmatrix: {{{LONG}: 1}}"),
        ("version: 1", f"version: 1\nmatrix: {{a: {{workload.settings.{LONG}: 1}}}}"),
    ],
)
def test_a_long_value_is_not_repeated_whole(refusal: Refusal, of: str, to: str) -> None:
    assert len(refusal(SCENARIO.replace(of, to))) < 3_000


def aliases(levels: int) -> str:
    """Return steps that hold a fault 4 ** levels times."""
    lines = ["faults:", "- sequence: &s0 [{fault: kill, target: leader of orders-0}]"]
    for level in range(levels):
        inner = ", ".join([f"{{sequence: *s{level}}}"] * 4)
        lines.append(f"- sequence: &s{level + 1} [{inner}]")
    return "\n".join(lines) + "\n"


def test_aliases_that_multiply_are_counted_before_they_are_followed(refusal: Refusal) -> None:
    message = refusal(SCENARIO + aliases(40))
    assert "keys and values, and 100,000 is the most" in message
    with pytest.raises(pytest.fail.Exception):
        refusal(SCENARIO + aliases(2))
    lists = ", ".join(f"&l{n + 1} [*l{n}, *l{n}]" for n in range(40))
    with pytest.raises(ScenarioError, match="and 100,000 is the most"):
        changes.from_assignments([f"faults=[&l0 [1], {lists}]"])


def test_an_alias_of_what_holds_it_has_no_end() -> None:
    with pytest.raises(ScenarioError, match="an alias stands inside what its anchor names"):
        changes.from_assignments(["faults=&s [{sequence: *s}]"])


MANY_DIGITS = "9" * 5_000


@pytest.mark.parametrize("number", [MANY_DIGITS, f"-{MANY_DIGITS}", "0x" + "f" * 5_000])
def test_numbers_that_python_cannot_print_are_refused(refusal: Refusal, number: str) -> None:
    for text in (
        f"seed: {number}",
        f"name: '{number}'",
        f"expect: {{availability: '>= {number}'}}",
    ):
        if not ("0x" in number and "'" in text):
            assert len(refusal(SCENARIO + text)) < 1_000
    message = refusal(SCENARIO.replace("TOPIC", f"retention.ms: '{MANY_DIGITS}'"))
    assert "has more than 400 digits" in message
    with pytest.raises(ScenarioError) as raised:
        changes.from_assignments([f"seed={number}"])
    assert len(str(raised.value)) < 1_000


def test_no_retention_is_too_long() -> None:
    assert not list(removals({"retention.ms": MANY_DIGITS}, LESS_THAN_A_DAY))
    assert list(removals({"retention.ms": f"+{'0' * 5_000}7"}, LESS_THAN_A_DAY))
