"""Scenario files that were written to mislead, or that are broken in unusual ways."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ackproof.errors import ScenarioError
from ackproof.scenario.loader import load

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
    ("setting", "said"),
    [
        ("plugin.library.paths: /tmp/any.so", "plugin.library.paths loads code into the client"),
        ("test.mock.num.brokers: 3", "makes librdkafka a broker of its own"),
        ("error_cb: any", "error_cb is an object of a program"),
        ("logger: any", "logger is an object of a program"),
        ("delivery.report.only.error: true", "keeps acks from being reported"),
    ],
)
def test_settings_that_run_code_or_hide_acks_are_refused(
    tmp_path: Path, of: str, setting: str, said: str
) -> None:
    assert said in refusal(tmp_path, SCENARIO.replace(of, setting))


@pytest.mark.parametrize("value", ["1000", '"+1000"', '" 1000"'])
def test_a_short_retention_is_found_as_kafka_reads_it(tmp_path: Path, value: str) -> None:
    said = refusal(tmp_path, SCENARIO.replace("TOPIC", f"retention.ms: {value}"))
    assert "may remove acked records" in said


def test_a_compacted_topic_is_found_in_capitals(tmp_path: Path) -> None:
    said = refusal(tmp_path, SCENARIO.replace("TOPIC", "cleanup.policy: COMPACT"))
    assert "cannot be compacted" in said


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('"node.id ": 7', "has blanks around it"),
        ("replica.lag.time.max.ms: ٣", "is not a whole number of milliseconds"),
    ],
)
def test_cluster_settings_are_read_as_kafka_reads_them(
    tmp_path: Path, setting: str, said: str
) -> None:
    assert said in refusal(tmp_path, SCENARIO.replace("CLUSTER", setting))


@pytest.mark.parametrize(
    ("of", "setting", "said"),
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
    tmp_path: Path, of: str, setting: str, said: str
) -> None:
    text = SCENARIO.replace("workload:", f"workload:\n  {setting if of == 'WORKLOAD' else ''}")
    if of == "WHEN":
        text += f"faults: [{{fault: kill, target: leader of orders-0, when: [{setting}]}}]\n"
    assert said in refusal(tmp_path, text.replace(of, setting))


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
def test_a_pipe_as_a_file_blocks_nothing(tmp_path: Path, of: str) -> None:
    pipe = tmp_path / "ca.pem"
    os.mkfifo(pipe)
    text = SCENARIO.replace(of, f"security.protocol: ssl, ssl.ca.location: {pipe}")
    assert "is neither a file nor a folder" in refusal(tmp_path, text)


def test_an_error_in_merged_keys_has_a_line(tmp_path: Path) -> None:
    merged = "topics: {a: &t {partitions: 0}, orders: {<<: *t}}"
    text = SCENARIO.replace("topics: {orders: {partitions: 1, settings: {TOPIC}}}", merged)
    assert "small.yaml:3: topics.orders.partitions" in refusal(tmp_path, text)


def test_only_the_first_errors_of_many_are_explained(tmp_path: Path) -> None:
    said = refusal(tmp_path, SCENARIO + "".join(f"k{n}: 1\n" for n in range(500)))
    assert len(said.splitlines()) <= 22
    assert "and 480 more errors" in said
