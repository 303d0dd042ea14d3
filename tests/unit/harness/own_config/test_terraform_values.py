"""Expressions of Terraform: what is resolved, and that everything else is open."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from ackproof.audit.auditing import audit_clusters
from ackproof.audit.diff import at_revision, beside_at
from ackproof.own_config.configuration import Given, OwnConfig
from ackproof.own_config.reading import read_clusters, read_texts
from support.origins import at

MINIMUM = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"
REMOVING = ("cleanup.policy", "retention.ms", "retention.bytes")
LOCALS = """\
locals {
  critical = { "min.insync.replicas" = "2" }
  weak     = { "min.insync.replicas" = 1, "cleanup.policy" = "compact" }
  copies   = 3
  name     = "orders"
  loop     = local.loop
}
variable "none" {}
variable "minimum" { default = 2 }
variable "known" { default = { "min.insync.replicas" = 2 } }
"""
TOPIC = """\
resource "kafka_topic" "orders" {{
  name               = "${{local.name}}-1"
  replication_factor = local.copies
  config             = {config}
}}
"""
BROKERS = "node.id=1\nprocess.roles=broker,controller\nmin.insync.replicas=3\n"


def read(**files: str) -> OwnConfig:
    names = {name.replace("__", ".") for name in files}
    assert len(names) == len(files)
    [own] = read_texts({name.replace("__", "."): text.encode() for name, text in files.items()})
    assert own.refused == ()
    return own


@pytest.mark.parametrize(
    ("config", "minimum"),
    [
        ("local.critical", "2"),
        ("merge(local.critical, local.weak)", "1"),
        ('merge(local.weak, {\n    "min.insync.replicas" = "2"\n  })', "2"),
        ("merge(\n    local.critical,\n    { retention.ms = 5 },\n  )", "2"),
        ("merge(null, local.critical)", "2"),
        ("tomap(local.critical)", "2"),
        ('{ "min.insync.replicas" = var.minimum }', "2"),
        ("var.known", "2"),
        ('{ "min.insync.replicas" = lookup(local.weak, "min.insync.replicas", 2) }', "1"),
        ('{ "min.insync.replicas" = lookup(local.weak, "other", 2) }', "2"),
        ("{ min.insync.replicas = try(local.weak.other, 2) }", "2"),
    ],
)
def test_a_topic_has_the_settings_of_its_expression(config: str, minimum: str) -> None:
    own = read(main__tf=LOCALS + TOPIC.format(config=config), s__properties=BROKERS)
    [topic] = own.topics
    assert topic.settings[MINIMUM].value == minimum
    assert topic.name == "orders-1"
    assert topic.replication_factor == Given("3", at("main.tf:13"))
    assert own.warnings == ()


@pytest.mark.parametrize(
    "config",
    [
        "var.none",
        "local.missing",
        "local.loop",
        "module.settings.topic",
        "merge(local.critical, var.none)",
        "merge(local.maps...)",
        "merge(local.critical, local.weak)[0]",
        "{ for key, value in local.critical : key => value }",
        "var.none ? local.critical : local.weak",
        '{ "min.insync.replicas" = var.none }',
        '{ "min.insync.replicas" = var.none ? 2 : 1 }',
        "{ min.insync.replicas = try(var.none.other, 2) }",
        "yamldecode(file(x))",
    ],
)
def test_what_cannot_be_resolved_is_open_and_has_not_the_brokers_value(config: str) -> None:
    own = read(main__tf=LOCALS + TOPIC.format(config=config), s__properties=BROKERS)
    [topic] = own.topics
    assert topic.settings[MINIMUM] == Given("", at("main.tf:14"))
    assert any(text.startswith(f"main.tf:14: {MINIMUM}") for text in own.warnings)


def test_a_later_map_of_a_merge_counts_beside_one_that_is_not_known() -> None:
    own = read(main__tf=LOCALS + TOPIC.format(config="merge(var.none, local.critical)"))
    [topic] = own.topics
    assert topic.settings == {
        MINIMUM: Given("2", at("main.tf:2")),
        **dict.fromkeys((UNCLEAN, *REMOVING), Given("", at("main.tf:14"))),
    }


def test_a_topic_without_settings_has_those_of_the_brokers() -> None:
    for config in ("null", "{}", "merge(null, {})"):
        own = read(main__tf=LOCALS + TOPIC.format(config=config), s__properties=BROKERS)
        assert own.topics[0].settings == {}


def test_locals_that_refer_to_each_other_many_times_are_resolved_once() -> None:
    """Without a memory of values, the time grows with 4 to the power of the number of locals."""
    calls = "".join(f"  l{at} = merge({', '.join([f'local.l{at + 1}'] * 4)})\n" for at in range(12))
    text = f"locals {{\n{calls}  l12 = local.critical\n}}\n" + LOCALS
    started = time.monotonic()
    own = read(main__tf=text + TOPIC.format(config="local.l0"))
    assert own.topics[0].settings[MINIMUM].value == "2"
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("opening", ["f(", "{ a = ", "["])
def test_a_file_without_end_of_nesting_is_refused(opening: str) -> None:
    text = LOCALS + TOPIC.format(config=opening * 6_000)
    [own] = read_texts({"main.tf": text.encode()})
    [refused] = own.refused
    assert "nested too deeply" in refused.reason


REPEATED = """\
resource "kafka_topic" "all" {
  for_each           = ENTRIES
  name               = each.key
  replication_factor = try(each.value.copies, 3)
  config             = each.value.config
}
"""


def test_each_entry_of_for_each_is_a_topic() -> None:
    topics = (
        "locals {\n  topics = {\n    a = { copies = 2, config = {} }\n"
        '    b = { config = { "min.insync.replicas" = 2 } }\n  }\n}\n'
    )
    own = read(main__tf=topics + REPEATED.replace("ENTRIES", "local.topics"))
    assert {
        topic.name: (
            topic.replication_factor and topic.replication_factor.value,
            MINIMUM in topic.settings,
        )
        for topic in own.topics
    } == {"a": ("2", False), "b": ("3", True)}
    own = read(main__tf=REPEATED.replace("ENTRIES", "var.topics"))
    [topic] = own.topics
    assert topic.settings[MINIMUM].value == ""
    assert topic.replication_factor is None


def test_locals_and_variables_may_be_in_files_of_the_module() -> None:
    files = {
        "main.tf": TOPIC.format(config="local.critical").replace("local.copies", "var.copies"),
        "locals.tf": LOCALS,
        "variables.tf": 'variable "copies" { default = 1 }\n',
        "terraform.tfvars": "copies = 2\n",
    }
    [own] = read_texts({name: text.encode() for name, text in files.items()})
    [topic] = own.topics
    assert topic.settings == {MINIMUM: Given("2", at("locals.tf:2"))}
    assert topic.replication_factor == Given("2", at("main.tf:3"))


@pytest.mark.parametrize(
    ("files", "value"),
    [
        ({"terraform.tfvars": "copies = 2\n"}, "2"),
        ({"terraform.tfvars": "copies = 2\n", "prod.auto.tfvars": "copies = 4\n"}, "4"),
        ({"a.auto.tfvars": "copies = 4\n", "b.auto.tfvars": "copies = 5\n"}, "5"),
        ({"b.auto.tfvars": "copies = 4\n", "terraform.tfvars.json": '{"copies": 2}'}, "4"),
        ({"x.auto.tfvars.json": '{"copies": 6}'}, "6"),
        ({"prod.tfvars": "copies = 7\n"}, "1"),
        ({"x.auto.tfvars.json": "[" * 9, "y.auto.tfvars": "{" * 9}, "1"),
    ],
)
def test_values_of_variables_are_those_of_the_files_that_terraform_reads_by_itself(
    files: dict[str, str], value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = TOPIC.format(config="{}").replace("local.copies", "var.copies")
    module = {"main.tf": topic, "inputs.tf": 'variable "copies" { default = 1 }\n', **files}
    monkeypatch.chdir(tmp_path)
    for name, text in module.items():
        Path(name).write_text(text, encoding="utf-8")
    [own] = read_clusters([Path("main.tf")])
    assert own.topics[0].replication_factor == Given(value, at("main.tf:3"))
    texts = {name: text.encode() for name, text in module.items()}
    [of_texts] = read_texts(texts)
    assert of_texts.topics == own.topics


@pytest.mark.parametrize("config", ["module.x.config", "merge(local.critical, var.none)"])
def test_retention_of_a_map_that_is_not_resolved_is_not_the_brokers(config: str) -> None:
    brokers = BROKERS + "log.retention.ms=1000\nlog.cleanup.policy=compact\n"
    text = LOCALS + TOPIC.format(config=config)
    files = {"main.tf": text.encode(), "s.properties": brokers.encode()}
    clusters = read_texts(files, kafka="4.1.1")
    assert {clusters[0].topics[0].settings[key] for key in REMOVING} == {
        Given("", at("main.tf:14"))
    }
    whole = audit_clusters(clusters)
    assert not any(one.effect == "removed" for answer in whole.answers for one in answer.risks)
    assert any("which something else fills in (main.tf:14)" in one for one in whole.not_looked_at)
    known = LOCALS + TOPIC.format(config="local.critical")
    whole = audit_clusters(read_texts({**files, "main.tf": known.encode()}, kafka="4.1.1"))
    assert any(one.effect == "removed" for answer in whole.answers for one in answer.risks)


def test_the_settings_of_amazon_that_are_not_resolved_are_those_of_brokers() -> None:
    own = read(main__tf=MSK.format("templatefile(x)"))
    assert {"log.retention.ms", MINIMUM} <= own.broker.keys()
    assert not {"retention.ms", "cleanup.policy"} & own.broker.keys()


def test_a_revision_has_its_own_locals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of a local in a file that is not named is compared, too."""
    monkeypatch.chdir(tmp_path)
    Path("main.tf").write_text(TOPIC.format(config="local.critical"), encoding="utf-8")
    Path("locals.tf").write_text(LOCALS, encoding="utf-8")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        name = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *name, *words], check=True)
    weaker = LOCALS.replace('"2"', '"1"')
    Path("locals.tf").write_text(weaker, encoding="utf-8")
    paths = [Path("main.tf")]
    [earlier] = read_texts(at_revision(paths, "HEAD"), elsewhere=beside_at("HEAD"))
    [now] = read_clusters(paths)
    assert earlier.topics[0].settings[MINIMUM].value == "2"
    assert now.topics[0].settings[MINIMUM].value == "1"


MSK = 'resource "aws_msk_configuration" "c" {{\n  server_properties = {}\n}}\n'


@pytest.mark.parametrize(
    ("properties", "given"),
    [
        ('file("server.properties")', Given("3", at("server.properties:3"))),
        ('file("${path.module}/server.properties")', Given("3", at("server.properties:3"))),
        ('file("missing.properties")', Given("", at("main.tf:2"))),
        ('templatefile("server.tpl", {})', Given("", at("main.tf:2"))),
        (
            'join("\\n", [for key, value in local.x : "${key}=${value}"])',
            Given("", at("main.tf:2")),
        ),
        ("<<EOT\nmin.insync.replicas=${var.x}\nEOT\n", Given("", at("main.tf:3"))),
        ("<<EOT\nmin.insync.replicas=2\nEOT\n", Given("2", at("main.tf:3"))),
    ],
)
def test_the_properties_of_amazon_may_be_in_a_file(
    properties: str, given: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.tf").write_text(MSK.format(properties))
    Path("server.properties").write_text(BROKERS)
    [own] = read_clusters([Path("main.tf")])
    assert own.broker[MINIMUM] == given
