"""Configurations that say the same in another way have the same answers, but for their sources.

Comments, the order of keys, separators, quotes and styles; values in force that are written out;
settings in a further file of the same cluster; other formats; two clusters in one folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from ackproof.audit.answer import Answer, Risk
from ackproof.audit.auditing import audit_clusters
from ackproof.audit.detail import Detail
from ackproof.audit.failure import Failure
from ackproof.audit.producers import producers
from ackproof.errors import ScenarioError
from ackproof.own_config import reading
from ackproof.own_config.configuration import Client, Given, NoFile, OwnConfig
from ackproof.own_config.reading import read_clusters, read_texts
from ackproof_model import kafka_settings as names
from ackproof_model.configuration import Profile
from support import sampling

DATA = Path(__file__).parents[3] / "data"
KAFKA = "3.9.1"
FILES = [
    path
    for folder in ("own_config", "cases")
    for path in sorted((DATA / folder).iterdir())
    if path.is_file() and path.name not in ("expected.json", "refused.json")
]


def _risk(risk: Risk) -> object:
    changes = [(one.setting, one.change, one.together_with, one.stops) for one in risk.decided_by]
    when = sorted((key, str(value)) for key, value in risk.when.items())
    return (risk.effect, risk.likelihood, risk.failures, when, risk.case, risk.text, changes)


def content(answer: Answer) -> object:
    """Return an answer without the names and lines of files."""
    settings = sorted((key, given.value) for key, given in answer.settings.items())
    return (
        answer.topic,
        settings,
        sorted(answer.unstated),
        sorted(map(repr, map(_risk, answer.risks))),
        sorted(map(repr, answer.survives)),
        sorted(map(repr, answer.undecided)),
    )


def contents(clusters: Iterable[OwnConfig]) -> list[str]:
    described = [own for own in clusters if own.read]
    if not described:
        return []
    whole = audit_clusters(described, detail=Detail.REMEDIES)
    return sorted(repr(content(answer)) for answer in whole.answers)


def _read(files: Mapping[str, str], kafka: str = KAFKA) -> tuple[OwnConfig, ...]:
    return read_texts({name: text.encode() for name, text in files.items()}, kafka=kafka)


# Another text of the same file.


def _commented(text: str) -> str:
    return "".join(
        f"# settings of {number}\n\n{line}\n" for number, line in enumerate(_lines(text))
    )


def _reversed(text: str) -> str:
    """Return the lines in the other order, unless one overrides or continues another."""
    keys = [line.replace(":", "=").partition("=")[0].strip() for line in _lines(text)]
    if len(set(keys)) < len(keys) or any(line.endswith("\\") for line in _lines(text)):
        raise ValueError("the order matters")
    return "\n".join(reversed(_lines(text))) + "\n"


def _separated(text: str) -> str:
    return "".join(line.replace("=", " : ", 1) + "\n" for line in _lines(text))


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "#!"]


class _Blocks(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Blocks.add_representer(str, _text)


def _sorted(text: str) -> str:
    every = [*yaml.safe_load_all(text)]
    return yaml.dump_all(every, Dumper=_Blocks, sort_keys=True, indent=6, width=1000)


def _block(text: str) -> str:
    every = [_backwards(one) for one in yaml.safe_load_all(text)]
    return yaml.dump_all(every, Dumper=_Blocks, sort_keys=False, width=1000)


def _backwards(tree: object) -> object:
    """Return a tree with the keys of every mapping in the reversed order."""
    if isinstance(tree, dict):
        return {key: _backwards(tree[key]) for key in reversed(tree)}
    return [*map(_backwards, tree)] if isinstance(tree, list) else tree


def _noted(text: str) -> str:
    return "# what this is\n" + text.rstrip("\n") + "\n# the end\n"


def _indented(text: str) -> str:
    return json.dumps(_backwards(json.loads(text)), indent=7)


_TEXTS: Mapping[str, tuple[Callable[[str], str], ...]] = {
    ".properties": (_commented, _reversed, _separated),
    ".yml": (_noted, _sorted, _block),
    ".yaml": (_noted, _sorted, _block),
    ".json": (_indented,),
}


def _id(one: Path | Callable[[str], str]) -> str:
    return one.name if isinstance(one, Path) else one.__name__.strip("_")


_REWRITTEN = [
    (file, other)
    for file in FILES
    for other in _TEXTS.get(file.suffix, ())
    if sampling.drawn(f"{file.name} {other.__name__}", one_of=40)
]


@pytest.mark.parametrize(("file", "other"), _REWRITTEN, ids=_id)
def test_another_text_of_a_file_has_the_same_answers(
    file: Path, other: Callable[[str], str]
) -> None:
    text = file.read_text()
    try:
        rewritten = other(text)
        before = contents(_read({file.name: text}))
    except (yaml.YAMLError, ValueError, ScenarioError):
        pytest.skip("a template, or of more than one kind")
    assert contents(_read({file.name: rewritten})) == before


def test_the_comparison_finds_another_value() -> None:
    """The control."""
    text = (DATA / "cases/min-kraft-three.properties").read_text()
    other = text.replace("min.insync.replicas=2", "min.insync.replicas=1")
    assert contents(_read({"server.properties": text})) != contents(
        _read({"server.properties": other})
    )


# Values in force, written out.


def _written(own: OwnConfig) -> OwnConfig:
    """Return a configuration that states what is in force by Kafka's and the clients' defaults.

    Not enable.idempotence beside acks=1: a stated `true` is refused there, an unstated one is off
    (`ProducerConfig.postProcessAndValidateIdempotenceConfigs`). Nor settings of which Kafka reads
    a stated value at other nodes than an unstated one (`ConfigurationControlManager`).
    """
    release = own.release or KAFKA
    defaults = {
        names.MIN_INSYNC_REPLICAS: "1",
        names.UNCLEAN_LEADER_ELECTION_ENABLE: str(Profile.of(release).unclean_by_default).lower(),
        names.REPLICA_LAG_TIME_MAX_MS: "30000",
    }
    stated = {key: Given(value, NoFile.CHANGED) for key, value in defaults.items()}
    described = own.defaults_hold and own.describes_brokers
    return replace(
        own,
        broker={**stated, **own.broker} if described else own.broker,
        producers=tuple(_producer(one, release) for one in own.producers),
        consumers=tuple(map(_consumer, own.consumers)),
    )


def _producer(client: Client, kafka: str) -> Client:
    in_force = [*producers(client, kafka)]
    acks = {one.acks for one in in_force}
    if len(acks) > 1 or any(one.refusal for one in in_force) or client.library != "java":
        return client
    stated = {names.ACKS: acks.pop(), names.DELIVERY_TIMEOUT_MS: "120000"}
    given = {key: Given(value, NoFile.CHANGED) for key, value in stated.items()}
    return replace(client, settings={**given, **client.settings})


def _consumer(client: Client) -> Client:
    framework = bool(client.framework)
    stated = {} if framework else {"enable.auto.commit": "true", "auto.offset.reset": "latest"}
    given = {key: Given(value, NoFile.CHANGED) for key, value in stated.items()}
    return replace(client, settings={**given, **client.settings})


@pytest.mark.parametrize(
    "file",
    [file for file in FILES if sampling.drawn(f"{file.name} written out", one_of=24)],
    ids=lambda file: file.name,
)
def test_values_in_force_may_be_written_out(file: Path) -> None:
    try:
        clusters = [own for own in read_clusters([file], kafka=KAFKA) if own.read]
    except ScenarioError:
        pytest.skip("not a configuration of one kind")
    assert contents(map(_written, clusters)) == contents(clusters)


# Another format, and a further file.

_SERVER = """\
process.roles=broker,controller
controller.quorum.voters=1@kafka-0:9093,2@kafka-1:9093,3@kafka-2:9093
min.insync.replicas=2
default.replication.factor=3
offsets.topic.replication.factor=3
"""
_COMPOSE_SERVICE = """\
  kafka-{number}:
    image: apache/kafka:3.9.1
    volumes: ["data-{number}:/data"]
    environment:
      KAFKA_LOG_DIRS: /data
      KAFKA_NODE_ID: {number}
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_CONTROLLER_QUORUM_VOTERS: 0@kafka-0:9093,1@kafka-1:9093,2@kafka-2:9093
      KAFKA_MIN_INSYNC_REPLICAS: 2
      KAFKA_DEFAULT_REPLICATION_FACTOR: 3
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 3
"""
_COMPOSE = "services:\n" + "".join(_COMPOSE_SERVICE.format(number=number) for number in range(3))
_HELM = """\
image: {registry: docker.io, repository: bitnami/kafka, tag: 3.9.1}
kraft: {enabled: true}
controller: {replicaCount: 3, controllerOnly: false, persistence: {enabled: true}}
broker: {replicaCount: 0}
overrideConfiguration:
  min.insync.replicas: 2
  default.replication.factor: 3
  offsets.topic.replication.factor: 3
