"""The files that people have: what each says, and which are refused.

The files in `tests/data/own_config` are made after public ones. `EXPECTED` has a line for each fact
that a file states, so that a reader which drops or invents one fails.
"""

from __future__ import annotations

import io
import json
from pathlib import Path, PurePath

import pytest

from ackproof.errors import ScenarioError
from ackproof.own_config import reading
from ackproof.own_config.configuration import Client, Count, Given, Option, OwnConfig, Topic
from ackproof.own_config.parts import Source
from ackproof.own_config.reading import read_clusters, read_options, read_texts
from support.origins import at

FILES = Path(__file__).parents[3] / "data" / "own_config"
EXPECTED = json.loads((FILES / "expected.json").read_text())
REFUSED = json.loads((FILES / "refused.json").read_text())


def facts(own: OwnConfig) -> list[str]:
    """Return what a configuration says, a line for each fact with its line in the file."""
    lines = [f"shape: {one.shape}" for one in own.read]
    for name in ("kafka", "since", "below", "mode", "brokers", "controllers", "combined"):
        lines += _fact(name, getattr(own, name))
    lines += ["in force"] if own.in_force else []
    if own.storage:
        stated = f"{own.storage.setting} = {own.storage.value} ({own.storage.source})"
        lines += [f"logs in a {own.storage.holder}: {stated}"]
    for rack, given in own.racks.items():
        lines += _fact(f"rack of {rack}", given)
    for key, given in own.broker.items():
        lines += _fact(f"broker {key}", given)
    for topic in own.topics:
        lines += _topic(topic)
    for kind, clients in (("producer", own.producers), ("consumer", own.consumers)):
        for client in clients:
            lines += _client(kind, client)
    return [*lines, *(f"warning: {text}" for text in own.warnings)]


def _fact(name: str, given: Given | Count | None) -> list[str]:
    return [f"{name} = {given.value} ({given.source})"] if given else []


def _topic(topic: Topic) -> list[str]:
    name = f"topic {topic.name!r}{' internal' if topic.internal else ''}"
    lines = _fact(f"{name} partitions", topic.partitions)
    lines += _fact(f"{name} replicas", topic.replication_factor)
    for key, given in topic.settings.items():
        lines += _fact(f"{name} {key}", given)
    return lines or [name]


def _client(kind: str, client: Client) -> list[str]:
    name = f"{kind} {client.name!r} {client.framework or client.library}"
    lines = _fact(f"{name} version", client.version)
    for key, given in client.settings.items():
        lines += _fact(f"{name} {key}", given)
    return lines or [name]


def read(paths: list[Path]) -> OwnConfig:
    [own] = read_clusters(paths)
    return own


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)


@pytest.mark.usefixtures("in_files")
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_file_says_what_is_expected(name: str) -> None:
    own = read([Path(name)])
    assert own.refused == ()
    assert facts(own) == EXPECTED[name]
    assert "s3cret" not in repr(own) or name in ("apache.env", "compose.env")


@pytest.mark.usefixtures("in_files")
@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_file_that_is_not_understood_is_refused_with_a_reason(name: str) -> None:
    own = read([Path("refused") / name])
    [refused] = own.refused
    assert REFUSED[name] in refused.reason
    assert facts(own) == []


def test_every_file_has_its_expectation() -> None:
    assert {one.name for one in FILES.iterdir()} - {"refused"} == {
        *EXPECTED,
        "expected.json",
        "refused.json",
    }
    assert {one.name for one in (FILES / "refused").iterdir()} == {*REFUSED}


def test_a_number_of_brokers_that_no_cluster_has_is_passed_over() -> None:
    """Python refuses to convert more than 4,300 digits."""
    own = texts(
        compose_yml="services:\n  k:\n    image: apache/kafka:3.9.1\n"
        f"    deploy: {{replicas: {'9' * 5000}}}\n"
    )
    assert own.brokers == Count(1, at("compose.yml:3"))


def test_the_secrets_of_these_files_would_be_seen() -> None:
    assert sum("s3cret" in (FILES / name).read_text() for name in EXPECTED) >= 6


def clusters_of(**files: str) -> tuple[OwnConfig, ...]:
    names = {name.replace("__", "/").replace("_", "."): text for name, text in files.items()}
    return read_texts({name: text.encode() for name, text in names.items()})


