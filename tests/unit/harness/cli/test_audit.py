"""`ackproof audit`: from files to risks, exit codes and bad input."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from ackproof.audit.answer import Effect
from ackproof.audit.failure import Failure
from ackproof.audit.risks import kinds
from ackproof.cli.audit import name_slowest
from ackproof.containers import engine
from ackproof.errors import AckproofError, ExitCode
from command_line import ackproof

SERVER = "default.replication.factor=3\nmin.insync.replicas={0}\n"
ALL = "acks=all\nenable.idempotence=true\n"
COMPOSE = """
services:
  kafka-1: &broker
    image: confluentinc/cp-kafka:7.9.1
    environment: &env
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_DEFAULT_REPLICATION_FACTOR: 3
      KAFKA_MIN_INSYNC_REPLICAS: 1
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: 1
  kafka-2:
    <<: *broker
    environment: {<<: *env, KAFKA_NODE_ID: 2}
  kafka-3:
    <<: *broker
    environment: {<<: *env, KAFKA_NODE_ID: 3}
"""
SPRING = "spring.kafka.producer.acks=1\nspring.kafka.consumer.enable-auto-commit=true\n"
UNCLEAN = SERVER.format(2) + "unclean.leader.election.enable=true\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return tmp_path


def write(files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    return list(files)


def audited(capsys, files: dict[str, str], *options: str) -> tuple[int, dict]:
    code = ackproof("audit", *write(files), *options, "--json")
    return code, json.loads(capsys.readouterr().out)


def risks(document: dict) -> set[tuple[str, str, str]]:
    return {
        (risk["effect"], "+".join(sorted(risk["failures"])), risk["case"] or "")
        for answer in document["answers"]
        for risk in answer["risks"]
    }


def topics(count: int) -> dict[str, str]:
    """Return a producer's file and a description of topics, of which the odd ones are weaker."""
    lines = (
        f"Topic: t{number}\tTopicId: A\tPartitionCount: 1\tReplicationFactor: 3\tConfigs: "
        f"min.insync.replicas={2 - number % 2}\n"
        for number in range(count)
    )
    return {"topics.txt": "".join(lines), "p.properties": ALL}


def brokers(server: str, producer: str) -> dict[str, str]:
    return {"server.properties": server, "producer.properties": producer}


@pytest.mark.parametrize(
    ("files", "version", "risk", "survived"),
    [
        (brokers(SERVER.format(1), ALL), "3.9.1", ("lost", "lag+power_loss", "B5"), ["crash"]),
        (brokers(SERVER.format(1), ALL), "4.3.1", ("lost", "lag+power_loss", "B5"), ["crash"]),
        (brokers(SERVER.format(2), ALL), "3.9.1", ("lost", "lag+power_loss", "B6"), ["crash"]),
        (brokers(SERVER.format(2), "acks=1\n"), "4.3.1", ("lost", "crash", "B2"), None),
        (brokers(SERVER.format(2), "acks=1\n"), "4.3.1", ("lost", "lost_session", "B3"), None),
        (brokers(SERVER.format(2), "acks=0\n"), "4.3.1", ("lost", "crash", "B1"), None),
        (brokers(UNCLEAN, ALL), "3.9.1", ("lost", "crash+lag", "B4"), ["crash"]),
        (brokers(SERVER.format(2), ALL), "4.3.1",
         ("lost", "power_loss+power_loss+power_loss", "B9"), ["crash", "crash"]),
        (brokers(SERVER.format(2), ALL), "4.3.1", ("writes_stop", "crash+crash", ""), ["crash"]),
        (brokers(SERVER.format(2), "acks=1\ntransactional.id=tx\n"), "4.3.1",
         ("refused", "", ""), None),
        ({"c.yml": COMPOSE, "a.properties": SPRING}, "", ("lost", "crash", "B2"), None),
        ({"c.yml": COMPOSE, "a.properties": SPRING}, "", ("reprocessed", "consumer_crash", "B26"),
         None),
    ],
)  # fmt: skip
def test_files_lead_to_risks(folder, capsys, files, version, risk, survived) -> None:  # noqa: PLR0917
    code, document = audited(capsys, files, *(["--kafka", version] if version else []))
    assert code == ExitCode.VIOLATED
    assert risk in risks(document)
    if survived:
        [answer] = document["answers"]
        larger = [sorted(one) for one in answer["survives"] if set(survived) <= set(one)]
        assert larger
        assert ("lost", "+".join(survived), risk[2]) not in risks(document)


