"""The comparison with Kafka's classes can fail: it refutes every wrong version of our rules."""

from __future__ import annotations

from types import ModuleType

import pytest
from docker import DockerClient

from ackproof.harness.cluster.versions import numbers
from conformance.kafka_classes import Oracle
from conformance.mutants import mutants
from conformance.subjects import SUBJECTS, Subject

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

#: One version on each side of every change of a rule.
VERSIONS = ("3.9.1", "4.1.2", "4.3.1")
CASES, SEED = 6000, 7

#: Mutants that no test can tell from the original: what they change makes no difference.
EQUIVALENT: dict[str, str] = {}


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.question)
def test_every_wrong_rule_is_refuted(engine: DockerClient, subject: Subject) -> None:
    cases = subject.cases(CASES, SEED)
    truth = [
        (numbers(version), case, answer)
        for version in VERSIONS
        for case, answer in zip(
            cases,
            Oracle(engine, version).ask(subject.question, map(subject.line, cases)),
            strict=True,
        )
    ]

    def refuted(rules: ModuleType) -> bool:
        try:
            return any(
                subject.ours(case, version, rules) != answer for version, case, answer in truth
            )
        except Exception:  # a rule that breaks down is a wrong one
            return True

    assert not refuted(subject.rules)
    made, survivors = 0, []
    for name, wrong in mutants(subject.rules):
        made += 1
        if not refuted(wrong):
            survivors.append(name)
    unexplained = [name for name in survivors if name.partition(": ")[2] not in EQUIVALENT]
    killed = made - len(survivors)
    print(f"\n{subject.question}: {killed} of {made} mutants refuted, {len(survivors)} survive")  # noqa: T201
    assert not unexplained, "\n".join(unexplained)
