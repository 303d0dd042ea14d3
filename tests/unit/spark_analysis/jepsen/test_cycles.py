from __future__ import annotations

import pytest

from ackproof_spark.jepsen.cycles import Edge, cycles

CASES = {
    "none": ("0 ww 1, 1 wr 2, 0 process 2", {}),
    "one write order": ("0 ww 1, 1 ww 0", {"G0": [0, 1]}),
    "a read of who wrote later": ("0 wr 1, 1 ww 0", {"G1c": [0, 1]}),
    "reads of each other": ("0 wr 1, 1 wr 0", {"G1c": [0, 1], "G1c-wr": [0, 1]}),
    "stale and fresh": ("0 wr 1, 1 rw 0", {"G-single": [1, 0]}),
    "both stale": ("0 rw 1, 1 rw 0", {"G2-item": [0, 1]}),
    "explained by less": (
        "0 rw 1, 1 rw 0, 0 wr 1, 1 wr 0",
        {"G1c": [0, 1], "G1c-wr": [0, 1], "G-single": [0, 1]},
    ),
    "one process, two orders": ("0 process 1, 1 ww 0", {"G0-process": [0, 1]}),
    "one process, read early": ("0 process 1, 1 wr 0", {"G1c-process": [0, 1]}),
    "the shorter": ("0 ww 1, 1 ww 2, 2 ww 0, 1 ww 0", {"G0": [0, 1]}),
    "the least": ("0 ww 3, 3 ww 0, 0 ww 2, 2 ww 0", {"G0": [0, 2]}),
    "the least way back": ("0 ww 1, 1 ww 3, 3 ww 0, 1 ww 2, 2 ww 0", {"G0": [0, 1, 2]}),
    "around": ("5 ww 6, 6 ww 7, 7 ww 5", {"G0": [5, 6, 7]}),
}


def parse(text: str) -> list[Edge]:
    words = [one.split() for one in text.split(", ")]
    return [Edge(int(source), int(target), kind, "x", ()) for source, kind, target in words]


@pytest.mark.parametrize("name", CASES)
def test_cycles_of_each_kind(name: str) -> None:
    edges, expected = CASES[name]
    found = {
        cycle.anomaly.value: [step.source for step in cycle.steps] for cycle in cycles(parse(edges))
    }
    assert found == expected


def test_each_component_has_one_cycle() -> None:
    found = cycles(parse("0 ww 1, 1 ww 0, 2 ww 3, 3 ww 2, 1 ww 2"))
    assert [[step.source for step in cycle.steps] for cycle in found] == [[0, 1], [2, 3]]


def test_a_ring_of_many_operations() -> None:
    size = 20_000
    ring = [Edge(op, (op + 1) % size, "wr" if op else "ww", "x", ()) for op in range(size)]
    found = cycles([*ring, Edge(9, 8, "wr", "x", ())])
    assert [len(cycle.steps) for cycle in found if cycle.anomaly == "G1c"] == [2]
