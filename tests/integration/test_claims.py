"""Published claims, tried on brokers of the versions they were written for and of today.

One cluster a version serves every trial. `docs/claims.yaml` says for each claim and version whether
it is expected to hold; a trial that sees something else fails. With CLAIMS_SEEN=FILE each adds
what it saw to this file, as a line of JSON: `ci/claims` stores that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient
from ruamel.yaml import YAML

from ackproof.scenario.cluster import ClusterSpec
from integration.claims import defaults, outages, requests, transactions
from integration.claims.subject import VERSIONS, Subject, merged
from kafka_clusters import NOTICED, boot

LISTED = {
    claim["id"]: claim
    for claim in YAML(typ="safe").load(Path(__file__).parents[2] / "docs" / "claims.yaml")
}
TRIALS = merged(requests.trials, transactions.trials, outages.trials, defaults.trials)

SETTINGS = NOTICED | {
    "zookeeper.session.timeout.ms": 6000,
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


def test_every_trial_is_of_a_listed_claim_and_its_versions() -> None:
    for claim, (_, versions) in TRIALS.items():
        verdict = LISTED[claim]["verdict"]
        assert isinstance(verdict, str) or set(versions) <= set(verdict), claim


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest, engine: DockerClient) -> Iterator[Subject]:
    kafka = request.param
    with boot(engine, ClusterSpec(settings=SETTINGS), kafka=kafka) as cluster:
        yield Subject(cluster=cluster, kafka=kafka)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(
    ("subject", "claim"),
    [
        pytest.param(version, claim, id=f"{version}-{claim}")
        for version in VERSIONS
        for claim, (_, versions) in TRIALS.items()
        if version in versions
    ],
    indirect=["subject"],
)
def test_a_claim(subject: Subject, claim: str) -> None:
    trial, _ = TRIALS[claim]
    verdict = LISTED[claim]["verdict"]
    expected = verdict if isinstance(verdict, str) else verdict[subject.kafka]
    subject.repair()
    observed = trial(subject)
    if seen := os.environ.get("CLAIMS_SEEN"):
        line = {
            "claim": claim,
            "kafka": subject.kafka,
            "holds": observed.holds,
            "evidence": observed.evidence,
            "trial": f"{trial.__module__.rpartition('.')[2]}.{trial.__name__}",
        }
        with Path(seen).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    assert observed.holds == (expected == "holds"), observed.evidence
