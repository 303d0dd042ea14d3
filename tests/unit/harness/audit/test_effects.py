"""The effects of an audit besides losses: for each a configuration that has it, and a twin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

import pytest
from catalogue_pages import arms_of

from ackproof.audit import availability
from ackproof.audit.answer import Effect, Risk
from ackproof.audit.auditing import audit_clusters
from ackproof.audit.detail import Detail
from ackproof.audit.failure import Failure, covers
from ackproof.audit.losses import case_of, largest_without
from ackproof.audit.risk import Subject
from ackproof.audit.risks import Registered, registered, version_defects, with_changes
from ackproof.audit.setups import Setup, setups
from ackproof.own_config.configuration import (
    Client,
    Count,
    Default,
    FileLine,
    Given,
    OwnConfig,
    Settings,
    Topic,
)
from ackproof.own_config.reading import read_texts
from ackproof.own_config.uses import Reason
from ackproof.safer_settings import STORAGE
from ackproof.scenario import shipped
from ackproof.scenario.loader import Configured
from ackproof.scenario.model import Scenario
from ackproof_model.configuration import Profile
from ackproof_model.worst_case.minima import Question

FILE = "app.properties"
LINE = FileLine(FILE, 0)
IDEMPOTENT = {"acks": "all", "enable.idempotence": "true"}
PLAIN = {"acks": "all", "enable.idempotence": "false"}


def given(settings: Mapping[str, str]) -> Settings:
    return {
        key: Given(value, FileLine(FILE, at)) for at, (key, value) in enumerate(settings.items())
    }


def found(subject: Subject, setup: Setup) -> list[Risk]:
    """Return the risks of all kinds of a subject."""
    every = [one for one in registered() if one.kind.subject is subject]
    return [risk for one in every for risk in declared(one, setup)]


def risks(
    *,
    kafka: str = "3.9.1",
    replicas: int = 3,
    topic: Mapping[str, str] = {},
    broker: Mapping[str, str] = {},
    brokers: int = 3,
    mode: str = "kraft",
    combined: int = 0,
    controllers: int = 3,
    producer: Mapping[str, str] = IDEMPOTENT,
    consumer: Mapping[str, str] | None = None,
    library: str = "java",
    framework: str = "",
) -> list[Risk]:
    count = {"brokers": brokers, "controllers": controllers, "combined": combined}
    own = OwnConfig(
        kafka=Given(kafka, LINE),
        mode=Given(mode, LINE),
        broker=given(broker),
        topics=(
            Topic(
                name="orders",
                replication_factor=Given(str(replicas), LINE),
                settings=given({"min.insync.replicas": "2", **topic}),
            ),
        ),
        producers=(
            Client(name="p", library=library, settings=given(producer), version=Given(kafka, LINE)),
        ),
        consumers=()
        if consumer is None
        else (Client(name="c", library=library, settings=given(consumer), framework=framework),),
        **{key: Count(number, LINE) for key, number in count.items() if number},
    )
    return [
        risk
        for several in setups(own)
        for setup in several
        for one in registered()
        for risk in declared(one, setup)
    ]


def declared(one: Registered, setup: Setup) -> Iterator[Risk]:
    """Yield the risks of a kind, which says of itself what they have."""
    kind = one.kind
    clients = (setup.producer, *setup.consumers)
    prefixes = {client.prefix for client in clients if client}
    known = {f"{prefix}{name}" for name in kind.removed_by for prefix in ("", *prefixes)}
    if STORAGE in known and setup.own.storage:
        known.add(setup.own.storage.setting)
    for risk in (with_changes(found, setup) for found in one.risks(setup)):
        assert risk.effect in kind.effects, one.name
        assert set(risk.failures) <= set(kind.failures), (one.name, risk.failures)
        assert risk.case in ("", *kind.all_cases), (one.name, risk.case)
        assert {change.setting for change in risk.decided_by} <= known, one.name
        yield risk


def sets(found: list[Risk], effect: Effect, **when: str) -> set[str]:
    return {
        "+".join(risk.failures)
        for risk in found
        if risk.effect is effect and dict(risk.when) == when
    }


LOST, DUPLICATED, REORDERED = Effect.LOST, Effect.DUPLICATED, Effect.REORDERED
UNPROCESSED, REPROCESSED = Effect.UNPROCESSED, Effect.REPROCESSED
READS_STOP, WRITES_STOP = Effect.READS_STOP, Effect.WRITES_STOP
REMOVED, REFUSED = Effect.REMOVED, Effect.REFUSED

LIBRDKAFKA = {"library": "librdkafka"}
COMMITTED = {"consumer": {"isolation.level": "read_committed"}}
TXN = {"producer": {"transactional.id": "t"}}
OFFSETS = "offsets.topic.replication.factor"
UNCLEAN = {"unclean.leader.election.enable": "true"}
IN_FLIGHT = "max.in.flight.requests.per.connection"
NEW = {"kafka": "4.3.1"}
ALONE = {"brokers": 1, "replicas": 1}
TWO = {"brokers": 2, "replicas": 2}


def minimum(replicas: int, kafka: str) -> dict[str, object]:
    return {"kafka": kafka, "topic": {"min.insync.replicas": str(replicas)}}


def sending(**settings: str) -> dict[str, object]:
    return {"producer": {key.replace("_", "."): value for key, value in settings.items()}}


@pytest.mark.parametrize(
    ("effect", "failures", "has", "has_not"),
    [
        (DUPLICATED, "crash", {"producer": PLAIN}, {}),
        (DUPLICATED, "client_timeout", {"producer": {}, **LIBRDKAFKA}, {}),
        (DUPLICATED, "leader_move", {"producer": PLAIN}, sending(**PLAIN, retries="0")),
        (DUPLICATED, "lag", {"producer": PLAIN}, sending(acks="1")),
        (DUPLICATED, "client_timeout", LIBRDKAFKA, {}),
        (REORDERED, "client_timeout", {"producer": PLAIN}, sending(**PLAIN, **{IN_FLIGHT: "1"})),
        (
            UNPROCESSED,
            "consumer_crash",
            {"consumer": {}, **LIBRDKAFKA},
            {"consumer": {"enable.auto.commit": "false"}, **LIBRDKAFKA},
        ),
        (LOST, "client_timeout", TXN, {**TXN, **NEW}),
        (LOST, "client_timeout", {**TXN, **NEW, **LIBRDKAFKA}, {**NEW, **LIBRDKAFKA}),
        (
            LOST,
            "lag+crash",
            {"kafka": "3.9.1", "topic": UNCLEAN},
            {"kafka": "3.9.1", "topic": {**UNCLEAN, "min.insync.replicas": "3"}},
        ),
        (LOST, "lag+leader_move", {"kafka": "3.8.1"}, {"kafka": "3.9.1"}),
        (
            UNPROCESSED,
            "partitions_added",
            {"consumer": {}},
            {"consumer": {"auto.offset.reset": "earliest"}},
        ),
        (
            LOST,
            "partitions_added",
            {"producer": IDEMPOTENT, **LIBRDKAFKA},
            {"producer": {**IDEMPOTENT, IN_FLIGHT: "1"}, **LIBRDKAFKA},
        ),
        (LOST, "partitions_added", {"producer": IDEMPOTENT, **LIBRDKAFKA}, {"producer": {}}),
        (
            UNPROCESSED,
            "disk_replaced",
            {"broker": {OFFSETS: "1"}, "consumer": {}},
            {"broker": {OFFSETS: "3"}, "consumer": {}},
        ),
        (
            UNPROCESSED,
            "lag+power_loss",
            {**NEW, "consumer": {}},
            {**NEW, "consumer": {}, "broker": {"min.insync.replicas": "2"}},
        ),
        (REPROCESSED, "consumer_crash", {"consumer": {}, "framework": "Spring"}, {}),
        (READS_STOP, "crash", {"broker": {OFFSETS: "1"}}, {}),
        (READS_STOP, "", ALONE, {"brokers": 3, "replicas": 1}),
        (READS_STOP, "", {**TWO, "broker": {OFFSETS: "3"}}, {**TWO, "broker": {OFFSETS: "2"}}),
        # From 3.7 the minimum counts up to the number of replicas (KAFKA-15583).
        (WRITES_STOP, "", minimum(4, "3.6.2"), minimum(4, "3.7.2")),
        (WRITES_STOP, "", minimum(4, "3.6.2"), minimum(4, "3.7.0")),
        (WRITES_STOP, "crash", minimum(4, "3.7.2"), minimum(2, "3.7.2")),
        # Replicas count, not brokers.
        (WRITES_STOP, "crash", {"brokers": 5, "replicas": 2}, {"brokers": 5, "replicas": 3}),
        (READS_STOP, "lag+crash", {}, NEW),
        (READS_STOP, "lag+crash", {}, {"topic": UNCLEAN}),
        (READS_STOP, "crash+crash", {"combined": 3}, {}),
        (WRITES_STOP, "controllers+crash", {}, {"combined": 3}),
        (WRITES_STOP, "crash", {"replicas": 2}, {}),
        (WRITES_STOP, "crash+crash", {}, {"topic": {"min.insync.replicas": "1"}}),
        (WRITES_STOP, "lag", {}, sending(acks="1")),
        (READS_STOP, "lag+crash", {"kafka": "3.9.1", "mode": "zookeeper"}, NEW),
        (WRITES_STOP, "", {**ALONE, **TXN}, ALONE),
        (REMOVED, "", {}, {"topic": {"retention.ms": "-1"}}),
        (
            REMOVED,
            "",
            {"topic": {"cleanup.policy": "compact"}},
            {"broker": {"log.retention.ms": "-1"}},
        ),
        (READS_STOP, "client_crash", {**TXN, **COMMITTED}, {"producer": {}, **COMMITTED}),
        (REPROCESSED, "client_crash", {**TXN, "consumer": {}}, {**TXN, **COMMITTED}),
        (REFUSED, "", sending(acks="1", transactional_id="t"), TXN),
        (REFUSED, "", sending(acks="1", enable_idempotence="true"), sending(acks="1")),
        (
            REFUSED,
            "",
            sending(**IDEMPOTENT, **{IN_FLIGHT: "6"}),
            sending(**PLAIN, **{IN_FLIGHT: "6"}),
        ),
        (REFUSED, "", sending(acks="2"), sending(acks="-1")),
        (
            REFUSED,
            "",
            sending(delivery_timeout_ms="1000"),
            sending(delivery_timeout_ms="1000", request_timeout_ms="500"),
        ),
        (REFUSED, "", {"brokers": 2}, {"brokers": 3}),
        (REFUSED, "", {"mode": "zookeeper", **NEW}, {"mode": "zookeeper", "kafka": "3.9.1"}),
    ],
)
def test_effect_has_its_failures_and_the_twin_has_not(effect, failures, has, has_not):
    assert failures in sets(risks(**has), effect)
    assert failures not in sets(risks(**has_not), effect)


SHARES = {"group.share.max.size": "100"}
REPLICAS, MINIMUM = (
    f"share.coordinator.state.topic.{key}" for key in ("replication.factor", "min.isr")
)


def of_shares(effect: Effect, kafka: str = "4.3.1", **settings: str) -> dict[str, Risk]:
    """Return the risks of an effect that only a configuration with a share group has."""
    own = {f"group.share.{key.replace('_', '.')}": value for key, value in settings.items()}
    shared = risks(kafka=kafka, broker={**SHARES, **own})
    plain = {(risk.effect, risk.failures, risk.case) for risk in risks(kafka=kafka)}
    new = [one for one in shared if (one.effect, one.failures, one.case) not in plain]
    return {"+".join(one.failures): one for one in new if one.effect is effect}


def test_a_share_group_gives_up_a_record_on_which_consumers_crash():
    [(failures, risk)] = of_shares(Effect.ARCHIVED).items()
    assert (failures, risk.case) == ("consumer_crash", "B38")
    assert [(one.setting, one.change) for one in risk.decided_by] == [
        ("group.share.delivery.count.limit", "10")
    ]
    [highest] = of_shares(Effect.ARCHIVED, delivery_count_limit="10").values()
    assert not highest.decided_by
    assert not of_shares(Effect.ARCHIVED, kafka="4.1.2")  # has no share groups
    assert Effect.ARCHIVED not in {one.effect for one in risks(kafka="4.4.0")}


def test_a_share_group_begins_at_the_end_of_added_partitions_before_4_4():
    [(failures, risk)] = of_shares(Effect.UNDELIVERED).items()
    assert (failures, risk.case) == ("partitions_added", "B37")
    assert risk.when["share.auto.offset.reset"] == "latest"
    assert not of_shares(Effect.UNDELIVERED, kafka="4.4.0")


def test_the_lock_of_a_share_group_is_compared_with_the_work_on_a_poll():
    [risk] = of_shares(Effect.REPROCESSED, record_lock_duration_ms="15000").values()
    assert risk.when["a poll is processed"] == "in more than 15 seconds"
    assert [one.change for one in risk.decided_by] == ["60000"]


@pytest.mark.parametrize(
    ("replicas", "minimum", "unclean", "failures"),
    [
        ("3", "2", "true", set()),
        ("1", "1", "false", {"power_loss", "disk_replaced"}),
        ("3", "1", "false", {"lag+power_loss", "lag+disk_replaced"}),
        # The topic has no unclean.leader.election.enable of its own (ShareCoordinatorService).
        (
            *("3", "1", "true"),
            {
                *("lag+power_loss", "lag+disk_replaced", "lag+crash"),
                *("clean_restart+lag", "lag+lost_session"),
            },
        ),
    ],
)
def test_states_of_share_groups_are_lost_with_few_replicas(replicas, minimum, unclean, failures):
    broker = {**SHARES, REPLICAS: replicas, MINIMUM: minimum}
    broker["unclean.leader.election.enable"] = unclean
    lost = {
        "+".join(one.failures)
        for one in risks(kafka="4.0.1", broker=broker)
        if "__share_group_state" in one.text
    }
    assert lost == set()  # has no share groups
    lost = {
        "+".join(one.failures)
        for one in risks(kafka="4.4.0", broker=broker)
        if "__share_group_state" in one.text
    }
    assert lost == failures


@pytest.mark.parametrize(
    ("kafka", "replicas", "minimum", "takes", "failures"),
    [
        ("4.4.0", 2, "2", "true", {"crash", "clean_restart"}),
        ("4.4.0", 1, "1", "true", {"crash", "clean_restart"}),
        ("4.4.0", 3, "2", "true", set()),
        ("4.4.0", 2, "2", "false", set()),
        ("4.3.1", 2, "2", "true", set()),  # has no dead letters
    ],
)
def test_dead_letters_are_refused_where_every_replica_must_take_them(
    kafka, replicas, minimum, takes, failures
):
    own = {"min.insync.replicas": minimum, "errors.deadletterqueue.group.enable": takes}
    missing = [one for one in risks(kafka=kafka, replicas=replicas, topic=own) if one.case == "B39"]
    assert {"+".join(one.failures) for one in missing} == failures
    assert {one.effect for one in missing} <= {Effect.ARCHIVED}
    lower = ["1"] if replicas == 2 else []
    assert all([change.change for change in one.decided_by] == lower for one in missing)


def test_settings_of_share_groups_are_used_where_a_rule_reads_them():
    lines = b"group.share.record.lock.duration.ms=15000\ngroup.share.max.size=9\n"
    audit = audit_clusters(read_texts({"server.properties": lines}, kafka="4.4.0"))
    assert "group.share.record.lock.duration.ms" in {one.key for one in audit.uses.used}
    reasons = {one.key: one.reason for one in audit.uses.unused}
    assert reasons["group.share.max.size"] is Reason.NO_RULE
    assert not any("share groups" in one for one in audit.not_looked_at)


def test_sets_that_a_defect_loses_are_not_survived_and_their_parts_are():
    lag, crash, move = Failure.LAG, Failure.CRASH, Failure.LEADER_MOVE
    kept = largest_without(((crash, crash, lag), (move, move, move)), ((lag, crash),))
    assert set(kept) == {(crash, crash), (lag,), (move, move, move)}


@pytest.mark.parametrize(
    ("version", "settings", "case"),
    [
        ("1.8.2", {"enable.idempotence": "true"}, "B22"),
        ("1.9.0", {"enable.idempotence": "true"}, ""),
        ("1.8.2", {"enable.idempotence": "false"}, ""),
        ("v1.6.1", {"transactional.id": "t"}, "B23"),
    ],
)
def test_defect_of_librdkafka_counts_for_its_versions(version, settings, case):
    client = Client(
        name="p", library="librdkafka", settings=given(settings), version=Given(version, LINE)
    )
    own = OwnConfig(kafka=Given("3.9.1", LINE), producers=(client,))
    found = {
        one.case
        for several in setups(own)
        for setup in several
        for one in version_defects.risks(setup)
    }
    assert found == ({case} if case else set())


def test_every_set_of_failures_is_a_smallest_one():
    found = risks(producer=PLAIN, consumer={})
    for effect in (Effect.WRITES_STOP, Effect.READS_STOP):
        smallest = [risk.failures for risk in found if risk.effect is effect]
        assert len(smallest) > 1
        assert not any(covers(one, other) for one, other in permutations(smallest, 2))


def test_automatic_commit_of_the_java_client_skips_only_records_of_other_threads():
    processing = {"processing": "in other threads than the poll's"}
    automatic = risks(consumer={"enable.auto.commit": "true"}, framework="Spring")
    assert "consumer_crash" in sets(automatic, Effect.UNPROCESSED, **processing)
    assert "consumer_crash" not in sets(automatic, Effect.UNPROCESSED)
    assert not sets(risks(consumer={}, framework="Spring"), Effect.UNPROCESSED, **processing)


@pytest.mark.parametrize(
    ("reset", "effect"), [("latest", UNPROCESSED), ("none", READS_STOP), ("earliest", None)]
)
def test_group_that_is_away_for_longer_than_records_are_kept(reset, effect):
    """Out of range, a group with `latest` skips also what is retained."""
    away = {"consumers down": "for 1 hour"}
    consumer = {"auto.offset.reset": reset}
    hour = {"retention.ms": "3600000"}
    for of_hour in ({"topic": hour}, {"broker": {"log.retention.minutes": "60"}}):
        every = risks(**of_hour, consumer=consumer)
        having = [one for one in (UNPROCESSED, READS_STOP) if sets(every, one, **away)]
        assert having == ([effect] if effect else [])
    [removed] = (risk for risk in risks(topic=hour) if risk.effect is Effect.REMOVED)
    assert "1 hour" in removed.text
    for kept in ({}, {"retention.ms": "-1"}, {**hour, "cleanup.policy": "compact"}):
        every = risks(topic=kept, consumer=consumer)
        assert not any("consumers down" in risk.when for risk in every)


def test_late_abort_after_4_0_needs_an_older_client():
    own = read_texts(
        {"server.properties": b"process.roles=broker", "p.properties": b"transactional.id=t"},
        kafka="4.1.1",
    )
    [risk] = (
        risk
        for answer in audit_clusters(own).answers
        for risk in answer.risks
        if risk.case == "B13"
    )
    assert risk.rare
    assert dict(risk.when)["producer.version"] == "before 4.0"


def test_a_transaction_is_lost_by_what_leaves_a_partition_without_a_leader_since_4_3():
    transactional = {**IDEMPOTENT, "transactional.id": "p"}

    def after(**asked: object) -> set[tuple[str, ...]]:
        return {risk.failures for risk in risks(**asked) if risk.case == "B58"}

    assert after(kafka="4.4.0", replicas=1, producer=transactional) == {("crash",)}
    three = after(kafka="4.4.0", producer=transactional)
    assert three == {("crash", "crash", "crash"), ("lag", "crash", "crash")}
    assert not after(kafka="4.2.1", replicas=1, producer=transactional)
    assert not after(kafka="4.4.0", replicas=1)


@pytest.mark.parametrize("failure", ["crash", "clean_restart", "leader_move", "lost_session"])
def test_producer_that_begins_while_the_leader_changes_may_take_the_wrong_ack(failure):
    begins = f"{failure}+client_crash"
    several = {"producer": IDEMPOTENT, **LIBRDKAFKA}
    assert begins in sets(risks(**several), LOST)
    of_b55 = {risk.failures: risk.runs for risk in risks(**several) if risk.case == "B55"}
    assert {bool(runs) for failures, runs in of_b55.items() if len(failures) == 1} == {True}
    assert {bool(runs) for failures, runs in of_b55.items() if len(failures) == 2} == {False}
    assert {failure} & sets(risks(**several), LOST) == set()  # without a producer that begins
    for twin in (
        {"producer": {**IDEMPOTENT, IN_FLIGHT: "1"}, **LIBRDKAFKA},
        {"producer": IDEMPOTENT},
        {**several, "replicas": 1},
    ):
        assert begins not in sets(risks(**twin), LOST)


def test_offsets_that_expire_soon_are_lost_while_the_group_is_down():
    down = {"consumers down": "for 60 minutes"}
    short, default = {"offsets.retention.minutes": "60"}, {"offsets.retention.minutes": "10080"}
    latest = risks(broker=short, consumer={})
    assert sets(latest, Effect.UNPROCESSED, **down) == {"consumer_crash"}
    earliest = risks(broker=short, consumer={"auto.offset.reset": "earliest"})
    assert sets(earliest, Effect.REPROCESSED, **down) == {"consumer_crash"}
    assert not sets(risks(broker=default, consumer={}), Effect.UNPROCESSED, **down)


def test_lost_offsets_of_unknown_consumers_depend_on_where_they_begin():
    found = risks(broker={"offsets.topic.replication.factor": "1"})
    for effect, reset in ((Effect.REPROCESSED, "earliest"), (Effect.UNPROCESSED, "latest")):
        assert sets(found, effect, **{"auto.offset.reset": reset}) == {
            "power_loss",
            "disk_replaced",
        }


def assumed_replicas_of_offsets(brokers: int) -> set[str]:
    """Return the replicas of the offsets topic that are assumed for a file without its env_file."""
    compose = (
        "services: {kafka: {image: 'apache/kafka:3.9.1', deploy: {replicas: %d}, "
        "env_file: missing.env, environment: {KAFKA_PROCESS_ROLES: 'broker,controller'}}}"
    )
    files = {"compose.yml": (compose % brokers).encode(), "consumer.properties": b"group.id=app\n"}
    own, *_ = read_texts(files)
    every = [
        risk for group in setups(own) for one in group for risk in found(Subject.CONSUMERS, one)
    ]
    return {risk.when[OFFSETS] for risk in every if OFFSETS in risk.when}


@pytest.mark.parametrize(("brokers", "assumed"), [(2, {"1"}), (3, {"1", "3"}), (12, {"1", "3"})])
def test_a_cluster_of_twelve_brokers_is_no_small_one(brokers: int, assumed: set[str]) -> None:
    assert assumed_replicas_of_offsets(brokers) == assumed


@pytest.mark.parametrize(
    ("reset", "effect"),
    [
        ("earliest", Effect.REPROCESSED),
        ("latest", Effect.UNPROCESSED),
        ("by_duration:PT1H", Effect.UNPROCESSED),
        ("none", Effect.READS_STOP),
    ],
)
def test_group_without_offsets_repeats_skips_or_stops(reset: str, effect: Effect) -> None:
    for broker in ({"offsets.topic.replication.factor": "1"}, {"offsets.retention.minutes": "60"}):
        found = risks(broker=broker, consumer={"auto.offset.reset": reset})
        of_offsets = [one for one in found if "find no offset" in " ".join(one.trace)]
        assert {one.effect for one in of_offsets} == {effect}


def test_decision_names_the_setting_where_it_stands_and_what_it_costs():
    broker = {"offsets.topic.replication.factor": "1"}
    (risk,) = [one for one in risks(broker=broker, consumer={}) if "disk_replaced" in one.failures]
    (change,) = risk.decided_by
    assert (change.setting, change.source, change.change) == (*broker, LINE, "3")
    assert risk.case == "B27"
    assert risk.runs is not None
    assert risk.runs.showed == risk.runs.of > 0


def test_writes_that_stop_name_a_change_that_the_model_finds_sufficient(snapshot):
    (risk,) = [
        one
        for one in risks(replicas=2)
        if one.effect is Effect.WRITES_STOP and one.failures == ("crash",)
    ]
    assert [(one.setting, one.change) for one in risk.decided_by] == [("replication.factor", "3")]
    assert "\n".join(risk.trace) == snapshot


@pytest.mark.parametrize("kafka", ["1.1.1", "2.8.2", "3.4.1", "4.0.1", "4.1.2"])
@pytest.mark.parametrize("elr", [False, True])
def test_no_other_rule_than_that_of_eligible_leaders_decides_what_stops(kafka, elr):
    if elr and kafka < "4":
        return
    for minimum, unclean in product((1, 2, 3), (False, True)):
        question = Question(
            kafka_version=availability.RULES[elr],
            elr=elr,
            acks="all",
            replicas=3,
            min_insync_replicas=minimum,
            unclean=unclean,
        )
        of_version = replace(question, kafka_version=kafka)
        assert availability.smallest(of_version) == availability.smallest(question)


def own_config(scenario: Scenario) -> OwnConfig:
    """Return a scenario's configuration as if files stated it."""
    settings = scenario.workload.settings
    producer = {"acks": settings.acks, "enable.idempotence": str(settings.idempotence).lower()}
    if scenario.workload.transactions is not None:
        producer["transactional.id"] = "t"
    topic = {key: str(value).lower() for key, value in scenario.topic.settings.items()}
    return OwnConfig(
        kafka=Given(scenario.kafka, LINE),
        mode=Given("zookeeper" if Profile.of(scenario.kafka).zookeeper else "kraft", LINE),
        brokers=Count(scenario.cluster.brokers, LINE),
        controllers=Count(3, LINE),
        topics=(
            Topic(
                name="orders",
                replication_factor=Given(str(scenario.topic.replication_factor), LINE),
                settings=given(topic),
            ),
        ),
        producers=(Client(name="p", library="librdkafka", settings=given(producer)),),
    )


