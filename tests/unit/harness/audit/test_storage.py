"""Logs that no volume holds: after a new pod or container a broker starts with an empty log."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackproof.audit.answer import Answer, Audit, Effect, Outcome, Verdict
from ackproof.audit.auditing import audit_clusters, with_tables
from ackproof.audit.detail import Detail
from ackproof.audit.diff import difference
from ackproof.audit.failing import thresholds, with_failing
from ackproof.audit.failure import Failure, how_rare
from ackproof.audit.finishing import finished
from ackproof.audit.outputs.summary import promises as shown_promises
from ackproof.audit.outputs.summary import summaries
from ackproof.audit.promise import promises, with_failing_promises, with_promised
from ackproof.own_config.reading import read_texts

CASES = Path(__file__).parents[3] / "data" / "cases"
PRODUCER = b"acks=all\nenable.idempotence=true\n"
STRIMZI = """\
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {{name: k}}
spec:
  kafka:
    version: 4.1.0
    replicas: {replicas}
    storage: {{type: {storage}}}
    config: {{min.insync.replicas: {minimum}, default.replication.factor: {replicas}}}
"""
RECREATED, CRASH, LAG = Failure.RECREATED, Failure.CRASH, Failure.LAG


def audit(text: str, *, detail: Detail = Detail.NOTHING) -> Audit:
    files = {"kafka.yaml": text.encode(), "producer.properties": PRODUCER}
    whole = audit_clusters(read_texts(files), detail=detail)
    return with_tables(finished(with_failing(whole, thresholds([]))), detail)


def strimzi(storage: str, *, replicas: int = 3, minimum: int = 2) -> str:
    return STRIMZI.format(storage=storage, replicas=replicas, minimum=minimum)


def only(text: str) -> Answer:
    [answer] = audit(text).answers
    return answer


def lost(answer: Answer) -> dict[tuple[Failure, ...], str]:
    return {one.failures: one.likelihood for one in answer.risks if one.effect is Effect.LOST}


def test_a_rolling_update_without_volumes_comes_first() -> None:
    answer = only(strimzi("ephemeral"))
    assert lost(answer)[RECREATED, RECREATED, RECREATED] == "possible"
    assert answer.verdict is Verdict.YES
    assert answer.worst is not None
    assert answer.worst.failures == (RECREATED,) * 3
    assert all(RECREATED not in failures for failures in lost(only(strimzi("persistent-claim"))))


def test_the_first_change_is_a_volume() -> None:
    """It comes before min.insync.replicas, which helps against rarer failures."""
    whole = audit(strimzi("ephemeral", minimum=1), detail=Detail.CHANGED)
    [answer] = whole.answers
    first = answer.alternatives[0].changes[0]
    assert (first.setting, first.value, first.change) == (
        "storage.type",
        "ephemeral",
        "persistent-claim",
    )
    assert str(first.source) == "kafka.yaml:8"
    left = [one for one in answer.alternatives[0].risks if one.failures == (RECREATED,) * 3]
    assert all(one.rare for one in left), "three restarts in which a leader misses an epoch (B56)"


def test_a_chart_without_persistence_is_no_safe_cluster() -> None:
    """Kafka 3.9.1, three replicas, acks=all."""
    names = ("min-18-empty-dir.yaml", "min-producer.properties")
    files = {name: (CASES / name).read_bytes() for name in names}
    [answer] = audit_clusters(read_texts(files, kafka="3.9.1")).answers
    assert (RECREATED,) * 3 in lost(answer)
    assert str(answer.settings["storage"].source) == "min-18-empty-dir.yaml:4"


def test_the_line_is_said_below_the_headline() -> None:
    [summary] = summaries(audit(strimzi("ephemeral"), detail=Detail.TABLES | Detail.TRACES))
    assert "storage.type=ephemeral, kafka.yaml:8" in summary.storage
    [kept] = summaries(audit(strimzi("persistent-claim"), detail=Detail.TABLES))
    assert kept.storage == ""


COMPOSE = """\
services:
  kafka:
    image: confluentinc/cp-kafka:7.6.0
    environment: {KAFKA_NODE_ID: 1, KAFKA_PROCESS_ROLES: "broker,controller"}
