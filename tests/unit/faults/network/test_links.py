"""Which packets network faults drop, without a network."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ackproof_faults import CommandResult, FaultError
from ackproof_faults.network._links import CLIENTS, Cut, Links, rules, ruleset, verify_cut
from ackproof_faults.network.cuts import Bridge, Flapping, Isolate, Partition, Split, majority
from support.fake_cluster import FakeCluster


def pairs(fault: Links, *nodes: int) -> set[tuple[int, int]]:
    return {(cut.source, cut.sink) for cut in fault.cuts(FakeCluster(controller_ids=(100,)), nodes)}


def test_the_links_that_each_fault_cuts() -> None:
    assert pairs(Partition(target=1), 1) == {(1, 2), (2, 1), (1, 3), (3, 1)}
    assert pairs(Partition(target=1, direction="to_peers"), 1) == {(1, 2), (1, 3)}
    assert pairs(Partition(target=1, direction="from_peers"), 1) == {(2, 1), (3, 1)}
    assert pairs(Partition(target=1, peers="controllers"), 1) == {(1, 100), (100, 1)}
    assert pairs(Partition(target=1, peers=(2,)), 1) == {(1, 2), (2, 1)}
    assert pairs(Partition(target=1, peers="clients"), 1) == {(1, CLIENTS), (CLIENTS, 1)}
    assert pairs(Partition(target=[1, 2]), 1, 2) == {(1, 3), (3, 1), (2, 3), (3, 2)}
    assert pairs(Isolate(target=1), 1) == {
        pair for peer in (2, 3, 100, CLIENTS) for pair in ((1, peer), (peer, 1))
    }
    assert pairs(Bridge(target=2), 2) == {(1, 3), (3, 1)}


@pytest.mark.parametrize(("side", "cut"), [("targets", 2), ("others", 1), ("both", None)])
def test_the_controllers_are_on_the_named_side_of_a_split(side: Any, cut: int | None) -> None:
    found = pairs(Split(target=1, controllers=side), 1)
    assert {(1, 2), (1, 3), (2, 1), (3, 1)} <= found
    assert ((1, 100) in found) == (cut == 1)
    assert ((2, 100) in found) == (cut == 2)


@pytest.mark.parametrize("size", [4, 5, 6, 7])
def test_every_member_of_the_ring_reaches_a_majority_and_no_two_the_same(size: int) -> None:
    ring = list(range(1, size + 1))
    seen = [majority(ring, place) for place in range(size)]
    assert all(member in mine for member, mine in zip(ring, seen, strict=True))
    assert all(len(mine) == size // 2 + 1 for mine in seen)
    assert len(set(map(frozenset, seen))) == size


def test_rules_are_at_both_ends_and_match_the_other_end() -> None:
    found = rules(FakeCluster(), [Cut(source=1, sink=2)], "drop")
    assert found == {
        2: ["in ip saddr 10.0.0.1 meta l4proto tcp counter drop"],
        1: ["out ip daddr 10.0.0.2 meta l4proto tcp counter drop"],
    }
    on_port = rules(FakeCluster(), [Cut(source=CLIENTS, sink=2, port=9094)], "drop")
    assert on_port == {2: ["in tcp dport 9094 counter drop"]}
    down = FakeCluster()
    down.processes.kill(1)
    assert set(rules(down, [Cut(source=1, sink=2)], "drop")) == {2}


def test_a_ruleset_replaces_the_table() -> None:
    text = ruleset("inet t", ["in tcp dport 1 drop", "out tcp sport 2 drop"])
    assert text.splitlines() == [
        "table inet t { }",
        "delete table inet t",
        "table inet t {",
        "chain in { type filter hook input priority 0;",
        "tcp dport 1 drop",
        "}",
        "chain out { type filter hook output priority 0;",
        "tcp sport 2 drop",
        "}",
        "}",
    ]


def test_two_faults_of_one_kind_have_different_tables() -> None:
    assert Partition(target=1).table != Partition(target=2).table
    assert Partition(target=1).table == Partition(target=1).table


def answered(*reached: tuple[int, int], but: str = "") -> FakeCluster:
    """Return a cluster that accepts only these connections (from, to), and none to `but`."""
    cluster = FakeCluster()

    def run(node: int, script: str) -> CommandResult:
        lines = []
        for line in script.splitlines():
            if "echo " in line:
                link = line.split("echo ")[1].split()[0]
                peer = int(link.split(":")[0])
                lines.append(f"{link} {0 if (node, peer) in reached and link != but else 124}")
        return CommandResult(exit_status=0, output="\n".join(lines))

    cluster.network.run = run
    return cluster


EVERYBODY = [(a, b) for a in (1, 2, 3, 100) for b in (1, 2, 3, 100) if a != b]
CUT = [Cut(source=1, sink=2), Cut(source=2, sink=1)]


def test_a_cut_needs_failing_cut_links_and_working_others() -> None:
    works = [pair for pair in EVERYBODY if pair not in ((1, 2), (2, 1))]
    assert "1->2:9092" in verify_cut(answered(*works), CUT).text
    with pytest.raises(FaultError, match="node 1 still reaches port 9092 of node 2"):
        verify_cut(answered(*works, (1, 2)), CUT)
    with pytest.raises(FaultError, match="more is cut"):
        verify_cut(answered(), CUT)


def test_the_other_listeners_are_the_control_of_a_cut_listener() -> None:
    cut = [Cut(source=CLIENTS, sink=2, port=9094)]
    said = verify_cut(answered(*EVERYBODY, but="2:9094"), cut).text
    assert "1->2:9094" in said
    assert "2:9092" not in said


def test_healing_removes_the_rules_everywhere_and_ends_connections_over_cut_links_only() -> None:
    cluster = FakeCluster(controller_ids=(100,))
    fault = Partition(target=1, peers=(2,))
    fault.heal(cluster, [1], None)
    said = dict(cluster.scripts)
    assert set(said) == {1, 2, 3, 100}
    assert all(f"nft delete table {fault.table}" in script for script in said.values())
    assert {node for node, script in said.items() if "ss -K" in script} == {1, 2}
    assert "ss -K dst 10.0.0.2 " in said[1]
    cluster.scripts.clear()
    Partition(target=1, peers="clients").heal(cluster, [1], None)
    assert not any("ss -K" in script for _, script in cluster.scripts)


def test_flapping_begins_with_a_cut_and_ends_its_script() -> None:
    cluster = FakeCluster()
    fault = Flapping(target=1, down="2s", up=timedelta(seconds=3).total_seconds())
    fault.inject(cluster, [1])
    ((node, script),) = cluster.scripts
    assert node == 1
    assert script.index("nft -f") < script.index("sleep 2") < script.index("nft delete table")
    fault.heal(cluster, [1], None)
    assert cluster.done == ["end flapping 1"]
