"""`--profile` and `--client`: one of several clients of a user's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.audit.request import Request, audit
from ackproof.errors import ExitCode, ScenarioError
from ackproof.own_config.reading import read_clusters, read_options
from ackproof.own_config.selection import selected
from command_line import ackproof

DATA = Path(__file__).parents[3] / "data" / "own_config"
PROFILES = DATA.parent / "cases" / "spring-profiles.yml"
TWO = (DATA / "producer.properties", DATA / "producer-zero.properties")


def settings(profile: str) -> dict[str, str]:
    [own] = selected(read_clusters([PROFILES]), profile=profile)
    [producer] = own.producers
    return {key: given.value for key, given in producer.settings.items()}


def test_profile_replaces_what_it_changes_and_keeps_the_rest() -> None:
    assert settings("dev")["acks"] == "1"
    prod = settings("prod")
    assert (prod["acks"], prod["max.in.flight.requests.per.connection"]) == ("all", "1")
    [own] = selected(read_clusters([PROFILES]), profile="prod")
    [consumer] = own.consumers
    assert not consumer.profile  # no profile changes it


def test_file_of_a_profile_replaces_the_clients_of_the_application(tmp_path: Path) -> None:
    (tmp_path / "application.yml").write_text("spring.kafka.producer.acks: all\n")
    (tmp_path / "application-dev.yml").write_text("spring.kafka.producer.acks: 1\n")
    [both] = read_clusters([tmp_path])
    assert len(both.producers) == 2
    [own] = selected([both], profile="dev")
    [producer] = own.producers
    assert producer.settings["acks"].value == "1"


def test_topic_of_a_profile_has_its_name(tmp_path: Path) -> None:
    streams = "spring.kafka.streams: {application-id: a, replication-factor: 3}\n"
    of_test = "---\nspring.config.activate.on-profile: test\n" + streams.replace("3", "1")
    (tmp_path / "application.yml").write_text(streams + of_test)
    [own] = selected(read_clusters([tmp_path]), profile="test")
    [topic] = own.topics
    assert topic.name == "the internal topics of Kafka Streams"
    assert topic.replication_factor is not None
    assert topic.replication_factor.value == "1"


@pytest.mark.parametrize("client", [str(TWO[1]), TWO[1].name])
def test_client_is_named_by_its_file(client: str) -> None:
    [own] = selected([read_options([(path, "") for path in TWO])], client=client)
    assert [one.name for one in own.producers] == [str(TWO[1])]


def test_client_is_named_by_its_name_in_the_file(tmp_path: Path) -> None:
    channels = "".join(
        f"mp.messaging.outgoing.{name}.connector=smallrye-kafka\n"
        f"mp.messaging.outgoing.{name}.acks={acks}\n"
        for name, acks in (("orders", "all"), ("clicks", "1"))
    )
    (tmp_path / "application.properties").write_text(channels)
    [own] = selected(read_clusters([tmp_path]), client="clicks")
    assert [one.settings["acks"].value for one in own.producers] == ["1"]
    clusters = read_clusters([PROFILES])
    for name in (str(PROFILES), PROFILES.name):
        [own] = selected(clusters, client=name)
        assert [one.profile for one in own.producers] == [""]


def test_unknown_names_are_refused_with_the_legal_ones() -> None:
    clusters = read_clusters([PROFILES])
    with pytest.raises(ScenarioError, match=r"--profile x: .* dev, prod"):
        selected(clusters, profile="x")
    with pytest.raises(ScenarioError, match=f"--client x: .* {PROFILES}"):
        selected(clusters, client="x")
    with pytest.raises(ScenarioError, match="they have: none"):
        selected(read_clusters(TWO), profile="dev")
    assert selected(clusters, profile="x", client="x", required=False)[0].producers == ()


def test_several_producers_are_refused_with_the_options_that_choose(capsys) -> None:
    assert ackproof("predict", "--config", str(PROFILES)) == ExitCode.USAGE
    message = " ".join(capsys.readouterr().err.split())
    assert "--profile NAME (dev, prod)" in message
    assert "--client NAME" in message
    chosen = ("--config", str(PROFILES), "--profile", "dev")
    assert ackproof("predict", *chosen) in (ExitCode.HOLDS, ExitCode.VIOLATED)
    assert "acks=1" in capsys.readouterr().err


def test_audit_answers_about_one_and_compares_it_with_its_earlier_form(tmp_path: Path) -> None:
    of = {one.producer for one in audit(Request(files=(PROFILES,), profile="dev")).answers}
    assert of == {f"{PROFILES} (profile dev)"}
    (tmp_path / "producer.properties").write_text("acks=all\nenable.idempotence=true\n")
    request = Request(files=(PROFILES,), profile="dev", against=str(tmp_path), kafka="4.1.1")
    assert audit(request).fails
