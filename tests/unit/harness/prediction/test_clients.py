"""Predictions for the transactions and consumer groups of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ackproof.prediction.predict import predict, predict_clients
from ackproof.scenario.model import Scenario
from ackproof.scenario.topics import TopicSpec
from support.run_directories import small

NO_FAULT = {"fault": "none"}
KILL = {"fault": "kill", "target": "leader of orders-0"}
PAUSE = {"fault": "pause_client", "client": "consumers"}


def scenario(*faults: dict[str, Any], version: str = "4.3.1", **workload: Any) -> Scenario:
    topics: dict[str, Any] = {"orders": {}, "invoices": {}}
    return Scenario.model_validate(
        small(kafka=version, topics=topics, workload=workload, faults=list(faults))
    )


def predictions(asked: Scenario, *lossy: str) -> dict[str, str]:
    """Return the predictions if these topics, and no others, may lose records."""
    return {
        str(anomaly): likelihood.value
        for anomaly, likelihood, _ in predict_clients(asked, replication(*lossy))
    }


def reasons(asked: Scenario, *lossy: str) -> dict[str, str]:
    return {
        str(anomaly): reason for anomaly, _, reason in predict_clients(asked, replication(*lossy))
    }


def replication(*lossy: str) -> Callable[[Scenario], bool]:
    return lambda asked: asked.workload.topic in lossy


def test_without_transactions_and_groups_there_is_no_prediction():
    assert predictions(scenario(KILL)) == {}
    assert "aborted-read" not in predict(scenario()).predicted
    assert "aborted-read" in predict(scenario(version="2.6.2", transactions={})).predicted


@pytest.mark.parametrize(
    "version", ["3.5.2", pytest.param("3.9.1", marks=pytest.mark.slow), "4.3.1"]
)
@pytest.mark.parametrize(
    ("transactions", "faults", "expected"),
    [
        ({}, [], ("impossible", "impossible")),
        ({}, [NO_FAULT], ("impossible", "impossible")),
        ({"zombie_in": 2}, [], ("impossible", "impossible")),
        ({"zombie_in": 2, "successor": "new"}, [], ("impossible", "possible")),
        ({"crash_in": 2, "successor": "new"}, [], ("impossible", "impossible")),
    ],
)
def test_predictions_for_transactions(version, transactions, faults, expected):
    found = predictions(scenario(*faults, version=version, transactions=transactions))
    anomalies = ("aborted-read", "zombie-commit", "hanging-transaction")
    assert found == dict(zip(anomalies, (*expected, "impossible"), strict=True))


@pytest.mark.parametrize(
    ("fault", "aborted_read"),
    [
        # Its requests end with its connections.
        (KILL, "impossible"),
        ({"fault": "restart", "target": 1}, "impossible"),
        # KAFKA-17754: a request waits while its producer repeats it.
        ({"fault": "pause", "target": 1}, "possible"),
        ({"fault": "isolate", "target": 1}, "possible"),
        # ... unless it waits for less time than the producer does.
        ({"fault": "pause", "target": 1, "heal_after": "15s"}, "impossible"),
        ({"fault": "isolate", "target": 1, "heal_after": "20s"}, "possible"),  # a late marker
        # Markers go from broker to broker.
        ({"fault": "isolate_replication", "target": 1}, "possible"),
        ({"fault": "isolate_replication", "target": 1, "heal_after": "5s"}, "impossible"),
    ],
)
def test_a_request_is_late_if_a_fault_holds_it_for_longer_than_its_sender_waits(
    fault, aborted_read
):
    assert predictions(scenario(fault, transactions={}))["aborted-read"] == aborted_read


@pytest.mark.parametrize(
    ("api", "direction", "action", "aborted_read"),
    [
        ("EndTxn", "request", "hold", "possible"),
        ("EndTxn", "request", "drop", "impossible"),
        ("EndTxn", "response", "hold", "impossible"),
        ("WriteTxnMarkers", "request", "hold", "possible"),
        ("OffsetCommit", "request", "delay", "impossible"),
    ],
)
def test_late_end_differs_from_other_late_messages(api, direction, action, aborted_read):
    link = {"fault": "link", "target": "all", "api": api, "direction": direction, "action": action}
    if action == "delay":
        link["delay"] = "90s"
    asked = scenario(link, transactions={}, consumers={"billing": {"commit": "before"}})
    found = predictions(asked)
    assert found["aborted-read"] == aborted_read
    if api == "EndTxn" and aborted_read == "possible":
        assert reasons(asked)["aborted-read"] == "in 9 steps, by a late request (link); KAFKA-17754"
    # What is behind a held request on its connection is late, too.
    held = (api, direction, action) == ("EndTxn", "request", "hold")
    assert ("a late commit" in reasons(asked)["unprocessed"]) == (api == "OffsetCommit" or held)


@pytest.mark.parametrize(
    ("version", "verification", "hangs"),
    [
        ("3.4.1", True, "possible"),
        ("3.5.2", False, "possible"),
        ("3.6.2", True, "impossible"),
        ("3.9.1", True, "impossible"),
        ("3.9.1", False, "possible"),
        ("4.3.1", True, "impossible"),
    ],
)
def test_a_late_record_hangs_unless_brokers_ask_the_coordinator_first(version, verification, hangs):
    link = {"fault": "link", "target": "all", "api": "Produce", "direction": "request"}
    asked = scenario({**link, "action": "hold"}, version=version, transactions={})
    asked.cluster.settings["transaction.partition.verification.enable"] = verification
    assert predictions(asked)["hanging-transaction"] == hangs
    if hangs == "possible":
        reason = "in 6 steps, by a late request (link); KIP-890"
        assert reasons(asked)["hanging-transaction"] == reason
    # A record that is not late does not hang.
    asked = scenario({**link, "action": "drop"}, version=version, transactions={})
    assert predictions(asked)["hanging-transaction"] == "impossible"


@pytest.mark.parametrize(
    ("version", "replicas", "faults", "hangs"),
    [
        ("4.3.0", 1, [KILL], "possible"),
        ("4.2.1", 1, [KILL], "impossible"),
        ("4.3.0", 2, [KILL], "impossible"),
        ("4.3.0", 2, [KILL, {"fault": "kill", "target": 2}], "possible"),
        # The other replica may have left the ISR.
        ("4.3.0", 2, [{"fault": "isolate", "target": 1}], "possible"),
        ("4.3.0", 1, [], "impossible"),
    ],
)
def test_a_transaction_hangs_where_no_replica_may_lead(version, replicas, faults, hangs):
    asked = scenario(*faults, version=version, transactions={})
    asked.topics["orders"] = asked.topics["orders"].model_copy(
        update={"replication_factor": replicas, "settings": {"min.insync.replicas": 1}}
    )
    found = predictions(asked)
    assert (found["hanging-transaction"], found.get("lost", "impossible")) == (hangs, hangs)
    if hangs == "possible":
        assert reasons(asked)["hanging-transaction"].endswith("; KAFKA-20734")


def test_zombie_commit_depends_on_losses_of_the_coordinators_partition():
    zombies = scenario(KILL, transactions={"zombie_in": 2})
    assert set(predictions(zombies).values()) == {"impossible"}
    lossy = predictions(zombies, "__transaction_state")
    assert set(lossy.values()) == {"possible"}
    assert (
        "records that the coordinator's partition loses"
        in (reasons(zombies, "__transaction_state")["zombie-commit"])
    )
    # An abort marker that is lost leaves its records to the next commit. A commit marker that is
    # lost leaves them to an operator, who can only abort.
    assert predictions(zombies, "orders") == {
        "lost": "possible",
        "aborted-read": "possible",
        "zombie-commit": "impossible",
        "hanging-transaction": "possible",
    }
    # Without a fault nothing is lost, whatever the settings are.
    assert "possible" not in predictions(scenario(transactions={}), "__transaction_state").values()


def test_read_uncommitted_reads_aborted_records():
    group = {"settings": {"isolation.level": "read_uncommitted"}}
    asked = scenario(transactions={"abort": "30%"}, consumers={"billing": group})
    assert predictions(asked)["aborted-read"] == predictions(asked)["read-then-gone"] == "possible"
    group["settings"]["isolation.level"] = "read_committed"
    asked = scenario(transactions={"abort": "30%"}, consumers={"billing": group})
    assert predictions(asked)["aborted-read"] == "impossible"
    assert "read-then-gone" not in predictions(asked)


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_a_share_group_reads_aborted_records_unless_its_own_setting_excludes_them(client):
    """By default a client reads what its library does; a share group by its setting."""
    group = {"via": "share", "client": client}
    asked = {"version": "4.4.0", "transactions": {"abort": "30%"}}
    found = predictions(scenario(**asked, consumers={"workers": group}))
    assert found["aborted-read"] == found["read-then-gone"] == "possible"
    group["group_settings"] = {"share.isolation.level": "read_committed"}
    found = predictions(scenario(**asked, consumers={"workers": group}))
    assert found["aborted-read"] == "impossible"
    assert "read-then-gone" not in found


def test_a_producer_that_goes_on_beside_its_successor_may_be_a_zombie():
    pause = {"fault": "pause_client", "client": "producers", "successor": True}
    new = {"successor": "new"}
    assert predictions(scenario(pause, transactions=new))["zombie-commit"] == "possible"
    assert predictions(scenario(pause, transactions={}))["zombie-commit"] == "impossible"
    crash = {"fault": "crash_client", "client": "producers"}
    assert predictions(scenario(crash, transactions=new))["zombie-commit"] == "impossible"


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        # A member that is removed from the group still processes what it has polled.
        ("before", ("impossible", "possible")),
        ("after", ("impossible", "possible")),
        ("auto", ("impossible", "possible")),
        ("never", ("impossible", "possible")),
        ("transaction", ("impossible", "impossible")),
    ],
)
def test_predictions_for_a_group(commit, expected):
    group = {"commit": commit, "into": ["invoices"] if commit == "transaction" else []}
    found = predictions(scenario(consumers={"billing": group}))
    assert found == dict(zip(("unprocessed", "reprocessed"), expected, strict=True))


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        ("before", ("certain", "impossible")),
        ("after", ("impossible", "certain")),
        ("never", ("impossible", "certain")),
        ("auto", ("possible", "possible")),
        ("transaction", ("impossible", "impossible")),
    ],
)
def test_predictions_for_a_group_with_a_member_that_is_killed(commit, expected):
    into = ["invoices"] if commit == "transaction" else []
    group = {"commit": commit, "into": into, "via": "assign", "crash_after": 100}
    found = predictions(scenario(consumers={"billing": group}))
    assert found == dict(zip(("unprocessed", "reprocessed"), expected, strict=True))
    # With auto.offset.reset=latest the next member may begin anywhere.
    group["settings"] = {"auto.offset.reset": "latest"}
    assert "certain" not in predictions(scenario(consumers={"billing": group})).values()


CRASH = {"fault": "crash_client", "client": "consumers"}
MOVE = {"fault": "preferred_election", "topic": "__consumer_offsets"}
ADD = {"fault": "add_partitions", "topic": "orders", "partitions": 4}


@pytest.mark.parametrize(
    ("group", "faults", "unprocessed"),
    [
        ({"commit": "after"}, [], "impossible"),
        ({"commit": "before"}, [CRASH], "possible"),
        ({"commit": "after"}, [CRASH], "impossible"),
        ({"commit": "after", "via": "assign"}, [PAUSE], "impossible"),
        ({"commit": "after", "via": "assign"}, [PAUSE | {"successor": True}], "possible"),
        ({"commit": "after"}, [PAUSE], "impossible"),
        ({"commit": "after"}, [KILL], "impossible"),
        ({"commit": "after", "settings": {"auto.offset.reset": "latest"}}, [], "possible"),
        ({"commit": "after"}, [ADD], "impossible"),
        ({"commit": "after", "via": "assign"}, [], "impossible"),
        ({"commit": "after", "via": "assign"}, [ADD], "possible"),
    ],
)
def test_predictions_of_unprocessed_records(group, faults, unprocessed):
    assert (
        predictions(scenario(*faults, consumers={"billing": group}))["unprocessed"] == unprocessed
    )


@pytest.mark.parametrize(
    ("to", "begins", "unprocessed", "replayed"),
    [
        ("latest", "earliest", "possible", "impossible"),
        ("earliest", "earliest", "impossible", "possible"),
        (0, "earliest", "impossible", "possible"),
        (0, "latest", "possible", "possible"),
        (9, "earliest", "possible", "possible"),
        (None, "earliest", "impossible", "possible"),
        (None, "latest", "possible", "impossible"),
    ],
)
def test_a_reset_goes_back_or_passes_over_records(to, begins, unprocessed, replayed):
    reset = {"fault": "delete_offsets", "group": "billing", "topic": "orders"}
    if to is not None:
        reset |= {"fault": "reset_offsets", "to": to}
    group = {"settings": {"auto.offset.reset": begins}}
    found = predictions(scenario(CRASH, reset, consumers={"billing": group}))
    assert (found["unprocessed"], found["replayed"]) == (unprocessed, replayed)
    without = predictions(scenario(CRASH, consumers={"billing": group}))
    assert "replayed" not in without
    assert predictions(scenario(CRASH, reset, consumers={"billing": group, "other": {}})) == {
        **found,
        **predictions(scenario(CRASH, consumers={"other": {}})),
    }


def test_a_group_at_latest_is_predicted_to_skip_records_of_added_partitions():
    late = {"settings": {"auto.offset.reset": "latest"}}
    reason = "what is written to a partition that add_partitions adds before it gets that partition"
    assert reason in reasons(scenario(ADD, consumers={"billing": late}))["unprocessed"]
    assert reason not in reasons(scenario(consumers={"billing": late}))["unprocessed"]


@pytest.mark.parametrize(
    ("reset", "lossy", "expected"),
    [
        ("earliest", [], ("impossible", "impossible")),
        # B27: the group goes back. It skips if an abort marker is lost before an offset.
        ("earliest", ["__consumer_offsets"], ("possible", "possible")),
        # Forwarded records that are lost were not processed, and aborted ones may be read.
        ("earliest", ["invoices"], ("possible", "possible")),
        # A committed offset above the end of a shorter log skips what is written there.
        ("earliest", ["orders"], ("possible", "possible")),
        ("latest", [], ("possible", "impossible")),
    ],
)
def test_b27_a_pipeline_is_exact_while_no_partition_that_it_needs_is_lossy(reset, lossy, expected):
    settings = {"auto.offset.reset": reset}
    group = {"commit": "transaction", "into": ["invoices"], "settings": settings}
    found = predictions(scenario(KILL, CRASH, consumers={"billing": group}), *lossy)
    assert tuple(found.values()) == expected


def test_lost_offsets_do_not_affect_a_running_member():
    after = {"commit": "after", "via": "assign"}
    assert predictions(scenario(KILL, consumers={"billing": after}), "__consumer_offsets") == {
        "unprocessed": "impossible",
        "reprocessed": "impossible",
    }


@pytest.mark.parametrize(
    ("version", "fault", "reprocessed"),
    [
        ("3.9.2", MOVE, "impossible"),
        ("4.1.2", MOVE, "possible"),
        ("4.1.2", CRASH, "impossible"),  # the coordinator stays
        ("4.4.0", MOVE, "impossible"),
        *(
            pytest.param(version, MOVE, reprocessed, marks=pytest.mark.slow)
            for version, reprocessed in (
                *(("4.0.0", "possible"), ("4.2.1", "possible"), ("4.2.2", "impossible")),
                *(("4.3.0", "possible"), ("4.3.1", "impossible")),
            )
        ),
    ],
)
def test_b59_a_coordinator_that_moves_may_ack_a_commit_that_was_truncated(
    version, fault, reprocessed
):
    group = {"commit": "transaction", "into": ["invoices"]}
    asked = scenario(fault, CRASH, version=version, consumers={"billing": group})
    assert predictions(asked)["reprocessed"] == reprocessed
    said = "committed offsets that the coordinator's partition loses (preferred_election; "
    assert (f"{said}KAFKA-20634)" in reasons(asked)["reprocessed"]) == (reprocessed == "possible")


def test_forwarding_without_transactions_repeats_records_without_ack():
    group = {"commit": "before", "into": ["invoices"], "via": "assign"}
    assert predictions(scenario(consumers={"billing": group}))["reprocessed"] == "impossible"
    assert predictions(scenario(KILL, consumers={"billing": group}))["reprocessed"] == "possible"


def test_each_group_waits_as_long_as_its_own_client_does():
    """A Java consumer repeats a request after 30 s, its forwarder after 10 s; librdkafka 60 s."""

    def late(client: object, seconds: int, **group: Any) -> bool:
        held = {"fault": "isolate", "target": 1, "heal_after": f"{seconds}s"}
        groups = {"billing": {"client": client, "via": "assign", **group}}
        return " late " in " ".join(reasons(scenario(held, consumers=groups)).values())

    commits = {"commit": "after"}
    assert [late("java", s, **commits) for s in (15, 25)] == [False, True]
    assert [late("librdkafka", s, **commits) for s in (25, 55)] == [False, True]
    forwards = {"commit": "transaction", "into": ["invoices"]}
    assert late({"java": "3.9.1"}, 5, **forwards)  # transaction protocol 1
    assert not late("librdkafka", 5, **forwards)


def test_only_a_member_without_a_session_is_misled_by_a_deposed_coordinator():
    cut = {"fault": "isolate", "target": 1, "heal_after": "20s"}
    group = {"commit": "before", "via": "assign", "crash_after": 100}
    assert (
        "deposed coordinator" in reasons(scenario(cut, consumers={"billing": group}))["reprocessed"]
    )
    group["via"] = "subscribe"
    found = reasons(scenario(cut, consumers={"billing": group}))["reprocessed"]
    assert "deposed coordinator" not in found


def test_coordinators_write_with_acks_all_to_internal_topics():
    asked: dict[str, TopicSpec] = {}

    def remember(one: Scenario) -> bool:
        asked[one.workload.topic] = one.topic
        assert one.workload.settings.acks == "all"
        return False

    groups = {"billing": {"commit": "after"}}
    list(predict_clients(scenario(KILL, transactions={}, consumers=groups), remember))
    state, offsets = asked["__transaction_state"], asked["__consumer_offsets"]
    assert (state.replication_factor, state.min_insync_replicas) == (3, 2)
    assert (offsets.replication_factor, offsets.min_insync_replicas) == (3, 1)
    assert not state.unclean_leader_election
    assert not offsets.unclean_leader_election


def test_the_strongest_prediction_of_several_groups_counts():
    groups = {
        "billing": {"commit": "after"},
        "audit": {"commit": "before", "settings": {"auto.offset.reset": "latest"}},
    }
    record = predict(scenario(consumers=groups))
    assert record.predicted["unprocessed"] == "possible"
    assert record.prediction.reasons["unprocessed"].startswith("audit: ")


def test_a_fault_of_unknown_effects_excludes_nothing():
    command = {"fault": "command", "inject": "true", "verify": "true", "heal": "true", "target": 1}
    asked = scenario(command, transactions={"zombie_in": 2}, consumers={"billing": {}})
    assert set(
        predictions(asked, "__transaction_state", "__consumer_offsets", "orders").values()
    ) == {"possible"}


@pytest.mark.parametrize(
    ("direction", "lost"), [("request", "possible"), ("response", "impossible")]
)
def test_b13_a_late_abort_may_lose_the_beginning_of_a_committed_transaction(direction, lost):
    from ackproof.scenario.loader import load
    from ackproof.scenario.shipped import find

    path = find("B13")
    assert path is not None
    arms = {one.name: one.scenario for one in load(path)}
    name = {"request": "abort", "response": "response"}[direction]
    assert predict(arms[f"{name} delayed"]).predicted["lost"] == lost


@pytest.mark.parametrize(
    ("kafka", "client", "features", "of_end", "of_marker"),
    [
        ("4.3.1", "4.3.1", {}, None, None),
        ("4.1.2", "4.3.1", {}, None, "possible"),  # KIP-1228 came with brokers of 4.2
        ("4.3.1", "3.9.1", {}, "possible", "possible"),
        ("3.9.1", "4.3.1", {}, "possible", "possible"),
        ("4.3.1", "4.3.1", {"transaction.version": 1}, "possible", "possible"),
    ],
)
def test_transaction_protocol_2_refuses_late_requests(kafka, client, features, of_end, of_marker):
    def lost(api: str) -> str | None:
        link = {"fault": "link", "target": "all", "api": api, "direction": "request"}
        asked = scenario(
            {**link, "action": "hold"}, version=kafka, transactions={}, client={"java": client}
        )
        cluster = asked.cluster.model_copy(update={"features": features})
        return predictions(asked.model_copy(update={"cluster": cluster})).get("lost")

    held = lost("EndTxn")  # with everything behind it, but markers have connections of their own
    assert (held, lost("WriteTxnMarkers")) == (of_end, of_marker)
