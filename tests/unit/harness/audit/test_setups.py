"""Which values count in a setup, where they come from, and which values nobody states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import product

import pytest

from ackproof.audit import auditing
from ackproof.audit import setups as module
from ackproof.audit.answer import Effect
from ackproof.audit.assumption import Versions
from ackproof.audit.auditing import answered, audit_clusters, with_tables
from ackproof.audit.detail import Detail
from ackproof.audit.effective import of_producer
from ackproof.audit.failure import Failure
from ackproof.audit.finishing import finished
from ackproof.audit.replication import found_sets
from ackproof.audit.risk import Subject
from ackproof.audit.setups import UNCLEAN, Setup, eras_of, setups, unread, writers
from ackproof.errors import ScenarioError
from ackproof.kafka_versions import RELEASES
from ackproof.own_config.configuration import (
    JAVA_CLIENT,
    LIBRDKAFKA,
    Client,
    Count,
    Default,
    FileLine,
    Given,
    NoFile,
    Option,
    OwnConfig,
    Topic,
    kafka_default,
)
from ackproof.own_config.reading import read_texts
from ackproof_model import configuration
from ackproof_model.configuration import Profile
from support.origins import at


def settings(values: Mapping[str, str], file: str = "server.properties") -> dict[str, Given]:
    return {
        key: Given(value, FileLine(file, at)) for at, (key, value) in enumerate(values.items(), 1)
    }


def producer(values: Mapping[str, str], *, library: str = "java", version: str = "3.9.1") -> Client:
    return Client(
        name="app.yml",
        library=library,
        settings=settings(values, "app.yml"),
        version=Given(version, at("app.yml:1")) if version else None,
    )


def own(**changes: object) -> OwnConfig:
    stated: dict[str, object] = {
        "kafka": Given("3.9.1", at("compose.yml:4")),
        "mode": Given("kraft", at("compose.yml:5")),
        "topics": (Topic(name="orders", replication_factor=Given("3", at("topic:1"))),),
        "producers": (producer({"acks": "all"}),),
    }
    return OwnConfig(**{**stated, **changes})


def only(config: OwnConfig) -> Setup:
    [group] = setups(config)
    [setup] = group
    return setup


def assumed(config: OwnConfig, key: str) -> list[str]:
    [group] = setups(config)
    return list(dict.fromkeys(str(one.when[key]) for one in group if key in one.when))


def test_a_configuration_that_states_everything_has_one_setup() -> None:
    setup = only(own())
    assert not setup.when
    assert setup.partition.replication_factor == 3
    assert setup.partition.acks == "all"
    assert setup.settings["acks"] == Given("all", at("app.yml:1"))
    assert setup.settings["min.insync.replicas"] == Given("1", kafka_default("3.9.1"))
    assert setup.settings["enable.idempotence"].source == Default(JAVA_CLIENT, "3.9.1")


@pytest.mark.parametrize(
    ("topic", "broker", "expected"),
    [
        (
            {"min.insync.replicas": "3"},
            {"min.insync.replicas": "2"},
            Given("3", at("topic:1")),
        ),
        ({}, {"min.insync.replicas": "2"}, Given("2", at("server.properties:1"))),
        ({}, {}, Given("1", kafka_default("3.9.1"))),
    ],
)
def test_a_topic_setting_wins_over_that_of_brokers(
    topic: dict[str, str], broker: dict[str, str], expected: Given
) -> None:
    one = Topic(
        name="orders",
        replication_factor=Given("3", at("t:1")),
        settings=settings(topic, "topic"),
    )
    setup = only(own(topics=(one,), broker=settings(broker)))
    assert setup.settings["min.insync.replicas"] == expected
    assert setup.partition.min_insync_replicas == int(expected.value)


@pytest.mark.parametrize(("brokers", "expected"), [(5, ["1", "2", "3"]), (2, ["1", "2"])])
def test_a_replication_factor_that_nobody_states_has_each_value(
    brokers: int, expected: list[str]
) -> None:
    config = own(
        topics=(Topic(name="orders"),),
        brokers=Count(brokers, at("compose.yml:1")),
        broker=settings({"default.replication.factor": "3"}),
    )
    assert assumed(config, "replication.factor") == expected
    created = only(own(topics=(), broker=settings({"default.replication.factor": "3"})))
    assert created.settings["replication.factor"] == Given("3", at("server.properties:1"))
    assert created.topic.name == ""


@pytest.mark.parametrize(
    ("changes", "minima", "unclean"),
    [
        ({}, [], []),
        ({"defaults_hold": False}, ["1", "2"], ["false", "true"]),
        (
            {"defaults_hold": False, "broker": settings({"min.insync.replicas": "2"})},
            [],
            ["false", "true"],
        ),
        (
            {
                "defaults_hold": False,
                "topics": (
                    Topic(name="t", replication_factor=Given("3", at("d:1")), in_force=True),
                ),
            },
            [],
            [],
        ),
        (
            {
                "defaults_hold": False,
                "topics": (Topic(name="t", replication_factor=Given("1", at("t:1"))),),
            },
            ["1"],
            ["false", "true"],
        ),
    ],
)
def test_what_files_that_were_not_given_may_have_is_open(
    changes: dict[str, object], minima: list[str], unclean: list[str]
) -> None:
    config = own(**changes)
    assert assumed(config, "min.insync.replicas") == minima
    assert assumed(config, "unclean.leader.election.enable") == unclean


def test_what_something_fills_in_has_each_value() -> None:
    filled = {"min.insync.replicas": "", "unclean.leader.election.enable": ""}
    config = own(broker=settings(filled), producers=(producer({"acks": ""}),))
    assert assumed(config, "min.insync.replicas") == ["1", "2"]
    assert assumed(config, "unclean.leader.election.enable") == ["false", "true"]
    assert assumed(config, "acks") == ["0", "1", "all"]
    [group] = setups(config)
    assert {one.producer.settings["acks"].value for one in group if one.producer} == {
        *("0", "1", "all")
    }


def test_without_a_producer_each_acks_has_an_answer() -> None:
    assert assumed(own(producers=()), "acks") == ["0", "1", "all"]
    assert assumed(own(), "acks") == []


@pytest.mark.parametrize(
    ("mode", "present", "absent"),
    [
        ("zookeeper", "2.7 to 3.6", "4.4 or later"),
        ("kraft", "4.4 or later", "2.1 to 2.3"),
        ("", "0.10.2", "2.7 to 3.6"),
    ],
)
def test_the_mode_limits_the_versions(mode: str, present: str, absent: str) -> None:
    config = own(kafka=None, mode=Given(mode, at("server.properties:2")) if mode else None)
    found = assumed(config, "kafka.version")
    assert present in found
    assert absent not in found


def test_bounds_and_keys_limit_the_versions() -> None:
    below = own(kafka=None, mode=None, below=Given("4.0", at("described.txt:1")))
    assert "3.9" in assumed(below, "kafka.version")
    assert "4.0" not in assumed(below, "kafka.version")
    since = own(kafka=None, mode=None, since=Given("4.0", at("described.txt:1")))
    assert assumed(since, "kafka.version") == ["4.0", "4.1 to 4.2", "4.3", "4.4 or later"]
    keys = own(kafka=None, mode=None, broker=settings({"zookeeper.connect": "zk:2181"}))
    assert "4.4 or later" not in assumed(keys, "kafka.version")


def test_a_version_that_is_not_modelled_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"compose.yml:4.*0\.9"):
        list(setups(own(kafka=Given("0.9.0", at("compose.yml:4")))))
    with pytest.raises(ScenarioError, match="payments"):
        list(setups(own(), topic="payments"))


@pytest.mark.parametrize(
    ("client", "acks", "idempotence", "source"),
    [
        (producer({}, version="2.8.2"), "1", False, "default of the Java client 2.8.2"),
        (producer({}, version="3.0.0"), "all", False, "default of the Java client 3.0.0"),
        (producer({}, version="3.2.0"), "all", True, "default of the Java client 3.2.0"),
    ],
)
def test_a_producer_has_the_defaults_of_its_library(
    client: Client, acks: str, idempotence: bool, source: str
) -> None:
    setup = only(own(producers=(client,)))
    assert setup.partition.acks == acks
    assert setup.partition.idempotence is idempotence
    assert setup.settings["acks"].value == acks
    assert str(setup.settings["acks"].source) == source


def test_librdkafka_without_acks_has_both_defaults_unless_a_name_shows_its_version() -> None:
    """Before 1.0 it asks for the leader's ack only; idempotence is of 1.0."""
    config = own(producers=(producer({"queue.buffering.max.ms": "5"}, library="librdkafka"),))
    assert assumed(config, "producer.version") == ["before 1.0", "1.0 or later"]
    [group] = setups(config)
    default = Default(LIBRDKAFKA)
    assert list(dict.fromkeys(one.settings["acks"] for one in group)) == [
        Given("1", replace(default, version="before 1.0")),
        Given("all", replace(default, version="1.0 or later")),
    ]
    for shown in ({"request.required.acks": "1"}, {"enable.idempotence": "false"}):
        stated = own(producers=(producer(shown, library="librdkafka"),))
        assert assumed(stated, "producer.version") == []