#: The failures that faults make, and those that only make followers lag.
FAILURES_OF = {
    "kill": "crash",
    "restart": "clean_restart",
    "rolling_restart": "clean_restart",
    "power_loss": "power_loss",
    "wipe_partition": "disk_replaced",
    "wipe_volume": "disk_replaced",
    "split": "lost_session",
    "isolate_replication": "lag",
    "link": "lag",
    "preferred_election": "leader_move",
    "reassign": "leader_move",
}
#: Those of B11 and B31 contain the failures of B2 and B6. A test loads its file: each process of
#: tests that collects this module would pay for it.
OF_CATALOGUE = [path for path in shipped.files() if re.match("b(0[1-9]|10|34|53|54)-", path.name)]


def losing_arms(path: Path) -> list[Configured]:
    arms = [arm for arm in arms_of(path) if arm.scenario.case]
    return [arm for arm in arms if str(arm.scenario.expect.loss) == "some"]


@pytest.mark.parametrize("path", OF_CATALOGUE, ids=lambda path: path.stem)
def test_losses_of_the_catalogue_are_found_under_their_number(path: Path) -> None:
    losing = losing_arms(path)
    assert losing
    for arm in losing:
        case, expect = arm.scenario.case, arm.scenario.expect
        made: Counter[str] = Counter()
        for fault in arm.scenario.every_fault:
            if failure := FAILURES_OF.get(fault.name):
                brokers = 3 if "all" in str(fault.target) else 1
                made[failure] += 1 if failure == "lag" else brokers
        (answer,) = audit_clusters([own_config(arm.scenario)]).answers
        found = [
            risk.case
            for risk in answer.risks
            if risk.effect is Effect.LOST and not Counter(map(str, risk.failures)) - made
        ]
        assert case is not None
        assert {case.id, expect.cause} & {*found}, (dict(made), found)


