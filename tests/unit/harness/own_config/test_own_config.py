"""A user's own files, as parts of a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ackproof.errors import ScenarioError
from ackproof.kafka_versions import DEFAULT_KAFKA
from ackproof.own_config import translation
from ackproof.own_config.configuration import Client, Count, FileLine, Given, OwnConfig
from ackproof.own_config.names import is_librdkafka
from ackproof.own_config.overlay import Overlay, overlay, render
from ackproof.own_config.reading import client_settings, read_options
from ackproof.scenario import documents, loader
from ackproof.scenario.model import Scenario
from ackproof.scenario.shipped import folder
from support.origins import at
from support.snapshots import plain

YOURS = folder() / "your-configuration.yaml"


NAMES = {"broker": "server"}


def values(settings: Any) -> dict[str, str]:
    return {key: given.value for key, given in settings.items()}


def converted(kafka: str = "4.3.1", **settings: str) -> translation.Converted:
    given = {key.replace("_", "."): Given(value, at("p:1")) for key, value in settings.items()}
    library = "librdkafka" if any(map(is_librdkafka, given)) else "java"
    return translation.convert(Client(name="p", library=library, settings=given), kafka)


@pytest.mark.parametrize(
    ("kafka", "settings", "acks", "idempotence"),
    [
        ("4.3.1", {}, "all", "true"),
        ("3.0.0", {}, "all", "false"),  # KAFKA-13598
        ("3.0.1", {}, "all", "true"),
        ("2.6.2", {}, "1", "false"),
        ("4.3.1", {"acks": "1"}, "1", "false"),
        ("4.3.1", {"retries": "0"}, "all", "false"),
        ("4.3.1", {"max_in_flight_requests_per_connection": "6"}, "all", "false"),
        ("4.3.1", {"message_timeout_ms": "5000"}, "all", "false"),  # librdkafka's name
        ("2.6.2", {"request_required_acks": "-1"}, "-1", "false"),
        ("2.6.2", {"enable_idempotence": "true"}, "all", "true"),
        ("2.6.2", {"transactional_id": "payments"}, "all", "true"),
        ("4.3.1", {"max_in_flight_requests_per_connection": " 6"}, "all", "false"),
    ],
)
def test_defaults_are_those_of_the_client(
    kafka: str, settings: dict[str, str], acks: str, idempotence: str
) -> None:
    found = values(converted(kafka, **settings).settings)
    assert (found["acks"], found["enable.idempotence"]) == (acks, idempotence)


def test_names_of_java_become_those_of_librdkafka() -> None:
    found = converted(
        buffer_memory="33554432", max_request_size="2000", key_serializer="x", lingr_ms="1"
    )
    assert values(found.settings)["queue.buffering.max.kbytes"] == "32768"
    assert values(found.settings)["message.max.bytes"] == "2000"
    assert "does not apply to librdkafka" in found.unused["key.serializer"]
    assert "did you mean 'linger.ms'" in found.unknown["lingr.ms"]


POOL = """\
kind: KafkaNodePool
spec: {{replicas: {replicas}, roles: [{roles}]}}
---
kind: Kafka
spec: {{kafka: {{version: 4.3.1, config: {{min.insync.replicas: 2}}}}}}
"""
SERVER = """\
broker.id=1
listeners=PLAINTEXT://:9092
default.replication.factor=2
min.insync.replicas=2
replica.lag.time.max.ms=20000
replica.lag.tme.max.ms=1
zookeeper.session.timeout.ms=6000
log.retention.hours=1
"""


def read(**files: Path) -> OwnConfig:
    return read_options([(path, hint) for hint, path in files.items()])


def laid(
    tmp_path: Path, server: str = SERVER, producer: str = "acks=1\n", topic: str = ""
) -> tuple[Scenario, Overlay]:
    paths: dict[str, Path] = {}
    for part, text in (("broker", server), ("topic", topic), ("producer", producer)):
        if text:
            paths[part] = tmp_path / f"{NAMES.get(part, part)}.properties"
            paths[part].write_text(text)
    own = read(**paths)
    overlaid = overlay(own, documents.parse(YOURS))
    return loader.load(YOURS, lambda _: overlaid.overrides)[0].scenario, overlaid


def test_the_files_take_the_place_of_the_scenarios_settings(tmp_path: Path, snapshot) -> None:
    scenario, overlaid = laid(
        tmp_path, topic="unclean.leader.election.enable=true\nretention.ms=1\n"
    )
    assert scenario.cluster.settings == {"replica.lag.time.max.ms": 20000}
    assert scenario.topic.settings == {
        "min.insync.replicas": 2,
        "unclean.leader.election.enable": True,
    }
    assert scenario.topic.assignment == [[1, 2]]
    assert scenario.workload.settings.acks == "1"
    assert not scenario.workload.settings.idempotence
    assert plain("\n".join(overlaid.warnings), FOLDER=tmp_path, KAFKA=DEFAULT_KAFKA) == snapshot
    assert {key for keys in overlaid.unused.values() for key in keys} == {
        "broker.id",
        "listeners",
        "log.retention.hours",
        "retention.ms",
        "zookeeper.session.timeout.ms",
    }


@pytest.mark.parametrize(
    ("server", "topic", "warns", "reports"),
    [
        ("log.retention.hours=168", "", False, True),
        ("log.retention.hours=168\nlog.retention.minutes=5", "", True, False),
        ("log.retention.hours=1", "retention.ms=604800000", False, True),
        ("log.retention.bytes=9", "", True, False),
        ("log.retention.bytes=9", "retention.bytes=-1", False, False),
        ("log.retention.bytes=9\nlog.cleanup.policy=compact", "", True, False),
        ("", "cleanup.policy=compact,delete\nretention.bytes=9", True, False),
        ("", "message.timestamp.type=LogAppendTime\nretention.ms=604800000", False, True),
        ("log.retention.ms=-1", "", False, False),
    ],
)
def test_settings_that_remove_records_are_reported(
    tmp_path: Path, snapshot, *, server: str, topic: str, warns: bool, reports: bool
) -> None:
    _, overlaid = laid(tmp_path, server=server, topic=topic)
    removing = [line for line in overlaid.used if "removes acked" in line]
    assert (bool(overlaid.warnings), bool(removing)) == (warns, reports)
    assert plain("\n".join((*overlaid.warnings, *removing)), FOLDER=tmp_path) == snapshot


def test_tiered_storage_is_named_and_left_out_of_a_run(tmp_path: Path) -> None:
    topic = "remote.storage.enable={}\nlocal.retention.bytes=1\n"
    scenario, overlaid = laid(tmp_path, server="", topic=topic.format("true"))
    [warning] = overlaid.warnings
    assert "topic.properties:1: remote.storage.enable=true: tiered storage: not modelled" in warning
    assert scenario.topic.settings == {}
    assert laid(tmp_path, server="", topic=topic.format("false"))[1].warnings == []


def test_a_topic_file_outranks_the_brokers_default(tmp_path: Path) -> None:
    scenario, _ = laid(tmp_path, topic="min.insync.replicas=1\nreplication.factor=4\n")
    assert scenario.topic.min_insync_replicas == 1
    assert scenario.topic.assignment == [[1, 2, 3, 4]]
    assert scenario.cluster.brokers == 4


@pytest.mark.parametrize(
    "files",
    [
        {"producer": "\nacks=2\n"},
        {"producer": "\nmax.in.flight.requests.per.connection=abc\n"},
        {"producer": "retries=abc\nenable.idempotence=true\n"},
        {"producer": "enable.idempotence=yes\n"},
        {"producer": "transactional.id=t\nenable.idempotence=false\n"},
        {"topic": "min.insync.replicas=x"},
        {"topic": "replication.factor=9"},
        {"topic": "replication.factor=no"},
        {"topic": f"partitions={'9' * 5_000}"},
        {"producer": "buffer.memory=much\n"},
        {"producer": "enable.idempotence=true\nacks=1"},
        {"server": "default.replication.factor=x\n"},
    ],
)
def test_a_bad_value_is_an_error_at_its_line(tmp_path: Path, files, snapshot) -> None:
    with pytest.raises(ScenarioError) as refused:
        laid(tmp_path, **{"producer": "acks=all\n", **files})
    assert plain(str(refused.value), FOLDER=tmp_path, NINES="9" * 5_000) == snapshot


def test_every_setting_of_brokers_is_used_or_named(tmp_path: Path) -> None:
    server = "num.partitions=12\nprocess.roles=broker\nmin.insync.replicas=2\n"
    _, overlaid = laid(tmp_path, server=server, producer="")
    assert overlaid.unused["the scenario has its own partitions"] == ["num.partitions"]
    assert overlaid.unused["ackproof chooses nodes, addresses and folders itself"] == [
        "process.roles"
    ]
    assert "the scenario's producers (--producer reads yours)" in overlaid.used


@pytest.mark.parametrize(
    ("roles", "topic", "kafka", "warned"),
    [
        ("broker", "", "4.3.1", True),
        ("broker", "", "3.9.1", False),  # no eligible leader replicas
        ("broker,controller", "", "4.3.1", False),
        ("broker", "min.insync.replicas=2", "4.3.1", False),
    ],
)
def test_a_minimum_isr_that_only_brokers_have_is_a_warning(
    roles: str, topic: str, kafka: str, warned: bool, tmp_path: Path
) -> None:
    (tmp_path / "s").write_text(f"process.roles={roles}\nmin.insync.replicas=2\n")
    (tmp_path / "t").write_text(topic or "segment.ms=600000")
    own = read(broker=tmp_path / "s", topic=tmp_path / "t")
    overlaid = overlay(own, documents.parse(YOURS), kafka=kafka)
    assert [
        one for one in overlaid.warnings if "s:2: min.insync.replicas: with eligi" in one
    ] == list(overlaid.warnings)
    assert bool(overlaid.warnings) == warned


def test_what_a_running_broker_answers_is_in_force(tmp_path: Path) -> None:
    (tmp_path / "s").write_text(
        "All configs for broker 1 are:\n"
        "  min.insync.replicas=2 sensitive=false synonyms={}\n"
        "  process.roles=broker sensitive=false synonyms={}\n"
    )
    assert overlay(read(broker=tmp_path / "s"), documents.parse(YOURS)).warnings == []


@pytest.mark.parametrize("encoding", ["utf-8-sig", "iso-8859-1", "utf-16"])
def test_files_of_other_encodings_are_read(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "producer.properties"
    path.write_bytes("acks=1\n# größer\n".encode(encoding))
    [producer] = read(producer=path).producers
    assert producer.settings == {"acks": Given("1", FileLine(str(path), 1))}


def test_a_clients_own_properties_have_their_secrets(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("sasl.username=me\nsasl.password=x\n")
    assert client_settings(path) == {"sasl.username": "me", "sasl.password": "x"}


def test_a_missing_file_has_a_guess(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("")
    with pytest.raises(ScenarioError, match=r"Did you mean .*server\.properties"):
        read(broker=tmp_path / "sever.properties")


@pytest.mark.parametrize(
    ("roles", "combined", "controllers"),
    [
        ("process.roles=broker,controller\ncontroller.quorum.voters=1@a:1,2@b:1,3@c:1", True, 3),
        (
            "process.roles=controller, broker\ncontroller.quorum.bootstrap.servers=a:1,b:1,c:1,d:1",
            True,
            3,
        ),
        ("process.roles=broker,controller", True, 1),
        ("process.roles=broker\ncontroller.quorum.voters=1@a:1,2@b:1,3@c:1", False, 1),
        ("num.io.threads=8", False, 1),
        (POOL.format(replicas=3, roles="controller, broker"), True, 3),
        (POOL.format(replicas=6, roles="broker, controller"), True, 5),
        (POOL.format(replicas=3, roles="broker"), False, 1),
    ],
)
def test_nodes_of_both_roles_are_combined(
    roles: str, combined: bool, controllers: int, tmp_path: Path
) -> None:
    scenario, overlaid = laid(tmp_path, server=f"{roles}\n")
    assert (scenario.cluster.combined, scenario.cluster.controllers) == (combined, controllers)
    assert any("also controllers" in line for line in overlaid.used) is combined
    text, _ = render(YOURS, read(broker=tmp_path / "server.properties"), kafka="")
    assert ("combined: true" in text) is combined


def test_kafka_with_zookeeper_has_no_combined_nodes(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("process.roles=broker,controller\n")
    own = read(broker=tmp_path / "s")
    used = overlay(own, documents.parse(YOURS), kafka="2.8.2").used
    assert not any("combined" in line for line in used)


def test_init_writes_a_scenario_that_is_the_same(tmp_path: Path) -> None:
    scenario, _ = laid(tmp_path)
    own = read(broker=tmp_path / "server.properties", producer=tmp_path / "producer.properties")
    text, rendered = render(YOURS, own, kafka="3.9.1")
    assert "# It loses the end of its log only" in text
    assert rendered.used[0] == "Kafka 3.9.1"
    (tmp_path / "mine.yaml").write_text(text)
    [one] = loader.load(tmp_path / "mine.yaml")
    assert one.scenario.kafka == "3.9.1"
    assert one.scenario.workload.settings.acks == scenario.workload.settings.acks == "1"
    assert one.scenario.workload.settings.linger_ms == 0  # the Java client's default before 4.0
    assert one.scenario.topics == scenario.topics
    assert one.scenario.faults == scenario.faults


def test_without_files_nothing_changes() -> None:
    text, _ = render(YOURS, OwnConfig(), kafka="")
    assert "acks: all" in text


def test_a_scenario_has_no_defaults_for_a_file_that_was_not_given(tmp_path: Path) -> None:
    (tmp_path / "k.service").write_text(
        "ExecStart=/opt/kafka_2.13-3.9.1/bin/kafka-server-start.sh /etc/s.properties\n"
    )
    with pytest.raises(ScenarioError, match=r"service:1: /etc/s.properties has settings"):
        overlay(read_options([(tmp_path / "k.service", "")]), documents.parse(YOURS))


def test_a_single_broker_has_topics_of_one_replica(tmp_path: Path) -> None:
    path = tmp_path / "compose.yml"
    path.write_text(
        "services:\n  k:\n    image: apache/kafka:3.9.0\n    environment: {KAFKA_NODE_ID: 1}\n"
    )
    applied = overlay(read_options([(path, "")]), documents.parse(YOURS))
    assert "replication factor 1" in applied.used
    [one] = loader.load(YOURS, lambda _: applied.overrides)
    assert one.scenario.cluster.brokers == 1


@pytest.mark.parametrize(("brokers", "refused"), [(2, True), (3, False)])
def test_more_replicas_than_brokers_are_refused_with_the_lines_that_say_so(
    brokers: int, refused: bool
) -> None:
    own = OwnConfig(
        brokers=Count(brokers, at("cluster.yaml:12")),
        broker={"default.replication.factor": Given("3", at("cluster.yaml:9"))},
    )
    document = documents.parse(YOURS)
    if not refused:
        assert overlay(own, document).replaced
        return
    says = r"cluster\.yaml:9: .*3 replicas need as many brokers, .* 2 \(cluster\.yaml:12\)"
    with pytest.raises(ScenarioError, match=says):
        overlay(own, document)
