"""Our rules are Kafka's: random cases through Kafka's own classes and through ours.

`ci/lab/conformance` asks for 100,000 cases of each of several versions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ackproof.kafka_versions import numbers
from conformance.kafka_classes import (
    CASES,
    Oracle,
    smallest,
)
from conformance.subjects import SUBJECTS, Subject

pytestmark = pytest.mark.cluster

SEED = 20260101


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.question)
def test_our_rules_answer_as_kafkas_class(oracle: Oracle, version: str, subject: Subject) -> None:
    if numbers(version) < subject.since:
        pytest.skip(f"Kafka {version} has no such class")

    def differing(cases: Sequence[Any]) -> list[bool]:
        # Our rules answer while the JVM does.
        with ThreadPoolExecutor(max_workers=1) as jvm:
            theirs = jvm.submit(subject.asked, oracle, cases)
            ours = [subject.answer(case, numbers(version)) for case in cases]
        return [mine != other for mine, other in zip(ours, theirs.result(), strict=True)]

    began = time.monotonic()
    cases = subject.cases(CASES, SEED)
    bad = [case for case, differs in zip(cases, differing(cases), strict=True) if differs]
    print(  # noqa: T201
        f"\nKafka {version}, {subject.question}: {len(cases)} distinct cases, {len(bad)} differ, "
        f"{time.monotonic() - began:.0f} s"
    )
    if bad:
        case = smallest(bad[0], smaller=subject.smaller, differing=differing)
        pytest.fail(
            f"{len(bad)} of {len(cases)} differ at Kafka {version}; the smallest:\n{case}\n"
            f"Kafka: {subject.asked(oracle, [case])[0]}\n"
            f"rules: {subject.answer(case, numbers(version))}"
        )
    # That they agree says little where all answers are alike.
    assert len({subject.answer(case, numbers(version)) for case in cases[:2000]}) > 40