def test_sole_replica_is_no_matter_of_acks_and_an_unknown_loss_has_no_number() -> None:
    ((setup,),) = setups(own_config(losing_arms(OF_CATALOGUE[-1])[-1].scenario))
    sole = replace(setup.partition, idempotence=False, acks="1", replication_factor=1)
    alone = replace(setup, partition=replace(sole, min_insync_replicas=1))
    assert case_of(alone, (Failure.POWER_LOSS,)) == "B5"
    clean = replace(setup.partition, unclean_leader_election=False)
    assert case_of(replace(setup, partition=clean), (Failure.CRASH,)) == ""


def test_a_moved_replica_that_lost_its_log_is_a_stale_one_before_kip_903() -> None:
    ((setup,),) = setups(own_config(losing_arms(OF_CATALOGUE[-1])[-1].scenario))
    safe = replace(setup.partition, unclean_leader_election=False, acks="all")
    failures = (Failure.REASSIGNMENT, Failure.POWER_LOSS)
    old, new = (
        replace(setup, partition=replace(safe, kafka_version=version, elr=None))
        for version in ("3.4.1", "3.9.2")
    )
    assert case_of(old, failures) == "B31"
    assert case_of(new, failures) != "B31"


def test_a_producer_that_starts_again_writes_twice_what_it_sends_again() -> None:
    when = {"application": "sends again after a start"}
    assert "client_crash" in sets(risks(), Effect.DUPLICATED, **when)
    assert not sets(risks(producer={"transactional.id": "t"}), Effect.DUPLICATED, **when)