def texts(**files: str) -> OwnConfig:
    [own] = clusters_of(**files)
    return own


def test_the_texts_of_a_revision_are_read_with_the_files_that_they_name() -> None:
    own = texts(
        deploy__compose_yml="services:\n  k:\n    image: apache/kafka:${V}\n    env_file: k.env\n"
        "    environment: {KAFKA_NODE_ID: 1}\n",
        deploy__k_env="KAFKA_MIN_INSYNC_REPLICAS=1\n",
        deploy___env="V=3.9.0\n",
    )
    assert own.kafka == Given("3.9.0", at("deploy/compose.yml:3"))
    assert own.broker["min.insync.replicas"].source == at("deploy/k.env:1")


@pytest.mark.parametrize(
    ("first", "second", "value", "warning"),
    [
        (
            "node.id=1\nmin.insync.replicas=2",
            "Default configs for brokers in the cluster are:\n"
            "  min.insync.replicas=1 sensitive=false synonyms={}\n",
            "1",
            "b:2: min.insync.replicas=1 outranks 2 (a:2)",
        ),
        (
            "Dynamic configs for broker 1 are:\n"
            "  min.insync.replicas=3 sensitive=false synonyms={}\n",
            "Default configs for brokers in the cluster are:\n"
            "  min.insync.replicas=1 sensitive=false synonyms={}\n",
            "3",
            "a:2: min.insync.replicas=3 outranks 1 (b:2)",
        ),
        (
            "node.id=1\nmin.insync.replicas=2",
            "node.id=2\nmin.insync.replicas=1",
            "1",
            "min.insync.replicas differs between brokers: 2 (a:2), 1 (b:2)",
        ),
    ],
)
def test_kafkas_precedence_decides_between_files(
    first: str, second: str, value: str, warning: str
) -> None:
    own = texts(a=first, b=second)
    assert own.broker["min.insync.replicas"].value == value
    assert any(warning in text for text in own.warnings)


@pytest.mark.parametrize(
    ("name", "text", "shape", "unused"),
    [
        ("p", "acks=all\nmin.insync.replicas=2\n", "producer.properties", "clients"),
        ("s", "broker.id=1\nacks=all\n", "server.properties", "brokers"),
        ("s", "broker.id=1\nmin.insync.replicas=2\n", "server.properties", ""),
        ("t", "retention.ms=-1\nauto.offset.reset=latest\n", "topic settings", "brokers"),
        ("d", "min.insync.replicas=2\nauto.offset.reset=latest\n", "server.properties", "brokers"),
        ("c", "acks=all\nauto.offset.reset=latest\n", "client.properties", ""),
    ],
)
def test_a_setting_of_another_kind_of_file_is_reported(
    name: str, text: str, shape: str, unused: str
) -> None:
    own = texts(**{name: text})
    assert [one.shape for one in own.read] == [shape]
    key = text.splitlines()[1].partition("=")[0]
    assert own.warnings == ((f"{name}:2: {key}: {unused} do not read it: not used",) * bool(unused))


def test_values_that_no_broker_starts_with_are_reported(snapshot) -> None:
    own = texts(
        a="broker.id=1\nmin.insync.replicas=two\nunclean.leader.election.enable=yes\n"
        "default.replication.factor=3\noffsets.topic.replication.factor=0\n"
    )
    assert "\n".join(own.warnings) == snapshot


def test_the_stated_version_outranks_that_of_a_file() -> None:
    compose = (
        b"services:\n  k:\n    image: apache/kafka:3.9.0\n    environment: {KAFKA_NODE_ID: 1}\n"
    )
    [own] = read_texts({"c": compose}, kafka="4.1.0")
    assert own.kafka == Given("4.1.0", Option("--kafka"))
    assert any("--kafka 4.1.0 outranks 3.9.0 (c:3)" in text for text in own.warnings)


def test_a_release_has_all_numbers() -> None:
    assert OwnConfig(kafka=Given("3.6", at("c:1"))).release == "3.6.0"
    assert OwnConfig(kafka=Given("3.6.2", at("c:1"))).release == "3.6.2"
    assert OwnConfig().release == ""


