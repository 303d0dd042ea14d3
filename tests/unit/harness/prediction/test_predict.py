from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from catalogue_pages import arms_of

from ackproof.judgement.findings import contradictions
from ackproof.prediction import cache
from ackproof.prediction import predict as prediction
from ackproof.prediction.predict import predict, predict_each, settling_s
from ackproof.prediction.unmodelled import reused_buffers
from ackproof.runs.verdict import NOT_KAFKA
from ackproof.scenario import shipped
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.librdkafka import DEFECTS
from ackproof.scenario.loader import load
from ackproof.scenario.model import Scenario
from ackproof.scenario.topics import TopicSpec
from ackproof_faults.process.stops import Kill
from ackproof_model import (
    AnyTime,
    Configuration,
    Cuts,
    Elapsed,
    Ends,
    Injection,
    IsrSize,
    LeaderChanged,
    Prediction,
    Progress,
    Role,
)
from ackproof_model import predict as search
from ackproof_model.effects import Anything, Effects
from ackproof_spark.anomaly import PREDICTED
from support.sampling import others_slow
from unit.harness.prediction.scenarios import ACKS

SCENARIOS = Path(__file__).parents[4] / "scenarios"
LEADER = frozenset({Role.LEADER})

SERVED_CUT = Cuts(channels=("replication",), served=True)
Asked = list[tuple[Configuration, tuple[Injection, ...]]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The questions to the model, which answers as if there were no faults."""
    questions: Asked = []

    def answer(
        configuration: Configuration, schedule: Sequence[Injection], *, max_states: int = 0
    ) -> Prediction:
        questions.append((configuration, tuple(schedule)))
        return search(configuration, [])

    monkeypatch.setattr(cache, "predict", answer)
    return questions


def scenario(**changes: Any) -> Scenario:
    return Scenario.model_validate({**ACKS[1].scenario.model_dump(by_alias=True), **changes})


def load_of(**changes: Any) -> dict[str, Any]:
    return {**scenario().workload.model_dump(by_alias=True), **changes}


def producing(settings: dict[str, Any], *faults: dict[str, Any], **workload: Any) -> Scenario:
    """Return the scenario with these settings of its producers, faults and keys of `workload`."""
    return scenario(workload=load_of(**workload, settings=settings), faults=list(faults))


IDEMPOTENT = {"acks": "all", "enable.idempotence": True}


def test_the_configuration_has_the_settings_of_the_scenario(asked: Asked) -> None:
    predict(scenario(cluster={"brokers": 3, "settings": {"replica.lag.time.max.ms": 5000}}))
    configuration = asked[0][0]
    assert configuration.acks == "1"
    assert configuration.min_insync_replicas == 2
    assert configuration.replica_lag_time_max_s == 5
    assert configuration.session_s == 9
    assert configuration.delivery_timeout_s == 60


@pytest.mark.parametrize(
    ("acks", "probe", "expected"),
    [("0", False, "impossible"), ("0", True, "possible"), ("1", False, "possible")],
)
def test_probe_with_acks_0_makes_inconsistent_possible(
    acks: str, probe: bool, expected: str
) -> None:
    faults = scenario().model_dump(by_alias=True)["faults"]
    asked = producing({"acks": acks, "enable.idempotence": False}, *faults, probe=probe)
    assert predict(asked).predicted["inconsistent"] == expected


@pytest.mark.parametrize(
    ("fault", "probe", "expected"),
    [
        ({"fault": "partition", "peers": "clients"}, True, "possible"),
        ({"fault": "partition", "peers": "clients"}, False, "impossible"),
        ({"fault": "isolate_replication"}, True, "impossible"),
        ({"fault": "pause"}, True, "possible"),
    ],
)
def test_late_write_of_the_probe_may_be_reordered(
    fault: dict[str, str], probe: bool, expected: str
) -> None:
    step = {"target": "leader of orders-0", "heal_after": "12s", **fault}
    found = predict(producing(IDEMPOTENT, step, probe=probe))
    assert found.predicted["reordered"] == expected


@pytest.mark.parametrize(
    ("direction", "action", "expected"),
    [
        ("request", "hold", "possible"),
        ("request", "drop", "impossible"),  # it is never delivered
        ("response", "hold", "impossible"),  # the write is in its place
    ],
)
def test_only_a_held_write_of_the_probe_may_be_reordered(
    direction: str, action: str, expected: str
) -> None:
    link = {"fault": "link", "target": "all", "api": "Produce", "heal_after": "12s"}
    asked = producing(
        IDEMPOTENT, {**link, "direction": direction, "action": action}, probe=True, listener="LINK"
    )
    cluster = asked.cluster.model_copy(update={"listeners": ["LINK"], "proxied": ["LINK"]})
    found = predict(asked.model_copy(update={"cluster": cluster}))
    assert found.predicted["reordered"] == expected


@pytest.mark.parametrize(
    ("kafka", "fault", "seconds"),
    [("4.3.1", "kill", 3), ("4.3.1", "isolate_replication", 13), ("2.6.2", "kill", 18)],
)
def test_a_step_settles_after_the_timers_that_its_faults_start(
    kafka: str, fault: str, seconds: float
) -> None:
    timers = {"broker.session.timeout.ms": 3000, "replica.lag.time.max.ms": 10000}
    faults = [{"fault": fault, "target": "leader of orders-0"}]
    asked = scenario(kafka=kafka, cluster={"brokers": 3, "settings": timers}, faults=faults)
    assert settling_s(asked) == seconds


def test_faults_on_the_leader_of_a_partition_hit_its_leader(asked: Asked) -> None:
    predict(scenario())
    cut, kill = asked[0][1]
    assert cut == Injection(
        fault="isolate_replication",
        effects=(SERVED_CUT,),
        targets=LEADER,
        when=(Progress(outcome="acked", more=False), IsrSize(op="==", size=3)),
    )
    assert kill == Injection(
        fault="kill",
        effects=(Ends(),),
        targets=LEADER,
        when=(Elapsed(seconds=5.0), Progress(outcome="acked", more=True)),
        or_after=5.0,
        heal_when=(LeaderChanged(),),
        heal_or_after=30.0,
    )


def test_faults_on_another_partitions_leader_hit_any_broker_at_any_time(
    asked: Asked,
) -> None:
    predict(scenario())
    assert len(asked) == 2, "the two other partitions are asked about once"
    cut, kill = asked[1][1]
    assert cut.targets == frozenset({Role.ANY_ONE})
    assert cut.when[1] == AnyTime()
    assert kill.targets == frozenset({Role.SAME})
    assert kill.heal_when == (AnyTime(),)


def test_after_a_kill_the_leader_may_be_another_one(asked: Asked) -> None:
    kill = {"fault": "kill", "target": "leader of orders-0", "heal_after": "1s"}
    predict(scenario(faults=[kill, kill]))
    assert [injection.targets for injection in asked[1][1]] == [frozenset({Role.ANY_ONE})] * 2


@pytest.mark.parametrize(
    ("step", "lost"),
    [
        ({"random": [{"fault": "none"}], "for": "30s"}, "impossible"),
        ({"fault": "crash_loop", "target": "any broker"}, "possible"),
        ({"fault": "kill", "target": "active controller"}, "possible"),
    ],
)
def test_unsupported_schedules_have_their_worst_case(
    step: dict[str, Any], lost: str, asked: Asked
) -> None:
    record = predict(scenario(cluster={"controllers": 3}, faults=[step]))
    assert record.predicted["lost"] == lost
    assert record.prediction.bounds.startswith("Worst case: the exact search cannot follow")
    assert not asked


@pytest.mark.parametrize(
    ("target", "roles"),
    [
        ("followers of orders-0", [{Role.FOLLOWERS}]),
        (2, [{Role.ANY_ONE}]),
        ([1, 3], [{Role.FOLLOWERS}, {Role.LEADER, Role.ANY_ONE}]),
        ("all", [{0, 1, 2}]),
    ],
)
def test_targets_become_roles(target: object, roles: list[set[Role]], asked: Asked) -> None:
    one_partition = {"orders": {"settings": {"min.insync.replicas": 2}}}
    kill = {"fault": "kill", "target": target, "when": "after 3s"}
    predict(scenario(topics=one_partition, faults=[kill]))
    injections = [schedule[0] for _, schedule in asked]
    assert [injection.targets for injection in injections] == roles
    assert {injection.when for injection in injections} == {(Elapsed(seconds=3),)}


def test_several_of_many_brokers_have_their_worst_case() -> None:
    record = predict(scenario(cluster={"brokers": 5}, faults=[{"fault": "kill", "target": [1, 2]}]))
    assert record.predicted["lost"] == "possible"
    assert record.predicted["phantom"] == "impossible"
    assert "several of many brokers" in record.prediction.bounds


def test_methods_of_partitions_that_differ_are_sentences_of_their_own() -> None:
    move = {"fault": "reassign", "topic": "orders", "partition": 0, "to": [4, 2, 3]}
    roll = {"fault": "rolling_restart", "target": "all"}
    record = predict(scenario(cluster={"brokers": 4}, faults=[move, roll]))
    method = record.prediction.bounds
    assert method.count("Times and conditions are ignored") == 2
    assert "For the rest: Worst case: the exact search cannot follow" in method


def test_an_unknown_fault_excludes_nothing() -> None:
    class Flood(Kill):
        name: ClassVar[str] = "flood"
        effects: ClassVar[Effects] = (Anything(),)

    known = scenario()
    flood = Flood.model_validate(known.faults[0].model_dump() | {"fault": "kill", "target": [1]})
    record = predict(known.model_copy(update={"faults": [flood]}))
    assert set(record.predicted.values()) == {"possible"}
    assert all("flood may do anything" in why for why in record.prediction.reasons.values())


@pytest.mark.parametrize(
    ("acks", "min_insync", "lost"),
    [
        ("all", 1, "possible"),
        ("all", 2, "impossible"),
        pytest.param("1", 3, "certain", marks=pytest.mark.slow),
    ],
)
def test_default_question_is_answered_exactly(acks: str, min_insync: int, lost: str) -> None:
    found = load(SCENARIOS / "your-configuration.yaml")[0].scenario.model_dump(by_alias=True)
    found["topics"]["orders"]["settings"]["min.insync.replicas"] = min_insync
    found["workload"]["settings"] |= {"acks": acks, "enable.idempotence": acks == "all"}
    record = predict(Scenario.model_validate(found))
    assert record.predicted["lost"] == lost
    assert "it stopped early" not in record.prediction.bounds


@pytest.mark.parametrize(
    ("number", "lost"), [(0, "certain"), (1, "certain"), (2, "impossible")], ids=["0", "1", "all"]
)
def test_the_prediction_for_the_demo(number: int, lost: str) -> None:
    found = load(SCENARIOS / "acks.yaml")[number].scenario
    record = predict(found)
    assert record.predicted["lost"] == lost
    assert bool(record.prediction.trace) == (lost == "certain")


@pytest.mark.parametrize(
    ("version", "unclean", "session"),
    [("0.10.2.2", True, 6), ("2.6.2", False, 18), ("3.2.3", False, 18), ("3.9.1", False, 9)],
)
def test_the_version_decides_the_defaults(
    version: str, unclean: bool, session: float, asked: Asked
) -> None:
    plain = {"cluster": {"brokers": 3}, "topics": {"orders": {"partitions": 3}}}
    predict(scenario(kafka=version, **plain))
    configuration = asked[0][0]
    assert configuration.unclean_election is unclean
    assert configuration.session_s == session


def test_with_zookeeper_the_session_is_that_of_zookeeper(asked: Asked) -> None:
    settings = {"zookeeper.session.timeout.ms": 4000, "broker.session.timeout.ms": 7000}
    predict(scenario(kafka="2.6.2", cluster={"settings": settings}))
    assert asked[0][0].session_s == 4


def test_the_feature_level_decides_whether_there_are_eligible_leader_replicas(asked: Asked) -> None:
    for level, elr in ((0, False), (1, True)):
        features = {"eligible.leader.replicas.version": level, "transaction.version": 1}
        predict(scenario(cluster={"features": features}))
        assert asked[-1][0].elr is elr
        assert asked[-1][0].profile.elr is elr
    asked.clear()
    predict(scenario(cluster={"features": {"transaction.version": 1}}))
    assert asked[0][0].elr is None


def test_another_metadata_version_excludes_nothing(asked: Asked) -> None:
    transactional = load_of(settings=IDEMPOTENT, transactions={})
    features = {"metadata.version": "4.0-IV3"}
    record = predict(scenario(cluster={"features": features}, workload=transactional))
    assert set(record.predicted.values()) == {"possible"}
    assert "aborted-read" in record.predicted
    assert "metadata.version" in record.prediction.bounds
    assert asked == []


@pytest.mark.parametrize(
    ("kafka", "key", "value", "known"),
    [
        ("2.6.2", "inter.broker.protocol.version", "2.6", True),
        ("2.6.2", "inter.broker.protocol.version", "2.6-IV0", True),
        ("2.6.2", "inter.broker.protocol.version", "2.0", False),
        ("0.10.2.2", "inter.broker.protocol.version", "0.10.2", True),
        ("2.6.2", "log.message.format.version", "2.0", True),
        ("2.6.2", "log.message.format.version", "0.10.2-IV0", False),
    ],
)
def test_the_rules_of_an_older_protocol_are_unknown(
    kafka: str, key: str, value: str, known: bool, asked: Asked
) -> None:
    record = predict(scenario(kafka=kafka, cluster={"settings": {key: value}}))
    assert ("impossible" in record.predicted.values()) is known
    assert (f"{key}={value}" in record.prediction.bounds) is not known


def test_records_without_leader_epochs_are_unknown_of_one_topic_too(asked: Asked) -> None:
    topics = {"orders": {"settings": {"message.format.version": "0.10.2"}}}
    record = predict(scenario(kafka="2.6.2", topics=topics))
    assert set(record.predicted.values()) == {"possible"}


def test_brokers_with_different_timers_are_unknown(asked: Asked) -> None:
    def overridden(value: int) -> str:
        own = {"settings": {"replica.lag.time.max.ms": value}}
        settings = {"replica.lag.time.max.ms": 9000}
        found = predict(scenario(cluster={"settings": settings, "overrides": {2: own}}))
        return found.predicted["lost"]

    assert overridden(9000) == "impossible"
    assert overridden(1000) == "possible"


def test_retention_may_remove_what_was_acked(asked: Asked) -> None:
    def predicted(retention: int) -> set[str]:
        topics = {"orders": {"settings": {"retention.ms": retention}}}
        load = load_of(consumers={"billing": {}})
        found = predict(scenario(topics=topics, faults=[], workload=load, expect={"loss": "any"}))
        return {name for name, word in found.predicted.items() if word == "possible"}

    assert predicted(60_000) >= {"lost", "gap", "diverged", "unprocessed"}
    assert predicted(10**9) == {"reprocessed"}


WEEK = {"retention.ms": 7 * 86_400_000}
OLD = {"fault": "skew_timestamps", "by": "14400m"}
FAST = {"fault": "skew_clock", "by": "14400m", "target": "leader of orders-0"}


@pytest.mark.parametrize(
    ("settings", "faults", "workload", "expected"),
    [
        (WEEK, [], {}, "impossible"),
        (WEEK, [OLD], {}, "possible"),
        (WEEK, [{**OLD, "direction": "future"}], {}, "impossible"),
        ({**WEEK, "message.timestamp.type": "LogAppendTime"}, [OLD], {}, "impossible"),
        (WEEK, [FAST], {}, "possible"),
        (WEEK, [{**FAST, "by": "-14400m"}], {}, "impossible"),
        (WEEK, [], {"seconds": "11520m"}, "possible"),
        (WEEK, [], {"application": {"command": ["shop"]}}, "possible"),
        ({}, [OLD], {}, None),
        ({}, [{**OLD, "heal_after": "1s"}, FAST], {}, None),
        (
            {},
            [{"fault": "alter_config", "topic": "orders", "key": "retention.ms", "value": 9}],
            {},
            "possible",
        ),
        ({"retention.bytes": 10**9}, [], {}, "impossible"),
        ({"retention.bytes": 10**9}, [], {"size": 10_000}, "possible"),
        ({"retention.bytes": 10**9}, [], {"probe": True}, "possible"),
        ({"cleanup.policy": "compact", "retention.ms": 1}, [], {"keys": 3}, "possible"),
    ],
)
def test_removed_follows_from_settings_timestamps_and_size(
    settings: dict[str, Any],
    faults: list[dict[str, Any]],
    workload: dict[str, Any],
    expected: str | None,
    asked: Asked,
) -> None:
    topics, cluster = {"orders": {"settings": settings}}, {"clock": "adjustable"}
    load = load_of(**workload)
    record = predict(scenario(topics=topics, faults=faults, workload=load, cluster=cluster))
    assert record.predicted.get("removed") == expected
    reason = record.prediction.reasons.get("removed", "")
    assert ("skew_" in reason) is (expected == "possible" and faults in ([OLD], [FAST]))


def test_a_steady_load_certainly_reaches_the_limits(asked: Asked) -> None:
    """Unless a fault or compression makes the size of the log uncertain."""
    checked = {"log.retention.check.interval.ms": 1000, "log.initial.task.delay.ms": 1000}

    def predicted(*faults: dict[str, Any], **settings: Any) -> str:
        own = {**load_of()["settings"], **settings}
        limits = {"retention.bytes": 1_000_000, "segment.bytes": 1_048_576}
        asked = scenario(
            topics={"orders": {"settings": limits}},
            cluster={"settings": checked},
            workload=load_of(rate=1500, size=1000, tail=40_000, settings=own),
            faults=list(faults),
        )
        return predict(asked).predicted["removed"]

    assert predicted() == "certain"
    assert predicted(**{"compression.type": "zstd"}) == "possible"
    assert predicted({"fault": "kill", "target": 1}) == "possible"


def test_a_search_that_ends_early_has_the_reasons_of_the_worst_case() -> None:
    fault = {"fault": "kill", "target": "leader of orders-0"}
    found = predict(scenario(faults=[fault, fault]), max_states=100)
    assert found.predicted["lost"] == "possible"
    assert "1 SIGKILL loses an acked record" in found.prediction.reasons["lost"]
    assert found.prediction.bounds.startswith("Incomplete search")


def test_nothing_is_predicted_for_a_cluster_that_is_not_apache_kafka(asked: Asked) -> None:
    record = predict(scenario(cluster={"implementation": "other"}))
    assert set(record.predicted) == set(map(str, PREDICTED))
    assert set(record.predicted.values()) == {"not modelled"}
    assert record.prediction.bounds == "not modelled: the cluster is not Apache Kafka"
    assert record.kafka_version == NOT_KAFKA
    assert not contradictions(record.predicted, dict.fromkeys(record.predicted, 1), conclusive=True)
    assert not asked


@pytest.mark.parametrize(("fault", "corrupt"), [("wipe_volume", False), ("flip_byte", True)])
def test_only_altered_bytes_are_corrupt(fault: str, corrupt: bool) -> None:
    record = predict(scenario(faults=[{"fault": fault, "target": 1}]))
    assert set(record.predicted) == set(map(str, PREDICTED))
    assert (record.predicted["corrupt"] == "possible") is corrupt
    assert record.predicted["phantom"] == "impossible"


@pytest.mark.parametrize(("faults", "searched"), [(8, True), (9, False)])
def test_a_schedule_with_too_many_faults_is_bounded(
    faults: int, searched: bool, asked: Asked
) -> None:
    record = predict(scenario(faults=[{"fault": "none"}] * faults))
    assert record.predicted["lost"] == "impossible"
    assert any(schedule for _, schedule in asked) is searched
    assert searched or "9 faults" in record.prediction.bounds


@pytest.mark.parametrize(
    ("fault", "effect"),
    [
        ({"fault": "power_loss", "last": 5, "torn": True}, Ends(log="prefix")),
        ({"fault": "oom_kill"}, Ends()),
    ],
)
def test_a_broker_that_ends_is_searched(fault: dict[str, Any], effect: Ends, asked: Asked) -> None:
    predict(scenario(faults=[{"target": "leader of orders-0", **fault}]))
    assert asked[0][1] == (Injection(fault=fault["fault"], effects=(effect,), targets=LEADER),)


def test_faults_of_consumers_do_not_affect_replication(asked: Asked) -> None:
    crash = {"fault": "crash_client", "client": "consumer 0"}
    predict(producing(IDEMPOTENT, crash, consumers={"readers": {}}))
    assert asked[0][1][0].effects == ()


def test_a_wrong_clock_may_depose_leaders(asked: Asked) -> None:
    fault = {"fault": "skew_clock", "target": "leader of orders-0", "by": "-90m"}
    found = predict(scenario(cluster={"clock": "adjustable"}, faults=[fault]))
    assert found.predicted["lost"] == "possible"
    assert "the fault skew_clock" in found.prediction.bounds
    assert not asked


@pytest.mark.parametrize(
    ("settings", "faults", "duplicated"),
    [
        ({"acks": "all", "request.timeout.ms": 1000}, "isolate_replication", "possible"),
        ({"acks": "all"}, "isolate_replication", "possible"),
        ({"acks": "all"}, "none", "impossible"),
        ({"acks": "1"}, "isolate_replication", "impossible"),
        ({"acks": "1", "request.timeout.ms": 1000}, "none", "possible"),
        ({"acks": "all", "request.timeout.ms": 1000, "retries": 0}, "none", "impossible"),
        ({"acks": "0", "request.timeout.ms": 1000}, "none", "impossible"),
    ],
)
def test_a_request_timeout_makes_duplicates_possible(
    settings: dict[str, Any], faults: str, duplicated: str
) -> None:
    fault = {"fault": faults, "target": "leader of orders-0"}
    for idempotence in (False, True):
        if idempotence and (settings["acks"] != "all" or "retries" in settings):
            continue
        record = predict(producing({**settings, "enable.idempotence": idempotence}, fault))
        assert record.predicted["duplicated"] == ("impossible" if idempotence else duplicated)


LEADER_CUT = {"fault": "isolate_replication", "target": "leader of orders-0"}


@pytest.mark.parametrize(
    ("timeout_ms", "fault", "duplicated"),
    [
        (3000, LEADER_CUT, "possible"),
        (3000, {"fault": "none"}, "impossible"),
        (60000, LEADER_CUT, "impossible"),
        (60000, {"fault": "partition", "peers": "clients", "heal_after": "90s"}, "possible"),
        (60000, {"fault": "partition", "peers": "clients", "heal_after": "30s"}, "impossible"),
        (60000, {"fault": "partition", "peers": "clients"}, "possible"),
        (60000, {"fault": "isolate"}, "impossible"),
        (60000, {"fault": "kill", "heal_after": "90s"}, "possible"),
        (60000, {"fault": "kill"}, "impossible"),
    ],
)
def test_sends_that_time_out_make_duplicates_of_an_idempotent_producer_possible(
    timeout_ms: int, fault: dict[str, Any], duplicated: str, asked: Asked
) -> None:
    settings = {**IDEMPOTENT, "delivery.timeout.ms": timeout_ms}
    found = predict(producing(settings, {"target": "all", **fault}))
    assert found.predicted["duplicated"] == duplicated
    assert found.predicted["reordered"] == "impossible"


ROLL = {"fault": "rolling_restart", "target": "all"}


@pytest.mark.parametrize(
    ("settings", "fault", "workload", "partitions", "duplicated"),
    [
        ({}, ROLL, {}, 2, "possible"),
        ({}, ROLL, {}, 1, "impossible"),
        ({}, {"fault": "restart", "target": "leader of orders-0"}, {}, 2, "possible"),
        ({}, {"fault": "kill", "target": "leader of orders-0"}, {}, 2, "possible"),
        ({"max.in.flight.requests.per.connection": 1}, ROLL, {}, 2, "impossible"),
        ({}, ROLL, {"client": {"java": "4.3.1"}}, 2, "impossible"),
        ({}, ROLL, {"transactions": {"size": 10}}, 2, "impossible"),
        ({}, {"fault": "reset_connections", "target": "all"}, {}, 2, "impossible"),
        ({}, {"fault": "isolate_replication", "target": "all"}, {}, 2, "impossible"),
        ({}, {"fault": "crash_client", "client": "producer 0"}, {}, 2, "impossible"),
    ],
)
def test_a_leader_change_makes_duplicates_of_librdkafkas_idempotent_producer_possible(
    settings: dict[str, Any],
    fault: dict[str, Any],
    workload: dict[str, Any],
    partitions: int,
    duplicated: str,
) -> None:
    asked = producing({**IDEMPOTENT, **settings}, fault, **workload)
    topic = TopicSpec(partitions=partitions, replication_factor=3, settings=asked.topic.settings)
    found = predict(asked.model_copy(update={"topics": {"orders": topic}}))
    assert found.predicted["duplicated"] == duplicated
    assert ("4953" in found.prediction.reasons["duplicated"]) is (duplicated == "possible")
    assert found.predicted["reordered"] == "impossible"
    assert found.predicted["lost"] == "impossible"


@pytest.mark.parametrize("transactions", [None, {"size": 10}])
def test_no_loss_is_certain_if_transactions_may_stop_before_it(
    transactions: dict[str, int] | None,
) -> None:
    arm = load(SCENARIOS / "catalogue" / "b04-unclean-election.yaml")[0].scenario
    given = arm.model_dump(by_alias=True)
    given["workload"] |= {"transactions": transactions, "consumers": {}}
    given["workload"]["settings"]["enable.idempotence"] = True
    found = predict(Scenario.model_validate(given))
    assert found.predicted["lost"] == ("certain" if transactions is None else "possible")
    assert ("no transaction ends" in found.prediction.reasons["lost"]) is bool(transactions)


PAUSE = {"fault": "pause", "target": "leader of orders-0", "heal_after": "30s"}
CUT = {"fault": "isolate_replication", "target": "leader of orders-0", "heal_after": "20s"}
ALONE = {"target": "leader of orders-0", "when": ["isr of orders-0 == 1", "500 more acked"]}
KILL = {"fault": "kill", "heal_after": "30s", **ALONE}
POWER_LOSS = {"fault": "power_loss", "heal_after": "30s", **ALONE}
SHORT_LAG = ClusterSpec(brokers=3, settings={"replica.lag.time.max.ms": 5000})
#: Of all packets: with ZooKeeper the search does not support it.
PARTITION = {"fault": "partition", "target": "leader of orders-0", "heal_after": "20s"}


@pytest.mark.parametrize(
    ("faults", "kafka", "unclean", "lost"),
    [
        pytest.param([PAUSE], "2.6.2", False, False, marks=pytest.mark.slow),
        ([PAUSE], "3.8.1", False, False),
        pytest.param([CUT], "3.8.1", False, False, marks=pytest.mark.slow),
        pytest.param([CUT, KILL], "2.6.2", False, False, marks=pytest.mark.slow),
        ([CUT, KILL], "3.8.1", False, False),
        ([CUT, KILL], "2.6.2", True, True),
        pytest.param([CUT, POWER_LOSS], "3.8.1", False, True, marks=pytest.mark.slow),
        ([PARTITION], "2.6.2", False, True),
    ],
    ids=str,
)
def test_what_the_search_cannot_find_is_not_searched(
    monkeypatch: pytest.MonkeyPatch,
    faults: list[dict[str, Any]],
    kafka: str,
    *,
    unclean: bool,
    lost: bool,
) -> None:
    """The worst case excludes a loss, but for late fetch responses, which no search has."""
    given = producing(IDEMPOTENT, *faults)
    settings = {"min.insync.replicas": 1, "unclean.leader.election.enable": unclean}
    topic = given.topic.model_copy(update={"settings": settings})
    update = {"kafka": kafka, "topics": {"orders": topic}, "cluster": SHORT_LAG}
    given = given.model_copy(update=update)
    assert (predict(given).predicted["lost"] != "impossible") is lost
    if not lost:
        monkeypatch.setattr(prediction, "_of_topic", None)
    assert prediction._may_lose(given, prediction.MAX_STATES) is lost


def test_the_topic_that_may_lose_records_decides(asked: Asked) -> None:
    found = load(SCENARIOS / "side-by-side.yaml")[0].scenario
    together = predict(found)
    assert {one.acks for one, _ in asked} == {"all", "1"}
    assert together.predicted["lost"] == "impossible"  # the fixture answers as if without faults
    assert together.prediction.reasons["lost"].startswith("orders: ")


def test_an_anomaly_certain_for_one_topic_is_certain_for_the_run() -> None:
    found = load(SCENARIOS / "side-by-side.yaml")[0].scenario
    alone = load(SCENARIOS / "acks.yaml")[2].scenario
    assert predict(alone).predicted["lost"] == "impossible"
    together = predict(found)
    assert together.predicted["lost"] in ("possible", "certain")
    assert together.prediction.reasons["lost"].startswith("clicks: ")


@pytest.mark.parametrize(
    ("name", "arm", "expected", "last"),
    [
        ("b07-limit-of-elr", "killed", "possible", "B held it and truncates it"),
        ("b07-limit-of-elr", "stopped cleanly", "impossible", ""),
        *(
            pytest.param(
                *rest, "possible", f"{last} held it and truncates it", marks=pytest.mark.slow
            )
            for *rest, last in (
                ("b07-limit-of-elr", "killed on 3.9.1", "B"),
                ("b03-zombie-leader", "acks=1", "A"),
            )
        ),
    ],
)
def test_known_losses_by_three_faults_are_answered_exactly(
    name: str, arm: str, expected: str, last: str
) -> None:
    arms = {one.name: one.scenario for one in load(SCENARIOS / "catalogue" / f"{name}.yaml")}
    record = predict(arms[arm])
    assert record.predicted["lost"] == expected
    assert record.prediction.bounds.startswith("Exact search")
    assert last in "".join(record.prediction.trace[-1:])
    assert bool(record.prediction.diagram) == bool(last)


def written_by(client: object, *faults: dict[str, object]) -> Scenario:
    workload = {"topic": "orders", "client": client, "settings": IDEMPOTENT}
    return scenario(kafka="4.3.1", workload=workload, faults=list(faults))


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ("2.6.2", False),
        ("2.8.0", True),
        ("3.9.1", True),
        ("3.9.2", False),
        ("4.0.1", True),
        ("4.1.1", True),
        ("4.1.2", False),
        ("4.2.0", False),
    ],
)
def test_versions_from_2_8_until_the_fix_of_their_line_are_affected(version, affected):
    found = list(reused_buffers(written_by({"java": version}, {"fault": "pause", "target": 1})))
    assert [(str(anomaly), told.value) for anomaly, told, _ in found] == (
        [("phantom", "possible")] if affected else []
    )


def test_librdkafka_is_not_affected_and_no_batch_expires_without_a_fault():
    assert list(reused_buffers(written_by("librdkafka", {"fault": "pause", "target": 1}))) == []
    assert list(reused_buffers(written_by({"java": "3.9.1"}))) == []
    assert list(reused_buffers(written_by({"java": "3.9.1"}, {"fault": "none"}))) == []


def test_several_processes_predict_the_same(monkeypatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    topics = {"orders": {"partitions": 1, "replication_factor": 2}}
    kill = {"fault": "kill", "target": "leader of orders-0", "when": "100 acked"}
    settings = [{"acks": acks, "enable.idempotence": False} for acks in ("0", "1", "all")]
    scenarios = [
        scenario(topics=topics, workload={"topic": "orders", "settings": one}, faults=[kill])
        for one in settings
    ]
    alone = [predict(one) for one in scenarios]
    assert len({record.predicted["lost"] for record in alone}) > 1
    assert predict_each(scenarios) == alone
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    monkeypatch.setattr(prediction, "predict", lambda one: alone[scenarios.index(one)])
    assert predict_each(scenarios) == alone


def test_predicting_loads_no_library_of_tables() -> None:
    code = (
        "import sys, ackproof.cli.main, ackproof.prediction.predict\n"
        "import ackproof.judgement.expectations\n"
        "heavy = {'pyarrow', 'numpy', 'pyspark', 'docker', 'rich'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


#: A file is loaded by its test: each process that collects this module would load them all.
@pytest.mark.parametrize(
    "path", others_slow(shipped.files(), lambda path: str(path.stem), one_of=16)
)
def test_no_shipped_scenario_is_answered_by_everything_is_possible(
    path: Path, asked: Asked
) -> None:
    for arm in arms_of(path):
        record = predict(arm.scenario)
        assert "impossible" in record.predicted.values(), (arm.name, record.prediction.bounds)
        assert all(record.prediction.reasons[anomaly] for anomaly in record.predicted), arm.name


@pytest.mark.parametrize(
    ("wait", "kafka", "lost"),
    [
        ("isr", "4.4.0", "impossible"),
        ("none", "4.4.0", "possible"),
        ("none", "4.1.2", "impossible"),
    ],
)
def test_restarts_that_do_not_wait_may_leave_a_transaction_without_its_marker(
    wait: str, kafka: str, lost: str
) -> None:
    asked = producing(IDEMPOTENT, ROLL | {"wait": wait}, transactions={"size": 10})
    found = predict(asked.model_copy(update={"kafka": kafka}))
    assert found.predicted["lost"] == lost
    assert ("KAFKA-20734" in found.prediction.reasons["hanging-transaction"]) == (
        lost == "possible"
    )


@pytest.mark.parametrize(
    ("librdkafka", "settings", "workload", "lost"),
    [
        ("1.6.1", {}, {"transactions": {"size": 10}}, "B23"),
        ("1.8.2", {}, {"transactions": {"size": 10}}, "B22"),
        ("1.8.2", {"enable.idempotence": False}, {}, ""),
        ("1.9.2", {}, {"transactions": {"size": 10}}, ""),
        (None, {}, {"transactions": {"size": 10}}, ""),
    ],
)
def test_a_known_defect_of_librdkafka_makes_loss_possible(
    librdkafka: str | None, settings: dict[str, Any], workload: dict[str, Any], lost: str
) -> None:
    client = {"client": {"librdkafka": librdkafka}} if librdkafka else {}
    found = predict(producing({**IDEMPOTENT, **settings}, ROLL, **workload, **client))
    assert found.predicted["lost"] == ("possible" if lost else "impossible")
    texts = {one.case: one.text for one in DEFECTS}
    assert not lost or texts[lost] in found.prediction.reasons["lost"]


@pytest.mark.parametrize(
    ("java", "settings", "fields", "possible"),
    [
        ("4.4.0", {}, {"error": "MESSAGE_TOO_LARGE"}, {"duplicated"}),
        ("4.4.0", {}, {"error": "INVALID_RECORD"}, set()),
        ("2.5.0", {}, {"error": "INVALID_RECORD"}, set()),
        ("2.4.1", {}, {"error": "INVALID_RECORD"}, {"lost"}),
        ("2.4.1", {}, {"error": "INVALID_RECORD", "direction": "request"}, set()),
        ("4.4.0", {}, {"error": "MESSAGE_TOO_LARGE", "direction": "request"}, set()),
        (
            "4.4.0",
            {"enable.idempotence": False, "retries": 0},
            {"error": "MESSAGE_TOO_LARGE"},
            {"duplicated", "reordered"},
        ),
        (None, {}, {"error": "MESSAGE_TOO_LARGE"}, set()),
    ],
)
def test_a_java_producer_repeats_or_loses_after_false_refusals(
    java: str | None, settings: dict[str, Any], fields: dict[str, Any], possible: set[str]
) -> None:
    client = {"client": {"java": java}} if java else {}
    refusal = {"fault": "link", "target": "all", "api": "Produce", "action": "error"}
    asked = producing(
        {**IDEMPOTENT, **settings}, {"direction": "response", **refusal, **fields}, **client
    ).model_dump(by_alias=True)
    cluster = {**asked["cluster"], "listeners": ["LINK"], "proxied": ["LINK"]}
    workload = {**asked["workload"], "listener": "LINK"}
    found = predict(
        Scenario.model_validate({**asked, "cluster": cluster, "workload": workload})
    ).predicted
    words = {name for name in ("lost", "duplicated", "reordered") if found[name] == "possible"}
    assert words == possible


def refusing(settings: dict[str, Any], trigger: list[str], **workload: Any) -> Scenario:
    """Return a scenario in which the proxy refuses one Produce request of one partition."""
    refusal = {"action": "error", "error": "NOT_ENOUGH_REPLICAS", "count": 1, "when": trigger}
    fault = {"fault": "link", "target": "all", "api": "Produce", "direction": "request", **refusal}
    load = {"producers": 1, "listener": "LINK", **workload}
    asked = producing({**IDEMPOTENT, **settings}, fault, **load)
    fields = asked.model_dump(by_alias=True)
    cluster = {**fields["cluster"], "listeners": ["LINK"], "proxied": ["LINK"]}
    return Scenario.model_validate(
        {**fields, "cluster": cluster, "topics": {"orders": {"partitions": 1}}}
    )


@pytest.mark.parametrize(
    ("settings", "trigger", "workload", "lost"),
    [
        ({}, [], {}, "possible"),
        ({}, [], {"client": "java"}, "impossible"),
        ({"max.in.flight.requests.per.connection": 1}, [], {}, "impossible"),
        ({"enable.idempotence": False}, [], {}, "impossible"),
        ({}, ["1 acked"], {}, "impossible"),
        ({}, ["1 acked"], {"producers": 2}, "possible"),
        ({}, ["1 acked or after 1s"], {}, "possible"),
    ],
)
def test_librdkafka_may_ack_a_first_batch_that_is_refused(
    settings: dict[str, Any], trigger: list[str], workload: dict[str, Any], lost: str
) -> None:
    found = predict(refusing(settings, trigger, **workload))
    assert found.predicted["lost"] == lost
    assert ("confluent-kafka-go 921" in found.prediction.reasons["lost"]) == (lost == "possible")


@pytest.mark.parametrize(("kafka", "lost"), [("2.6.2", "possible"), ("2.4.1", "impossible")])
def test_a_broker_may_refuse_the_first_batch_of_an_added_partition(kafka: str, lost: str) -> None:
    added = {"fault": "add_partitions", "topic": "orders", "partitions": 4, "when": "1000 acked"}
    asked = producing(IDEMPOTENT, added).model_dump(by_alias=True)
    assert predict(Scenario.model_validate({**asked, "kafka": kafka})).predicted["lost"] == lost


@pytest.mark.parametrize(
    ("arm", "word"), [(1, "possible"), (2, "impossible")], ids=["acks=1", "acks=all"]
)
def test_reads_may_be_misplaced_if_records_that_were_read_may_be_removed(
    arm: int, word: str
) -> None:
    document = ACKS[arm].scenario.model_dump(by_alias=True)
    workload = {**document["workload"], "consumers": {"readers": {}}}
    found = predict(Scenario.model_validate({**document, "workload": workload})).predicted
    assert found["misplaced-read"] == word
    assert "misplaced-read" not in predict(ACKS[arm].scenario).predicted
