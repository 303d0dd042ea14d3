"""The smallest inputs that once had a wrong answer: what is read from each, and the right answer.

`test_advice.py` has those of which an advice was wrong, `test_monotone.py` those of a comparison.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.audit.answer import Answer, Effect
from ackproof.audit.failure import Failure
from ackproof.audit.outputs.terminal import print_audit
from ackproof.audit.request import Request, audit
from ackproof.audit.setups import setups, writers
from ackproof.console import Console
from ackproof.own_config.configuration import KAFKA_CONNECT, OwnConfig
from ackproof.own_config.reading import read_clusters, read_texts

CASES = Path(__file__).parents[3] / "data" / "cases"


def clusters(*names: str) -> tuple[OwnConfig, ...]:
    return read_clusters([CASES / name for name in names])


def cluster(*names: str) -> OwnConfig:
    [only] = clusters(*names)
    return only


def answer(*names: str, kafka: str = "") -> Answer:
    [only] = audit(Request(files=tuple(CASES / name for name in names), kafka=kafka)).groups
    return only.answer


def test_host_with_both_roles_that_names_three_voters_is_one_of_three() -> None:
    one = answer("min-01-host-1.yml")
    assert not [risk for risk in one.risks if risk.effect is Effect.REFUSED]
    assert one.settings["replication.factor"].value == "3"
    changes = {decision.setting for risk in one.risks for decision in risk.decided_by}
    assert "replication.factor" not in changes


@pytest.mark.parametrize("folder", ["min-02-two-installations", "min-03-dev-beside-prod"])
def test_two_installations_in_one_folder_are_two_clusters(folder: str) -> None:
    assert len(clusters(folder)) == 2


def test_stale_fetch_needs_no_unclean_election() -> None:
    one = answer("min-04-unclean-zookeeper.properties", "min-producer.properties", kafka="2.8.1")
    lost = {frozenset(risk.failures) for risk in one.risks if risk.effect is Effect.LOST}
    assert {Failure.LAG, Failure.LEADER_MOVE} in lost


def test_connects_own_producers_wait_for_all_replicas() -> None:
    own = cluster("min-05-connect.properties")
    assert own.producers
    for producer in own.producers:
        settings = {key: given.value for key, given in producer.settings.items()}
        assert settings["acks"] == "all"
        assert settings["max.in.flight.requests.per.connection"] == "1"


def test_image_states_one_copy_of_the_offsets_topic() -> None:
    own = cluster("min-06-bitnami-offsets.yml")
    assert own.broker["offsets.topic.replication.factor"].value == "1"


def test_racks_of_several_hosts_stay_several() -> None:
    own = cluster("min-08-racks.yml")
    assert sorted(given.value for given in own.racks.values()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "name", ["min-11-spring-streams.yml", "min-12-topic-creation.json", "min-13-topicctl.yaml"]
)
def test_replication_factor_of_a_topic_is_read(name: str) -> None:
    stated = {topic.replication_factor for topic in cluster(name).topics}
    assert {given.value for given in stated if given} == {"3"}


def test_json_with_a_comment_is_read() -> None:
    [producer] = cluster("min-14-comment.json").producers
    assert producer.settings["acks"].value == "1"


def test_msk_of_cloudformation_is_read_with_its_defaults() -> None:
    own = cluster("min-15-cloudformation.yaml")
    assert own.release == "2.8.1"
    assert own.mode is not None
    assert own.mode.value == "zookeeper"
    assert own.brokers is not None
    assert own.brokers.value == 3
    unclean = own.broker["unclean.leader.election.enable"]
    assert (unclean.value, str(unclean.source)) == ("true", "default of Amazon MSK")
    assert own.broker["min.insync.replicas"].value == "2"


def test_each_msk_cluster_of_a_template_has_its_configuration() -> None:
    template = (CASES / "min-15-cloudformation.yaml").read_text()
    second = template.split("Resources:\n")[1].replace("  C:", "  D:").replace("  K:", "  L:")
    second = second.replace("!Ref C", "!GetAtt D.Arn").replace("replicas=2", "replicas=1")
    second = second.replace("Properties: {Cl", "Properties: {StorageMode: TIERED, Cl")
    every = read_texts({"two.yaml": f"{template}{second}".encode()})
    minima = {own.cluster: own.broker["min.insync.replicas"].value for own in every}
    assert minima == {"K": "2", "L": "1"}
    unclean = {own.cluster for own in every if "unclean.leader.election.enable" in own.broker}
    assert unclean == {"K"}  # with tiered storage MSK has Kafka's default


def test_template_of_cloudformation_without_msk_is_refused_with_its_cause(tmp_path: Path) -> None:
    file = tmp_path / "template.yaml"
    file.write_text("Resources:\n  B:\n    Type: AWS::S3::Bucket\n")
    [own] = read_clusters([file])
    [refused] = own.refused
    assert "CloudFormation" in refused.reason


def test_group_away_for_longer_than_retention_skips() -> None:
    one = answer(
        "min-16-latest-and-retention.txt",
        "min-consumer-latest.properties",
        "min-producer.properties",
        kafka="3.9.1",
    )
    away = [risk for risk in one.risks if risk.when.get("consumers down") == "for 1 hour"]
    assert [risk.effect for risk in away] == [Effect.UNPROCESSED]


def test_list_of_containers_is_read() -> None:
    own = cluster("min-17-container-list.json")
    assert own.release == "3.9.0"
    assert own.mode is not None
    assert own.mode.value == "kraft"


def test_templates_of_swarm_are_filled_in_by_the_engine() -> None:
    own = cluster("min-19-swarm.yml")
    assert own.brokers is not None
    assert own.brokers.value == 3
    assert own.broker["min.insync.replicas"].value == "2"


def test_only_streams_writes_its_internal_topics() -> None:
    own = cluster("min-20-ansible.yml")
    [streams] = [topic for topic in own.topics if topic.framework == "Kafka Streams"]
    frameworks = {one.framework if one else "" for one in writers(own, streams)}
    assert KAFKA_CONNECT not in frameworks
    topics = {
        setup.topic.name
        for group in setups(own)
        for setup in group
        if setup.producer and setup.producer.framework == KAFKA_CONNECT
    }
    assert streams.name not in topics


def test_json_in_a_shell_command_is_read() -> None:
    [producer] = [one for one in cluster("min-21-curl.sh").producers if not one.writes]
    assert producer.settings["acks"].value == "1"


def test_cause_of_a_refusal_is_not_lost_in_a_folder() -> None:
    own = cluster("min-22-folder")
    said = [*(one.reason for one in own.refused), *own.warnings]
    assert any("Fluent Bit" in one for one in said)


def test_brokers_that_differ_are_named_with_both_lines() -> None:
    own = cluster("min-23-compose-differs.yml")
    assert own.mode is not None
    assert own.mode.value == "zookeeper"
    assert own.broker["unclean.leader.election.enable"].value == "true"
    [warning] = [one for one in own.warnings if "unclean.leader.election.enable" in one]
    assert warning.count("min-23-compose-differs.yml:") == 2


def test_version_and_mode_of_a_parent_chart_are_read() -> None:
    own = cluster("min-24-umbrella.yaml")
    assert own.release == "3.4.0"
    assert own.mode is not None
    assert own.mode.value == "zookeeper"


def test_late_abort_holds_for_older_clients_only() -> None:
    one = answer("min-kraft-three.properties", "min-26-transactional.properties", kafka="4.1.1")
    [risk] = [risk for risk in one.risks if risk.case == "B13"]
    assert dict(risk.when) == {"producer.version": "before 4.0"}
    assert one.table is not None
    cells = [row.cells[0] for row in one.table.rows if risk.failures in row.sets]
    assert [cell.conditions for cell in cells] == [((("producer.version", "before 4.0"),),)]
    assert all(
        decision.value != "t" for each in one.risks for decision in each.decided_by
    )  # the transactional.id is the value of no other setting


@pytest.mark.parametrize("roles", ["broker", "broker,controller"])
def test_line_of_a_brokers_file_that_does_not_decide_is_named(tmp_path: Path, roles: str) -> None:
    """With eligible leader replicas the controllers' value of min.insync.replicas counts."""
    (tmp_path / "server.properties").write_text(
        f"process.roles={roles}\ndefault.replication.factor=3\nmin.insync.replicas=2\n"
        "unclean.leader.election.enable=false\n"
    )
    (tmp_path / "producer.properties").write_text("acks=all\nenable.idempotence=true\n")
    whole = audit(Request(files=(tmp_path,), kafka="4.1.1"))
    console = Console(width=200, record=True, force_terminal=False, color_system=None)
    with console.capture() as captured:
        print_audit(console, whole)
    line = "server.properties:3 is a brokers' file; the controllers' value decides"
    assert (line in captured.get()) is (roles == "broker")