OVERRIDDEN = {
    "compose_yml": "services:\n  k:\n    image: apache/kafka:3.9.0\n    environment:\n"
    "      KAFKA_NODE_ID: 1\n      KAFKA_MIN_INSYNC_REPLICAS: 2\n",
    "compose_override_yml": "services:\n  k:\n    environment: {KAFKA_MIN_INSYNC_REPLICAS: 1}\n",
}


COMPOSE = OVERRIDDEN["compose_yml"]
STRIMZI = (
    "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {name: NAME}\n"
    "spec: {kafka: {replicas: 3, version: 4.0.0}}\n"
)
OF_STRIMZI = (
    "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\n"
    "metadata: {name: t, labels: {strimzi.io/cluster: NAME}}\nspec: {replicas: 3}\n"
)
SEVERAL = """
services:
  a:
    image: apache/kafka:4.0.0
    environment: {{KAFKA_CONTROLLER_QUORUM_VOTERS: "{}", KAFKA_NODE_ID: {}}}
  b:
    image: apache/kafka:4.0.0
    environment: {{KAFKA_CONTROLLER_QUORUM_VOTERS: "{}", KAFKA_NODE_ID: {}}}
"""
OF_ZOOKEEPER = SEVERAL.replace("CONTROLLER_QUORUM_VOTERS", "ZOOKEEPER_CONNECT").replace(
    "NODE_ID", "BROKER_ID"
)
NODE = "node.id=ID\nprocess.roles=broker\ncontroller.quorum.voters=1@VOTER:9093\n"


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({"a__compose_yml": COMPOSE, "b__compose_yml": COMPOSE}, 2),
        ({"compose_yml": COMPOSE, "compose_prod_yml": COMPOSE}, 2),
        (OVERRIDDEN, 1),
        ({"a_yaml": STRIMZI, "b_yaml": STRIMZI.replace("NAME", "other")}, 2),
        ({"a_yaml": STRIMZI, "b_yaml": OF_STRIMZI}, 1),
        ({"a__s_p": NODE.replace("ID", "1"), "b__s_p": NODE.replace("ID", "2")}, 1),
        ({"a__s_p": NODE.replace("ID", "1"), "b__s_p": NODE.replace("ID", "1")}, 2),
        ({"a__s_p": NODE.replace("ID", "1"), "b__s_p": NODE.replace("VOTER", "x")}, 2),
        ({"compose_yml": COMPOSE, "producer_properties": "acks=1\n"}, 1),
        ({"a_yaml": f"{STRIMZI}---\n{STRIMZI.replace('NAME', 'other')}"}, 2),
        ({"compose_yml": SEVERAL.format("1@a:9093", 1, "1@b:9093", 1)}, 2),
        ({"compose_yml": SEVERAL.format("1@a:9093", 1, "1@a:9093", 2)}, 1),
        ({"compose_yml": OF_ZOOKEEPER.format("zk1:2181", 1, "zk2:2181", 1)}, 2),
        ({"compose_yml": OF_ZOOKEEPER.format("zk1:2181", 1, "zk2:2181", 2)}, 1),
    ],
)
def test_clusters_of_one_folder_are_told_apart(files: dict[str, str], count: int) -> None:
    assert len(clusters_of(**files)) == count


def test_an_override_of_compose_replaces_the_settings_of_its_service() -> None:
    own = texts(**OVERRIDDEN)
    assert own.broker["min.insync.replicas"] == Given("1", at("compose.override.yml:3"))
    assert (own.brokers and own.brokers.value) == 1
    assert not any("differs" in text for text in own.warnings)


def test_clusters_of_one_file_have_their_own_nodes() -> None:
    one, other = clusters_of(compose_yml=SEVERAL.format("1@a:9093", 1, "1@b:9093", 1))
    assert (one.cluster, other.cluster) == ("compose.yml (a)", "compose.yml (b)")
    assert [own.brokers and own.brokers.value for own in (one, other)] == [1, 1]