def test_each_value_has_its_source(folder, capsys) -> None:
    _, document = audited(capsys, {"c.yml": COMPOSE, "a.properties": SPRING})
    assert document["kafka"]["version"] == {"value": "3.9", "source": "c.yml:4"}
    [answer] = document["answers"]
    assert answer["settings"]["min.insync.replicas"] == {"value": "1", "source": "c.yml:9"}
    assert answer["settings"]["acks"] == {"value": "1", "source": "a.properties:1"}
    [crash] = [
        one for one in answer["risks"] if one["case"] == "B2" and one["failures"] == ["crash"]
    ]
    assert crash["decided_by"][0]["source"] == "a.properties:1"
    assert crash["decided_by"][0]["change"] == "all"
    assert crash["trace"]


def test_nothing_unstated_is_assumed(folder, capsys) -> None:
    _, document = audited(capsys, {"s.properties": SERVER.format(2)})
    assert document["kafka"]["version"] == {"value": None, "source": None}
    [answer] = document["answers"]
    assert {"kafka.version", "acks"} <= set(answer["unstated"])
    for risk in answer["risks"]:
        if risk["case"] == "B2":
            assert risk["when"]["acks"] == "1"
    sources = [given["source"] for given in answer["settings"].values()]
    assert "default of Kafka 4.3.1" not in sources


def test_screen_answers_first(folder, capsys) -> None:
    kraft = f"process.roles=broker,controller\n{SERVER.format(1)}"
    files = write(brokers(kraft, ALL))
    assert ackproof("audit", *files, "--kafka", "3.9.1") == ExitCode.VIOLATED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "Can you lose acknowledged records?  YES, after followers fall behind"
    )
    assert any(line.startswith("Change first: min.insync.replicas=2  (now 1,") for line in lines)
    assert len(lines) < 50


@pytest.mark.parametrize(("stated", "shared"), [("acks=all", True), ("batch-size=1", False)])
def test_values_that_change_no_loss_share_the_column_of_today(
    folder, capsys, stated: str, shared: bool
) -> None:
    """Nobody states the client's version: it decides about losses by its default of acks."""
    files = write({"compose.yml": COMPOSE, "a.properties": f"spring.kafka.producer.{stated}\n"})
    ackproof("audit", *files)
    lines = capsys.readouterr().out.splitlines()
    rule = next(at for at, line in enumerate(lines) if line.startswith(" ──"))
    head = lines[rule - 1]
    assert ("today" in head) is shared, head


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), ExitCode.VIOLATED),
        (("--fail-on", "none"), ExitCode.HOLDS),
        (("--fail-on", "reordered"), ExitCode.HOLDS),
        (("--fail-on", "lost,possible"), ExitCode.VIOLATED),
    ],
)
def test_exit_code_is_that_of_fail_on(folder, options, code) -> None:
    files = write(brokers(SERVER.format(1), ALL))
    assert ackproof("audit", *files, "--kafka", "3.9.1", *options) == code


#: A configuration with share groups, of which brokers' settings tell.
WITH_SHARES = SERVER.format(2) + "group.share.max.size=100\n"


@pytest.mark.parametrize(
    ("server", "kafka", "effects", "code"),
    [
        (WITH_SHARES, "4.3.1", "undelivered", ExitCode.VIOLATED),  # KAFKA-20742
        (WITH_SHARES, "4.4.0", "undelivered", ExitCode.HOLDS),
        (WITH_SHARES, "4.4.0", "archived", ExitCode.VIOLATED),
        (WITH_SHARES, "4.4.0", "archived,certain", ExitCode.HOLDS),
        (SERVER.format(2), "4.3.1", "undelivered,archived", ExitCode.HOLDS),
    ],
)
def test_what_share_groups_skip_or_give_up_fails_if_it_is_asked_for(
    folder, server, kafka, effects, code
) -> None:
    files = write(brokers(server, ALL))
    assert ackproof("audit", *files, "--kafka", kafka, "--fail-on", effects) == code