def test_a_client_version_that_nobody_states_has_both_defaults() -> None:
    config = own(producers=(producer({}, version=""),))
    assert assumed(config, "producer.version") == ["before 3.0", "3.0 or later"]
    [group] = setups(config)
    default = Default(JAVA_CLIENT)
    assert dict.fromkeys(one.settings["acks"] for one in group) == {
        Given("1", replace(default, version="before 3.0")): None,
        Given("all", replace(default, version="3.0 or later")): None,
    }
    assert of_producer(group[0], "retries", 5) == Given("5", default)
    stated = own(producers=(producer({"acks": "1"}, version=""),))
    assert assumed(stated, "producer.version") == []


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        ({"acks": "1", "enable.idempotence": "true"}, True),
        ({"acks": "2"}, True),
        ({"retries": "-5"}, True),
        ({"retries": "99999999999"}, True),
        ({"retries": "2147483647"}, False),
        ({"max.in.flight.requests.per.connection": "0"}, True),
        ({"acks": "1", "enable.idempotence": "false"}, False),
        ({"acks": "1"}, False),
    ],
)
@pytest.mark.parametrize("library", ["java", "librdkafka"])
def test_settings_that_a_client_refuses_are_named(
    values: dict[str, str], refused: bool, library: str
) -> None:
    of_client = producer(values, library=library)
    [group] = setups(own(producers=(of_client,)))
    assert {bool(one.refusal) for one in group} == {refused}


