"""The controller's rules are Kafka's: random states through PartitionChangeBuilder and ours."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from docker import DockerClient

from ackproof.harness.cluster.versions import numbers
from conformance.kafka_classes import CASES, VERSIONS, Oracle, smallest
from conformance.partition_cases import Case, line, ours, random_case, smaller

pytestmark = pytest.mark.cluster

SEED = 20260101


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_rules_write_is_what_the_class_writes(engine: DockerClient, version: str) -> None:
    oracle = Oracle(engine, version)

    def differing(cases: Sequence[Case]) -> list[bool]:
        theirs = oracle.ask("partition", map(line, cases))
        return [
            ours(case, numbers(version)) != answer
            for case, answer in zip(cases, theirs, strict=True)
        ]

    rng = random.Random(SEED)
    cases = [random_case(rng) for _ in range(CASES)]
    bad = [case for case, differs in zip(cases, differing(cases), strict=True) if differs]
    if bad:
        case = smallest(bad[0], smaller=smaller, differing=differing)
        pytest.fail(
            f"{len(bad)} of {len(cases)} differ at Kafka {version}; the smallest:\n{case}\n"
            f"Kafka: {oracle.ask('partition', [line(case)])[0]}\n"
            f"rules: {ours(case, numbers(version))}"
        )
    # The cases are worth something: most change the partition, in many ways.
    shapes = {
        " ".join(word.split("=")[0] for word in ours(case, numbers(version)).split())
        for case in cases
    }
    assert len(shapes) > 20
