"""What may be said of a cluster that is there already, and what is refused before it is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from ackproof.errors import ScenarioError
from ackproof.scenario.attach import AttachSpec
from ackproof.scenario.loader import dump, load

KILL = {"fault": "docker", "target": "leader of mine-orders-0"}


def scenario(tmp_path: Path, *, faults: list[Any] | None = None, **attach: Any) -> Path:
    document = {
        "version": 1,
        "name": "attached",
        "cluster": {"attach": {"bootstrap": "kafka:9092", "topic_prefix": "mine-", **attach}},
        "topics": {"mine-orders": {"replication_factor": 5}},
        "workload": {
            "topic": "mine-orders",
            "settings": {"acks": "all", "enable.idempotence": True},
        },
        "faults": faults or [],
    }
    path = tmp_path / "s.yaml"
    YAML().dump(document, path)
    return path


def test_a_dumped_scenario_loads_as_itself(tmp_path: Path) -> None:
    (configured,) = load(scenario(tmp_path))
    dump(configured.scenario, tmp_path / "resolved.yaml")
    (again,) = load(tmp_path / "resolved.yaml")
    assert again.scenario == configured.scenario


@pytest.mark.parametrize(
    ("attach", "faults", "message"),
    [
        ({"i_own": "other:9092"}, [], "'other:9092' is not the cluster"),
        ({}, [KILL], "set cluster.attach.i_own to 'kafka:9092'"),
        ({"i_own": "kafka:9092"}, [KILL], "set cluster.attach.containers"),
        ({"client": {"plugin.library.paths": "any.so"}}, [], "loads code into the client"),
        ({"client": {"sasl.kerberos.keytab": '";touch any;"'}}, [], "that a shell executes"),
        ({"i_own": "kafka:9092"}, [{"fault": "kill", "target": 1}], "that 'kill' may act on"),
        ({"i_own": "kafka:9092"}, [{"fault": "isolate", "target": 1}], "'isolate' needs"),
        (
            {},
            [{"fault": "none", "when": "lag of broker 1 on mine-orders-0 == 0"}],
            "is read from brokers' disks: not of an attached cluster",
        ),
        ({"topic_prefix": "yours-"}, [], "must begin with 'yours-'"),
        ({"client": {"bootstrap.servers": "x:1"}}, [], "set by ackproof itself"),
        ({"bootstrap": "kafka"}, [], "bootstrap"),
    ],
)
def test_an_illegal_attach_is_refused(
    attach: dict[str, Any], faults: list[Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError, match=r"s\.yaml:[0-9]+") as refused:
        load(scenario(tmp_path, faults=faults, **attach))
    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["docker", "kill", "restart", "rolling_restart", "pause"])
def test_faults_of_processes_are_taken_where_containers_are_listed(
    name: str, tmp_path: Path
) -> None:
    faults = [{"fault": name, "target": 1}]
    (configured,) = load(
        scenario(tmp_path, faults=faults, i_own="kafka:9092", containers={1: "kafka-1"})
    )
    assert [fault.name for fault in configured.scenario.faults] == [name]


def test_faults_of_the_network_need_the_ports_of_listed_containers(tmp_path: Path) -> None:
    faults = [{"fault": "isolate_replication", "target": 1}]
    listed = {"i_own": "kafka:9092", "containers": {1: "kafka-1"}}
    with pytest.raises(ScenarioError, match=r"cluster\.attach\.listeners to their ports"):
        load(scenario(tmp_path, faults=faults, **listed))
    (configured,) = load(scenario(tmp_path, faults=faults, **listed, listeners={"INTERNAL": 9093}))
    assert [fault.name for fault in configured.scenario.faults] == ["isolate_replication"]


def test_faults_for_attached_clusters_are_refused_on_started_ones(tmp_path: Path) -> None:
    path = scenario(tmp_path, faults=[KILL])
    document = YAML().load(path.read_text())
    document["cluster"] = {"brokers": 5}
    YAML().dump(document, path)
    with pytest.raises(ScenarioError, match="'docker' is for clusters that ackproof did not start"):
        load(path)


@pytest.mark.parametrize("key", ["sasl.password", "ssl.key.password", "ssl.key.pem"])
def test_a_secret_in_the_file_is_refused_and_not_repeated(key: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="is a secret") as refused:
        load(scenario(tmp_path, client={key: "hunter2"}))
    assert "hunter2" not in str(refused.value)


def test_secrets_come_from_the_environment_and_are_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    (configured,) = load(scenario(tmp_path, client={"sasl.password": "${env:KAFKA_PASSWORD}"}))
    attach = configured.scenario.cluster.attach
    assert attach is not None
    assert attach.client_settings() == {"sasl.password": "hunter2"}
    dump(configured.scenario, tmp_path / "resolved.yaml")
    assert "hunter2" not in (tmp_path / "resolved.yaml").read_text()


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    attach = AttachSpec(
        bootstrap="kafka:9092",
        topic_prefix="mine-",
        client={"sasl.password": "${env:KAFKA_PASSWORD}"},
    )
    with pytest.raises(ScenarioError, match="KAFKA_PASSWORD, which is not set"):
        attach.client_settings()
