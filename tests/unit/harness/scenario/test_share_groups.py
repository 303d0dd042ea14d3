"""Share groups in a scenario: where they are legal, their specifications, and their predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ackproof.clients.scenario_specs import ClientSpecs
from ackproof.judgement.expectations import inapplicable
from ackproof.prediction.predict import predict
from ackproof.scenario.loader import validate
from ackproof_model import share_groups
from ackproof_spark.anomaly import OF_SHARE_GROUPS
from support.run_directories import small

GROUP: dict[str, Any] = {"via": "share"}
OWN: dict[str, Any] = {**GROUP, "application": {"command": ["worker"]}}


def scenario(group: dict[str, Any] = GROUP, **changes: Any) -> dict[str, Any]:
    document = small(**changes)
    document["workload"]["consumers"] = {"workers": group}
    return document


def problem(document: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        validate(document)
    assert caught.value.error_count() == 1
    return str(caught.value)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "brokers before 4.2": (
        scenario(kafka="4.1.2"),
        "share groups need Kafka 4.2 (KIP-932), and kafka is 4.1.2: use a later version, or",
    ),
    "the feature is off": (
        scenario(cluster={"features": {"share.version": 0}}),
        "share.version: 0, which switches share groups off",
    ),
    "an old Java client": (
        scenario({**GROUP, "client": {"java": "4.1.2"}}),
        "java 4.1.2 has no share consumer: use java 4.2.0 or later, or librdkafka",
    ),
    "a renewal by librdkafka": (
        scenario({**GROUP, "acknowledge": ["accept", "renew"]}),
        "librdkafka's share consumer cannot renew a lock: use client: java",
    ),
    "an old librdkafka": (
        scenario({**GROUP, "client": {"librdkafka": "2.3.0"}}),
        "librdkafka 2.3.0 has no share consumer: use 2.16.0 or later",
    ),
    "a compacted topic": (
        scenario(topics={"orders": {"settings": {"cleanup.policy": "compact"}}}),
        "orders is compacted, so a record that the share group workers lacks may",
    ),
    "a topic that a fault compacts": (
        scenario(
            faults=[
                {
                    "fault": "alter_config",
                    "topic": "orders",
                    "key": "cleanup.policy",
                    "value": "compact",
                }
            ]
        ),
        "orders is compacted",
    ),
    "tiered storage": (
        scenario(topics={"orders": {"settings": {"remote.storage.enable": True}}}),
        "share groups over tiered storage are not judged, and workers reads orders",
    ),
    "an attached cluster": (
        scenario(cluster={"attach": {"bootstrap": "kafka-1:9092", "topic_prefix": "orders"}}),
        "this cluster is attached: remove cluster.attach, or use subscribe or assign",
    ),
    "commits": (scenario({**GROUP, "commit": "before"}), "a share group has no commit"),
    "a consumer's offset reset": (
        scenario({**GROUP, "settings": {"auto.offset.reset": "latest"}}),
        "have no auto.offset.reset: use share.auto.offset.reset in group_settings",
    ),
    "a setting that librdkafka refuses": (
        scenario({**GROUP, "settings": {"group.instance.id": "a"}}),
        "`group.instance.id` is not applicable for share consumer",
    ),
    "a misspelt setting of the group": (
        scenario({**GROUP, "group_settings": {"share.delivery.count.limits": 3}}),
        "did you mean 'share.delivery.count.limit'?",
    ),
    "a setting that came later": (
        scenario({**GROUP, "group_settings": {"share.delivery.count.limit": 3}}, kafka="4.2.0"),
        "Kafka 4.2.0 has no share.delivery.count.limit, which came with 4.3: remove it",
    ),
    "a topic for dead letters that does not exist": (
        scenario({**GROUP, "group_settings": {"errors.deadletterqueue.topic.name": "dlq.orders"}}),
        "'dlq.orders' takes no dead letters: add it to topics, with the setting",
    ),
    "a limit that is none": (
        scenario({**GROUP, "group_settings": {"share.delivery.count.limit": 0}}),
        "0 is not a whole number from 2 to 10, which the brokers' group.share.min.delivery.count",
    ),
    "a lock that the brokers do not allow": (
        scenario({**GROUP, "group_settings": {"share.record.lock.duration.ms": 4000}}),
        "4000 is not a whole number from 15000 to 60000, which the brokers'",
    ),
    "a lock in words": (
        scenario({**GROUP, "group_settings": {"share.record.lock.duration.ms": "30s"}}),
        "'30s' is not a whole number from 15000 to 60000",
    ),
    "a limit of the brokers' that is none": (
        scenario(
            {**GROUP, "group_settings": {"share.record.lock.duration.ms": 4000}},
            cluster={"settings": {"group.share.min.record.lock.duration.ms": "few"}},
        ),
        "4000 is not a whole number from few to 60000",
    ),
    "no reset": (
        scenario({**GROUP, "group_settings": {"share.auto.offset.reset": "none"}}),
        "'none' is not legal (earliest, latest or by_duration:PT1H)",
    ),
    "no isolation": (
        scenario({**GROUP, "group_settings": {"share.isolation.level": "committed"}}),
        "'committed' is not legal (read_committed or read_uncommitted)",
    ),
    "neither true nor false": (
        scenario({**GROUP, "group_settings": {"share.renew.acknowledge.enable": 1}}),
        "1 is not legal (true or false)",
    ),
    "a renewal that the group does not allow": (
        scenario(
            {
                **GROUP,
                "client": "java",
                "acknowledge": ["renew"],
                "group_settings": {"share.renew.acknowledge.enable": False},
            }
        ),
        "the brokers then refuse to renew, and acknowledge has renew: remove one of them",
    ),
    "a limit for every group that is none": (
        scenario(cluster={"settings": {"group.share.delivery.count.limit": "abc"}}),
        "'abc' is not a whole number",
    ),
    "a lock of one broker": (
        scenario(
            cluster={"overrides": {1: {"settings": {"group.share.record.lock.duration.ms": 15000}}}}
        ),
        "a share group has one for all brokers, by which it is judged: set it in cluster.settings",
    ),
    "dead letters in the workload's topic": (
        scenario(
            {**GROUP, "group_settings": {"errors.deadletterqueue.topic.name": "orders"}},
            topics={"orders": {"settings": {"errors.deadletterqueue.group.enable": True}}},
        ),
        "'orders' is a topic that the workload writes to, and a dead letter in it is none of its",
    ),
    "a word that is none": (
        scenario({**GROUP, "acknowledge": ["keep"]}),
        "['keep'] is neither implicit nor a list of accept, release, reject, renew",
    ),
    "a program and words": (
        scenario({**OWN, "acknowledge": ["release"]}),
        "acknowledge describes ackproof's own consumers, and application runs instead: remove one",
    ),
    "a program and a client": (
        scenario({**OWN, "client": "java"}),
        "client describes ackproof's own consumers",
    ),
    "a program that crashes by itself": (
        scenario({**OWN, "crash_after": 10, "members": 2}),
        "crash_after describes ackproof's own consumers",
    ),
    "no program": (
        scenario({**GROUP, "application": {"command": []}}),
        "List should have at least 1 item",
    ),
    "a program of another group": (
        scenario({**OWN, "via": "subscribe"}),
        "only share groups have application: remove it, or use via: share",
    ),
    "a program on an attached cluster": (
        scenario(OWN, cluster={"attach": {"bootstrap": "k:9092", "topic_prefix": "orders"}}),
        "this cluster is attached: remove cluster.attach, or use subscribe or assign",
    ),
    "a program that is to be slow": (
        scenario(OWN, faults=[{"fault": "slow_client", "client": "consumers", "delay": "1s"}]),
        "consumers runs your program, which does not obey it: use pause_client, or crash_client",
    ),
    "a program that is to exit": (
        scenario(OWN, faults=[{"fault": "crash_client", "client": "consumer 0", "how": "exit"}]),
        "consumer 0 runs your program",
    ),
    "another group that acknowledges": (
        scenario({"acknowledge": "implicit"}),
        "only share groups have acknowledge: remove it, or use via: share",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_run_or_be_judged_is_refused_with_one_message(case: str) -> None:
    document, message = REFUSED[case]
    assert message in problem(document)


@pytest.mark.parametrize("kafka", ["4.2.0", "4.3.1", "4.4.0"])
def test_a_share_group_is_legal_from_4_2_on(kafka: str) -> None:
    validate(scenario(kafka=kafka))


@pytest.mark.parametrize("group", [GROUP, {**GROUP, "client": "java"}, OWN])
def test_a_share_group_may_read_what_an_application_sends(group: dict[str, Any]) -> None:
    document = scenario(group)
    document["workload"] = {
        "topic": "orders",
        "application": {"command": ["shop"]},
        "settings": {"acks": "all", "enable.idempotence": True},
        "consumers": {"workers": group},
    }
    (spec,) = ClientSpecs(validate(document), Path("one"), bootstrap_servers="b:1").consumers()
    assert spec.identities is not None
    assert spec.identities.parent.name == "read_identities"
    assert spec.id_header == "ackproof-id"


def test_a_member_of_java_may_renew() -> None:
    document = scenario({**GROUP, "client": "java", "acknowledge": ["renew"]})
    (spec,) = ClientSpecs(validate(document), Path("one"), bootstrap_servers="b:1").consumers()
    assert spec.share is not None
    assert (spec.java, spec.share.acknowledge) == ("4.4.0", ("renew",))


def test_each_member_has_its_words_and_files() -> None:
    words = ["accept", "release"]
    document = scenario({**GROUP, "members": 2, "acknowledge": words, "poll": 10})
    specs = ClientSpecs(validate(document), Path("one"), bootstrap_servers="b:1")
    first, second = specs.consumers()
    assert first.share is not None
    assert second.share is not None
    assert (first.partitions, first.settings, first.poll) == (None, {}, 10)
    assert first.share.acknowledge == tuple(words)
    assert type(first).from_json(first.to_json()) == first
    successor = specs.next_consumer(second, number=2)
    assert successor.share is not None
    files = {
        path
        for one in (first.share, second.share, successor.share)
        for path in (one.acquisitions, one.acknowledgements)
    }
    assert len(files) == 6


def test_each_member_of_a_program_has_its_log() -> None:
    document = scenario({**OWN, "members": 2})
    document["workload"]["client"] = "java"  # which a program does not inherit
    specs = ClientSpecs(validate(document), Path("one"), bootstrap_servers="b:1")
    members = [*specs.consumers()]
    members.append(specs.next_consumer(members[1], number=2))
    shares = [one.share for one in members if one.share is not None]
    assert [one.deliveries and one.deliveries.name for one in shares] == [
        f"deliveries-{number}.jsonl" for number in range(3)
    ]
    assert {one.program and one.program.command[0] for one in shares} == {"worker"}
    assert {one.java for one in members} == {None}
    assert type(members[0]).from_json(members[0].to_json()) == members[0]


@pytest.mark.parametrize(
    "fault",
    [
        {"fault": "crash_client", "client": "consumers"},
        {"fault": "pause_client", "client": "consumer 0"},
        {"fault": "slow_client", "client": "producers", "delay": "1s"},
    ],
)
def test_a_program_may_be_killed_and_paused(fault: dict[str, Any]) -> None:
    validate(scenario(OWN, faults=[fault]))


def test_our_own_consumers_beside_a_program_may_be_slow() -> None:
    fault = {"fault": "slow_client", "client": "consumer 0", "delay": "1s"}
    document = scenario(faults=[fault])
    document["workload"]["consumers"]["others"] = OWN  # consumer 1
    validate(document)
    fault["client"] = "consumer 1"
    assert "consumer 1 runs your program" in problem(document)


def test_a_program_may_acknowledge_as_it_likes_and_end_or_wait_at_any_time() -> None:
    words = predicted(scenario(OWN))
    at_will = {"redelivered", "reprocessed", "archived-unprocessed"}
    assert {one for one, word in words.items() if word == "possible"} == at_will
    assert {words[one] for one in words.keys() - at_will} == {"impossible"}


def test_without_words_the_client_accepts_a_poll_with_the_next_one() -> None:
    document = scenario({**GROUP, "acknowledge": "implicit"})
    (spec,) = ClientSpecs(validate(document), Path("one"), bootstrap_servers="b:1").consumers()
    assert spec.share is not None
    assert spec.share.acknowledge == ()


def test_a_group_may_have_dead_letters() -> None:
    group = {**GROUP, "group_settings": {"errors.deadletterqueue.topic.name": "dlq.orders"}}
    topics = {
        "orders": {},
        "dlq.orders": {"settings": {"errors.deadletterqueue.group.enable": True}},
    }
    found = validate(scenario(group, topics=topics))
    assert found.dead_letters("workers") == "dlq.orders"
    assert not {"dead-letter-missing"} & {*inapplicable(found)}
    assert predict(found).predicted["dead-letter-missing"] == "impossible"
    without = validate(scenario())
    assert {"dead-letter-missing", "unordered"} <= {*inapplicable(without)}
    assert not {"dead-letter-missing", "unordered"} & predict(without).predicted.keys()


def test_the_group_begins_at_the_first_record_unless_it_is_told_otherwise() -> None:
    (group,) = validate(scenario()).workload.consumers.values()
    assert group.share_settings == {"share.auto.offset.reset": "earliest"}
    document = scenario({**GROUP, "group_settings": {"share.auto.offset.reset": "latest"}})
    (group,) = validate(document).workload.consumers.values()
    assert group.share_settings == {"share.auto.offset.reset": "latest"}


@pytest.mark.parametrize(
    ("group", "brokers", "limit"),
    [
        ({}, {}, 5),
        ({}, {"group.share.delivery.count.limit": 3}, 3),
        ({"share.delivery.count.limit": 2}, {"group.share.delivery.count.limit": 3}, 2),
    ],
)
def test_the_limit_is_the_groups_else_the_brokers(
    group: dict[str, Any], brokers: dict[str, Any], limit: int
) -> None:
    document = scenario({**GROUP, "group_settings": group}, cluster={"settings": brokers})
    assert validate(document).delivery_limit("workers") == limit


def predicted(document: dict[str, Any]) -> dict[str, str]:
    every = predict(validate(document)).predicted
    shown = {*share_groups.ANOMALIES} - {"dead-letter-missing"}
    return {anomaly: every[anomaly] for anomaly in shown}


def test_without_faults_a_group_that_accepts_shows_nothing() -> None:
    assert set(predicted(scenario()).values()) == {"impossible"}
    every = predict(validate(scenario())).predicted
    assert every["lost"] == "impossible"
    assert "unprocessed" not in every
    without = predict(validate(scenario({"via": "subscribe"}))).predicted
    assert not {*OF_SHARE_GROUPS} & without.keys()
    assert without["reprocessed"] != "not modelled"


def test_a_renewed_lock_may_expire_as_any_other() -> None:
    """A record that waits in its consumer is not renewed."""
    java = {**GROUP, "client": {"java": "4.4.0"}}
    for faults in ([], [{"fault": "slow_client", "client": "consumer 0", "delay": "40s"}]):
        renewed = scenario({**java, "acknowledge": ["renew"]}, faults=faults)
        assert predicted(renewed) == predicted(scenario(java, faults=faults))
    assert predicted(renewed)["redelivered"] == "possible"


KILL = {"fault": "kill", "target": "leader of orders-0", "when": "9 acked", "heal_after": "5s"}


@pytest.mark.parametrize(
    ("word", "faults", "predicts"),
    [
        ("reject", [KILL], "possible"),
        ("release", [KILL], "possible"),
        ("reject", [], "impossible"),
        ("accept", [], "impossible"),
    ],
)
def test_a_dead_letter_may_be_missing_if_a_write_of_it_may_fail(
    word: str, faults: list[dict[str, Any]], predicts: str
) -> None:
    settings = {"errors.deadletterqueue.topic.name": "dlq.orders"}
    topics = {
        "orders": {},
        "dlq.orders": {"settings": {"errors.deadletterqueue.group.enable": True}},
    }
    group = {**GROUP, "acknowledge": [word], "group_settings": settings}
    words = predict(validate(scenario(group, topics=topics, faults=faults))).predicted
    assert words["dead-letter-missing"] == predicts
    without = predict(validate(scenario({**GROUP, "acknowledge": [word]}, faults=faults)))
    assert "dead-letter-missing" not in without.predicted


@pytest.mark.parametrize(
    ("settings", "predicts"),
    [
        ({"min.insync.replicas": 2}, "impossible"),
        ({"min.insync.replicas": 4}, "possible"),
        ({"max.message.bytes": 50}, "possible"),
        ({"retention.ms": 1000}, "possible"),
    ],
)
def test_a_topic_may_refuse_or_remove_dead_letters_without_a_fault(
    settings: dict[str, Any], predicts: str
) -> None:
    letters = {"settings": {**settings, "errors.deadletterqueue.group.enable": True}}
    topics = {"orders": {}, "dlq.orders": letters}
    own = {"errors.deadletterqueue.topic.name": "dlq.orders"}
    document = scenario({**GROUP, "acknowledge": ["reject"], "group_settings": own}, topics=topics)
    assert predict(validate(document)).predicted["dead-letter-missing"] == predicts


@pytest.mark.parametrize(
    ("reset", "possible"),
    [
        ("earliest", {"delivered-after-accept"}),
        ("latest", {"undelivered", "archived-unprocessed"}),
        ("by_duration:PT1H", {"delivered-after-accept", "undelivered", "archived-unprocessed"}),
    ],
)
def test_a_group_that_the_offsets_topic_loses_begins_anew(reset: str, possible: set[str]) -> None:
    """Seen on 4.2.2 (docs/how-to/share-groups.md)."""
    group = {**GROUP, "group_settings": {"share.auto.offset.reset": reset}}
    kill = predicted(scenario(group, faults=[KILL]))
    lose = {"fault": "recreate_topic", "topic": "__consumer_offsets", "when": "9 acked"}
    lost = predicted(scenario(group, faults=[KILL, lose]))
    assert {lost[one] for one in possible} == {"possible"}
    changed = {one for one in lost if lost[one] != kill[one]}
    assert changed <= possible
    assert changed


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__share_group_state"])
def test_a_coordinator_that_starts_looks_for_its_groups_in_added_partitions(topic: str) -> None:
    added = {"fault": "add_partitions", "topic": topic, "partitions": 8, "when": "9 acked"}
    assert predicted(scenario(faults=[added]))["delivered-after-accept"] == "impossible"
    assert predicted(scenario(faults=[KILL]))["delivered-after-accept"] == "impossible"
    assert predicted(scenario(faults=[added, KILL]))["delivered-after-accept"] == "possible"


def test_nothing_is_excluded_if_retention_may_remove_records() -> None:
    for key, word in (("segment.ms", "impossible"), ("retention.ms", "possible")):
        topics = {"orders": {"settings": {key: 1000}}}
        document = scenario(topics=topics, expect={"loss": "any", "diverged": "any"})
        assert set(predicted(document).values()) == {word}


def test_the_order_of_keys_is_never_promised() -> None:
    document = scenario()
    document["workload"]["keys"] = 3
    assert predict(validate(document)).predicted["unordered"] == "possible"


def test_records_of_transactions_are_predicted_as_others() -> None:
    document = scenario(faults=[KILL])
    plain = predicted(document)
    document["workload"]["transactions"] = {"size": 10}
    assert predicted(document) == plain


def test_without_rules_for_the_cluster_nothing_is_excluded() -> None:
    document = scenario(cluster={"features": {"metadata.version": "4.2-IV1"}})
    assert set(predicted(document).values()) == {"possible"}


def test_each_word_of_a_group_is_predicted() -> None:
    words = predicted(scenario({**GROUP, "acknowledge": ["accept", "release", "reject"]}))
    assert words.pop("archived-unprocessed") == "possible"
    assert set(words.values()) == {"impossible"}


@pytest.mark.parametrize(("times", "word"), [(1, "impossible"), (5, "possible")])
def test_a_record_is_given_up_once_members_crash_as_often_as_the_limit(
    times: int, word: str
) -> None:
    kill = {"fault": "crash_client", "client": "consumer 0", "when": "100 acked"}
    loop = {"repeat": times, "sequence": [{**kill, "heal_after": "1s"}]}
    words = predicted(scenario(faults=[kill] if times == 1 else [loop]))
    assert words["archived-unprocessed"] == word
    assert words["redelivered"] == words["reprocessed"] == "possible"
    assert words["over-delivered"] == words["undelivered"] == "impossible"


def test_another_leader_forgets_deliveries_that_are_not_stored() -> None:
    kill = {
        "fault": "kill",
        "target": "leader of orders-0",
        "when": "100 acked",
        "heal_after": "5s",
    }
    words = predicted(scenario(faults=[kill]))
    assert words["over-delivered"] == words["redelivered"] == words["reprocessed"] == "possible"
    assert words["undelivered"] == "impossible"
    latest = scenario(
        {**GROUP, "group_settings": {"share.auto.offset.reset": "latest"}}, faults=[kill]
    )
    assert predicted(latest)["undelivered"] == "possible"  # a leader that begins before a write


@pytest.mark.parametrize(
    ("delay", "lock", "word"), [(8, 30, "impossible"), (8, 15, "possible"), (25, 30, "possible")]
)
def test_a_lock_expires_while_its_member_works(delay: int, lock: int, word: str) -> None:
    slow = {"fault": "slow_client", "client": "consumer 0", "delay": f"{delay}s", "when": "9 acked"}
    settings = {"share.record.lock.duration.ms": lock * 1000}
    document = scenario(
        {**GROUP, "group_settings": settings}, faults=[{**slow, "heal_after": "9s"}]
    )
    assert predicted(document)["redelivered"] == predicted(document)["reprocessed"] == word


@pytest.mark.parametrize(("session_s", "word"), [(45, "impossible"), (15, "possible")])
def test_a_member_that_is_paused_for_its_session_loses_its_records(
    session_s: int, word: str
) -> None:
    pause = {"fault": "pause_client", "client": "consumer 0", "when": "9 acked", "heal_after": "8s"}
    settings = {"share.session.timeout.ms": session_s * 1000}
    cluster = {"settings": {"group.share.min.session.timeout.ms": 10_000}}
    document = scenario({**GROUP, "group_settings": settings}, cluster=cluster, faults=[pause])
    assert predicted(document)["redelivered"] == word


@pytest.mark.parametrize(
    ("to", "possible"),
    [("latest", {"undelivered", "archived-unprocessed"}), ("earliest", {"replayed"})],
)
def test_a_reset_of_a_share_group_goes_back_or_passes_over_records(
    to: str, possible: set[str]
) -> None:
    crash = {"id": "down", "fault": "crash_client", "client": "consumers", "when": "9 acked"}
    reset = {"fault": "reset_offsets", "group": "workers", "topic": "orders", "to": to}
    words = predict(validate(scenario(faults=[crash, reset]))).predicted
    of_crash = predict(validate(scenario(faults=[crash]))).predicted
    assert {one for one, word in words.items() if of_crash.get(one) != word} == possible | (
        {"replayed"} if to == "latest" else set()
    )
    assert words["replayed"] == ("possible" if to == "earliest" else "impossible")
    assert {words[one] for one in possible} == {"possible"}