@pytest.mark.parametrize(
    ("framework", "settings", "more", "changes"),
    [
        ("", PLAIN, {}, {"enable.idempotence=true", "transactional.id=a name"}),
        (
            "Kafka Connect",
            PLAIN,
            {"prefix": "producer."},
            {"producer.enable.idempotence=true", "exactly.once.source.support=enabled"},
        ),
        (
            "Kafka Connect",
            PLAIN,
            {"writes": "orders", "exactly_once": Given("preparing", LINE)},
            {"exactly.once.source.support=enabled"},
        ),
        ("Kafka Connect", {**PLAIN, "retries": "0"}, {"writes": "orders"}, set()),
    ],
)
def test_producers_of_connect_become_exact_by_what_connect_reads(
    framework, settings, more, changes
):
    values = {key: Given(one, Default(framework)) for key, one in settings.items()}
    own = OwnConfig(
        kafka=Given("3.9.1", LINE),
        topics=(Topic(name="orders", replication_factor=Given("3", LINE)),),
        producers=(Client(name="p", library="java", settings=values, framework=framework, **more),),
    )
    twice = [
        risk
        for group in setups(own)
        for risk in found(Subject.PRODUCER, group[0])
        if risk.effect is Effect.DUPLICATED
    ]
    assert twice
    first = {f"{one.setting}={one.change.split(',')[0]}" for r in twice for one in r.decided_by[:1]}
    assert first == changes
    of_connect = {one for r in twice for one in r.decided_by if "support" in one.setting}
    stated = more.get("exactly_once") or Given("disabled", Default("Kafka Connect"))
    assert all((one.value, one.source) == (stated.value, stated.source) for one in of_connect)