def test_accepted_risks_do_not_fail(folder, capsys) -> None:
    files = brokers(SERVER.format(2), ALL)
    _, document = audited(capsys, files, "--kafka", "4.3.1")
    cases = {case for effect, _, case in risks(document) if effect == "lost"}
    accepted = "accept:\n" + "".join(f"- {{case: {case}, reason: tested}}\n" for case in cases)
    write({".ackproof.yaml": accepted})
    code, document = audited(capsys, files, "--kafka", "4.3.1")
    assert code == ExitCode.HOLDS
    assert {one["accepted"] for one in document["answers"][0]["risks"] if one["effect"] == "lost"}
    write({".ackproof.yaml": accepted.replace("tested}", "tested, until: 2020-01-01}")})
    code, document = audited(capsys, files, "--kafka", "4.3.1")
    assert code == ExitCode.VIOLATED
    assert any("the risk counts again" in warning for warning in document["warnings"])


def test_clients_whose_files_have_one_name_are_compared_each_with_itself(folder, capsys) -> None:
    """Another service with acks=1 does not hide what a weaker minimum puts at risk."""
    for side, minimum in (("before", 2), ("after", 1)):
        write(
            {
                f"{side}/server.properties": SERVER.format(minimum),
                f"{side}/orders/producer.properties": ALL,
                f"{side}/clicks/producer.properties": "acks=1\n",
            }
        )
    code = ackproof("audit", "after", "--against", "before", "--kafka", "3.9.1", "--json")
    more = json.loads(capsys.readouterr().out)["against"]["more"]
    assert code == ExitCode.VIOLATED
    assert [Path(one["producer"]).parts[-2] for one in more] == ["orders"]


@pytest.mark.parametrize("options", [["--scenario", "client_crash"], ["--prove", "B4"]])
def test_nothing_is_left_by_a_proof_that_cannot_be_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """No fault makes the first reliably, and no engine runs the second."""

    def no_engine() -> None:
        raise AckproofError("no engine")

    monkeypatch.setattr(engine, "connect", no_engine)
    files = write(brokers(SERVER.format(1), ALL))
    before = sorted(Path().rglob("*"))
    code = ackproof("audit", *files, "--kafka", "3.9.1", *options, "--to", "made/here")
    assert code in (ExitCode.USAGE, ExitCode.ENVIRONMENT)
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name configuration files or a folder"),
        (["missing.properties"], "missing.properties: no such file"),
        (["empty"], "a folder without a file in which a setting of Kafka is recognised"),
        (["main.go"], "programs are not read"),
        (["s.properties", "--fail-on", "losst"], "'losst' is none of"),
        (["s.properties", "--kafka", "new"], "new"),
        (["s.properties", "--topic", "orders"], "no file has a topic 'orders'"),
        (["s.properties", "--against", "no-such-branch"], "nor a revision of git"),
        (["alone.yml", "--scenario", "B99"], "'B99' is no risk of this configuration"),
        (["s.properties", "--sarif", "no/such/folder/x.sarif"], "no/such/folder"),
        (["bad.properties"], "has no reason"),
    ],
)
def test_bad_input_is_one_message(folder, capsys, arguments, message) -> None:
    write({"s.properties": SERVER.format(2), "main.go": "package main\nx := 1\n"})
    image = "{image: apache/kafka:3.9.1, environment: {KAFKA_NODE_ID: 1}}"
    write({"alone.yml": f"services: {{kafka: {image}}}\n"})
    write({"bad.properties": SERVER.format(2) + "# ackproof: accept B5\n"})
    Path("empty").mkdir()
    code = ackproof("audit", *arguments)
    error = capsys.readouterr().err
    assert message in error
    assert ", ," not in error
    assert "Traceback" not in error
    assert code in (ExitCode.USAGE, ExitCode.ENVIRONMENT)
    assert code == ExitCode.USAGE or "--sarif" in arguments


