"""Values of charts, wherever they stand, and settings that only look like a chart's."""

from __future__ import annotations

import pytest

from ackproof.own_config.configuration import OwnConfig
from ackproof.own_config.reading import read_texts
from support.origins import at

VALUES = """\
replicaCount: 3
extraConfig: |
  default.replication.factor=3
  min.insync.replicas=2
"""


def read(text: str, name: str = "file.yaml") -> OwnConfig:
    [own] = read_texts({name: text.encode()})
    assert own.refused == ()
    return own


def _indented(text: str, depth: int) -> str:
    return "".join(f"{' ' * depth}{line}\n" for line in text.splitlines())


APPLICATION = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: k}\nspec:\n"
RELEASE = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: k}\nspec:\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(VALUES, id="values"),
        pytest.param(f"{RELEASE}  values:\n{_indented(VALUES, 4)}", id="Flux"),
        pytest.param(
            f"{APPLICATION}  source:\n    helm:\n      values: |\n{_indented(VALUES, 8)}",
            id="Argo CD, a text",
        ),
        pytest.param(
            f"{APPLICATION}  source:\n    helm:\n      valuesObject:\n{_indented(VALUES, 8)}",
            id="Argo CD, an object",
        ),
        pytest.param(
            f"{APPLICATION}  sources:\n  - helm:\n      values: |\n{_indented(VALUES, 8)}",
            id="Argo CD, several sources",
        ),
    ],
)
def test_values_are_read_wherever_they_stand_with_their_lines(text: str) -> None:
    own = read(text)
    line = next(n for n, one in enumerate(text.splitlines(), 1) if "min.insync" in one)
    assert own.brokers
    assert own.brokers.value == 3
    assert own.broker["min.insync.replicas"].source == at(f"file.yaml:{line}")
    assert own.broker["default.replication.factor"].value == "3"


def test_values_with_an_image_and_a_number_of_brokers_say_which_version_and_how_many() -> None:
    own = read("image: confluentinc/cp-kafka\nimageTag: 5.0.1\nreplicas: 3\n")
    assert own.kafka
    assert own.kafka.value == "2.0"
    assert own.brokers
    assert own.brokers.value == 3


@pytest.mark.parametrize(
    ("text", "copies"),
    [
        ("replicaCount: 3\ndefaultReplicationFactor: 3\n", "1"),
        ("replicaCount: 3\noffsetsTopicReplicationFactor: 3\n", "3"),
        ("replicaCount: 3\nimage: other/kafka\ndefaultReplicationFactor: 3\n", None),
        (VALUES, None),
    ],
)
def test_values_of_bitnamis_older_chart_have_its_defaults(text: str, copies: str | None) -> None:
    given = read(text).broker.get("offsets.topic.replication.factor")
    assert (given and given.value) == copies
    assert not given or copies == "3" or "Bitnami" in str(given.source)


def test_a_setting_that_brokers_and_transactions_have_in_their_names_is_the_brokers() -> None:
    own = read("replicaCount: 3\ntransactionStateLogReplicationFactor: 3\nacks: all\n")
    assert own.broker["transaction.state.log.replication.factor"].value == "3"
    assert own.warnings == ("file.yaml:3: acks: brokers do not read it: not used",)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.json", '{"bootstrap.servers": "k:9092", "acks": "1", "compression.type": "lz4"}'),
        ("c.json", '{"bootstrapServers": "k:9092", "acks": "1", "compressionType": "lz4"}'),
        ("c.yaml", "acks: 1\ncompressionType: lz4\n"),
    ],
)
def test_a_client_with_a_setting_that_brokers_have_too_is_a_client(name: str, text: str) -> None:
    own = read(text, name)
    [producer] = own.producers
    assert producer.settings["acks"].value == "1"
    assert own.broker == {}
    assert own.warnings == ()


@pytest.mark.parametrize("separator", ["=", ": "])
def test_flat_settings_are_of_the_same_kind_as_properties_and_as_yaml(separator: str) -> None:
    own = read(f"min.insync.replicas{separator}2\nacks{separator}1\n", "flat.conf")
    [producer] = own.producers
    assert producer.settings["acks"].value == "1"
    assert own.broker == {}
    assert own.warnings == ("flat.conf:1: min.insync.replicas: clients do not read it: not used",)