_WORKER = "offset.storage.topic = o\nbootstrap.servers = k:9092\nplugin.path = /p\n"
_MIRROR = "clusters = A, B\nA.bootstrap.servers = a:1\nA->B.enabled = true\n"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f"{_WORKER}producer.", "producer."),
        ("connector.class = c\nproducer.override.", "producer.override."),
        (f"{_MIRROR}producer.", "producer."),
        (f"{_MIRROR}B.producer.", "B.producer."),
        ("application.id = a\nproducer.", "producer."),
        ("debezium.sink.kafka.producer.", "debezium.sink.kafka.producer."),
        ("", ""),
    ],
)
def test_proposals_have_the_prefix_of_the_producers_file(text: str, key: str) -> None:
    own, *_ = read_texts({"own.properties": f"{text}acks = 1\n".encode()}, kafka="3.9.1")
    names = {"acks", "retries", "enable.idempotence", "max.in.flight.requests.per.connection"}
    producers = {one.name for one in own.producers if not one.writes}
    answers = [
        one
        for one in audit_clusters([own], detail=Detail.REMEDIES).answers
        if one.producer in producers
    ]
    decisions = [one for a in answers for risk in a.risks for one in risk.decided_by]
    decisions += [one for a in answers for after in a.alternatives for one in after.changes]
    proposed = {one.setting for one in decisions}
    of_producer = {one for one in proposed if one.endswith(tuple(names))}
    assert f"{key}acks" in of_producer
    assert f"{key}retries" in of_producer
    assert of_producer <= {f"{key}{name}" for name in names}