def test_a_minimum_in_a_file_of_brokers_does_not_decide_with_eligible_leader_replicas() -> None:
    values = {"process.roles": "broker", "min.insync.replicas": "2"}
    config = own(kafka=Given("4.3.1", at("compose.yml:4")), broker=settings(values))
    assert assumed(config, "min.insync.replicas") == ["1", "2"]
    both = settings({**values, "process.roles": "broker,controller"})
    assert only(own(kafka=config.kafka, broker=both)).partition.min_insync_replicas == 2
    assert not assumed(own(broker=settings(values)), "min.insync.replicas"), "before 4.1"
    controllers = own(kafka=config.kafka, broker=config.broker, controller=settings({"a": "b"}))
    assert only(controllers).partition.min_insync_replicas == 1
    for_all = own(kafka=config.kafka, broker=config.broker, dynamic=settings(values))
    assert not assumed(for_all, "min.insync.replicas")


@pytest.mark.parametrize(
    ("elsewhere", "answers"),
    [
        ({}, ["false", "true"]),
        ({"broker": {"process.roles": "broker,controller"}}, []),
        ({"controller": {"process.roles": "controller"}}, []),
        ({"dynamic": {"unclean.leader.election.enable": "false"}}, []),
        ({"dynamic": {"min.insync.replicas": "2"}}, ["false", "true"]),
    ],
)
def test_a_file_of_brokers_only_does_not_decide_about_unclean_elections(
    elsewhere: Mapping[str, Mapping[str, str]], answers: list[str]
) -> None:
    key = "unclean.leader.election.enable"
    broker = {"process.roles": "broker", key: "false", **elsewhere.get("broker", {})}
    rest = {name: settings(elsewhere.get(name, {})) for name in ("controller", "dynamic")}
    config = own(broker=settings(broker), **rest)
    assert assumed(config, key) == answers
    [group] = setups(config)
    texts = dict.fromkeys(text for setup in group for text in unread(setup))
    assert ["not from brokers' files" in text for text in texts] == [True] * bool(answers)


