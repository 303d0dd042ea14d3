"""What is legal in a scenario, and probably not meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ackproof.kafka_versions import caps_min_isr, uses_zookeeper
from ackproof.scenario.java import JavaConsumerSettings, JavaProducerSettings
from ackproof.scenario.kafka_keys import Scope, ignored
from ackproof.scenario.model import Scenario, TopicSpec
from ackproof.scenario.types import Problem, Setting, YamlPath
from ackproof.scenario.workload import Workload

#: Settings of one way to keep metadata, by whether that is ZooKeeper.
_OF_METADATA = {
    True: frozenset({"zookeeper.session.timeout.ms"}),
    False: frozenset({"broker.session.timeout.ms", "broker.heartbeat.interval.ms"}),
}


def warnings(scenario: Scenario) -> Iterator[Problem]:
    """Yield where a scenario is legal but doubtful, and why."""
    for name, topic in scenario.topics.items():
        yield from _replication_warnings(name, topic, scenario.kafka)
        place: YamlPath = ("topics", name, "settings")
        yield from _key_warnings("topic", topic.settings, place, scenario.kafka)
    yield from _client_warnings(scenario.workload)
    if scenario.cluster.attach is not None:
        return
    place = ("cluster", "settings")
    yield from _key_warnings("broker", scenario.cluster.settings, place, scenario.kafka)
    for number, own in scenario.cluster.overrides.items():
        place = ("cluster", "overrides", number, "settings")
        yield from _key_warnings("broker", own.settings, place, scenario.kafka)


def _replication_warnings(name: str, topic: TopicSpec, kafka: str) -> Iterator[Problem]:
    place = ("topics", name, "settings", "min.insync.replicas")
    least, replicas = topic.min_insync_replicas, topic.replication_factor
    if least > replicas:
        effect = (
            f"Kafka {kafka} takes it as {replicas}, so one broker that is down or behind stops "
            "every write with acks=all"
            if caps_min_isr(kafka)
            else f"Kafka {kafka} refuses every write with acks=all"
        )
        yield (
            place,
            f"{least} is above the replication factor {replicas}: {effect}; "
            f"{max(replicas - 1, 1)} is usual",
        )
    elif least == replicas > 1:
        yield (
            place,
            f"{least} is the replication factor: one broker that is down or behind stops every "
            f"write with acks=all; {replicas - 1} is usual",
        )


def _client_warnings(workload: Workload) -> Iterator[Problem]:
    """Yield the settings that a Java client of this version ignores."""
    places: dict[YamlPath, object] = {("workload",): workload.settings}
    places |= {("workload", "beside", name): one.settings for name, one in workload.beside.items()}
    places |= {
        ("workload", "consumers", name): group.settings
        for name, group in workload.consumers.items()
    }
    for place, settings in places.items():
        if isinstance(settings, JavaProducerSettings | JavaConsumerSettings):
            for key, reason in settings.ignored().items():
                yield (*place, "settings", key), reason


def _key_warnings(
    scope: Scope, settings: Mapping[str, Setting], place: YamlPath, kafka: str
) -> Iterator[Problem]:
    zookeeper = uses_zookeeper(kafka)
    for key in settings:
        if reason := ignored(scope, key, kafka):
            yield (*place, key), reason
        elif key in _OF_METADATA[not zookeeper]:
            mode = "ZooKeeper" if zookeeper else "KRaft"
            yield (*place, key), f"Kafka {kafka} runs with {mode} here and ignores it"
