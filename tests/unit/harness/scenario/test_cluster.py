"""What a cluster may be is refused or taken, with the version that brought it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ackproof import kafka_versions
from ackproof.scenario.cluster import SecuritySpec, security_problems
from ackproof.scenario.model import Scenario
from ackproof.scenario.removal import removal_warnings, removes

Loaded = Callable[[str], list[Scenario]]
Refused = Callable[[str], str]

SCENARIO = """\
version: 1
name: cluster
kafka: "4.3.1"
cluster: {}
topics: {orders: {}}
workload:
  topic: orders
  settings: {acks: all, enable.idempotence: false}
"""


CLUSTERS = [
    ('"4.3.1"', "{controllers: 2}", "1, 3 or 5"),
    ('"4.3.1"', "{controllers: 5, combined: true}", "5 combined controllers need at least as many"),
    ('"2.6.2"', "{combined: true}", "KIP-500"),
    ('"4.3.1"', "{brokers: 8}", "it must be at most 7, not 8"),
    ('"3.6.2"', "{log_dirs: 2}", "3.7.0 (KIP-858)"),
    ('"3.6.2"', "{overrides: {2: {log_dirs: 2}}}", "3.7.0 (KIP-858)"),
    ('"4.3.1"', "{overrides: {4: {rack: a}}}", "no broker 4"),
    ('"4.3.1"', "{overrides: {2: {settings: {broker.rack: a}}}}", "overrides.N.rack"),
    ('"4.3.1"', "{security: {tsl: server}}", "'tsl' is not a key here; did you mean 'tls'"),
    ('"4.3.1"', "{settings: {zookeeper.connect: x}}", "set by ackproof itself"),
    ('"4.3.1"', "{listeners: [INTERNAL]}", "has INTERNAL already"),
    ('"4.3.1"', "{listeners: [slow]}", "capitals"),
    ('"4.3.1"', "{listeners: [SLOW, SLOW]}", "twice"),
    ('"4.3.1"', "{clock: wrong}", "'machine' or 'adjustable'"),
    ('"4.3.1"', "{memory: 10}", "it must be text"),
    ('"4.3.1"', "{memory: 10q}", "10q"),
    ('"3.9.1"', "{features: {eligible.leader.replicas.version: 1}}", "came with Kafka 4.0"),
    ('"4.3.1"', "{features: {elr: 1}}", "eligible.leader.replicas.version"),
    ('"2.6.2"', "{features: {metadata.version: 1}}", "came with Kafka 3.3"),
    ('"4.3"', "{}", f"such as '{kafka_versions.DEFAULT_KAFKA}' (0.10.2.2 and later)"),
    ("4.3", "{}", "'4.3' is not a Kafka version"),
    ('"0.10.1.0"', "{}", "0.10.2"),
]


@pytest.mark.parametrize(("kafka", "cluster", "expected"), CLUSTERS)
def test_an_illegal_cluster_is_refused_with_line_and_reason(
    kafka: str, cluster: str, expected: str, refused: Refused
) -> None:
    text = SCENARIO.replace('"4.3.1"', kafka).replace("cluster: {}", f"cluster: {cluster}")
    message = refused(text)
    assert expected in message
    assert f"/small.yaml:{3 if cluster == '{}' else 4}:" in message


@pytest.mark.parametrize("version", ["0.10.2.2", "2.6.2", "3.9.1", "4.1.0", "4.4.0", "4.5.0-rc1"])
def test_every_version_is_legal_with_the_defaults(version: str, loaded: Loaded) -> None:
    assert loaded(SCENARIO.replace("4.3.1", version))[0].kafka == version


def test_an_idempotent_producer_needs_0_11(loaded: Loaded, refused: Refused) -> None:
    text = SCENARIO.replace("idempotence: false", "idempotence: true")
    assert "0.11.0 (KIP-98)" in refused(text.replace("4.3.1", "0.10.2.2"))
    assert loaded(text.replace("4.3.1", "2.6.2"))[0].workload.settings.idempotence


TOPICS = [
    ("{partitions: 2, assignment: [[1, 2]]}", "partitions is 2, but assignment has 1"),
    ("{assignment: [[1, 2], [3]]}", "as many replicas as the first"),
    ("{assignment: [[1, 1]]}", "twice"),
    ("{assignment: [[1, 4]]}", "an unknown broker (the brokers are 1 to 3)"),
    ("{settings: {cleanup.policy: compact}}", "compaction removes acked records"),
    ("{settings: {retention.ms: 60000}}", "retention (retention.ms=60000) may remove acked"),
    ("{settings: {retention.bytes: 1000000}}", "expect.loss is none: remove the setting, or write"),
    ("{settings: {cleanup.policy: dellete}}", "delete, compact"),
]


@pytest.mark.parametrize(("topic", "expected"), TOPICS)
def test_an_illegal_topic_is_refused(topic: str, expected: str, refused: Refused) -> None:
    message = refused(SCENARIO.replace("{orders: {}}", f"{{orders: {topic}}}"))
    assert expected in message
    assert "/small.yaml:5:" in message


def test_counts_follow_from_the_assignment(loaded: Loaded) -> None:
    text = SCENARIO.replace("{orders: {}}", "{orders: {assignment: [[3, 1], [1, 2]]}}")
    topic = loaded(text)[0].topic
    assert (topic.partitions, topic.replication_factor) == (2, 2)


@pytest.mark.parametrize(
    ("settings", "expect"),
    [
        ("retention.ms: 60000", "any"),
        ("retention.ms: -1", "none"),
        ("retention.ms: 604800000", "none"),
    ],
)
def test_retention_is_legal_if_it_is_long_or_any_loss_is_expected(
    loaded: Loaded, settings: str, expect: str
) -> None:
    text = SCENARIO.replace("{orders: {}}", f"{{orders: {{settings: {{{settings}}}}}}}")
    assert loaded(f"{text}\nexpect: {{loss: {expect}}}\n")


def test_old_timestamps_under_retention_are_a_warning(loaded: Loaded) -> None:
    text = SCENARIO.replace("{orders: {}}", "{orders: {settings: {retention.ms: 604800000}}}")
    for by, count in (("14400m", 1), ("1440m", 0)):
        faults = f"faults: [{{fault: skew_timestamps, by: {by}}}]"
        messages = list(removal_warnings(loaded(f"{text}\n{faults}\n")[0]))
        assert len(messages) == count
        for place, problem in messages:
            assert place == ("topics", "orders", "settings", "retention.ms")
            assert "skew_timestamps sends old ones" in problem


COMPACTED = SCENARIO.replace("{orders: {}}", "{orders: {settings: {cleanup.policy: compact}}}")


def with_workload(line: str, text: str = COMPACTED) -> str:
    return text.replace("  topic: orders\n", f"  topic: orders\n{line}")


def test_a_topic_of_the_workload_may_be_compacted_if_each_record_has_a_key(loaded: Loaded) -> None:
    [found] = loaded(with_workload("  keys: 10\n"))
    assert (found.compacted_keys, removes(found)) == ({"orders": 10}, True)
    [plain] = loaded(with_workload("  keys: 10\n", SCENARIO))
    assert (plain.compacted_keys, removes(plain)) == ({}, False)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", "set workload.keys"),
        ("  keys: 10\n  settings: {acks: 0, enable.idempotence: false}\n", "gets no offsets"),
        ("  keys: 10\n  probe: true\n", "consumers or a probe"),
        ("  keys: 10\n  consumers: {billing: {}}\n", "consumers or a probe"),
        ("  keys: 10\n  transactions: {size: 10}\n", "under transactions"),
    ],
)
def test_compaction_that_nobody_could_judge_is_refused(
    line: str, expected: str, refused: Refused
) -> None:
    text = COMPACTED.replace("idempotence: false", "idempotence: true")
    if "settings" in line:
        text = text[: text.index("  settings: {acks")]
    assert expected in refused(with_workload(line, text))


def test_topics_that_the_workload_does_not_write_may_be_compacted(loaded: Loaded) -> None:
    text = SCENARIO.replace(
        "{orders: {}}", "{orders: {}, state: {settings: {cleanup.policy: 'compact,delete'}}}"
    )
    assert loaded(text)[0].topics["state"].compacted


def test_a_workload_may_use_only_listeners_that_exist(loaded: Loaded, refused: Refused) -> None:
    text = SCENARIO.replace("  topic: orders\n", "  topic: orders\n  listener: SLOW\n")
    assert "'SLOW' is not a listener for clients here" in refused(text)
    text = text.replace("cluster: {}", "cluster: {listeners: [SLOW]}")
    assert loaded(text)[0].workload.listener == "SLOW"


def test_versions_are_ordered_by_their_numbers() -> None:
    numbers = kafka_versions.numbers
    assert numbers("0.10.2.2") < numbers("0.11.0.0") < numbers("2.6.2") < numbers("4.10.0")
    assert kafka_versions.uses_zookeeper("3.2.3")
    assert not kafka_versions.uses_zookeeper("3.3.0")


@pytest.mark.parametrize(
    ("spec", "kafka", "expected"),
    [
        ({"tls": "server"}, "0.10.2.2", "from 2.0.0"),
        ({"sasl": "scram-sha-512"}, "3.4.0", "KIP-900"),
        ({"sasl": "scram-sha-512"}, "2.6.2", "KIP-900"),
    ],
)
def test_unsupported_security_is_a_problem(spec: dict[str, str], kafka: str, expected: str) -> None:
    ((_, problem),) = security_problems(SecuritySpec.model_validate(spec), kafka)
    assert expected in problem
    assert list(security_problems(SecuritySpec.model_validate(spec), "4.3.1")) == []
