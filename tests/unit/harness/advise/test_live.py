"""Advice about a cluster of which some brokers run, and steps of one's own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import jsonschema
import pytest
from rich.console import Console

from ackproof.advise import live as live_module
from ackproof.advise.alternatives import (
    Alternative,
    Verdict,
    alternatives,
    if_one_more_fails,
    parsed_step,
)
from ackproof.advise.bundle import Evidence, document, read_evidence, write
from ackproof.advise.live import Eligible, LiveCluster, possible, state
from ackproof.advise.rolling import restart
from ackproof.advise.screen import print_restart
from ackproof.cluster.admin import PartitionView
from ackproof.errors import ClusterError, ScenarioError
from ackproof.scenario.shipped import schema_of
from ackproof_model.advice import Ability, Elect, Fail, MinIsr, Move, Replace, Start, Step, Stop
from command_line import invoked
from support.dead_disks import DUMP, dead, disk, partition, payload
from support.json_schemas import closed
from support.snapshots import plain

PLACE = ("orders", 0)


def cluster(leader, isr, *, running=(2, 3), minimum=1, refused=()) -> LiveCluster:
    view = PartitionView(leader=leader, replicas=(1, 2, 3), isr=isr)
    return LiveCluster(
        brokers=frozenset(running),
        partitions={PLACE: view},
        settings={"orders": {"min.insync.replicas": str(minimum)}},
        refused=dict.fromkeys(refused, "TOPIC_AUTHORIZATION_FAILED"),
    )


def judged(live: LiveCluster, kafka: str = "3.9.1") -> dict[tuple[Step, ...], Alternative]:
    return {one.steps: one for one in alternatives(state(live, kafka).situations)}


def test_without_a_leader_the_last_member_of_the_isr_is_started() -> None:
    found = judged(cluster(None, (1,)))
    assert next(iter(found)) == (Start((1,)),)
    # Brokers 2 and 3 may have everything, or nothing.
    elected = found[Elect(), Start((1,))].outcomes[PLACE]
    assert elected.may_lose
    assert not elected.loses
    assert found[(Start((1,)),)].verdict == "keeps everything"


def test_with_a_leader_a_broker_that_starts_loses_nothing() -> None:
    live = cluster(2, (2,), running=(2,))
    assert len(possible(live, PLACE, kafka="3.9.1")) == 1
    assert {one.verdict for one in judged(live).values()} == {"keeps everything"}


def test_unknown_eligible_replicas_are_each_a_possibility(snapshot) -> None:
    live = cluster(None, (), running=(), minimum=2)
    states = possible(live, PLACE, kafka="4.3.1")
    assert {one.elr_members for one in states} >= {frozenset({one}) for one in (1, 2, 3)}
    assert {one.last_known_leader for one in states} == {None, 1, 2, 3}
    # Whether they stopped cleanly decides whether they stay eligible.
    assert {one.replicas[0].clean for one in states} == {True, False}
    assert "\n".join(state(live, "4.3.1").unknown) == snapshot


DESCRIBED = (
    "Topic: orders\tTopicId: x\tPartitionCount: 1\tReplicationFactor: 3\tConfigs: \n"
    "\tTopic: orders\tPartition: 0\tLeader: {leader}\tReplicas: 1,2,3\tIsr: {isr}\t"
    "Elr: {elr}\tLastKnownElr: {last}\n"
)


@pytest.mark.parametrize(
    ("elr", "last", "first"),
    [("1", "", (1,)), ("", "3", None), pytest.param("2,3", "", (2,), marks=pytest.mark.slow)],
)
def test_described_eligible_replicas_are_the_only_possibility(elr, last, first) -> None:
    live = cluster(None, (), running=(), minimum=2)
    text = DESCRIBED.format(leader="none", isr="", elr=elr, last=last)
    found = live_module.with_description(live, text)
    states = possible(found, PLACE, kafka="4.3.1")
    members = frozenset(map(int, elr.split(","))) if elr else frozenset()
    assert {one.elr_members for one in states} == {members}
    assert {one.last_known_leader for one in states} == ({int(last)} if last else {None})
    has = {one.broker for each in states for one in each.replicas if not one.log.end}
    assert has == {1, 2, 3} - (members or {int(last)})
    assert not any("eligible" in one for one in state(found, "4.3.1").unknown)
    if first:
        rest = tuple(one for one in (1, 2, 3) if one not in first)
        steps = (Start(first), Elect(), Start(rest))
        assert judged(found, "4.3.1")[steps].verdict == "keeps everything"
        assert judged(live, "4.3.1")[steps].verdict == "may lose"


def test_a_description_of_another_moment_or_version_is_not_used() -> None:
    live = cluster(None, (), running=(), minimum=2)
    for leader, isr in (("2", ""), ("none", "2")):
        text = DESCRIBED.format(leader=leader, isr=isr, elr="1", last="")
        assert live_module.with_description(live, text).eligible == {}
    with pytest.raises(ScenarioError, match="names no eligible leader replicas"):
        live_module.with_description(live, "\tTopic: orders\tPartition: 0\tLeader: 1\tIsr: 1\n")


def test_a_missing_right_is_named_and_the_default_is_said() -> None:
    found = state(cluster(2, (2, 3), refused=["orders"]), "3.9.1")
    assert any("missing right: DescribeConfigs" in one for one in found.unknown)
    assert found.defaults == ("min.insync.replicas",)
    assert not state(cluster(2, (2, 3)), "3.9.1").defaults


def test_a_lower_minimum_is_advised_where_writes_do_not_return_without_it() -> None:
    live = cluster(2, (2,), running=(2,), minimum=3)
    found = judged(live)
    assert found[Start((1, 3)),].outcomes[PLACE].writes is Ability.YES
    alone = LiveCluster(
        brokers=frozenset({2}),
        partitions={PLACE: PartitionView(leader=2, replicas=(2,), isr=(2,))},
        settings={"orders": {"min.insync.replicas": "2"}},
        refused={},
    )
    best = alternatives(state(alone, "3.5.1").situations)[0]
    assert best.steps == (MinIsr(1),)


def test_one_more_failure_counts_partitions() -> None:
    states = state(cluster(None, (1,)), "3.9.1").situations
    crash, power = if_one_more_fails(states, (Start((1,)),))
    assert (crash.what, crash.losing, crash.decided) == ("crashes", 0, True)
    assert (power.what, power.losing) == ("loses power", 1)


def test_a_topic_without_reported_partitions_is_no_cluster_without_partitions(monkeypatch) -> None:
    monkeypatch.setattr(live_module.Preflight, "topics", lambda _: frozenset({"orders"}))
    monkeypatch.setattr(live_module.Admin, "partitions", lambda _: {})
    monkeypatch.setattr(live_module.Preflight, "cluster_id", lambda _: "redpanda.6c64")
    with pytest.raises(ClusterError, match="is a cluster of Redpanda, whose rules"):
        live_module.ask("localhost:1", {})
    monkeypatch.setattr(live_module.Preflight, "cluster_id", lambda _: "Some(22 characters)")
    with pytest.raises(ClusterError, match="did not answer which partitions topic orders has"):
        live_module.ask("localhost:1", {})


@pytest.mark.parametrize(
    "step",
    [
        Start((1,)),
        Start((1, 2, 3)),
        Stop(3),
        Elect(),
        Fail(2),
        Fail(2, power=True),
        Replace(1),
        MinIsr(2),
        Move(1, 4),
    ],
)
def test_a_step_is_written_as_it_is_printed(step: Step) -> None:
    assert parsed_step(str(step)) == step


@pytest.mark.parametrize("text", ["", "start", "begin 1", "min.insync.replicas=0", "move 1 to 2"])
def test_another_step_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match="is not a step"):
        parsed_step(text)


def run(*words: object) -> tuple[int, str]:
    done = invoked("advise", *words)
    return done.exit_code, done.stdout


def test_the_commands_read_a_bundle_of_a_running_cluster(tmp_path: Path, snapshot) -> None:
    bundle = tmp_path / "bundle"
    eligible = {PLACE: Eligible(members=frozenset({1}), last_leader=None)}
    live = replace(cluster(None, (1,)), eligible=eligible)
    write(document(Evidence(live=live)), bundle)
    assert read_evidence([bundle]).live == live
    with pytest.raises(ScenarioError, match="is the second bundle of a running cluster"):
        read_evidence([bundle, bundle])
    bundle.unlink()
    write(document(Evidence(live=cluster(None, (1,)))), bundle)
    code, text = run(*("start", bundle, "--kafka", "3.9.1", "--acks", "all", "--one-more-failure"))
    assert code == 0
    assert "offsets 0" not in text
    assert plain(text, FOLDER=tmp_path) == snapshot
    words = ("what-if", bundle, "--kafka", "3.9.1", "--acks", "all", "--fail-on", "possible")
    code, text = run(*words, "--step", "unclean election")
    assert code == 1
    assert plain(text, FOLDER=tmp_path) == snapshot
    found = json.loads(run(*words, "--step", "start 1", "--json")[1])
    assert found["offsets_known"] is False
    assert found["answers"][0]["alternatives"][0]["steps"] == [
        {"step": "start", "brokers": [1], "text": "start 1"}
    ]


def test_own_steps_are_judged_from_disks(tmp_path: Path, snapshot) -> None:
    words = ("what-if", *dead(tmp_path))
    code, text = run(*words, "--step", "replace the disk of 1", "--fail-on", "certain")
    assert code == 1
    assert plain(text, FOLDER=tmp_path) == snapshot
    page = tmp_path / "advice.html"
    steps = ("--step", "start 1", "--step", "replace the disk of 2")
    code, text = run(*words, *steps, "--html", page)
    assert (code, "keeps everything" in text) == (0, True)
    assert "<li>replace the disk of 2</li>" in page.read_text()
    assert 'class="pill kept">keeps everything' in page.read_text()
    run(*words, "--step", "replace the disk of 1", "--html", page)
    assert 'class="pill lost">loses' in page.read_text()
    with pytest.raises(ScenarioError, match="a broker has two replicas"):
        run(*words, "--step", "move replicas from 1 to 2")


@pytest.mark.parametrize(
    "words", [["start"], ["what-if", "--step", "stop 1"], ["start", "x", "--from-cluster", "h:1"]]
)
def test_one_source_is_needed(words) -> None:
    with pytest.raises(ScenarioError, match="name log directories or bundles, or a running"):
        run(*words, "--kafka", "3.9.1")


def test_the_stored_schema_has_every_step_verdict_and_ability() -> None:
    parts = {name: part["properties"] for name, part in schema_of("advise")["$defs"].items()}
    steps = [kind.__name__.lower() for kind in get_args(Step)]
    assert parts["StepDocument"]["step"]["enum"] == steps
    assert parts["AlternativeDocument"]["verdict"]["enum"] == [*get_args(Verdict)]
    assert parts["OutcomeDocument"]["writes"]["enum"] == list(Ability)


def test_json_follows_the_stored_schema(tmp_path: Path) -> None:
    stored = closed(schema_of("advise"))
    bundle, log = tmp_path / "bundle", tmp_path / "acked.jsonl"
    write(document(Evidence(live=cluster(None, (1,)))), bundle)
    disks = dead(tmp_path / "disks")
    log.write_text('{"topic": "orders", "partition": 0, "offset": 30, "key": "k"}\n')
    running = (bundle, "--kafka", "3.9.1", "--json")
    for words in (
        ("start", *disks, "--json"),
        ("start", *running, "--one-more-failure"),
        ("what-if", *running, "--step", "replace the disk of 1", "--step", "min.insync.replicas=2"),
        ("outage", *disks[:-2], "--acked", log, "--json"),
    ):
        answer = json.loads(run(*words)[1])
        jsonschema.validate(answer, stored)
        answer["schema"] = "ackproof.advise/9"
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(answer, stored)
    bundle.unlink()
    live = cluster(1, (1, 2, 3), running=(1, 2, 3))
    write(document(Evidence(live=live)), bundle)
    jsonschema.validate(json.loads(run("restart", 2, *running)[1]), stored)


@pytest.mark.parametrize("given", ["--power-lost", "--server", "--metadata-dump", "disk"])
def test_what_is_given_beside_a_running_cluster_is_refused(tmp_path: Path, given: str) -> None:
    write(document(Evidence(live=cluster(None, (1,)))), tmp_path / "bundle")
    disk(tmp_path / "disk", 1, records=9)
    (tmp_path / "1").touch()
    more = (tmp_path / "disk",) if given == "disk" else (given, tmp_path / "1")
    if given == "--power-lost":
        more = (given, 1)
    with pytest.raises(ScenarioError, match="a running cluster cannot be combined with"):
        run("start", tmp_path / "bundle", *more, "--kafka", "3.9.1")


def test_a_setting_of_unclean_elections_is_read_as_kafka_reads_it() -> None:
    live = replace(
        cluster(None, (1,)), settings={"orders": {"unclean.leader.election.enable": " True"}}
    )
    assert live.unclean_election("orders")
    assert not cluster(None, (1,)).unclean_election("orders")


def test_a_restart_is_not_judged_where_the_client_sees_no_partition_of_the_broker(
    snapshot,
) -> None:
    with pytest.raises(ClusterError, match="shows the client no partition of broker 4"):
        restart(cluster(2, (2, 3), running=(2, 3, 4)), 4, kafka="3.9.1", acks=lambda _: ["all"])
    judged = restart(cluster(2, (2, 3)), 3, kafka="3.9.1", acks=lambda _: ["all"])
    console = Console(record=True, width=200)
    print_restart(console, 3, judged)
    assert plain(console.export_text()) == snapshot


#: Beside orders-0 a partition during a reassignment, with more replicas than the model has.
MANY = PartitionView(leader=1, replicas=(1, 2, 3, 4, 5, 6), isr=(1, 2, 3, 4, 5, 6))


def test_a_partition_with_more_replicas_than_the_model_has_is_not_decided(snapshot) -> None:
    whole = cluster(1, (1, 2, 3), running=range(1, 7))
    many = replace(whole, partitions={**whole.partitions, ("moved", 0): MANY})
    found = state(many, "3.9.1")
    assert list(found.situations) == [PLACE]
    assert found.not_judged == 1
    assert "\n".join(found.unknown) == snapshot
    judged = restart(many, 2, kafka="3.9.1", acks=lambda _: ["all"])
    assert [(place, one.may_lose) for place, one in judged] == [
        (("moved", 0), True),
        (PLACE, False),
    ]
    console = Console(record=True, width=200)
    print_restart(console, 2, judged)
    assert plain(console.export_text()) == snapshot


def test_partitions_that_are_not_judged_are_counted_and_fail_on_possible(
    tmp_path: Path, snapshot
) -> None:
    code, text = run("start", *dead(tmp_path), "--fail-on", "possible")
    assert (code, "keeps everything." in text) == (0, True)
    unread = partition(number=1, replicas=[7], isr=[7], leader=7)
    words = ("start", *dead(tmp_path, DUMP + unread))
    code, text = run(*words, "--fail-on", "possible")
    assert (code, "1 of 2 partitions" in text) == (1, True)
    assert plain(text, FOLDER=tmp_path) == snapshot
    run(*words, "--html", tmp_path / "page.html")
    assert "keeps everything; 1 partition is not judged" in (tmp_path / "page.html").read_text()
    assert run(*words, "--fail-on", "certain")[0] == 0


def test_a_step_with_a_broker_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    write(document(Evidence(live=cluster(None, (1,)))), tmp_path / "bundle")
    words = ("what-if", tmp_path / "bundle", "--kafka", "3.9.1", "--step")
    for step in ("start 9", "move replicas from 1 to 9"):
        with pytest.raises(ScenarioError, match=r"no broker 9 is known; 1, 2, 3 are"):
            run(*words, step)


def test_replicas_do_not_move_to_a_broker_that_is_down(tmp_path: Path) -> None:
    down = payload("REGISTER_BROKER_RECORD", brokerId=4, brokerEpoch=5, fenced=True)
    words = ("what-if", *dead(tmp_path, DUMP + down, records=(9, 9)))
    move = ("--step", "move replicas from 1 to 4")
    text = run(*words, "--step", "start 1", *move)[1]
    assert "leader 1;" in text
    text = run(*words, "--step", "start 1", "--step", "start 4", *move)[1]
    assert "leader 4;" in text


def test_only_topics_with_a_higher_minimum_that_cannot_be_written_are_lowered(
    tmp_path: Path,
) -> None:
    alone = PartitionView(leader=2, replicas=(2,), isr=(2,))
    live = LiveCluster(
        brokers=frozenset({2}),
        partitions={("high", 0): alone, ("low", 0): alone},
        settings={"high": {"min.insync.replicas": "2"}, "low": {"min.insync.replicas": "1"}},
        refused={},
    )
    write(document(Evidence(live=live)), tmp_path / "bundle")
    text = run("start", tmp_path / "bundle", "--kafka", "3.5.1", "--acks", "all")[1]
    assert "--entity-name high --add-config min.insync.replicas=1" in text
    assert "--entity-name low" not in text