@pytest.mark.parametrize(
    ("kafka", "mode", "modes"),
    [
        ("3.3.0", "", ["kraft", "zookeeper"]),
        ("3.9.1", "", ["kraft", "zookeeper"]),
        ("3.9.1", "kraft", []),
        ("3.9.1", "zookeeper", []),
        ("3.2.0", "", []),
        ("4.0.0", "", []),
    ],
)
def test_a_mode_that_nobody_states_has_the_answer_of_each(
    kafka: str, mode: str, modes: list[str]
) -> None:
    config = own(
        kafka=Given(kafka, Option("--kafka")), mode=Given(mode, at("f:1")) if mode else None
    )
    assert assumed(config, "kafka.mode") == modes
    [group] = setups(config)
    assert [one.zookeeper for one in group] == (
        [False, True] if modes else [mode == "zookeeper" or kafka == "3.2.0"]
    )


@pytest.mark.parametrize(("replicas", "named"), [("3", True), ("1", False)])
def test_a_mode_is_named_only_where_it_changes_the_answer(replicas: str, named: bool) -> None:
    topic = Topic(name="orders", replication_factor=Given(replicas, at("t:1")))
    config = own(kafka=Given("3.6.1", Option("--kafka")), mode=None, topics=(topic,))
    [answer] = audit_clusters([config]).answers
    assert ("kafka.mode" in answer.unstated) is named
    assert any("kafka.mode" in risk.when for risk in answer.risks) is named


def test_a_topic_with_a_producer_of_its_own_is_written_by_no_other() -> None:
    of_status = replace(producer({"retries": "0"}), name="status", writes="connect-status")
    internal = Topic(name="connect-status", replication_factor=Given("3", at("c:1")), internal=True)
    orders = Topic(name="orders", replication_factor=Given("3", at("c:1")))
    config = own(topics=(internal, orders), producers=(producer({"acks": "1"}), of_status))
    written = {
        one.topic: (one.producer, one.settings["acks"].value)
        for one in audit_clusters([config]).answers
    }
    assert written == {"connect-status": ("status", "all"), "orders": ("app.yml", "1")}


@pytest.mark.parametrize(
    ("framework", "written_by"),
    [("Kafka Streams", ["streams"]), ("Kafka Connect", [None]), ("", ["app.yml", "streams"])],
)
def test_a_topic_of_a_framework_is_written_by_its_producers_alone(
    framework: str, written_by: list[str | None]
) -> None:
    streams = replace(producer({"acks": "all"}), name="streams", framework="Kafka Streams")
    changelog = Topic(name="changelog", framework=framework)
    config = own(topics=(changelog,), producers=(producer({"acks": "1"}), streams))
    assert [one and one.name for one in writers(config, changelog)] == written_by