def test_a_file_without_brokers_belongs_to_the_cluster_that_it_names_knows_or_is_near() -> None:
    near, other = clusters_of(
        dev__compose_yml=COMPOSE,
        prod__kafka_yaml=STRIMZI.replace("NAME", "main"),
        dev__producer_properties="acks=1\n",
        dev__topic_yaml=OF_STRIMZI.replace("NAME", "main"),
        app_properties="acks=all\nbootstrap.servers=main-kafka-bootstrap.kafka:9092\n",
        both_properties="group.id=g\nauto.offset.reset=latest\n",
    )
    assert (near.cluster, other.cluster) == ("dev/compose.yml", "main")
    assert [one.name for one in near.producers] == ["dev/producer.properties"]
    assert [one.name for one in other.producers] == ["app.properties"]
    assert [len(one.topics) for one in (near, other)] == [0, 1]
    assert [len(one.consumers) for one in (near, other)] == [1, 1]


def test_a_scenario_of_several_clusters_is_refused_by_name(tmp_path: Path) -> None:
    for folder in ("dev", "prod"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "compose.yml").write_text(COMPOSE)
    with pytest.raises(ScenarioError, match=r"describe 2 clusters: .*dev/compose.yml"):
        read_options([(tmp_path, "")])


def test_pools_in_several_files_are_added() -> None:
    pool = (
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaNodePool\nmetadata: {{name: of-{0}}}\n"
        "spec: {{replicas: {0}, roles: [broker]}}"
    )
    own = texts(a_yaml=pool.format(3), b_yaml=pool.format(2))
    assert own.brokers is not None
    assert own.brokers.value == 5


def test_a_folder_is_searched_and_other_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "server.properties").write_text("node.id=1\nmin.insync.replicas=2\n")
    (tmp_path / "deploy" / "web.yaml").write_text("kind: Deployment\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.properties").write_text("acks=1\n")
    (tmp_path / "image.properties").write_bytes(b"\0\1")
    (tmp_path / ".ackproof.yaml").write_text("accept: []\n")
    own = read([tmp_path])
    assert not any(".ackproof.yaml" in text for text in own.warnings)
    assert [Path(one.file).name for one in own.read] == ["server.properties"]
    assert [Path(one.file).name for one in own.refused] == ["image.properties"]
    assert own.producers == ()
    assert any("web.yaml" in text for text in own.warnings)


@pytest.mark.parametrize(
    ("synonyms", "dynamic"),
    [
        ("DYNAMIC_DEFAULT_BROKER_CONFIG:KEY=true, DEFAULT_CONFIG:KEY=false", "true"),
        ("DYNAMIC_BROKER_CONFIG:KEY=true, DYNAMIC_DEFAULT_BROKER_CONFIG:KEY=false", "false"),
        ("STATIC_BROKER_CONFIG:KEY=true, DEFAULT_CONFIG:KEY=false", None),
    ],
)
def test_a_described_broker_tells_what_is_dynamic_for_all(
    synonyms: str, dynamic: str | None
) -> None:
    line = f"  KEY=true sensitive=false synonyms={{{synonyms}}}\n".replace(
        "KEY", "unclean.leader.election.enable"
    )
    own = texts(a=f"All configs for broker 1 are:\n{line}")
    given = own.dynamic.get("unclean.leader.election.enable")
    assert (given and given.value) == dynamic
    assert own.broker["unclean.leader.election.enable"] == Given("true", at("a:2"))


def test_of_controllers_the_value_counts_that_loses_more_or_is_dynamic(tmp_path: Path) -> None:
    key = "unclean.leader.election.enable"
    (tmp_path / "broker.properties").write_text(f"process.roles=broker\n{key}=false\n")
    for number, value in enumerate(("false", "true")):
        file = tmp_path / f"controller-{number}.properties"
        file.write_text(f"process.roles=controller\nnode.id={number}\n{key}={value}\n")
    assert read([tmp_path]).broker[key].value == "false"
    assert read([tmp_path]).controller[key].value == "true"
    (tmp_path / "dynamic.txt").write_text(
        "Default configs for brokers in the cluster are:\n"
        f"  {key}=false sensitive=false synonyms={{}}\n"
    )
    assert read([tmp_path]).controller[key].value == "false"


