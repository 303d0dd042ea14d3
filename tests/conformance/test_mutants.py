"""The comparison with Kafka's classes can fail: it refutes every wrong version of our rules."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from docker import DockerClient

from ackproof.kafka_versions import numbers
from conformance.kafka_classes import Oracle
from conformance.mutants import mutants
from conformance.subjects import SUBJECTS, Subject

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

#: One version on each side of every change of a rule.
VERSIONS = ("3.9.2", "4.0.0", "4.1.2", "4.3.1")
CASES, SEED = 6000, 7

#: Mutants that are no wrong rules: what they change makes no difference, or none to Kafka.
EQUIVALENT = {
    # A release has three numbers.
    "inactive_last_known=version < (4, 1), [version < (4, 1) -> version <= (4, 1)]",
    "complete_with_all=version < (4, 3), [version < (4, 3) -> version <= (4, 3)]",
    "directory_drops_elr=version < (4, 3), [version < (4, 3) -> version <= (4, 3)]",
    "unclean_shutdown=version >= (4,), [version >= (4,) -> version > (4,)]",
    # No size makes `least` a power of two, and no set is as large as the last capacity.
    "if size >= least and len(distinct) <= size * 0.75 [size >= least -> size > least]",
    "least = int(presized / 0.75) + 1 [1 -> 2]",
    "for size in (16 << doubled for doubled in range(20)) [20 -> 21]",
    # The last entry is replaced by itself; and both numbers of UNDEFINED are -1.
    "if epochs and epochs[-1][0] == epoch and start >= epochs[-1][1]: "
    "[start >= epochs[-1][1] -> start > epochs[-1][1]]",
    "if epoch == UNDEFINED[0] or not epochs or epoch > epochs[-1][0]: [0 -> 1]",
    # Any number below 0 stands for no epoch; the lowest is replaced by itself.
    "NO_EPOCH = -1 [1 -> 2]",
    "if epoch > self.epoch or (epoch == self.epoch and first < self.lowest): "
    "[first < self.lowest -> first <= self.lowest]",
    # While markers are due, every request is refused; and only a transaction that is open, or whose
    # markers are due, has partitions.
    "if refused is not None and _awaits_markers(coordinator) and model.pending_first: "
    "[refused is not None and _awaits_markers(coordinator) and model.pending_first -> "
    "_awaits_markers(coordinator) and model.pending_first]",
    "before = coordinator.partitions if ongoing else 0 "
    "[coordinator.partitions if ongoing else 0 -> coordinator.partitions]",
    "known = coordinator.state is Txn.ONGOING and coordinator.partitions >> partition & 1 "
    "[coordinator.state is Txn.ONGOING and coordinator.partitions >> partition & 1 -> "
    "coordinator.partitions >> partition & 1]",
    "partitions = coordinator.partitions if coordinator.state is Txn.ONGOING else 0 "
    "[coordinator.partitions if coordinator.state is Txn.ONGOING else 0 -> coordinator.partitions]",
    "if coordinator.partitions or coordinator.state not in PREPARED: "
    "[coordinator.partitions or coordinator.state not in PREPARED -> coordinator.partitions]",
}

_UNTIL_4_1 = ("inactive_last_known",)
_SINCE_3_9 = ("unclean_by_setting",)
_UNCLEAN = (*_SINCE_3_9, "unclean_shutdown")
_UNTIL_4_3 = ("complete_with_all", "directory_drops_elr")

#: Which flags are on, of each side of a change: what the class under test does not show.
RULES = {
    "ControllerRules": {
        (3, 8, 1): {*_UNTIL_4_1, "last_known_with_isr", *_UNTIL_4_3},
        (3, 9, 1): {*_UNTIL_4_1, "last_known_with_isr", *_UNTIL_4_3, *_SINCE_3_9},
        (4, 0, 1): {*_UNTIL_4_1, "last_known_with_isr", *_UNTIL_4_3, *_UNCLEAN},
        (4, 1, 0): {"last_known_with_isr", *_UNTIL_4_3, *_UNCLEAN},
        (4, 1, 1): {*_UNTIL_4_3, *_UNCLEAN},
        (4, 2, 1): {*_UNTIL_4_3, *_UNCLEAN},
        (4, 3, 0): {*_UNCLEAN},
    },
}


def as_documented(rules: ModuleType) -> bool:
    """Tell whether each version has the rules that docs/explanation/conformance.md lists."""
    return all(
        getattr(rules, name).of(version) == _flags(getattr(rules, name), on)
        for name, versions in RULES.items()
        if getattr(getattr(rules, name, None), "__module__", "") == rules.__name__
        for version, on in versions.items()
    )


def _flags(made: Any, on: set[str]) -> Any:
    return made(**{field.name: field.name in on for field in fields(made)})


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.question)
def test_every_wrong_rule_is_refuted(
    engine: DockerClient, subject: Subject, tmp_path: Path
) -> None:
    cases = subject.cases(CASES, SEED)
    truth = [
        (numbers(version), case, answer)
        for version in VERSIONS
        for case, answer in zip(
            cases, subject.asked(Oracle(engine, version, tmp_path / version), cases), strict=True
        )
    ]

    def refuted(rules: ModuleType) -> bool:
        try:
            return not as_documented(rules) or any(
                subject.ours(case, version, rules) != answer for version, case, answer in truth
            )
        except Exception:  # a rule that breaks down is a wrong one
            return True

    made, survivors = 0, []
    for rules in subject.rules:
        assert not refuted(rules)
        for name, wrong in mutants(rules):
            made += 1
            if not refuted(wrong):
                survivors.append(name)
    unexplained = [name for name in survivors if name not in EQUIVALENT]
    killed = made - len(survivors)
    print(f"\n{subject.question}: {killed} of {made} mutants refuted, {len(survivors)} survive")  # noqa: T201
    assert not unexplained, "\n".join(unexplained)