"""
_PRODUCER = "acks=all\nenable.idempotence=true\nretries=5\n"
_SPRING = """\
spring:
  kafka:
    producer:
      acks: all
      retries: 5
      properties: {enable.idempotence: true}
"""
_TOPIC = "Topic: orders\tPartitionCount: 3\tReplicationFactor: 3\tConfigs: {}\n"


def _risks(clusters: Iterable[OwnConfig]) -> list[str]:
    """Return the risks without moves: a file of one broker does not say where to there are any."""
    whole = audit_clusters([*clusters], detail=Detail.REMEDIES)
    risks = (one for one in whole.answers[0].risks if Failure.REASSIGNMENT not in one.failures)
    return sorted(repr(_risk(risk)) for risk in risks)


def test_brokers_have_the_same_risks_as_properties_and_in_compose() -> None:
    """Only the second file says that brokers are containers, which may be recreated."""
    producer = {"producer.properties": _PRODUCER}
    properties = _read({"server.properties": _SERVER, **producer})
    assert _risks(_read({"compose.yml": _COMPOSE, **producer})) == _risks(properties)


def test_brokers_have_the_same_risks_as_properties_and_as_values_of_helm() -> None:
    producer = {"producer.properties": _PRODUCER}
    properties = _read({"server.properties": _SERVER, **producer})
    assert _risks(_read({"values.yaml": _HELM, **producer})) == _risks(properties)


def test_a_producer_has_the_same_answers_as_properties_and_for_spring() -> None:
    properties = contents(_read({"server.properties": _SERVER, "producer.properties": _PRODUCER}))
    spring = contents(_read({"server.properties": _SERVER, "application.yml": _SPRING}))
    assert spring == properties


def test_settings_may_stand_in_a_further_file_of_the_service() -> None:
    moved = _COMPOSE.replace("      KAFKA_MIN_INSYNC_REPLICAS: 2\n", "").replace(
        "    environment:\n", "    env_file: [kafka.env]\n    environment:\n"
    )
    assert "kafka.env" in moved
    both = _read({"compose.yml": moved, "kafka.env": "KAFKA_MIN_INSYNC_REPLICAS=2\n"})
    assert contents(both) == contents(_read({"compose.yml": _COMPOSE}))


# Two clusters in one folder.

_STRIMZI = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: Kafka
metadata: {name: prod}
spec:
  kafka:
    version: 3.9.0
    replicas: 3
    config: {min.insync.replicas: 2, default.replication.factor: 3}
    storage: {type: persistent-claim, size: 100Gi}
  zookeeper: {replicas: 3, storage: {type: persistent-claim, size: 10Gi}}
"""
_BITNAMI = """\
image: {registry: docker.io, repository: bitnami/kafka, tag: 3.3.2}
replicaCount: 1
zookeeper: {enabled: true}
extraConfig: |
  min.insync.replicas=1
"""
_CLUSTERS = {
    "deploy/compose.yml": _COMPOSE,
    "prod/kafka.yaml": _STRIMZI,
    "chart/values.yaml": _BITNAMI,
}


@pytest.mark.parametrize(("one", "two"), [*combinations(_CLUSTERS, 2)])
def test_two_clusters_in_one_folder_have_the_answers_of_two_folders(one: str, two: str) -> None:
    apart = [*_read({one: _CLUSTERS[one]}, ""), *_read({two: _CLUSTERS[two]}, "")]
    each = sorted(text for own in apart for text in contents([own]))
    assert contents(_read({one: _CLUSTERS[one], two: _CLUSTERS[two]}, "")) == each


def test_the_comparison_finds_two_clusters_that_are_merged(monkeypatch) -> None:
    """The control."""
    monkeypatch.setattr(reading, "clusters", lambda parts: [("", [*parts])])
    with pytest.raises(AssertionError):
        test_two_clusters_in_one_folder_have_the_answers_of_two_folders(
            "prod/kafka.yaml", "chart/values.yaml"
        )