@pytest.mark.parametrize(("own_minimum", "stops"), [("3", 1), ("1", 3)])
def test_own_settings_of_the_brokers_topics_count(own_minimum: str, stops: int) -> None:
    state = Topic(
        name="__transaction_state",
        replication_factor=Given("3", LINE),
        settings=given({"min.insync.replicas": own_minimum}),
    )
    orders = Topic(name="orders", replication_factor=Given("3", LINE))
    own = OwnConfig(
        kafka=Given("4.1.0", LINE),
        topics=(orders, state),
        producers=(Client(name="p", library="java", settings=given({"transactional.id": "t"})),),
    )
    groups = list(setups(own))
    assert {setup.topic.name for group in groups for setup in group} == {"orders"}
    every = [one for group in groups for setup in group for one in found(Subject.CLUSTER, setup)]
    crashes = [
        len(one.failures)
        for one in every
        if one.effect is Effect.WRITES_STOP and set(one.failures) == {Failure.CRASH}
    ]
    assert min(crashes) == stops


@pytest.mark.parametrize(
    ("image", "when"),
    [
        ("registry.example/kafka:2.8.1", {"offsets.topic.replication.factor": "3"}),
        ("confluentinc/cp-kafka:6.2.0", {}),
        ("wurstmeister/kafka:2.13-2.8.1", None),
    ],
)
def test_an_image_of_unknown_settings_decides_nothing_about_the_offsets_topic(
    image: str, when: Mapping[str, str] | None
) -> None:
    """Confluent's image has Kafka's default, three copies, which one broker cannot hold."""
    text = (
        f"services:\n  kafka:\n    image: {image}\n    environment:\n"
        "      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://kafka:9092\n"
        "      KAFKA_ZOOKEEPER_CONNECT: zookeeper:2181\n"
    )
    whole = audit_clusters(read_texts({"compose.yml": text.encode()}))
    never = [
        dict(risk.when)
        for answer in whole.answers
        for risk in answer.risks
        if risk.effect is Effect.READS_STOP and not risk.failures
    ]
    decisive = [{key: one[key] for key in one if key.startswith("offsets")} for one in never]
    assert decisive == ([] if when is None else [when] * len(never))
    assert bool(never) == (when is not None)


