"""What is legal in a scenario and probably not meant; and what a command line sets."""

from __future__ import annotations

import pytest

from ackproof.errors import ScenarioError
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.scenario import kafka_keys, loader
from ackproof.scenario.changes import from_assignments
from ackproof.scenario.selection import warnings_of
from ackproof.scenario.shipped import folder
from ackproof.scenario.validation import warnings
from ackproof_model import Profile

ACKS_ALL = folder() / "acks-all.yaml"
ACKS = folder() / "acks.yaml"


def warned(*assignments: str) -> list[str]:
    own = from_assignments(list(assignments))
    [configured] = loader.load(ACKS_ALL, lambda _: own)
    return [f"{place[-1]}: {problem}" for place, problem in warnings(configured.scenario)]


@pytest.mark.parametrize(
    ("assignment", "warning"),
    [
        ("topics.orders.settings.min.insync.replicas=2", ""),
        ("topics.orders.settings.min.insync.replicas=3", "3 is the replication factor"),
        ("topics.orders.settings.min.insync.replica=2", "did you mean 'min.insync.replicas'?"),
        ("topics.orders.settings.segment.bytes=1048576", ""),
        ("cluster.settings.num.io.threads=2", ""),
        ("cluster.settings.num.io.thread=2", "did you mean 'num.io.threads'?"),
        ("cluster.settings.zookeeper.session.timeout.ms=6000", f"Kafka {DEFAULT_KAFKA} ignores it"),
        ("cluster.settings.broker.session.timeout.ms=3000", ""),
    ],
)
def test_warnings(assignment: str, warning: str) -> None:
    messages = warned(assignment)
    assert len(messages) == bool(warning)
    assert warning in "".join(messages)


@pytest.mark.parametrize(
    ("version", "warning"),
    [
        ("3.8.1", ""),
        ("4.0.0", ""),
        ("3.9.3", "Kafka 3.9.3 is newer than 3.9.2, the last known release: predictions use the"),
        ("4.4.1", "Kafka 4.4.1 is newer than 4.4.0"),
        ("4.5.0", "Kafka 4.5.0 is newer than the newest rules of the model, those of 4.4"),
        ("5.0.0-rc1", "Kafka 5.0.0-rc1 is newer"),
    ],
)
def test_a_version_newer_than_the_model_is_predicted_by_its_newest_rules(
    version: str, warning: str
) -> None:
    configurations = [
        configured
        for kafka in (version, "4.3.1")
        for own in [from_assignments([f"kafka='{kafka}'"])]
        for configured in loader.load(ACKS_ALL, lambda _, own=own: own)
    ]
    messages = warnings_of(configurations)
    assert len(messages) == bool(warning)
    assert warning in "".join(messages)
    assert Profile.of("4.5.0") == Profile.of("4.4.0")


@pytest.mark.parametrize(
    ("version", "warned_of"), [("2.8.2", False), ("3.8.1", True), ("3.9.1", False)]
)
def test_an_ignored_unclean_election_is_a_warning(version: str, warned_of: bool) -> None:
    on = "topics.orders.settings.unclean.leader.election.enable=true"
    messages = warned(f"kafka='{version}'", on)
    assert ["Kafka 3.8.1 ignores it" in message for message in messages] == [True] * warned_of


def test_more_than_the_replicas_is_a_warning_unless_nothing_could_be_acked() -> None:
    more = "topics.orders.settings.min.insync.replicas=4"
    settings = ("workload.settings.acks=1", "workload.settings.enable.idempotence=false")
    [capped] = warned(more)
    assert f"4 is above the replication factor 3: Kafka {DEFAULT_KAFKA} takes it as 3" in capped
    old = "kafka='3.6.2'"
    [refused] = warned(old, more, *settings)
    assert "Kafka 3.6.2 refuses every write with acks=all" in refused
    with pytest.raises(
        ScenarioError, match=r"4 is more than the 3 replicas.* 3\.6\.2 acks nothing"
    ):
        warned(old, more)


def test_settings_of_kraft_are_ignored_with_zookeeper() -> None:
    setting = "cluster.settings.broker.session.timeout.ms=3000"
    assert "2.6.2" in "".join(warned("kafka='2.6.2'", setting))


def test_settings_that_an_older_java_client_does_not_know() -> None:
    key = "partitioner.adaptive.partitioning.enable"
    java = ("workload.client.java='2.6.2'", f"workload.settings.{key}=false")
    [message] = warned(*java)
    assert message == f"{key}: the Java client 2.6.2 ignores it: it came after 2.6.2"
    assert warned("workload.client.java='3.9.1'", java[1]) == []


def test_keys_are_kafkas_own_by_version() -> None:
    assert kafka_keys.ignored("topic", "message.format.version", "2.6.2") == ""
    assert "4.3.1 ignores it" in kafka_keys.ignored("topic", "message.format.version", "4.3.1")
    assert kafka_keys.ignored("broker", "broker.session.timeout.ms", "3.0.0") == ""  # not known
    since_4_4 = "max.decompressed.message.bytes"
    assert kafka_keys.ignored("broker", since_4_4, "4.4.0") == ""
    assert "it came after 4.3.1" in kafka_keys.ignored("broker", since_4_4, "4.3.1")
    assert "2.6.2 ignores it" in kafka_keys.ignored("broker", "broker.session.timeout.ms", "2.6.2")
    assert {"acks", "linger.ms"} <= kafka_keys.known("producer")


def test_set_reaches_every_configuration_and_the_matrix_does_not_undo_it() -> None:
    own = from_assignments(["workload.settings.acks=1", "seed=9"])
    with pytest.raises(ScenarioError, match=r"enable.idempotence: true needs acks: all"):
        loader.load(ACKS, lambda _: own)
    more = from_assignments(
        ["workload.settings.acks=1", "workload.settings.enable.idempotence=false", "seed=9"],
    )
    arms = loader.load(ACKS, lambda _: more)
    assert {configured.scenario.workload.settings.acks for configured in arms} == {"1"}
    assert {configured.scenario.seed for configured in arms} == {9}


@pytest.mark.parametrize(
    ("assignment", "problem"),
    [
        ("acks", "it must be KEY=VALUE"),
        ("=1", "it must be KEY=VALUE"),
        ("matrix={}", "matrix cannot be set"),
        ("seed=[", "not a YAML value"),
        ("workload.raet=5", "--set workload.raet: workload.raet: 'raet' is not a key here"),
        ("workload.rate=fast", "--set workload.rate: workload.rate: 'fast' is not a rate"),
        ("topics=5", "--set topics: topics: it must be a mapping"),
        ("workload.setings.acks=1", "--set workload.setings.acks: workload.setings: 'setings' is"),
        ("workload.settings.ackz=1", "--set workload.settings.ackz: workload.settings: librdkafka"),
        ("workload.settings.acks=1", "--set workload.settings.acks: workload.settings: enable.ide"),
    ],
)
def test_a_bad_assignment_is_named(assignment: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        loader.load(ACKS_ALL, lambda _: from_assignments([assignment]))
    assert problem in str(refused.value)