def test_connects_own_topics_do_not_depend_on_the_version_of_its_client() -> None:
    [config] = read_texts(
        {
            "connect.properties": b"group.id=c\nconfig.storage.topic=configs\n"
            b"config.storage.replication.factor=3\n"
        }
    )
    [answer] = [one for one in audit_clusters([config]).answers if one.topic == "configs"]
    assert answer.settings["acks"].value == "all"
    assert not any("producer.version" in risk.when for risk in answer.risks)
    lost = {risk.failures for risk in answer.risks if risk.effect is Effect.LOST}
    assert lost
    assert (Failure.CRASH,) not in lost


@pytest.mark.parametrize(
    ("kafka", "version", "source"),
    [
        ("3.9.1", "3.9.1", at("compose.yml:4")),
        ("4.1.1", "3.9.1", at("app.yml:1")),
        ("4.1.1", "", NoFile.UNSTATED),
        ("4.1.1", "4.0.0", None),
    ],
)
def test_the_protocol_of_transactions_has_the_source_that_decides_it(
    kafka: str, version: str, source: object
) -> None:
    config = own(
        kafka=Given(kafka, at("compose.yml:4")),
        producers=(producer({"acks": "all", "transactional.id": "orders-1"}, version=version),),
    )
    [answer] = audit_clusters([config]).answers
    decisions = {
        (decision.value, decision.source)
        for risk in answer.risks
        for decision in risk.decided_by
        if decision.setting == "transaction.version"
    }
    assert decisions == (set() if source is None else {("1", source)})


@pytest.mark.parametrize("mode", ["kraft", "zookeeper"])
@pytest.mark.parametrize("of_controllers", ["true", "false", ""])
def test_the_active_controller_elects_by_its_own_setting(mode: str, of_controllers: str) -> None:
    key, roles = "unclean.leader.election.enable", {"process.roles": "controller"}
    stated = {**roles, **({key: of_controllers} if of_controllers else {})}
    config = own(
        mode=Given(mode, at("f:1")),
        broker=settings({key: "false"}),
        controller=settings(stated, "controller.properties") if mode == "kraft" else {},
    )
    setup = only(config)
    unclean = mode == "kraft" and of_controllers == "true"
    assert setup.partition.unclean_election is unclean
    assert setup.settings[key].value == str(unclean).lower()
    origin = str(setup.settings[key].source)
    assert origin.startswith("controller.properties" if unclean else "")
    of_topic = (
        Topic(
            name="a",
            replication_factor=Given("3", NoFile.ASSUMED),
            settings=settings({key: "true"}),
        ),
    )
    assert only(replace(config, topics=of_topic)).partition.unclean_leader_election


def test_flushes_and_racks_are_taken() -> None:
    racks = {str(one): Given(name, FileLine(f"b{one}", 1)) for one, name in enumerate("aab")}
    setup = only(own(broker=settings({"log.flush.interval.messages": "1"}), racks=racks))
    assert setup.flushes_every_record
    assert setup.racks == 2
    assert not only(own()).flushes_every_record


def test_racks_of_unknown_number_have_an_answer_for_two_and_for_three() -> None:
    label = own(racks={"pool": Given("topology.kubernetes.io/zone", at("kafka.yaml:8"))})
    assert assumed(label, "racks") == ["2", "3"]
    [group] = setups(label)
    assert [one.racks for one in group] == [2, 3]


