"""A plan of reassignments is judged by the model of the controller, before it is carried out."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from ackproof.advise.bundle import Evidence, document, write
from ackproof.advise.live import LiveCluster
from ackproof.advise.reassign_screen import print_reassign
from ackproof.advise.reassigning import (
    Harm,
    Judged,
    Seen,
    judged,
    of_live,
    of_metadata,
    read_plan,
)
from ackproof.cluster.admin import PartitionView
from ackproof.errors import ScenarioError
from ackproof.scenario.shipped import schema_of
from command_line import invoked
from support.dead_disks import changed, partition, payload, setting
from support.json_schemas import closed
from support.snapshots import plain

PLACE = ("orders", 0)
AWAY, BACK = (4, 2, 1), (3, 4, 1)


def plan(*replicas: int, topic: str = "orders") -> str:
    moves = [{"topic": topic, "partition": 0, "replicas": list(replicas), "log_dirs": ["any"]}]
    return json.dumps({"version": 1, "partitions": moves})


def described(replicas: str, isr: str, elr: str = "", more: str = "") -> str:
    return (
        f"\tTopic: orders\tPartition: 0\tLeader: 3\tReplicas: {replicas}\tIsr: {isr}\t{more}"
        f"Elr: {elr}\tLastKnownElr: \n"
    )


def live(
    replicas: tuple[int, ...], isr: tuple[int, ...], text: str = "", kafka: str = "4.4.0"
) -> Seen:
    return of_live(cluster(replicas, isr), kafka, text)


def cluster(replicas: tuple[int, ...], isr: tuple[int, ...]) -> LiveCluster:
    return LiveCluster(
        brokers=frozenset({1, 2, 3, 4, 5}),
        partitions={PLACE: PartitionView(leader=isr[0], replicas=replicas, isr=isr)},
        settings={"orders": {"min.insync.replicas": "2"}},
        refused={},
    )


def asked(seen: Seen, target: tuple[int, ...], *, cancels: bool = False, acks: str = "") -> Judged:
    [one] = judged(
        seen,
        {PLACE: target},
        cancels=cancels,
        acks=lambda _: ("1",) if acks == "1" else ("all", "1"),
        stated=bool(acks),
    )
    return one


def test_a_move_while_every_replica_is_in_sync_is_harmless() -> None:
    one = asked(live((3, 2, 1), (3, 2, 1)), AWAY)
    assert not one.harms
    assert one.outcome.waits_for == (4,)
    assert set(one.outcome.isr) == {4, 2, 1}
    assert one.assumed == (Harm.ALONE,)
    assert asked(live((3, 2, 1), (3, 2, 1)), AWAY, acks="1").harms == (Harm.ALONE,)
    assert not asked(live((3, 2, 1), (3, 2, 1)), (3, 2, 4), acks="1").harms


def test_a_move_while_the_others_lag_leaves_its_replica_eligible_and_the_way_back_loses() -> None:
    """The moves of B57, with Kafka's own states from brokers of 4.4.0."""
    away = asked(live((3, 2, 1), (3,), described("3,2,1", "3", "1")), AWAY)
    assert (away.outcome.isr, away.outcome.left_eligible) == ((4,), (3,))
    assert away.harms == (Harm.STAYS,)
    back = asked(live((4, 2, 1), (4,), described("4,2,1", "4", "1,3")), BACK)
    assert back.outcome.eligible_again == (3,)
    assert Harm.RETURNS in back.harms
    assert back.may_lose
    # Its twin: once the ISR has min.insync.replicas members, the ELR is empty.
    twin = asked(live((4, 2, 1), (4, 2), described("4,2,1", "4,2")), BACK)
    assert not twin.may_lose


def test_before_4_3_the_first_move_waits_for_all_its_replicas() -> None:
    one = asked(live((3, 2, 1), (3,), described("3,2,1", "3", "1"), "4.1.2"), AWAY)
    assert set(one.outcome.waits_for) == {4, 2, 1}
    assert not one.outcome.left_eligible


def test_eligible_replicas_that_nothing_names_are_not_assumed_away() -> None:
    assert asked(live((3, 2, 1), (3,)), AWAY).may_lose
    assert Harm.UNKNOWN in asked(live((3, 2, 1), (3,)), AWAY).harms
    assert Harm.UNKNOWN not in asked(live((3, 2, 1), (3,), kafka="3.9.1"), AWAY).harms
    stale, unknown = described("3,2,1", "3,2", "1"), described("3,2,1", "3", "N/A")
    for text in (stale, unknown):
        assert Harm.UNKNOWN in asked(live((3, 2, 1), (3,), text), AWAY).harms


def test_a_move_in_progress_can_be_cancelled_and_moving_back_never_completes_from_4_3_on() -> None:
    text = described("4,2,1,3", "3,2,1", more="Adding Replicas: 4\tRemoving Replicas: 3\t")
    seen = live((4, 2, 1, 3), (3, 2, 1), text)
    assert not asked(seen, (), cancels=True).harms
    assert asked(seen, (), cancels=True).outcome.replicas == (2, 1, 3)
    assert asked(seen, (3, 2, 1)).harms == (Harm.STUCK,)
    older = live((4, 2, 1, 3), (3, 2, 1), text, "4.1.2")
    assert not asked(older, (3, 2, 1)).harms
    assert asked(live((3, 2, 1), (3, 2, 1)), (), cancels=True).harms == (Harm.REFUSED,)


def test_a_broker_that_does_not_run_is_named() -> None:
    one = asked(live((3, 2, 1), (3, 2, 1)), (6, 2, 1))
    assert one.harms == (Harm.STUCK,)
    assert [*one.effects] == ["it is never complete: broker 6 does not run"]


