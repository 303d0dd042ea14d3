"""Published claims, tried on brokers of the versions they were written for and of today.

One cluster a version serves all trials that need brokers. `docs/claims.yaml` says for each claim
and version whether it is expected to hold; a trial that sees something else fails. With
CLAIMS_SEEN=FILE each adds what it saw to this file, as a line of JSON: `ci/lab/claims` stores that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import claims_page
import pytest
from docker import DockerClient

from ackproof.containers import images
from ackproof.scenario.cluster import ClusterSpec
from integration.claims import (
    consumers,
    defaults,
    java_client,
    outages,
    requests,
    segments,
    sequences,
    transactions,
)
from integration.claims.defaults import Classes
from integration.claims.subject import VERSIONS, Observed, Subject, T, merged
from kafka_clusters import NOTICED, boot

#: The verdict of each claim on each version.
LISTED = {claim["id"]: claim["verdict"] for claim in claims_page.listed()}
TRIALS = merged(
    requests.trials,
    consumers.trials,
    transactions.trials,
    segments.trials,
    sequences.trials,
    outages.trials,
    java_client.trials,
)
OF_CLASSES = merged(defaults.trials, java_client.of_classes)

SETTINGS = NOTICED | {
    "zookeeper.session.timeout.ms": 6000,
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


def test_every_trial_is_of_a_listed_claim_and_its_versions() -> None:
    assert not set(TRIALS) & set(OF_CLASSES)
    for claim, (_, versions) in [*TRIALS.items(), *OF_CLASSES.items()]:
        assert set(versions) <= set(LISTED[claim]), claim


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest, engine: DockerClient) -> Iterator[Subject]:
    kafka = request.param
    with boot(engine, ClusterSpec(settings=SETTINGS), kafka=kafka) as cluster:
        yield Subject(cluster=cluster, kafka=kafka)


@pytest.fixture(scope="module")
def classes(request: pytest.FixtureRequest, engine: DockerClient) -> Classes:
    image = images.ensure(request.param, client=engine).reference
    return Classes(engine=engine, image=image, kafka=request.param)


def each(found: Mapping[str, tuple[object, tuple[str, ...]]]) -> list[object]:
    """Return the parameters of a test: every version with each of its claims."""
    return [
        pytest.param(version, claim, id=f"{version}-{claim}")
        for version in VERSIONS
        for claim, (_, versions) in found.items()
        if version in versions
    ]


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(("classes", "claim"), each(OF_CLASSES), indirect=["classes"])
def test_a_claim_by_classes(classes: Classes, claim: str) -> None:
    judge(claim, classes.kafka, OF_CLASSES[claim][0], classes)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(("subject", "claim"), each(TRIALS), indirect=["subject"])
def test_a_claim(subject: Subject, claim: str) -> None:
    subject.repair()
    judge(claim, subject.kafka, TRIALS[claim][0], subject)


def judge(claim: str, kafka: str, trial: Callable[[T], Observed], on: T) -> None:
    """Try a claim; write down what was seen, and require that it is as listed."""
    expected = LISTED[claim][kafka]
    observed = trial(on)
    if seen := os.environ.get("CLAIMS_SEEN"):
        line = {
            "claim": claim,
            "kafka": kafka,
            "holds": observed.holds,
            "evidence": observed.evidence,
            "trial": f"{trial.__module__.rpartition('.')[2]}.{trial.__name__}",
        }
        with Path(seen).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    assert observed.holds == (expected == "holds"), observed.evidence