def test_a_folder_without_a_file_of_kafka_is_refused(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text("kind: Deployment\n")
    [refused] = read([tmp_path]).refused
    assert refused.reason.startswith("a folder without a file")


def test_a_large_file_is_refused_without_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "server.properties"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it was read"))
    [refused] = read([path]).refused
    assert "it has 100,000,000 bytes" in refused.reason


def test_standard_input_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"acks=1\n")))
    [producer] = read([Path("-")]).producers
    assert producer.settings["acks"] == Given("1", at("-:1"))


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(ScenarioError, match="no such file"):
        read([FILES / "nothing.properties"])


def test_clusters_of_terraform_are_told_apart_by_the_configuration_that_they_name() -> None:
    def configuration(name: str, minimum: int) -> str:
        return (
            f'resource "aws_msk_configuration" "{name}" {{\n  server_properties = <<EOT\n'
            f"min.insync.replicas={minimum}\nEOT\n}}\n"
        )

    def cluster(name: str, kafka: str, arn: str) -> str:
        return (
            f'resource "aws_msk_cluster" "{name}" {{\n  kafka_version = "{kafka}"\n'
            f"  configuration_info {{\n    arn = aws_msk_configuration.{arn}.arn\n  }}\n}}\n"
        )

    found = clusters_of(
        main_tf=configuration("a", 1)
        + configuration("b", 2)
        + configuration("spare", 3)
        + cluster("new", "3.9.1", "b")
        + cluster("old", "3.6.0", "a")
    )
    assert {
        own.cluster: (own.kafka and own.kafka.value, own.broker["min.insync.replicas"].value)
        for own in found
    } == {
        "aws_msk_cluster.new": ("3.9.1", "2"),
        "aws_msk_cluster.old": ("3.6.0", "1"),
        "aws_msk_configuration.spare": (None, "3"),
    }


def test_rack_label_of_strimzi_is_the_rack_of_its_nodes() -> None:
    own = texts(
        kafka_yaml="apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {name: a}\nspec:\n"
        "  kafka:\n    replicas: 3\n    rack: {topologyKey: topology.kubernetes.io/zone}\n"
    )
    assert own.racks == {"a": Given("topology.kubernetes.io/zone", at("kafka.yaml:7"))}


def test_each_exporter_of_a_collector_is_a_producer() -> None:
    own = texts(
        otel_yml="exporters:\n  kafka/a.b:\n    producer: {required_acks: 0}\n"
        "  kafka:\n    producer: {required_acks: -1}\n  kafka/plain: {}\n"
    )
    assert {one.name: one.settings["acks"].value for one in own.producers} == {
        "otel.yml (kafka/a.b)": "0",
        "otel.yml (kafka)": "-1",
        "otel.yml (kafka/plain)": "1",
    }


def test_tiered_storage_of_a_cluster_of_msk_leaves_the_default_of_others() -> None:
    found = clusters_of(
        main_tf='resource "aws_msk_cluster" "a" {\n  kafka_version = "3.6.0"\n'
        '  storage_mode = "TIERED"\n}\n'
        'resource "aws_msk_cluster" "b" {\n  kafka_version = "3.6.0"\n}\n'
    )
    assert {one.cluster: "unclean.leader.election.enable" in one.broker for one in found} == {
        "aws_msk_cluster.a": False,
        "aws_msk_cluster.b": True,
    }


@pytest.mark.parametrize(("module", "amazon"), [("./strimzi", False), ("x/msk-kafka/aws", True)])
def test_a_module_of_terraform_is_amazons_only_if_its_source_says_so(
    module: str, amazon: bool
) -> None:
    own = texts(
        main_tf=f'module "k" {{\n  source = "{module}"\n  kafka_version = "3.9.0"\n}}\n'
        'resource "kafka_topic" "o" {\n  name = "orders"\n}\n'
    )
    assert ("unclean.leader.election.enable" in own.broker) is amazon
    unread = f"main.tf:1: module k: {module} is not recognised as a module of Amazon MSK: not used"
    assert (unread in own.warnings) is not amazon


_CREATED = (
    "kafka-topics --create --topic orders --replication-factor $RF --config min.insync.replicas=2\n"
)


