"""Advice about the restart of a broker of a running cluster."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.console import Console

from ackproof.advise.bundle import Evidence, document, write
from ackproof.advise.live import Eligible, LiveCluster
from ackproof.advise.rolling import Restarted, restart
from ackproof.advise.screen import print_restart
from ackproof.cluster.admin import PartitionView
from ackproof.errors import ScenarioError
from ackproof_model.advice import Ability, Outcome
from command_line import invoked
from support.snapshots import plain

PLACE = ("orders", 0)


def outcome(*, new: bool, writes: Ability, complete: bool = True) -> Outcome:
    return Outcome(
        may_lose=(),
        loses=(),
        loses_new=new,
        disks=(),
        leaders=(1,),
        reads=Ability.YES,
        writes=writes,
        complete=complete,
    )


def restarted(*, new: bool, writes: Ability, complete: bool = True) -> Restarted:
    found = outcome(new=new, writes=writes, complete=complete)
    return Restarted(
        acks="1",
        leader=1,
        isr=(1, 2),
        min_insync_replicas=1,
        before=outcome(new=False, writes=Ability.YES),
        down=found,
        whole=found,
        rule=True,
    )


def text_of(judged: list[tuple[tuple[str, int], Restarted]]) -> str:
    console = Console(record=True, width=200)
    print_restart(console, 2, judged)
    return plain(console.export_text())


@pytest.mark.parametrize(
    "judged",
    [
        pytest.param(restarted(new=False, writes=Ability.YES), id="safe"),
        pytest.param(restarted(new=True, writes=Ability.YES), id="may lose"),
        pytest.param(restarted(new=False, writes=Ability.NO), id="not writable"),
        pytest.param(restarted(new=False, writes=Ability.YES, complete=False), id="not decided"),
    ],
)
def test_a_restart_has_one_line_of_reason(judged, snapshot) -> None:
    assert text_of([(PLACE, judged)]) == snapshot


def only_all(_topic: str) -> list[str]:
    return ["all"]


def either(_topic: str) -> list[str]:
    return ["all", "1"]


def running(*views: PartitionView, brokers=(2, 3), minimum=1, **more) -> LiveCluster:
    """A cluster with topics t0, t1, ... of a partition each."""
    return LiveCluster(
        brokers=frozenset(brokers),
        partitions={(f"t{number}", 0): view for number, view in enumerate(views)},
        settings={f"t{n}": {"min.insync.replicas": str(minimum)} for n in range(len(views))},
        refused={},
        **more,
    )


def view(leader, isr, replicas=(1, 2, 3)) -> PartitionView:
    return PartitionView(leader=leader, replicas=replicas, isr=isr)


WELL = view(3, (2, 3))


@pytest.mark.parametrize(
    ("one", "minimum", "unchanged", "harm"),
    [
        pytest.param(view(None, (1,)), 1, True, False, id="no leader"),
        pytest.param(view(2, (2, 3)), 3, True, False, id="not writable"),
        pytest.param(WELL, 1, False, False, id="well"),
        # The restart makes it worse: it has the only leader, or may become it.
        pytest.param(view(2, (2,), (1, 2)), 2, False, True, id="leads alone, not writable"),
        pytest.param(view(None, (2,)), 1, False, True, id="may become the leader"),
        pytest.param(view(2, (2,), (1, 2)), 1, False, True, id="leads alone"),
    ],
)
def test_a_restart_is_blamed_for_its_own_harm_only(
    tmp_path, snapshot, *, one, minimum, unchanged, harm
) -> None:
    live = running(WELL, one, minimum=minimum)
    judged = dict(restart(live, 2, kafka="3.9.1", acks=only_all))
    assert bool(judged["t1", 0].unchanged) == unchanged
    assert len(judged["t1", 0].effects) == harm
    write(document(Evidence(live=live)), tmp_path / "live.json.gz")
    words = ("restart", 2, tmp_path / "live.json.gz", "--kafka", "3.9.1", "--acks", "all")
    done = invoked("advise", *words)
    assert done.exit_code == harm
    assert plain(done.stdout) == snapshot


@pytest.fixture
def bundle(tmp_path):
    """A bundle of a running cluster with a well topic, and the offsets topic."""
    live = running(WELL, minimum=1)
    (place,) = live.partitions
    offsets = {("__consumer_offsets", 0): live.partitions[place]}
    live = replace(live, partitions={**live.partitions, **offsets})
    write(document(Evidence(live=live)), tmp_path / "live.json.gz")
    return tmp_path / "live.json.gz"


def asked(bundle, *words: object) -> tuple[int, str]:
    done = invoked("advise", "restart", 3, bundle, "--kafka", "3.9.1", *words)
    return done.exit_code, plain(done.stdout)


def test_without_known_producers_acks_all_decides_and_acks_1_is_told(bundle, snapshot) -> None:
    assert asked(bundle, "--acks", "all") == (0, snapshot(name="acks=all"))
    assert asked(bundle, "--acks", "1") == (1, snapshot(name="acks=1"))
    assert asked(bundle) == (0, snapshot(name="not stated"))
    found = json.loads(asked(bundle, "--json")[1])["partitions"]
    assert [(one["topic"], one["acks"], one["assumed"], one["may_lose"]) for one in found] == [
        ("__consumer_offsets", "all", False, False),  # only coordinators write it
        ("t0", "all", False, False),
        ("t0", "1", True, True),
    ]


@pytest.mark.parametrize(("settings", "harm"), [("acks=1", 1), ("acks=all", 0), ("linger.ms=5", 1)])
def test_files_say_which_acks_producers_use(bundle, tmp_path, settings, harm) -> None:
    file = tmp_path / "producer.properties"
    file.write_text(f"bootstrap.servers=kafka:9092\n{settings}\n")
    assert asked(bundle, "--config", file)[0] == harm


def test_files_without_an_acked_record_and_two_answers_are_refused(bundle, tmp_path) -> None:
    file = tmp_path / "producer.properties"
    file.write_text("bootstrap.servers=kafka:9092\nacks=0\n")
    with pytest.raises(ScenarioError, match=r"producer.properties"):
        asked(bundle, "--config", file)
    file.write_text("bootstrap.servers=kafka:9092\nacks=1\n")
    with pytest.raises(ScenarioError, match="--acks and --config"):
        asked(bundle, "--config", file, "--acks", "all")


def test_partitions_that_are_in_trouble_already_are_not_counted_as_losing(snapshot) -> None:
    judged = restart(running(view(None, (1,))), 2, kafka="3.9.1", acks=only_all)
    assert text_of(judged) == snapshot


def test_a_partition_that_only_one_kind_of_producer_can_write_is_named_with_its_acks(
    snapshot,
) -> None:
    judged = restart(running(view(3, (2, 3)), minimum=3), 2, kafka="3.9.1", acks=either)
    assert [bool(one.unchanged) for _, one in judged] == [True, False]
    assert text_of(judged) == snapshot


def test_a_broker_that_may_be_elected_any_moment_is_not_restarted(snapshot) -> None:
    alone = running(
        view(None, ()),
        minimum=2,
        eligible={("t0", 0): Eligible(members=frozenset({2}), last_leader=None)},
    )
    (judged,) = restart(alone, 2, kafka="4.4.0", acks=only_all)
    [effect] = judged[1].effects
    assert effect == snapshot


def test_alike_partitions_are_searched_once(monkeypatch) -> None:
    live = running(*[WELL] * 50, minimum=1)
    judged = restart(live, 2, kafka="3.8.1", acks=either)
    assert len(judged) == 100
    assert len({id(one.down) for _, one in judged}) == 2
    other = replace(live, settings={**live.settings, "t7": {"min.insync.replicas": "2"}})
    differ = {
        place for place, one in restart(other, 2, kafka="3.8.1", acks=only_all) if one.effects
    }
    assert differ == {("t7", 0)}