@pytest.mark.parametrize("mode", ["", "kraft"])
def test_all_versions_of_a_set_of_rules_lose_by_the_same_failures(mode: str) -> None:
    releases = [
        next(one for one in RELEASES if one.startswith(f"{era.since}.") and one != era.release)
        if era.until
        else RELEASES[-1]
        for era in eras_of(mode)
        if era.since != era.until
    ]
    stated = {"kafka": None, "mode": Given(mode, at("file:1")) if mode else None}
    assert len(releases) == 9
    compared = 0
    for minimum, unclean, release in product("12", ("false", "true"), releases):
        broker = {"min.insync.replicas": minimum, "unclean.leader.election.enable": unclean}
        [group] = setups(own(**stated, broker=settings(broker)))
        by_era = {one.when["kafka.version"]: one for one in group if not _with_zookeeper(one)}
        exact = only(own(kafka=Given(release, at("file:2")), broker=settings(broker)))
        line = tuple(map(int, release.split(".")[:2]))
        era = next((one for one in by_era if _contains(one, line)), None)
        if era is None:
            continue
        alike, found = found_sets(by_era[era]), found_sets(exact)
        if not alike.undecided or not found.undecided or alike.undecided == found.undecided:
            losing = [{loss.failures for loss in one.losing} for one in (alike, found)]
            assert losing[0] == losing[1], (release, era, minimum, unclean)
            compared += 1
    assert compared > 10


#: Rules on which no answer depends.
LEFT_OUT = {
    *("short_timers", "group_fencing", "verifies_transactions", "strict_markers"),
    *("shrink_bumps_epoch", "completes_with_all", "smaller_completes_with_all"),
    *("share_groups", "share_start_only_moves_on", "acks_truncated_commits"),
}