def test_commands_that_change_topics_later_are_applied_or_named(snapshot) -> None:
    own = texts(
        a_sh=_CREATED
        + "kafka-configs --alter --entity-type topics --entity-name orders "
        + "--add-config min.insync.replicas=1,cleanup.policy=[compact,delete],retention.ms=5 2>&1\n"
        + "kafka-topics --alter --topic orders --config retention.ms=7\n"
        + "kafka-configs --alter --topic orders --delete-config retention.ms\n"
        + "kafka-configs --alter --entity-type brokers --entity-default --add-config a=1\n"
        + "kafka-configs --alter --entity-type users --entity-name u --add-config p=s3cret\n"
        + "kafka-configs --alter --broker 1 --add-config b=1\n"
        + "kafka-configs --alter --user u --add-config p=s3cret\n"
    )
    [topic] = own.topics
    assert {key: given.value for key, given in topic.settings.items()} == {
        "min.insync.replicas": "1",
        "cleanup.policy": "[compact,delete]",
        "retention.ms": "5",
    }
    assert "\n".join(own.warnings) == snapshot


_STARTED = {
    "compose_yml": "services:\n  k:\n    image: apache/kafka:3.9.0\n"
    "    command: [kafka-server-start.sh, -daemon, /etc/s.properties]\n",
    "k_service": "ExecStart=/opt/kafka_2.13-3.9.1/bin/kafka-server-start.sh /etc/s.properties\n",
}


@pytest.mark.parametrize("name", sorted(_STARTED))
def test_a_properties_file_of_a_command_that_was_not_given_is_reported(name: str) -> None:
    alone = texts(**{name: _STARTED[name]})
    together = texts(**{name: _STARTED[name], "s_properties": "node.id=1\nlog.dirs=/tmp/k\n"})
    unread = "/etc/s.properties may have settings of brokers and was not given"
    assert any(unread in text for text in alone.warnings)
    assert (alone.defaults_hold, together.defaults_hold) == (False, True)
    assert not any(unread in text for text in together.warnings)


MOUNTED = (
    "services:\n  k:\n    image: apache/kafka:3.9.0\n    volumes: ['{}']\n    environment: {{{}}}\n"
)


@pytest.mark.parametrize(
    ("text", "hold"),
    [
        ("node.id=1\nlog.dirs=/tmp/k\n", True),
        ("acks=all\nenable.idempotence=true\n", False),
        ("process.roles=controller\nnode.id=1\n", False),
        ("Dynamic configs for broker 1 are:\n  log.cleaner.threads=2 sensitive=false\n", False),
        ("services:\n  k:\n    image: apache/kafka:3.9.0\n", True),
        ("services:\n  k: {image: apache/kafka:3.9.0, volumes: ['./c:/mnt/shared/config']}", False),
        ("services:\n  k: {image: apache/kafka:3.9.0, volumes: ['data:/var/lib/data']}", True),
        ("services:\n  k: {image: apache/kafka:3.9.0, env_file: k.env}", False),
        (MOUNTED.format("./c:/mnt/shared/config:ro,z", "K: 1"), False),
        (MOUNTED.format("./c:/mnt/shared/config:ro", "KAFKA_NODE_ID: 1"), False),
        (MOUNTED.format("./c:/etc/kafka/secrets:ro", "KAFKA_NODE_ID: 1"), True),
    ],
)
def test_defaults_hold_only_where_files_describe_the_brokers(text: str, hold: bool) -> None:
    assert texts(file=text).defaults_hold is hold


@pytest.mark.parametrize(
    ("columns", "elr", "since", "below"),
    [
        ("TopicId: x\t", "", "2.8", None),
        ("", "", None, None),
        ("TopicId: x\t", "\tElr: \tLastKnownElr: ", "4.0", None),
        ("TopicId: x\t", "\tElr: N/A\tLastKnownElr: N/A", "2.8", "4.0"),
    ],
)
def test_columns_of_described_topics_bound_the_version(
    columns: str, elr: str, since: str | None, below: str | None
) -> None:
    own = texts(
        t_txt=f"Topic: t\t{columns}PartitionCount: 1\tReplicationFactor: 1\tConfigs: \n"
        f"\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1{elr}\n"
    )
    assert [one and one.value for one in (own.since, own.below)] == [since, below]


