"""The kinds of cluster and of senders: everything asks their classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ackproof
from ackproof.scenario.cluster_kinds import Attached, Booted
from ackproof.scenario.model import Scenario
from ackproof.scenario.workload import OurProducers, OwnApplication
from support.run_directories import small

#: The functions that select the class of a kind.
SELECTIONS = [
    "scenario/cluster_kinds.py: cluster_kind_of",
    "scenario/workload.py: senders_of",
    "scenario/workload.py: is_own",
]
#: The keys of a scenario whose presence decides the kind.
KEYS = {"attach", "application"}


def selections(tree: ast.Module) -> Iterator[str]:
    """The functions that compare one of the keys with None."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
                    names = {getattr(node.left, "attr", ""), getattr(node.left, "id", "")}
                    if names & KEYS:
                        yield function.name


def test_the_class_of_a_kind_is_selected_once() -> None:
    product = Path(ackproof.__file__).parent
    assert [
        f"{path.relative_to(product)}: {name}"
        for path in sorted(product.rglob("*.py"))
        for name in selections(ast.parse(path.read_text(encoding="utf-8")))
    ] == SELECTIONS


def test_a_selection_is_noticed() -> None:
    tree = ast.parse(
        "def one(s):\n    return 1 if s.cluster.attach is None else 2\n"
        "def two(application):\n    if application is not None:\n        return\n"
        "def three(s):\n    return s.attach.bootstrap\n"
    )
    assert list(selections(tree)) == ["one", "two"]


def test_a_scenario_knows_its_kinds() -> None:
    scenario = Scenario.model_validate(small())
    assert isinstance(scenario.cluster_kind, Booted)
    assert isinstance(scenario.senders, OurProducers)
    other = Scenario.model_validate(
        small(
            cluster={"attach": {"bootstrap": "kafka:9092", "topic_prefix": "chaos-"}},
            workload={"application": {"command": ["shop"], "logs": ["a.jsonl"]}},
        )
    )
    assert isinstance(other.cluster_kind, Attached)
    assert isinstance(other.senders, OwnApplication)
    assert (scenario.producers, other.producers) == (1, 2)