@pytest.mark.parametrize("rule", [one.name for one in fields(Profile)])
def test_a_version_with_another_rule_is_an_era_of_its_own(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules_of = configuration._profile

    def changed(patch: tuple[int, ...]) -> Profile:
        profile = rules_of(patch)
        return profile if patch < (4, 5) else replace(profile, **{rule: "made up"})

    monkeypatch.setattr(configuration, "_profile", changed)
    *_, last = eras_of.__wrapped__("", (*RELEASES, "4.5.0", "4.6.1"))
    if rule in LEFT_OUT:
        assert (last.label, last.release) == ("4.4 or later", "4.4.0")
    else:
        *_, before, last = eras_of.__wrapped__("kraft", (*RELEASES, "4.5.0", "4.6.1"))
        assert (before.label, before.release) == ("4.4", "4.4.0")
        assert (last.label, last.release) == ("4.5 or later", "4.5.0")


def test_a_new_release_with_the_rules_of_the_last_changes_no_era() -> None:
    assert eras_of("", (*RELEASES, "4.5.0")) == eras_of("")
    assert eras_of("zookeeper", (*RELEASES, "4.5.0")) == eras_of("zookeeper")
    assert eras_of("zookeeper")[-1].label == "3.7 to 3.9"


def _with_zookeeper(setup: Setup) -> bool:
    """Whether the version could run with KRaft, too."""
    return setup.zookeeper and not setup.partition.profile.zookeeper


def _contains(era: Versions, line: tuple[int, ...]) -> bool:
    [(first, last)] = era.ranges
    bounds = [tuple(map(int, one.split(".")[:2])) for one in (first, last or "9.9")]
    return bounds[0] <= line <= bounds[1]


@pytest.mark.parametrize(
    ("kafka", "mode", "values", "said"),
    [
        ("3.8.1", "kraft", {"unclean.leader.election.enable": "true"}, ["KAFKA-12670"]),
        ("3.8.1", "zookeeper", {"unclean.leader.election.enable": "true"}, []),
        ("3.9.1", "kraft", {"unclean.leader.election.enable": "true"}, []),
        ("3.8.1", "kraft", {"unclean.leader.election.enable": "false"}, []),
        ("4.4.0", "kraft", {"process.roles": "broker", "min.insync.replicas": "2"}, ["KIP-966"]),
        ("3.9.1", "kraft", {"process.roles": "broker", "min.insync.replicas": "2"}, []),
    ],
)
def test_a_setting_that_kafka_does_not_read_is_named(
    kafka: str, mode: str, values: dict[str, str], said: list[str]
) -> None:
    config = own(
        kafka=Given(kafka, at("compose.yml:4")),
        mode=Given(mode, at("compose.yml:5")),
        broker=settings(values),
    )
    [group] = setups(config)
    texts = dict.fromkeys(text for setup in group for text in unread(setup))
    assert len(texts) == len(said)
    assert all(reason in text for reason, text in zip(said, texts, strict=True))


def test_a_producer_whose_library_nobody_states_has_the_answer_of_each() -> None:
    unknown = own(producers=(producer({"acks": "all"}, library=""),))
    assert assumed(unknown, "producer.library") == ["java", "librdkafka"]
    [group] = setups(unknown)
    assert [(one.producer.library, one.partition.idempotence) for one in group if one.producer] == [
        ("java", True),
        ("librdkafka", False),
    ]


@pytest.mark.parametrize("library", ["java", "librdkafka"])
def test_transactions_make_a_producer_idempotent(library: str) -> None:
    who = producer({"transactional.id": "t"}, library=library, version="2.8.2")
    assert only(own(producers=(who,))).partition.idempotence
    without = producer({"acks": "all"}, library=library, version="2.8.2")
    assert not only(own(producers=(without,))).partition.idempotence


@pytest.mark.parametrize("version", ["3.10.0", "9.9.9", "2.9", "3.8.2", "3.9.9"])
def test_a_version_that_does_not_exist_is_refused(version: str) -> None:
    with pytest.raises(ScenarioError, match="there is no Kafka"):
        only(own(kafka=Given(version, Option("--kafka"))))


def test_data_are_answered_beside_the_internal_topics_of_connect() -> None:
    internal = Topic(
        name="connect-configs", replication_factor=Given("1", at("c:1")), internal=True
    )
    named = Topic(name="orders", replication_factor=Given("3", at("t:1")))
    topics = ((internal,), (internal, named))
    of = [[one[0].topic.name for one in setups(own(topics=of))] for of in topics]
    assert of == [["", "connect-configs"], ["connect-configs", "orders"]]


@pytest.mark.parametrize("values", [{"transactional.id": "t"}, {"retries": "3"}, None])
def test_setups_that_share_answers_have_the_same_ones_alone(values: dict[str, str] | None) -> None:
    config = own(
        kafka=None,
        mode=None,
        topics=(Topic(name="orders"),),
        producers=() if values is None else (producer(values, library="", version=""),),
        consumers=(producer({"auto.offset.reset": "earliest"}),),
        racks={str(rack): Given(f"r{rack}", at("c:1")) for rack in range(2)},
        defaults_hold=False,
    )
    [group] = setups(config)
    together = answered(group)
    for number, setup in list(enumerate(group))[::11]:
        alone = answered([setup])
        assert [*alone.of(0)] == [*together.of(number)]
        assert alone.survives[0] == together.survives[number]


def _topics_with_retention() -> tuple[Topic, ...]:
    short, shorter = {"retention.ms": "2"}, {"retention.ms": "1"}
    removing: tuple[dict[str, str], ...] = ({}, short, shorter, {"cleanup.policy": "compact"}, {})
    every = [(minimum, one) for minimum in ("1", "4") for one in removing]
    return tuple(
        Topic(
            name=f"orders-{number}",
            replication_factor=Given("3", at(f"topics:{10 * number}")),
            settings={
                key: Given(value, at(f"topics:{10 * number + line}"))
                for line, (key, value) in enumerate({"min.insync.replicas": low, **one}.items(), 1)
            },
        )
        for number, (low, one) in enumerate(every)
    )


@pytest.mark.parametrize("acks", ["1", "all"])
def test_topics_that_share_risks_have_the_answers_of_each_alone(acks: str) -> None:
    """They differ in what Kafka removes, and name the lines of their own settings."""
    whole = own(
        kafka=Given("3.4.1", at("compose.yml:4")),
        topics=_topics_with_retention(),
        producers=(producer({"acks": acks, "enable.idempotence": "false"}),),
        consumers=(producer({"auto.offset.reset": "latest"}),),
    )
    together = finished(audit_clusters([whole], detail=Detail.REMEDIES)).answers
    by_name = {answer.topic: answer for answer in together}
    for topic in whole.topics:
        of_one = replace(whole, topics=(topic,))
        [alone] = finished(audit_clusters([of_one], detail=Detail.REMEDIES)).answers
        assert replace(by_name[topic.name], worst=alone.worst) == alone
    removed = {
        (risk.text, risk.failures)
        for answer in together
        for risk in answer.risks
        if risk.effect is Effect.REMOVED or "consumers down" in risk.when
    }
    assert len(removed) > 3  # the control: they have different risks


def test_losses_are_searched_once_for_topics_that_differ_in_what_kafka_removes(
    monkeypatch,
) -> None:
    asked: list[Subject] = []

    def counted(subject, setup):
        asked.append(subject)
        return about(subject, setup)

    about = auditing._about
    monkeypatch.setattr(auditing, "_about", counted)
    audit_clusters([own(topics=_topics_with_retention())])
    assert asked.count(Subject.TOPIC) == 8
    assert asked.count(Subject.LOSSES) == 2  # of each min.insync.replicas


def test_a_producer_is_read_once_for_each_version_however_many_topics(monkeypatch) -> None:
    read = []

    def counted(client, kafka):
        read.append(kafka)
        return producers(client, kafka)

    producers = module.producers
    monkeypatch.setattr(module, "producers", counted)
    topics = tuple(
        Topic(name=f"orders-{number}", replication_factor=Given(str(number), at("topic:1")))
        for number in range(1, 5)
    )
    groups = [*setups(own(kafka=None, mode=None, topics=topics))]
    assert [group[0].topic for group in groups] == [*topics]
    assert all(group[0].own.topics == (group[0].topic,) for group in groups)
    assert sorted(read) == sorted({one.partition.kafka_version for one in groups[0]})


def test_changes_of_other_risks_than_losses_are_searched_only_where_they_are_shown(
    monkeypatch,
) -> None:
    found = []

    def counted(risk, setup):
        found.append(risk)
        return with_changes(risk, setup)

    with_changes = auditing.with_changes
    monkeypatch.setattr(auditing, "with_changes", counted)
    config = own(topics=tuple(Topic(name=f"orders-{number}") for number in range(2)))
    whole = finished(audit_clusters([config]))
    assert not found
    shown = with_tables(whole, Detail.TABLES, 1).groups[0].answer
    assert [risk.failures for risk in found] == [
        risk.failures for risk in whole.groups[0].answer.risks if risk.unremedied
    ]
    everything = audit_clusters([config], detail=Detail.REMEDIES).answers[0]
    changes = [risk.decided_by for risk in everything.risks if risk.effect is not Effect.LOST]
    assert [one.decided_by for one in shown.risks if one.effect is not Effect.LOST] == changes


@pytest.mark.parametrize(("of", "unclean"), [("Amazon MSK", True), ("Kafka", False)])
def test_a_service_s_own_default_of_unclean_elections_is_in_force(of: str, unclean: bool) -> None:
    [own] = read_texts({"server.properties": b"default.replication.factor=3\n"}, kafka="2.8.1")
    stated = {**own.broker, UNCLEAN: Given(str(unclean).lower(), Default(of))}
    every = [setup for group in setups(replace(own, broker=stated)) for setup in group]
    assert {setup.partition.unclean_election for setup in every} == {unclean}


@pytest.mark.parametrize(
    ("in_flight", "shown"), [("5", ["acks", "enable.idempotence"]), ("abc", ["acks"])]
)
def test_a_producer_that_does_not_start_has_no_defaults_in_force(
    in_flight: str, shown: list[str]
) -> None:
    text = f"acks=1\nmax.in.flight.requests.per.connection={in_flight}\n"
    [config] = read_texts({"producer.properties": text.encode()}, kafka="3.9.1")
    [answer] = audit_clusters([config]).answers
    assert [key for key in answer.settings if key in ("acks", "enable.idempotence")] == shown