def test_fewer_replicas_in_sync_than_the_minimum_stop_the_writes() -> None:
    one = asked(live((3, 2, 1), (3, 2), kafka="3.9.1"), (4, 5, 1))
    assert Harm.STOPS not in one.harms  # before 4.3 all of them must be in the ISR
    late = asked(live((3, 2, 1), (3, 2), described("3,2,1", "3,2")), (4, 1))
    assert late.outcome.completes


DUMP = (
    "Dumping /metadata/00000000000000000000.log\n"
    "baseOffset: 0 lastOffset: 9 count: 10 CreateTime: 1 size: 1\n"
    + "".join(
        payload("REGISTER_BROKER_RECORD", brokerId=one, brokerEpoch=one, fenced=False)
        for one in (1, 2, 3, 4)
    )
    + payload("FEATURE_LEVEL_RECORD", name="eligible.leader.replicas.version", featureLevel=1)
    + payload("TOPIC_RECORD", name="orders", topicId="a")
    + setting("orders", "min.insync.replicas", "2", of=2)
    + partition(replicas=[4, 2, 1, 3], isr=[3], leader=3, addingReplicas=[4], removingReplicas=[3])
    + changed(isr=[4], leader=4, replicas=[4, 2, 1], removingReplicas=[], addingReplicas=[])
    + changed(eligibleLeaderReplicas=[1, 3])
)


def test_the_metadata_log_of_disks_is_read_with_moves_and_eligible_replicas() -> None:
    seen = of_metadata(DUMP, "4.4.0", {})
    now = seen.placements[PLACE]
    assert (now.replicas, now.isr, now.elr) == ((4, 2, 1), (4,), (1, 3))
    assert (now.adding, now.removing) == ((), ())
    assert Harm.RETURNS in asked(seen, BACK).harms
    before = of_metadata(DUMP[: DUMP.index('"PARTITION_CHANGE')].rpartition("\n")[0], "4.4.0", {})
    assert before.placements[PLACE].adding == (4,)
    assert before.placements[PLACE].removing == (3,)


def test_what_cruise_control_proposes_is_read() -> None:
    where = {"hash": 31, "topic": "orders", "partition": 0}
    proposal = {"topicPartition": where, "oldLeader": 3, "oldReplicas": [3, 2, 1]}
    text = json.dumps({"proposals": [{**proposal, "newReplicas": [4, 2, 1]}], "version": 1})
    assert read_plan(text, "p.json") == {PLACE: AWAY} == read_plan(plan(*AWAY), "p.json")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("moves", "is not JSON"),
        ("[]", "is not a plan"),
        ('{"summary": {"numReplicaMovements": 3}, "goalSummary": []}', "is not a plan"),
        ('{"partitions": 1}', "is not a plan"),
        ('{"partitions": []}', "moves no partition"),
        ('{"partitions": [{"topic": "a", "partition": 0}]}', "entry 1 lacks 'replicas'"),
        ('{"partitions": [7]}', "entry 1 lacks"),
        (plan(), "name each broker once"),
        (plan(1, 1), "name each broker once"),
        ('{"partitions": [{"topic": "a", "partition": "0", "replicas": [1]}]}', "whole numbers"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [true]}]}', "whole numbers"),
        (
            plan(1).replace("}]", '}, {"topic": "orders", "partition": 0, "replicas": [2]}]'),
            "twice",
        ),
    ],
)
def test_a_plan_that_is_none_is_refused(text: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        read_plan(text, "p.json")


def test_a_partition_that_the_cluster_lacks_is_refused() -> None:
    with pytest.raises(ScenarioError, match="no partition clicks-0"):
        judged(
            live((3, 2, 1), (3, 2, 1)),
            {("clicks", 0): AWAY},
            cancels=False,
            acks=lambda _: ("all",),
            stated=True,
        )


def test_the_answer_in_words(snapshot) -> None:
    text = described("4,2,1", "4", "1,3")
    console = Console(width=100, record=True, no_color=True)
    for seen, target in (
        (live((4, 2, 1), (4,), text), BACK),
        (live((3, 2, 1), (3, 2, 1)), AWAY),
        (live((3, 2, 1), (3,), described("3,2,1", "3", "1")), AWAY),
    ):
        print_reassign(console, [asked(seen, target)], cancels=False)
    assert plain(console.export_text()) == snapshot


def test_the_command_reads_a_bundle_and_its_exit_code_and_json_are_the_contract(
    tmp_path: Path,
) -> None:
    bundle = tmp_path / "cluster.bundle"
    write(document(Evidence(live=cluster((3, 2, 1), (3, 2, 1)))), bundle)
    file, gone = tmp_path / "plan.json", tmp_path / "gone.json"
    file.write_text(plan(*AWAY))
    gone.write_text(plan(6, 2, 1))
    call = ("advise", "reassign", "--kafka", "4.4.0")
    well = invoked(*call, str(file), str(bundle), "--json")
    assert well.exit_code == 0
    schema = closed(schema_of("advise"))
    jsonschema.validate(json.loads(well.stdout), schema)
    assert invoked(*call, str(gone), str(bundle)).exit_code == 1
    assert invoked(*call, str(gone), str(bundle), "--fail-on", "possible").exit_code == 0
    assert invoked(*call, str(file), str(bundle), "--acks", "1").exit_code == 1
    for wrong in ((str(bundle), str(bundle)), (str(file),)):
        with pytest.raises(ScenarioError):
            invoked(*call, *wrong)
