"""Which client library a scenario names, and its version."""

from __future__ import annotations

import pytest

from ackproof.errors import ScenarioError
from ackproof.scenario.loader import dump, load

TEXT = """\
version: 1
name: c
topics:
  orders: {partitions: 3, replication_factor: 3}
workload:
  topic: orders
  client: {librdkafka: 2.3.0}
  settings: {acks: all, enable.idempotence: true}
  consumers:
    billing: {}
    audit: {client: librdkafka}
"""


@pytest.fixture
def loaded(tmp_path):
    def read(text):
        path = tmp_path / "c.yaml"
        path.write_text(text)
        return [one.scenario for one in load(path)]

    return read


def test_a_version_of_librdkafka_holds_for_all_clients_that_name_no_other(loaded, tmp_path):
    [scenario] = loaded(TEXT)
    assert [client.librdkafka for client in scenario.clients] == ["2.3.0", "2.3.0", None]
    dump(scenario, tmp_path / "stored.yaml")
    assert load(tmp_path / "stored.yaml")[0].scenario == scenario


def test_a_matrix_varies_the_version_of_librdkafka(loaded):
    matrix = "matrix: [{workload.client.librdkafka: [2.0.2, 2.16.0]}]\n"
    old, new = loaded(TEXT + matrix)
    assert old.workload.client.librdkafka == "2.0.2"
    assert new.workload.client.librdkafka == "2.16.0"


def test_a_client_that_is_refused_is_the_only_problem(loaded):
    with pytest.raises(ScenarioError, match="'newest' is not a Kafka version") as refused:
        loaded(
            TEXT.replace("{librdkafka: 2.3.0}", "{java: newest}").replace(
                ", enable.idempotence: true", ""
            )
        )
    assert "settings" not in str(refused.value)


@pytest.mark.parametrize(
    ("client", "problem"),
    [
        ("{librdkafka: 2.3}", "2.3 is not a version of librdkafka: write a release with all"),
        ("{librdkafka: 2.3.0; rm}", "'2.3.0; rm' is not a version of librdkafka"),
        ("{librdkafka: 2.16.0rc1}", "'2.16.0rc1' is not a version of librdkafka"),
        ("{librdkafka: 2.3.0, java: 3.9.1}", "are two clients: remove one"),
    ],
)
def test_a_version_that_is_none_is_refused(loaded, client, problem):
    with pytest.raises(ScenarioError, match=r"workload\.client") as refused:
        loaded(TEXT.replace("{librdkafka: 2.3.0}", client))
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    "cluster",
    [
        "security: {tls: server}",
        "attach: {bootstrap: 'a:1', topic_prefix: ord, client: {security.protocol: sasl_ssl}}",
    ],
)
def test_a_java_client_without_pem_certificates_is_refused_with_tls(loaded, cluster):
    text = TEXT.replace("{librdkafka: 2.3.0}", "{java: 2.6.2}") + f"cluster: {{{cluster}}}\n"
    with pytest.raises(ScenarioError, match=r"Java client 2\.6\.2 reads no PEM"):
        loaded(text)
    assert loaded(text.replace("2.6.2", "2.7.0"))
