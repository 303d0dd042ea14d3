"""Advice about the restart of a broker of a running cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from ackproof.advise.bundle import Evidence, document, write
from ackproof.advise.live import Eligible, LiveCluster
from ackproof.advise.rolling import Restarted, restart
from ackproof.advise.screen import print_restart
from ackproof.cluster.admin import PartitionView
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
    judged = dict(restart(live, 2, kafka="3.9.1", acks=["all"]))
    assert bool(judged["t1", 0].unchanged) == unchanged
    assert len(judged["t1", 0].effects) == harm
    write(document(Evidence(live=live)), tmp_path / "live.json.gz")
    words = ("restart", 2, tmp_path / "live.json.gz", "--kafka", "3.9.1", "--acks", "all")
    done = invoked("advise", *words)
    assert done.exit_code == harm
    assert plain(done.stdout) == snapshot


def test_partitions_that_are_in_trouble_already_are_not_counted_as_losing(snapshot) -> None:
    judged = restart(running(view(None, (1,))), 2, kafka="3.9.1", acks=["all"])
    assert text_of(judged) == snapshot


def test_a_partition_that_only_one_kind_of_producer_can_write_is_named_with_its_acks(
    snapshot,
) -> None:
    judged = restart(running(view(3, (2, 3)), minimum=3), 2, kafka="3.9.1", acks=["all", "1"])
    assert [bool(one.unchanged) for _, one in judged] == [True, False]
    assert text_of(judged) == snapshot


def test_a_broker_that_may_be_elected_any_moment_is_not_restarted(snapshot) -> None:
    alone = running(
        view(None, ()),
        minimum=2,
        eligible={("t0", 0): Eligible(members=frozenset({2}), last_leader=None)},
    )
    (judged,) = restart(alone, 2, kafka="4.4.0", acks=["all"])
    [effect] = judged[1].effects
    assert effect == snapshot


def test_alike_partitions_are_searched_once(monkeypatch) -> None:
    live = running(*[WELL] * 50, minimum=1)
    judged = restart(live, 2, kafka="3.8.1", acks=["all", "1"])
    assert len(judged) == 100
    assert len({id(one.down) for _, one in judged}) == 2
    other = replace(live, settings={**live.settings, "t7": {"min.insync.replicas": "2"}})
    differ = {place for place, one in restart(other, 2, kafka="3.8.1", acks=["all"]) if one.effects}
    assert differ == {("t7", 0)}
