"""Blanks around a name or a value: Kafka and librdkafka remove some of them, unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.errors import ScenarioError
from ackproof.scenario.loader import load

SCENARIO = """\
version: 1
name: small
topics: {orders: {partitions: 1}}
workload: {topic: orders, settings: {acks: all, enable.idempotence: true}}
"""
CONSUMER = SCENARIO.replace("true}}", "true}, consumers: {billing: {settings: {CONSUMER}}}}")
JAVA = SCENARIO.replace("topic: orders, ", "topic: orders, client: java, ")
FAULT = "fault: kill, target: leader of orders-0"
ATTACH = "cluster: {attach: {bootstrap: 'a:1', topic_prefix: orders, client: {"

#: A text, and a scenario with a place for it.
PLACES = [
    ("other", SCENARIO.replace("topics: {", 'topics: {"@": {}, ')),
    ("billing", CONSUMER.replace("billing: {settings: {CONSUMER}}", '"@": {}')),
    ("cut", SCENARIO + f'faults: [{{{FAULT}, id: "@"}}]\n'),
    ("kill", SCENARIO + f"faults: [{{{FAULT.replace('kill', chr(34) + '@' + chr(34))}}}]\n"),
    ("leader of orders-0", SCENARIO + 'faults: [{fault: kill, target: "@"}]\n'),
    ("500 acked", SCENARIO + f'faults: [{{{FAULT}, when: "@"}}]\n'),
    ("a", SCENARIO + 'matrix: {"@": {seed: 1}, b: {seed: 2}}\n'),
    ("a", SCENARIO + 'matrix: [{"@": {seed: 1}, b: {seed: 2}}]\n'),
    ("seed", SCENARIO + 'matrix: [{"@": [1, 2]}]\n'),
    ("lz4", SCENARIO + 'matrix: [{workload.settings.compression.type: ["@", none]}]\n'),
    ("segment.ms", SCENARIO.replace("partitions: 1", 'settings: {"@": 60000}')),
    ("60000", SCENARIO.replace("partitions: 1", 'settings: {segment.ms: "@"}')),
    ("2", SCENARIO.replace("partitions: 1", 'settings: {min.insync.replicas: "@"}')),
    ("num.io.threads", SCENARIO + 'cluster: {settings: {"@": 2}}\n'),
    ("2", SCENARIO + 'cluster: {settings: {num.io.threads: "@"}}\n'),
    ("num.io.threads", SCENARIO + 'cluster: {overrides: {1: {settings: {"@": 2}}}}\n'),
    ("a", SCENARIO + 'cluster: {racks: ["@"]}\n'),
    ("a", SCENARIO + 'cluster: {overrides: {1: {rack: "@"}}}\n'),
    ("apache/kafka:4.3.1", SCENARIO + 'cluster: {image: "@"}\n'),
    ("client.dns.lookup", f'{SCENARIO}{ATTACH}"@": use_all_dns_ips}}}}}}\n'),
    ("use_all_dns_ips", f'{SCENARIO}{ATTACH}client.dns.lookup: "@"}}}}}}\n'),
    ("client.dns.lookup", SCENARIO.replace("true}}", 'true, "@": use_all_dns_ips}}')),
    ("lz4", SCENARIO.replace("true}}", 'true, compression.type: "@"}}')),
    ("batch.size", JAVA.replace("true}}", 'true, "@": 1}}')),
    ("lz4", JAVA.replace("true}}", 'true, compression.type: "@"}}')),
    ("session.timeout.ms", CONSUMER.replace("CONSUMER", '"@": 6000')),
    ("read_uncommitted", CONSUMER.replace("CONSUMER", 'isolation.level: "@"')),
]


@pytest.mark.parametrize(("legal", "scenario"), PLACES)
def test_blanks_around_names_and_settings_are_refused(
    tmp_path: Path, legal: str, scenario: str
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(scenario.replace("@", legal))
    load(path)
    for blank in (" ", r"\t", r"\n", r"\u00a0"):
        for padded in (legal + blank, blank + legal):
            path.write_text(scenario.replace("@", padded))
            with pytest.raises(ScenarioError):
                load(path)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ('{"": {seed: 1}}', "'' is no name of a configuration"),
        (r'{"a\nb": {seed: 1}}', "one line of printable characters"),
        ("[{seed: [1, '1']}]", "two configurations have the name 'seed=1'"),
    ],
)
def test_a_configuration_without_a_name_of_its_own_is_refused(
    tmp_path: Path, matrix: str, message: str
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(f"{SCENARIO}matrix: {matrix}\n")
    with pytest.raises(ScenarioError, match=message):
        load(path)


def test_the_message_shows_the_blank_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO + 'cluster: {racks: ["a "]}\n')
    with pytest.raises(ScenarioError, match=r":5: .*'a ' has blanks around it: remove them"):
        load(path)