"""
POD = """\
kind: StatefulSet
spec:
  template:
    spec:
      containers:
        - image: confluentinc/cp-kafka:7.6.0
          env: [{name: KAFKA_PROCESS_ROLES, value: "broker,controller"}]
"""
EMPTY_DIR = """\
          volumeMounts: [{name: data, mountPath: /var/lib/kafka/data}]
      volumes: [{name: data, emptyDir: {}}]
"""


@pytest.mark.parametrize(
    ("text", "crash_loses"),
    [
        pytest.param(COMPOSE, False, id="compose restarts the container"),
        pytest.param(POD, True, id="Kubernetes makes a new container"),
        pytest.param(POD + EMPTY_DIR, False, id="an emptyDir outlives the container"),
    ],
)
def test_a_sole_replica_is_lost_with_its_container(text: str, *, crash_loses: bool) -> None:
    found = lost(only(text))
    assert found[(RECREATED,)] == "certain"
    assert found.get((CRASH,)) == ("certain" if crash_loses else None)


def test_who_takes_the_volume_away_is_not_green() -> None:
    before, after = audit(strimzi("persistent-claim")), audit(strimzi("ephemeral"))
    new = {finding.risk.failures for finding in difference(before, after, base="main").new}
    assert (RECREATED,) * 3 in new
    assert difference(after, before, base="main").new == ()


def test_a_rolling_update_is_one_ordinary_event() -> None:
    """Several pods are replaced as often as one; a crash beside it is a second event."""
    assert how_rare((RECREATED,) * 3) == how_rare((RECREATED,)) == how_rare((CRASH,))
    assert how_rare((RECREATED, RECREATED, CRASH)) == how_rare((CRASH, CRASH))
    assert how_rare((LAG, RECREATED)) < how_rare((Failure.DISK_REPLACED,))


@pytest.mark.parametrize(
    ("storage", "promise", "outcome"),
    [
        ("ephemeral", "recreated", Outcome.KEPT),
        ("ephemeral", "recreated, recreated, recreated", Outcome.BROKEN),
        ("persistent-claim", "recreated, recreated", Outcome.KEPT),
        ("unknown", "recreated", Outcome.NOT_DECIDED),
    ],
)
def test_a_promise_may_name_a_new_pod(storage: str, promise: str, outcome: Outcome) -> None:
    of = with_promised(audit(strimzi(storage)), promises([promise]))
    assert [one.outcome for one in of.answers[0].promised] == [outcome]


def test_new_pods_with_volumes_are_restarts_in_sentence_and_exit_code() -> None:
    """Three restarts lose if a leader misses an epoch (B56)."""
    whole = with_promised(
        audit(strimzi("persistent-claim")), promises(["recreated, " * 2 + "recreated"])
    )
    failing = with_failing_promises(with_failing(whole, thresholds([], promised=True)))
    assert [one.failing for one in failing.answers[0].promised] == [True]
    [said] = shown_promises(finished(failing))
    assert said.text.endswith(
        "BROKEN, acknowledged records may rarely be lost after the pods or "
        "containers of 3 brokers are replaced (producer.properties)."
    )


def test_any_failure_is_a_new_pod_only_where_no_volume_holds_the_logs() -> None:
    stated = promises(["any 1 failure"])
    named = [
        {one.failures for one in with_promised(audit(text), stated).answers[0].promised}
        for text in (strimzi("ephemeral"), strimzi("persistent-claim"))
    ]
    assert named[0] - named[1] == {(RECREATED,)}
    sole = with_promised(audit(strimzi("ephemeral", replicas=1, minimum=1)), stated)
    broken = {one.failures for one in sole.answers[0].promised if one.outcome is Outcome.BROKEN}
    assert broken == {(RECREATED,)}
