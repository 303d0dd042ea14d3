"""Every command reads the same files alike: the audit, and those that make a scenario of them.

`predict`, `run` and `compare` replace the settings of a scenario, `init` writes a file with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ackproof.audit.replication import with_rules_in_force
from ackproof.audit.setups import Setup, hidden, setups
from ackproof.errors import ScenarioError
from ackproof.kafka_versions import uses_zookeeper
from ackproof.own_config.configuration import OwnConfig
from ackproof.own_config.overlay import overlay, render
from ackproof.own_config.reading import read_clusters
from ackproof.prediction.predict import partitions_of
from ackproof.scenario import documents, loader, shipped
from ackproof.scenario.model import Scenario
from agreement.sampling import sample
from support.inputs import DATA, FILES

SCENARIO = shipped.find("your-configuration")
#: Why a scenario refuses what an audit answers: it has one value of everything.
REFUSED = (
    "this Kafka is below",
    "a controller's file",
    "has settings of brokers and was not given",
    "is not a whole number",
    "replicas need as many brokers",
)
OF_PRODUCERS = ("acks", "idempotence", "retries", "in flight")
#: What an audit has for each version if no file states it, and a scenario for the default one.
OF_VERSIONS = ("kafka", "zookeeper", "eligible leader replicas", "session", "lag")


def answered(own: OwnConfig) -> Iterator[OwnConfig]:
    """Yield the configuration of each topic with each producer, at most the first three."""
    topics = [one for one in own.topics if not one.internal and not hidden(one)][:3]
    producers = [one for one in own.producers if not one.writes][:3]
    for topic in (*topics, *([] if topics else [None])):
        for producer in (*producers, *([] if producers else [None])):
            yield replace(
                own,
                topics=(topic,) if topic else (),
                producers=(producer,) if producer else (),
            )


def by_the_audit(setup: Setup) -> dict[str, Any]:
    in_force = with_rules_in_force(setup).partition
    return {
        "zookeeper": setup.zookeeper,
        "combined": setup.combined,
        "flushed": setup.flushes_every_record,
        **_read(in_force),
    }


def by_a_scenario(scenario: Scenario) -> dict[str, Any]:
    partition = next(iter(partitions_of(scenario)))
    return {
        "zookeeper": uses_zookeeper(scenario.kafka),
        "combined": bool(scenario.cluster.combined),
        "flushed": partition.fsynced,
        **_read(partition.configuration),
    }


def _read(partition: Any) -> dict[str, Any]:
    return {
        "kafka": partition.kafka_version,
        "eligible leader replicas": partition.profile.elr,
        "acks": partition.acks,
        "idempotence": partition.idempotence,
        "retries": min(partition.retries, 3),
        "in flight": min(partition.max_in_flight, 5),
        "replicas": partition.replication_factor,
        "min.insync.replicas": partition.min_insync_replicas,
        "unclean election": partition.unclean_election,
        "lag": partition.lag_time_s,
        "session": partition.session_s,
    }


def stated_by(own: OwnConfig, name: str) -> bool:
    """Whether both readings have a value from files, or one from defaults of a stated version."""
    if name in OF_PRODUCERS:
        return bool(own.producers)
    return name not in OF_VERSIONS or own.kafka is not None or own.mode is not None


def differences(own: OwnConfig, folder: Path) -> Iterator[str]:
    assert SCENARIO is not None
    asked = own.topics[0].name if own.topics else ""
    found = [setup for group in setups(own, topic=asked) for setup in group]
    audited = [by_the_audit(setup) for setup in found]
    try:
        changes = overlay(own, documents.parse(SCENARIO)).overrides
        scenario = loader.load(SCENARIO, lambda _: changes)[0].scenario
    except ScenarioError as error:
        expected = any(reason in str(error) for reason in REFUSED)
        if not expected and not all(setup.refusal for setup in found):
            yield f"a scenario is refused: {error}"
        return
    for name, value in by_a_scenario(scenario).items():
        values = {one[name] for one in audited}
        if value not in values and stated_by(own, name) and not (name == "kafka" and not own.kafka):
            yield f"{name}: a scenario has {value}, the audit {values}"
    written = folder / "written.yaml"
    written.write_text(render(SCENARIO, own, kafka="")[0], encoding="utf-8")
    if (read_again := loader.load(written)[0].scenario) != scenario:
        yield f"init writes {read_again}, run has {scenario}"


@pytest.mark.parametrize(
    "path", sample(FILES, every=6), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_audit_and_scenarios_read_a_file_alike(path: Path, tmp_path: Path) -> None:
    found = differences_of(path, tmp_path)
    assert not found, "\n".join(found)


def differences_of(path: Path, folder: Path) -> list[str]:
    clusters = [own for own in read_clusters([path]) if own.read]
    each = [one for own in clusters for one in answered(own)]
    return [*dict.fromkeys(text for one in each for text in differences(one, folder))]


def test_a_mode_that_scenarios_do_not_read_is_a_difference(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = DATA / "own_config" / "umbrella-values.yaml"
    assert not differences_of(path, tmp_path)
    monkeypatch.setattr("ackproof.own_config.overlay._with_mode", lambda _, version: version)
    assert "zookeeper: a scenario has False, the audit {True}" in differences_of(path, tmp_path)


@pytest.mark.parametrize("kafka", ["3.9.1", "4.1.2", "4.4.0"])
@pytest.mark.parametrize("with_controllers", [True, False])
def test_the_nodes_that_decide_about_a_setting_are_the_same_everywhere(
    tmp_path: Path, kafka: str, with_controllers: bool
) -> None:
    common = "controller.quorum.voters=100@one:9093,101@two:9093,102@three:9093\n"
    broker, controller = tmp_path / "broker.properties", tmp_path / "controller.properties"
    broker.write_text(
        f"process.roles=broker\nnode.id=1\n{common}default.replication.factor=3\n"
        "min.insync.replicas=2\nunclean.leader.election.enable=true\n",
        encoding="utf-8",
    )
    controller.write_text(
        f"process.roles=controller\nnode.id=100\n{common}"
        "min.insync.replicas=1\nunclean.leader.election.enable=false\n",
        encoding="utf-8",
    )
    paths = [broker, *([controller] if with_controllers else [])]
    (own,) = read_clusters(paths, kafka=kafka)
    assert [*differences(own, tmp_path)] == []
