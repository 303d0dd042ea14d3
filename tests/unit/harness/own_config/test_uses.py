"""Every setting with a known name in a file is used by an answer, or is reported with a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ackproof.audit import auditing
from ackproof.audit.auditing import audit_clusters
from ackproof.audit.outputs.json_document import document
from ackproof.audit.outputs.terminal import print_audit
from ackproof.audit.risk import Subject
from ackproof.audit.risks import expired_offsets, of_subject
from ackproof.console import Console
from ackproof.errors import ScenarioError
from ackproof.own_config import environment
from ackproof.own_config.configuration import OwnConfig, Stated
from ackproof.own_config.overlay import overlay
from ackproof.own_config.reading import read_clusters, read_texts
from ackproof.own_config.uses import Reason, Uses, chart_name
from ackproof.scenario import documents, shipped
from ackproof.scenario.kafka_keys import known
from support.sampling import drawn

DATA = Path(__file__).parents[3] / "data"
INPUTS = sorted(
    path
    for folder in ("own_config", "cases")
    for path in (DATA / folder).iterdir()
    if path.is_file() and path.name not in ("expected.json", "refused.json")
)
NAMES = frozenset[str]().union(
    *map(known, ("broker", "topic", "producer", "consumer", "admin", "connect", "streams"))
)
YOURS = shipped.find("your-configuration")


def read(path: Path, monkeypatch: pytest.MonkeyPatch, kafka: str = "") -> list[OwnConfig]:
    monkeypatch.chdir(path.parent)
    return [own for own in read_clusters([Path(path.name)], kafka=kafka) if own.read]


def mentioned(text: str) -> Iterator[tuple[str, int]]:
    """Yield each name of Kafka before a value in a text, with its line, whatever its format is."""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.strip()[0] in "#!*" or line.strip().startswith("//"):
            continue
        for match in re.finditer(r"""(?<![\w.:-])([\w.]+)["']?\s*[:=](?=["'\s]*\S)""", line):
            word = match[1]
            bare = word.removeprefix("KAFKA_CFG_").removeprefix("KAFKA_")
            name = bare.lower().replace("_", ".") if bare != word else word
            if name in NAMES and "." in name:
                yield name, number


def places(uses: Uses) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    used = {(one.key, str(one.source)) for one in uses.used}
    unused = {(one.key, str(one.source)) for one in uses.unused}
    return used, unused


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_known_name_of_a_file_is_stated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [one for own in read(path, monkeypatch) for one in own.stated]
    if not found:
        return  # a refused file, or one that only names other files
    at = {(one.source.line, one.key) for one in found if one.source.file == path.name}
    text = path.read_text(encoding="utf-8", errors="replace")
    longer = {line: {key for at_line, key in at if at_line == line} for line, _ in at}
    missing = [
        (name, line)
        for name, line in mentioned(text)
        if (line, name) not in at and not any(name in key for key in longer.get(line, ()))
    ]
    assert not missing


def test_what_readers_take_of_every_input(monkeypatch: pytest.MonkeyPatch, snapshot) -> None:
    """A reader that takes less, or takes it for something else, shows here."""
    taken: dict[str, dict[str, str]] = {}
    for path in INPUTS:
        bearers: dict[str, list[str]] = {}
        for own in read(path, monkeypatch):
            for one in own.stated:
                bearers.setdefault(one.bearer or "nobody", []).append(one.key)
        taken[path.name] = {bearer: ", ".join(dict.fromkeys(k)) for bearer, k in bearers.items()}
    assert json.dumps(taken, indent=1) == snapshot


@pytest.mark.parametrize(
    "path",
    [path for path in INPUTS if drawn(path.name, one_of=28)],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_each_setting_is_used_or_not_by_an_audit_and_by_a_run(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = read(path, monkeypatch, kafka="3.9.1")
    if not clusters:
        return
    assert_divided(audit_clusters(clusters).uses, clusters)
    assert YOURS is not None
    for own in clusters:
        try:
            uses = overlay(own, documents.parse(YOURS)).uses
        except ScenarioError:
            continue  # several topics or clients, or a controller's file
        assert_divided(uses, [own])


def assert_divided(uses: Uses, clusters: list[OwnConfig]) -> None:
    used, unused = places(uses)
    stated = {(one.key, str(one.source)) for own in clusters for one in own.stated}
    assert used | unused == stated
    assert not used & unused


BROKERS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093
listeners=PLAINTEXT://:9092
default.replication.factor=3
min.insync.replicas=2
log.retention.hours=24
num.network.threads=8
remote.log.storage.system.enable=true
"""


def texts(**files: str) -> tuple[OwnConfig, ...]:
    named = {name.replace("_", "."): text.encode() for name, text in files.items()}
    return read_texts(named, kafka="4.1.1")


def of_audit(clusters: tuple[OwnConfig, ...], topic: str = "") -> dict[str, Reason | None]:
    """Return the reason of each setting; None for those that are used."""
    uses = audit_clusters(clusters, topic=topic).uses
    reasons: dict[str, Reason | None] = {one.key: one.reason for one in uses.unused}
    return reasons | dict.fromkeys((one.key for one in uses.used), None)


def test_an_audit_says_why_it_does_not_use_a_setting() -> None:
    assert of_audit(
        texts(server_properties=BROKERS, producer_properties="acks=all\nlinger.ms=5")
    ) == {
        "process.roles": None,
        "node.id": None,
        "controller.quorum.voters": None,
        "listeners": Reason.NO_EFFECT,
        "default.replication.factor": None,
        "min.insync.replicas": None,
        "log.retention.hours": None,
        "num.network.threads": Reason.NO_RULE,
        "remote.log.storage.system.enable": Reason.NOT_MODELLED,
        "acks": None,
        "linger.ms": Reason.NO_RULE,
    }


@pytest.mark.parametrize(
    ("name", "text", "key", "reason"),
    [
        (
            "compose.yml",
            "services:\n  kafka:\n    image: bitnami/kafka:3.6\n    environment:\n"
            "      KAFKA_CFG_NODE_ID: 1\n      KAFKA_MIN_INSYNC_REPLICAS: 2\n",
            "min.insync.replicas",
            Reason.NOT_READ,
        ),
        (
            "compose.yml",
            "services:\n  kafka:\n    image: apache/kafka:4.0.0\n    environment:\n"
            "      KAFKA_NODE_ID: 1\n      KAFKA_NUM_IO_THREADS: ${THREADS}\n",
            "num.io.threads",
            Reason.NO_VALUE,
        ),
        ("server.properties", "node.id=1\nlog.dirs=/d\nacks=1\n", "acks", Reason.OTHER_KIND),
        (
            "producer.properties",
            "acks=0\ntransactional.id=t\nlinger.ms=5\n",
            "linger.ms",
            Reason.REFUSED,
        ),
        (
            "broker.properties",
            "process.roles=broker\nnode.id=1\nlog.message.format.version=3.0\n",
            "log.message.format.version",
            Reason.VERSION,
        ),
    ],
)
def test_reasons_by_the_place_and_the_version(
    name: str, text: str, key: str, reason: Reason
) -> None:
    assert of_audit(read_texts({name: text.encode()}, kafka="4.3.1"))[key] is reason


DYNAMIC = """\
Default configs for brokers in the cluster are:
  min.insync.replicas=1 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:\
min.insync.replicas=1}
"""
KRAFT_SERVICE = "services:\n  kafka:\n    image: apache/kafka:4.0.0\n    environment:\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(
            {"server.properties": BROKERS, "configs.txt": DYNAMIC},
            {"min.insync.replicas": ("server.properties:6", "configs.txt:2")},
            id="a dynamic setting",
        ),
        pytest.param(
            {
                "compose.yml": f"{KRAFT_SERVICE}      KAFKA_NODE_ID: 1\n"
                "      KAFKA_MIN_INSYNC_REPLICAS: 2\n",
                "compose.override.yml": f"{KRAFT_SERVICE}      KAFKA_MIN_INSYNC_REPLICAS: 1\n",
            },
            {"min.insync.replicas": ("compose.yml:6", "compose.override.yml:5")},
            id="another compose file",
        ),
        pytest.param(
            {
                "server.properties": BROKERS,
                "topic.properties": "topic=a\nreplication.factor=3\nretention.ms=1\n",
            },
            {"log.retention.hours": ("server.properties:7", "topic.properties:3")},
            id="every topic",
        ),
        pytest.param({"server.properties": BROKERS}, {}, id="nothing"),
    ],
)
def test_an_outranked_setting_of_brokers_is_not_used(
    files: dict[str, str], expected: dict[str, tuple[str, str]]
) -> None:
    clusters = read_texts({name: text.encode() for name, text in files.items()}, kafka="4.1.1")
    uses = audit_clusters(clusters).uses
    outranked = {
        one.key: (str(one.source), str(one.by))
        for one in uses.unused
        if one.reason is Reason.OUTRANKED
    }
    assert outranked == expected
    for key, (line, by) in expected.items():
        assert line not in {str(one.source) for one in uses.used if one.key == key}
        [shown] = [
            one for one in document(audit_clusters(clusters))["unused"] if one["source"] == line
        ]
        assert shown["text"] == f"outranked by {by}"


def test_settings_of_streams_without_a_prefix_are_of_its_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clusters = read(DATA / "own_config" / "streams-plain.properties", monkeypatch)
    reasons = of_audit(tuple(clusters))
    assert {key: reason for key, reason in reasons.items() if reason is not Reason.NO_EFFECT} == {
        "acks": None,
        "auto.offset.reset": None,
        "min.insync.replicas": None,
        "replication.factor": None,
        "processing.guarantee": None,
        "linger.ms": Reason.NO_RULE,
        "max.poll.records": Reason.NO_RULE,
        "enable.auto.commit": Reason.NOT_READ,  # Streams sets it itself
        "admin.request.timeout.ms": Reason.ADMIN,
        **dict.fromkeys(
            (
                "application.id",
                "restore.consumer.max.poll.records",
                "num.standby.replicas",
                "commit.interval.ms",
                "deserialization.exception.handler",
            ),
            Reason.NOT_MODELLED,
        ),
    }


def test_every_name_of_connect_is_used_or_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    path = DATA / "own_config" / "connect-overrides.properties"
    clusters = read(path, monkeypatch, kafka="4.1.1")
    assert of_audit(tuple(clusters)) == {
        "bootstrap.servers": Reason.NO_EFFECT,
        "group.id": Reason.NOT_READ,  # of the workers
        "rest.port": Reason.NO_EFFECT,
        "key.converter": Reason.NOT_MODELLED,
        "connector.client.config.override.policy": Reason.NOT_MODELLED,
        "config.storage.topic": None,
        "config.storage.replication.factor": None,
        "min.insync.replicas": None,
        "offset.storage.topic": None,
        "offset.flush.interval.ms": Reason.NOT_MODELLED,
        "max.block.ms": Reason.NO_RULE,
        "acks": None,
        "admin.retries": Reason.ADMIN,
        "errors.tolerance": Reason.NOT_MODELLED,
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "bitnami-pods.yaml",
            {
                Reason.VOLUMES: {"persistence.size", "persistence.storageClass", "logPersistence"},
                Reason.PODS: {
                    *("podManagementPolicy", "updateStrategy", "terminationGracePeriodSeconds"),
                    "pdb",
                },
                Reason.PLACEMENT: {"podAntiAffinityPreset", "affinity", "brokerRackAssignment"},
                Reason.NO_VALUE: {"existingConfigmap"},
            },
        ),
        (
            "strimzi-pods.yaml",  # its rack and its storage are used
            {
                Reason.VOLUMES: {"volumes.size", "volumes.deleteClaim"},
                Reason.PODS: {"terminationGracePeriodSeconds", "podDisruptionBudget"},
                Reason.PLACEMENT: {"affinity"},
            },
        ),
        (
            "confluent-pods.yaml",
            {
                Reason.VOLUMES: {"dataVolumeCapacity"},
                Reason.PODS: {"terminationGracePeriodSeconds"},
                Reason.PLACEMENT: {"oneReplicaPerNode", "rackAssignment", "affinity"},
            },
        ),
        (
            "msk-cluster.tf",
            {
                Reason.VOLUMES: {"volume_size"},
                Reason.PLACEMENT: {"az_distribution", "client_subnets"},
            },
        ),
        ("configmap.yaml", {}),
    ],
)
def test_names_of_a_charts_own_are_used_or_have_a_reason(
    name: str, expected: dict[Reason, set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    uses = audit_clusters(read(DATA / "own_config" / name, monkeypatch)).uses
    of_charts = {
        reason: {one.key for one in settings if chart_name(one.key)}
        for reason, settings in uses.by_reason().items()
    }
    assert {reason: keys for reason, keys in of_charts.items() if keys} == expected


@pytest.mark.parametrize(("named", "is_open"), [("mine", True), ('""', False)])
def test_a_map_that_replaces_the_file_of_brokers_leaves_open_what_it_may_state(
    named: str, *, is_open: bool
) -> None:
    text = f"replicaCount: 3\nminInsyncReplicas: 2\nexistingConfigmap: {named}\n"
    [own] = read_texts({"values.yaml": text.encode()})
    assert bool(own.unread) is is_open
    assert own.defaults_hold is not is_open


def test_a_topic_that_an_option_leaves_out_is_not_used() -> None:
    files = {
        "a.tf": b"""resource "kafka_topic" "a" {
  name = "a"
  replication_factor = 3
  config = { "min.insync.replicas" = "2" }
}
resource "kafka_topic" "b" {
  name = "b"
  replication_factor = 3
  config = { "retention.ms" = "1" }
}
"""
    }
    clusters = read_texts(files, kafka="4.1.1")
    assert of_audit(clusters)["retention.ms"] is None
    assert of_audit(clusters, topic="a")["retention.ms"] is Reason.NOT_CHOSEN


def test_a_setting_without_its_rule_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: what is used is what rules look up, so that no list can say otherwise."""
    key = "offsets.retention.minutes"
    clusters = texts(server_properties=f"{BROKERS}{key}=60\n", consumer_properties="group.id=a\n")
    assert of_audit(clusters)[key] is None

    def without(subject: Subject) -> list[object]:
        return [find for find in of_subject(subject) if find is not expired_offsets.risks]

    monkeypatch.setattr(auditing, "of_subject", without)
    assert of_audit(clusters)[key] is Reason.NO_RULE


def test_a_setting_that_its_reader_drops_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for readers: a reader that no longer takes a setting shows in the report."""
    path = DATA / "own_config" / "compose-bitnami-brokers.yml"

    def dropping(*arguments: Any) -> Any:
        settings = original(*arguments)
        return settings and {k: v for k, v in settings.items() if k != "min.insync.replicas"}

    original = environment.broker_settings
    key = "min.insync.replicas"
    before = [one for own in read(path, monkeypatch) for one in own.stated if one.key == key]
    monkeypatch.setattr(environment, "broker_settings", dropping)
    clusters = read(path, monkeypatch)
    after = [one for own in clusters for one in own.stated if one.key == key]
    assert {one.bearer for one in before} == {"broker"}
    assert [(one.source, one.bearer) for one in after] == [(one.source, "") for one in before]
    assert of_audit(tuple(clusters))[key] is Reason.NOT_READ


def test_the_text_has_a_line_and_json_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    whole = audit_clusters(texts(server_properties=BROKERS, producer_properties="acks=all\n"))
    print_audit(Console(width=100), whole)
    lines = [line for line in capsys.readouterr().out.splitlines() if "Not used" in line]
    names = "remote.log.storage.system.enable, num.network.threads, listeners"
    assert lines == [f"Not used: 3 settings: {names} (-v says why)"]
    unused = document(whole)["unused"]
    assert unused[0] == {
        "setting": "listeners",
        "value": "PLAINTEXT://:9092",
        "source": "server.properties:4",
        "reason": "no_effect",
        "text": "addresses, folders, security, metrics: no loss depends on it",
    }
    print_audit(Console(width=100), whole, verbose=True)
    out = " ".join(capsys.readouterr().out.split())
    assert "no rule of this answer reads it: num.network.threads (server.properties:8)" in out


def test_names_in_a_refused_file_are_reported() -> None:
    template = (
        "{{- if .Values.kafka }}\nmin.insync.replicas={{ .Values.isr }}\n"
        "enable.idempotence=false\n{{- end }}\n"
    )
    clusters = texts(server_properties=BROKERS, values_properties=template)
    [refused] = clusters[0].refused
    assert refused.file == "values.properties"
    unused = {
        (one.key, str(one.source)): one.reason for one in audit_clusters(clusters).uses.unused
    }
    assert unused["min.insync.replicas", "values.properties:2"] is Reason.FILE_REFUSED
    assert unused["enable.idempotence", "values.properties:3"] is Reason.FILE_REFUSED
    assert ("min.insync.replicas", "server.properties:6") not in unused  # the control: it is read


def test_a_file_without_settings_of_kafka_has_no_names_to_report() -> None:
    clusters = texts(server_properties=BROKERS, other_yaml="retries: 3\nuser: a\n")
    assert [one.stated for one in clusters[0].refused] == [()]
    assert Reason.FILE_REFUSED not in of_audit(clusters).values()


def test_a_secret_is_named_without_its_value() -> None:
    clusters = texts(server_properties=BROKERS + "ssl.keystore.password=hidden\n")
    stated = [one for own in clusters for one in own.stated if one.key == "ssl.keystore.password"]
    assert [one.value for one in stated] == ["…"]
    assert "hidden" not in json.dumps(document(audit_clusters(clusters)))


@pytest.mark.parametrize(("kind", "names"), [("Secret", {"min.insync.replicas"}), ("Other", set())])
def test_names_in_the_base64_of_a_secret_are_stated(kind: str, names: set[str]) -> None:
    text = (DATA / "own_config" / "secret-unread.yaml").read_text()
    file = f"kind: ConfigMap\ndata: {{a.properties: acks=1}}\n---\n{text}"
    [own] = read_texts({"secret.yaml": file.replace("Secret", kind).encode()})
    unread = {one.key for one in own.stated if not one.bearer and one.source.line == 9}
    assert unread == names


def test_a_name_of_other_programs_is_not_kafkas() -> None:
    clusters = texts(
        compose_yml="services:\n  kafka:\n    image: apache/kafka:4.0.0\n    ports: [9092]\n"
        "    environment:\n      KAFKA_NODE_ID: 1\n    healthcheck:\n      retries: 3\n"
        "  db:\n    environment:\n      MAX_CONNECTIONS: 1\n      POOL_BATCH_SIZE: 5\n"
    )
    assert {one.key for own in clusters for one in own.stated} == {"node.id"}


def stated_by(line: str, name: str = "values.yaml") -> list[Stated]:
    text = f"image: {{repository: bitnami/kafka, tag: 3.6.0}}\nreplicaCount: 3\n{line}\n"
    return [one for own in read_texts({name: text.encode()}) for one in own.stated]


@pytest.mark.parametrize(
    "line",
    [
        "extra: {min.insync.replicas: 2}",
        "minInsyncReplicas: 2",
        "extraEnvVars: [{name: KAFKA_CFG_MIN_INSYNC_REPLICAS, value: '2'}]",
        'script: "kafka-configs --add-config min.insync.replicas=2"',
        "a: {min: {insync: {replicas: 2}}}",
    ],
)
def test_a_name_is_found_in_every_spelling(line: str) -> None:
    [one] = stated_by(line)
    assert (one.key, one.source.line) == ("min.insync.replicas", 3)