_KRAFT = (
    "process.roles=broker,controller\nnode.id=1\n"
    "controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093\n"
)
_ZOOKEEPER = "broker.id=1\nzookeeper.connect=z:2181\n"


@pytest.mark.parametrize(
    ("kafka", "mode", "more", "begins"),
    [
        ("3.6.2", _KRAFT, "", False),
        ("3.7.2", _KRAFT, "", True),
        ("3.6.2", _ZOOKEEPER, "", False),
        ("3.9.2", _ZOOKEEPER, "", True),
        ("3.6.2", _KRAFT, "offsets.commit.required.acks=1\n", True),
        ("3.6.2", _KRAFT, "min.insync.replicas=1\n", True),
    ],
)
def test_an_offsets_topic_below_its_minimum_lets_no_group_begin(
    kafka: str, mode: str, more: str, begins: bool
) -> None:
    text = (
        f"{mode}default.replication.factor=3\n"
        f"offsets.topic.replication.factor=1\nmin.insync.replicas=2\n{more}"
    )
    [answer] = audit_clusters(read_texts({"server.properties": text.encode()}, kafka=kafka)).answers
    always = [one for one in answer.risks if one.effect == "reads_stop" and not one.failures]
    assert [one.likelihood for one in always] == ([] if begins else ["certain"])


@pytest.mark.parametrize(("kafka", "copies", "priced"), [("3.6.2", 1, True), ("3.6.2", 3, False)])
def test_a_raised_minimum_of_all_topics_names_that_no_group_can_begin(
    kafka: str, copies: int, priced: bool
) -> None:
    text = (
        f"{_KRAFT}default.replication.factor=3\nmin.insync.replicas=1\n"
        f"offsets.topic.replication.factor={copies}\n"
    )
    clusters = read_texts({"server.properties": text.encode()}, kafka=kafka)
    [answer] = audit_clusters(clusters, detail=Detail.REMEDIES).answers
    changes = [one for risk in answer.risks for one in risk.decided_by if not one.topic]
    raised = [one for one in changes if (one.setting, one.change) == ("min.insync.replicas", "2")]
    assert raised
    assert {"reads_stop" in one.stops for one in raised} == {priced}