def test_properties_of_a_config_map_may_be_those_of_a_command() -> None:
    own = texts(
        k_yaml="kind: StatefulSet\nspec:\n  containers:\n  - image: apache/kafka:3.9.0\n"
        "    command: [kafka-server-start.sh, /c/server.properties]\n---\nkind: ConfigMap\n"
        "data:\n  server.properties: |\n    node.id=1\n    min.insync.replicas=2\n"
    )
    assert own.kafka == Given("3.9.0", at("k.yaml:4"))
    assert not any("not given" in text for text in own.warnings)


def test_a_broken_application_in_a_config_map_is_reported() -> None:
    own = texts(
        map_yaml="kind: ConfigMap\ndata:\n  server.properties: |\n    node.id=1\n"
        "    min.insync.replicas=2\n  application.yaml: |\n    spring:\n      kafka:\n"
        '        producer:\n          acks: "1"\n       bad: x\n'
    )
    assert own.broker["min.insync.replicas"].value == "2"
    assert any(
        text.startswith("map.yaml:11: application.yaml is not used: ") for text in own.warnings
    )


def test_a_value_that_something_fills_in_is_open() -> None:
    own = texts(
        c_yml="services:\n  k:\n    image: apache/kafka:3.9.0\n    environment:\n"
        "      - KAFKA_NODE_ID=1\n      - KAFKA_MIN_INSYNC_REPLICAS=${MIN}\n",
        a_properties="spring.kafka.producer.acks=${ACKS}\nspring.kafka.producer.retries=3\n",
    )
    assert own.broker["min.insync.replicas"] == Given("", at("c.yml:6"))
    assert own.producers[0].settings["acks"] == Given("", at("a.properties:1"))
    assert own.warnings == (
        "c.yml:6: min.insync.replicas: not stated: MIN fills it in",
        "a.properties:1: acks: not stated: ACKS fills it in",
    )


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ("[kafka]\nacks=all\n[producer]\nacks=1;fast\n", {"producer": "1"}),
        ("[default]\nacks=0 # a\n[a]\nlinger.ms=1\n", {"": "0"}),
        ("[kafka]\nacks=0\n[kafka-b]\nacks=all\n", {"kafka": "0", "kafka-b": "all"}),
        ("[one]\nacks=0\n[two]\nacks=all\n", {"one": "0", "two": "all"}),
    ],
)
def test_clients_of_sections_have_their_headings(sections: str, expected: dict[str, str]) -> None:
    own = texts(c_ini=sections)
    assert {one.name: one.settings["acks"].value for one in own.producers} == {
        f"c.ini [{name}]" if len(expected) > 1 else "c.ini": acks for name, acks in expected.items()
    }


@pytest.mark.parametrize(
    ("name", "text", "warned"),
    [
        ("values.yaml", "minInsyncReplicas: 2\nreplicaCount: 3\nacks: 1\n", ["acks"]),
        ("values.yaml", "minInsyncReplicas: 2\nreplicaCount: 3\nlogLevel: info\n", []),
    ],
)
def test_a_clients_setting_beside_brokers_settings_is_warned_of(
    name: str, text: str, warned: list[str]
) -> None:
    [own] = read_texts({name: text.encode()})
    assert own.broker["min.insync.replicas"].value == "2"
    assert [one.split(": ")[1] for one in own.warnings] == warned


def test_producers_of_connect_own_topics_do_not_have_its_prefixed_settings() -> None:
    text = "group.id=c\nproducer.acks=1\nacks=0\nexactly.once.source.support={}\n" + "".join(
        f"{kind}.storage.topic=c-{kind}\n{kind}.storage.replication.factor=3\n"
        for kind in ("config", "offset", "status")
    )
    for support, exact in (("disabled", 0), ("preparing", 1), ("enabled", 2)):
        [own] = read_texts({"connect.properties": text.format(support).encode()})
        values = {
            one.writes: tuple(
                one.settings[key].value if key in one.settings else ""
                for key in ("acks", "max.in.flight.requests.per.connection")
            )
            for one in own.producers
        }
        transactional = [one.writes for one in own.producers if "transactional.id" in one.settings]
        names = ("c-config", "c-offset", "c-status")
        assert values.pop("")[0] == "1"
        assert {name: acks for name, (acks, _) in values.items()} == dict.fromkeys(names, "all")
        assert [name for name in transactional if name] == [*names[:exact]]
        assert {in_flight for _, in_flight in values.values()} <= {"1", ""}
        assert {one.exactly_once for one in own.producers} == {
            Given(support, at("connect.properties:4"))
        }
        retries = {one.writes: "retries" in one.settings for one in own.producers}
        assert [topic for topic, stated in retries.items() if stated] == ["c-status"]


