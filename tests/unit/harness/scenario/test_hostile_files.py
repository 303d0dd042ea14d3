"""Scenario files that were written to mislead, or that are broken in unusual ways."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ackproof.errors import ScenarioError
from ackproof.scenario import changes
from ackproof.scenario.librdkafka import unreadable_files
from ackproof.scenario.loader import load
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


def refusal(tmp_path: Path, text: str) -> str:
    for name in ("TOPIC", "CLUSTER", "PRODUCER", "CONSUMER"):
        text = text.replace(name, "")
    path = tmp_path / "small.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        load(path)
    return str(caught.value)


def test_the_scenario_itself_is_legal(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception):
        refusal(tmp_path, SCENARIO)


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str, setting: str, expected: str
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
    assert expected in refusal(tmp_path, SCENARIO.replace(of, setting))
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
    tmp_path: Path, of: str, setting: str, expected: str
) -> None:
    text = SCENARIO.replace("workload:", "workload:\n  client: java")
    assert expected in refusal(tmp_path, text.replace(of, setting))


@pytest.mark.parametrize("value", ["1000", '"+1000"'])
def test_a_short_retention_is_found_as_kafka_reads_it(tmp_path: Path, value: str) -> None:
    message = refusal(tmp_path, SCENARIO.replace("TOPIC", f"retention.ms: {value}"))
    assert "may remove acked records" in message


def test_a_compacted_topic_is_found_in_capitals(tmp_path: Path) -> None:
    message = refusal(tmp_path, SCENARIO.replace("TOPIC", "cleanup.policy: COMPACT"))
    assert "cannot be compacted" in message


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ('"node.id ": 7', "'node.id ' has blanks around it"),
        ('" listeners": any', "' listeners' has blanks around it"),
        ("replica.lag.time.max.ms: ٣", "is not a whole number of milliseconds"),
    ],
)
def test_cluster_settings_are_read_as_kafka_reads_them(
    tmp_path: Path, setting: str, expected: str
) -> None:
    assert expected in refusal(tmp_path, SCENARIO.replace("CLUSTER", setting))


@pytest.mark.parametrize(
    ("of", "setting", "expected"),
    [
        ("WORKLOAD", "records: 18446744073709551616", "workload.records"),
        ("WORKLOAD", "rate: 1e308", "workload.rate"),
        ("WORKLOAD", "seconds: 1e308", "workload.seconds"),
        ("WHEN", "isr of orders-0 == 99", "'isr of orders-0 == 99' never holds"),
        ("WHEN", "isr of orders-0 >= 4", "never holds with that many replicas"),
        ("WHEN", "last known leader of orders-0 == 9", "there is no broker 9"),
    ],
)
def test_numbers_that_no_run_can_reach_are_refused(
    tmp_path: Path, of: str, setting: str, expected: str
) -> None:
    text = SCENARIO.replace("workload:", f"workload:\n  {setting if of == 'WORKLOAD' else ''}")
    if of == "WHEN":
        text += f"faults: [{{fault: kill, target: leader of orders-0, when: [{setting}]}}]\n"
    assert expected in refusal(tmp_path, text.replace(of, setting))


def test_the_elr_of_a_kafka_without_one_is_refused(tmp_path: Path) -> None:
    text = SCENARIO + (
        "kafka: 3.9.1\nfaults: [{fault: kill, target: leader of orders-0, "
        "when: ['elr of orders-0 is {2}']}]\n"
    )
    assert "'elr of orders-0 is {2}' needs Kafka 4.0 (KIP-966)" in refusal(tmp_path, text)
    with pytest.raises(pytest.fail.Exception):
        refusal(tmp_path, text.replace("3.9.1", "4.3.1"))


def test_numbers_that_a_run_can_reach_are_legal(tmp_path: Path) -> None:
    text = SCENARIO.replace("workload:", "workload:\n  records: 1000000000\n  rate: 1e6")
    text += "faults: [{fault: kill, target: leader of orders-0, when: [isr of orders-0 < 99]}]\n"
    with pytest.raises(pytest.fail.Exception):
        refusal(tmp_path, text)


@pytest.mark.parametrize("length", [140, 141])
def test_names_of_configurations_fit_into_a_file_name(tmp_path: Path, length: int) -> None:
    text = SCENARIO + f"matrix: {{{'n' * length}: {{}}}}\n"
    if length > 140:
        assert "has 141 characters, and 140 is the most" in refusal(tmp_path, text)
    else:
        with pytest.raises(pytest.fail.Exception):
            refusal(tmp_path, text)


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
def test_a_pipe_as_a_file_blocks_nothing(tmp_path: Path, of: str, key: str) -> None:
    pipe = tmp_path / "ca.pem"
    os.mkfifo(pipe)
    text = SCENARIO.replace(of, f"security.protocol: ssl, {key}: {pipe}")
    assert f"{key}: {pipe} is neither a file nor a folder" in refusal(tmp_path, text)


def test_devices_and_sockets_are_no_files_and_long_texts_no_paths(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        given = {"a": "/dev/zero", "b": str(tmp_path / "s"), "c": str(tmp_path), "d": "x" * 99_999}
        assert [key for key, _ in unreadable_files(given)] == ["a", "b"]


def test_an_error_in_merged_keys_has_a_line(tmp_path: Path) -> None:
    merged = "topics: {a: &t {partitions: 0}, orders: {<<: *t}}"
    text = SCENARIO.replace("topics: {orders: {partitions: 1, settings: {TOPIC}}}", merged)
    assert "small.yaml:3: topics.orders.partitions" in refusal(tmp_path, text)


def test_only_the_first_errors_of_many_are_explained(tmp_path: Path) -> None:
    message = refusal(tmp_path, SCENARIO + "".join(f"k{n}: 1\n" for n in range(500)))
    assert len(message.splitlines()) <= 22
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
def test_a_long_value_is_not_repeated_whole(tmp_path: Path, of: str, to: str) -> None:
    message = refusal(tmp_path, SCENARIO.replace(of, to))
    assert len(message) < 3_000


def test_a_file_that_would_take_minutes_to_read_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, SCENARIO + "#" * 1_000_000)
    assert "characters, and 1,000,000 is the most" in message


def aliases(levels: int) -> str:
    """Return steps that hold a fault 4 ** levels times."""
    lines = ["faults:", "- sequence: &s0 [{fault: kill, target: leader of orders-0}]"]
    for level in range(levels):
        inner = ", ".join([f"{{sequence: *s{level}}}"] * 4)
        lines.append(f"- sequence: &s{level + 1} [{inner}]")
    return "\n".join(lines) + "\n"


def test_aliases_that_multiply_are_counted_before_they_are_followed(tmp_path: Path) -> None:
    message = refusal(tmp_path, SCENARIO + aliases(40))
    assert "keys and values, and 100,000 is the most" in message
    with pytest.raises(pytest.fail.Exception):
        refusal(tmp_path, SCENARIO + aliases(2))
    lists = ", ".join(f"&l{n + 1} [*l{n}, *l{n}]" for n in range(40))
    with pytest.raises(ScenarioError, match="and 100,000 is the most"):
        changes.from_assignments([f"faults=[&l0 [1], {lists}]"])


def test_an_alias_of_what_holds_it_has_no_end() -> None:
    with pytest.raises(ScenarioError, match="an alias stands inside what its anchor names"):
        changes.from_assignments(["faults=&s [{sequence: *s}]"])


MANY_DIGITS = "9" * 5_000


@pytest.mark.parametrize("number", [MANY_DIGITS, f"-{MANY_DIGITS}", "0x" + "f" * 5_000])
def test_numbers_that_python_cannot_print_are_refused(tmp_path: Path, number: str) -> None:
    for text in (
        f"seed: {number}",
        f"name: '{number}'",
        f"expect: {{availability: '>= {number}'}}",
    ):
        if not ("0x" in number and "'" in text):
            assert len(refusal(tmp_path, SCENARIO + text)) < 1_000
    message = refusal(tmp_path, SCENARIO.replace("TOPIC", f"retention.ms: '{MANY_DIGITS}'"))
    assert "has more than 400 digits" in message
    with pytest.raises(ScenarioError) as raised:
        changes.from_assignments([f"seed={number}"])
    assert len(str(raised.value)) < 1_000


def test_no_retention_is_too_long() -> None:
    assert not list(removals({"retention.ms": MANY_DIGITS}, LESS_THAN_A_DAY))
    assert list(removals({"retention.ms": f"+{'0' * 5_000}7"}, LESS_THAN_A_DAY))
