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
from command_line import captured as ackproof

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
    return console.export_text()


@pytest.mark.parametrize(
    ("new", "writes", "text"),
    [
        (False, Ability.YES, "Broker 2 may be restarted: its 1 partitions keep"),
        (True, Ability.YES, "may lose acknowledged records"),
        (True, Ability.YES, "ISR - 1 >= min.insync.replicas says it is safe"),
        (False, Ability.NO, "cannot be written meanwhile"),
    ],
)
def test_a_restart_has_one_line_of_reason(new, writes, text) -> None:
    assert text in text_of([(PLACE, restarted(new=new, writes=writes))])


def test_a_restart_that_is_not_decided_is_not_called_a_loss() -> None:
    undecided = restarted(new=False, writes=Ability.YES, complete=False)
    assert "is not decided: too many orders of events" in text_of([(PLACE, undecided)])


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
        (view(None, (1,)), 1, "already without a leader", ""),
        (view(2, (2, 3)), 3, "already not writable with acks=all", ""),
        (WELL, 1, "", ""),
        # The restart makes it worse: it has the only leader, or may become it.
        (view(2, (2,), (1, 2)), 2, "", "cannot be read while it is down"),
        (view(None, (2,)), 1, "", "cannot be written while it is down"),
        (view(2, (2,), (1, 2)), 1, "", "cannot be written while it is down"),
    ],
)
def test_a_restart_is_blamed_for_its_own_harm_only(one, minimum, unchanged, harm, tmp_path) -> None:
    live = running(WELL, one, minimum=minimum)
    judged = dict(restart(live, 2, kafka="3.9.1", acks=["all"]))
    assert judged["t1", 0].unchanged == unchanged
    assert judged["t1", 0].effects == ([harm] if harm else [])
    write(document(Evidence(live=live)), tmp_path / "live.json.gz")
    words = ("restart", 2, tmp_path / "live.json.gz", "--kafka", "3.9.1", "--acks", "all")
    done = ackproof("advise", *words)
    assert done.returncode == bool(harm)
    (*_, line) = done.stdout.splitlines()
    assert (f"{unchanged}; the restart changes nothing: " in line) == bool(unchanged)
    assert not unchanged or "t1-0" in line


def test_partitions_that_are_in_trouble_already_are_not_counted_as_losing() -> None:
    judged = restart(running(view(None, (1,))), 2, kafka="3.9.1", acks=["all"])
    assert "may be restarted: that makes none of its 1 partitions worse" in text_of(judged)


def test_a_partition_that_only_one_kind_of_producer_can_write_is_named_with_its_acks() -> None:
    judged = restart(running(view(3, (2, 3)), minimum=3), 2, kafka="3.9.1", acks=["all", "1"])
    assert [one.unchanged for _, one in judged] == ["already not writable with acks=all", ""]


def test_a_broker_that_may_be_elected_any_moment_is_not_restarted() -> None:
    alone = running(
        view(None, ()),
        minimum=2,
        eligible={("t0", 0): Eligible(members=frozenset({2}), last_leader=None)},
    )
    (judged,) = restart(alone, 2, kafka="4.4.0", acks=["all"])
    assert judged[1].effects == ["cannot be written while it is down"]


def test_alike_partitions_are_searched_once(monkeypatch) -> None:
    live = running(*[WELL] * 50, minimum=1)
    judged = restart(live, 2, kafka="3.8.1", acks=["all", "1"])
    assert len(judged) == 100
    assert len({id(one.down) for _, one in judged}) == 2
    other = replace(live, settings={**live.settings, "t7": {"min.insync.replicas": "2"}})
    differ = {place for place, one in restart(other, 2, kafka="3.8.1", acks=["all"]) if one.effects}
    assert differ == {("t7", 0)}
