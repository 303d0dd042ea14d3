"""Blanks around a name or a value: Kafka and librdkafka remove some of them, unseen."""

from __future__ import annotations

import re

import pytest

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
def test_blanks_around_names_and_settings_are_refused(loaded, refused, legal, scenario) -> None:
    assert loaded(scenario.replace("@", legal))
    for blank in (" ", r"\t", r"\n", r"\u00a0"):
        for padded in (legal + blank, blank + legal):
            assert refused(scenario.replace("@", padded))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('matrix: {"": {seed: 1}}', "'' is no name of a configuration"),
        (r'matrix: {"a\nb": {seed: 1}}', "one line of printable characters"),
        ("matrix: [{seed: [1, '1']}]", "two configurations have the name 'seed=1'"),
        ('cluster: {racks: ["a "]}', r":5: .*'a ' has blanks around it: remove them"),
    ],
)
def test_the_message_has_the_name_or_the_blank_and_what_to_do(refused, text, message) -> None:
    assert re.search(message, refused(f"{SCENARIO}{text}\n"))