@pytest.mark.parametrize(
    ("zookeeper", "mode"), [("", "kraft"), ("zookeeper: {enabled: true}\n", "zookeeper")]
)
def test_a_chart_with_controllers_runs_with_kraft(zookeeper: str, mode: str) -> None:
    chart = "controller: {replicaCount: 3}\nextraConfig: |\n  min.insync.replicas=2\n"
    [own] = read_texts({"values.yaml": (chart + zookeeper).encode()})
    assert own.mode
    assert own.mode.value == mode


@pytest.mark.parametrize(("protocol", "since"), [("2.8-IV1", "2.8"), ("latest", None)])
def test_the_brokers_protocol_bounds_the_version(protocol: str, since: str | None) -> None:
    text = f"zookeeper.connect=z:2181\ninter.broker.protocol.version={protocol}\n"
    [own] = read_texts({"server.properties": text.encode()})
    assert (own.since.value if own.since else None) == since


def test_a_repository_of_many_files_is_read(tmp_path: Path, monkeypatch) -> None:
    """Only trees that mention a setting of Kafka are parsed, here and in an earlier revision."""
    parsed: list[str] = []
    recognised = reading.recognised

    def counted(source: Source) -> object:
        parsed.append(source.name)
        return recognised(source)

    monkeypatch.setattr(reading, "recognised", counted)
    for number in range(2_100):
        (tmp_path / f"messages-{number}.yaml").write_text(f"label: {{text: {number}}}\n")
    (tmp_path / "producer.properties").write_text("acks=1\n")
    (own,) = reading.read_clusters([tmp_path])
    assert [one.file for one in own.read] == [str(tmp_path / "producer.properties")]
    assert parsed == [str(tmp_path / "producer.properties")]
    named = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (before,) = reading.read_texts(named)
    assert [one.file for one in before.read] == ["producer.properties"]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("deploy/producer.properties", True),
        ("node_modules/x/producer.properties", False),
        ("src/Main.java", False),
        (".ackproof.yaml", False),
    ],
)
def test_an_earlier_revision_has_the_files_that_a_folder_has(name: str, wanted: bool) -> None:
    assert reading.may_be_configuration(PurePath(name)) is wanted


def test_the_directory_of_a_run_is_nobodys_configuration(tmp_path: Path) -> None:
    """It has the settings that the run was told, also of topics."""
    (tmp_path / "producer.properties").write_text("acks=1\n")
    run = tmp_path / "runs" / "20261129T180314Z-acks-1"
    (run / "logs").mkdir(parents=True)
    (run / "overview.json").write_text('{"name": "orders", "min.insync.replicas": "2"}')
    (run / "logs" / "broker-1.properties").write_text("min.insync.replicas=2\n")
    (run / "scenario.yaml").write_text("version: 1\n")
    # A person's folder may have a scenario.
    assert sum(len(one.read) for one in reading.read_clusters([tmp_path])) > 1
    (run / "run.json").write_text("{}")
    (own,) = reading.read_clusters([tmp_path])
    assert [one.file for one in own.read] == [str(tmp_path / "producer.properties")]


def test_a_folder_passes_over_no_file_that_is_read_by_its_name() -> None:
    """Each format says by which word its files may be found; a wrong word hides them in folders."""
    inputs = [path for folder in (FILES, FILES.parent / "cases") for path in folder.iterdir()]
    hidden = []
    for path in inputs:
        if path.is_file() and path.name.endswith(reading._TREES) and path.name not in _LISTS:
            text = path.read_text(encoding="utf-8", errors="replace")
            if not reading._mentions().search(text) and _is_read(path):
                hidden.append(path.name)
    assert hidden == []


_LISTS = ("expected.json", "refused.json")


def _is_read(path: Path) -> bool:
    try:
        return any(own.read for own in read_clusters([path], kafka="3.9.1"))
    except ScenarioError:
        return True
