"""What is read though it looks odd, and what is refused with its cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.own_config.reading import read_clusters, read_texts
from ackproof.own_config.tree import without_comments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{\n // one\n "a": "http://x" /* two\n */, "b": 1}', '{ "a": "http://x" , "b": 1}'),
        ('// first\n{"a": "// no"}', '\n{"a": "// no"}'),
        ('[{"a": "\\"// no"}] // end', '[{"a": "\\"// no"}]'),
        ("[kafka]\nurl = http://x\n", "[kafka]\nurl = http://x\n"),
        ("a: http://x\n", "a: http://x\n"),
        ("// a program\nimport x\n", "// a program\nimport x\n"),
    ],
)
def test_comments_of_json_are_blanked_and_other_texts_are_left(text: str, expected: str) -> None:
    blanked = without_comments(text)
    assert blanked.split() == expected.split()
    assert blanked.count("\n") == text.count("\n")


ENGINE = """\
services:
  kafka:
    image: apache/kafka:3.9.1
    deploy: {{replicas: 3}}
    environment:
      - KAFKA_PROCESS_ROLES=broker,controller
      - KAFKA_NODE_ID={}
"""


@pytest.mark.parametrize("filled", ["{{.Task.Slot}}", "{{ .Node.Hostname }}", "{{.Service.Name}}"])
def test_what_the_engine_of_swarm_fills_in_is_not_stated(filled: str) -> None:
    [own] = read_texts({"compose.yml": ENGINE.format(filled).encode()})
    assert own.refused == ()
    assert "node.id" not in own.broker
    assert own.brokers is not None
    assert own.brokers.value == 3
    [warning] = own.warnings
    assert warning.startswith("compose.yml:7: node.id: not stated: the engine fills in ")


@pytest.mark.parametrize("filled", ["{{ .Values.id }}", "{{ node_id }}", "{{.Task}}"])
def test_other_templates_are_refused(filled: str) -> None:
    [own] = read_texts({"compose.yml": ENGINE.format(filled).encode()})
    [refused] = own.refused
    assert "(line 7): render it first" in refused.reason


CONNECTOR = '{\n  "connector.class": "a.B",\n  "producer.override.acks": "1"\n}'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"curl -X PUT http://c:8083/a -d '{CONNECTOR}'\n", 3),
        (f"#!/bin/sh\ncurl http://c:8083/a --data @- <<'EOF'\n{CONNECTOR}\nEOF\necho done\n", 5),
        (f"#!/bin/sh\n# curl -d '{CONNECTOR}'\n", 0),
        (f"#!/bin/sh\necho '{CONNECTOR}'\n", 0),
    ],
)
def test_json_that_curl_sends_is_read(text: str, line: int) -> None:
    [own] = read_texts({"connector.sh": text.encode()})
    if not line:
        assert [one.file for one in own.refused] == ["connector.sh"]
        return
    [producer] = own.producers
    assert str(producer.settings["acks"].source) == f"connector.sh:{line}"


def test_json_that_is_broken_in_a_command_is_reported() -> None:
    text = f"kafka-topics --create --topic t\ncurl -d '{CONNECTOR[:-1]}, x: [}}'\n"
    [own] = read_texts({"connector.sh": text.encode()})
    [warning] = own.warnings
    assert warning.startswith("connector.sh:2: JSON in a command is not used")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('[{"name": "k", "image": "apache/kafka:3.9.0"}]', True),
        ('[{"name": "k"}]', False),
        ("[]", False),
    ],
)
def test_a_bare_list_of_containers_is_read_as_of_a_task(text: str, read: bool) -> None:
    [own] = read_texts({"containers.json": text.encode()})
    assert (own.kafka is not None) is read


FLUENT_BIT = "[OUTPUT]\n    name kafka\n    topics t\n"


@pytest.mark.parametrize("beside", [True, False])
def test_a_folder_gives_the_reason_that_a_file_alone_gets(beside: bool, tmp_path: Path) -> None:
    (tmp_path / "fluent-bit.conf").write_text(FLUENT_BIT)
    (tmp_path / "notes.yml").write_text("web: {port: 80}\n")
    if beside:
        (tmp_path / "server.properties").write_text("node.id=1\nprocess.roles=broker\n")
    [own] = read_clusters([tmp_path])
    [alone] = read_clusters([tmp_path / "fluent-bit.conf"])
    [refused] = alone.refused
    cause = refused.reason.partition(": ")[2]
    assert cause.startswith("a configuration of Fluent Bit")
    texts = own.warnings if beside else tuple(one.reason for one in own.refused)
    assert any(text.endswith(cause) for text in texts)
    assert any("notes.yml" in text for text in own.warnings) is beside


@pytest.mark.parametrize(
    ("name", "text", "near"),
    [
        ("p.properties", "acks=all\nenable.idempotance=true\n", "enable.idempotence"),
        ("c.properties", "group.id=g\nenable.auto.comit=false\n", "enable.auto.commit"),
        ("p.properties", "acks=all\nvalue.serializer=x\nmy.own.setting=1\n", ""),
        ("p.properties", "queue.buffering.max.ms=1\nacks=all\n", ""),  # librdkafka's
    ],
)
def test_a_misspelt_setting_of_a_client_is_reported(name: str, text: str, near: str) -> None:
    [own] = read_texts({name: text.encode()})
    assert [one for one in own.warnings if "did you mean" in one] == [
        one for one in own.warnings if near and one.endswith(f"did you mean '{near}'?")
    ]
    assert any("did you mean" in one for one in own.warnings) is bool(near)


def reason(name: str, text: str) -> str:
    [own] = read_texts({name: text.encode()})
    [refused] = own.refused
    return refused.reason


@pytest.mark.parametrize(
    ("name", "text", "cause"),
    [
        ("k.nomad", 'job "kafka" {\n  template { data = "{{ with secret }}" }\n}\n', "Nomad"),
        ("k.rb", "default['a']['kafka']['min_insync_replicas'] = 1\n", "Chef"),
        ("k.pp", "class kafka::server(\n  $replicas = 1,\n) {\n}\n", "Puppet"),
        ("k.yml", "kafka_version: 3.9.1\nkafka_min_insync_replicas: 2\n", "a role of Ansible"),
        ("k.sh", "helm upgrade --install kafka bitnami/kafka \\\n  --set a=1\n", "a chart"),
        ("k.yml", "apiVersion: dapr.io/v1alpha1\nkind: Component\nspec:\n  type: kafka\n", "Dapr"),
        (
            "k.yml",
            "apiVersion: apps/v1\nkind: StatefulSet\nspec:\n  template:\n    spec:\n"
            "      volumes:\n      - name: c\n        configMap:\n          name: kafka-config\n",
            "kafka-config",
        ),
    ],
)
def test_a_file_of_another_tool_is_refused_with_the_tool_and_a_remedy(
    name: str, text: str, cause: str
) -> None:
    assert cause in reason(name, text)
    assert not reason(name, text).endswith(".")  # no list of all formats


def test_services_that_run_nothing_are_not_taken_for_a_compose_file(tmp_path: Path) -> None:
    described = "services:\n  app:\n    type: kafka-streams\n    produces: [orders]\n"
    assert "compose" not in reason("state.yaml", described)
    compose = tmp_path / "compose.yaml"
    compose.write_text("services:\n  web:\n    image: nginx\n")
    [refused] = read_clusters([compose])[0].refused
    assert "compose" in refused.reason


def test_blocks_without_end_are_refused() -> None:
    text = "akka.kafka.producer {\n" + "a {\n" * 3_000 + "acks = 1\n"
    [own] = read_texts({"application.conf": text.encode()})
    assert [refused.file for refused in own.refused] == ["application.conf"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "cat << EOF | kubectl apply -f -\napiVersion: kafka.strimzi.io/v1\nkind: Kafka\nEOF\n",
            "shell",
        ),
        ('curl -X PUT http://c:8083/kafka -d \'{\n"connector.class": "a.B"\n}\'\n', "shell"),
        ("data class KafkaConfig(\n    val replicationFactor: Short = 1\n)\n", "Kotlin"),
    ],
)
def test_a_script_without_a_first_line_and_other_programs_are_named(text: str, kind: str) -> None:
    [own] = read_texts({"settings.txt": text.encode()})
    [refused] = own.refused
    cause = "a shell script" if kind == "shell" else f"{kind} source"
    assert cause in refused.reason