def test_outputs_are_written(folder, capsys) -> None:
    files = write(brokers(SERVER.format(1), ALL))
    outputs = ("--sarif", "a.sarif", "--junit", "a.xml", "--markdown", "a.md", "--html", "a.html")
    outputs += ("--annotations",)
    assert ackproof("audit", *files, "--kafka", "3.9.1", *outputs) == ExitCode.VIOLATED
    [run] = json.loads(Path("a.sarif").read_text())["runs"]
    assert any(one["ruleId"] == "lost/B5" and one["level"] == "error" for one in run["results"])
    assert int(ET.parse("a.xml").getroot().get("failures", "0")) > 0
    assert "| after |" in Path("a.md").read_text()
    assert "followers fall behind, then a broker loses power" in Path("a.html").read_text()
    assert "::error file=server.properties,line=2,title=lost/B5" in capsys.readouterr().err


def test_only_new_risks_fail_against_a_revision(folder, capsys) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)

    files = write(brokers(SERVER.format(1), ALL))
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "x")
    compared = ("--kafka", "3.9.1", "--against", "HEAD")
    assert ackproof("audit", *files, *compared) == ExitCode.HOLDS
    assert "makes no risk possible, and ends none" in capsys.readouterr().out
    write({"producer.properties": "acks=1\n"})
    assert ackproof("audit", *files, *compared) == ExitCode.VIOLATED
    assert "makes possible:" in capsys.readouterr().out
    write(brokers(SERVER.format(2), ALL))
    assert ackproof("audit", *files, "--kafka", "4.3.1", "--against", "HEAD") == ExitCode.HOLDS


def test_scenario_of_a_risk_has_the_configuration(folder, capsys) -> None:
    files = write(brokers(SERVER.format(1), ALL))
    assert ackproof("audit", *files, "--kafka", "3.9.1", "--scenario", "b5") == ExitCode.HOLDS
    path = Path(capsys.readouterr().out.strip())
    text = path.read_text()
    assert "kafka: 3.9.1" in text
    assert "power_loss" in text
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in text, "librdkafka stops where a loss took batches"
    assert ackproof("validate", str(path)) == ExitCode.HOLDS


def test_many_topics_are_summed_up(folder, capsys) -> None:
    files = write(topics(200))
    assert ackproof("audit", *files, "--kafka", "4.3.1") == ExitCode.VIOLATED
    out = capsys.readouterr().out
    assert "records of t1 and 99 alike topics?  YES" in out
    assert re.search(r"t0 and 99 alike +p.properties +(NO|YES)", out)
    assert len(out.splitlines()) < 60
    _, document = audited(capsys, {}, *files, "--kafka", "4.3.1")
    assert [len(answer["alike"]) for answer in document["answers"]] == [99, 99]


@pytest.mark.parametrize(("limit", "named"), [(0.0, True), (3600.0, False)])
def test_a_long_audit_names_its_slowest_part(folder, capsys, monkeypatch, limit, named) -> None:
    monkeypatch.setattr("ackproof.cli.audit._LONG_S", limit)
    ackproof("audit", *write(topics(6)), "--kafka", "4.3.1", "--json")
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert ("of which judging 2 kinds of topics" in err or "of which reading took" in err) is named


def test_the_slowest_part_of_an_audit_is_that_with_most_seconds(capsys) -> None:
    name_slowest({"reading": 2.0, "judging 7 kinds": 9.6})
    assert capsys.readouterr().err == "12 s, of which judging 7 kinds took 10 s\n"


def test_the_list_has_every_effect_failure_and_kind(capsys) -> None:
    assert ackproof("audit", "--list") == ExitCode.HOLDS
    out = capsys.readouterr().out
    assert {word for word in [*Effect, *Failure, *kinds()] if word not in out} == set()
    assert "removed by: kafka.version=3.9.1" in out


def test_promise_is_the_first_line_and_the_exit_code(folder: Path, capsys) -> None:
    files = write({"server.properties": SERVER.format(1), "producer.properties": ALL})
    options = ("--kafka", "4.1.1", "--survive")
    assert ackproof("audit", *files, *options, "any 1 failure") == ExitCode.HOLDS
    assert capsys.readouterr().out.startswith("Promise to survive 'any 1 failure': KEPT")
    assert ackproof("audit", *files, *options, "power_loss, lag") == ExitCode.VIOLATED
    assert ackproof("audit", *files, *options, "any failure") == ExitCode.USAGE
    message = capsys.readouterr().err
    assert "any 1 failure" in message
    assert "clean_restart" in message
